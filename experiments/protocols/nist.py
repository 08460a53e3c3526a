"""NIST's measures of a synthetic table, as `sdnist` has them: k-marginal score, propensities, rows that cannot be."""

import itertools
import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from experiments.cells import described
from experiments.protocols.coding import Codes, column_codes, total_variations
from trigmech.schema.schema import Column, Schema

# Numbers with a range of 20 or more are cut at twentieths of the truth's ranks, and population density at logarithmic
# steps from 10 to its largest + 500, of which those up to 200 are replaced by 150.
QUANTILES, FEW = 20, 20
DENSITIES = [0.0, 150.0, *np.logspace(1.0, np.log10(52_864.7 + 500.0), 21)[8:]]

DEPTH = 6  # of the tree that tells synthetic from real rows
ABOVE, HIGHEST = ("PINCP", "POVPIP"), 1e9  # numbers of which a missing one is above all; of others it is below

# Rows that cannot be.
RULES: dict[str, list[str]] = described("nist_rules")


def k_marginal(real: pd.DataFrame, made: pd.DataFrame, schema: Schema, within: str = "",
               apart: bool = True) -> float:
    """Return NIST's k-marginal score: 1000 less half the mean L1 distance of all pairs, each crossed with a column.

    As sdnist 2.4 has it, special values above the others ("501 percent and more") have a cell of their own. The scores
    that the cycle published are nearer to those with these among the others: `apart` = False.
    """
    columns = {column.name: column for column in schema.columns}
    pairs = [_bins(column, real[name], made[name], apart) for name, column in columns.items()]
    first, second = (np.column_stack([pair[k] for pair in pairs]) for k in (0, 1))
    size = [pair[2] for pair in pairs]
    group = [j for j, name in enumerate(columns) if name == within]
    others = [j for j in range(len(size)) if j not in group]
    sets = [(*group, *pair) for pair in itertools.combinations(others, 2)]
    return float(1000.0 * (1.0 - total_variations(first, second, size, sets).mean()))


def _bins(column: Column, real: pd.Series, made: pd.Series, apart: bool) -> tuple[Codes, Codes, int]:
    if column.categories is not None:
        (first, size), (second, _) = (column_codes(column, values, 0) for values in (real, made))
        return first, second, size
    both = [values.to_numpy(float) for values in (real, made)]
    if column.name == "DENSITY":
        edges = np.array(DENSITIES[1:-1])
    elif column.kind == "continuous" or column.upper - column.lower >= FEW:
        both = both if column.kind == "continuous" else [np.trunc(values) for values in both]
        apart = apart and any(value > column.upper for value in column.special)
        ranked = pd.Series(both[0])[~(both[0] > column.upper) | (not apart)].dropna()
        bins = np.minimum(np.floor(QUANTILES * ranked.rank(pct=True)), QUANTILES - 1.0)
        edges = ranked.groupby(bins).max().to_numpy()
        edges = edges if apart else edges[:-1]
    else:
        edges = np.arange(column.lower - 1.0, column.upper)  # integers as they are
    first, second = (np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values)) for values in both)
    return first.astype(np.int64), second.astype(np.int64), len(edges) + 2


def propensity(real: pd.DataFrame, made: pd.DataFrame, schema: Schema) -> float:
    """Return NIST's pMSE: the mean square of the chances of being synthetic minus the share of synthetic rows.

    The chances are those of a decision tree of depth 6 on the rows that it was fitted to (sdnist 2.4, and the published
    scores; not a logistic regression, which sees less), where all columns are numbers. Ties between splits are broken
    by a fixed seed here, by chance there.
    """
    features = np.concatenate([_numbers(schema, table) for table in (real, made)])
    label = np.repeat([0, 1], [len(real), len(made)])
    tree = DecisionTreeClassifier(max_depth=DEPTH, random_state=0).fit(features, label)
    return float(np.square(tree.predict_proba(features)[:, 1] - label.mean()).mean())


def _numbers(schema: Schema, table: pd.DataFrame) -> NDArray[np.float64]:
    """Return a table (n, d) of numbers alone: categories by their codes, or their places if these are no numbers."""
    columns = []
    # In sdnist's order, on which ties depend.
    for column in sorted(schema.columns, key=lambda column: column.name):
        values = table[column.name]
        if column.categories is None:
            codes = values.to_numpy(float)
            codes = np.searchsorted(DENSITIES[1:-1], codes) if column.name == "DENSITY" else codes
            below = min(column.lower, *column.special, np.inf) - 1.0
            columns.append(np.where(np.isnan(codes), HIGHEST if column.name in ABOVE else below, codes))
        else:
            known = pd.to_numeric(pd.Series(column.categories, dtype=object), errors="coerce").to_numpy(float)
            known = np.arange(len(known)) if np.isnan(known).all() else np.nan_to_num(known, nan=-1.0)
            places = column_codes(column, values, 0)[0]
            columns.append(np.append(known, -1.0)[places])
    return np.column_stack(columns)


def inconsistencies(made: pd.DataFrame) -> pd.DataFrame:
    """Return which rows break which of NIST's rules, a column for each rule that applies to the table's columns."""
    numbers = made.apply(pd.to_numeric, errors="coerce").astype(float)
    found = {}
    for name, ways in RULES.items():
        applying = [way for way in ways if set(re.findall(r"[A-Z][A-Z_]+", way)) <= set(made)]
        if applying:
            found[name] = np.any([numbers.eval(way, engine="python") for way in applying], axis=0)
    return pd.DataFrame(found, index=made.index)
