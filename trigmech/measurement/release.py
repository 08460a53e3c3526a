"""THE RELEASE. Certify the noise, charge the ledger, draw. Private sums become public only here."""

import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from trigmech._arrays import Array
from trigmech.domain import Domain
from trigmech.errors import BudgetError, TrigmechError, UncertainChargeError
from trigmech.measurement.exact import exact_sums
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.planning.design import Round
from trigmech.privacy.budget import Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import Noise, SimulatedNoise, drawn, uniform
from trigmech.queries.base import Measurement, Query, parted, sensitivity_of

Q = TypeVar("Q", bound=Query)

logger = logging.getLogger(__name__)

# The noise's own proof may exceed a charge by this factor: both round, and OpenDP rounds upwards.
CERTIFIED_WITHIN = 1e-9
# Larger standard deviations would overflow in later computations.
LARGEST_DEVIATION = 1e100
# A sensitivity that is computed in another order may differ by this factor. Every scale is raised by more.
ROUNDED_HERE = 1.0 + 1e-13

# The result of a private selection: some texts for each name.
Selected = dict[str, tuple[str, ...]]


class Rounds(Protocol):
    """Keeps the released values of a run after its process ends; see :mod:`trigmech.storage.rounds_file`."""

    def begin(self) -> bool:
        """Exist before the first charge. Return whether this call created the file."""

    def remove(self) -> None:
        """Remove the file."""

    def known(self, charge: Charge, shape: tuple[int, ...] | None) -> Array | Selected | None:
        """Return the values that the next draw released before an interruption, or None."""

    def keep(self, charge: Charge, released: Array | Selected) -> None:
        """Keep the values of a draw. Once this returns, no process draws them again."""


class Planned(Protocol):
    """A design whose rounds are all released together."""

    @property
    def rounds(self) -> tuple[Round, ...]:
        ...


class Session:
    """The release boundary of one run: only its methods make private values public.

    Parameters
    ----------
    ledger : Ledger
        Every charge is recorded there before its noise is drawn.
    noise : Noise
    rounds : Rounds, optional
        The file keeps each draw before it is used. A draw that the file holds already is not repeated.
    """

    def __init__(self, ledger: Ledger, noise: Noise, rounds: Rounds | None = None) -> None:
        self._ledger, self._noise, self._rounds = ledger, noise, rounds
        # Paid charges, the number of draws that each has left, and the scale of the noise.
        self._paid: list[list[Any]] = []
        # Declared charges that were not requested yet; None if nothing was declared.
        self._declared: list[Charge] | None = None
        # Charges that are recorded together with the first of them; and those of them that were not requested yet.
        self._together: tuple[Charge, ...] = ()
        self._ahead: list[list[Any]] = []

    def __repr__(self) -> str:
        return f"Session({'simulated' if self._noise.simulated else 'hardened'} noise)"

    def check(self, *charges: Charge) -> None:
        """Raise a BudgetError if a charge is below the cost that the noise's own proof gives, or if it cannot be drawn.

        Nothing is recorded. Simulated noise has no such proof. A charge that is a claim of another tool cannot be
        drawn. A threshold needs no draw, because it uses the noise of another charge.
        """
        for charge in charges:
            if charge.law == "other":
                raise BudgetError(f"{charge.purpose}: the charge is a claim of another tool, so it cannot pay for a "
                                  "draw")
            if not self._noise.simulated and charge.law != "threshold":
                self._certify(charge)

    def declare(self, *charges: Charge) -> None:
        """Allow only these charges from now on, each once.

        A requested charge is paid for by an equal declared charge. If there is no equal one, a declared charge of the
        same law, norm and count pays for it, which must cost as much or more. The ledger records the declared charge.
        """
        self._declared = list(charges)

    def check_declared(self, *charges: Charge) -> None:
        """Raise a BudgetError if no declared charges pay for these; nothing is recorded."""
        self._matched(charges)

    def charge_together(self, *charges: Charge) -> None:
        """Record all of these charges with the first of them, so that no later round can be refused."""
        self._together = charges

    def charge(self, *charges: Charge) -> None:
        """Check charges and record all of them in the ledger, except those that were recorded ahead.

        Raises
        ------
        BudgetError
            By :meth:`check`; or if the charges would exceed the budget or are not declared. Then nothing is recorded.
        InputError
            If the ledger or the file of the rounds cannot be written. Then nothing is recorded.
        UncertainChargeError
            If it is unknown whether the charges are recorded. This session cannot draw for them.
        """
        paying, scales, left = self._matched(charges)
        # The drawn noise may differ slightly from the recorded charge, so its own proof is checked too.
        asked = list(zip(charges, paying, scales, strict=True))
        self.check(*(replace(charge, scale=scale) for charge, declared, scale in asked if charge != declared))
        self._charge(*paying)
        if self._declared is not None:
            self._declared = left
        for charge, declared, scale in asked:
            # A draw is identified by the very object that was requested.
            entry = next((entry for entry in self._paid if entry[0] is declared and entry[1] > 0), None)
            if entry is not None:
                entry[0], entry[2] = charge, scale

    def _matched(self, charges: Sequence[Charge]) -> tuple[list[Charge], list[float], list[Charge]]:
        """Return the declared charges that pay for these, the scales of the noise, and the remaining charges."""
        if self._declared is None:
            return list(charges), [charge.scale for charge in charges], []
        left, found = list(self._declared), dict[int, tuple[Charge, float]]()
        # Equal charges are matched first: a cheaper request must not use up the charge of another one.
        for equal in (True, False):
            for k, charge in enumerate(charges):
                scales = {place: charge.scale_paid_by(declared)
                          for place, declared in enumerate(left) if k not in found and (charge == declared) == equal}
                enough = [place for place, scale in scales.items() if scale is not None]
                if enough:
                    cheapest = min(enough, key=lambda place: left[place].sensitivity / left[place].scale)
                    found[k] = left.pop(cheapest), float(scales[cheapest] or charge.scale)
        missed = next((charge for k, charge in enumerate(charges) if k not in found), None)
        if missed is not None:
            rest = ", ".join(f"{each.purpose} ({each.law} noise of scale {each.scale:.6g})" for each in left)
            raise BudgetError(f"{missed.purpose}: no remaining charge of the design pays for {missed.law} noise of "
                              f"scale {missed.scale:.6g} and sensitivity {missed.sensitivity:.6g} (remaining: "
                              f"{rest or 'none'}). A mechanism's plan must declare every charge of its run, at its "
                              "cost or a higher one")
        return [found[k][0] for k in range(len(charges))], [found[k][1] for k in range(len(charges))], left

    def _charge(self, *charges: Charge) -> None:
        """Record charges, except those that were recorded ahead."""
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
            # The run may have been charged. The file stays, and a continued run looks its charges up.
            raise
        except TrigmechError:
            if begun and self._rounds is not None:
                # If the file stays, it holds only its first line, and the run is not charged.
                with suppress(OSError):
                    self._rounds.remove()
            raise
        # A charge of norm "each" counts coordinates, and they are drawn together.
        self._paid += [[charge, 1 if charge.norm == "each" else charge.count, charge.scale] for charge in charges
                       if charge.law != "threshold"]

    def draw(self, values: Array, charge: Charge) -> Array:
        """Return private values with the noise of a recorded charge. Each of its draws can be made once.

        Parameters
        ----------
        values : ndarray, private
            They move by at most the charge's sensitivity when a row is replaced.
        charge : Charge

        Raises
        ------
        BudgetError
            If the charge was not recorded, or all of its draws were made.
        """
        released = self._released(values, charge, lambda noisy: noisy, np.shape(values))
        return np.asarray(released)

    def measured(self, rows: PrivateRows, asked: Sequence[Measurement[Q]],
                 charge: Charge) -> tuple[Measurement[Q], ...]:
        """Return measurements with values: the queries' means over the rows, with the noise of one draw.

        Parameters
        ----------
        rows : PrivateRows, private
        asked : sequence of Measurement
            Measurements without values. They may depend on earlier releases.
        charge : Charge
            A recorded charge.

        Raises
        ------
        BudgetError
            As :meth:`drawn`.
        """
        return self.drawn(asked, exact_sums(rows, [each.query for each in asked]), charge, rows.n)

    def drawn(self, asked: Sequence[Measurement[Q]], sums: Sequence[Array], charge: Charge,
              n: int) -> tuple[Measurement[Q], ...]:
        """Return measurements with values, from private exact sums over n persons; see :meth:`measured`.

        Raises
        ------
        BudgetError
            If the weighted vectors can move further than the charge's sensitivity; or as :meth:`draw`.
        """
        self._check_moves(asked, charge, n)
        noisy = self.draw(np.concatenate([each.vector(own, n) for each, own in zip(asked, sums, strict=True)]), charge)
        noise = charge.deviation(len(noisy))
        return tuple(each.drawn(own, noise, charge.law)
                     for each, own in zip(asked, parted(noisy, asked), strict=True))

    def choose(self, scores: Array, charge: Charge) -> tuple[int, ...]:
        """Return the places of the chosen scores, as many as the charge counts. No place is chosen twice.

        Parameters
        ----------
        scores : ndarray (K,), private
            Each moves by at most half the charge's sensitivity when a row is replaced.
        charge : Charge
            A recorded charge of law "exponential".
        """
        left, found = scores.astype(np.float64), list[int]()
        for _ in range(min(charge.count, len(scores))):
            found.append(int(self.draw(left, charge).argmax()))
            left[found[-1]] = -np.inf
        return tuple(found)

    def _check_moves(self, asked: Sequence[Measurement[Any]], charge: Charge, n: int) -> None:
        """Raise a BudgetError unless a charge pays for measurements of n persons. By their proofs it always does."""
        norm = "Linf" if charge.norm == "each" else charge.norm
        if not sensitivity_of(asked, norm, n, 1.0) <= charge.sensitivity * ROUNDED_HERE:
            raise BudgetError(f"{charge.purpose}: the planned numbers can move further than the charge allows")

    def select(self, values: Array, charge: Charge, chosen: Callable[[Array], Selected]) -> Selected:
        """Return a choice that a function makes from noisy values; the noisy values stay private.

        Parameters
        ----------
        values : ndarray, private
            Their number is private too.
        charge : Charge
        chosen : callable
            A function from the noisy values to the released choice.
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
        released = public(drawn(self._noise, charge.law, values, paid[2]))
        if self._rounds is not None:
            self._rounds.keep(charge, released)
        return released

    def uniform(self, size: int) -> Array:
        """Return numbers (size,) in [0, 1) that choose the row of a person that counts. They are never shown."""
        if isinstance(self._noise, SimulatedNoise):
            return self._noise.rng.random(size)
        return uniform(size)

    def release(self, rows: PrivateRows, design: Planned, domain: Domain | None = None) -> Release:
        """Release the means of queries over private rows. All rounds are charged together before the first draw.

        Parameters
        ----------
        rows : PrivateRows, private
        design : MomentDesign, or another design with rounds
            Each round is one draw.
        domain : Domain, optional
            The domain for which the design was made. Default: the domain of the rows, which includes found bounds.

        Raises
        ------
        InputError
            If the rows leave their domain, or their number differs from the stated one. Then nothing is charged.
        BudgetError
            As :meth:`released`.
        """
        sums = exact_sums(rows, [each.query for one in design.rounds for each in one.asked])
        return Release(rows.n, domain or rows.domain, self.released(design.rounds, sums, rows.n))

    def released(self, rounds: Sequence[Round], sums: Sequence[Array], n: int) -> tuple[Measurement[Any], ...]:
        """Return measurements with values, from private exact sums over n persons; see :meth:`release`.

        Raises
        ------
        BudgetError
            If a weighted vector can move further than its charge states, if a round costs more than its charge by the
            noise's own proof, or if all rounds exceed the ledger's budget. Then nothing is charged or drawn.

        Notes
        -----
        Privacy: the sensitivities of the weighted means are proved where the design is made. The division by the public
        weights afterwards is post-processing.
        """
        self.check(*(each.charge for each in rounds if each.charge.law == "other"))
        for each in rounds:
            if not each.deviations.max() <= LARGEST_DEVIATION:
                raise BudgetError(f"{each.charge.purpose}: noise with a standard deviation above {LARGEST_DEVIATION:g} "
                                  "hides a mean completely")
            self._check_moves(each.asked, each.charge, n)
        self.charge(*(each.charge for each in rounds))
        left, made = list(sums), list[Measurement[Any]]()
        for each in rounds:
            count = len(each.asked)
            made += self.drawn(each.asked, left[:count], each.charge, n)
            left = left[count:]
        logger.info("drawn: %s noise of %d numbers", rounds[0].charge.law, sum(each.size for each in rounds))
        return tuple(made)

    def _certify(self, charge: Charge) -> None:
        """Refuse real noise whose own proof (OpenDP's privacy map) gives a higher cost than the charge."""
        if charge.norm == "each":
            # One vector; each of its entries moves by the sensitivity.
            proved = self._noise.loss(charge.law, charge.scale, charge.count * charge.sensitivity)
        else:
            proved = charge.count * self._noise.loss(charge.law, charge.scale, charge.sensitivity)
        charged = charge.mu * charge.mu / 2.0 if charge.law == "gaussian" else charge.pure_epsilon
        # The negation also refuses NaN. Values below the smallest normal float are rounded coarsely.
        if not proved <= charged * (1.0 + CERTIFIED_WITHIN) + sys.float_info.min:
            kind = "rho" if charge.law == "gaussian" else "epsilon"
            raise BudgetError(f"{charge.purpose}: the {charge.law} noise of scale {charge.scale:g} costs {kind} = "
                              f"{proved:.9g} by its own proof, more than the {charged:.9g} of its charge")

