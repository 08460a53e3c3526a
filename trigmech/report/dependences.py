"""How strongly the pairs of a release's columns depend on each other, by what was released of them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.functions.partition import all_codes
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.table_release import TableRelease
from trigmech.planning.dependence import DependenceDesign
from trigmech.reconstruction.result import Reconstruction

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Dependence:
    """The dependence of two columns, as the total variation of their table from that of independent columns.

    Parameters
    ----------
    first, second : int
        Columns.
    strength : float
        From 0, none, towards 1: of what was released, after shrinkage.
    synthetic : float
        Of the synthetic rows, in the same cells.
    shape : tuple of int
        Cells of the two columns.
    noise : float
        Standard deviation in the frequency of one cell.
    """

    first: int
    second: int
    strength: float
    synthetic: float
    shape: tuple[int, int]
    noise: float

    @property
    def uncertainty(self) -> float:
        """About how much of the strength may be noise: what :func:`design_dependence` lets all tables share."""
        a, b = self.shape
        return math.sqrt(2.0 / math.pi) / 2.0 * self.noise * math.sqrt(a * b * (a + b))


def dependences_of(release: TableRelease, fit: Reconstruction) -> list[Dependence]:
    """Return all pairs of which tables were released, the strongest first.

    Notes
    -----
    Privacy: post-processing. The strength is the greater one of what the table shows and of what the first product of
    the ranks shows in the same cells: of few rows the table is mostly noise, and that product less so. Those of higher
    degrees are noisier, by both degrees.
    """
    chosen = release.dependence
    if chosen is None:
        return []
    targets, products = _targets(release, chosen, fit)
    ordered = {(int(j), int(h)): found for (j, h), found in zip(chosen.pairs, products, strict=True)}
    codes = all_codes([column.partition for column in release.columns], fit.points)
    cells = [own[codes[:, j]] for j, own in enumerate(chosen.maps)]
    found = []
    for (j, h), table, noise in zip(chosen.tables.tolist(), targets, release.table_deviations.tolist(), strict=True):
        strength = _variation(table - np.outer(table.sum(axis=1), table.sum(axis=0)))
        if (j, h) in ordered:
            within = [_within(release.columns[c], chosen.maps[c], chosen.features[c]) for c in (j, h)]
            strength = max(strength, _variation(4.0 * ordered[j, h] * np.outer(*within)))
        made: Array = np.zeros(table.shape)
        np.add.at(made, (cells[j], cells[h]), fit.weights)
        found.append(Dependence(j, h, strength, _variation(made - np.outer(made.sum(axis=1), made.sum(axis=0))),
                                (table.shape[0], table.shape[1]), noise))
    return sorted(found, key=lambda pair: -pair.strength)


def _targets(release: TableRelease, chosen: DependenceDesign, fit: Reconstruction) -> tuple[list[Array], list[float]]:
    """Return the tables after shrinkage, and how far the first products are then from those of independence."""
    sizes = [table.size for table in release.tables]
    start = release.K - sum(sizes) - release.products.size
    parts = np.split(fit.target[start:], np.cumsum(sizes, dtype=np.int64))
    tables = [part.reshape(table.shape) for part, table in zip(parts, release.tables, strict=False)]
    products = parts[-1].reshape(release.products.shape)
    means = [float(feature[:, 0] @ column.mass) if len(products) else 0.0
             for feature, column in zip(chosen.features, release.columns, strict=True)]
    return tables, [float(found[0, 0]) - means[j] * means[h]
                    for found, (j, h) in zip(products, chosen.pairs.tolist(), strict=True)]


def _within(column: ReleasedColumn, cells: Integers, features: Array) -> Array:
    """Return the integral (cells,) of cos(pi u) over the ranks u of the numbers in each cell.

    The product's deviation times 4 times both columns' integrals is what it adds to the frequencies of their cells.
    """
    numbers = float(column.mass[len(column.partition.indicators) :].sum())
    return np.bincount(cells, column.mass * features[:, 0]) / max(numbers, np.finfo(float).tiny)


def _variation(deviation: Array) -> float:
    return min(1.0, float(np.abs(deviation).sum()) / 2.0)
