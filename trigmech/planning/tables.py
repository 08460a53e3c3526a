"""What to measure: first each column, then, with the released distributions, the dependence between columns.

*The look* measures the histogram of every column: frequencies of categories and of special and missing values, and the
counts of a number in intervals of the public range, by a factor of prefix sums
(:mod:`trigmech.functions.prefix_sums`; at delta = 0 the counts themselves). Column j has the weight w_j.
Replacing a row moves the part of column j by at most D_j / n, so the weighted vector moves by at most
sqrt(sum w_j^2 D_j^2) / n in L2; the weights make that 1/n. In L1, of counts alone, D_j is 2 and sums
replace squares. A column of a single position never moves.

*Contrasts.* At delta = 0 columns of few positions are known better by contrasts (:mod:`trigmech.functions.contrasts`),
under noise of density proportional to exp(-max |z| / scale) in all of them at once. A contrast is in [-1, 1] for every
row, so half its mean moves by at most 1/n, and so does the largest of any number of such moves. The vector of these
columns has a charge of its own beside that of the other columns; each has a part of epsilon.

*The closer look* measures the counts in finer intervals of every interval that the look found to be heavy. The
intervals of a column are disjoint, so all its finer intervals together with "elsewhere" are a partition of its rows,
for any number of heavy intervals: a replaced row moves at most two counts of a column by 1, sqrt(2) in L2, 2 in L1, and
for all d columns of numbers, sqrt(2 d) / n or 2 d / n, whichever intervals were chosen.

*Dependence.* Of pairs of columns contingency tables by cells of the released distributions, of weight w_t: a replaced
row moves two entries of a table by 1/n, sqrt(2) w_t in L2 and 2 w_t in L1. And of pairs of numbers means of products of
scores: s_a(x) = v_a cos(a pi F(x)) with F the middle rank of x by the released distribution, 0 where the value is
missing or special, rounded to a multiple of 2^-15, so that sums over rows are integers. With S the largest
sum_a s_a^2 at any position of any column, the products of m columns' scores, all pairs, move by at most S m / n in L2:
let u_i, v_i be the score vectors of column i before and after, s_i and t_i their squared lengths, g_i = u_i . v_i and
G = sum g_i. The squared distance is the sum over i < j of s_i s_j + t_i t_j - 2 g_i g_j, and
2 sum over i < j of g_i g_j = G^2 - sum g_i^2 >= -sum g_i^2 with g_i^2 <= S^2. So it is at most
2 S^2 m (m - 1) / 2 + m S^2 = S^2 m^2. Of some of the pairs alone it is no more, with m the columns that are in any. In
L1 Cauchy and Schwarz give S m sqrt(entries) / n. Tables and products are parts of one vector: the squares of what they
move by at most add up in L2, and these numbers themselves in L1. Any function of a row with values in the cells, and
any scores, would do: the bounds need no more of the released distributions than that they are the same for both tables.
Where rows are few, directions of rows take the place of products: normal scores of all columns, as a vector of length
1, whose products for all pairs move by 1 / n in L2 together (:class:`trigmech.queries.directions.Directions`).

*What depends.* With Gaussian noise a part of the budget of tables is kept for a last round
(:mod:`trigmech.planning.selection`). It measures those tables again that are stronger than their noise, some tables of
two columns at the resolution of their positions, and tables of three columns: a replaced row again moves two entries of
each by 1/n. Measuring a table twice loses nothing, because the precisions of normal noise add up.

At delta = 0, where cells are few, products of contrasts of the cells take the place of all of these: for each pair of
columns of a and b cells (a - 1)(b - 1) products, which with the columns' own frequencies determine the table. Each is
in [-1, 1], so half its mean moves by at most 1/n, however many there are, and the noise is as above, in all at once.

What a later round measures depends on what the earlier ones released and on nothing else that is private; its weights
are such that its sensitivity is 1/n whatever that was, so its charge is fixed beforehand, and rounds compose
adaptively: the squares of their mu, or their epsilons, add up.

Rounding, with u = 2^-53. Weights are computed too, so the bounds that should be 1/n may exceed it by rounding errors of
sums over tables: relatively by less than `ROUNDED_UP` allows, for up to 10^6 of them, and so may products of scores,
whose means over a person's rows are rounded to 2^-46. Shares of a person sum to 1 exactly
(:mod:`trigmech.measurement.sums`). Counts are exact on their lattice and rounded to floats at most twice, so a weighted
frequency errs by at most 4u of itself, and the vector, of length at most 1, by 4u; so does half the mean of a product
of contrasts. A product with the factor R, or with contrasts, sums c products of total at most 1: an error of at most
(c + 5) u in each of K entries. Both tables err; this is added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trigmech._html import html_table
from trigmech.domain import Domain
from trigmech.errors import BudgetError
from trigmech.functions.partition import Partition, columns_of, even_edges
from trigmech.functions.prefix_sums import ROUNDED_UP, diameter
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.contrasted import (
    LEAST_COUNTED,
    by_levels,
    columns_by_contrasts,
    contrasts_are_sharper,
    has_few,
)
from trigmech.planning.design import UPWARD, strength_of
from trigmech.planning.shares import Shares, planned_shares
from trigmech.privacy.budget import Budget, Charge, Law
from trigmech.privacy.noise import lattice_step
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Contrasts, Detail, Histogram, Ranges

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

PROOF = "look-and-tables"
# Intervals in a number's look. More intervals cost prefix sums hardly anything, but they cost single counts much.
LEAST_INTERVALS, MOST_INTERVALS = 64, 1_024
# In the look a number's distribution function counts as much as this many categories.
OF_A_NUMBER = 8
# The number of finer intervals of a heavy interval. An interval is heavy if it holds this part of the rows, and this
# many standard deviations of the closer look's noise.
FINER, HEAVY, HEAVY_BY_NOISE = 1_024, 1.0 / 64.0, 8.0
# The most finer intervals of all columns together: more would not fit into a file.
MOST_FINER = 2**22
UNIT = 2.0**-53
# Where tables of three matter, how much more those matter that hold a crossed column, for each that all together do:
# the best predictions of it from the other columns, over public sets.
OF_CROSSED = 7.5


@dataclass(frozen=True, eq=False)
class TableDesign:
    """What the first round measures, and what each round may spend. Public.

    Parameters
    ----------
    n : int
    domain : Domain
    gaussian : bool
        Whether the noise is Gaussian; else it is Laplace or l-infinity noise.
    partitions : tuple of Partition
        Of the look.
    contrasted : ndarray (d,) of bool
        Columns of which it measures contrasts of the positions.
    weights : ndarray (d,)
        Of the columns in it.
    look, contrasts : Charge or None
        Of the look at the other columns, and at these; None if there are none.
    closer, dependence : Charge or None
        None if there is nothing to look at closer, or one column alone.
    selected : Charge or None
        Of the tables that are measured again; None if all tables are measured once.
    products : float
        Of the squared strength of the dependence's charge, or of its epsilon.
    scores : int
        See :class:`Shares`.
    crossed : tuple of int
        Columns whose tables with others matter more; see :class:`trigmech.workload.Marginals`.
    triples : float
        How much all tables of three columns together matter, beside all of two.
    """

    n: int
    domain: Domain
    gaussian: bool
    partitions: tuple[Partition, ...]
    contrasted: NDArray[np.bool_]
    weights: Array
    look: Charge | None
    contrasts: Charge | None
    closer: Charge | None
    dependence: Charge | None
    products: float
    scores: int
    crossed: tuple[int, ...] = ()
    selected: Charge | None = None
    triples: float = 0.0

    @cached_property
    def looks(self) -> tuple[Measurement[Histogram], ...]:
        """What the look measures of each column, with the noise that it will have."""
        kind = Ranges if self.gaussian else Histogram
        noise = self.look_noise
        return tuple(Measurement((Contrasts if own else kind)(j, partition), weight, None, noise[own])
                     for j, (partition, own, weight) in enumerate(zip(
                         self.partitions, self.contrasted.tolist(), self.weights.tolist(), strict=True)))

    @property
    def closer_weight(self) -> float:
        """Of each frequency of the closer look."""
        looked = sum(partition.value is not None for partition in self.partitions)
        return 1.0 / math.sqrt(2.0 * looked) if self.gaussian else 1.0 / (2.0 * looked)

    @property
    def closer_deviation(self) -> float:
        """Of the noise in a frequency of the closer look; infinite if there is none."""
        return math.inf if self.closer is None else self.deviation(self.closer) / self.closer_weight

    @property
    def look_noise(self) -> tuple[float, float]:
        """Of the noise in an entry of weight 1 of the look: of columns without contrasts, and of those with them."""
        entries = sum(self.partitions[j].size - 1 for j in np.flatnonzero(self.contrasted))
        return self.deviation(self.look), self.deviation(self.contrasts, entries)

    @property
    def look_deviations(self) -> Array:
        """Of the noise in what is measured of each column (d,)."""
        return np.array([look.deviation for look in self.looks])

    def deviation(self, charge: Charge | None, entries: int = 1) -> float:
        """Return the standard deviation of a charge's noise in each of so many entries; infinite without a charge."""
        return math.inf if charge is None else charge.deviation(entries)

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, of both rounds."""
        return tuple(charge for charge in (self.look, self.contrasts, self.closer, self.dependence, self.selected)
                     if charge is not None)

    def importance(self, tables: Integers) -> Array:
        """Return how much each table (t, 2) or (t, 3) of columns matters, relatively."""
        d, held = len(self.partitions), np.isin(tables, self.crossed).any(axis=1)
        if tables.shape[1] == 2:
            # All queries need the tables with the crossed column, and each other table serves one of them.
            return np.where(held, float(max(d - 1, 1)), 1.0)
        # There are (d - 2) / 3 times as many of three columns as of two.
        return np.where(held, 1.0 + OF_CROSSED * self.triples, 3.0 * self.triples / max(d - 2, 1))

    def _repr_html_(self) -> str:
        lines = [line.strip().partition(": ")[::2] for line in str(self).split("\n")]
        return html_table("What will be measured", lines)

    def __str__(self) -> str:
        numbers = [partition for partition in self.partitions if partition.value is not None]
        lines = [f"first: every column's frequencies, of {len(numbers)} numbers by up to "
                 f"{max((partition.intervals for partition in numbers), default=0)} intervals"]
        lines += [f"  noise in a frequency {self.look_deviations[~self.contrasted].min():.2g} to "
                  f"{self.look_deviations[~self.contrasted].max():.2g}"] if self.look is not None else []
        lines += [f"  of {self.contrasted.sum()} columns by contrasts; noise in each "
                  f"{self.look_deviations[self.contrasted].max():.2g}"] if self.contrasts is not None else []
        if self.closer is not None:
            lines.append(f"then: intervals that are found heavy, in up to {FINER} parts; noise "
                         f"{self.closer_deviation:.2g}")
        if self.dependence is not None:
            d = len(self.partitions)
            what = "products of contrasts" if self.dependence.law == "linf" else "tables"
            lines.append(f"then: {what} of {math.comb(d, 2)} pairs by cells of the released distributions"
                         + self._products_beside(len(numbers)))
        if self.selected is not None:
            lines.append("last: those of the tables that show dependence once more, and tables of three columns")
        return "\n".join(lines)

    def _products_beside(self, numbers: int) -> str:
        if not self.products or (self.dependence is not None and self.dependence.law == "linf"):
            return ""
        if not self.scores:
            return ", and the directions of rows"
        return f", and products of ranks of {math.comb(numbers, 2)} pairs of numbers" if numbers > 1 else ""


def plan_tables(n: int, domain: Domain, budget: Budget, shares: Shares | None = None,
                crossed: Sequence[int] = (), triples: float = 0.0) -> TableDesign:
    """Return the first round, and the charges of all rounds.

    Parameters
    ----------
    n : int
        Rows, at least 2.
    domain : Domain
    budget : Budget
    shares : Shares, optional
        Default: by the number of rows and columns.
    crossed : sequence of int
        Columns, by position.
    triples : float
        How much all tables of three columns together matter, beside all of two.

    Notes
    -----
    Privacy: public numbers only; proofs in the module's docstring.
    """
    columns = columns_of(domain)
    d, gaussian, strength = len(columns), budget.delta > 0, strength_of(budget)
    shares = planned_shares(n, columns, strength, gaussian, bool(crossed)) if shares is None else shares
    least = LEAST_INTERVALS if gaussian else LEAST_COUNTED
    closer = 0.0 if all(has_few(column, least) for column in columns) else shares.closer
    look = shares.look if d > 1 else 1.0 - closer
    contrasted, of_contrasts = (np.zeros(d, dtype=bool), 0.0) if gaussian else columns_by_contrasts(columns)
    others = d - int(contrasted.sum())

    def part(share: float) -> float:
        return strength * (math.sqrt(share) if gaussian else share)

    each = n * part(look * (1.0 - of_contrasts) / max(others, 1))
    partitions = tuple(by_levels(column) if own else _partition(column, each, gaussian)
                       for column, own in zip(columns, contrasted.tolist(), strict=True))
    # A column of a single category cannot move; it gets the weight of two categories.
    diameters = np.array([(diameter(len(p.indicators), p.intervals) if gaussian else 0.0) or 2.0 for p in partitions])
    parts = np.where(contrasted, 0.0, _look_parts(columns, gaussian))
    parts = np.where(contrasted, 1.0, parts / max(float(np.linalg.norm(parts, 2 if gaussian else 1)), 1e-300))
    weights = parts / diameters
    entries = sum(partition.size for partition in partitions)
    longest = max(partition.size for partition in partitions)

    def charge(purpose: str, share: float, law: Law, rounding: float = 16.0 * UNIT) -> Charge | None:
        return _charge(purpose, part(share), law, ROUNDED_UP / n + rounding) if share > 0.0 else None

    law: Law = "gaussian" if gaussian else "laplace"
    rest = 1.0 - look - closer if d > 1 else 0.0
    sharp = not gaussian and rest > 0.0 and contrasts_are_sharper(columns, n * rest * strength)
    # With a single pair there is nothing to select.
    kept = rest * (1.0 - shares.products) * shares.selected if gaussian and d > 2 else 0.0
    first = charge("columns", look * (1.0 - of_contrasts), law,
                   2.0 * UNIT * (longest + 8.0) * (math.sqrt(entries) if gaussian else entries))
    return TableDesign(n, domain, gaussian, partitions, contrasted, weights, first,
                       charge("columns, contrasts", look * of_contrasts, "linf", 2.0 * UNIT * (longest + 8.0)),
                       charge("columns, closer", closer, law),
                       charge("dependence", rest - kept, "linf" if sharp else law),
                       shares.products * rest / (rest - kept) if rest else 0.0, shares.scores, tuple(crossed),
                       charge("selected tables", kept, law), triples)


def _charge(purpose: str, strength: float, law: Law, sensitivity: float) -> Charge:
    if law != "linf":
        return Charge(purpose, law, sensitivity / strength * UPWARD, sensitivity, "L2" if law == "gaussian" else "L1",
                      1, PROOF)
    # The lattice on which the noise is drawn moves the values too, by less than scale / 2^39.
    epsilon = strength / UPWARD - 2.0**-39
    if not epsilon > 0.0:
        raise BudgetError(f"{purpose}: epsilon = {strength:.3g} is too small for l-infinity noise")
    scale = sensitivity / epsilon
    return Charge(purpose, law, scale, sensitivity + lattice_step(scale), "Linf", 1, PROOF)


def closer_looks(design: TableDesign, columns: Sequence[ReleasedColumn]) -> tuple[Measurement[Detail], ...]:
    """Return the closer looks at heavy intervals.

    An interval is heavy if the look gives it so many rows that the closer look's noise does not hide them. In each
    column the last interval comes first, so that dividing one does not move the others. At most `MOST_FINER` finer
    intervals are looked at.
    """
    room, least = MOST_FINER, max(HEAVY, HEAVY_BY_NOISE * design.closer_deviation)
    found = list[Measurement[Detail]]()
    for j, column in enumerate(columns):
        partition, k = column.partition, len(column.partition.indicators)
        for i in np.flatnonzero(column.mass[k:] >= least)[::-1].tolist():
            finer = partition.finer(i, FINER)
            if 2 < len(finer) <= room + 1:
                found.append(Measurement(Detail(j, partition, i, finer), design.closer_weight))
                room -= len(finer) - 1
    return tuple(found)


def _look_parts(columns: Sequence[Partition], gaussian: bool) -> Array:
    """Return how much each column (d,) matters in the look, up to a factor.

    The total variation of k frequencies errs as k times the noise, a distribution function as some few frequencies do.
    The sum of these errors is least for the cube roots of the factors, under noise in L1 for the square roots; for the
    sake of the largest error it is a little more.
    """
    def worth(column: Partition) -> int:
        levels = OF_A_NUMBER if column.levels is None else min(OF_A_NUMBER, len(column.levels))
        return len(column.indicators) + (0 if column.value is None else levels)

    return np.array([max(worth(column), 1) for column in columns]) ** (0.45 if gaussian else 0.5)


def _partition(column: Partition, strength: float, gaussian: bool) -> Partition:
    """Return the intervals of a number's look: about as many as its noise, 2 / strength in each, can tell apart."""
    if column.value is None:
        return column
    count = min(max(strength, 1.0) / 8.0, float(MOST_INTERVALS))
    rounded = 2.0 ** math.ceil(math.log2(max(count, 1.0))) if gaussian else count ** (2.0 / 3.0)
    least = LEAST_INTERVALS if gaussian else LEAST_COUNTED
    return column.cut(even_edges(column.levels, int(min(max(rounded, least), MOST_INTERVALS))))
