"""The mechanism for tables for publication: it measures columns, then their dependence, and then fits rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trigmech._arrays import Array
from trigmech._validate import check_counts
from trigmech.errors import InputError, shown
from trigmech.functions.partition import columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.exact import exact_sums
from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts, check_points, points_of
from trigmech.planning.closer import closer_looks
from trigmech.planning.dependence import design_dependence
from trigmech.planning.design import Agenda, Regime, Round
from trigmech.planning.selection import select_tables
from trigmech.planning.shares import Shares, budget_of, planned_shares, shares_of
from trigmech.planning.tables import PROOF, TableDesign, plan_tables
from trigmech.privacy.budget import Charge
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail, Look
from trigmech.reconstruction.columns import released_columns
from trigmech.reconstruction.cuts import with_whole_peaks
from trigmech.reconstruction.details import with_details
from trigmech.reconstruction.tables import strengths_of
from trigmech.workload.tables import Marginals, Ranges

# The importance of all tables of three columns relative to all of two; 0 if only tables of two are asked for.
THREE_BESIDE_TWO, THREE_ASKED = 2.0 / 3.0, 2.0
# The most rows that are fitted by default.
MOST_ROWS = 100_000


@dataclass(frozen=True, kw_only=True)
class TableMechanism(Mechanism):
    """Measures every column, then tables of pairs, then dependent tables again, and fits rows to all results.

    Parameters
    ----------
    workload : Marginals or Ranges, optional
        The queries that the table should answer well. Default: two-way tables and ranges, of all columns equally.
    shares : Shares, optional
        Parts of the budget. Default: planned from the numbers of rows and columns.
    target : str, optional
        The name of a column that models will predict from the others. Tables of two and of three columns that hold it
        then get most of the budget. Predictions become better, and everything else becomes less accurate.
    points : int, optional
        Rows that are fitted. Default: as many as the table has, but at least 1024 and at most 100,000.

    Raises
    ------
    InputError
        If an option breaks a rule.

    Notes
    -----
    Privacy: up to four draws, each of one vector, whose scales are fixed and which are charged together before the
    first. The measurements of later draws depend on the results of earlier ones. Proofs in
    :mod:`trigmech.planning.tables`. Cost: four passes over the rows; counts of d columns, d^2 / 2 pairs and up to 1,024
    sets of three; a fit of about a microsecond for each entry of the rows, column and sweep.

    Examples
    --------
    >>> import numpy as np, trigmech as tm
    >>> schema = tm.Schema([tm.Column("age", 0, 120, "integer"), tm.Column("region", kind="categorical",
    ...                                                                    categories=("north", "south"))])
    >>> table = [[30 + i % 40, "north" if i % 3 else "south"] for i in range(900)]
    >>> made = tm.synthesize(table, schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(), np.random.default_rng(0))
    >>> len(made.sample())
    900
    """

    workload: Marginals | Ranges | None = None
    shares: Shares | None = None
    points: int | None = None
    target: str | None = None

    def __post_init__(self) -> None:
        check_counts(self, (None,), "points")
        if self.workload is not None and not isinstance(self.workload, Marginals | Ranges):
            raise InputError(f"workload must be Marginals or Ranges, not {shown(self.workload)}; workloads of smooth "
                             "queries are for MomentMechanism")
        if self.shares is not None and not isinstance(self.shares, Shares):
            raise InputError(f"shares must be Shares, not {shown(self.shares)}")
        if self.target is not None and not (isinstance(self.target, str) and self.target):
            raise InputError(f"target must be the name of a column, not {shown(self.target)}")
        if self.target is not None and self.workload is not None:
            raise InputError("give a target or a workload, not both: a target already sets the workload")

    def plan(self, facts: PublicFacts) -> Design:
        """Return the first measurements, and all charges."""
        name = getattr(self.workload, "crossed", None) or self.target
        if name is not None and name not in facts.names:
            role = "the target" if self.target else "the column that the workload is crossed with"
            raise InputError(f"{role}, {shown(name)}, must be one of the columns "
                             f"{', '.join(map(repr, facts.names))}")
        crossed = () if name is None else (facts.names.index(name),)
        check_points(self.most_points(facts.n, facts.domain.d), facts.domain.d)
        triples = THREE_BESIDE_TWO if self.workload is None else THREE_ASKED * (self.workload.k > 2)
        measured = plan_tables(facts.n, facts.domain, facts.budget, self.shares, crossed, triples)
        return Design(self, facts, measured, measured.charges)

    def plan_again(self, facts: PublicFacts, charges: Sequence[Charge]) -> Design | None:
        """Return the design with these charges. For a budget that another version divided, it is near the original."""
        own = [charge for charge in charges if charge.proof == PROOF]
        found = super().plan_again(facts, own)
        if found is not None or not own:
            return found
        budget = budget_of(own, facts.budget)
        regime = Regime.of(budget)
        planned = planned_shares(facts.n, columns_of(facts.domain), regime.strength, regime.gaussian)
        return replace(self, shares=shares_of(own, planned)).plan(replace(facts, budget=budget))

    def agenda(self, design: Design) -> Agenda:
        """Return the first round's measurements, and the second's for columns that spread evenly over their values."""
        measured: TableDesign = design.measured
        note = "if columns spread evenly" + "; less where columns depend on each other" * bool(measured.selected)
        if measured.dependence is None:
            return Agenda(measured.looks, str(measured), note)
        even = [ReleasedColumn(own, np.full(own.size, 1.0 / own.size), look.deviation)
                for own, look in zip(measured.partitions, measured.looks, strict=True)]
        more = Round(design_dependence(measured, even), measured.dependence).planned
        return Agenda((*measured.looks, *more), str(measured), note)

    def passes(self, design: Design) -> int:
        """Return how many rounds there are at most."""
        measured: TableDesign = design.measured
        return 1 + sum(charge is not None for charge in (measured.closer, measured.dependence, measured.selected))

    def most_points(self, n: int, d: int) -> int:
        """Return how many rows are fitted: those that are asked for, or those of n rows."""
        return self.points or points_of(n, d, MOST_ROWS)

    def run(self, rows: PrivateRows, design: Design, session: Session, rng: np.random.Generator) -> Release:
        """Release the columns, then tables and products by their released distributions."""
        return released(rows, design.measured, session)


def released(rows: PrivateRows, design: TableDesign, session: Session) -> Release:
    """Charge and release the measurements of a design, round by round."""
    counts = exact_sums(rows, [look.query for look in design.looks])
    session.charge(*design.charges)
    looks = _looked(counts, design, session, rows.n)
    smooth = released_columns(looks)
    columns, asked = _asked_closer(design, smooth)
    closer: tuple[Measurement[Detail], ...] = ()
    if design.closer is not None and asked:
        closer, among = session.measured(rows, asked, design.closer), sum(each.query.size for each in asked)
        for j, look in enumerate(looks):
            own = [each for each in closer if each.query.column == j]
            columns[j] = with_details(columns[j], look.query.partition, own, among, smooth[j])
    release = Release(rows.n, design.domain, (*looks, *closer), tuple(columns))
    if design.dependence is None:
        return release
    more = session.measured(rows, design_dependence(design, columns), design.dependence)
    release = replace(release, measurements=(*release.measurements, *more))
    if design.selected is None:
        return release
    again = select_tables(design, columns, release.tables, *strengths_of(release))
    more = session.measured(rows, again, design.selected)
    return replace(release, measurements=(*release.measurements, *more), importance=design.triples)


def _asked_closer(design: TableDesign, smooth: Sequence[ReleasedColumn]
                  ) -> tuple[list[ReleasedColumn], tuple[Measurement[Detail], ...]]:
    """Return the columns, with the positions that are looked at closer, and these closer looks.

    The noise is in proportion to the number of columns that have any, or to its root. So this is the smallest number
    for which at most as many columns are found to need a closer look by its noise.
    """
    def asked(count: int) -> tuple[list[ReleasedColumn], tuple[Measurement[Detail], ...]]:
        columns = [with_whole_peaks(own, look.query, design.closer_deviation(count))
                   for own, look in zip(smooth, design.looks, strict=True)]
        return columns, closer_looks(design, columns, count)

    if design.closer is None:
        return list(smooth), ()
    low, high = 1, max(design.numbers, 1)
    while low < high:
        count = (low + high) // 2
        if len({each.query.column for each in asked(count)[1]}) <= count:
            high = count
        else:
            low = count + 1
    return asked(high)


def _looked(counts: list[Array], design: TableDesign, session: Session,
            n: int) -> tuple[Measurement[Look], ...]:
    """Return noisy measurements of all columns, in one draw, or in two if contrasts or signs measure some of them."""
    looks: dict[int, Measurement[Look]] = {}
    for one in design.first:
        held = [each.query.column for each in one.asked]
        looks |= dict(zip(held, session.drawn(one.asked, [counts[j] for j in held], one.charge, n), strict=True))
    return tuple(looks[j] for j in range(len(counts)))
