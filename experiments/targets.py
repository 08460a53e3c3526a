"""A target column: how well models that learn from a release predict it for real rows, with and without being asked."""

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked, LeftOut
from experiments.declare import Experiment, calls_of, with_budgets
from experiments.frames import across, means, of_budgets, worded
from experiments.protocols.data import Sample, find
from experiments.protocols.scores import prediction, usefulness

DELTA = 1e-5
DEFAULT, TARGET, MOMENTS, REAL = "default", "with its target", "MomentMechanism", "real"
METHODS = (DEFAULT, TARGET, MOMENTS)
# Rows that are drawn of larger sets, or all; real rows that no release has seen are predicted.
SAMPLES = (Sample("synmeter_insurance"), Sample("synmeter_obesity"), Sample("synmeter_wine"), Sample("adult", 1_000),
           Sample("adult", 5_000), Sample("adult"))


def scores_of(source: str, rows: int, method: str, epsilon: float, seed: int) -> dict[str, float]:
    test = find(source).test
    if test is None:
        raise LeftOut(f"{source} has no test rows")
    table, schema = Sample(source, rows).load(seed)
    made = table
    if method != REAL:
        target = schema.names[-1] if method == TARGET else None
        mechanism = tm.MomentMechanism() if method == MOMENTS else tm.TableMechanism(target=target)
        release = tm.synthesize(table, schema, tm.Budget(epsilon, DELTA), mechanism, np.random.default_rng(seed))
        made = release.sample(len(table), rng=np.random.default_rng([seed, 1]))
    return scores(schema, made, test())


def scores(schema: tm.Schema, made: pd.DataFrame, test: pd.DataFrame) -> dict[str, float]:
    """Return the AUC of boosting for a last column of two labels, else boosting's and a linear model's F1 or R2."""
    if len(schema.columns[-1].categories or ()) == 2:
        return {"AUC of boosting": prediction(schema, made, test)["auc"]}
    words = {"f1": "F1", "r2": "R²"}
    return {f"{words[name[:2]]} of {'boosting' if name.endswith('boosting') else 'a linear model'}": value
            for name, value in usefulness(schema, made, test).items() if not name.endswith("forest")}


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    errors = pd.to_numeric(lines["sem"], errors="coerce")
    text = lines["mean"].map("{:.3f}".format) + errors.map(" ± {:.3f}".format, na_action="ignore").fillna("")
    lines = lines.assign(text=text.where(lines["method"] != REAL, lines["mean"].map("{:.3f}".format)))
    wide = lines.pivot_table("text", ["table", "measure"], ["epsilon", "method"], "first", sort=False)
    heads = of_budgets(wide.columns.unique(0), METHODS) | {(0.0, REAL): REAL}
    return worded("targets", seeds=asked.seeds, delta=DELTA, target=TARGET, real=REAL,
                  table=across(["table", "measure"], wide, heads))


targets = Experiment(
    name="targets", what="models that predict a column, with and without naming it (half an hour; needs data)",
    inputs=SAMPLES, quick=SAMPLES[:1], seeds=(2, 10), epsilons=((1.0, 3.0, 10.0),) * 2, page=page,
    cells=lambda asked: calls_of(scores_of, asked, table=asked.inputs,
                                 method_epsilon=with_budgets((REAL,), METHODS, asked)),
    table=lambda lines: means(lines, ["table", "measure", "method", "epsilon"], mean="mean", sem="sem"),
    formats={"mean": ".4g", "sem": ".2g"})
