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

Finally S_1 <= sqrt(number of functions) S_2. Roots and products are rounded up.

**Weighted columns and pairs.** Weight v_a >= 0 on every T_a(x_i), a = 1..p, and w_a w_b on every T_a(x_i) T_b(x_j),
i < j and a, b = 1..q. Let A_i = sum_a w_a^2 T_a(x_i)^2, B_i the same for y, C_i = sum_a w_a^2 T_a(x_i) T_a(y_i),
kappa = sum_a w_a^2 and delta_i = sum_a v_a^2 (T_a(x_i) - T_a(y_i))^2. Then s_2 of the weighted functions is

    sum_i delta_i + sum over i < j of (A_i A_j + B_i B_j - 2 C_i C_j)
    = sum_i delta_i + [(sum A)^2 - sum A^2 + (sum B)^2 - sum B^2]/2 - (sum C)^2 + sum C^2.

*p = 2.* As 0 <= A_i <= kappa, (sum A)^2 <= d kappa sum A, the same for B; and -(sum C)^2 <= lambda^2 - 2 lambda sum C
for every real lambda, by (sum C - lambda)^2 >= 0. The rest is a sum over columns of one function, so

    s_2 <= lambda^2 + d sup h,   h(x, y) = delta - 2 lambda C + d kappa (A + B)/2 - (A^2 + B^2)/2 + C^2.

The bound is convex in lambda, with subgradient 2 lambda - 2 d C at an argmax of h; wherever the search for lambda
ends, the bound is valid. It is near twice the sum of the squared weights of pairs when T_1..T_q have equal weights,
q even, where the naive bound is four times that sum.

*A certified supremum.* h is a polynomial, in each variable of degree N = max(2p, 4q) at most. Ehlich and Zeller:
if P has degree N in each of two variables, and Z is the set of m > N nodes cos((2k-1) pi/(2m)), then |P| on the square
is at most its maximum on Z x Z divided by c^2, c = cos(N pi/(2m)). (In one variable: let |P(cos t)| = M be the maximum.
By Riesz's lemma |P(cos(t + u))| >= M cos(N u) for |u| <= pi/(2N), and some node has |u| <= pi/(2m). Then one variable
after the other.) With P = h - (l + u)/2, where l and u are the extremes of h on Z x Z,

    sup h <= (l + u)/2 + (u - l)/(2 c^2).

h(x, y) = h(y, x) = h(-x, -y), so the nodes with x >= |y| suffice.

*p = 1.* By Cauchy-Schwarz a sum of s |phi(x) - phi(y)| is at most sqrt(sum of s) times the root of s_2 for the weights
sqrt(s), which are of the same form: sqrt(v_a) and sqrt(w_a).

References
----------
Huang 2014, definition 3 and the proofs of theorems 2.4 and 2.13, which take 1 for the diameter of one function, where
2 is right. The induction for p = 1, the bound for p = 2 on full sets and the bounds for weights are derived here.
Ehlich and Zeller 1964, Schwankung von Polynomen zwischen Gitterpunkten, Mathematische Zeitschrift 86.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from numbers import Real

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech._validate import check_integers
from trigmech.errors import InputError

Index = Integers

# Certificates computed in floating point are raised by this factor, far above their rounding errors.
ROUNDING = 1.0 + 1e-9
# Branch and bound ends when a bound is within this part of a value that is attained.
ACCURACY = 1e-6
# Nodes per degree of a certified supremum: 1/c^2 = 1.004, so it is 0.2% too large for a function from 0 up.
_NODES = 25
# Underflow takes less than this from a sum of fourth powers of weights.
_UNDERFLOW = 1e-290


def l1_diameter(index: Index) -> float:
    """Return a certified upper bound of S_1 of a set of multi-indices (K, d); exact for full sets {0..t-1}^d."""
    moving = int(index.any(axis=1).sum())
    return min(_diameter(index, 1), root_up(moving * Fraction(_diameter(index, 2))))


def l2_diameter(index: Index) -> float:
    """Return a certified upper bound of S_2 of a set of multi-indices (K, d)."""
    return root_up(_diameter(index, 2))


def root_up(square: float | Fraction) -> float:
    """Return the root of a number, rounded up."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < Fraction(square):
        root = math.nextafter(root, math.inf)
    return root


def quotient_up(number: float, n: float) -> float:
    """Return number / n, for n > 0, rounded up."""
    quotient = float(number / n)
    return quotient if Fraction(quotient) * Fraction(n) >= Fraction(number) else math.nextafter(quotient, math.inf)


def pair_l2_diameter(d: int, single: Sequence[float], paired: Sequence[float]) -> float:
    """Return a certified upper bound of S_2 squared for weighted functions of one and of two of d columns.

    Parameters
    ----------
    d : int
        Number of columns, at least 1; for d = 1 there are no pairs.
    single : sequence of float (p,)
        v_a, at least 0: the weight of T_a(x_i), a = 1..p, for every column i. May be empty.
    paired : sequence of float (q,)
        w_a, at least 0: w_a w_b is the weight of T_a(x_i) T_b(x_j), a, b = 1..q, for every i < j. May be empty.

    Returns
    -------
    float
        At least the supremum over x, y in [-1, 1]^d of the sum of squares of weight (phi(x) - phi(y)); never more than
        4 times the sum of the squared weights, up to rounding.

    Raises
    ------
    InputError
        If d is not a positive integer, a weight is negative, above 1e60 or not a number.

    Notes
    -----
    Privacy: of public numbers alone. Proof in the module's docstring.

    Cost: O((p + q) m^2) for m = 50 max(p, 2 q) nodes, whatever d; the last 1024 answers are kept.
    """
    return _pair_diameter(d, *_weights(d, single, paired))


def pair_l1_diameter(d: int, single: Sequence[float], paired: Sequence[float]) -> float:
    """Return a certified upper bound of S_1 for weighted functions of one and of two of d columns.

    Parameters
    ----------
    d, single, paired
        As for :func:`pair_l2_diameter`.

    Returns
    -------
    float
        At least the supremum over x, y in [-1, 1]^d of the sum of weight |phi(x) - phi(y)|; never more than twice the
        sum of the weights, up to rounding.

    Raises
    ------
    InputError
        As :func:`pair_l2_diameter`.

    Notes
    -----
    Privacy: of public numbers alone. Proof in the module's docstring.

    Cost: of three calls of :func:`pair_l2_diameter`.
    """
    v, w = _weights(d, single, paired)
    root_v, root_w = tuple(map(math.sqrt, v)), tuple(map(math.sqrt, w))
    singles, pairs = d * math.fsum(v), d * (d - 1) / 2 * math.fsum(w) ** 2
    # Twice the sum of the weights is never less than this: pair_l2_diameter never exceeds 4 times that sum.
    apart = math.sqrt(singles * _pair_diameter(d, root_v, ())) + math.sqrt(pairs * _pair_diameter(d, (), root_w))
    return min(apart, math.sqrt((singles + pairs) * _pair_diameter(d, root_v, root_w))) * ROUNDING


def _weights(d: int, *lists: Sequence[float]) -> list[tuple[float, ...]]:
    """Return the weights of columns and of pairs, checked, up to the last that is not 0; () for pairs if d is 1."""
    check_integers(1, **{"the number of columns": d})
    kept = []
    for name, weights in zip(("columns", "pairs"), lists, strict=True):
        # The fourth powers of weights must not overflow below.
        if not all(isinstance(weight, Real) and 0.0 <= weight <= 1e60 for weight in weights):
            raise InputError(f"the weights of {name} must be numbers from 0 to 1e60, not {list(weights)}")
        values = [float(weight) for weight in weights]
        while values and values[-1] == 0.0:
            values.pop()
        kept.append(tuple(values))
    return kept if d > 1 else [kept[0], ()]


@lru_cache(maxsize=1024)
def _pair_diameter(d: int, v: tuple[float, ...], w: tuple[float, ...]) -> float:
    singles = min(4.0 * d * math.fsum(a * a for a in v), _relaxed(d, v, ()))
    pairs = min(2.0 * d * (d - 1) * math.fsum(a * a for a in w) ** 2, _relaxed(d, (), w))
    return min(singles + pairs, _relaxed(d, v, w)) * ROUNDING + (_UNDERFLOW if v or w else 0.0)


@lru_cache(maxsize=1024)
def _relaxed(d: int, v: tuple[float, ...], w: tuple[float, ...]) -> float:
    """Return lambda^2 + d sup h for a good lambda."""
    best = _best_lambda(d, v, w) if w else 0.0
    return best**2 + d * _column_supremum(d, v, w, best)


def _best_lambda(d: int, v: tuple[float, ...], w: tuple[float, ...]) -> float:
    """Return the lambda that minimises the bound with h on coarse nodes, which include -1, 0 and 1."""
    nodes = 8 * max(len(v), len(w))
    V, W, alone = _features(d, v, w, np.pi * np.arange(nodes + 1) / nodes)
    C = W @ W.T
    rest = alone[:, None] + alone - 2.0 * (V @ V.T) + C * C
    high = d * math.fsum(a * a for a in w)
    low = -high
    for _ in range(40):
        middle = (low + high) / 2.0
        if middle < d * C.flat[(rest - 2.0 * middle * C).argmax()]:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def _column_supremum(d: int, v: tuple[float, ...], w: tuple[float, ...], shift: float) -> float:
    """Return an upper bound of sup h, with lambda = shift."""
    degree = max(2 * len(v), 4 * len(w))
    if degree == 0:
        return 0.0
    nodes = _NODES * degree
    V, W, alone = _features(d, v, w, np.pi * (np.arange(nodes) + 0.5) / nodes)
    lowest, highest = math.inf, -math.inf
    # Rows are x >= 0 and columns, besides a few more, y in [-x, x]; blocks stay in the processor's cache.
    for start in range(0, (nodes + 1) // 2, 32):
        rows, columns = slice(start, start + 32), slice(start, nodes - start)
        h = V[rows] @ V[columns].T
        h *= -2.0
        if w:
            C = W[rows] @ W[columns].T
            h += C * (C - 2.0 * shift)
        h += alone[rows, None]
        h += alone[columns]
        lowest, highest = min(lowest, float(h.min())), max(highest, float(h.max()))
    return _between_nodes(lowest, highest, degree, nodes)


def _features(d: int, v: tuple[float, ...], w: tuple[float, ...], angles: Array) -> tuple[Array, Array, Array]:
    """Return v_a T_a, w_a T_a, and the part of h that depends on one of x and y alone, at the angles."""
    T = np.cos(np.outer(angles, np.arange(1, max(len(v), len(w)) + 1)))
    V, W = T[:, : len(v)] * np.array(v), T[:, : len(w)] * np.array(w)
    A = (W**2).sum(axis=1)
    return V, W, (V**2).sum(axis=1) + d * math.fsum(a * a for a in w) / 2.0 * A - A**2 / 2.0


def _between_nodes(lowest: float, highest: float, degree: int, nodes: int) -> float:
    """Return an upper bound of a polynomial of two variables, of this degree in each, given its extremes at nodes."""
    c = math.cos(degree * math.pi / (2 * nodes))
    return (lowest + highest) / 2.0 + (highest - lowest) / 2.0 / c**2


def _diameter(index: Index, p: int) -> float:
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
def _one_column(degrees: tuple[int, ...], p: int) -> float:
    """Return an upper bound of sup over x, x' of sum over q in degrees of |T_q(x) - T_q(x')|^p.

    Branch and bound over theta = arccos x and theta' = arccos x'. On a square of half-width h round the centre,
    each term is |linear part + remainder| with a remainder of at most q^2 h^2 (half of q^2 h^2 for either angle), and
    the sum over q of (|linear part| + q^2 h^2)^p is convex in the angles, so it is largest at one of the four corners.
    Ends when the bound is within :data:`ACCURACY`, relative, of a value that is attained.
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
        for part in (slice(start, start + 8192) for start in range(0, len(first), 8192)):
            a, b = first[part, None] * q, second[part, None] * q
            value = np.cos(a) - np.cos(b)
            slope_first, slope_second = -q * np.sin(a) * h, q * np.sin(b) * h
            here[part] = (np.abs(value) ** p).sum(axis=1)
            above[part] = np.max([((np.abs(value + i * slope_first + j * slope_second) + (q * h) ** 2) ** p).sum(axis=1)
                                  for i in (-1, 1) for j in (-1, 1)], axis=0)
        attained = max(attained, float(here.max()))
        # Squares left out below are worth at most attained * (1 + ACCURACY / 2).
        bound = min(bound, max(attained * (1.0 + ACCURACY / 2), float(above.max())))
        if bound <= attained * (1.0 + ACCURACY) or len(first) > 500_000:
            return min(2.0**p * len(q), bound * ROUNDING)
        keep = above > attained * (1.0 + ACCURACY / 2)
        h /= 2
        first = np.concatenate([first[keep] + i * h for i in (-1, 1) for _ in (-1, 1)])
        second = np.concatenate([second[keep] + j * h for _ in (-1, 1) for j in (-1, 1)])
