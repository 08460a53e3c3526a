"""The figures of docs/errata.md: ``python -m experiments.errata [NAME ...]``, all of them without a name.

Names are those of the thesis's statements. Everything is computed from the printed formulas, exactly where that is
possible: compositions of Laplace and Gaussian noise as privacy loss distributions between an optimistic and a
pessimistic bound, sensitivities at pairs of rows that attain them. A seed is fixed where something is drawn.

Notation: n rows, d columns, k axes, L iterations; `ratio` is how far a coordinate moves over its noise scale.
"""

import argparse
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from experiments import Array
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.sensitivity import l1_diameter
from trigmech.thesis.calibration import covariance_sensitivity, published_rho

# n and d of table 3.1.
SIZES = {line.dataset: (line.n, line.d)
         for line in pd.read_csv(Path(__file__).parent / "expected" / "table_3_1.csv").itertuples()}


def figure(title: str, columns: str, rows: Iterable[Sequence[object]]) -> str:
    """Return a small table below its title; semicolons separate the names in `columns`."""
    table = pd.DataFrame(map(tuple, rows), columns=columns.split("; "), dtype=object)
    return f"{title}\n{table.to_string(index=False, float_format='{:.4g}'.format)}"


# The cost of noise


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the exact delta at epsilon of Gaussian noise whose centre moves by mu standard deviations."""
    high, low = (float(stats.norm.logsf(epsilon / mu + half)) for half in (-mu / 2, mu / 2))
    return max(0.0, math.exp(high) - math.exp(epsilon + low))


def composed(laplace: Sequence[tuple[float, int]], mu: float, pessimistic: bool) -> Any:
    """Return the privacy loss distribution of independent releases, rounded up (pessimistic) or down.

    `laplace` are coordinates (ratio, count); `mu` is of all Gaussian releases together, 0 if there is no such release.
    """
    from dp_accounting.pld import privacy_loss_distribution as pld

    turn = math.ceil if pessimistic else math.floor
    # A Laplace coordinate's loss has atoms at plus and minus its ratio. Every ratio is turned to a multiple of the
    # interval, outwards or inwards (delta grows with each ratio), so that these atoms are kept exactly. An interval of
    # 20 significant bits makes the multiples exact.
    finest = min([ratio / 100 for ratio, _ in laplace] + [2e-4])
    unit = 2.0 ** (math.floor(math.log2(finest)) - 20)
    interval = turn(finest / unit) * unit
    options = {"value_discretization_interval": interval, "pessimistic_estimate": pessimistic,
               "use_connect_dots": pessimistic}
    parts = [pld.from_laplace_mechanism(1.0, turn(ratio / interval * (1.0 + (-1e-12 if pessimistic else 1e-12)))
                                        * interval, **options).self_compose(count) for ratio, count in laplace]
    if mu > 0:
        parts.append(pld.from_gaussian_mechanism(1.0, mu, **options))
    return reduce(lambda a, b: a.compose(b), parts)


def exact_delta(epsilon: float, laplace: Sequence[tuple[float, int]], mu: float = 0.0) -> tuple[float, float]:
    """Return bounds, below and above, of the exact delta at epsilon; parameters as of :func:`composed`."""
    low, high = (composed(laplace, mu, up).get_delta_for_epsilon(epsilon) for up in (False, True))
    return float(low), float(high)


def concentrated_delta(epsilon: float, variance: float) -> float:
    """Return a bound of delta at epsilon for releases whose Renyi divergences are at most order * variance / 2.

    It holds for any adaptive composition of pure releases with sum of squared epsilons `variance`, and for any
    composition of Laplace or Gaussian coordinates with sum of squared ratios `variance`. Derived in docs/errata.md.
    """
    order = epsilon / variance + 0.5
    if order <= 1.0:
        return 1.0
    shape = math.exp((order - 1.0) * math.log1p(-1.0 / order)) / order
    return min(1.0, shape * math.exp(-((epsilon - variance / 2.0) ** 2) / (2.0 * variance)))


def largest_epsilon(delta_at: Callable[[float], float], delta: float, upper: float = 200.0) -> float:
    """Return where delta_at(epsilon) - delta changes its sign, from below delta to above."""
    root: Any = optimize.brentq(lambda epsilon: math.log(max(delta_at(epsilon), 1e-300) / delta), 1e-4, upper)
    return float(root)


def limit(factor: float, over: float, delta: float, epsilon: float) -> float:
    """Return the exact delta at epsilon of Gaussian noise of scale sqrt(factor ln(over / delta)) / epsilon."""
    return gaussian_delta(epsilon, epsilon / math.sqrt(factor * math.log(over / delta)))


# For example 1.3; and, for many queries and columns, for proposition 1.12 and for algorithm 5's means at t = 2.
example_1_3_delta, proposition_1_12_limit, algorithm_5_limit = (
    partial(limit, *each) for each in ((2.0, 2.0), (2.0, 1.0), (1.0, 1.0)))


# Chapter 1


def proposition_1_12_bound(delta: float, epsilon: float) -> float:
    """Return a delta that is proved at epsilon of proposition 1.12's mechanism, for every k."""
    return concentrated_delta(epsilon, epsilon**2 / (2.0 * math.log(1.0 / delta)))


def proposition_1_12() -> list[str]:
    rows = []
    for epsilon, k in ((1 / 3, 1000), (1.0, 1000), (4.0, 1000), (7.0, 1000), (8.0, 100), (8.0, 1000), (10.0, 100),
                       (10.0, 1000)):
        published, corrected = (exact_delta(epsilon, [(1.0 / (scale * math.sqrt(k)), k)])
                                for scale in (published_scale(epsilon, 1e-3), corrected_scale(epsilon, 1e-3)))
        rows.append((epsilon, k, *published, corrected[1]))
    limits = ((delta, *(largest_epsilon(partial(f, delta), delta, 15.0)
                        for f in (proposition_1_12_bound, proposition_1_12_limit)),
               corrected_scale(1.0, delta) / published_scale(1.0, delta)) for delta in (1e-2, 1e-3, 1e-6, 1e-9))
    return [figure("delta = 1e-3, every query moves by its sensitivity; exact delta",
                   "epsilon; k; at least; at most; corrected: at most", rows),
            figure("The published scale is enough, for every k, up to the first epsilon, and is not, for large k, from "
                   "the second on", "delta; enough up to; false from; corrected / published at epsilon 1", limits)]


def published_scale(epsilon: float, delta: float) -> float:
    """Return proposition 1.12's Laplace scale for one unit of sensitivity, over sqrt(k)."""
    return math.sqrt(2.0 * math.log(1.0 / delta)) / epsilon


def corrected_scale(epsilon: float, delta: float) -> float:
    """Return the scale, over sqrt(k), that is enough for all epsilon, delta and k."""
    log = math.log(1.0 / delta)
    return (math.sqrt(2.0 * (log + epsilon)) + math.sqrt(2.0 * log)) / (2.0 * epsilon)


# Basis means


def shifts(index: NDArray[np.int64], x: Array, y: Array) -> Array:
    """Return phi_r(x) - phi_r(y) for all r of the index (K, d): n times the movement of the means."""
    first, second = (np.cos(index * np.arccos(row)).prod(axis=1) for row in (x, y))
    return np.asarray(first - second)


def exceeding_pair(d: int, t: int) -> tuple[Array, Array]:
    """Return rows that differ in one column and move the full set by more than t^d in L1, for t > 2."""
    # From 1 to cos(3 pi / (2t - 1)), near the least value of the Dirichlet kernel.
    x, y = np.ones(d), np.ones(d)
    y[0] = math.cos(3.0 * math.pi / (2 * t - 1))
    return x, y


def grid_spread(t: int, N: int) -> float:
    """Return the exact S_1 of one column's degrees 0..t-1 over rows that are rounded to A."""
    nodes = (2.0 * np.arange(N) + 1.0 - N) / N
    values = np.cos(np.outer(np.arccos(nodes), np.arange(t)))
    return float(max(np.abs(values - row).sum(axis=1).max() for row in values))


def line_1(n: int, d: int, K: int) -> tuple[int, int]:
    """Return t and N of algorithm 4's first line."""
    unit = n ** (1.0 / (2 * d + K))
    return math.ceil(unit * (1 - 1e-12)), math.ceil(unit**K * (1 - 1e-12))


def algorithm_4() -> list[str]:
    cube, rounded = [], []
    for t in (2, 3, 4, 6, 10, 40):
        for d in (1, 3) if t < 10 else (1,):
            index = ChebyshevBasis.tensor(d, t).index
            x, y = (np.ones(d), -np.eye(d)[0] * 2 + 1) if t == 2 else exceeding_pair(d, t)
            cube.append((t, d, float(np.abs(shifts(index, x, y)).sum()) / t**d, l1_diameter(index) / t**d))
    for n, K in ((218, 1), (1000, 1), (292, 2), (2000, 2), (176, 5), (534, 3), (11_090, 4), (31_111, 3)):
        t, N = line_1(n, 1, K)
        rounded.append((n, K, t, N, grid_spread(t, N) / t))
    return [figure("Rows anywhere in the cube: the pair's epsilon and the certified supremum, over the stated epsilon",
                   "t; d; attained; supremum", cube),
            figure("Rows rounded to A as line 1 has it, d = 1: exact", "n; K; t; N; epsilon / stated", rounded)]


def half_moving(d: int, epsilon: float, delta: float, step: float = 1.0) -> list[tuple[float, int]]:
    """Return ratios of algorithm 5's means at t = 2 for the worst pair: 2^(d-1) of them move by 2.

    `step` < 1: for rows at the corners of A, (step, ..., step) and its negative in all columns but an even number.
    """
    scale = math.sqrt(2.0 * 2**d * math.log(1.0 / delta)) / epsilon
    if step == 1.0:
        return [(2.0 / scale, 2 ** (d - 1))]
    return [(2.0 * step**j / scale, math.comb(d, j)) for j in range(1, d + 1, 2)]


def algorithm_5() -> list[str]:
    rows: list[tuple[object, ...]] = []
    for epsilon, delta in ((1.0, 1e-2), (1.0, 1e-3), (1.0, 1e-4), (1.0, 1e-6), (0.1, 1e-6), (4.0, 1e-3)):
        rows += [(epsilon, delta, d, *(x / delta for x in exact_delta(epsilon, half_moving(d, epsilon, delta))))
                 for d in (4, 8, 12)]
        rows.append((epsilon, delta, "infinity", *[algorithm_5_limit(delta, epsilon) / delta] * 2))
    return [figure("Worst pair, t = 2: exact delta over the stated one", "epsilon; delta; d; at least; at most", rows),
            figure("Many columns: enough up to", "delta; epsilon",
                   ((delta, largest_epsilon(partial(algorithm_5_limit, delta), delta))
                    for delta in (1e-2, 1e-3, 1e-4, 1e-6, 1e-9)))]


# Axes


def covariance(rows: Array) -> Array:
    """Return A of lemma 2.7."""
    return np.atleast_2d(np.cov(rows.T, bias=True))


def iteration_variance(n: int, norm: Array, epsilon: float, delta: float) -> Array:
    """Return the sum of squared ratios of algorithm 6 at d = k = 1 for the worst pair, given the noisy mean's size.

    The pair: n - 1 rows at 1 and one at -1, against n rows at 1. The variances are 4(n-1)/n^2 and 0.
    """
    sigma = np.array([published_rho(1, n, float(x)) for x in norm]) * math.sqrt(4 * math.log(1 / delta)) / epsilon
    # L iterations with variance L sigma^2 each: L cancels.
    return np.asarray((4 * (n - 1) / n**2 / sigma) ** 2)


def noisy_mean_delta(n: int, epsilon_mean: float, epsilon: float, delta: float, hidden_start: bool = False) -> float:
    """Return the exact delta, at epsilon_mean + epsilon, of a noisy mean and algorithm 6 after it, d = k = 1.

    The mean has Laplace noise of scale 2 / (n epsilon_mean), which makes it private at that epsilon; epsilon and delta
    are given to algorithm 6. All noisy products are seen, and the sign that the iteration starts from; with
    `hidden_start` the algorithm's outputs alone, L = 1.
    """
    scale, low = 2 / (n * epsilon_mean), 1 - 2 / n
    z = np.concatenate([np.linspace(-6, low, 12_001), np.linspace(low, 1, 401)[1:], np.linspace(1, 6, 4001)[1:]])
    mu = np.sqrt(iteration_variance(n, np.abs(z), epsilon, delta))
    left = epsilon_mean + epsilon - (np.abs(z - 1) - np.abs(z - low)) / scale
    if hidden_start:
        # The product is +-(A + noise), so the likelihood ratio is exp(-mu^2/2) cosh(mu w).
        w = np.arccosh(np.maximum(1.0, np.exp(left + mu**2 / 2))) / mu
        excess = stats.norm.sf(w - mu) + stats.norm.sf(w + mu) - 2 * np.exp(left) * stats.norm.sf(w)
    else:
        excess = stats.norm.sf(left / mu - mu / 2) - np.exp(left + stats.norm.logsf(left / mu + mu / 2))
    density = np.exp(-np.abs(z - low) / scale) / (2 * scale)
    return float(integrate.trapezoid(density * np.maximum(excess, 0.0), z))


def algorithm_6() -> list[str]:
    rows = []
    for epsilon, delta in ((1.0, 1e-3), (1.0, 1e-6), (0.1, 1e-6)):
        for n in (20, 100, 1000):
            seen, hidden = (noisy_mean_delta(n, 2 / n, epsilon, delta, secret) / delta for secret in (False, True))
            constant = gaussian_delta(epsilon, math.sqrt(float(iteration_variance(n, np.zeros(1), epsilon, delta)[0])))
            valid = gaussian_delta(epsilon, epsilon / math.sqrt(4 * math.log(1 / delta)))
            rows.append((epsilon, delta, n, seen, hidden, constant / delta, valid / delta))
    return [figure("d = k = 1, epsilon' = 2/n: exact delta at epsilon + epsilon' over the stated one",
                   "epsilon; delta; n; all products; outputs, L = 1; mean taken as 0; true bound", rows)]


def pure_iteration_epsilon(d: int, n: int, k: int) -> float:
    """Return the epsilon that is proved of algorithm 7, over the stated one, whatever the noisy mean and L are."""
    moved = math.sqrt(d * k * min(k, 2)) * covariance_sensitivity(d, n)
    return moved / (10 * math.sqrt(d) * k * published_rho(d, n, 0.0))


def iterate(values: Array, sigma: float, k: int, L: int, rng: np.random.Generator) -> tuple[list[Array], list[Array]]:
    """Return the subspaces X^(0..L) and the noise G^(1..L) of algorithm 6 for a diagonal covariance."""
    subspaces, noise = [np.linalg.qr(rng.standard_normal((len(values), k)))[0]], []
    for _ in range(L):
        noise.append(rng.normal(0.0, sigma, (len(values), k)))
        subspaces.append(np.linalg.qr(values[:, None] * subspaces[-1] + noise[-1])[0])
    return subspaces, noise


def eigenvalue_estimates(first: float, rest: float, d: int, sigma: float, L: int) -> tuple[float, float]:
    """Return medians over 20 runs of the thesis's |w_1| and of the Rayleigh quotient x_1 . w_1."""
    values = np.full(d, rest)
    values[0] = first
    norms, quotients = [], []
    for seed in range(20):
        subspaces, noise = iterate(values, sigma, 1, L, np.random.default_rng([212, seed]))
        image = values * subspaces[-2][:, 0] + noise[-1][:, 0]
        norms.append(float(np.linalg.norm(image)))
        quotients.append(float(subspaces[-2][:, 0] @ image))
    return float(np.median(norms)), float(np.median(quotients))


def theorem_2_12() -> list[str]:
    growth, L = [], 10
    for d in (25, 100, 400, 1600):
        sigma = 1 / math.sqrt(d)
        # lambda_1 = sigma sqrt(d) / 2 and gamma_1 = d.
        error = abs(eigenvalue_estimates(0.5, 0.5 / (1 + d), d, sigma, L)[0] - 0.5)
        published = math.log(L) / (d * 0.5) ** 2 + sigma * math.sqrt(math.log(L))
        growth.append((d, error, published, error / published))
    kinds = ((strength, rest, *(x / strength for x in eigenvalue_estimates(strength, rest * strength, 400, 1 / 20, 40)))
             for strength in (0.25, 0.5, 1.0, 2.0, 4.0) for rest in (0.0, 0.5))
    # sigma sqrt(d) of algorithm 10, which the eigenvalue estimate |w_s| is where noise dominates.
    sets = ((name, n, d, noise := published_rho(d, n, 0.5 * math.sqrt(d)) * math.sqrt(80 * math.log(2e3)) * 3
             * math.sqrt(d), 3 * math.sqrt(noise)) for name, (n, d) in SIZES.items())
    return [figure("lambda_1 = sigma sqrt(d) / 2, gamma_1 = d, k = 1, L = 10: error of |w_1|, and theorem 2.12's bound "
                   "without its constant", "d; error; bound; quotient", growth),
            figure("d = 400, L = 40: estimates over lambda_1; 1 is right",
                   "lambda_1 / (sigma sqrt(d)); others / lambda_1; |w_1|; x_1 . w_1", kinds),
            figure("Algorithm 10 at (1, 1e-3), k = 2, L = 10, means of size 0.5: noise alone; the trace is at most d",
                   "data; n; d; |w_s|; semi-axis, kappa = 3", sets)]


# The improved mechanisms


@dataclass(frozen=True)
class Scales:
    """Noise scales of algorithm 9 and its iteration: of the basis means, of the mean, and of the products."""

    means: float
    mean: float
    products: Callable[[float], float]


def transcript_loss(table: Array, other: Array, index: NDArray[np.int64], scales: Scales, means: Array, mean: Array,
                    start: Array, products: Sequence[Array], matrix: Callable[[Array], Array]) -> float:
    """Return the log of the ratio of the densities, from a table (n, d) and from another, of everything noisy.

    That is the basis means (R,) of the functions `index` (R, d), the mean (d,), and the products (d, k) in their order;
    each subspace is made from the one before, the first is the public `start`. `matrix` makes the matrix that is
    iterated.
    """
    log = [0.0, 0.0]
    for side, rows in enumerate((table, other)):
        features = np.array([np.cos(index * np.arccos(row)).prod(axis=1) for row in rows])
        log[side] -= float(np.abs(means - features.mean(axis=0)).sum()) / scales.means
        log[side] -= float(np.abs(mean - rows.mean(axis=0)).sum()) / scales.mean
        X, A, scale = start, matrix(rows), scales.products(float(np.linalg.norm(mean)))
        for W in products:
            log[side] -= float(np.abs(W - A @ X).sum()) / scale
            q, r = np.linalg.qr(W)
            X = q * np.sign(np.diagonal(r))
    return log[0] - log[1]


def worst_pair_9(n: int, d: int, L: int, corner: float = 1.0) -> tuple[Array, Array, Array, Array, list[Array]]:
    """Return tables, and a transcript for one axis, that use up all steps of algorithm 9 at once.

    n - 1 rows at one corner, the last at the opposite one or at the same; the noisy mean is 0, where the published rho
    is least, and the noisy products point along the diagonal, far away.
    """
    table = np.full((n, d), corner)
    table[-1] = -corner
    other = np.full((n, d), corner)
    diagonal = np.full((d, 1), 1 / math.sqrt(d))
    return table, other, np.zeros(d), diagonal, [1e3 * diagonal] * L


def loss_9(n: int, d: int, L: int, epsilon: float, corner: float = 1.0) -> float:
    """Return the privacy loss of :func:`worst_pair_9` at the printed scales, with R = d + 1 and k = 1.

    `corner` = 1 - 1/N: for rows at corners of A.
    """
    table, other, mean, start, products = worst_pair_9(n, d, L, corner)
    index = ChebyshevBasis.graded(d, d + 1).index
    scales = Scales(3 * (d + 1) / (n * epsilon), 6 * d / (n * epsilon),
                    lambda norm: 10 * published_rho(d, n, norm) * math.sqrt(d) * L * 3 / epsilon)
    return transcript_loss(table, other, index, scales, np.full(d + 1, -9.0), mean, start, products, covariance)


def algorithm_9() -> list[str]:
    return [figure("R = d + 1, k = 1, L = 10, n = 500, epsilon = 1: attained in the cube, at the corners of A, proved",
                   "d; cube; N = 100; N = 2; proved",
                   ((d, *(loss_9(500, d, 10, 1.0, corner) for corner in (1.0, 0.99, 0.5)),
                     (2 * d / (d + 1) + 1 + pure_iteration_epsilon(d, 500, 1)) / 3) for d in (2, 5, 8, 30, 101))),
            figure("Proved for every table, d, n, R and L, over the stated epsilon", "k; epsilon",
                   ((k, (2 + 1 + 0.4 * math.sqrt(min(k, 2) / k)) / 3) for k in (1, 2, 5, 10)))]


def parts_10(n: int, d: int, R: int, k: int, epsilon: float, delta: float) -> tuple[list[tuple[float, int]], float]:
    """Return the largest ratios of algorithm 10's noise: Laplace (ratio, count), and mu of all Gaussian products."""
    laplace = [(2 * epsilon / (3 * math.sqrt(2 * R * math.log(1 / delta))), R - 1), (epsilon / (3 * d), d)]
    # The least sigma, at mean 0, against the largest movement; L cancels.
    mu = math.sqrt(min(k, 2)) * covariance_sensitivity(d, n) / (
        published_rho(d, n, 0.0) * math.sqrt(4 * k * math.log(2 / delta)) * 3 / epsilon)
    return laplace, mu


def algorithm_10() -> list[str]:
    rows = []
    for name, (n, d) in SIZES.items():
        R = 50 if name == "CSN" else 102
        for delta in (1e-3, 1e-6):
            losses = composed(*parts_10(n, d, R, 2, 1.0, delta), True)
            rows.append((name, R, delta, float(losses.get_delta_for_epsilon(1.0)) / delta,
                         float(losses.get_epsilon_for_delta(delta))))
    return [figure("epsilon = 1, k = 2: delta at 1, at most, over the stated; epsilon proved at the stated delta",
                   "data; R; delta; delta(1) / stated; epsilon", rows),
            figure("delta = 1e-3, d = 101, R = 102, opposite corners, means and mean alone: delta at least, over the "
                   "stated", "epsilon; delta(epsilon) / stated",
                   ((epsilon, exact_delta(epsilon, parts_10(1000, 101, 102, 1, epsilon, 1e-3)[0])[0] / 1e-3)
                    for epsilon in (20.0, 40.0, 45.0, 50.0)))]


ENTRIES: dict[str, Callable[[], list[str]]] = {entry.__name__: entry for entry in (
    proposition_1_12, algorithm_4, algorithm_5, algorithm_6, theorem_2_12, algorithm_9, algorithm_10)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures that are named, or all."""
    # They draw their figures with the table above, so they can be imported only now.
    from experiments import claims

    entries = ENTRIES | claims.ENTRIES
    parser = argparse.ArgumentParser(prog="python -m experiments.errata", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(entries))
    names = parser.parse_args(arguments).names
    unknown = [name for name in names if name not in entries]
    if unknown:
        parser.error(f"no entry named {', '.join(unknown)}; there are {', '.join(entries)}")
    for name in names or entries:
        print(f"== {name}")
        print(*entries[name](), sep="\n\n", end="\n\n")


if __name__ == "__main__":
    main()
