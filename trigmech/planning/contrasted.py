"""The choice between contrasts and frequencies at delta = 0. Contrasts of few cells get noise in the max norm."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech.functions.partition import Partition, even_edges
from trigmech.planning.few_rows import missed_by_contrasts
from trigmech.privacy.budget import deviation_of

# The fewest intervals of a number that is measured by counts. A number with at most so many levels has few positions.
LEAST_COUNTED = 16
# The most intervals of a number in the look.
MOST_INTERVALS = 1_024
# The most cells of a column, and the most products. Beside numbers, whose two cells tell most, a column of categories
# has at least LEAST_OF_CATEGORIES: with fewer, one category moves as another does, which plots show.
MOST_CONTRASTED, LEAST_OF_CATEGORIES, MOST_PRODUCTS = 16, 3, 2**18
# If even two cells of each column have more products, they are measured all the same. A column for which two cells are
# wanted has at most so many of indicators, and so many of a number, which can have a cell for each of four levels.
CELLS_OF_INDICATORS, CELLS_OF_A_NUMBER = 3, 4
# The most positions of a column that is measured by contrasts. More would take long to decode.
MOST_IN_LOOK = 256
# The numbers of cosines of which the signs may be measured, and the intervals on which they are.
SIGNS, OF_SIGNS = (16, 12, 8, 6, 5, 4, 3), 64
# The assumed variances of coefficients, set on public sets (:func:`looks_of`).
OF_COSINES, OF_CONTRASTS = 1.0, 10.0
# Signs leave the fine shape open, so they must be predicted to lower the error by more than counts do: by this fraction
# of the counts' gain, or of the numbers' error without any measurement, if that is less.
CLEARLY_BETTER = 0.03
# Fewer than FOUR signs cannot tell one peak from three, so they must lower the error by this fraction more.
FOUR, COARSER = 4, 0.04
# The fractions of the first round's budget that contrasts can get beside counts.
PARTS = np.arange(8, 33) / 40
TINY = 1e-300


class Looked(NamedTuple):
    """How the first round measures columns at delta = 0.

    ``contrasted`` (d,) are the columns that have max-norm noise, and ``part`` is their fraction of the round's budget.
    Numbers with more positions have it if ``signs``, the number of cosines whose signs are measured, is not 0.
    """

    contrasted: NDArray[np.bool_]
    part: float
    signs: int


def looks_of(columns: Sequence[Partition], strength: float) -> Looked:
    """Return how the first round measures columns at delta = 0: the plan with the least predicted error.

    Columns of few positions have contrasts. Numbers with more positions have counts, or the signs of some first
    cosines. All others have counts. All contrasts and signs share one draw of noise in the max norm, and all counts
    another one, of Laplace noise. ``strength`` is n epsilon of both together.

    A column's density, divided by the even one, has coefficients of orthonormal functions: cosines of its place, or
    contrasts of its categories. Coefficient a is assumed to have mean 0 and the variance OF_COSINES / a^2 for a number,
    and OF_CONTRASTS / (k + 2), at most 1, for k categories. A measurement with noise of variance s^2 leaves
    v s^2 / (v + s^2) of a variance v. The predicted error of a column is the root of the sum over all its coefficients;
    that of a plan is the sum over the columns.
    """
    plan = _Planned.of(columns, strength)
    own, part = plan.without_signs
    best = Looked(own, part, 0)
    if plan.few.all():
        return best
    # Without any measurement. Noise that hides everything leaves as much, and then signs are measured.
    nothing = float(replace(plan, strength=0.0).errors(own, 0, np.array([part]))[0])
    most = nothing - float(plan.errors(own, 0, np.array([part]))[0])
    most += CLEARLY_BETTER * min(most, int((~plan.few).sum()) * math.sqrt(OF_COSINES * math.pi**2 / 6.0))
    own = own | ~plan.few
    parts = np.ones(1) if own.all() else PARTS
    for signs in SIGNS:
        gains = nothing - plan.errors(own, signs, parts)
        if gains.max() >= most * (1.0 + COARSER * (signs < FOUR)) - 1e-12 * nothing:
            most, best = float(gains.max()), Looked(own, float(parts[gains.argmax()]), signs)
    return best


def mean_error(columns: Sequence[Partition], strength: float) -> float:
    """Return the predicted error of a column by the plan of :func:`looks_of`, as a mean over the columns."""
    looked = looks_of(columns, strength)
    errors = _Planned.of(columns, strength).errors(looked.contrasted, looked.signs, np.array([looked.part]))
    return float(errors[0]) / len(columns)


@dataclass(frozen=True, eq=False)
class _Planned:
    """The columns of a plan: which have few positions, how many, which of them are short, and special values (d,)."""

    few: NDArray[np.bool_]
    sizes: Integers
    short: NDArray[np.bool_]
    special: Integers
    strength: float

    @classmethod
    def of(cls, columns: Sequence[Partition], strength: float) -> "_Planned":
        few = np.array([has_few(column) for column in columns])
        sizes = np.array([by_levels(column).size if own else LEAST_COUNTED
                          for column, own in zip(columns, few, strict=True)])
        return cls(few, sizes, few & (sizes <= MOST_IN_LOOK), np.array([len(each.indicators) for each in columns]),
                   strength)

    @property
    def without_signs(self) -> tuple[NDArray[np.bool_], float]:
        """The columns that have contrasts if there are no signs, and their fraction of the budget.

        These are the columns with at most some number of positions. The number is the one with the least predicted
        noise in all frequencies together, in total variation and up to a factor. By contrasts the noise in k
        frequencies together is about that in one contrast. By frequencies it is sqrt(k) times that in one frequency.
        """
        found: tuple[float, NDArray[np.bool_], float] = (math.inf, self.short, 0.0)
        for most in [0.0, *np.unique(self.sizes[self.short]).tolist()]:
            own = self.short & (self.sizes <= most)
            entries, others = int((self.sizes[own] - 1.0).sum()), int((~own).sum())
            if most and not entries:
                continue
            errors = np.sqrt([deviation_of("linf", entries) * np.sqrt(self.sizes[own]).sum(),
                              deviation_of("laplace") * others * self.sizes[~own].sum()])
            if errors.sum() < found[0]:
                found = (float(errors.sum()), own, float(errors[0] / errors.sum()))
        return found[1:]

    def errors(self, own: NDArray[np.bool_], signs: int, parts: Array) -> Array:
        """Return the predicted error (p,) if some columns (d,) have contrasts or signs, with these parts (p,)."""
        few, sizes = self.few, self.sizes
        entries = int((sizes[own & few] - 1).sum() + (self.special + signs)[own & ~few].sum())
        with np.errstate(divide="ignore", over="ignore"):
            noise = (2.0 * deviation_of("linf", entries) / (parts * self.strength)) ** 2
            each = (1.0 - parts) * self.strength / max(int((~own).sum()), 1)
            of_count = (2.0 * deviation_of("laplace") / each) ** 2
        return np.asarray(
            _of_categories(sizes[own & few], noise) + _of_categories(sizes[~own & few], of_count, True)
            + (own & ~few).sum() * _of_signs(signs, noise) + (~own & ~few).sum() * _of_counts(each, of_count))


def _of_categories(sizes: Integers, noise: Array, counted: bool = False) -> Array:
    """Return the predicted error (p,) of columns of so many categories, for noise (p,) in contrasts or in counts."""
    of_coefficients = noise[:, None] * (sizes if counted else 1.0)
    variances = np.minimum(OF_CONTRASTS / (sizes + 2.0), 1.0)
    return np.asarray(np.sqrt((sizes - 1.0) * _left(variances, of_coefficients)).sum(axis=1))


def _of_signs(count: int, noise: Array) -> Array:
    """Return the predicted error (p,) of a number. A sign is 4 / pi cosines, but for cosines of higher degrees."""
    return _of_cosines(np.full(len(noise), count), 2.0 * (0.25 * math.pi) ** 2 * noise)


def _of_counts(strength: Array, noise: Array) -> Array:
    count = np.array([counted(own) for own in strength.tolist()])
    return _of_cosines(count, count * noise)


def _of_cosines(count: Integers, noise: Array) -> Array:
    """Return the predicted error (p,) of a number of which some first coefficients (p,) have noise (p,)."""
    degrees = np.arange(1.0, max(count.max(), 1) + 1.0)
    left = np.where(degrees <= count[:, None], _left(OF_COSINES / degrees**2, noise[:, None]), 0.0)
    return np.asarray(np.sqrt(left.sum(axis=1) + OF_COSINES / (count + 0.5)))


def _left(variance: Any, noise: Any) -> Any:
    """Return the rest of a variance after a measurement with noise of some variance, which can be infinite."""
    return variance / (1.0 + variance / np.maximum(noise, TINY))


def counted(strength: float) -> int:
    """Return the number of intervals of a number that is measured by counts, for n epsilon of its own."""
    wanted = min(max(strength, 1.0) / 8.0, float(MOST_INTERVALS)) ** (2.0 / 3.0)
    return max(int(wanted), LEAST_COUNTED)


def contrasts_are_sharper(columns: Sequence[Partition], strength: float) -> bool:
    """Return whether products of contrasts give less noise in the cells of all pairs' tables than tables do.

    The noise in all cells of a table together is about that in one product. The noise limits the number of cells. This
    estimate takes fewer cells than possible, because rare ones are merged.
    """
    cells = planned_cells(columns, strength)[1]
    pairs = np.array(list(combinations(cells.tolist(), 2)))
    noise = deviation_of("linf", products_of(cells)) / np.sqrt(pairs.prod(axis=1))
    return bool(noise.mean() < len(pairs) * deviation_of("laplace"))


def planned_cells(columns: Sequence[Partition], strength: float) -> tuple[int, Integers, float]:
    """Return the most cells of a column in products of contrasts, each column's cells (d,), and the missed dependence.

    ``strength`` is n epsilon of the products. For the last number see :func:`missed_by_contrasts`. Columns without a
    number can have one cell more than this in the end: the constants of the prediction were set without it.
    """
    sizes = np.array([by_levels(column).size if has_few(column) else column.size + MOST_CONTRASTED
                      for column in columns])
    numbers = sum(column.value is not None for column in columns)
    most, _, missed = best_cells(lambda count, _: np.minimum(sizes, count), numbers, 2.0 / strength)
    return most, np.minimum(sizes, most), missed


def best_cells(cells_of: Callable[[int, int], Integers], numbers: int, scale: float) -> tuple[int, int, float]:
    """Return the numbers of cells with which products of contrasts miss the least dependence, and that dependence.

    The first is that of a column with a number, the second that of a column without one.

    cells_of: Returns the number of cells (d,) of each column, given both wanted numbers.
    numbers: How many columns are numbers.
    scale: The scale of the noise.
    """
    found = []
    for count in range(2, MOST_CONTRASTED + 1):
        for of_categories in dict.fromkeys((max(count, LEAST_OF_CATEGORIES if numbers else 2), count)):
            cells = cells_of(count, of_categories)
            entries = products_of(cells)
            if entries <= MOST_PRODUCTS or of_categories == 2:
                missed = missed_by_contrasts(cells, numbers, count, scale * deviation_of("linf", entries))
                found.append((missed, count, of_categories))
                break
        else:
            break
    missed, count, of_categories = min(found)
    return count, of_categories, missed


def products_of(cells: Integers) -> int:
    """Return the number of products of contrasts over all pairs of columns, given their numbers of cells."""
    own = cells - 1
    return int(own.sum() ** 2 - (own**2).sum()) // 2


def most_products(columns: Sequence[Partition]) -> int:
    """Return an upper bound on the number of products of contrasts, whatever the released distributions are."""
    return max(MOST_PRODUCTS, products_of(np.array([most_cells_of_two(column) for column in columns])))


def most_cells_of_two(column: Partition) -> int:
    """Return the most cells that a column can have in products of contrasts where two are wanted."""
    levels = CELLS_OF_A_NUMBER if column.levels is None else len(column.levels)
    return min(len(column.indicators), CELLS_OF_INDICATORS) + (
        0 if column.value is None else min(levels, CELLS_OF_A_NUMBER))


def has_few(column: Partition, most: int = LEAST_COUNTED) -> bool:
    """Return whether a column has few positions: categories, or at most ``most`` levels."""
    return column.value is None or (column.levels is not None and len(column.levels) <= most)


def by_levels(column: Partition) -> Partition:
    return column if column.levels is None else column.cut(even_edges(column.levels, len(column.levels)))
