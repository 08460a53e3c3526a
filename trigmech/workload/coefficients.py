"""How much the products of one, two and three columns matter to a query family, summed over the columns.

A plan treats all columns alike, so it needs a family's sums over the columns. If the family treats them alike too, one
column, one pair and one triple determine these sums; for any other family all are computed.
"""

from collections.abc import Sequence
from itertools import combinations, product
from math import comb
from typing import NamedTuple

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.errors import InputError
from trigmech.workload.family import Family, is_symmetric

ENTRIES_AT_A_TIME = 2**20
# A family that is not symmetric is asked for all pairs, and for all triples, of at most this many columns. If there are
# more columns, evenly spaced ones stand for all.
MOST_COLUMNS = {1: 2**20, 2: 128, 3: 128}


class Importance(NamedTuple):
    """Sums over the columns of the numbers that :meth:`trigmech.workload.Family.importance` returns.

    single (parts, p): of T_1, ..., T_p, over the columns. pair (parts, q, q): of T_a(x_i) T_b(x_j), over the pairs i <
    j. triple (parts,): of x_i x_j x_k, over i < j < k.
    """

    single: Array
    pair: Array
    triple: Array


def summed_importance(family: Family, p: int, q: int) -> Importance:
    """Return how much each degree of the columns, each two degrees of the pairs, and the triples matter together.

    The family must not be a mixture, because its members may treat different columns alike; p and q are the largest
    degrees of a column and in a pair.

    Raises an InputError if the family does not return (parts, K) finite numbers that are at least 0, or all numbers of
    some part are 0, unless the family is symmetric: nothing could be measured for it.

    Cost: that of ``importance`` for p + q^2 + 1 products if the family is symmetric; else for p d + q^2 d (d - 1) / 2 +
    d (d - 1) (d - 2) / 6, with d at most 128 in the last two.
    """
    d = family.d
    single = _mean(family, [(a,) for a in range(1, p + 1)], 1)
    pair = _mean(family, list(product(range(1, q + 1), repeat=2)), 2).reshape(len(family.labels), q, q)
    if is_symmetric(family):
        # T_a T_b and T_b T_a matter alike, but for rounding.
        pair = (pair + pair.transpose(0, 2, 1)) / 2.0
    triple = _mean(family, [(1, 1, 1)], 3)[:, 0]
    total = single.sum(axis=1) + pair.sum(axis=(1, 2)) + triple
    unserved = [repr(label) for label, use in zip(family.labels, total, strict=True) if not use > 0.0]
    # The importance of kernels of very many columns underflows, and so do their errors.
    if unserved and not is_symmetric(family):
        raise InputError(f"the workload's {', '.join(unserved)} cannot be planned for: it gives no importance to T_a "
                         f"of a column for a up to {p}, T_a T_b of two columns for a and b up to {q}, or x_i x_j x_k")
    return Importance(d * single, comb(d, 2) * pair, comb(d, 3) * triple)


def _mean(family: Family, degrees: Sequence[tuple[int, ...]], width: int) -> Array:
    """Return the importance (parts, degrees) of products of ``width`` columns, averaged over the choices of these."""
    d = family.d
    total = np.zeros((len(family.labels), len(degrees)))
    if d < width or not degrees:
        return total
    known = np.arange(width) if is_symmetric(family) else np.unique(
        np.linspace(0, d - 1, min(d, MOST_COLUMNS[width])).astype(np.int64))
    columns = np.array(list(combinations(known.tolist(), width)), dtype=np.int64)
    step = max(1, ENTRIES_AT_A_TIME // (d * len(degrees)))
    for start in range(0, len(columns), step):
        chosen = np.repeat(columns[start : start + step], len(degrees), axis=0)
        index = np.zeros((len(chosen), d), dtype=np.int64)
        index[np.arange(len(chosen))[:, None], chosen] = np.tile(degrees, (len(chosen) // len(degrees), 1))
        total += _asked(family, index).reshape(len(total), -1, len(degrees)).sum(axis=1)
    return total / len(columns)


def _asked(family: Family, index: Integers) -> Array:
    """Return the importance (parts, K) after checking it."""
    values = np.asarray(family.importance(index), dtype=np.float64)
    shape = (len(family.labels), len(index))
    if values.shape != shape:
        raise InputError(f"{type(family).__name__}.importance must return an array of shape (parts, K) = {shape}, one "
                         f"row for each label; it returned {values.shape}")
    if not (np.isfinite(values).all() and (values >= 0.0).all()):
        raise InputError(f"{type(family).__name__}.importance must return finite numbers that are at least 0")
    return values
