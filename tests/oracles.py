"""Slow plain twins of what the package computes, searches for counterexamples, and computed error rates.

Nothing here imports the package, so that a test compares two independent answers.
"""

import decimal
import math
from fractions import Fraction

import numpy as np
from scipy import optimize, stats

# Planted in bad input, as 7.7131 or 0.77131. No message may hold them: an exception can leave the house.
SECRET_DIGITS = "7131"


def whole_message(error):
    """Everything a traceback would print of an exception and of those that it is chained to."""
    texts = []
    while error is not None:
        texts.append(f"{type(error).__name__}: {error}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n".join(texts)


# Chebyshev products


def products_by_arccos(X, index):
    """phi_r(x) = prod over j of cos(r_j arccos x_j), the definition."""
    angles = np.arccos(np.asarray(X, dtype=np.float64))
    out = np.ones((len(angles), len(index)))
    for k, row in enumerate(index):
        for j in np.flatnonzero(row):
            out[:, k] *= np.cos(row[j] * angles[:, j])
    return out


def products_by_series(X, index):
    """The same by numpy's Chebyshev series."""
    out = np.ones((len(X), len(index)))
    for k, row in enumerate(index):
        for j in np.flatnonzero(row):
            out[:, k] *= np.polynomial.chebyshev.chebval(X[:, j], [0.0] * row[j] + [1.0])
    return out


def products_slope(X, index, y, inner=lambda q: float(q)):
    """The gradient of sum_r y_r phi_r by the product rule, with T_q' = q U_(q-1); `inner` is the factor q."""
    X = np.asarray(X, dtype=np.float64)
    T = np.ones((index.max() + 1, *X.shape))
    U = np.ones((index.max() + 1, *X.shape))
    for q in range(1, len(T)):
        T[q] = X if q == 1 else 2.0 * X * T[q - 1] - T[q - 2]
        U[q] = 2.0 * X if q == 1 else 2.0 * X * U[q - 1] - U[q - 2]
    out = np.zeros_like(X)
    for row, coefficient in zip(index, y, strict=True):
        for j in np.flatnonzero(row):
            term = coefficient * inner(row[j]) * U[row[j] - 1, :, j]
            for i in np.flatnonzero(row):
                if i != j:
                    term = term * T[row[i], :, i]
            out[:, j] += term
    return out


def tensor_transform(coefficients, nodes):
    """sum_r y_r prod_j T_{r_j}(nodes[k_j]) at all k, one column after the other."""
    matrix = np.polynomial.chebyshev.chebvander(nodes, coefficients.shape[0] - 1)
    for axis in range(coefficients.ndim):
        coefficients = np.moveaxis(np.tensordot(matrix, coefficients, axes=(1, axis)), 0, axis)
    return coefficients


# Sensitivity


def largest_movement(index, p, rng, angles, starts):
    """Search for rows x, x' of the cube with a large p-norm of phi(x) - phi(x'); return them and that norm.

    Corners (all for at most three columns, random ones otherwise), random rows, and from the best and a few
    others coordinate ascent, each coordinate in turn over `angles` values of arccos x.
    """
    d = index.shape[1]
    if d <= 3:
        corners = np.pi * np.array(list(np.ndindex((2,) * (2 * d))), dtype=np.float64).reshape(-1, 2, d)
    else:
        corners = np.pi * rng.integers(2, size=(100, 2, d))
    inside = np.pi * rng.random((100, 2, d))
    pairs = np.concatenate([corners, inside])
    norms = np.array([_movement(index, pair, p) for pair in pairs])
    best_first = np.argsort(-norms, kind="stable")
    chosen = np.concatenate([best_first[:starts], rng.choice(len(pairs), size=starts, replace=False)])
    grid = np.linspace(0.0, np.pi, angles)
    # Odd, so that arccos 0 = pi/2 is in the grid as both ends are.
    assert angles % 2 == 1
    features = np.cos(np.arange(index.max() + 1)[:, None] * grid)
    best, best_pair = -1.0, None
    for start in chosen:
        pair, norm = _ascend(index, pairs[start].copy(), p, grid, features)
        if norm > best:
            best, best_pair = norm, pair
    return np.cos(best_pair), best


def _movement(index, pair, p):
    first, second = (np.cos(index * angle).prod(axis=1) for angle in pair)
    return float((np.abs(first - second) ** p).sum() ** (1.0 / p))


def _ascend(index, pair, p, grid, features):
    norm = _movement(index, pair, p)
    for _ in range(20):
        before = norm
        for side in (0, 1):
            other = np.cos(index * pair[1 - side]).prod(axis=1)[:, None]
            factors = np.cos(index * pair[side])
            for j in range(index.shape[1]):
                factors[:, j] = 1.0
                rest = factors.prod(axis=1)[:, None]
                sums = (np.abs(rest * features[index[:, j]] - other) ** p).sum(axis=0)
                pair[side, j] = grid[sums.argmax()]
                factors[:, j] = features[index[:, j], sums.argmax()]
        norm = _movement(index, pair, p)
        if norm <= before * (1.0 + 1e-12):
            break
    return pair, norm


# Rounding, in exact arithmetic


def nearest(value, choices):
    """The nearest of ascending Fractions to a float; of two equally near ones, the lower."""
    value = Fraction(value)
    return min(choices, key=lambda choice: (abs(choice - value), choice))


# Workloads, query by query


def gaussian_answers(points, weights, centers, parts, widths):
    """Query q is sum over j of parts[q, j] exp(-|x - centers[q, j]|^2 / (2 s^2))."""
    out = np.zeros((len(parts), len(widths)))
    for q in range(len(parts)):
        for part, center in zip(parts[q], centers[q], strict=True):
            squares = ((points - center) ** 2).sum(axis=1)
            for w, width in enumerate(widths):
                out[q, w] += part * math.fsum(weights * np.exp(-squares / (2.0 * width**2)))
    return out


def pair_answers(points, weights, columns, centers, widths):
    """Query q is exp(-|x_S - centers[q]|^2 / (2 s^2)) with S = columns[q]."""
    out = np.zeros((len(columns), len(widths)))
    for q in range(len(columns)):
        squares = ((points[:, columns[q]] - centers[q]) ** 2).sum(axis=1)
        for w, width in enumerate(widths):
            out[q, w] = math.fsum(weights * np.exp(-squares / (2.0 * width**2)))
    return out


def second_moments(points, weights):
    """E x_i x_j for i <= j, i ascending and then j."""
    d = points.shape[1]
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    return np.array([[math.fsum(weights * points[:, i] * points[:, j])] for i, j in pairs])


# Statistics


def frequencies_p(counts, probabilities):
    """The two-sided p-value of Pearson's statistic: small if counts fit too badly, or better than chance can.

    The chi-square law is a limit. Callers keep all expected counts above 1000 and compare with 1e-10, which
    leaves a factor of ten below the promised 1e-9 for the error of the limit.
    """
    expected = counts.sum() * np.asarray(probabilities)
    assert expected.min() > 1000
    statistic = ((counts - expected) ** 2 / expected).sum()
    law = stats.chi2(len(counts) - 1)
    return 2.0 * min(law.cdf(statistic), law.sf(statistic))


def bernstein_tolerance(variance, bound, n, false_alarm=1e-9):
    """A t with P(|mean - expectation| >= t) <= false_alarm, for the mean of n independent numbers.

    No number is further than `bound` from its expectation. Bernstein: the probability is at most
    2 exp(-n t^2 / (2 variance + 2 bound t / 3)), so t solves a quadratic.
    """
    log = math.log(2.0 / false_alarm)
    linear = 2.0 * bound * log / 3.0
    return (linear + math.sqrt(linear**2 + 8.0 * n * variance * log)) / (2.0 * n)


# Linear programs


def l1_fit_by_linprog(features, target, costs, cap=None):
    """The least of costs . |u @ features - target| over distributions u (at most `cap` each), and a best dual.

    Written with bounds -s <= deviation <= s, unlike the package's split into positive and negative parts.
    """
    m, K = features.shape
    deviation = np.hstack([features.T, -np.eye(K)])
    result = optimize.linprog(
        np.concatenate([np.zeros(m), costs]),
        A_ub=np.vstack([deviation, np.hstack([-features.T, -np.eye(K)])]), b_ub=np.concatenate([target, -target]),
        A_eq=np.concatenate([np.ones(m), np.zeros(K)])[None], b_eq=[1.0],
        bounds=[(0.0, cap)] * m + [(0.0, None)] * K, method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10})
    assert result.status == 0
    return result.fun, result.ineqlin.marginals[:K] - result.ineqlin.marginals[K:]


# Gaussian differential privacy, by its closed form


def exact_gaussian_delta(epsilon, mu, digits=750):
    """The least delta of mu-GDP at epsilon, of floats, as a Decimal: mu / 2 + epsilon / mu may be up to 40."""
    middle, half = Fraction(epsilon) / Fraction(mu), Fraction(mu) / 2
    with decimal.localcontext() as context:
        context.prec = digits
        above = exact_normal_tail(abs(middle - half), digits)
        return ((above if middle > half else 1 - above)
                - decimal.Decimal(epsilon).exp() * exact_normal_tail(middle + half, digits))


def exact_normal_tail(x, digits=100):
    """Phi(-x) of a Fraction x from 0 to 12 (to 40 with 750 digits) as a Decimal, by the power series from 0."""
    with decimal.localcontext() as context:
        context.prec = digits
        x = decimal.Decimal(x.numerator) / x.denominator
        term = total = x
        square = -x * x / 2
        k, least = 0, decimal.Decimal(10) ** (5 - digits)
        while k < 20 or abs(term) > least:
            k += 1
            term = term * square / k
            total += term / (2 * k + 1)
        # Machin's formula.
        pi = 16 * _arc_cotangent(5) - 4 * _arc_cotangent(239)
        return decimal.Decimal("0.5") - total / (2 * pi).sqrt()


def _arc_cotangent(n):
    power = total = decimal.Decimal(1) / n
    k, least = 0, decimal.Decimal(10) ** -decimal.getcontext().prec
    while power > least:
        k += 1
        power /= n * n
        total += (-1) ** k * power / (2 * k + 1)
    return total


def gaussian_delta(epsilon, mu):
    """The least delta of mu-GDP at epsilon: Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)."""
    high, low = stats.norm.logcdf([-epsilon / mu + mu / 2, -epsilon / mu - mu / 2])
    return math.exp(high) - math.exp(epsilon + low)


def gaussian_epsilon(mu, delta):
    """The least epsilon of mu-GDP at delta."""
    return optimize.brentq(lambda epsilon: gaussian_delta(epsilon, mu) - delta, 0.0, 1000.0, xtol=1e-13)


def gaussian_mu_of(epsilon, delta):
    """The largest mu whose mu-GDP implies (epsilon, delta)."""
    return optimize.brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 1e-3, 100.0, xtol=1e-13)


# Continuous laws: two-sided tests with finite-sample bounds, no limit theorem


def misfit(draws, law, false_alarm=1e-9):
    """Kolmogorov's distance of independent draws from a law, in units of the distance that chance may reach.

    Dvoretzky, Kiefer and Wolfowitz, with Massart's constant: P(distance > e) <= 2 exp(-2 n e^2) for every n. A value
    above 1 refutes the law, with a false alarm of at most the stated probability.
    """
    draws = np.sort(np.ravel(draws))
    n = len(draws)
    below, values = np.arange(n) / n, law.cdf(draws)
    distance = max(np.max(values - below), np.max(below + 1.0 / n - values))
    return distance / math.sqrt(math.log(2.0 / false_alarm) / (2.0 * n))


def dependence(first, second, law, false_alarm=1e-9):
    """The correlation of paired draws of one law, in units of what chance may reach if all are independent.

    Their probabilities, mapped to [-1, 1], have products in [-1, 1] of mean 0: Hoeffding's inequality.
    """
    product = (2.0 * law.cdf(np.ravel(first)) - 1.0) * (2.0 * law.cdf(np.ravel(second)) - 1.0)
    return abs(product.mean()) / math.sqrt(2.0 * math.log(2.0 / false_alarm) / len(product))
