"""The exponential mechanism and the net mechanism (Huang 2014, algorithms 2 and 3), and section 2.3's comparison.

A net is all databases of m rows on a grid of N points; the score of one is minus the worst error of its answers, which
moves by at most the queries' largest sensitivity when a row of the table is replaced.
"""

import itertools
import math
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize

import trigmech as tm
from experiments import Array, baselines
from experiments.asked import Asked
from experiments.companions.selection import exponential, exponents
from experiments.declare import Experiment, calls_of
from experiments.frames import across, markdown, sections, with_errors, worded
from trigmech.errors import InputError

LARGEST_NET = 500_000
# Nets of one column; the second was chosen before.
NETS = ((9, 8), (13, 8), (17, 7))
WIDTHS, QUERIES, EPSILON, SEED = (0.5, 2.0), 64, 1.0, 2014
SIZES_OF_2_3 = ((1, 4), (2, 4), (8, 4), (8, 100))
Queries = Callable[[Array], Array]


def databases(points: int, rows: int, limit: int = LARGEST_NET) -> Array:
    """Return all multisets of `rows` of `points` points, as shares (databases, points); InputError above `limit`."""
    if points < 1 or rows < 1:
        raise InputError(f"a net needs points and rows, not {points} and {rows}")
    if (size := math.comb(points + rows - 1, rows)) > limit:
        fits = max((m for m in range(rows) if math.comb(points + m - 1, m) <= limit), default=0)
        raise InputError(f"a net of {rows} rows on {points} points has {size} databases; the limit is {limit}, so that "
                         f"at most {fits} rows fit")
    chosen = np.array(list(itertools.combinations_with_replacement(range(points), rows)))
    return np.asarray((chosen[:, :, None] == np.arange(points)).mean(axis=1))


def worst_errors(net: Array, answers: Array, truth: Array) -> Array:
    """Return each database's worst error; `answers` (queries, points) are the points' own."""
    return np.concatenate([np.abs(part @ answers.T - truth).max(axis=1)
                           for part in np.array_split(net, max(1, len(net) // 20_000))])


def exact_loss(points: int, n: int, rows: int, answers: Array, epsilon: float, sensitivity: float) -> float:
    """Return the largest |log ratio| of the output's laws over all neighbouring tables of n rows on the points."""
    net, tables = databases(points, rows), databases(points, n)
    at = [exponents(-worst_errors(net, answers, answers @ table), sensitivity, epsilon) for table in tables]
    laws = [each - np.logaddexp.reduce(each) for each in at]
    near = np.abs(tables[:, None, :] - tables[None, :, :]).sum(axis=2) < 2.0 / n + 1e-9
    return float(max(np.abs(laws[a] - laws[b]).max() for a, b in zip(*np.nonzero(near), strict=True)))


def theorem_bound(n: int, count: int, universe: int, epsilon: float, beta: float = 0.05) -> float:
    """Return 2 alpha of proposition 1.20: the error that is exceeded with probability at most beta."""
    found: Any = optimize.brentq(lambda alpha: math.log(universe) * math.log(count) / alpha**2
                                 - n * alpha * epsilon / 2.0 - math.log(beta), 1e-6, 1e3)
    return 2.0 * float(found)


def exponents_of_n(d: int, K: int) -> dict[str, float]:
    """Return minus the exponents of n epsilon in the errors: logarithms left out."""
    return {"printed net": K / (d + 3 * K), "smallest net": K / (K + d), "algorithm 4": K / (2 * d + K),
            "algorithm 5": 2 * K / (3 * d + 2 * K), "lower bound": min(1.0, K / d)}


def product(axes: Sequence[Array]) -> Array:
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def grid(points: int, d: int = 1) -> Array:
    """Return the middles of `points` equal cells of each column (points^d, d)."""
    return product([(2.0 * np.arange(points) + 1.0 - points) / points] * d)


def kernels(width: float, d: int = 1) -> Queries:
    """Return 64 Gaussian kernels with equally spaced centres, as a function to (queries, rows)."""
    centres = product([np.linspace(-1.0, 1.0, round(QUERIES ** (1.0 / d)))] * d)
    return lambda x: np.exp(-((centres[:, None, :] - x[None, :, :]) ** 2).sum(axis=2) / (2.0 * width**2))


def _methods(X: Array, epsilon: float, rng: np.random.Generator) -> dict[str, tuple[Array, Array]]:
    """Return points and weights of each method that does not know the queries."""
    d, budget, found = X.shape[1], tm.Budget(epsilon), {}
    # 64 bins of two columns each are too many points.
    for name, made in (("uniform", baselines.uniform(X, budget, rng)),
                       *((f"{b} bins", baselines.histograms(X, budget, rng, bins=b)) for b in (16, 64)[: 3 - d])):
        if isinstance(made.distribution, baselines.Product):
            nodes, weights = made.distribution.nodes, made.distribution.weights
            found[name] = product([*nodes]), reduce(np.multiply.outer, weights).ravel()
    for name, mechanism in {"TrigI, published": tm.TrigI(smoothness=4, calibration="published"),
                            "TrigI, rigorous": tm.TrigI(smoothness=4), "MomentMechanism": tm.MomentMechanism()}.items():
        cloud = tm.synthesize(X, tm.Schema.cube(d), budget, mechanism, rng).distribution
        found[name] = cloud.points, cloud.weights
    return found


@lru_cache
def nets_of(d: int) -> list[tuple[str, Array, Array]]:
    """Return the nets of so many columns: name, points, and all databases on them."""
    return [(f"({N}, {m})", grid(N), databases(N, m)) for N, m in NETS] if d == 1 else [
        ("(16, 6)", grid(4, 2), databases(16, 6))]


def errors_of(n: int, d: int, seed: int) -> dict[str, dict[str, float]]:
    """Return for each width the errors of all methods on rows 2 Beta(2, 5) - 1."""
    warnings.simplefilter("ignore", tm.FitWarning)
    rng = np.random.default_rng([SEED, n, d, seed])
    X = 2.0 * rng.beta(2.0, 5.0, (n, d)) - 1.0
    made, found = _methods(X, EPSILON, rng), dict[str, dict[str, float]]()
    for width in WIDTHS:
        queries, errors = kernels(width, d), found.setdefault(f"{width:g}", {})
        truth = np.mean([queries(part).mean(axis=1) for part in np.array_split(X, max(1, n // 10_000))], axis=0)
        for name, points, shares in nets_of(d):
            scores = worst_errors(shares, queries(points), truth)
            errors[f"net {name}"] = float(scores[exponential(-scores, 1.0 / n, EPSILON, rng)])
            errors[f"best database of {name}"] = float(scores.min())
        for name, (points, weights) in made.items():
            errors[name] = float(np.abs(queries(points) @ weights - truth).max())
    return found


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    tables = dict[str, list[str]]()
    for (d, width), own in lines.groupby(["d", "sigma"], sort=False):
        wide = own.pivot_table("error", "method", "n", sort=False)
        best = wide[wide.index.str.startswith("net")].min()
        wide.loc["best net, in hindsight"] = best
        if d == 1:
            wide.loc["bound 2α of proposition 1.20, β = 0.05"] = [
                theorem_bound(n, QUERIES, NETS[1][0], EPSILON) for n in wide]
        tables[f"d = {d}, σ = {width}"] = across(["method"], wide, {n: f"n = {n}" for n in wide}, "{:.3g}".format)
    losses = tuple(exact_loss(3, 4, 2, np.array([[low, 0.0, 1.0], [1.0, low, 0.5]]), 1.0, 1.0 / 4)
                   for low in (0.0, -1.0))
    exponents = markdown(("d, K", *exponents_of_n(1, 1)), [
        (f"{d}, {K}", *(f"{x:.3f}" for x in exponents_of_n(d, K).values())) for d, K in SIZES_OF_2_3])
    return worded("net", simulated=worded("simulated"), epsilon=EPSILON, tables=sections(tables)[:-1], losses=losses,
                  exponents=exponents)


of_net = Experiment(
    name="net", what="companions: the exponential and the net mechanism (a minute; no data)", seeds=(2, 10),
    size=(5, 7), page=page, formats={"error": ".6g", "standard_error": ".6g"},
    cells=lambda asked: calls_of(errors_of, asked, n_d=[*((10**k, 1) for k in range(2, asked.size)), (10**4, 2)]),
    lines=lambda head, result: [{**head, "sigma": width, "method": name, "value": error}
                                for width, errors in result.items() for name, error in errors.items()],
    table=lambda lines: with_errors(lines, ["n", "d", "sigma", "method"], "error"))
