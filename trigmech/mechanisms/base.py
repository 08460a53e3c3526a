"""The three steps of a mechanism: a design from public facts, a session with the release, a reconstruction."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from trigmech._arrays import Array
from trigmech._html import html_table
from trigmech._validate import check_positive, numbers
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.functions.features import Features, FunctionSet, bounded
from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.planning.design import Agenda, Regime, Round, round_of
from trigmech.privacy.budget import Budget, Charge, shown_up
from trigmech.privacy.ledger_lock import new_run
from trigmech.queries.base import Measurement, sensitivity_of
from trigmech.queries.functions import Functions
from trigmech.reconstruction.pipeline import reconstruct
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.tables import reconstruct_table
from trigmech.schema.schema import Schema

FEWEST_POINTS, MOST_POINTS = 1_024, 50_000
# Most coordinates of all points: a continuous descent holds about twenty copies of them, and a file must hold them. By
# default there are fewer, so that the file has room for the measured numbers of a thousand categories and more.
MOST_COORDINATES, USUAL_COORDINATES = 100_000_000, 50_000_000


@dataclass(frozen=True)
class PublicFacts:
    """The facts that a mechanism may know before the release.

    Parameters
    ----------
    n : int
        Rows of the table, at least 2.
    domain : Domain
        The coordinates of a row.
    budget : Budget
        That the mechanism may spend.
    names : tuple of str
        The columns' names.
    """

    n: int
    domain: Domain
    budget: Budget
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class History:
    """The released numbers of the earlier rounds of a run. Public.

    round: The number of answered questions; 0 at the beginning of a run with shares.
    draws: The charge and the released numbers of each draw, in order.
    """

    run: str
    seed: int
    round: int
    draws: tuple[tuple[Charge, Array], ...] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Design:
    """The planned measurements and their cost. Public; :func:`trigmech.design` makes it.

    Parameters
    ----------
    mechanism : Mechanism
    facts : PublicFacts
    measured : MomentDesign or another design that the mechanism understands
        Functions, weights and noise.
    charges : tuple of Charge
        All charges of the measurements, which are charged together before the first draw. At the thesis's published
        scales one scale depends on released numbers, and its least possible value is charged.
    bounds : tuple of two Charge, or ()
        The charges of earlier rounds that find private bounds.
    categories : tuple of two Charge, or ()
        The charges of an earlier round that finds private categories. The rest is then a design for a table in which no
        category is found; a design of the same cost replaces it when categories are found.
    whole : Budget, optional
        The budget of the whole release. Default: the mechanism's budget.
    schema : Schema, optional
        The schema of the design; :func:`trigmech.design` adds it, and :func:`trigmech.measure` accepts only this one.
    bounds_share : float
        The part of the budget for private bounds and categories, as it was given to :func:`trigmech.design`.
    history : History, optional
        The earlier rounds of a table in parts; see :func:`trigmech.release_parts`.
    """

    mechanism: "Mechanism"
    facts: PublicFacts
    measured: Any
    charges: tuple[Charge, ...]
    bounds: tuple[()] | tuple[Charge, Charge] = ()
    whole: Budget | None = None
    schema: Schema | None = None
    categories: tuple[()] | tuple[Charge, Charge] = ()
    bounds_share: float = 0.1
    history: History | None = None

    @property
    def passes(self) -> int:
        """The largest number of questions of the whole run, one after another; each is one pass over the table."""
        return len(self.bounds) + bool(self.categories) + self.mechanism.passes(self)

    @property
    def schema_given(self) -> Schema:
        """The schema; an InputError is raised if the design has no schema."""
        if self.schema is None:
            raise InputError("the design has no schema; make a design with trigmech.design")
        return self.schema

    def after(self, history: History) -> "Design":
        """Return the design of the round after these released rounds."""
        return replace(self, history=history)

    def for_shares(self) -> "Design":
        """Return the design of one run with shares: call it once, for all parties.

        Each such design has its own identifier, so the shares of two runs cannot be added, and no run is opened twice;
        see :func:`trigmech.share_part`.
        """
        return self.after(History(new_run(), secrets.randbits(128), 0, ()))

    @property
    def n(self) -> int:
        """Rows of the table."""
        return self.facts.n

    @property
    def budget(self) -> Budget:
        """The budget of the whole release, including private bounds."""
        return self.whole or self.facts.budget

    @property
    def rounds(self) -> tuple[tuple[Charge, ...], ...]:
        """The charges of each pass over the table."""
        return (*((charge,) for charge in self.bounds), *([self.categories] if self.categories else []), self.charges)

    @property
    def all_charges(self) -> tuple[Charge, ...]:
        """The charges of all rounds."""
        return self.bounds + self.categories + self.charges

    def __str__(self) -> str:
        lines = [f"{type(self.mechanism).__name__} for {self.n:,} rows, {self.budget}:", str(self.measured),
                 "charged before the first draw:"]
        lines += [f"  {charge.purpose}: {charge.law} noise of scale {charge.scale:.3g}, sensitivity "
                  f"{shown_up(charge.sensitivity, 3)} in {charge.norm}"
                  + (f", {charge.count} times" if charge.count > 1 else "") if charge.law != "threshold" else
                  f"  {charge.purpose}: delta = {shown_up(charge.scale, 3)}" for charge in self.all_charges]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(charge.purpose, charge.law, f"{charge.scale:.3g}", shown_up(charge.sensitivity, 3), charge.norm,
                 charge.count) for charge in self.all_charges]
        inner = getattr(self.measured, "_repr_html_", lambda: "")()
        return inner + html_table(f"Charges for {self.n:,} rows, {self.budget}", rows,
                                  ("purpose", "noise", "scale", "sensitivity", "norm", "count"))


@dataclass(frozen=True, eq=False)
class Measured:
    """The measurements that are released at once."""

    rounds: tuple[Round, ...]

    def __str__(self) -> str:
        return "\n".join(f"means of {each.query.size} functions of the kind {each.query.kind}" for one in self.rounds
                         for each in one.asked)


class Mechanism(ABC):
    """Options and three steps: a design, a release, a reconstruction. Subclass it for a custom mechanism.

    Attributes
    ----------
    published : bool
        Whether the noise scales are the thesis's, which need not satisfy the budget. Default: False.
    approximate : bool
        False if the noise is pure even when the budget has a delta: then private bounds do not spend delta either.
    by_design : bool
        Whether :meth:`reconstruct` needs the design; for a loaded release it is then planned again.
    """

    published: bool = False
    approximate: ClassVar[bool] = True
    by_design: ClassVar[bool] = False

    @abstractmethod
    def plan(self, facts: PublicFacts) -> Design:
        """Return the design; raise an error for anything that must be refused, before anything is charged."""

    def plan_again(self, facts: PublicFacts, charges: Sequence[Charge]) -> Design | None:
        """Return the design of a release with these charges; None if this mechanism would charge something else.

        Files do not hold designs, so that of a loaded release is planned again. The charges of private bounds and
        categories come before the mechanism's.
        """
        made = self.plan(facts)
        # A scale that depends on released numbers is planned as its floor.
        charged = tuple(charge if charge.floor is None else replace(charge, scale=charge.floor)
                        for charge in charges[-len(made.charges) :])
        return made if made.charges == charged else None

    def agenda(self, design: Design) -> Agenda:
        """Return the known facts about the release of a design. The default is for designs with rounds of measurements.

        Raises
        ------
        InputError
            If the mechanism does not know its noise before the release.
        """
        rounds: tuple[Round, ...] | None = getattr(design.measured, "rounds", None)
        if rounds is None:
            raise InputError(f"{type(self).__name__} does not tell its noise before a release")
        return Agenda(tuple(each for one in rounds for each in one.planned), str(design.measured))

    def passes(self, design: Design) -> int:
        """Return the largest number of questions that :meth:`run` asks, one after another."""
        return 1

    def most_points(self, n: int, d: int) -> int:
        """Return the largest number of points of d coordinates that :meth:`reconstruct` makes for n rows.

        A design is refused, before anything is charged, if a file has no room for them. Default: the number of points
        that :meth:`reconstruct` makes by default.
        """
        return points_of(n, d)

    def equip(self, facts: PublicFacts, functions: FunctionSet, diameter: float, weights: Array | None = None, *,
              evaluation_error: float | None = None, proof: str = "its-mechanism") -> Design:
        """Return the design that releases weighted means of functions with the noise that the budget allows.

        Gaussian noise for delta > 0, unless the mechanism is not ``approximate``; else Laplace noise.

        Parameters
        ----------
        facts : PublicFacts
        functions : FunctionSet
            K functions with values in [-1, 1], such as :class:`trigmech.Features` or a custom object.
        diameter : float
            The largest distance between the weighted values of two rows, (w_1 f_1(x), ..., w_K f_K(x)) and those of y:
            in L2 for Gaussian noise, in L1 for Laplace noise. **You must prove it**; 2 |w| in that norm is valid.
        weights : ndarray (K,), optional
            Each mean is multiplied by its weight before the noise is added, and divided by it afterwards. Default: 1.
        evaluation_error : float, optional
            The largest error of a computed value of a function. Required for custom functions.
        proof : str
            The name of the diameter's proof, for the ledger.

        Raises
        ------
        InputError, BudgetError
            If the weights are not K positive numbers, the diameter or the error is not positive, a required error is
            not given, or custom functions do not return the values of a FunctionSet.

        Notes
        -----
        Privacy: when a row is replaced, a mean of n rows moves by at most 1/n of the diameter, plus the effect of
        rounding: 2 evaluation errors over n, and the error of the sum (:func:`trigmech.queries.functions.rounding`).
        """
        K, n = functions.K, facts.n
        w = np.ones(K) if weights is None else numbers("weights", weights, K).astype(np.float64)
        check_positive(diameter=diameter)
        if not isinstance(functions, Features):
            if evaluation_error is None:
                raise InputError("custom functions need evaluation_error: the largest error of a computed value")
            check_positive(evaluation_error=evaluation_error)
            check_functions_of_own(functions, facts.domain.d, evaluation_error)
        regime = Regime.of(facts.budget, self.approximate)
        query = Functions.of(functions, facts.domain, weights=w, proved={regime.norm: diameter},
                             error=evaluation_error or 0.0)
        charge = regime.charge("moments", sensitivity_of([Measurement(query)], regime.norm, n, 1.0), proof)
        return Design(self, facts, Measured((round_of(query, charge),)), (charge,))

    def run(self, rows: PrivateRows, design: Design, session: Session, rng: np.random.Generator) -> Release:
        """Release the design's measurements of private rows.

        Parameters
        ----------
        rows : PrivateRows, private
        design : Design
            The design from :meth:`plan`.
        session : Session
            Only the session can release numbers: it certifies and charges each draw.
        rng : numpy.random.Generator
            The source of public random numbers.
        """
        return session.release(rows, design.measured, design.facts.domain)

    def reconstruct(self, release: Release, design: Design | None, rng: np.random.Generator) -> Reconstruction:
        """Return a distribution that explains the released numbers; post-processing.

        Parameters
        ----------
        release : Release
        design : Design or None
            None for a release that was loaded from a file.
        rng : numpy.random.Generator
        """
        made = reconstruct_table if release.columns else reconstruct
        return made(release, self.most_points(release.n, release.domain.d), rng)


def points_of(n: int, d: int, most: int = MOST_POINTS) -> int:
    """Return how many points stand for a table of n rows by default: fewer if they have very many coordinates d."""
    return min(max(n, FEWEST_POINTS), most, max(USUAL_COORDINATES // d, 1))


def check_points(count: int, d: int) -> None:
    """Raise an InputError if the points of d coordinates that are asked for are too many for memory and files."""
    if count * d > MOST_COORDINATES:
        raise InputError(f"points = {count} of {d} coordinates are more than {MOST_COORDINATES} numbers")


def check_functions_of_own(functions: Any, d: int, evaluation_error: float) -> None:
    """Raise an InputError if an object does not behave, at two points, like a FunctionSet of d columns.

    Otherwise the fault would be found after the budget is spent, or never: for example, that a point's values depend
    on other points, so that one row moves the values of all rows.
    """
    points = np.array([np.zeros(d), np.full(d, 0.5)])
    try:
        K = functions.K
        among = bounded(functions.evaluate(points.copy()))
        alone = np.concatenate([bounded(functions.evaluate(points[i : i + 1].copy())) for i in range(2)])
        found = {"d": np.shape(functions.d), "evaluate": among.shape, "evaluate of each alone": alone.shape,
                 "means": np.shape(functions.means(points)),
                 "gradient": np.shape(functions.gradient(points, np.ones(K)))}
    except Exception as problem:
        raise InputError(f"custom functions must have d, K, evaluate, means and gradient; at two points of the cube "
                         f"they raise {type(problem).__name__}: {problem}") from problem
    wanted = {"d": (), "evaluate": (2, K), "evaluate of each alone": (2, K), "means": (K,), "gradient": (2, d)}
    for name, shape in wanted.items():
        if found[name] != shape:
            raise InputError(f"custom functions: {name} must have the shape {shape} at two points of {d} columns, not "
                             f"{found[name]}")
    if not np.abs(alone - among).max() <= 2.0 * evaluation_error:
        raise InputError("custom functions: a point's values must not depend on other points, but they differ by "
                         f"{np.abs(alone - among).max():.3g} when it is evaluated alone; the allowed error of a value "
                         f"is {evaluation_error:g}")
    if functions.d != d:
        raise InputError(f"the custom functions have {functions.d} columns; the table has {d} coordinates")


def check_mechanism(mechanism: Any) -> "Mechanism":
    """Return the mechanism, or raise an InputError if it is not a mechanism."""
    if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
        raise InputError(f"mechanism must be a mechanism such as MomentMechanism(), not {shown(mechanism)}")
    return mechanism
