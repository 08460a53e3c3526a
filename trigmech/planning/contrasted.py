"""The choice between contrasts and frequencies at delta = 0. Contrasts of few cells get noise in the max norm."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.partition import Partition, even_edges
from trigmech.privacy.budget import deviation_of

Integers = NDArray[np.int64]

# The fewest intervals of a number that is measured by counts. A number with at most so many levels has few positions.
LEAST_COUNTED = 16
# The fewest and the most cells of a column; the largest noise in a product; and the most products.
FEWEST_CONTRASTED, MOST_CONTRASTED, NOISE_OF_PRODUCTS, MOST_PRODUCTS = 4, 16, 0.03, 2**18
# The most positions of a column that is measured by contrasts. More would take long to decode.
MOST_IN_LOOK = 256
# Contrasts have fewer cells than tables, so their noise must be below this fraction of the tables' noise.
CLEARLY = 0.7


def columns_by_contrasts(columns: Sequence[Partition]) -> tuple[NDArray[np.bool_], float]:
    """Return the columns that the first round measures by contrasts at delta = 0, and their fraction of its budget.

    These are the columns with at most some number of positions. The number is the one with the least predicted error in
    all frequencies together, in total variation and up to a factor. By contrasts the noise in k frequencies together is
    about that in one contrast. By frequencies it is sqrt(k) times that in one frequency.
    """
    few = np.array([has_few(column) for column in columns])
    sizes = np.array([by_levels(column).size if has_few(column) else float(LEAST_COUNTED) for column in columns])
    few &= sizes <= MOST_IN_LOOK
    found: tuple[float, NDArray[np.bool_], float] = (math.inf, few, 0.0)
    for most in [0.0, *np.unique(sizes[few])]:
        own = few & (sizes <= most)
        entries, others = int((sizes[own] - 1.0).sum()), int((~own).sum())
        if most and not entries:
            continue
        errors = np.sqrt([deviation_of("linf", entries) * np.sqrt(sizes[own]).sum(),
                          deviation_of("laplace") * others * sizes[~own].sum()])
        if errors.sum() < found[0]:
            found = (float(errors.sum()), own, float(errors[0] / errors.sum()))
    return found[1], found[2]


def contrasts_are_sharper(columns: Sequence[Partition], strength: float) -> bool:
    """Return whether products of contrasts give clearly less noise in the cells of all pairs' tables than tables do.

    The noise in all cells of a table together is about that in one product. The noise limits the number of cells. This
    estimate takes fewer cells than possible, because rare ones are merged.
    """
    sizes = np.array([by_levels(column).size if has_few(column) else column.size + MOST_CONTRASTED
                      for column in columns])
    cells = np.minimum(sizes, most_cells(lambda count: np.minimum(sizes, count), 2.0 / strength, FEWEST_CONTRASTED - 1))
    pairs = np.array(list(combinations(cells.tolist(), 2)))
    noise = deviation_of("linf", products_of(cells)) / np.sqrt(pairs.prod(axis=1))
    return bool(noise.mean() < CLEARLY * len(pairs) * deviation_of("laplace"))


def most_cells(cells_of: Callable[[int], Integers], scale: float, fewest: int = FEWEST_CONTRASTED) -> int:
    """Return the largest number of cells of a column with little noise in a product of contrasts.

    cells_of: Returns the number of cells of each column, given the wanted number.
    scale: The scale of the noise.
    fewest: At most so many cells are accepted with any noise, unless they give too many products.
    """
    for count in range(MOST_CONTRASTED, 2, -1):
        entries = products_of(cells_of(count))
        if entries <= MOST_PRODUCTS and (count <= fewest
                                         or scale * deviation_of("linf", entries) <= NOISE_OF_PRODUCTS):
            return count
    return 2


def products_of(cells: Integers) -> int:
    """Return the number of products of contrasts over all pairs of columns, given their numbers of cells."""
    own = cells - 1
    return int(own.sum() ** 2 - (own**2).sum()) // 2


def has_few(column: Partition, most: int = LEAST_COUNTED) -> bool:
    """Return whether a column has few positions: categories, or at most ``most`` levels."""
    return column.value is None or (column.levels is not None and len(column.levels) <= most)


def by_levels(column: Partition) -> Partition:
    """Return the partition with one interval for each level."""
    return column if column.levels is None else column.cut(even_edges(column.levels, len(column.levels)))
