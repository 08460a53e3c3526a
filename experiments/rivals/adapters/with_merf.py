# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy==2.3.5", "pandas==2.3.3", "scipy==1.16.3"]
#
# [tool.trigmech]
# methods = ["DP-MERF"]
# ///
"""DP-MERF (Harder, Adamczewski, Park 2021) by its formula: a noisy mean of random features, and rows that have it.

The features of a row are random Fourier features of its numbers, beside indicators of its categories, both in the block
of its label (the last column, if it is of categories); their norm is at most 1, so a replaced row moves the mean by
2 / n. The noise is the analytic Gaussian. Points move by gradients to where their own mean is the noisy one; the
authors train a network to draw such points. The kernel's width is 0.2 sqrt(numbers) in the unit cube, not tuned.
"""

from itertools import pairwise

import interface
import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.stats import norm

FEATURES, POINTS, STEPS, RATE = 500, 1000, 400, 0.05


def sigma_of(epsilon: float, delta: float) -> float:
    """Return the noise for sensitivity 1 (Balle and Wang 2018)."""
    def excess(log_sigma: float) -> float:
        a = 1.0 / (2.0 * np.exp(log_sigma))
        b = epsilon * np.exp(log_sigma)
        return float(norm.cdf(a - b) - np.exp(epsilon + norm.logcdf(-a - b)) - delta)

    return float(np.exp(brentq(excess, -10.0, 20.0)))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return the probabilities of rows of logits."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


if __name__ == "__main__":
    task = interface.read()
    rng = np.random.default_rng(task.seed)
    task.cells = 1 << 20  # so many that numbers keep their values
    codes, sizes = interface.coded(task)
    numbers = [column["name"] for column in task.columns if column["kind"] != "category"]
    groups = [column["name"] for column in task.columns if column["kind"] == "category"]
    label = task.columns[-1]["name"] if task.columns[-1]["kind"] == "category" else None
    groups = [name for name in groups if name != label]
    n, labels = len(codes), sizes[label] if label else 1
    # Special and missing values of numbers are places above the others.
    width = np.array([sizes[name] for name in numbers])
    X = (codes[numbers].to_numpy() + 0.5) / width if numbers else np.zeros((n, 0))
    C = np.zeros((n, sum(sizes[name] for name in groups)))
    starts = np.cumsum([0, *(sizes[name] for name in groups)])
    for start, name in zip(starts, groups, strict=False):
        C[np.arange(n), start + codes[name].to_numpy()] = 1.0
    y = codes[label].to_numpy() if label else np.zeros(n, int)
    W = rng.standard_normal((len(numbers), FEATURES)) / (0.2 * max(len(numbers), 1) ** 0.5)
    # Halves of the squared norm for numbers and categories, all of it if there is only one kind.
    parts = bool(numbers) + bool(groups)
    of_numbers, of_groups = (parts * FEATURES) ** -0.5, (parts * max(len(groups), 1)) ** -0.5

    def features(X: np.ndarray, C: np.ndarray) -> np.ndarray:
        angles = X @ W
        return np.hstack([of_numbers * np.cos(angles), of_numbers * np.sin(angles), of_groups * C])

    phi = features(X, C)
    mean = np.stack([phi[y == k].sum(axis=0) / n for k in range(labels)])
    # The label's own share goes with the first: its indicator, beside features of norm at most 1.
    mean = np.hstack([mean, np.bincount(y, minlength=labels)[:, None] / n]) / 2.0**0.5
    mean += 2.0 / n * sigma_of(task.epsilon, task.delta) * rng.standard_normal(mean.shape)
    shares = np.maximum(mean[:, -1], 0.0)
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(labels, 1.0 / labels)
    made = rng.choice(labels, POINTS, p=shares)
    target = mean[:, :-1] * 2.0**0.5
    Z, L = rng.normal(0.0, 1.5, (POINTS, len(numbers))), 0.1 * rng.standard_normal((POINTS, C.shape[1]))
    moments = [np.zeros_like(each) for each in (Z, L, Z, L)]
    for step in range(1, STEPS + 1):
        U = 1.0 / (1.0 + np.exp(-Z))
        P = np.hstack([softmax(L[:, a:b]) for a, b in pairwise(starts)]) if groups else L
        phi = features(U, P)
        # The gradient of the squared distance of the means, by each point's own features.
        pull = (np.stack([phi[made == k].sum(axis=0) / POINTS for k in range(labels)]) - target)[made]
        angles = U @ W
        into = of_numbers * (pull[:, FEATURES:2 * FEATURES] * np.cos(angles) - pull[:, :FEATURES] * np.sin(angles))
        slope_z = into @ W.T * U * (1.0 - U)
        slope_p = of_groups * pull[:, 2 * FEATURES:]
        slope_l = np.zeros_like(L)
        for a, b in pairwise(starts):
            slope_l[:, a:b] = P[:, a:b] * (slope_p[:, a:b] - (P[:, a:b] * slope_p[:, a:b]).sum(axis=1, keepdims=True))
        for k, (place, slope) in enumerate(((Z, slope_z), (L, slope_l))):  # Adam
            moments[k] = 0.9 * moments[k] + 0.1 * slope
            moments[k + 2] = 0.999 * moments[k + 2] + 0.001 * slope**2
            place -= RATE * (moments[k] / (1 - 0.9**step)) / (np.sqrt(moments[k + 2] / (1 - 0.999**step)) + 1e-12)
    drawn = rng.integers(POINTS, size=task.rows)
    table = {name: np.minimum(np.floor(column * sizes[name]), sizes[name] - 1).astype(int)[drawn]
             for name, column in zip(numbers, (1.0 / (1.0 + np.exp(-Z))).T, strict=True)}
    for a, b, name in zip(starts, starts[1:], groups, strict=False):
        chances = softmax(L[:, a:b]).cumsum(axis=1)[drawn]
        table[name] = np.minimum((rng.random((task.rows, 1)) > chances).sum(axis=1), b - a - 1)
    if label:
        table[label] = made[drawn]
    interface.write(task, interface.decoded(task, pd.DataFrame(table)), "numpy", "replace")
