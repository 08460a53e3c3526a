"""NON-PRIVATE. Detectors: classifiers that learn to tell synthetic rows from true ones, and how well they do."""

import numpy as np

from trigmech._arrays import Array
from trigmech._optional import need
from trigmech.evaluation.sides import Coding, Side
from trigmech.functions.ranks import ranks

# More rows make a detector better by little, and take longer.
ROWS = 10_000
# A column with more categories is given as their numbers.
MOST_CATEGORIES = 255
FOLDS, SEED = 3, 0


def auc(truth: Array, scores: Array) -> float:
    """Return the area under the ROC curve: the chance that a row with truth 1 has a higher score than one with 0.

    Equal scores count half. Both values must occur among the truths (n,).
    """
    ones = truth == 1.0
    count, others = int(ones.sum()), int((~ones).sum())
    return float((ranks(scores)[ones].sum() - count * (count + 1) / 2.0) / (count * others))


def detector_aucs(coding: Coding, true: Side, made: Side, rng: np.random.Generator) -> tuple[float, float, int]:
    """Return the AUC of detectors by boosting and by logistic regression, and how many rows of each table they had.

    0.5: no row can be told; 1: every row. Boosting, of trees on histograms, is a classifier two-sample test (Lopez-Paz
    and Oquab 2017) and sees any dependence: it learns from one half of the rows and is tested on the other. The
    logistic one sees means alone; SDMetrics's LogisticDetection is 2 - 2 max(AUC, 0.5) of its mean over three folds. As
    many rows of either table are drawn, at most 10,000. Private.

    References
    ----------
    Lopez-Paz and Oquab (2017), "Revisiting classifier two-sample tests", ICLR. DataCebo, "SDMetrics", Detection.
    """
    need("report", "a detector")
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    count = min(len(true.values), len(made.values), ROWS)
    sides = [side.rows(rng.permutation(len(side.values))[:count]) for side in (true, made)]
    label = np.repeat([0.0, 1.0], count)
    named = [j for j, column in enumerate(coding.columns)
             if 0 < len(column.categories or ()) <= MOST_CATEGORIES and column.kind == "categorical"]
    plain = np.concatenate([side.values for side in sides])
    inputs = _standardised(coding, sides)
    train, test = next(iter(StratifiedKFold(2, shuffle=True, random_state=SEED).split(plain, label)))
    # Trees cannot cut a column without any value.
    plain[:, np.isnan(plain[train]).all(axis=0)] = 0.0
    boosting = HistGradientBoostingClassifier(categorical_features=named or None, random_state=SEED).fit(
        plain[train], label[train])
    boosted = auc(label[test], boosting.predict_proba(plain[test])[:, 1])
    linear = []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(plain, label):
        logistic = LogisticRegression(max_iter=500).fit(inputs[train], label[train])
        linear.append(auc(label[test], logistic.predict_proba(inputs[test])[:, 1]))
    return boosted, float(np.mean(linear)), count


def _standardised(coding: Coding, sides: list[Side]) -> Array:
    """Return numbers in standard deviations, and an indicator for each category and for missing values."""
    columns = []
    for j, column in enumerate(coding.columns):
        cells = np.concatenate([side.cells[:, j] for side in sides])
        if column.categories is None:
            columns.append(np.clip(np.nan_to_num(np.concatenate([side.outcomes[:, j] for side in sides])), -10.0, 10.0))
        present = np.unique(cells).tolist() if column.categories is not None else [int(coding.sizes[j]) - 1]
        columns += [(cells == cell).astype(np.float64) for cell in present[:MOST_CATEGORIES]]
    return np.column_stack(columns)
