"""Compiled ascent on combinations of Chebyshev products, one column after another; compiled as the other kernels."""

import numpy as np
from numba import njit


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
        # An end is a critical point in theta in any case, and a maximum by the sign of the second derivative there.
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
                entries = slice(column_starts[j], column_starts[j + 1])
                _set_series(c, offsets[j], features, coefficients, term_starts, term_features, column_terms[entries],
                            column_degrees[entries])
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
def _set_series(c, first, features, coefficients, term_starts, term_features, terms, degrees):
    """Set c to the Chebyshev series in one column: of the terms with it, at the other columns' features."""
    c[:] = 0.0
    for e in range(terms.shape[0]):
        r, q = terms[e], degrees[e]
        value = coefficients[r]
        for f in range(term_starts[r], term_starts[r + 1]):
            if term_features[f] != first + q - 1:
                value *= features[term_features[f]]
        c[q] += value


@njit(cache=True, nogil=True)
def _set_features(features, first, degree, x):
    """Set features[first + q - 1] to T_q(x) for 1 <= q <= degree."""
    if degree > 0:
        features[first] = x
    if degree > 1:
        features[first + 1] = 2.0 * x * x - 1.0
    for q in range(2, degree):
        features[first + q] = 2.0 * x * features[first + q - 1] - features[first + q - 2]
