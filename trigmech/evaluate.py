"""NON-PRIVATE. How well a distribution answers a workload: for tests, reports and experiments, never for release."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution
from trigmech.layout import Group, Layout
from trigmech.workload import Workload


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Exact answers on both sides. Private, because the table's answers are.

    Parameters
    ----------
    truth, answers : ndarray (queries, widths)
        The table's and the distribution's.
    """

    truth: NDArray[np.float64]
    answers: NDArray[np.float64]

    @property
    def worst_absolute(self) -> NDArray[np.float64]:
        """The worst absolute error for each width."""
        return np.abs(self.answers - self.truth).max(axis=0)

    @property
    def worst_relative(self) -> NDArray[np.float64]:
        """The worst error relative to the table's answer for each width; infinite where that is 0."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.abs(self.answers / self.truth - 1.0), nan=0.0, posinf=np.inf).max(axis=0)


def evaluate(workload: Workload, table: NDArray[np.float64], distribution: Distribution) -> Evaluation:
    """Answer a workload from a table and from a distribution.

    Parameters
    ----------
    workload : Workload
    table : ndarray (n, d), private
        Points of the cube.
    distribution : Distribution

    Returns
    -------
    Evaluation, private
    """
    return Evaluation(workload.answers(table), workload.answers(distribution.points, distribution.weights))


def total_variations(layout: Layout, table: NDArray[np.float64], distribution: Distribution,
                     ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how far the categories of a distribution are from a table's, in total variation; private.

    Parameters
    ----------
    layout : Layout
    table : ndarray (n, d), private
        Rows that keep to the layout.
    distribution : Distribution

    Returns
    -------
    ndarray (g,)
        Of the frequencies of each group; having none of a group's indicators counts as a category.
    ndarray (g, g)
        Of the tables of each two groups.
    """
    true = [_categories(table, group) for group in layout.groups]
    made = [_categories(distribution.points, group) for group in layout.groups]
    weighted = [categories * distribution.weights[:, None] for categories in made]
    single = [0.5 * np.abs(a.mean(axis=0) - b.sum(axis=0)).sum() for a, b in zip(true, weighted, strict=True)]
    pairs = [[0.5 * np.abs(a.T @ c / len(table) - b.T @ d).sum() for c, d in zip(true, made, strict=True)]
             for a, b in zip(true, weighted, strict=True)]
    return np.array(single), np.array(pairs).reshape(len(true), len(true))


def distribution_differences(table: NDArray[np.float64], distribution: Distribution) -> NDArray[np.float64]:
    """Return the largest difference (d,) between the distribution functions of each coordinate; private.

    Parameters
    ----------
    table : ndarray (n, d), private
    distribution : Distribution
    """
    found = []
    for true, made in zip(table.T, distribution.points.T, strict=True):
        order = np.argsort(made, kind="stable")
        true, made = np.sort(true), made[order]
        at = np.unique(np.concatenate([true, made]))
        cumulative = np.append(0.0, np.cumsum(distribution.weights[order]))
        found.append(np.abs(np.searchsorted(true, at, side="right") / len(true)
                            - cumulative[np.searchsorted(made, at, side="right")]).max())
    return np.array(found)


def _categories(points: NDArray[np.float64], group: Group) -> NDArray[np.float64]:
    indicators = points[:, list(group.coordinates)]
    return indicators if group.complete else np.column_stack([indicators, 1.0 - indicators.sum(axis=1)])
