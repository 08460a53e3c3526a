"""PRIVATE. A private search for the bounds of columns that have no public bounds.

The search releases two noisy histograms; each holds all columns with private bounds. The first histogram has a cell for
every power of two, from -2^50 to 2^50, for every table. A cell is significant if it shows more rows than noise alone
would show. The lowest and the highest significant cell give coarse bounds. The second histogram cuts the range between
them into 64 equal cells. It narrows the bounds to the cells that hold rows, alone or in runs side by side. Values
outside the final bounds are clipped, as always. Usually a few extreme values are clipped, and this makes the bounds
private.

Sensitivity. A row is in at most one cell of a column's histogram; a missing or special value is in no cell. Replacing
the row changes at most two counts of each of c columns by 1. So the counts move by at most 2 c in L1 and sqrt(2 c) in
L2, exactly, because counts are whole numbers. A person with several rows adds shares to the cells, in units of 2^-10.
Her shares are at least 0 and sum to at most 1. Two such vectors are no further apart, and floats hold their sums
exactly up to 2^43 persons. Each histogram gets half of the budget fraction. For delta = 0 the two epsilons add up; for
delta > 0 the two mu^2 do.

Suppose that all cells are empty. Then the probability that any of them exceeds the threshold is at most 1 %. The same
holds for all runs of all widths together.
"""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.special import ndtr, ndtri

from trigmech._arrays import Array, Integers
from trigmech.errors import BudgetError, InputError, shown
from trigmech.functions.sensitivity import root_up
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import Chunk, Total, pieces, shares
from trigmech.planning.design import UPWARD
from trigmech.privacy.accounting import SMALLEST_GAUSSIAN_EPSILON, gaussian_mu
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.privacy_loss import gaussian_epsilon
from trigmech.schema.schema import Schema
from trigmech.tables.frames import Columns

EXPONENTS = np.arange(-50, 51)
FINE_CELLS = 64
WIDEST_RUN = 16
WIDENING = 0.25
FALSE_CELL = 0.01
# Bits of a person's share of 1.
BITS = 10

_PROOF = "private-bounds"


@dataclass(frozen=True, eq=False)
class CellCounts:
    """The number of persons with a value in each cell of some columns. A value outside counts for the nearest cell.

    names: The names of all columns, because an array identifies its columns by their places only.
    places: The places of the columns with private bounds.
    special: The special values of each column, which are in no cell.
    edges (c + 1,): The edges of each column's cells.
    """

    names: tuple[str, ...]
    places: tuple[int, ...]
    special: tuple[tuple[float, ...], ...]
    edges: tuple[Array, ...]

    @property
    def size(self) -> int:
        return sum(len(edge) - 1 for edge in self.edges)

    def add(self, chunk: Chunk, total: Total) -> None:
        """Add the counts of a chunk of the table, which is not mapped to points."""
        read = Columns(chunk.rows, self.names)
        cells = [chunk.sorted(_cells(read.numbers(j), special, edge))
                 for j, special, edge in zip(self.places, self.special, self.edges, strict=True)]
        for span, starts, count in pieces(read.n, chunk.starts):
            # Values that belong to no cell get one more cell at the end, which is cut off here.
            total.add(np.concatenate([shares(cell[span], starts, len(edge), BITS)[:-1]
                                      for cell, edge in zip(cells, self.edges, strict=True)]), count)

    def check(self, total: Total) -> None:
        counts = self.parted(total)
        if not all((count >= 0.0).all() and count.sum() <= total.n for count in counts):
            raise InputError(f"the counts of {total.n} persons sum to more than {total.n}")

    def parted(self, total: Total) -> list[Array]:
        return np.split(total.over(BITS), np.cumsum([len(edge) - 1 for edge in self.edges])[:-1])


def with_private_bounds(rows: PrivateRows, schema: Schema, charges: tuple[Charge, Charge], session: Session) -> Schema:
    """Return the schema with bounds for the columns that have private bounds.

    Parameters
    ----------
    rows : PrivateRows, private
        The table, not mapped to points.
    schema : Schema
    charges : tuple of Charge
        The charges of the coarse and the fine histogram, from :func:`histogram_charges`.
    session : Session
        Each histogram is charged before its noise is drawn.

    Raises
    ------
    InputError
        If a column is absent or not numeric.

    Notes
    -----
    Privacy: proved in the module's docstring. Cost: two passes over the rows.
    """
    places = [j for j, column in enumerate(schema.columns) if column.private_bounds]
    columns = tuple(schema.columns[j] for j in places)
    edges = [_coarse_edges(column.transform == "log") for column in columns]

    def counts() -> list[Array]:
        asked = CellCounts(schema.names, tuple(places), tuple(tuple(column.special) for column in columns),
                           tuple(edges))
        return asked.parted(rows.sums(asked))

    first, second = charges
    found = _significant(counts(), first, 1, session)
    # One power of two more on either side, because noise can hide a thin tail. The fine histogram cuts empty ends off.
    coarse = [(edge[max(low - 1, 0)], edge[min(high + 2, len(edge) - 1)])
              for edge, (low, high) in zip(edges, found, strict=True)]
    edges = [np.linspace(low, high, FINE_CELLS + 1) for low, high in coarse]
    found = _significant(counts(), second, WIDEST_RUN, session)
    bounds = {}
    for column, edge, (low, high) in zip(columns, edges, found, strict=True):
        # The cells of a thin tail stay below the threshold. A clipped tail costs more than a slightly wide range.
        margin = WIDENING * float(edge[high + 1] - edge[low])
        lower, upper = np.clip([edge[low] - margin, edge[high + 1] + margin], edge[0], edge[-1]).tolist()
        if column.kind == "integer":
            # 0 has no logarithm.
            lower = max(math.floor(lower), 1) if column.transform == "log" else math.floor(lower)
            upper = max(math.ceil(upper), lower + 1)
        bounds[column.name] = lower, upper
    return schema.with_bounds(bounds)


def rest_of(budget: Budget, share: float) -> Budget:
    """Return the budget that is left after a fraction is spent: a fraction of epsilon, or of mu^2 for delta > 0.

    The rest has the same delta and a smaller epsilon. If delta alone pays for the rest, the rest has the same epsilon
    and a smaller delta.

    Raises an InputError if the fraction is not between 0 and 1.
    Raises a BudgetError if epsilon or the rest is too small for Gaussian noise.
    """
    if not (isinstance(share, Real) and 0.0 < share < 1.0):
        raise InputError(f"the share for private bounds must be between 0 and 1, not {shown(share)}")
    if budget.delta == 0:
        return Budget(budget.epsilon * (1.0 - share) / UPWARD)
    mu = gaussian_mu(budget) * math.sqrt(1.0 - share)
    epsilon = gaussian_epsilon(mu, budget.delta)
    if epsilon >= SMALLEST_GAUSSIAN_EPSILON:
        return Budget(epsilon, budget.delta)
    delta = float(ndtr(mu / 2.0 - budget.epsilon / mu)
                  - math.exp(budget.epsilon) * ndtr(-mu / 2.0 - budget.epsilon / mu))
    # The difference of two numbers near 1/2 loses digits, so delta is checked by the search for mu.
    while delta > 0.0 and gaussian_mu(Budget(budget.epsilon, delta)) > mu:
        delta *= 1.0 - 1e-6
    if not delta > 0.0:
        raise BudgetError(f"a share of {share:g} for private bounds leaves too little of the budget {budget}")
    return Budget(budget.epsilon, delta)


def histogram_charge(purpose: str, budget: Budget, share: float, columns: int) -> Charge:
    """Return the charge of a histogram of so many columns for a fraction of a budget; see the module's docstring."""
    if budget.delta > 0:
        diameter = root_up(2.0 * columns)
        scale = diameter / (gaussian_mu(budget) * math.sqrt(share)) * UPWARD
        return Charge(purpose, "gaussian", scale, diameter, "L2", 1, _PROOF)
    diameter = 2.0 * columns
    return Charge(purpose, "laplace", diameter / (budget.epsilon * share) * UPWARD, diameter, "L1", 1, _PROOF)


def histogram_charges(budget: Budget, share: float, columns: int) -> tuple[Charge, Charge]:
    """Return the charges of the coarse and the fine histogram. Both are public and known before the first draw."""
    return (histogram_charge("bounds, coarse", budget, share / 2.0, columns),
            histogram_charge("bounds, fine", budget, share / 2.0, columns))


def _threshold(charge: Charge, runs: int, width: int = 1) -> float:
    """Return a threshold. Any of so many empty runs of ``width`` cells exceeds it with a probability of at most 1 %."""
    if charge.law == "gaussian":
        return float(-ndtri(FALSE_CELL / runs)) * charge.scale * math.sqrt(width)
    if width == 1:
        return math.log(runs / (2.0 * FALSE_CELL)) * charge.scale
    # Chernoff's bound, with E exp(s z) = 1 / (1 - s^2) for Laplace noise z of scale 1.
    s = np.linspace(0.01, 0.99, 99)
    return float(((math.log(runs / FALSE_CELL) - width * np.log1p(-(s**2))) / s).min()) * charge.scale


def _coarse_edges(positive: bool) -> Array:
    powers = np.exp2(EXPONENTS.astype(np.float64))
    return powers if positive else np.concatenate([-powers[::-1], powers])


def _cells(values: Array, special: tuple[float, ...], edges: Array) -> Integers:
    """Return the cell of each value. A value that belongs to no cell gets the number of cells."""
    cell = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
    return np.where(np.isnan(values) | np.isin(values, np.array(special, dtype=np.float64)), len(edges) - 1, cell)


def _significant(counts: list[Array], charge: Charge, widest: int, session: Session) -> list[tuple[int, int]]:
    """Return the first and the last significant cell of each column.

    A cell is significant if its noisy count exceeds the threshold, or if it lies in a run of 2, 4, ..., ``widest``
    cells whose sum does.
    """
    session.charge(charge)
    noisy = session.draw(np.concatenate(counts), charge)
    widths = [2**k for k in range(widest.bit_length())]
    found = []
    for part in np.split(noisy, np.cumsum([len(count) for count in counts])[:-1]):
        cells: set[int] = set()
        for width in widths:
            sums = part[: len(part) // width * width].reshape(-1, width).sum(axis=1)
            for run in np.flatnonzero(sums > _threshold(charge, len(noisy) * len(widths) // width, width)):
                members = set(range(int(run) * width, int(run) * width + width))
                # A run adds nothing if its rows may lie in a cell that is already significant.
                cells |= members if not cells & members else set()
        # Without a significant cell, the fullest cell is the best guess.
        found.append((min(cells), max(cells)) if cells else (int(part.argmax()),) * 2)
    return found
