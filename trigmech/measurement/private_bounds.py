"""PRIVATE. Bounds of columns without public ones, found privately.

Two noisy histograms of the columns concerned, all columns of a histogram released together. The first has a cell for
every power of two, from -2^50 to 2^50, whatever the table: its lowest and its highest cell with more rows than noise
alone would show give coarse bounds. The second cuts these into 64 equal cells and narrows them to those that hold rows,
singly or in runs side by side. Values outside the bounds that result are clipped, as always; a few extreme ones usually
are, which is what makes the bounds private.

Sensitivity. A row is in at most one cell of a column's histogram (in none if its value is missing or special).
Replacing it changes at most two counts of each of c columns by 1: by 2 c in L1 and sqrt(2 c) in L2, exactly, for counts
are whole numbers. Each histogram has half of the budget fraction; epsilons add up, or mu^2 does.

The threshold is what, of cells that are all empty, one exceeds with a probability of at most 1 % (and one run of each
width together likewise).
"""

import math
from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from trigmech.errors import BudgetError, InputError, shown
from trigmech.functions.sensitivity import root_up
from trigmech.measurement.release import Session
from trigmech.planning.design import UPWARD
from trigmech.privacy.accounting import SMALLEST_GAUSSIAN_EPSILON, gaussian_mu
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.privacy_loss import gaussian_epsilon
from trigmech.schema.schema import Schema
from trigmech.tables.frames import Columns

Array = NDArray[np.float64]
# The values of the columns concerned, in chunks (k, c): NaN where one is missing or special.
Chunks = Callable[[], Iterable[Array]]

EXPONENTS = np.arange(-50, 51)
FINE_CELLS = 64
WIDEST_RUN = 16
WIDENING = 0.25
FALSE_CELL = 0.01

_PROOF = "private-bounds"


def with_private_bounds(tables: Callable[[], Iterable[Any]], schema: Schema, charges: tuple[Charge, Charge],
                        session: Session) -> Schema:
    """Return the schema with bounds for the columns that have private ones.

    Parameters
    ----------
    tables : callable, private
        Returns the table again at each call, in one or more parts.
    schema : Schema
    charges : tuple of Charge
        Of the coarse and the fine histogram, by :func:`histogram_charges`.
    session : Session
        Each histogram is charged before its noise is drawn.

    Returns
    -------
    Schema

    Raises
    ------
    InputError
        If a column is absent or not numeric.

    Notes
    -----
    Privacy: proved in the module's docstring. Cost: two passes over the rows.
    """
    names = schema.private_bounds
    places = [j for j, column in enumerate(schema.columns) if column.private_bounds]
    described = [schema.columns[j] for j in places]

    def chunks() -> Iterator[Array]:
        for part in tables():
            # All names, for an array's columns are known by their places alone.
            read = Columns(part, schema.names)
            values = np.column_stack([read.numbers(j) for j in places])
            for j, column in enumerate(described):
                values[np.isin(values[:, j], np.array(column.special, dtype=np.float64)), j] = np.nan
            yield values

    return schema.with_bounds(_bounds(chunks, names, tuple(column.transform == "log" for column in described),
                                      tuple(column.kind == "integer" for column in described), charges,
                                      session))


def _bounds(chunks: Chunks, names: tuple[str, ...], positive: tuple[bool, ...], whole: tuple[bool, ...],
            charges: tuple[Charge, Charge], session: Session) -> dict[str, tuple[float, float]]:
    """Return bounds by name: above 0 where positive, and of whole numbers where whole."""
    edges = [_coarse_edges(above) for above in positive]
    first, second = charges
    found = _significant(_counts(chunks, edges), first, 1, session)
    # One power of two more on either side, for tails too thin to be seen; the fine histogram cuts them if empty.
    coarse = [(edge[max(low - 1, 0)], edge[min(high + 2, len(edge) - 1)])
              for edge, (low, high) in zip(edges, found, strict=True)]
    edges = [np.linspace(low, high, FINE_CELLS + 1) for low, high in coarse]
    found = _significant(_counts(chunks, edges), second, WIDEST_RUN, session)
    bounds = {}
    for name, edge, (low, high), integral, above in zip(names, edges, found, whole, positive, strict=True):
        # Cells of thin tails pass no threshold. Clipping a tail costs more than a range that is a little wide.
        margin = WIDENING * float(edge[high + 1] - edge[low])
        lower, upper = np.clip([edge[low] - margin, edge[high + 1] + margin], edge[0], edge[-1]).tolist()
        if integral:
            # 0 has no logarithm.
            lower = max(math.floor(lower), 1) if above else math.floor(lower)
            upper = max(math.ceil(upper), lower + 1)
        bounds[name] = lower, upper
    return bounds


def rest_of(budget: Budget, share: float) -> Budget:
    """Return the budget that is left when a fraction of it is spent: of epsilon, or of mu^2 for delta > 0.

    At the same delta; or, where that alone would already pay for what is left, at the same epsilon and a smaller delta.

    Raises
    ------
    InputError
        If the fraction is not between 0 and 1.
    BudgetError
        If epsilon, or what is left, is too small for Gaussian noise.
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
    # The difference of two numbers near 1/2 has lost digits; the search for mu goes by the same formula.
    while delta > 0.0 and gaussian_mu(Budget(budget.epsilon, delta)) > mu:
        delta *= 1.0 - 1e-6
    if not delta > 0.0:
        raise BudgetError(f"with a share of {share:g} for private bounds too little is left of the budget {budget}")
    return Budget(budget.epsilon, delta)


def histogram_charge(purpose: str, budget: Budget, share: float, columns: int) -> Charge:
    """Return the charge for a histogram of so many columns with a fraction of a budget; see the module's docstring."""
    if budget.delta > 0:
        diameter = root_up(2.0 * columns)
        scale = diameter / (gaussian_mu(budget) * math.sqrt(share)) * UPWARD
        return Charge(purpose, "gaussian", scale, diameter, "L2", 1, _PROOF)
    diameter = 2.0 * columns
    return Charge(purpose, "laplace", diameter / (budget.epsilon * share) * UPWARD, diameter, "L1", 1, _PROOF)


def histogram_charges(budget: Budget, share: float, columns: int) -> tuple[Charge, Charge]:
    """Return the charges for the coarse and the fine histogram, public and known before both."""
    return (histogram_charge("bounds, coarse", budget, share / 2.0, columns),
            histogram_charge("bounds, fine", budget, share / 2.0, columns))


def _threshold(charge: Charge, runs: int, width: int = 1) -> float:
    """Return what the noise of one of so many runs of ``width`` cells exceeds with a probability of at most 1 %."""
    if charge.law == "gaussian":
        return float(-ndtri(FALSE_CELL / runs)) * charge.scale * math.sqrt(width)
    if width == 1:
        return math.log(runs / (2.0 * FALSE_CELL)) * charge.scale
    # Chernoff's bound, of which E exp(s z) = 1 / (1 - s^2) for Laplace noise z of scale 1.
    s = np.linspace(0.01, 0.99, 99)
    return float(((math.log(runs / FALSE_CELL) - width * np.log1p(-(s**2))) / s).min()) * charge.scale


def _coarse_edges(positive: bool) -> Array:
    powers = np.exp2(EXPONENTS.astype(np.float64))
    return powers if positive else np.concatenate([-powers[::-1], powers])


def _counts(chunks: Chunks, edges: list[Array]) -> list[Array]:
    """Return how many values lie in each cell; those outside count for the nearest cell. Private."""
    counts = [np.zeros(len(edge) - 1) for edge in edges]
    for chunk in chunks():
        for values, edge, count in zip(chunk.T, edges, counts, strict=True):
            held = values[~np.isnan(values)]
            cell = np.clip(np.searchsorted(edge, held, side="right") - 1, 0, len(count) - 1)
            count += np.bincount(cell, minlength=len(count))
    return counts


def _significant(counts: list[Array], charge: Charge, widest: int, session: Session) -> list[tuple[int, int]]:
    """Return the first and the last cell of each column that are in a run of cells with more rows than noise shows.

    Runs are of 1, 2, 4, ... and at most ``widest`` cells, side by side.
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
                # A run is of no news if it owes its rows to cells that are known already.
                cells |= members if not cells & members else set()
        # Too few rows to see any: the fullest cell is the best guess.
        found.append((min(cells), max(cells)) if cells else (int(part.argmax()),) * 2)
    return found
