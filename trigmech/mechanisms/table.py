"""Columns first, then how they depend on each other, then rows: the mechanism for tables that one would publish."""

import logging
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import check_counts
from trigmech.errors import BudgetError, InputError, shown
from trigmech.functions import prefix_sums
from trigmech.functions.contrasts import contrasts
from trigmech.functions.prefix_sums import ROUNDED_UP
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.counts import histograms, joint_counts
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.table_release import CloserLook, NoisyHistogram, TableRelease
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts, check_points, points_of
from trigmech.planning.dependence import design_dependence
from trigmech.planning.selection import SelectedTables, select_tables
from trigmech.planning.tables import Shares, TableDesign, heavy_intervals, plan_tables
from trigmech.privacy.budget import Charge
from trigmech.reconstruction.columns import distribution_of, looked_closer, nearest_probabilities
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.tables import reconstruct_table, strengths_of
from trigmech.workload.tables import Marginals, Ranges

Array = NDArray[np.float64]
# How much all tables of three columns matter beside all of two; none where those of two alone are asked for.
THREE_BESIDE_TWO, THREE_ASKED = 2.0 / 3.0, 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TableMechanism(Mechanism):
    """A sharp look at every column, then tables of pairs, then more of what depends, and rows that have all of it.

    Parameters
    ----------
    workload : Marginals or Ranges, optional
        What the table should be right about. Default: two-way tables and ranges of all columns alike.
    shares : Shares, optional
        Parts of the budget. Default: planned from the numbers of rows and columns.
    points : int, optional
        Rows that are fitted. Default: as many as the table has, but at least 1024 and at most 50,000.

    Raises
    ------
    InputError
        If an option breaks a rule.

    Notes
    -----
    Privacy: up to four draws, each of one vector, whose scales are fixed and which are charged together before the
    first; what the later ones measure depends on what the earlier ones released. Proofs in
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

    def __post_init__(self) -> None:
        check_counts(self, (None,), "points")
        if self.workload is not None and not isinstance(self.workload, Marginals | Ranges):
            raise InputError(f"workload must be Marginals or Ranges, not {shown(self.workload)}; workloads of smooth "
                             "queries are for MomentMechanism")
        if self.shares is not None and not isinstance(self.shares, Shares):
            raise InputError(f"shares must be Shares, not {shown(self.shares)}")

    def plan(self, facts: PublicFacts) -> Design:
        """Return what will be measured first, and all that will be charged."""
        name = getattr(self.workload, "crossed", None)
        if name is not None and name not in facts.names:
            raise InputError(f"the workload is crossed with {name!r}, which is none of the columns "
                             f"{', '.join(facts.names)}")
        crossed = () if name is None else (facts.names.index(name),)
        check_points(self.most_points(facts.n, facts.domain.d), facts.domain.d)
        triples = THREE_BESIDE_TWO if self.workload is None else THREE_ASKED * (self.workload.k > 2)
        measured = plan_tables(facts.n, facts.domain, facts.budget, self.shares, crossed, triples)
        return Design(self, facts, measured, measured.charges)

    def passes(self, design: Design) -> int:
        """Return how many rounds there are at most."""
        measured: TableDesign = design.measured
        return 1 + sum(charge is not None for charge in (measured.closer, measured.dependence, measured.selected))

    def most_points(self, n: int, d: int) -> int:
        """Return how many rows are fitted: those that are asked for, or those of n rows."""
        return self.points or points_of(n, d)

    def run(self, rows: PrivateRows, design: Design, session: Session, rng: np.random.Generator) -> TableRelease:  # type: ignore[override]
        """Release the columns, then tables and products by their released distributions."""
        release = released(rows, design.measured, session)
        logger.info("released %d columns, %d intervals closer", len(release.columns), len(release.closer))
        if release.dependence is not None:
            logger.info("drawn: %d tables, %d products", len(release.tables), release.products.size)
        if release.selected is not None:
            logger.info("drawn: %d of the tables again, %d of three columns",
                        np.count_nonzero(release.selected.weights), len(release.triples))
        return release

    def reconstruct(self, release: TableRelease, design: Design | None,  # type: ignore[override]
                    rng: np.random.Generator) -> Reconstruction:
        """Return rows that have what was released."""
        return reconstruct_table(release, self.most_points(release.n, release.domain.d), rng)


def released(rows: PrivateRows, design: TableDesign, session: Session) -> TableRelease:
    """Charge and release what a design measures of the rows, round by round."""
    counts = histograms(rows, design.partitions)
    session.charge(*design.charges)
    looks = _looked(counts, design, session)
    columns = [ReleasedColumn(look.partition, nearest_probabilities(look.frequencies), look.deviation)
               if look.contrasted else
               distribution_of(look.partition, look.values, look.deviation, look.cumulative) for look in looks]
    closer = _looked_closer(rows, design, columns, session)
    for look in closer:
        columns[look.column] = looked_closer(columns[look.column], look.interval, look.edges, look.frequencies,
                                             look.deviation)
    release = TableRelease(rows.n, design.domain, looks, closer, tuple(columns))
    if design.dependence is None:
        return release
    return _with_dependence(release, rows, design, design.dependence, session)


def _looked(counts: list[Array], design: TableDesign, session: Session) -> tuple[NoisyHistogram, ...]:
    """Return the noisy histograms of all columns, drawn at once, or at twice if some are measured by contrasts."""
    looks: dict[int, NoisyHistogram] = {}
    for charge, contrasted in ((design.look, False), (design.contrasts, True)):
        if charge is None:
            continue
        held, parts = np.flatnonzero(design.contrasted == contrasted).tolist(), []
        for j in held:
            partition, count = design.partitions[j], counts[j]
            parts.append(design.weights[j] * (
                count @ contrasts(partition.size) / design.n if contrasted else
                prefix_sums.encoded(partition, count / design.n) if design.gaussian else count / design.n))
        noisy = session.draw(np.concatenate(parts), charge)
        for j, own in zip(held, np.split(noisy, np.cumsum([len(part) for part in parts])[:-1]), strict=True):
            looks[j] = NoisyHistogram(design.partitions[j], own / design.weights[j], float(design.look_deviations[j]),
                                      design.gaussian, contrasted)
    return tuple(looks[j] for j in range(len(counts)))


def _looked_closer(rows: PrivateRows, design: TableDesign, columns: list[ReleasedColumn],
                   session: Session) -> tuple[CloserLook, ...]:
    """Return noisy frequencies within the intervals that were found heavy, drawn at once."""
    if design.closer is None:
        return ()
    heavy = heavy_intervals(design, columns)
    if not heavy:
        return ()
    # Each with what lies below and above it, so that rows have one position each.
    around = [np.concatenate([[-1.0] * bool(edges[0] > -1.0), edges, [1.0] * bool(edges[-1] < 1.0)])
              for _, _, edges in heavy]
    counts = histograms(rows, [columns[j].partition.cut(edges) for (j, _, _), edges in zip(heavy, around, strict=True)])
    inside = []
    for (j, _, edges), count in zip(heavy, counts, strict=True):
        first = len(columns[j].partition.indicators) + bool(edges[0] > -1.0)
        inside.append(count[first : first + len(edges) - 1] / design.n * design.closer_weight)
    noisy = session.draw(np.concatenate(inside), design.closer) / design.closer_weight
    values = np.split(noisy, np.cumsum([len(part) for part in inside])[:-1])
    return tuple(CloserLook(j, i, edges, own, design.closer_deviation)
                 for (j, i, edges), own in zip(heavy, values, strict=True))


def _with_dependence(release: TableRelease, rows: PrivateRows, design: TableDesign, charge: Charge,
                     session: Session) -> TableRelease:
    """Return the release with the second round's tables and products."""
    chosen = design_dependence(design, release.columns)
    # What the weights promise, whatever the look released; by the proof it is never missed.
    if not chosen.sensitivity(charge.law) <= ROUNDED_UP:
        raise BudgetError(f"{charge.purpose}: what was planned would move further than was charged for")
    asked = [((j, h), (chosen.maps[j], chosen.maps[h])) for j, h in chosen.tables.tolist()]
    counts, sums = joint_counts(rows, [column.partition for column in release.columns], asked, chosen.scores,
                                chosen.places)
    vector = chosen.weighted([count / rows.n for count in counts], sums / rows.n)
    tables, products = chosen.parted(session.draw(vector, charge))
    release = replace(release, dependence=chosen, tables=tables, products=products,
                      deviation=design.deviation(charge, chosen.size))
    if design.selected is None:
        return release
    again = select_tables(design, release.columns, chosen, release.table_deviations, strengths_of(release))
    return _with_selected(release, again, rows, design.selected, design.deviation(design.selected), session)


def _with_selected(release: TableRelease, chosen: SelectedTables, rows: PrivateRows, charge: Charge, deviation: float,
                   session: Session) -> TableRelease:
    """Return the release with what the last round measures: some of the tables again, and of three columns."""
    before = release.table_deviations
    if not chosen.sensitivity <= ROUNDED_UP:
        raise BudgetError(f"{charge.purpose}: what was planned would move further than was charged for")
    again, dependence = np.flatnonzero(chosen.weights).tolist(), release.dependence
    asked = [] if dependence is None else [(pair, [dependence.maps[j] for j in pair])
                                           for pair in dependence.tables[again].tolist()]
    asked += [(columns, [chosen.maps[j] for j in columns]) for columns in chosen.triples.tolist()]
    # What was counted for the round before is not kept, so that this one may be counted elsewhere, or another day.
    measured, _ = joint_counts(rows, [column.partition for column in release.columns], asked)
    weights = [*chosen.weights[again], *chosen.triple_weights]
    noisy = session.draw(np.concatenate([weight * (count.ravel() / rows.n) for weight, count in zip(
        weights, measured, strict=True)]), charge)
    parts = [part.reshape(count.shape) / weight for part, count, weight in zip(
        np.split(noisy, np.cumsum([count.size for count in measured])[:-1]), measured, weights, strict=True)]
    release = replace(release, selected=chosen, triples=tuple(parts[len(again) :]),
                      selected_deviation=deviation)
    tables = list(release.tables)
    for t, part in zip(again, parts, strict=False):
        # Of normal noise the mean by the precisions is all that both measurements tell.
        first = (release.table_deviations[t] / before[t]) ** 2
        tables[t] = first * tables[t] + (1.0 - first) * part
    return replace(release, tables=tuple(tables))
