"""Measures of the field's protocols: how far a synthetic table is from the real one, a number for each name.

All compare two tables of the same schema. Cells of numbers are equal parts of the public bounds; only NIST's score cuts
at quantiles of the truth, as its rules want.
"""

import itertools

import numpy as np
import ot
import pandas as pd
from scipy.stats import wasserstein_distance
from sklearn.base import BaseEstimator
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import f1_score, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from experiments import Array
from experiments.protocols import nist as cycle
from experiments.protocols.coding import codes, column_codes, total_variations
from trigmech.schema.schema import Column, Schema
from trigmech.workload import GaussianKernels, PairKernels, SecondMoments, Workload

TRIPLES, QUERIES, RANGES, SEED = 100, 500, 1000, 2014
# Rows of either table between which optimal transport is found, and entries of its costs for all pairs of columns
# together: 16 pairs of 3000 rows, each of which takes a second.
ROWS, FEW_ROWS, COSTS = 3_000, 500, 16 * 3_000**2
SHARE = 0.01  # of rows that a category needs for its means to be compared
WIDTHS = (0.25, 0.5, 1.0)
SIGMAS, KERNELS = (2.0, 4.0, 6.0, 8.0, 10.0), 2_000
BOOSTING_CATEGORIES = 255  # a column with more is given as its codes


def nist(schema: Schema, real: pd.DataFrame, made: pd.DataFrame, test: pd.DataFrame | None,
         within: str = "") -> dict[str, float]:
    """Return the measures of NIST's protocol; of these four functions `k_marginal`, `auc`, `f1` and `r2` are no errors.

    `real` was given to the synthesizer, `test` are real rows that it has not seen; all pairs are crossed with the
    column `within`, if there is one.
    """
    found = {"k_marginal": cycle.k_marginal(real, made, schema, within), "pmse": cycle.propensity(real, made, schema)}
    if len((broken := cycle.inconsistencies(made)).columns):
        found["inconsistent"] = float(broken.any(axis=1).mean())
    return {**found, **marginal_errors(schema, real, made), **number_errors(schema, real, made)}


def aim(schema: Schema, real: pd.DataFrame, made: pd.DataFrame, test: pd.DataFrame | None,
        within: str = "") -> dict[str, float]:
    """Return the measures of AIM's protocol: L1 distances are twice the total variations."""
    found = marginal_errors(schema, real, made, None)
    return {"all_3way_l1": 2.0 * found["tv3_mean"], **found}


def synmeter(schema: Schema, real: pd.DataFrame, made: pd.DataFrame, test: pd.DataFrame | None,
             within: str = "") -> dict[str, float]:
    """Return the measures of SynMeter's protocol, all against the test rows."""
    assert test is not None
    return {**range_errors(schema, test, made), **column_distances(schema, test, made),
            "pairs_w1": pair_distance(schema, test, made),
            **usefulness(schema, made, test), **number_errors(schema, test, made)}


def adult(schema: Schema, real: pd.DataFrame, made: pd.DataFrame, test: pd.DataFrame | None,
          within: str = "") -> dict[str, float]:
    """Return the scores of the usual uses of a table such as Adult; a last column with two categories is predicted."""
    found = {**marginal_errors(schema, real, made), **number_errors(schema, real, made),
             **conditional_means(schema, real, made), "detector": detector_auc(schema, real, made)}
    if test is not None and len(schema.columns[-1].categories or ()) == 2:
        found |= prediction(schema, made, test)
    return found | frequencies(schema, real, made)


def smooth(schema: Schema, real: pd.DataFrame, made: pd.DataFrame, test: pd.DataFrame | None,
           within: str = "") -> dict[str, float]:
    """Return worst errors of kernels of 10 centres (W1), of pairs of columns (W2) and of second moments (W3)."""
    columns = list(schema.columns)
    both = [_cube(columns, table[list(schema.names)].astype(float)) for table in (real, made)]
    d, found = schema.d, dict[str, float]()
    families: dict[str, tuple[Workload, tuple[float, ...]]] = {
        "w1": (GaussianKernels(d, seed=SEED, n_queries=KERNELS, widths=SIGMAS), SIGMAS),
        "w2": (PairKernels(d, seed=SEED, n_queries=1_000, widths=WIDTHS), WIDTHS),
        "w3": (SecondMoments(d), ())}
    for which, (family, widths) in families.items():
        worst = np.abs(family.answers(both[0]) - family.answers(both[1])).max(axis=0).tolist()
        found |= zip([f"{which}_{width:g}" for width in widths] or [which], worst, strict=True)
    return found


def marginal_errors(schema: Schema, real: pd.DataFrame, made: pd.DataFrame,
                    triples: int | None = TRIPLES) -> dict[str, float]:
    """Return mean and worst total variation of all 1- and 2-way tables, and of all or so many random 3-way ones."""
    (first, size), (second, _) = codes(schema, real), codes(schema, made)
    found: dict[str, float] = {}
    for k in (1, 2, 3):
        sets = list(itertools.combinations(range(len(size)), k))
        if k == 3 and triples is not None and triples < len(sets):
            chosen = np.random.default_rng(SEED).choice(len(sets), triples, replace=False)
            sets = [sets[i] for i in chosen]
        distances = total_variations(first, second, size, sets)
        found |= {f"tv{k}_mean": float(distances.mean()), f"tv{k}_worst": float(distances.max())}
    return found


def numbers_of(schema: Schema) -> list[Column]:
    """Return the columns of numbers; binary ones are not among them."""
    return [column for column in schema.columns if column.kind in ("continuous", "integer")]


def number_errors(schema: Schema, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return the worst KS distance of a column of numbers, and errors of correlations and kernels of their pairs."""
    numbers = numbers_of(schema)
    if not numbers:
        return {}
    names = [column.name for column in numbers]
    both = [table[names].astype(float) for table in (real, made)]
    found = {"ks_worst": max(ks_distance(*(table[name].dropna().to_numpy() for table in both)) for name in names)}
    if len(names) == 1:
        return found
    for method in ("pearson", "spearman"):
        # A constant column has no correlation: 0.
        first, second = (table.corr(method).fillna(0.0).to_numpy() for table in both)
        errors = np.abs(first - second)[np.triu_indices(len(names), 1)]
        found |= {f"{method}_mean": float(errors.mean()), f"{method}_worst": float(errors.max())}
    kernels = PairKernels(len(names), seed=SEED, n_queries=QUERIES, widths=WIDTHS)
    first, second = (kernels.answers(_cube(numbers, table)) for table in both)
    worst = np.abs(first - second).max(axis=0)
    return found | {f"kernel_{width:g}": float(error) for width, error in zip(WIDTHS, worst, strict=True)}


def _cube(numbers: list[Column], table: pd.DataFrame) -> Array:
    """Return numbers in the cube of their public bounds; a missing one lies at its centre, as in the package."""
    lower, upper = (np.array([getattr(column, bound) for column in numbers]) for bound in ("lower", "upper"))
    points = 2.0 * (table.to_numpy(float) - lower) / (upper - lower) - 1.0
    return np.ascontiguousarray(np.clip(np.nan_to_num(points), -1.0, 1.0))


def ks_distance(first: Array, second: Array) -> float:
    """Return Kolmogorov's distance of two columns of numbers; 1 if one of them has no value."""
    if not (len(first) and len(second)):
        return float(len(first) != len(second))
    places = np.union1d(first, second)
    below = [np.searchsorted(np.sort(values), places, side="right") / len(values) for values in (first, second)]
    return float(np.abs(below[0] - below[1]).max())


def column_distances(schema: Schema, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return means of Wasserstein-1 of numbers scaled to [0, 1], of total variation of categories, and of both."""
    (first, size), (second, _) = codes(schema, real), codes(schema, made)
    words = [(j,) for j, column in enumerate(schema.columns) if column.categories is not None]
    apart = total_variations(first, second, size, words).tolist()
    numbers = [wasserstein_distance(*(table[column.name].to_numpy(float) for table in (real, made)))
               / (column.upper - column.lower) for column in schema.columns if column.categories is None]
    found = {"w1_numbers": numbers, "tv_categories": apart, "w1_mean": numbers + apart}
    return {what: float(np.mean(each)) for what, each in found.items() if each}


def pair_distance(schema: Schema, real: pd.DataFrame, made: pd.DataFrame, rows: int = ROWS,
                  costs: int = COSTS) -> float:
    """Return the mean over pairs of columns of the optimal transport between so many rows of each table.

    A pair of entries is as far from another as its numbers, scaled to [0, 1], differ, and 1 for each other category.
    If all pairs have more than so many `costs`, the mean is that of all pairs between fewer rows, and the difference
    that the other rows make for some pairs, drawn by a fixed seed: the same ones for all tables.
    """
    rng = np.random.default_rng(SEED)
    size = min(rows, len(real), len(made))
    tables = [table.iloc[rng.permutation(len(table))[:size]] for table in (real, made)]
    pairs = list(itertools.combinations(schema.columns, 2))

    def distances(count: int, chosen: list[tuple[Column, Column]]) -> Array:
        return np.array([ot.emd2([], [], sum(_costs(column, *(table.iloc[:count] for table in tables))
                                             for column in pair), numItermax=10**8) for pair in chosen])

    if len(pairs) * size**2 <= costs:
        return float(distances(size, pairs).mean())
    few = distances(FEW_ROWS, pairs)
    drawn = np.random.default_rng(SEED).permutation(len(pairs))[:max(1, costs // size**2)]
    return float(few.mean() + (distances(size, [pairs[i] for i in drawn]) - few[drawn]).mean())


def _costs(column: Column, real: pd.DataFrame, made: pd.DataFrame) -> Array:
    if column.categories is not None:
        first, second = (column_codes(column, table[column.name], 0)[0] for table in (real, made))
        return np.asarray(first[:, None] != second, float)
    values = [table[column.name].to_numpy(float) / (column.upper - column.lower) for table in (real, made)]
    return np.abs(values[0][:, None] - values[1])


def range_errors(schema: Schema, real: pd.DataFrame, made: pd.DataFrame,
                 queries: int = RANGES) -> dict[str, float]:
    """Return mean absolute errors of random range queries of 1, 2 and 3 columns, the same queries always.

    As SynMeter's program draws them: one category; an interval from a uniform place in the bounds to a uniform place
    above it.
    """
    rng = np.random.default_rng(SEED)
    tables = [{column.name: table[column.name].to_numpy(object if column.categories else float)
               for column in schema.columns} for table in (real, made)]
    found = {}
    for k in (1, 2, 3):
        errors = []
        for _ in range(queries):
            inside = [np.ones(len(table), bool) for table in (real, made)]
            for j in rng.choice(schema.d, k, replace=False):
                column = schema.columns[j]
                if column.categories is not None:
                    wanted = column.categories[rng.integers(len(column.categories))]
                    hits = [table[column.name] == wanted for table in tables]
                else:
                    low = rng.uniform(column.lower, column.upper)
                    high = rng.uniform(low, column.upper)
                    hits = [(table[column.name] >= low) & (table[column.name] <= high) for table in tables]
                inside = [rows & hit for rows, hit in zip(inside, hits, strict=True)]
            errors.append(abs(inside[0].mean() - inside[1].mean()))
        found[f"range{k}_mean"] = float(np.mean(errors))
    return found


def features(schema: Schema, table: pd.DataFrame) -> tuple[Array, list[int]]:
    """Return the features for models, numbers as they are and categories as codes, and the places of columns with few
    categories."""
    columns = [table[column.name].to_numpy(float) if column.categories is None
               else column_codes(column, table[column.name], 0)[0] for column in schema.columns]
    few = [j for j, column in enumerate(schema.columns) if 0 < len(column.categories or ()) <= BOOSTING_CATEGORIES]
    return np.column_stack(columns).astype(np.float64), few


def prediction(schema: Schema, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Return AUC, macro F1 and accuracy on real rows of boosting trained on a table, for a last column of two."""
    (X, categories), (Z, _) = features(schema, train), features(schema, test)
    chance = _chances(X[:, :-1], X[:, -1], Z[:, :-1], categories[:-1])
    truth, guess = Z[:, -1], (chance > 0.5).astype(float)
    return {"auc": float(roc_auc_score(truth, chance)), "f1_boosting": float(f1_score(truth, guess, average="macro")),
            "accuracy": float((truth == guess).mean())}


def detector_auc(schema: Schema, real: pd.DataFrame, made: pd.DataFrame) -> float:
    """Return the AUC of boosting that distinguishes synthetic from real rows, on the halves that it has not seen."""
    (X, categories), (Z, _) = features(schema, real), features(schema, made)
    rows, label = np.vstack([X, Z]), np.repeat([0.0, 1.0], [len(X), len(Z)])
    order = np.random.default_rng(SEED).permutation(len(rows))
    train, test = order[: len(rows) // 2], order[len(rows) // 2:]
    return float(roc_auc_score(label[test], _chances(rows[train], label[train], rows[test], categories)))


def _chances(X: Array, y: Array, Z: Array, categories: list[int]) -> Array:
    """Return the probability that boosting gives to the larger label of each row of Z; 1/2 if it has seen only one."""
    if len(np.unique(y)) < 2:
        return np.full(len(Z), 0.5)
    model = HistGradientBoostingClassifier(categorical_features=categories, random_state=0).fit(X, y)
    return np.asarray(model.predict_proba(Z)[:, 1])


def usefulness(schema: Schema, train: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Return macro F1 or R2 on real rows of models trained on a table, for its last column."""
    (X, categories), (Z, _) = features(schema, train), features(schema, test)
    y, truth, inputs = X[:, -1], Z[:, -1], [j for j in categories if j < X.shape[1] - 1]
    classes = schema.columns[-1].categories is not None
    boosting, forest, linear = (
        (HistGradientBoostingClassifier, RandomForestClassifier, LogisticRegression(max_iter=1000)) if classes else
        (HistGradientBoostingRegressor, RandomForestRegressor, Ridge()))
    found = {}
    for name, model in (("boosting", boosting(categorical_features=inputs, random_state=0)),
                        ("forest", forest(random_state=0)), ("linear", _linear(inputs, linear))):
        known = len(np.unique(y)) > 1
        guess = model.fit(X[:, :-1], y).predict(Z[:, :-1]) if known else np.full(len(Z), y[0])
        found["f1_" + name if classes else "r2_" + name] = float(
            f1_score(truth, guess, average="macro") if classes else r2_score(truth, guess))
    return found


def _linear(categories: list[int], model: BaseEstimator) -> BaseEstimator:
    """Return a linear model of standardised numbers and indicators of categories."""
    of_categories = OneHotEncoder(handle_unknown="ignore")
    return make_pipeline(make_column_transformer((of_categories, categories), remainder=StandardScaler()), model)


def conditional_means(schema: Schema, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return mean and worst error of the means of numbers, in parts of their range, among the rows of each category.

    Categories that at least one row in a hundred has; one that is lost counts as an error of half the range.
    """
    errors = list[float]()
    for by in [each for each in schema.columns if each.categories is not None]:
        shares = real[by.name].value_counts(normalize=True)
        for column in numbers_of(schema):
            first, second = (table.groupby(by.name, observed=True)[column.name].mean().reindex(
                shares.index[shares >= SHARE]) for table in (real, made))
            errors += ((first - second).abs() / (column.upper - column.lower)).where(second.notna(), 0.5).tolist()
    return {"conditional_mean": float(np.mean(errors)), "conditional_worst": float(np.max(errors))} if errors else {}


def frequencies(schema: Schema, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return the total variation of the frequencies of each column of categories."""
    return {f"frequencies of {column.name}": 0.5 * float(real[column.name].value_counts(normalize=True).sub(
                made[column.name].value_counts(normalize=True), fill_value=0.0).abs().sum())
            for column in schema.columns if column.categories is not None}
