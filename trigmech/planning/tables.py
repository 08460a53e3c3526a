"""The design of a table's release: first each column, then the dependence between columns.

*The look* is the first round. It measures every column: the frequencies of categories, special values and missing
values, and the counts of a number in intervals of its public range. For Gaussian noise a factor of prefix sums encodes
these counts (:mod:`trigmech.functions.prefix_sums`). If a number has many values, an interval at either bound is
measured alone (:class:`trigmech.queries.one_way.PrefixSumsWithEnds`). For delta = 0 all counts are measured directly,
those of these intervals too.
Column j has the weight w_j. Replacing a row moves the vector of column j by at most D_j / n, so the weighted vector
moves by at most sqrt(sum w_j^2 D_j^2) / n in L2. The weights make this 1/n. In L1, for direct counts, D_j is 2, and
sums replace squares. A column with a single position never moves.

*Contrasts.* For delta = 0, contrasts are more exact for columns with few positions
(:mod:`trigmech.functions.contrasts`). All of them together get noise of density proportional to exp(-max |z| / scale).
A contrast is in [-1, 1] for every row, so half its mean moves by at most 1/n. The largest of any number of such moves
is at most 1/n too. The vector of these columns has its own charge, and the other columns have another one; each gets a
fraction of epsilon. If rows are few, the signs of the first cosines of numbers are measured with them
(:class:`trigmech.queries.signs.Signs`), instead of counts: signs are in [-1, 1] as well.

*Details* ("columns, closer") are the counts in finer intervals of every heavy interval of the look. The intervals of a
column are disjoint. So for any number of heavy intervals, all finer intervals of a column, together with "elsewhere",
are a partition of its rows. A replaced row moves at most two counts of a column by 1: sqrt(2) in L2 and 2 in L1. For
all d columns that have heavy intervals this is sqrt(2 d) / n or 2 d / n, for any choice of intervals. Which columns
these are is found in the released distributions. An interval with parts of two sizes has half of the weight for each
size: in L1 a row moves both together as far as those of one size with all of it, and it is in no other interval.

*Dependence.* Pairs of columns have contingency tables by cells of the released distributions, with weight w_t. A
replaced row moves two entries of a table by 1/n: sqrt(2) w_t in L2 and 2 w_t in L1. Pairs of numbers also have means of
products of scores, and so have columns of two categories beside numbers. The scores are s_a(x) = v_a cos(a pi F(x)),
where F is the middle rank of x by the released distribution. They are 0 for a number's missing and special values. A
number for which the look finds many of these has one more score, which is constant there and 0 elsewhere, and whose
square is at most that column's S (below). They are rounded to multiples of 2^-15, so that sums over rows are integers.
Let S_i be the largest sum_a s_a^2 at any position of column i, and L the sum of the S_i of all columns that are in any
of the pairs. Then the products of the scores for these pairs move by at most L / n in L2. Proof: let u and v hold the
scores of these columns before and after. The products are different entries of u u^T above its diagonal. So their
squared distance is at most half of |u u^T - v v^T|^2 = |u|^4 + |v|^4 - 2 (u . v)^2, and |u|^2 and |v|^2 are at most L.
In L1 Cauchy and Schwarz give L sqrt(entries) / n. Tables and products form one vector. Their largest
moves add up in L1, and the squares of these add up in L2. The bounds hold for any function of a row with values in the
cells, and for any scores. They use only that the released distributions are the same for both tables. If rows are few,
directions of rows take the place of products: the normal scores of all columns as a vector of length 1. Where the look
finds many special or missing values, the vector has a second score of the column, which tells them from numbers. The
products for all pairs move by 1 / n in L2 together, whatever the number of scores
(:class:`trigmech.queries.directions.Directions`).

*Selected tables.* With Gaussian noise a fraction of the tables' budget is kept for a last round
(:mod:`trigmech.planning.selection`). It measures again those tables that are stronger than their noise. It also
measures some tables of two columns at the resolution of their positions, or of their tails, and tables of three
columns. Again a replaced row moves two entries of each table by 1/n. Measuring a table twice loses nothing, because the
precisions of normal noise add up.

For delta = 0 and few cells, products of contrasts of the cells take the place of all of these. A pair of columns with a
and b cells has (a - 1)(b - 1) products. With the columns' own frequencies they determine the table. Each product is in
[-1, 1], so half its mean moves by at most 1/n, for any number of products. All of them together get the noise of
contrasts.

The only private facts that a later round uses are the released values of earlier rounds. Its weights give it the
sensitivity 1/n for all such values. So its charge is fixed beforehand, and rounds compose adaptively: the squares of
their mu, or their epsilons, add up.

Rounding, with u = 2^-53. Weights are computed too, so a bound that should be 1/n may exceed it by rounding errors of
sums over tables. For up to 10^6 tables the relative error is below that of `ROUNDED_UP`. The same holds for products of
scores, whose means over a person's rows are rounded to 2^-46. Shares of a person sum to 1 exactly
(:mod:`trigmech.measurement.sums`). Counts are exact on their lattice and are rounded to floats at most twice. So a
weighted frequency has a relative error of at most 4u, and the vector, of length at most 1, has an error of at most 4u.
The same holds for half the mean of a product of contrasts. A product with the factor R, or with contrasts, sums c
products of total at most 1, which gives an error of at most (c + 5) u in each of K entries. The errors of both tables
are added.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech._html import html_table
from trigmech.domain import Domain
from trigmech.functions.partition import Partition, columns_of, even_edges, of_one_size, scored_columns, with_ends
from trigmech.functions.prefix_sums import ROUNDED_UP
from trigmech.planning.contrasted import (
    LEAST_COUNTED,
    MOST_CONTRASTED,
    MOST_INTERVALS,
    OF_SIGNS,
    Looked,
    by_levels,
    contrasts_are_sharper,
    counted,
    has_few,
    looks_of,
    most_products,
)
from trigmech.planning.design import Regime, Round
from trigmech.planning.peaks import FINER
from trigmech.planning.shares import Shares, look_parts, planned_shares
from trigmech.privacy.budget import Budget, Charge
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import (
    Contrasts,
    Histogram,
    HistogramWithEnds,
    Look,
    PrefixSums,
    PrefixSumsWithEnds,
)
from trigmech.queries.signs import Signs

PROOF = "look-and-tables"
# The fewest intervals of a number in the look. More cost prefix sums hardly anything, but they cost counts much.
LEAST_INTERVALS = 64
# Under normal noise a number with more levels has ends even if each level is an interval. With fewer it loses by them.
MOST_WITHOUT_ENDS = 32
# The most finer intervals of all columns together. More would not fit into a file.
MOST_FINER = 2**22
# The most entries of all tables of a round together, and of all tables at the resolution of positions.
MOST_ENTRIES, MOST_FINE_ENTRIES = 2**18, 2**17
# The same for tables of tails, which have at most about 50 x 50 cells, and the most positions in their maps.
MOST_TAIL_ENTRIES, MOST_TAIL_PLACES = 2**14, 2**17
# The most tables of three columns, and the most positions in all their maps from positions to cells.
MOST_TRIPLES, MOST_PLACES = 1_024, 2**21
UNIT = 2.0**-53
# The additional importance of tables of three columns with a target column, relative to that of all tables of three.
# This value gave the best predictions of the target from the other columns, over public sets.
OF_CROSSED = 7.5


class Largest(NamedTuple):
    """Upper bounds on the size of a release: its numbers, the columns' positions, and the values stored with them.

    ``scores`` are the values for each position, and ``places`` those in maps from positions to cells and in pairs.
    """

    released: int
    positions: int
    scores: int
    places: int


@dataclass(frozen=True, eq=False)
class TableDesign:
    """The measurements of the first round, and the charges of all rounds. Public.

    first: The look: one draw for all columns, or two if some of them are measured by contrasts.
    closer, dependence: The charges for details and for dependence. None if no column can have details, or if there is
      one column.
    selected: The charge for the tables of the last round; None without such a round.
    products: The fraction of the charge for dependence (of mu^2 or epsilon) that products get.
    scores: See :class:`Shares`.
    crossed: Target columns; see :class:`trigmech.workload.Marginals`.
    triples: The importance of all tables of three columns together, relative to all tables of two.
    """

    n: int
    domain: Domain
    first: tuple[Round, ...]
    closer: Charge | None
    dependence: Charge | None
    products: float
    scores: int
    crossed: tuple[int, ...] = ()
    selected: Charge | None = None
    triples: float = 0.0

    @cached_property
    def looks(self) -> tuple[Measurement[Look], ...]:
        """The look's measurement of each column, without values but with its noise."""
        found = [each for one in self.first for each in one.planned]
        return tuple(sorted(found, key=lambda each: each.query.column))

    @cached_property
    def partitions(self) -> tuple[Partition, ...]:
        own = {each.query.column: each.query.partition for one in self.first for each in one.asked}
        return tuple(own[j] for j in range(len(own)))

    @property
    def gaussian(self) -> bool:
        """Whether the noise is Gaussian. If not, it is Laplace or l-infinity noise."""
        return self.first[0].charge.law == "gaussian"

    @property
    def numbers(self) -> int:
        """How many columns are numbers."""
        return sum(partition.value is not None for partition in self.partitions)

    def closer_weight(self, columns: int) -> float:
        """Return the weight of each frequency of the details of so many columns, at least 1."""
        return 1.0 / math.sqrt(2.0 * columns) if self.gaussian else 1.0 / (2.0 * columns)

    def closer_deviation(self, columns: int) -> float:
        """Return the standard deviation of the noise in a frequency of the details of so many columns.

        It is infinite without a charge for details.
        """
        return math.inf if self.closer is None else self.deviation(self.closer) / self.closer_weight(columns)

    def deviation(self, charge: Charge | None, entries: int = 1) -> float:
        """Return the standard deviation of a charge's noise in each of some entries; infinite without a charge."""
        return math.inf if charge is None else charge.deviation(entries)

    @property
    def charges(self) -> tuple[Charge, ...]:
        later = (charge for charge in (self.closer, self.dependence, self.selected) if charge is not None)
        return (*(one.charge for one in self.first), *later)

    @property
    def largest(self) -> Largest:
        """Upper bounds on the size of a release by this design."""
        d = len(self.partitions)
        scored = len(scored_columns(self.partitions, self.gaussian))
        positions = sum(partition.size for partition in self.partitions) + (MOST_FINER if self.closer else 0)
        released, scores, places = positions, 0, 0
        if self.dependence is not None and self.dependence.law == "linf":
            released += most_products(self.partitions)
            scores, places = MOST_CONTRASTED - 1, 2 * math.comb(d, 2)
        elif self.dependence is not None:
            # Numbers with special or missing values can have another score. Directions are products for all pairs.
            second = 0 if not self.gaussian else sum(partition.value is not None and len(partition.indicators) > 0
                                                     for partition in self.partitions)
            most = self.scores + (second > 0) if self.scores else 1
            pairs = math.comb(scored, 2) if self.scores else math.comb(d + second, 2) - second
            pairs *= self.products > 0.0
            # If all entries are too many, tables have two cells for each column.
            released += max(MOST_ENTRIES, 4 * math.comb(d, 2)) + pairs * most**2
            scores = max(self.scores, 1) + (second > 0) if pairs else 0
            places = 2 * pairs + 4 * math.comb(d, 2)
        if self.selected is not None:
            # If their entries are too many, tables of three columns have up to three cells for each column.
            released += max(MOST_ENTRIES, 27 * MOST_TRIPLES) + MOST_FINE_ENTRIES + MOST_TAIL_ENTRIES
            # Beside one map for each column, there are maps of tables of three columns, of finer tables of two, and of
            # tables of tails.
            places += 4 * MOST_TRIPLES + MOST_PLACES + 2 * MOST_FINE_ENTRIES + 2 * MOST_TAIL_PLACES
        return Largest(released, positions, scores, places)

    def importance(self, tables: Integers) -> Array:
        """Return the relative importance of each table (t, 2) or (t, 3) of columns."""
        d, held = len(self.partitions), np.isin(tables, self.crossed).any(axis=1)
        if tables.shape[1] == 2:
            # All queries need the tables with the target column, and each other table serves one query.
            return np.where(held, float(max(d - 1, 1)), 1.0)
        # There are (d - 2) / 3 times as many tables of three columns as of two.
        return np.where(held, 1.0 + OF_CROSSED * self.triples, 3.0 * self.triples / max(d - 2, 1))

    def _repr_html_(self) -> str:
        lines = [line.strip().partition(": ")[::2] for line in str(self).split("\n")]
        return html_table("What will be measured", lines)

    def __str__(self) -> str:
        numbers = [partition for partition in self.partitions if partition.value is not None]
        signs = [each.query for each in self.looks if not each.query.tells_frequencies]
        counted = [partition for partition in numbers if all(partition is not each.partition for each in signs)]
        lines = ["first: every column's frequencies" + (f", of {len(counted)} numbers by up to "
                 f"{max((partition.intervals for partition in counted), default=0)} intervals" if counted or not signs
                 else "")]
        for one in self.first:
            noise = [each.deviation for each in one.planned]
            held = len(noise) - sum(not each.query.tells_frequencies for each in one.asked)
            means = [f"of {held} columns by contrasts"] * bool(held or not signs)
            if signs:
                count = signs[0].size - len(signs[0].partition.indicators)
                means.append(f"of {len(signs)} numbers by the signs of {count} cosines")
            lines.append(f"  noise in a frequency {min(noise):.2g} to {max(noise):.2g}" if one.charge.law != "linf" else
                         f"  {', '.join(means)}; noise in each {max(noise):.2g}")
        if self.closer is not None:
            lines.append(f"then: intervals that are found heavy, in up to {FINER} parts; noise at most "
                         f"{self.closer_deviation(self.numbers):.2g}")
        if self.dependence is not None:
            d = len(self.partitions)
            what = "products of contrasts" if self.dependence.law == "linf" else "tables"
            lines.append(f"then: {what} of {math.comb(d, 2)} pairs by cells of the released distributions"
                         + self._products_beside())
        if self.selected is not None:
            lines.append("last: those of the tables that show dependence once more, and tables of three columns")
        return "\n".join(lines)

    def _products_beside(self) -> str:
        if not self.products or (self.dependence is not None and self.dependence.law == "linf"):
            return ""
        if not self.scores:
            return ", and the directions of rows"
        scored = scored_columns(self.partitions, self.gaussian)
        of_two = any(self.partitions[j].value is None for j in scored)
        return f", and products of ranks of {math.comb(len(scored), 2)} pairs of numbers" + (
            " or of two categories" * of_two) if len(scored) > 1 else ""


def plan_tables(n: int, domain: Domain, budget: Budget, shares: Shares | None = None,
                crossed: Sequence[int] = (), triples: float = 0.0) -> TableDesign:
    """Return the design for n rows: the first round, and the charges of all rounds.

    By default :func:`trigmech.planning.shares.planned_shares` gives the fractions of the budget. For ``crossed`` and
    ``triples`` see :class:`TableDesign`.
    """
    columns = columns_of(domain)
    d, regime = len(columns), Regime.of(budget)
    gaussian, strength = regime.gaussian, regime.strength
    shares = planned_shares(n, columns, strength, gaussian, bool(crossed)) if shares is None else shares
    least = LEAST_INTERVALS if gaussian else LEAST_COUNTED
    closer = 0.0 if all(has_few(column, least) for column in columns) else shares.closer
    look = shares.look if d > 1 else 1.0 - closer
    looked = Looked(np.zeros(d, dtype=bool), 0.0, 0) if gaussian else looks_of(columns, n * regime.part(look))
    contrasted, of_contrasts = looked.contrasted, looked.part
    others = d - int(contrasted.sum())
    each = n * regime.part(look * (1.0 - of_contrasts) / max(others, 1))
    partitions = tuple((by_levels(column) if has_few(column) else of_one_size(column, OF_SIGNS, 2 * OF_SIGNS))
                       if own else _partition(column, each, gaussian)
                       for column, own in zip(columns, contrasted.tolist(), strict=True))
    looks = [_look(j, columns[j], partition, own, gaussian, looked.signs)
             for j, (partition, own) in enumerate(zip(partitions, contrasted.tolist(), strict=True))]
    # A column with a single category cannot move. It gets the weight of two categories.
    diameters = np.array([look.diameter("L2") if gaussian else 2.0 for look in looks])
    parts = np.where(contrasted, 0.0, look_parts(columns, gaussian))
    parts = np.where(contrasted, 1.0, parts / max(regime.length(parts), 1e-300))
    weights = parts / diameters
    entries = sum(look.partition.size for look in looks)
    longest = max(look.partition.size for look in looks)

    def charge(purpose: str, share: float, rounding: float = 16.0 * UNIT, sharp: bool = False) -> Charge | None:
        made = regime.max_charge if sharp else regime.charge
        return made(purpose, ROUNDED_UP / n + rounding, PROOF, share) if share > 0.0 else None

    rest = 1.0 - look - closer if d > 1 else 0.0
    sharp = not gaussian and rest > 0.0 and contrasts_are_sharper(columns, n * rest * strength)
    # A single pair needs no selection, but with a number it may have tails, or be sparse in finer cells.
    again = gaussian and (d > 2 or any(column.value is not None for column in columns))
    kept = rest * (1.0 - shares.products) * shares.selected if again else 0.0
    first = charge("columns", look * (1.0 - of_contrasts),
                   2.0 * UNIT * (longest + 8.0) * (math.sqrt(entries) if gaussian else entries))
    asked = [Measurement(look, weight) for look, weight in zip(looks, weights.tolist(), strict=True)]
    second = charge("columns, contrasts", look * of_contrasts, 2.0 * UNIT * (longest + 8.0), True)
    rounds = tuple(Round(tuple(each for each, own in zip(asked, contrasted, strict=True) if own == kind), cost)
                   for kind, cost in ((False, first), (True, second)) if cost is not None)
    return TableDesign(n, domain, rounds, charge("columns, closer", closer),
                       charge("dependence", rest - kept, sharp=sharp),
                       shares.products * rest / (rest - kept) if rest else 0.0, shares.scores, tuple(crossed),
                       charge("selected tables", kept), triples)


def _look(j: int, whole: Partition, partition: Partition, contrasted: bool, gaussian: bool, signs: int) -> Look:
    """Return the first query about a column."""
    if contrasted:
        return Contrasts(j, partition) if has_few(whole) else Signs(j, partition, signs)
    edges = with_ends(partition.levels, partition.edges) if partition.intervals else None
    if edges is None and gaussian and partition.levels is not None and len(partition.levels) > MOST_WITHOUT_ENDS:
        edges = partition.edges
    if edges is None:
        return (PrefixSums if gaussian else Histogram)(j, partition)
    return (PrefixSumsWithEnds if gaussian else HistogramWithEnds)(j, partition.cut(edges))


def _partition(column: Partition, strength: float, gaussian: bool) -> Partition:
    """Return the partition of a column in the look. A number gets about as many intervals as its noise can tell apart.

    The noise in each interval is 2 / strength.
    """
    if column.value is None:
        return column
    if not gaussian:
        wanted = counted(strength)
        if column.levels is not None and len(column.levels) < 2 * wanted:
            return of_one_size(column, wanted, MOST_INTERVALS)
        return column.cut(even_edges(column.levels, wanted))
    count = min(max(strength, 1.0) / 8.0, float(MOST_INTERVALS))
    rounded = 2.0 ** math.ceil(math.log2(max(count, 1.0)))
    wanted = int(min(max(rounded, LEAST_INTERVALS), MOST_INTERVALS))
    return of_one_size(column, wanted, MOST_INTERVALS)
