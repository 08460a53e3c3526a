"""How strongly the pairs of a release's columns depend on each other, as released."""

import math
from dataclasses import dataclass

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.partition import all_codes
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.tables import Targets, independent

# Far below the change by one row of any table, and far above the rounding errors where there is no dependence.
ROUNDING = 1e-10


@dataclass(frozen=True)
class Dependence:
    """The dependence of two columns: the total variation of their table from that of independent columns.

    ``strength`` is from 0 (exactly, if no dependence was found) towards 1, released and shrunk; ``synthetic`` that of
    the synthetic rows in the same cells; ``shape`` the cells of both columns; ``noise`` the standard deviation in one
    cell.
    """

    first: int
    second: int
    strength: float
    synthetic: float
    shape: tuple[int, int]
    noise: float

    @property
    def uncertainty(self) -> float:
        """About how much of the strength may be noise; :func:`design_dependence` makes it equal for all tables."""
        a, b = self.shape
        return math.sqrt(2.0 / math.pi) / 2.0 * self.noise * math.sqrt(a * b * (a + b))


def dependences_of(release: Release, fit: Reconstruction) -> list[Dependence]:
    """Return all pairs whose tables were released, the strongest first. Privacy: post-processing.

    The strength is the larger of two numbers: the dependence in the table, and the dependence in the first product of
    the ranks in the same cells. With few rows the table is mostly noise, and the product has less noise. Products of
    higher degrees have more.
    """
    targets = Targets(release)
    ranks = None if release.products is None or release.products.query.tells_tables else release.products.query
    ordered: dict[tuple[int, int], float] = {}
    if ranks is not None:
        apart = targets.products - independent(release)[1]
        ordered = {(j, h): product for (j, h, a, b), product in zip(ranks.factors.tolist(), apart, strict=True)
                   if a == b == 0}
    codes = all_codes([column.partition for column in release.columns], fit.points)
    found = []
    # A finer table of a pair comes after the first.
    for pair in {pair.columns: pair for pair in reversed(targets.pairs)}.values():
        (j, h), table = pair.columns, pair.table
        strength = _variation(table - np.outer(table.sum(axis=1), table.sum(axis=0)))
        if ranks is not None and (j, h) in ordered:
            within = [_within(release.columns[c], cells, ranks.features[c])
                      for c, cells in zip(pair.columns, pair.maps, strict=True)]
            strength = max(strength, _variation(4.0 * ordered[j, h] * np.outer(*within)))
        down, across = (cells[codes[:, c]] for c, cells in zip(pair.columns, pair.maps, strict=True))
        counted = np.bincount(down * table.shape[1] + across, fit.weights, table.size)
        made: Array = counted.astype(np.float64).reshape(table.shape)
        found.append(Dependence(j, h, strength, _variation(made - np.outer(made.sum(axis=1), made.sum(axis=0))),
                                (table.shape[0], table.shape[1]), float(np.max(pair.deviation))))
    return sorted(found, key=lambda pair: -pair.strength)


def _within(column: ReleasedColumn, cells: Integers, features: Array) -> Array:
    """Return the integral (cells,) of cos(pi u) over the ranks u of the numbers in each cell.

    The product's deviation, times 4, times both columns' integrals, is added to the frequencies of their cells.
    """
    numbers = float(column.mass[column.special :].sum())
    return np.bincount(cells, column.mass * features[:, 0]) / max(numbers, np.finfo(float).tiny)


def _variation(deviation: Array) -> float:
    variation = float(np.abs(deviation).sum()) / 2.0
    return 0.0 if variation < ROUNDING else min(1.0, variation)
