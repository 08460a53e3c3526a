"""NON-PRIVATE. How well a distribution answers a workload: for tests, reports and experiments, never for release."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution
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
