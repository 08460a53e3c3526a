"""The exponential mechanism and the net mechanism (Huang 2014, algorithms 2 and 3), and section 2.3's comparison.

A net is all databases of m rows on a grid of N points; the score of one is minus the worst error of its answers, which
moves by at most the queries' largest sensitivity when a row of the table is replaced.
"""

import math
from collections.abc import Callable
from functools import reduce
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import track

import trigmech as tm
from experiments import baselines
from experiments.companions import pages
from experiments.companions.discrete import Array
from experiments.companions.selection import exponential, exponents
from trigmech.errors import InputError

LARGEST_NET = 500_000
NETS = ((9, 8), (13, 8), (17, 7))
CHOSEN = (13, 8)
WIDTHS, QUERIES, SMOOTHNESS, RUNS, SEED = (0.5, 2.0), 64, 4, 10, 2014
Queries = Callable[[Array], Array]


def databases(points: int, rows: int, limit: int = LARGEST_NET) -> Array:
    """Return all multisets of `rows` of `points` points, as shares (databases, points).

    Raises
    ------
    InputError
        If there are more than `limit`, or a number is not positive.
    """
    if points < 1 or rows < 1:
        raise InputError(f"a net needs points and rows, not {points} and {rows}")
    size = math.comb(points + rows - 1, rows)
    if size > limit:
        fits = max((m for m in range(rows) if math.comb(points + m - 1, m) <= limit), default=0)
        raise InputError(f"a net of {rows} rows on {points} points has {size} databases; the limit is {limit}, so that "
                         f"at most {fits} rows fit")
    chosen = np.fromiter((i for each in combinations_with_replacement(range(points), rows) for i in each),
                         dtype=np.int64, count=size * rows).reshape(size, rows)
    cells = chosen + points * np.arange(size)[:, None]
    return np.bincount(cells.ravel(), minlength=size * points).reshape(size, points) / rows


def worst_errors(net: Array, answers: Array, truth: Array) -> Array:
    """Return each database's worst error; `answers` (queries, points) are the points' own."""
    return np.concatenate([np.abs(part @ answers.T - truth).max(axis=1)
                           for part in np.array_split(net, max(1, len(net) // 20_000))])


def net_mechanism(table: Array, points: Array, net: Array, queries: Queries, epsilon: float, rng: np.random.Generator,
                  sensitivity: float) -> Array:
    """Return the weights on the points of a database drawn by the exponential mechanism; a simulation.

    `sensitivity` is of one query's answer: (high - low) / n for means of functions with values from low to high.
    """
    errors = worst_errors(net, queries(points), queries(table).mean(axis=1))
    return np.asarray(net[exponential(-errors, sensitivity, epsilon, rng)])


def exact_loss(points: int, n: int, rows: int, answers: Array, epsilon: float, sensitivity: float) -> float:
    """Return the largest |log ratio| of the output's laws over all neighbouring tables of n rows on the points."""
    net, tables = databases(points, rows), databases(points, n)
    laws = []
    for table in tables:
        at = exponents(-worst_errors(net, answers, answers @ table), sensitivity, epsilon)
        laws.append(at - np.logaddexp.reduce(at))
    near = np.abs(tables[:, None, :] - tables[None, :, :]).sum(axis=2) < 2.0 / n + 1e-9
    return float(max(np.abs(laws[a] - laws[b]).max() for a, b in zip(*np.nonzero(near), strict=True)))


def theorem_bound(n: int, count: int, universe: int, epsilon: float, beta: float = 0.05) -> float:
    """Return 2 alpha of proposition 1.20: the error that is exceeded with probability at most beta."""
    from scipy import optimize

    found: Any = optimize.brentq(lambda alpha: math.log(universe) * math.log(count) / alpha**2
                                 - n * alpha * epsilon / 2.0 - math.log(beta), 1e-6, 1e3)
    return 2.0 * float(found)


def exponents_of_n(d: int, K: int) -> dict[str, float]:
    """Return minus the exponents of n epsilon in the errors: logarithms left out."""
    return {"printed net": K / (d + 3 * K), "smallest net": K / (K + d), "algorithm 4": K / (2 * d + K),
            "algorithm 5": 2 * K / (3 * d + 2 * K), "lower bound": min(1.0, K / d)}


def grid(points: int, d: int = 1) -> Array:
    """Return the middles of `points` equal cells of each column (points^d, d)."""
    axis = (2.0 * np.arange(points) + 1.0 - points) / points
    return np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)


def kernels(width: float, d: int = 1) -> Queries:
    """Return 64 Gaussian kernels with equally spaced centres, as a function to (queries, rows)."""
    axis = np.linspace(-1.0, 1.0, round(QUERIES ** (1.0 / d)))
    centres = np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)
    return lambda x: np.exp(-((centres[:, None, :] - x[None, :, :]) ** 2).sum(axis=2) / (2.0 * width**2))


def rows_of(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return n rows of 2 Beta(2, 5) - 1."""
    return 2.0 * rng.beta(2.0, 5.0, (n, d)) - 1.0


def _methods(X: Array, epsilon: float, rng: np.random.Generator) -> dict[str, tuple[Array, Array]]:
    """Return points and weights of each method that does not know the queries."""
    d = X.shape[1]
    budget, schema, found = tm.Budget(epsilon), tm.Schema.cube(d), {}
    # 64 bins of two columns each are too many points.
    for name, made in (("uniform", baselines.uniform(X, budget, rng)),
                       *((f"{b} bins", baselines.histograms(X, budget, rng, bins=b)) for b in (16, 64)[: 3 - d])):
        if isinstance(made.distribution, baselines.Product):
            nodes, weights = made.distribution.nodes, made.distribution.weights
            found[name] = (np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, d),
                           reduce(np.multiply.outer, weights).ravel())
    mechanisms = {"TrigI, published": tm.TrigI(smoothness=SMOOTHNESS, calibration="published"),
                  "TrigI, rigorous": tm.TrigI(smoothness=SMOOTHNESS), "MomentMechanism": tm.MomentMechanism()}
    for name, mechanism in mechanisms.items():
        cloud = tm.synthesize(X, schema, budget, mechanism, rng).distribution
        found[name] = (cloud.points, cloud.weights)
    return found


def net(jobs: int, quick: bool) -> list[Path]:
    """Write results/net.csv and .md; quick: n up to 10^4 and two runs."""
    import warnings

    warnings.simplefilter("ignore", tm.FitWarning)
    runs, epsilon = (2, 1.0) if quick else (RUNS, 1.0)
    sizes = [(10**k, 1) for k in range(2, 5 if quick else 7)] + [(10**4, 2)]
    nets = {(N, m): databases(N, m) for N, m in NETS}
    flat = databases(16, 6)
    errors: dict[tuple[int, int, float, str], list[float]] = {}
    for (n, d), r in track([(size, r) for size in sizes for r in range(runs)], "net"):
        rng = np.random.default_rng([SEED, n, d, r])
        X = rows_of(n, d, rng)
        made = _methods(X, epsilon, rng)
        for width in WIDTHS:
            queries = kernels(width, d)
            truth = np.mean([queries(part).mean(axis=1) for part in np.array_split(X, max(1, n // 10_000))], axis=0)
            here = {(16, 6): (grid(4, 2), flat)} if d == 2 else {key: (grid(key[0]), nets[key]) for key in NETS}
            for (N, m), (points, shares) in here.items():
                scores = worst_errors(shares, queries(points), truth)
                drawn = float(scores[exponential(-scores, 1.0 / n, epsilon, rng)])
                errors.setdefault((n, d, width, f"net ({N}, {m})"), []).append(drawn)
                errors.setdefault((n, d, width, f"best database of ({N}, {m})"), []).append(float(scores.min()))
            for name, (points, weights) in made.items():
                errors.setdefault((n, d, width, name), []).append(float(np.abs(queries(points) @ weights
                                                                               - truth).max()))
    rows: list[dict[str, Any]] = []
    for (n, d, width, name), values in errors.items():
        rows.append({"n": n, "d": d, "sigma": width, "method": name, "error": float(np.mean(values)),
                     "standard_error": float(np.std(values) / math.sqrt(len(values) - 1)), "runs": len(values)})
    return pages.publish("net", quick, rows, page(rows, epsilon))


def page(rows: list[dict[str, Any]], epsilon: float) -> list[str]:
    """Return the Markdown, from the lines of the CSV file."""
    at = {(row["n"], row["d"], row["sigma"], row["method"]): row["error"] for row in rows}
    out = ["# The net mechanism", "", pages.SIMULATED, "",
           f"ε = {epsilon:g}, δ = 0; mean worst error over 64 Gaussian kernels of width σ with fixed centres. The net "
           f"of N = {CHOSEN[0]} points and m = {CHOSEN[1]} rows was chosen before; the others, the best database of "
           "each, which looks at the table without privacy, and the best net in hindsight are for comparison. No "
           "asymptotic claim is supported by these sizes.", ""]
    for d in (1, 2):
        for width in WIDTHS:
            sizes = sorted({row["n"] for row in rows if row["d"] == d})
            names = list(dict.fromkeys(row["method"] for row in rows if (row["d"], row["sigma"]) == (d, width)))
            table: list[tuple[Any, ...]] = [(name, *(at[n, d, width, name] for n in sizes)) for name in names]
            hindsight = [min(at[n, d, width, name] for name in names if name.startswith("net")) for n in sizes]
            table.append(("best net, in hindsight", *hindsight))
            if d == 1:
                table.append(("bound 2α of proposition 1.20, β = 0.05",
                              *(theorem_bound(n, QUERIES, CHOSEN[0], epsilon) for n in sizes)))
            out += [f"## d = {d}, σ = {width:g}", "", *pages.grid(("method", *(f"n = {n}" for n in sizes)), table)]
    loss = {high: exact_loss(3, 4, 2, np.array([[high, 0.0, 1.0], [1.0, high, 0.5]]), 1.0, 1.0 / 4)
            for high in (0.0, -1.0)}
    return [*out, "![Errors against n](../../paper_figures/companions_net.png)", "", "## Privacy, exactly", "",
            "The largest privacy loss over all neighbouring tables of 4 rows on 3 points, at ε = 1 and the sensitivity "
            f"1/n: {loss[0.0]:.3f} for queries into [0, 1]; {loss[-1.0]:.3f} for queries into [−1, 1], whose "
            "sensitivity is 2/n.", "", "## Exponents of section 2.3", "",
            "Errors are (nε) to minus these, logarithms left out. The printed comparison is with Hoeffding's net, not "
            "with the smallest one, by which algorithm 3 is defined (docs/errata.md).", "",
            *pages.grid(("d, K", *exponents_of_n(1, 1)),
                        [(f"{d}, {K}", *(f"{x:.3f}" for x in exponents_of_n(d, K).values()))
                         for d, K in ((1, 4), (2, 4), (8, 4), (8, 100))])]
