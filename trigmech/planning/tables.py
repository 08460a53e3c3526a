"""What to measure of each column, and, when its distribution is released, of how the columns depend on each other.

*The look.* Of every column its histogram: frequencies of categories and of special and missing values, and of a number
its counts in intervals of the public range by a factor of prefix sums (:mod:`trigmech.functions.prefix_sums`; at
delta = 0 the counts themselves). Column j has the weight w_j. Replacing a row moves the part of column j by at most
D_j / n, so the weighted vector moves by at most sqrt(sum w_j^2 D_j^2) / n in L2; the weights make that 1/n. In L1, of
counts alone, D_j is 2 and sums replace squares.

*The closer look.* Of every interval that the look found to be heavy, its counts in finer intervals. Of one column the
finer intervals, together with "elsewhere", are a partition of its rows, so a replaced row moves at most two counts of a
column by 1: sqrt(2) in L2, 2 in L1, and sqrt(2 d) / n or 2 d / n for d columns, whichever intervals were chosen.

*Dependence.* Of pairs of columns contingency tables by cells of the released distributions, of weight w_t: a replaced
row moves two entries of a table by 1/n, sqrt(2) w_t in L2 and 2 w_t in L1. And of pairs of numbers means of products of
scores: s_a(x) = v_a cos(a pi F(x)) with F the middle rank of x by the released distribution, 0 where the value is
missing or special, rounded to a multiple of 2^-15, so that sums over rows are integers. With S the largest
sum_a s_a^2 at any position of any column, the products of m columns' scores, all pairs, move by at most S m / n in L2:
let u_i, v_i be the score vectors of column i before and after, s_i and t_i their squared lengths, g_i = u_i . v_i and
G = sum g_i. The squared distance is the sum over i < j of s_i s_j + t_i t_j - 2 g_i g_j, and
2 sum over i < j of g_i g_j = G^2 - sum g_i^2 >= -sum g_i^2 with g_i^2 <= S^2. So it is at most
2 S^2 m (m - 1) / 2 + m S^2 = S^2 m^2. Of some of the pairs alone it is less still. In L1 Cauchy and Schwarz give
S m sqrt(entries) / n.

What the second round measures depends on the first round's released values and on nothing else that is private; its
weights are such that its sensitivity is 1/n whatever they were, so its charge is fixed beforehand.

Rounding. Counts are exact, so a weighted frequency errs by at most 4u of itself, u = 2^-53, and the vector, of
length at most 1, by 4u. A product with the factor R sums c exact products of total at most 1: an error of at most
(c + 3) u in each of K entries. Both tables err: `ROUNDING` is added to every sensitivity.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.partition import Partition, columns_of, even_edges
from trigmech.functions.prefix_sums import diameter
from trigmech.planning.design import UPWARD
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget, Charge
from trigmech.reconstruction.columns import ReleasedColumn

Array = NDArray[np.float64]
Integers = NDArray[np.int64]

PROOF = "look-and-tables"
MOST_INTERVALS, LEAST_INTERVALS = 1_024, 16
FINER = 1_024
# An interval with this part of the rows, and so many standard deviations of the closer look's noise, is looked at.
HEAVY, HEAVY_BY_NOISE = 1.0 / 64.0, 8.0
MOST_CELLS = 48
SCORE_BITS = 15
UNIT = 2.0**-53


@dataclass(frozen=True)
class Shares:
    """Parts of the budget (of mu^2, or of epsilon): of the look, the closer look, and the products among the rest."""

    look: float
    closer: float
    products: float


@dataclass(frozen=True, eq=False)
class TableDesign:
    """What the first round measures, and what all rounds may spend. Public.

    Parameters
    ----------
    n : int
    domain : Domain
    gaussian : bool
        Whether the noise is Gaussian, or Laplace noise.
    partitions : tuple of Partition
        Of the look.
    weights : ndarray (columns,)
    look, dependence : Charge
    closer : Charge or None
        Without it there is no closer look.
    products : float
        The part of the dependence's mu^2, or epsilon, that goes to products of numbers' scores.
    """

    n: int
    domain: Domain
    gaussian: bool
    partitions: tuple[Partition, ...]
    weights: Array
    look: Charge
    closer: Charge | None
    dependence: Charge | None
    products: float

    @property
    def closer_weight(self) -> float:
        """Of each count of the closer look."""
        looked = sum(partition.value is not None for partition in self.partitions)
        return 1.0 / math.sqrt(2.0 * looked) if self.gaussian else 1.0 / (2.0 * looked)

    @property
    def closer_deviation(self) -> float:
        """Of the noise in a frequency of the closer look; infinite if there is none."""
        return math.inf if self.closer is None else self.deviation(self.closer) / self.closer_weight

    def deviation(self, charge: Charge) -> float:
        """Return the standard deviation of a charge's noise."""
        return charge.scale * (1.0 if self.gaussian else math.sqrt(2.0))

    @property
    def charges(self) -> tuple[Charge, ...]:
        """All charges, of both rounds."""
        return tuple(charge for charge in (self.look, self.closer, self.dependence) if charge is not None)


def plan_tables(n: int, domain: Domain, budget: Budget, shares: Shares | None = None) -> TableDesign:
    """Return the design of a release of columns and tables."""
    columns = columns_of(domain)
    numbers = [column for column in columns if column.value is not None]
    gaussian, strength = budget.delta > 0, _strength(budget)
    wide = any(column.levels is None or len(column.levels) > LEAST_INTERVALS for column in numbers)
    shares = shares or _shares(n, columns, strength, gaussian)
    closer = shares.closer if wide else 0.0
    rest = 1.0 - shares.look - closer if len(columns) > 1 else 0.0
    look = shares.look if len(columns) > 1 else 1.0 - closer
    of_column = look / len(columns)
    partitions = tuple(_partition(column, n, _part(strength, of_column, gaussian), gaussian) for column in columns)
    diameters = np.array([(diameter(len(p.indicators), p.intervals) if gaussian else 2.0) or 1.0 for p in partitions])
    d = len(columns)
    weights = 1.0 / (diameters * (math.sqrt(d) if gaussian else d))
    entries = sum(partition.size for partition in partitions)
    most = max(partition.size for partition in partitions)

    def charge(purpose: str, part: float, sensitivity: float) -> Charge:
        moved = sensitivity / n + (2.0 * (most + 8.0) * math.sqrt(entries) * UNIT if gaussian else 2.0 * entries * UNIT)
        scale = moved / _part(strength, part, gaussian) * UPWARD
        return Charge(purpose, "gaussian" if gaussian else "laplace", scale, moved, "L2" if gaussian else "L1", 1, PROOF)

    return TableDesign(n, domain, gaussian, partitions, weights, charge("columns", look, 1.0),
                       charge("columns, closer", closer, 1.0) if closer else None,
                       charge("dependence", rest, 1.0) if rest else None, shares.products)


def heavy_intervals(design: TableDesign, columns: Sequence[ReleasedColumn]) -> list[tuple[int, int, Array]]:
    """Return which intervals of which columns are to be looked at closer, and the edges of finer ones.

    Those that hold so many rows by the look that the closer look's noise leaves something to see, the last first, so
    that dividing one does not move the others.
    """
    found: list[tuple[int, int, Array]] = []
    if design.closer is None:
        return found
    least = max(HEAVY, HEAVY_BY_NOISE * design.closer_deviation)
    for j, column in enumerate(columns):
        partition, k = column.partition, len(column.partition.indicators)
        own: list[tuple[int, int, Array]] = []
        for i in np.flatnonzero(column.mass[k:] >= least)[::-1].tolist():
            low, high = partition.edges[i : i + 2]
            if partition.levels is None:
                finer = np.linspace(low, high, FINER + 1)
            else:
                inside = partition.levels[(partition.levels >= low) & (partition.levels <= high)]
                finer = np.concatenate([[low], 0.5 * (inside[1:] + inside[:-1]), [high]])
            if len(finer) > 2 and (np.diff(finer) > 0).all():
                own.append((j, i, finer))
        found += own
    return found


def _strength(budget: Budget) -> float:
    return gaussian_mu(budget) if budget.delta > 0 else budget.epsilon


def _part(strength: float, part: float, gaussian: bool) -> float:
    return strength * (math.sqrt(part) if gaussian else part)


def _shares(n: int, columns: Sequence[Partition], strength: float, gaussian: bool) -> Shares:
    numbers = sum(column.value is not None for column in columns)
    wide = sum(column.value is not None and (column.levels is None or len(column.levels) > 256) for column in columns)
    return Shares(0.2, 0.03 if wide else 0.0, 0.3 if numbers > 1 else 0.0)


def _partition(column: Partition, n: int, strength: float, gaussian: bool) -> Partition:
    """Return the intervals of a number's look: about as many as its noise can tell apart."""
    if column.value is None:
        return column
    noise = 2.0 / (n * strength)
    count = 2.0 ** math.ceil(math.log2(max(0.25 / noise, 1.0))) if gaussian else (0.25 / noise) ** 0.67
    return column.cut(even_edges(column.levels, int(min(max(count, LEAST_INTERVALS), MOST_INTERVALS))))
