"""THE RELEASE. Certify the noise, charge the ledger, draw: the only way from private sums to anything public."""

import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import BudgetError, InputError, TrigmechError, UncertainChargeError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features, FunctionSet
from trigmech.functions.index import FunctionIndex
from trigmech.measurement.moments import PrivateMoments, measure
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.planning.design import Block, MomentDesign
from trigmech.privacy.budget import Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import Noise, SimulatedNoise, uniform

Array = NDArray[np.float64]

logger = logging.getLogger(__name__)

# What the noise's own proof may say more than a charge, relatively: both round, and OpenDP upwards.
CERTIFIED_WITHIN = 1e-9
# Standard deviations beyond this overflow in what is computed of them.
LARGEST_DEVIATION = 1e100


# What a private selection releases: for each name some texts.
Selected = dict[str, tuple[str, ...]]


class Rounds(Protocol):
    """Keeps what a run releases where the end of its process does not lose it: :mod:`trigmech.storage.rounds_file`."""

    def begin(self) -> bool:
        """Be there before the first charge; return whether nothing was there before."""
        ...

    def remove(self) -> None:
        """Be gone."""
        ...

    def known(self, charge: Charge, shape: tuple[int, ...] | None) -> Array | Selected | None:
        """Return what the next draw released before the run was broken off, or None."""
        ...

    def keep(self, charge: Charge, released: Array | Selected) -> None:
        """Keep what a draw released; if this returns, no process will draw it again."""
        ...


class Session:
    """The release boundary of one run: nothing private becomes public but by its methods.

    Parameters
    ----------
    ledger : Ledger
        Every charge is recorded there before its noise is drawn.
    noise : Noise
    rounds : Rounds, optional
        What is drawn is kept there before it is used, and what is there already is not drawn again.
    """

    def __init__(self, ledger: Ledger, noise: Noise, rounds: Rounds | None = None) -> None:
        self._ledger, self._noise, self._rounds = ledger, noise, rounds
        # What is paid for and not drawn yet.
        self._paid: list[list[Any]] = []
        # What is charged together with the first of it, and of what is paid for then that which has not come up yet.
        self._together: tuple[Charge, ...] = ()
        self._ahead: list[list[Any]] = []

    def __repr__(self) -> str:
        return f"Session({'simulated' if self._noise.simulated else 'hardened'} noise)"

    def check(self, *charges: Charge) -> None:
        """Raise a BudgetError if a charge is too small by the noise's own proof, or if it cannot be drawn.

        Nothing is recorded. Simulated noise has no such proof, but of neither kind is anything drawn for a charge that
        is a claim of another tool; nor for a threshold, which goes with the noise of another charge.
        """
        for charge in charges:
            if charge.law == "other":
                raise BudgetError(f"{charge.purpose}: what another tool claims of its release cannot be drawn here")
            if not self._noise.simulated and charge.law != "threshold":
                self._certify(charge)

    def charge_together(self, *charges: Charge) -> None:
        """Let the first of some charges that comes up bring all of them, so that no later round can be refused."""
        self._together = charges

    def charge(self, *charges: Charge) -> None:
        """Record charges in the ledger, all or none, after :meth:`check`; but for those that were recorded ahead.

        Raises
        ------
        BudgetError
            By :meth:`check`, or if the charges would exceed the budget; nothing is recorded then.
        InputError
            If the ledger or the file of the rounds cannot be written; likewise.
        UncertainChargeError
            If it is not known whether they are recorded. Nothing may be drawn for them by this object.
        """
        if self._together and charges[0] in self._together:
            ahead, self._together = self._together, ()
            before = len(self._paid)
            self._record(*ahead)
            self._ahead = self._paid[before:]
        due = []
        for charge in charges:
            entry = next((entry for entry in self._ahead if entry[0] == charge), None)
            if entry is None:
                due.append(charge)
                continue
            # Draws are known by the very charge that is given for them.
            self._ahead = [other for other in self._ahead if other is not entry]
            entry[0] = charge
        if due:
            self._record(*due)

    def _record(self, *charges: Charge) -> None:
        self.check(*charges)
        begun = self._rounds is not None and self._rounds.begin()
        try:
            self._ledger.charge(*charges)
        except UncertainChargeError:
            # The run may have been charged: whoever goes on with it looks for what it was charged.
            raise
        except TrigmechError:
            if begun and self._rounds is not None:
                # A file that stays has nothing but its first line, and a run that is not charged.
                with suppress(OSError):
                    self._rounds.remove()
            raise
        # Coordinates that are counted one by one are drawn together.
        self._paid += [[charge, 1 if charge.norm == "each" else charge.count] for charge in charges
                       if charge.law != "threshold"]

    def draw(self, values: Array, charge: Charge) -> Array:
        """Return private values with the noise of a charge that is recorded: each of its draws can be made once.

        Parameters
        ----------
        values : ndarray, private
            That move by at most the charge's sensitivity when a row is replaced.
        charge : Charge

        Raises
        ------
        BudgetError
            If the charge was not recorded, or all of its draws are made.
        """
        released = self._released(values, charge, lambda noisy: noisy, np.shape(values))
        return np.asarray(released)

    def select(self, values: Array, charge: Charge, chosen: Callable[[Array], Selected]) -> Selected:
        """Return what is chosen by values with the noise of a charge, each draw once; the noisy values stay private.

        Parameters
        ----------
        values : ndarray, private
            Their number is private too.
        charge : Charge
        chosen : callable
            Of the noisy values, to what is released.
        """
        released = self._released(values, charge, chosen, None)
        return released if isinstance(released, dict) else {}

    def _released(self, values: Array, charge: Charge, public: Callable[[Array], Array | Selected],
                  shape: tuple[int, ...] | None) -> Array | Selected:
        paid = next((entry for entry in self._paid if entry[0] is charge and entry[1] > 0), None)
        if paid is None:
            raise BudgetError(f"{charge.purpose}: the draw was not charged before, or was made already")
        paid[1] -= 1
        known = None if self._rounds is None else self._rounds.known(charge, shape)
        if known is not None:
            return known
        draws = {"laplace": self._noise.laplace, "gaussian": self._noise.gaussian, "linf": self._noise.linf}
        released = public(draws[charge.law](values, charge.scale))
        if self._rounds is not None:
            self._rounds.keep(charge, released)
        return released

    def uniform(self, size: int) -> Array:
        """Return numbers (size,) of [0, 1) that decide which row of a person counts: not noise, and never shown."""
        if isinstance(self._noise, SimulatedNoise):
            return self._noise.rng.random(size)
        return uniform(size)

    def release(self, rows: PrivateRows, design: MomentDesign) -> Release:
        """Measure the functions of a design on private rows and release their means; see :meth:`release_moments`.

        Raises
        ------
        InputError
            If the rows break a rule of :func:`trigmech.measurement.moments.measure`; nothing is charged then.
        """
        return self.release_moments(measure(rows, design.features), design.features, design.blocks, design.index)

    def release_moments(self, moments: PrivateMoments, features: FunctionSet, blocks: Sequence[Block],
                        index: FunctionIndex | None = None) -> Release:
        """Release weighted means, each block of them by one draw.

        Parameters
        ----------
        moments : PrivateMoments
        features : FunctionSet
            That the moments are of, and whose sensitivity is charged.
        blocks : sequence of Block
            Consecutive, together all K functions; a design has them.
        index : FunctionIndex, optional
            What the functions are. Default: functions of numbers alone.

        Returns
        -------
        Release

        Raises
        ------
        InputError
            If the moments are of other functions; nothing is charged or drawn then.
        BudgetError
            If the blocks do not fit, the noise's own proof says that one costs more than its charge, or together they
            would exceed the ledger's budget; nothing is charged or drawn then.

        Notes
        -----
        Privacy: the sensitivities of the weighted means are proved where the design was made; dividing by the public
        weights afterwards is post-processing. All blocks are charged together, before the first draw.
        """
        check_functions(moments, features)
        places = [range(features.K)[block.members] for block in blocks]
        if [k for place in places for k in place] != list(range(features.K)) or any(
                block.weights.shape != (len(place),) for block, place in zip(blocks, places, strict=True)):
            raise BudgetError(f"the blocks must hold {features.K} functions together, one after another, and a weight "
                              "each")
        for block in blocks:
            if not block.deviation <= LARGEST_DEVIATION * float(block.weights.min()):
                raise BudgetError(f"{block.charge.purpose}: noise of a deviation above {LARGEST_DEVIATION:g} leaves "
                                  "nothing of a mean")
        # Whatever could raise comes before the charge.
        index = index or FunctionIndex.of(features)
        deviations = np.concatenate([block.deviation / block.weights for block in blocks])
        self.charge(*(block.charge for block in blocks))
        exact = moments.basis_sum / moments.n
        means = [self.draw(exact[block.members] * block.weights, block.charge) / block.weights for block in blocks]
        logger.info("drawn: %s noise of %d moments", blocks[0].charge.law, features.K)
        return Release(moments.n, features, np.concatenate(means), deviations, index)

    def _certify(self, charge: Charge) -> None:
        """Refuse real noise that costs more by its own proof (OpenDP's privacy map) than the charge does."""
        if charge.norm == "each":
            # Of one vector whose entries each move by the sensitivity.
            proved = self._noise.loss(charge.law, charge.scale, charge.count * charge.sensitivity)
        else:
            proved = charge.count * self._noise.loss(charge.law, charge.scale, charge.sensitivity)
        charged = charge.mu * charge.mu / 2.0 if charge.law == "gaussian" else charge.pure_epsilon
        # The negation also refuses what is not a number. What lies below the smallest normal float is rounded coarsely.
        if not proved <= charged * (1.0 + CERTIFIED_WITHIN) + sys.float_info.min:
            kind = "rho" if charge.law == "gaussian" else "epsilon"
            raise BudgetError(f"{charge.purpose}: the {charge.law} noise of scale {charge.scale:g} costs {kind} = "
                              f"{proved:.9g} by its own proof, more than the {charged:.9g} of its charge")


def check_functions(moments: PrivateMoments, functions: FunctionSet) -> None:
    """Refuse to release sums as means of functions that they are not of: as many may be other ones."""
    def described(those: FunctionSet) -> list[NDArray[Any]]:
        if isinstance(those, Features):
            return [those.basis.index, *those.profiles]
        return [those.index] if isinstance(those, ChebyshevBasis) else []

    first, second = described(moments.functions), described(functions)
    same = len(first) == len(second) > 0 and all(map(np.array_equal, first, second))
    if not (same or moments.functions is functions):
        raise InputError("the moments were measured of other functions than those that are to be released")
