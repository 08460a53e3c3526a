"""All compiled code, and nothing else: functions over plain arrays, described and driven by other modules.

Nothing is compiled at import. Each function is compiled on its first call and cached on disk beside this file
(or in ``NUMBA_CACHE_DIR``). All release the interpreter's lock, so that ``chunks`` can run them in threads.
No ``fastmath``: sums are vectorised by keeping one running sum per row of a block, so the order of additions
is fixed by this source and not by the compiler or the width of a vector register.
"""

import numpy as np
from numba import njit

BLOCK = 256
"""Rows handled together; a block of features and of partial products stays in the second-level cache."""

# Columns of the array `nodes` that describes a prefix tree in depth-first order (see basis.PrefixTree).
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
def basis_sums(X, offsets, degrees, nodes, features, stack, sums):
    """Add sum over the rows of X of each node's product to sums[node, lane].

    Row b of each block adds to lane b, so the additions have one order whatever the hardware. Return, as the two
    functions below, how many entries of X are not numbers in [-1, 1]; the results mean nothing then.
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
                    sums[i, b] += value
            elif nodes[i, LEAF] == 1:
                for b in range(count):
                    sums[i, b] += stack[depth - 1, b] * features[f, b]
            else:
                for b in range(count):
                    value = stack[depth - 1, b] * features[f, b]
                    stack[depth, b] = value
                    sums[i, b] += value
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
def basis_combination(X, coefficients, offsets, degrees, nodes, features, stack, out):
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
def basis_gradient(X, coefficients, offsets, degrees, nodes, parents, features, products, inner, out):
    """Set out[row, j] to the derivative by x_j of sum_k coefficients[k] * product_k(x); no entry may be outside.

    Forward, the products of all nodes; backward, inner[i] is the factor by which the combination depends on node i:
    its own coefficient and, for each child, the child's feature times the child's inner factor. ``slopes`` of a block
    are the derivatives by the features, which T_q' = q U_(q-1) turns into derivatives by x.
    """
    lanes = products.shape[1]
    slopes = np.empty_like(features)
    outside = 0
    for low in range(0, X.shape[0], lanes):
        count = min(lanes, X.shape[0] - low)
        outside += _block_features(X, low, count, offsets, degrees, features)
        for i in range(nodes.shape[0]):
            f, above = nodes[i, FEATURE], parents[i]
            if above < 0:
                for b in range(count):
                    products[i, b] = features[f, b]
                    inner[i, b] = coefficients[i]
            else:
                for b in range(count):
                    products[i, b] = products[above, b] * features[f, b]
                    inner[i, b] = coefficients[i]
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
        for j in range(X.shape[1]):
            if degrees[j] == 0:
                for b in range(count):
                    out[low + b, j] = 0.0
                continue
            first = offsets[j]
            for b in range(count):
                # U_0 and U_1, and the sum so far.
                x = features[first, b]
                before, here = 1.0, 2.0 * x
                total = slopes[first, b]
                for q in range(1, degrees[j]):
                    total += (q + 1.0) * here * slopes[first + q, b]
                    before, here = here, 2.0 * x * here - before
                out[low + b, j] = total
    return outside


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


@njit(cache=True, nogil=True)
def _series(c, degree, x):
    """Return sum over 1 <= q <= degree of c[q] T_q(x), by Clenshaw's recurrence."""
    after, here = 0.0, 0.0
    for q in range(degree, 0, -1):
        here, after = c[q] + 2.0 * x * here - after, here
    return x * here - after


@njit(cache=True, nogil=True)
def _polished(c, degree, low, high, theta):
    """Return a local maximum in [low, high] of sum_q c[q] cos(q theta), by Newton's steps or else by bisection."""
    for _ in range(50):
        cosine, sine = np.cos(theta), np.sin(theta)
        first, second = 0.0, 0.0
        a, b = cosine, sine
        for q in range(1, degree + 1):
            first -= q * c[q] * b
            second -= q * q * c[q] * a
            a, b = a * cosine - b * sine, b * cosine + a * sine
        if first > 0.0:
            low = theta
        else:
            high = theta
        new = theta - first / second if second < 0.0 else low
        if not low < new < high:
            new = 0.5 * (low + high)
        step = abs(new - theta)
        theta = new
        # Newton's next step would be of the order of the square.
        if step < 1e-9:
            break
    return theta


@njit(cache=True, nogil=True)
def _best_abscissa(c, degree, grid, values):
    """Return where in [-1, 1] sum over 1 <= q <= degree of c[q] T_q(x) is largest.

    ``grid`` holds cos(k h) for k = 0, ..., N and h = pi / N. In theta = arccos x the second derivative is at most
    sum_q q^2 |c[q]|, so the nearest grid value to a maximum is at most h^2 / 8 of that below it: only those maxima on
    the grid that come so near to the largest are polished.
    """
    if degree == 1 or (degree == 2 and abs(c[1]) >= -4.0 * c[2]):
        return 1.0 if c[1] >= 0.0 else -1.0
    if degree == 2:
        return -c[1] / (4.0 * c[2])
    N = 4 * (degree + 1)
    h = np.pi / N
    curvature, right, left, sign = 0.0, 0.0, 0.0, 1.0
    for q in range(1, degree + 1):
        sign = -sign
        curvature += q * q * abs(c[q])
        right += q * q * c[q]
        left += q * q * c[q] * sign
    for k in range(N + 1):
        values[k] = _series(c, degree, grid[k])
    largest = values[0]
    for k in range(1, N + 1):
        largest = max(largest, values[k])
    enough = largest - curvature * h * h / 8.0
    best, where = -np.inf, 1.0
    for k in range(N + 1):
        if (values[k] < enough or (k > 0 and values[k] < values[k - 1]) or (k < N and values[k] < values[k + 1])):
            continue
        # An end is a critical point in theta in any case, and a maximum if the second derivative there says so.
        if (k == 0 and right >= 0.0) or (k == N and left >= 0.0):
            x = grid[k]
        else:
            low, high = max(k - 1, 0) * h, min(k + 1, N) * h
            x = np.cos(_polished(c, degree, low, high, k * h if 0 < k < N else 0.5 * (low + high)))
        value = _series(c, degree, x)
        if value > best:
            best, where = value, x
        if values[k] > best:
            best, where = values[k], grid[k]
    return where


@njit(cache=True, nogil=True)
def coordinate_ascent(points, coefficients, term_starts, term_features, column_starts, column_terms, column_degrees,
                      offsets, degrees, tolerance, most_sweeps):
    """Move each row of points uphill on sum_r coefficients[r] phi_r, one column after another, each to its best place.

    Term r is the product of the features term_features[term_starts[r]:term_starts[r + 1]], where T_q of column j is
    feature offsets[j] + q - 1. The entries column_starts[j]:column_starts[j + 1] are the terms with column j and their
    degrees in it. A row stops when a sweep over all columns gains at most the tolerance, or after most_sweeps.
    Return how many sweeps were made in all.
    """
    highest = 1
    for j in range(degrees.shape[0]):
        highest = max(highest, degrees[j])
    grids = np.empty((degrees.shape[0], 4 * (highest + 1) + 1))
    for j in range(degrees.shape[0]):
        N = 4 * (degrees[j] + 1)
        for k in range(N + 1):
            # Symmetric to the last bit, the ends and the middle exact.
            grids[j, k] = np.sin(np.pi * (N - 2 * k) / (2 * N))
    values = np.empty(grids.shape[1])
    c = np.empty(highest + 1)
    features = np.empty(max(1, degrees.sum()))
    sweeps = 0
    for i in range(points.shape[0]):
        for j in range(degrees.shape[0]):
            _set_features(features, offsets[j], degrees[j], points[i, j])
        for _ in range(most_sweeps):
            sweeps += 1
            gain = 0.0
            for j in range(degrees.shape[0]):
                if degrees[j] == 0:
                    continue
                c[: degrees[j] + 1] = 0.0
                for e in range(column_starts[j], column_starts[j + 1]):
                    r, q = column_terms[e], column_degrees[e]
                    own = offsets[j] + q - 1
                    value = coefficients[r]
                    for f in range(term_starts[r], term_starts[r + 1]):
                        if term_features[f] != own:
                            value *= features[term_features[f]]
                    c[q] += value
                x = _best_abscissa(c, degrees[j], grids[j], values)
                difference = _series(c, degrees[j], x) - _series(c, degrees[j], points[i, j])
                if difference > 0.0:
                    gain += difference
                    points[i, j] = x
                    _set_features(features, offsets[j], degrees[j], x)
            if gain <= tolerance:
                break
    return sweeps


@njit(cache=True, nogil=True)
def _set_features(features, first, degree, x):
    """Set features[first + q - 1] to T_q(x) for 1 <= q <= degree."""
    if degree > 0:
        features[first] = x
    if degree > 1:
        features[first + 1] = 2.0 * x * x - 1.0
    for q in range(2, degree):
        features[first + q] = 2.0 * x * features[first + q - 1] - features[first + q - 2]
