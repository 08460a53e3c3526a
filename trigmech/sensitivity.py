"""Certified sensitivities of the means of Chebyshev products when one row of the table is replaced.

Replacing row x by x' moves the mean of phi_r by (phi_r(x) - phi_r(x')) / n, so everything follows from

    S_p(L) = sup over x, x' in the cube of ( sum over r in L of |phi_r(x) - phi_r(x')|^p )^(1/p),   p = 1, 2.

The constant moves nothing. Every function here returns a proved upper bound of S_p; tests search for pairs of
rows that would refute it. Sums are written s_p = S_p^p below, and a term is at most 2^p.

**One column** (the degrees Q in one variable): `_one_column` bounds s_p(Q) by branch and bound.

**Full sets {0..t-1}^d.** Let a_j = (T_0(x_j), ..., T_{t-1}(x_j)), b_j the same for x', and let c_p be the
one-column value of s_p for the degrees {0..t-1}.

*p = 1: S_1 = t^(d-1) max(t, c_1).* By induction on d. Write A, B for the products over columns 2..d and
T = t^(d-1). From a(x)A - b(x)B = [(a-b)(x)(A+B) + (a+b)(x)(A-B)]/2 follows, with s = |a-b|_1, p = |a+b|_1 and
N = |A-B|_1,
    |a(x)A - b(x)B|_1 <= [s |A+B|_1 + p N]/2.
Entrywise |u-v| + |u+v| = 2 max(|u|, |v|) <= 2, so p <= 2t - s and |A+B|_1 <= 2T - N, and the bound becomes
sT + N(t-s). If s >= t it is at most sT <= c_1 T. Else it increases in N <= max(1, c_1/t) T, which gives at most
T (s + max(t, c_1) (1 - s/t)) <= T max(t, c_1). The value c_1 T is attained by x_2 = x'_2 = ... = 1. For t = 2 it is
2^d (c_1 = 2): the published scale of algorithm 4 is then right, although its proof is not.

*p = 2: s_2 <= t^(d-1) max(2t, c_2).* Let alpha_j = |a_j|^2, beta_j = |b_j|^2 and gamma_j = a_j.b_j, so that
s = prod alpha + prod beta - 2 prod gamma. If the last product is not negative, s <= 2 t^d. Else some gamma_j < 0,
say j = 1, and by Cauchy-Schwarz, with A and B now the products of alpha and beta over j >= 2,
s <= alpha_1 A + beta_1 B + 2 |gamma_1| sqrt(A B) <= T (alpha_1 + beta_1 - 2 gamma_1) <= T c_2.

**Any other set.** Two ways to group the terms, of which the smaller sum is taken; terms left over count 2^p.

(i) *By column*: the functions of one column j alone together cost at most the one-column value.

(ii) *By cut*: the functions x_i and x_i x_j together. Each term |phi_r(x) - phi_r(x')|^p is convex in x_i for the
rest fixed, the sum too, so its supremum is at corners, where a term is 2^p if x and x' differ in an odd number of
its columns and 0 otherwise. With a vertex 0 for the constant, functions are edges {0,i} and {i,j} of a graph and
the sum is 2^p times a cut. For any vector u and z in {-1, 1}^(d+1), the cut (E - z'Mz/2)/2 with M the adjacency
matrix is at most E/2 + (sum u - (d+1) lambda_min(M + diag u))/4.

Finally S_1 <= sqrt(number of functions) S_2.

References
----------
Huang 2014, definition 3 and the proofs of theorems 2.4 and 2.13, which take 1 for the movement of one mean, where
2 is right. The induction for p = 1 and the bound for p = 2 on full sets are derived here.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int64]

# Certificates computed in floating point are raised by this factor, far above their rounding errors.
ROUNDING = 1.0 + 1e-9


def l1_spread(index: Index) -> float:
    """Return a certified upper bound of S_1 of a set of multi-indices (K, d); exact for full sets {0..t-1}^d."""
    moving = int(index.any(axis=1).sum())
    return min(_spread(index, 1), math.sqrt(moving) * l2_spread(index))


def l2_spread(index: Index) -> float:
    """Return a certified upper bound of S_2 of a set of multi-indices (K, d)."""
    return math.sqrt(_spread(index, 2))


def _spread(index: Index, p: int) -> float:
    index = index[index.any(axis=1)]
    if len(index) == 0:
        return 0.0
    t, d = int(index.max()) + 1, int(index.shape[1])
    bounds = [2.0**p * len(index), _by_column(index, p), _by_cut(index, p)]
    if len(index) + 1 == t**d:
        bounds.append(float(t) ** (d - 1) * max(float(p * t), _one_column(tuple(range(1, t)), p)))
    return min(bounds)


def _by_column(index: Index, p: int) -> float:
    alone = index[(index > 0).sum(axis=1) == 1]
    total = 2.0**p * (len(index) - len(alone))
    for column in alone.T:
        degrees = tuple(sorted(int(q) for q in column if q > 0))
        if degrees:
            total += _one_column(degrees, p)
    return total


def _by_cut(index: Index, p: int) -> float:
    edges = (index.max(axis=1) == 1) & (index.sum(axis=1) <= 2)
    adjacency = np.zeros((index.shape[1] + 1,) * 2)
    for row in index[edges]:
        columns = np.flatnonzero(row) + 1
        ends = (0, *columns) if len(columns) == 1 else columns
        adjacency[ends[0], ends[1]] = adjacency[ends[1], ends[0]] = 1.0
    return 2.0**p * (_max_cut(adjacency.tobytes(), len(adjacency)) + (~edges).sum())


@lru_cache(maxsize=64)
def _max_cut(graph: bytes, vertices: int) -> float:
    """Return an upper bound of the largest cut, the least over a few corrections u of the eigenvalue bound."""
    adjacency = np.frombuffer(graph).reshape(vertices, vertices)
    edges = float(adjacency.sum()) / 2.0
    if not adjacency[1:, 1:].any():
        return edges  # A star: all its edges can be cut.
    best = edges
    u = np.zeros(vertices)
    for step in range(60 if vertices <= 128 else 1):
        values, vectors = np.linalg.eigh(adjacency + np.diag(u))
        best = min(best, float(edges / 2.0 + (u.sum() - vertices * values[0]) / 4.0))
        # Subgradient of sum(u) - vertices * lambda_min at u; any u whatever gives a valid bound.
        u -= (1.0 - vertices * vectors[:, 0] ** 2) * 2.0 / (1.0 + step)
    return min(edges, best * ROUNDING)


@lru_cache(maxsize=1024)
def _one_column(degrees: tuple[int, ...], p: int, accuracy: float = 1e-6) -> float:
    """Return an upper bound of sup over x, x' of sum over q in degrees of |T_q(x) - T_q(x')|^p.

    Branch and bound over theta = arccos x and theta' = arccos x'. On a square of half-width h round the centre,
    each term is |linear part + remainder| with a remainder of at most q^2 h^2 (half of q^2 h^2 for either angle), and
    the sum over q of (|linear part| + q^2 h^2)^p is convex in the angles, so it is largest at one of the four corners.
    Ends when the bound is within `accuracy`, relative, of a value that is attained.
    """
    if len(degrees) > 64 or max(degrees) > 256:
        return 2.0**p * len(degrees)
    q = np.array(degrees, dtype=np.float64)
    cells = 16
    h = math.pi / (2 * cells)
    centre = (np.arange(cells) + 0.5) * 2 * h
    first, second = (part.ravel() for part in np.meshgrid(centre, centre))
    first, second = first[first >= second], second[first >= second]
    attained, bound = 0.0, math.inf
    while True:
        here = np.empty(len(first))
        above = np.empty(len(first))
        for part in _slices(len(first), 8192):
            a, b = first[part, None] * q, second[part, None] * q
            value = np.cos(a) - np.cos(b)
            slope_first, slope_second = -q * np.sin(a) * h, q * np.sin(b) * h
            here[part] = (np.abs(value) ** p).sum(axis=1)
            above[part] = np.max([((np.abs(value + i * slope_first + j * slope_second) + (q * h) ** 2) ** p).sum(axis=1)
                                  for i in (-1, 1) for j in (-1, 1)], axis=0)
        attained = max(attained, float(here.max()))
        # Squares left out below are worth at most attained * (1 + accuracy / 2).
        bound = min(bound, max(attained * (1.0 + accuracy / 2), float(above.max())))
        if bound <= attained * (1.0 + accuracy) or len(first) > 500_000:
            return min(2.0**p * len(q), bound * ROUNDING)
        keep = above > attained * (1.0 + accuracy / 2)
        h /= 2
        first = np.concatenate([first[keep] + i * h for i in (-1, 1) for _ in (-1, 1)])
        second = np.concatenate([second[keep] + j * h for _ in (-1, 1) for j in (-1, 1)])


def _slices(length: int, size: int) -> Iterable[slice]:
    return (slice(start, start + size) for start in range(0, length, size))
