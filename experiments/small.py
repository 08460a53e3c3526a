"""Small tables: how good the default is for some hundred rows, beside simpler things and the same rows as they are."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import trigmech as tm
from experiments.asked import Asked
from experiments.declare import Experiment, calls_of, with_budgets
from experiments.frames import across, means, of_budgets, sections, worded
from experiments.protocols.coding import total_variations
from experiments.protocols.data import Sample as Sample
from experiments.protocols.data import resampled, shuffled
from experiments.protocols.scores import ks_distance
from trigmech.planning.shares import Shares

DELTA, CUTS = 1e-5, 6
DEFAULT, MOMENTS, INDEPENDENT, BOOTSTRAP = "default", "MomentMechanism", "independent", "bootstrap"
# Independent columns are the release's own: all of the budget goes to the look.
RELEASED = "columns alone"
METHODS: dict[str, Callable[[], Any]] = {
    DEFAULT: lambda: None, MOMENTS: tm.MomentMechanism,
    RELEASED: lambda: tm.TableMechanism(shares=Shares(0.97, 0.02, 0.0, 0, 0.0))}
NOT_PRIVATE = (INDEPENDENT, BOOTSTRAP)
MEASURES = {"columns": "total variation of columns", "pairs": "total variation of pairs",
            "distance": "Kolmogorov's distance of numbers", "ranks": "error of rank correlations",
            "spread": "standard deviations over the real ones"}
SAMPLES = (Sample("sklearn wine"), Sample("sklearn diabetes"), Sample("wdbc"), Sample("adult", 300),
           Sample("adult", 1000), Sample("nist_demographic", 1000), Sample("aim_titanic"), Sample("synmeter_insurance"),
           Sample("synmeter_obesity"), Sample("synmeter_wine"))
WITHOUT_DATA = SAMPLES[:2]


def errors_of(source: str, rows: int, method: str, epsilon: float, seed: int) -> dict[str, float]:
    table, schema = Sample(source, rows).load(seed)
    rng = np.random.default_rng([seed, 1])
    if method == INDEPENDENT:
        made = shuffled(table, rng)
    elif method == BOOTSTRAP:
        made = resampled(table, rng)
    else:
        made = tm.synthesize(table, schema, tm.Budget(epsilon, DELTA), METHODS[method](),
                             np.random.default_rng(seed)).sample(len(table), rng=rng)
    return scores(schema, table, made)


def scores(schema: tm.Schema, real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return the measures: numbers are cut at quantiles of the real ones."""
    a, b = _codes(schema, real, real), _codes(schema, real, made)
    size = [int(max(a.max(), b.max())) + 1] * a.shape[1]
    found = {name: float(total_variations(a, b, size, itertools.combinations(range(len(size)), k)).mean())
             for k, name in ((1, "columns"), (2, "pairs"))}
    numbers = [column.name for column in schema.columns if column.categories is None]
    both = [table[numbers].apply(pd.to_numeric, errors="coerce").astype(float) for table in (real, made)]
    if numbers:
        found["distance"] = float(np.mean([ks_distance(*(table[name].dropna().to_numpy() for table in both))
                                           for name in numbers]))
        spreads = [table.std().clip(lower=1e-9) for table in both]
        found["spread"] = float(np.exp(np.log(spreads[1] / spreads[0]).mean()))
    if len(numbers) > 1:
        ranks = [table.rank().corr().to_numpy() for table in both]
        found["ranks"] = float(np.nanmean(np.abs(ranks[0] - ranks[1])[np.triu_indices(len(numbers), 1)]))
    return found


def few(schema: tm.Schema, real: pd.DataFrame, made: pd.DataFrame, test: pd.DataFrame | None,
        within: str = "") -> dict[str, float]:
    return {name: value for name, value in scores(schema, real, made).items() if name != "spread"}


def _codes(schema: tm.Schema, real: pd.DataFrame, table: pd.DataFrame) -> NDArray[np.int64]:
    found = []
    for column in schema.columns:
        if column.categories is not None:
            kinds = [str(category) for category in column.categories]
            found.append(pd.Categorical(table[column.name].astype(str), categories=kinds).codes.astype(np.int64) + 1)
            continue
        truth, values = (pd.to_numeric(each[column.name], errors="coerce").to_numpy(float) for each in (real, table))
        cuts = np.unique(np.nanquantile(truth, np.linspace(0.0, 1.0, CUTS + 1)[1:-1]))
        found.append(np.where(np.isnan(values), 0, 1 + np.searchsorted(cuts, values, side="right")))
    return np.column_stack(found)


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    tables = {}
    for measure, said in MEASURES.items():
        wide = lines[lines["measure"] == measure].pivot_table("mean", "table", ["epsilon", "method"], sort=False)
        heads = of_budgets(wide.columns.unique(0), METHODS) | {(0.0, method): method for method in NOT_PRIVATE}
        tables[f"{said[0].upper()}{said[1:]}"] = across(["table"], wide, heads, "{:.3f}".format)
    return worded("small", seeds=asked.seeds, delta=DELTA, cuts=CUTS, tables=sections(tables))


small = Experiment(
    name="small", what="small tables by the default and by simpler things (ten minutes; a part needs no data)",
    inputs=SAMPLES, quick=WITHOUT_DATA, seeds=(2, 10), epsilons=((0.5, 1.0, 3.0),) * 2, page=page,
    cells=lambda asked: calls_of(errors_of, asked, table=asked.inputs,
                                 method_epsilon=with_budgets(NOT_PRIVATE, METHODS, asked)),
    table=lambda lines: means(lines, ["table", "method", "epsilon", "measure"], mean="mean", sem="sem"),
    formats={"mean": ".4g", "sem": ".2g"})
