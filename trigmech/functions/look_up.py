"""Numbers as places in [-1, 1], and the intervals that places lie in, found by a look-up grid. Public.

A grid of equal cells covers [-1, 1]. The cell of x is a rounded function of x that never falls as x grows. So edges of
lower cells are at most x, and edges of higher cells are above it. Only edges in the cell of x are compared with x, by
bisection. The result is therefore that of a binary search over all edges, to the last bit.
"""

import numpy as np
from numba import njit

from trigmech._arrays import Array, Codes

# Cells for each edge, and the most cells, whose table fits into the fastest cache.
CELLS_OF_AN_EDGE, MOST_CELLS = 4, 2**13
# Numbers from here on stand for indicators: 2 for the first one, 3 for the second, and so on.
FIRST_INDICATOR = 2.0


class LookUp:
    """Finds the number of edges, ascending between -1 and 1, that are not above a number.

    Cost: one look-up and about one comparison for each number, if the edges are not far denser in one place than in
    others. Otherwise the logarithm of the number of edges in one cell.
    """

    def __init__(self, edges: Array) -> None:
        self._edges = np.ascontiguousarray(edges, dtype=np.float64)
        count = min(max(1, CELLS_OF_AN_EDGE * len(edges)), MOST_CELLS)
        self._first = np.zeros(1 << (count - 1).bit_length(), dtype=np.int32)
        self._first = _first_edges(self._edges, len(self._first))

    def find(self, numbers: Array, before: int, out: Codes) -> None:
        """Write ``before`` and the number of edges at or below each number to ``out`` (m,).

        Numbers (m,) lie in [-1, 1]; a number 2 + s stands for indicator s, and s is written.
        """
        _find(numbers, self._edges, self._first, before, out)


def places_of(numbers: Array, lower: float, upper: float) -> Array:
    """Return numbers (n,), clipped to their bounds, as places in [-1, 1]; NaN stays."""
    out = np.empty(len(numbers))
    # Read-only, as columns of some libraries are, so that the kernel is compiled once.
    read = np.ascontiguousarray(numbers, dtype=np.float64).view()
    read.flags.writeable = False
    _places_of(read, lower, upper, out)
    return out


@njit(cache=True, nogil=True, error_model="numpy")
def _places_of(numbers: Array, lower: float, upper: float, out: Array) -> None:
    half = 0.5 * (upper - lower)
    for i in range(len(numbers)):
        x = numbers[i]
        x = lower if x < lower else upper if x > upper else x
        x = (x - lower) / half - 1.0
        out[i] = -1.0 if x < -1.0 else 1.0 if x > 1.0 else x


@njit(cache=True, nogil=True)
def _cell(x: float, cells: int) -> int:
    """Return the cell of a number; it does not fall as the number grows."""
    return min(int((x + 1.0) * (0.5 * cells)), cells - 1)


@njit(cache=True, nogil=True)
def _first_edges(edges: Array, cells: int) -> Codes:
    """Return the first edge (cells + 1,) that lies in each cell or in a later one."""
    first = np.zeros(cells + 1, dtype=np.int32)
    for edge in edges:
        first[_cell(edge, cells) + 1] += 1
    return np.cumsum(first).astype(np.int32)


@njit(cache=True, nogil=True)
def _find(numbers: Array, edges: Array, first: Codes, before: int, out: Codes) -> None:
    cells = len(first) - 1
    for i in range(len(numbers)):
        x = numbers[i]
        if x >= FIRST_INDICATOR:
            out[i] = int(x - FIRST_INDICATOR)
            continue
        cell = _cell(x, cells)
        low, high = first[cell], first[cell + 1]
        while low < high:
            middle = (low + high) >> 1
            if edges[middle] <= x:
                low = middle + 1
            else:
                high = middle
        out[i] = before + low
