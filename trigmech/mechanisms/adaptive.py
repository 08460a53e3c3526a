"""Custom mechanisms that measure queries round by round: a round's queries may depend on the released numbers."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np

from trigmech._arrays import Array
from trigmech._validate import check_integers, finite, is_integer, is_number, numbers
from trigmech._warn import warn
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.functions.features import FunctionSet
from trigmech.functions.partition import columns_of, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.exact import exact_sums
from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.asked import (
    MOST_INTERVALS,
    check_query_of_own,
    check_sizes,
    check_weights,
    evened,
)
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts, check_points, points_of
from trigmech.planning.dependence import cells_of
from trigmech.planning.design import UPWARD, Agenda, Regime
from trigmech.planning.tables import MOST_ENTRIES
from trigmech.privacy.budget import Budget, Charge
from trigmech.queries.base import ROUNDED_UP, UNIT, Measurement, Query, scaled
from trigmech.queries.functions import Functions
from trigmech.queries.joint import Marginal
from trigmech.queries.one_way import Histogram, PrefixSums
from trigmech.reconstruction.common import common_positions

PROOF = "rounds-of-queries"
# Intervals of a number, and cells of a column in a table, by default.
INTERVALS, CELLS = 64, 16


@dataclass(frozen=True)
class Measure:
    """A round that measures queries.

    Parameters
    ----------
    share : float
        The part of the budget, above 0.
    """

    share: float


@dataclass(frozen=True)
class Select:
    """A round that privately chooses some of many tables: those that are furthest from their predictions.

    Parameters
    ----------
    share : float
        The part of the budget, above 0.
    count : int
        The largest number of chosen tables.
    """

    share: float
    count: int = 1


@dataclass(frozen=True, eq=False)
class AdaptiveDesign:
    """The mechanism's rounds, with a charge for each. Public.

    ``first`` are the measurements of the first round, with the noise that they will have; empty if it is a choice.
    """

    n: int
    domain: Domain
    steps: tuple[Measure | Select, ...]
    charges: tuple[Charge, ...]
    first: tuple[Measurement[Query], ...]

    def __str__(self) -> str:
        return "\n".join(f"round {k + 1}: {charge.purpose}" for k, charge in enumerate(self.charges))


@dataclass(frozen=True, eq=False)
class SoFar:
    """The facts that a round may know: public facts, and all numbers that earlier rounds released.

    round: The number of the round, from 0.
    measurements: The measurements of earlier rounds, with values.
    selected: The queries that rounds of :class:`Select` chose, in order.
    columns: The positions and probabilities of each column; equal probabilities before a column is measured.
    """

    facts: PublicFacts
    round: int
    measurements: tuple[Measurement[Query], ...]
    selected: tuple[Query, ...]
    columns: tuple[ReleasedColumn, ...]

    def histogram(self, column: str | int, intervals: int = INTERVALS) -> Histogram:
        """Return the query of a column's frequencies; a number has this many intervals of equal length, or its levels.

        If delta > 0 the query uses prefix sums, which make ranges more exact.
        """
        check_integers(1, intervals=intervals)
        j = self._place(column)
        whole = columns_of(self.facts.domain)[j]
        partition = whole if whole.value is None else whole.cut(
            even_edges(whole.levels, min(intervals, MOST_INTERVALS + 1)))
        return (PrefixSums if self.facts.budget.delta > 0 else Histogram)(j, partition)

    def marginal(self, *columns: str | int, cells: int = CELLS) -> Marginal:
        """Return the query of the table of some columns, with about this many cells for each column.

        The cells of a number hold about equally many rows, judged by the release; if it has few levels, each level has
        its own cell. Rare categories are combined.
        """
        check_integers(1, cells=cells)
        held = sorted({self._place(column) for column in columns})
        if len(held) != len(columns) or not held:
            raise InputError("a table must have one or more columns, all different, not "
                             f"{', '.join(map(shown, columns)) or 'zero columns'}")
        return Marginal(tuple(held), tuple(self.columns[j].partition for j in held),
                        tuple(cells_of(self.columns[j], cells, 0.5 / cells, cells) for j in held))

    def functions(self, features: FunctionSet, weights: Array | None = None) -> Functions:
        """Return the query of the means of functions of whole points, such as a :class:`trigmech.ChebyshevBasis`.

        Weights (K,) say how exactly each is measured beside the others; by default all are measured alike.
        """
        lacking = [name for name in ("d", "K", "evaluate") if not hasattr(features, name)]
        if lacking or isinstance(features, type):
            raise InputError("functions must be a set with d, K and evaluate, such as tm.ChebyshevBasis, not "
                             f"{shown(features)}{', which lacks ' * bool(lacking)}{', '.join(lacking)}")
        if features.d != self.facts.domain.d:
            raise InputError(f"the functions are of {features.d} coordinates, but the rows have {self.facts.domain.d}")
        own = None if weights is None else numbers("weights", weights, features.K).astype(np.float64)
        return Functions.of(features, self.facts.domain, weights=own)

    def predicted(self, query: Query) -> Array:
        """Return the means that a table has if its columns, as they were released, are independent."""
        if not query.ways:
            raise InputError(f"a Select round can choose tables of columns (marginal) only, not {query.kind}")
        own = [np.bincount(cells, weights=self.columns[j].mass)
               for j, cells in zip(query.columns, cast(Marginal, query).maps, strict=True)]
        found = np.ones(())
        for each in own:
            found = np.multiply.outer(found, each)
        return found

    def _place(self, column: str | int) -> int:
        names = self.facts.names
        if isinstance(column, str) and column in names:
            return names.index(column)
        if is_integer(column, 0) and int(column) < len(self.columns):
            return int(column)
        raise InputError(f"there is no column {shown(column)}; the columns are {', '.join(map(repr, names))}")


class AdaptiveMechanism(Mechanism):
    """A custom mechanism: subclass it, and define the rounds and the queries of each.

    Attributes
    ----------
    rounds : tuple of Measure or Select
        The rounds; the sum of their shares of the budget is at most 1.
    points : int, optional
        The number of fitted rows. Default: the number of rows of the table, but 1,024 to 50,000.

    Notes
    -----
    Privacy: each round's vector is scaled so that replacing a row moves it by at most 1/n for any query. So its noise
    and its charge are fixed in advance, and all charges are recorded before the first draw. The movement of a query's
    vector is proved at the query's `diameter`. A score is half the L1 distance of a table from a prediction: replacing
    a row moves two of the frequencies by 1/n, so it moves the score by at most 1/n. See docs/proofs.md. A release can
    be saved, loaded and reported, has error bars, and can be measured over parts and by engines, like a release of the
    package's own mechanisms.

    Limits: all rounds together measure at most 2^20 numbers. A Select round chooses from tables of at most 2^18 cells
    each and 2^24 together. A histogram has at most 4,096 intervals. If the first round asks for more, an InputError
    comes before any charge. If a later round does, it is left out with a warning.

    Examples
    --------
    >>> from itertools import combinations
    >>> import numpy as np, trigmech as tm
    >>> class Strongest(tm.AdaptiveMechanism):
    ...     rounds = (tm.Measure(0.4), tm.Select(0.1, count=2), tm.Measure(0.5))
    ...     def ask(self, so_far):
    ...         names = so_far.facts.names
    ...         if so_far.round == 0:
    ...             return [so_far.histogram(name) for name in names]
    ...         if so_far.round == 1:
    ...             return [so_far.marginal(*pair) for pair in combinations(names, 2)]
    ...         return so_far.selected
    >>> schema = tm.Schema([tm.Column(name, 0, 1) for name in "abc"])
    >>> table = np.random.default_rng(0).random((500, 1)) * [1, 1, 0] + [0, 0, 0.5]
    >>> made = tm.synthesize(table, schema, tm.Budget(4.0, 1e-6), Strongest(), np.random.default_rng(0))
    >>> len(made.release.tables)
    2
    """

    rounds: ClassVar[tuple[Measure | Select, ...]] = ()
    points: int | None = None

    @abstractmethod
    def ask(self, so_far: SoFar) -> Sequence[Query | Measurement[Query]]:
        """Return the queries that a round measures, with weights if these are measurements, or that it chooses from."""

    def predicted(self, so_far: SoFar, query: Query) -> Array:
        """Return the frequencies of a table, in the query's shape, as the known facts predict them.

        A Select round chooses the tables that are furthest from this. By default the columns are independent. Your own
        prediction may use all that ``so_far`` holds, such as a fit to its measurements; it is clipped to [0, 1].
        """
        return so_far.predicted(query)

    def plan(self, facts: PublicFacts) -> Design:
        """Return the charges of all rounds; raise an InputError if the first round cannot be asked."""
        check_points(self.most_points(facts.n, facts.domain.d), facts.domain.d)
        if not isinstance(self.rounds, tuple | list):
            raise InputError(f"a mechanism's rounds must be a tuple of Measure and Select, not {_told(self.rounds)}")
        rounds, budget = tuple(self.rounds), facts.budget
        shares = [each.share for each in rounds if isinstance(each, Measure | Select)]
        choosing = [each for each in rounds if isinstance(each, Select)]
        if not rounds or len(shares) < len(rounds) or len(choosing) == len(rounds) or not all(
                is_number(share) and share > 0.0 for share in shares) or sum(shares) > 1.0 + 1e-12:
            told = ", ".join(map(_told, rounds))
            raise InputError("a mechanism's rounds must be Measure and Select, with at least one Measure and with "
                             f"shares above 0 that sum to at most 1, not {told or 'empty'}")
        if any(isinstance(each.count, bool) or not (isinstance(each.count, int) and each.count >= 1)
               for each in choosing):
            raise InputError("Select must choose a whole number of tables, at least 1; it is "
                             f"{', '.join(map(_told, choosing))}")
        # Choices are pure: their epsilon is added to that of all noise.
        pure = sum(each.share for each in choosing)
        rest = Budget(budget.epsilon * (1.0 - pure), budget.delta) if pure else budget
        regime, left = Regime.of(rest), max(1.0 - pure, sum(shares) - pure)
        sensitivity = ROUNDED_UP / facts.n
        charges = []
        for k, each in enumerate(rounds):
            if isinstance(each, Select):
                moved = 2.0 * (ROUNDED_UP / facts.n + 2.0 * (MOST_ENTRIES + 8.0) * UNIT)
                charges.append(Charge(f"round {k + 1}, a choice", "exponential",
                                      moved * each.count / (budget.epsilon * each.share) * UPWARD, moved, "Linf",
                                      each.count, PROOF))
            else:
                charges.append(regime.charge(f"round {k + 1}", sensitivity, PROOF, each.share / left))
        before = SoFar(facts, 0, (), (), common_positions(facts.domain, ()))
        asked = self._asked(before, rounds[0])
        self._expected(before, rounds[0], asked)
        noise = charges[0].deviation(sum(each.query.size for each in asked))
        first = tuple(replace(each, noise=noise) for each in asked) if isinstance(rounds[0], Measure) else ()
        return Design(self, facts, AdaptiveDesign(facts.n, facts.domain, rounds, tuple(charges), first),
                      tuple(charges))

    def agenda(self, design: Design) -> Agenda:
        """Return the first round's measurements; the queries of later rounds are not known before."""
        measured: AdaptiveDesign = design.measured
        return Agenda(measured.first, str(measured), "in the first round")

    def passes(self, design: Design) -> int:
        """Return how many rounds there are."""
        return len(design.charges)

    def most_points(self, n: int, d: int) -> int:
        """Return how many rows are fitted."""
        return self.points or points_of(n, d)

    def run(self, rows: PrivateRows, design: Design, session: Session, rng: np.random.Generator) -> Release:
        """Release the rounds."""
        facts = replace(design.facts, n=rows.n)
        made, selected, charged = list[Measurement[Query]](), list[Query](), False
        columns = common_positions(facts.domain, ())
        for k, (each, charge) in enumerate(zip(design.measured.steps, design.charges, strict=True)):
            so_far = SoFar(facts, k, tuple(made), tuple(selected), columns)
            try:
                # The design has the first queries: private bounds may be paid for, so a second ask must not fail.
                asked = (design.measured.first if k == 0 else ()) or self._asked(so_far, each)
                expected = self._expected(so_far, each, asked)
            except Exception as problem:
                if not charged:
                    raise
                # The run is paid for, so keep the earlier releases.
                warn(f"{charge.purpose} was not measured, because {type(self).__name__}.ask failed with "
                     f"{type(problem).__name__}: {problem}; the release has the earlier rounds", UserWarning)
                break
            if not asked:
                continue
            sums = exact_sums(rows, [one.query for one in asked])
            if not charged:
                # The sums above find the faults of the rows, so a refused table costs nothing.
                session.charge(*design.charges)
                charged = True
            if isinstance(each, Select):
                scores = np.array([0.5 * np.abs(own / rows.n - likely).sum()
                                   for own, likely in zip(sums, expected, strict=True)])
                selected += [asked[i].query for i in session.choose(scores, charge)]
            else:
                made += session.drawn(asked, sums, charge, rows.n)
                columns = common_positions(facts.domain, made)
        return Release(rows.n, facts.domain, tuple(made), columns).on(columns)

    def _asked(self, so_far: SoFar, kind: Measure | Select) -> tuple[Measurement[Query], ...]:
        """Return the questions of a round, with weights by which its vector moves by at most 1/n."""
        queries = self.ask(so_far)
        if not isinstance(queries, Iterable):
            raise InputError("ask must return a list of queries, such as [so_far.histogram(...)], not "
                             f"{shown(queries)}")
        asked = [each if isinstance(each, Measurement) else Measurement(each) for each in queries]
        for each in asked:
            if not isinstance(each.query, Query):
                raise InputError(f"a round must ask queries, such as so_far.histogram(...), not {shown(each.query)}")
        check_sizes(asked, isinstance(kind, Select), sum(each.query.size for each in so_far.measurements))
        for each in asked:
            if isinstance(kind, Measure) and each.query.summed in ("values", "means"):
                check_query_of_own(each.query, so_far.facts.domain)
        if isinstance(kind, Select) or not asked:
            return tuple(asked)
        norm = Regime.of(so_far.facts.budget).norm
        found = scaled(evened(asked, norm), norm, so_far.facts.n)
        check_weights(found)
        return found

    def _expected(self, so_far: SoFar, kind: Measure | Select, asked: Sequence[Measurement[Query]]) -> list[Array]:
        """Return the predicted tables of a Select round, in [0, 1], as the charge's bound of rounding needs them."""
        found = list[Array]()
        for each in asked if isinstance(kind, Select) else ():
            if not each.query.ways:
                raise InputError("a Select round can choose tables of columns (marginal) only, not "
                                 f"{each.query.kind}")
            own = finite("what predicted returns", self.predicted(so_far, each.query), *each.query.shape)
            found.append(np.clip(own.astype(np.float64), 0.0, 1.0))
        return found


def _told(each: object) -> str:
    return repr(each) if isinstance(each, Measure | Select) else shown(each)
