"""Compiled code alone: functions over plain arrays, described and driven by other modules.

Nothing is compiled at import. Each function is compiled on its first call and cached on disk beside this file
(or in ``NUMBA_CACHE_DIR``). All release the interpreter's lock, so that they can run in threads.
No ``fastmath``: sums are vectorised by keeping one running sum per row of a block, so the order of additions
is fixed by this source and not by the compiler or the width of a vector register.
"""

import numpy as np
from numba import njit

BLOCK = 256
"""Rows handled together; a block of features and of partial products stays in the second-level cache."""

# Columns of the array `nodes` that describes a prefix tree in depth-first order (see prefix_tree.PrefixTree).
DEPTH, FEATURE, OUTPUT, LEAF = 0, 1, 2, 3


# Columns by which a row of features is longer than a block: rows a power of two apart would share cache lines.
PADDING = 8


@njit(cache=True, nogil=True)
def _block_features(X, low, count, offsets, degrees, features):
    """Fill features[f, b] with T_q(X[low + b, j]) for every column j and degree 1 <= q <= degrees[j].

    Return how many entries of the block's rows are not numbers in [-1, 1].
    """
    outside = 0
    for b in range(count):
        for j in range(X.shape[1]):
            if degrees[j] > 0:
                features[offsets[j], b] = X[low + b, j]
    for j in range(X.shape[1]):
        first = offsets[j]
        if degrees[j] == 0:
            for b in range(count):
                outside += not ((X[low + b, j] >= -1.0) & (X[low + b, j] <= 1.0))
            continue
        for b in range(count):
            outside += not ((features[first, b] >= -1.0) & (features[first, b] <= 1.0))
        if degrees[j] > 1:
            for b in range(count):
                features[first + 1, b] = 2.0 * features[first, b] * features[first, b] - 1.0
        for q in range(2, degrees[j]):
            for b in range(count):
                features[first + q, b] = (
                    2.0 * features[first, b] * features[first + q - 1, b] - features[first + q - 2, b]
                )
    return outside


@njit(cache=True, nogil=True)
def basis_sums(X, offsets, degrees, nodes, features, stack, rounder, sums):
    """Add sum over the rows of X of each node's product to sums[node, lane].

    Row b of each block adds to lane b, so the additions have one order whatever the hardware. Return, as the two
    functions below, how many entries of X are not numbers in [-1, 1]; the results mean nothing then.

    With ``rounder`` = 1.5 * 2^52 s, for a power of two s, each product is rounded to a multiple of s, half to even: its
    sum with that number has no room for less, which is gone when the number is taken away again. Sums of multiples of s
    are exact up to 2^53 s. With 0 nothing is rounded.
    """
    lanes = stack.shape[1]
    outside = 0
    for low in range(0, X.shape[0], lanes):
        count = min(lanes, X.shape[0] - low)
        outside += _block_features(X, low, count, offsets, degrees, features)
        for i in range(nodes.shape[0]):
            depth = nodes[i, DEPTH]
            f = nodes[i, FEATURE]
            if depth == 0:
                for b in range(count):
                    value = features[f, b]
                    stack[0, b] = value
                    sums[i, b] += (value + rounder) - rounder
            elif nodes[i, LEAF] == 1:
                for b in range(count):
                    sums[i, b] += (stack[depth - 1, b] * features[f, b] + rounder) - rounder
            else:
                for b in range(count):
                    value = stack[depth - 1, b] * features[f, b]
                    stack[depth, b] = value
                    sums[i, b] += (value + rounder) - rounder
    return outside


@njit(cache=True, nogil=True)
def basis_values(X, offsets, degrees, nodes, features, stack, out):
    """Set out[row, output] to each node's product at each row of X; the constant's column is not touched."""
    lanes = stack.shape[1]
    outside = 0
    for low in range(0, X.shape[0], lanes):
        count = min(lanes, X.shape[0] - low)
        outside += _block_features(X, low, count, offsets, degrees, features)
        for i in range(nodes.shape[0]):
            depth = nodes[i, DEPTH]
            f = nodes[i, FEATURE]
            k = nodes[i, OUTPUT]
            for b in range(count):
                value = features[f, b]
                if depth > 0:
                    value *= stack[depth - 1, b]
                stack[depth, b] = value
            if k >= 0:
                for b in range(count):
                    out[low + b, k] = stack[depth, b]
    return outside


@njit(cache=True, nogil=True)
def basis_combination(X, offsets, degrees, nodes, features, stack, coefficients, out):
    """Add sum_k coefficients[k] * product_k(x) to out[row]; coefficients[i] belongs to node i of the tree."""
    lanes = stack.shape[1]
    outside = 0
    for low in range(0, X.shape[0], lanes):
        count = min(lanes, X.shape[0] - low)
        outside += _block_features(X, low, count, offsets, degrees, features)
        for i in range(nodes.shape[0]):
            depth = nodes[i, DEPTH]
            f = nodes[i, FEATURE]
            c = coefficients[i]
            if depth == 0:
                for b in range(count):
                    value = features[f, b]
                    stack[0, b] = value
                    out[low + b] += c * value
            elif nodes[i, LEAF] == 1:
                for b in range(count):
                    out[low + b] += c * (stack[depth - 1, b] * features[f, b])
            else:
                for b in range(count):
                    value = stack[depth - 1, b] * features[f, b]
                    stack[depth, b] = value
                    out[low + b] += c * value
    return outside


@njit(cache=True, nogil=True)
def basis_gradient(X, offsets, degrees, nodes, features, stack, parents, coefficients, out):
    """Set out[row, j] to the derivative by x_j of sum_k coefficients[k] * product_k(x); no entry may be outside.

    Forward, the products of all nodes; backward, inner[i] is the factor by which the combination depends on node i:
    its own coefficient and, for each child, the child's feature times the child's inner factor. ``slopes`` of a block
    are the derivatives by the features, which T_q' = q U_(q-1) turns into derivatives by x.
    """
    lanes = stack.shape[1]
    products = np.empty((nodes.shape[0], lanes))
    inner = np.empty_like(products)
    slopes = np.empty_like(features)
    outside = 0
    for low in range(0, X.shape[0], lanes):
        count = min(lanes, X.shape[0] - low)
        outside += _block_features(X, low, count, offsets, degrees, features)
        for i in range(nodes.shape[0]):
            f, above = nodes[i, FEATURE], parents[i]
            for b in range(count):
                inner[i, b] = coefficients[i]
                products[i, b] = features[f, b] if above < 0 else products[above, b] * features[f, b]
        slopes[:] = 0.0
        # Children stand after their parent, so backwards each node is complete when it is reached.
        for i in range(nodes.shape[0] - 1, -1, -1):
            f, above = nodes[i, FEATURE], parents[i]
            if above < 0:
                for b in range(count):
                    slopes[f, b] += inner[i, b]
            else:
                for b in range(count):
                    slopes[f, b] += products[above, b] * inner[i, b]
                    inner[above, b] += features[f, b] * inner[i, b]
        _block_derivatives(slopes, offsets, degrees, features, out[low : low + count])
    return outside


@njit(cache=True, nogil=True)
def _block_derivatives(slopes, offsets, degrees, features, out):
    """Set out[b, j] to the derivative by x_j of a block's row b, from those by the features T_q(x_j)."""
    for j in range(out.shape[1]):
        if degrees[j] == 0:
            out[:, j] = 0.0
            continue
        first = offsets[j]
        for b in range(out.shape[0]):
            # U_0 and U_1, and the sum so far.
            x = features[first, b]
            before, here = 1.0, 2.0 * x
            total = slopes[first, b]
            for q in range(1, degrees[j]):
                total += (q + 1.0) * here * slopes[first + q, b]
                before, here = here, 2.0 * x * here - before
            out[b, j] = total


@njit(cache=True, nogil=True)
def _profile_value(x, profile):
    """Return sum_m profile[m] T_m(x), terms in order."""
    total = profile[0] + profile[1] * x
    before, here = 1.0, x
    for m in range(2, profile.shape[0]):
        before, here = here, 2.0 * x * here - before
        total += profile[m] * here
    return total


@njit(cache=True, nogil=True)
def profile_products(X, profiles, out):
    """Set out[row, g] to the product over the columns of profile g. Return how many entries are not in [-1, 1]."""
    outside = 0
    for i in range(X.shape[0]):
        for g in range(profiles.shape[0]):
            out[i, g] = 1.0
        for j in range(X.shape[1]):
            x = X[i, j]
            outside += not ((x >= -1.0) & (x <= 1.0))
            for g in range(profiles.shape[0]):
                out[i, g] *= _profile_value(x, profiles[g])
    return outside


@njit(cache=True, nogil=True)
def profile_gradient(X, profiles, coefficients, out):
    """Add to out[row, j] the derivative by x_j of sum_g coefficients[g] * product_g(x); profiles are positive."""
    for i in range(X.shape[0]):
        for g in range(profiles.shape[0]):
            whole = coefficients[g]
            for j in range(X.shape[1]):
                whole *= _profile_value(X[i, j], profiles[g])
            for j in range(X.shape[1]):
                x = X[i, j]
                # sum_m profile[m] m U_(m-1)(x)
                before, here = 0.0, 1.0
                slope = 0.0
                for m in range(1, profiles.shape[1]):
                    slope += m * profiles[g, m] * here
                    before, here = here, 2.0 * x * here - before
                out[i, j] += whole * slope / _profile_value(x, profiles[g])


@njit(cache=True, nogil=True)
def squared_distances(points, centers, out):
    """Set out[i, c] to the squared Euclidean distance of points[i] and centers[:, c]; centers is (d, count)."""
    for i in range(points.shape[0]):
        for c in range(centers.shape[1]):
            out[i, c] = 0.0
        for j in range(points.shape[1]):
            x = points[i, j]
            for c in range(centers.shape[1]):
                difference = x - centers[j, c]
                out[i, c] += difference * difference


@njit(cache=True, nogil=True)
def pair_squared_distances(points, columns, centers, out):
    """Set out[i, c] to the squared distance of points[i, columns[c]] and centers[c], in two columns each."""
    for i in range(points.shape[0]):
        for c in range(columns.shape[0]):
            first = points[i, columns[c, 0]] - centers[c, 0]
            second = points[i, columns[c, 1]] - centers[c, 1]
            out[i, c] = first * first + second * second


@njit(cache=True, nogil=True)
def weighted_column_sums(values, weights, out):
    """Add sum_i weights[i] * values[i, c] to out[c], row after row."""
    for i in range(values.shape[0]):
        w = weights[i]
        for c in range(values.shape[1]):
            out[c] += w * values[i, c]
