"""NON-PRIVATE. How well a distribution answers a workload: for tests, reports and experiments, never for release."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution
from trigmech.domain import Domain, OneHotGroup
from trigmech.measurement.rows import Progress
from trigmech.workload import Workload

# Rows of a chunk of a table: few enough to show progress.
ROWS_AT_A_TIME = 2**14


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Exact answers on both sides. Private, because the table's answers are.

    Parameters
    ----------
    truth, answers : ndarray (queries, widths)
        The answers of the table, and those of the distribution.
    """

    truth: NDArray[np.float64]
    answers: NDArray[np.float64]

    @property
    def errors(self) -> NDArray[np.float64]:
        """The absolute errors (queries, widths)."""
        return np.abs(self.answers - self.truth)

    @property
    def worst_absolute(self) -> NDArray[np.float64]:
        """The worst absolute error for each width."""
        return self.errors.max(axis=0)


def evaluate(workload: Workload, table: NDArray[np.float64], distribution: Distribution) -> Evaluation:
    """Answer a workload from a table and from a distribution.

    Parameters
    ----------
    workload : Workload
    table : ndarray (n, d), private
        Points of the cube.
    distribution : Distribution
    """
    return Evaluation(workload.answers(table), workload.answers(distribution.points, distribution.weights))


def total_variation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return half the sum of differences of two arrays of frequencies: 0 if equal, 1 if nothing is common."""
    return 0.5 * float(np.abs(first - second).sum())


def total_variations(domain: Domain, table: NDArray[np.float64], distribution: Distribution,
                     ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return how far the categories of a distribution are from a table's, in total variation; private.

    One for the frequencies of each group (g,), where a row without any of its indicators counts as a category; and one
    for the two-way table of any two groups (g, g).
    """
    true = [_categories(table, group) for group in domain.groups]
    made = [_categories(distribution.points, group) for group in domain.groups]
    weighted = [categories * distribution.weights[:, None] for categories in made]
    single = [total_variation(a.mean(axis=0), b.sum(axis=0)) for a, b in zip(true, weighted, strict=True)]
    pairs = [[total_variation(a.T @ c / len(table), b.T @ d) for c, d in zip(true, made, strict=True)]
             for a, b in zip(true, weighted, strict=True)]
    return np.array(single), np.array(pairs).reshape(len(true), len(true))


def distribution_difference(true: NDArray[np.float64], made: NDArray[np.float64],
                            weights: NDArray[np.float64]) -> float:
    """Return the largest difference between the distribution functions of two samples (Kolmogorov and Smirnov's).

    Private; not a number if a sample is empty. The weights may have any sum.
    """
    if not (len(true) and weights.sum() > 0.0):
        return math.nan
    return _Steps.of(made, weights / weights.sum()).add(true).difference()


@dataclass(frozen=True, eq=False)
class Comparison:
    """The errors of a distribution, compared with a table; private.

    For each family an evaluation; for each number (numbers,) the largest difference between the distribution functions;
    for each group (g,) the total variation between the frequencies, see :func:`total_variations`.
    """

    evaluations: list[Evaluation]
    differences: NDArray[np.float64]
    variations: NDArray[np.float64]


def compare(chunks: Iterable[NDArray[np.float64]], n: int, domain: Domain, distribution: Distribution,
            rounded: Distribution, families: Sequence[Workload], say: Progress) -> Comparison:
    """Compare a distribution with a table, points (k, d) of the cube, in one pass over its rows.

    ``distribution`` answers the queries; ``rounded`` is the same as a table would hold it, with numbers rounded.

    Privacy: NONE. Cost: that of the queries on n rows and on the distribution's points; memory does not grow with n.
    """
    numbers = list(domain.numbers)
    made = []
    for done, family in enumerate(families):
        say("asking the release", done, len(families))
        made.append(family.answers(distribution.points[:, numbers], distribution.weights))
    truth = [np.zeros_like(answers) for answers in made]
    steps = [_Steps.of(rounded.points[:, j], rounded.weights) for j in numbers]
    counts = [np.zeros(len(group.coordinates) + (not group.complete)) for group in domain.groups]
    done = 0
    for rows in chunks:
        for answers, family in zip(truth, families, strict=True):
            answers += family.answers(rows[:, numbers]) * (len(rows) / n)
        for step, j in zip(steps, numbers, strict=True):
            step.add(rows[:, j])
        for count, group in zip(counts, domain.groups, strict=True):
            count += _categories(rows, group).sum(axis=0)
        done += len(rows)
        say("asking the table", done, n)
    shares = [rounded.weights @ _categories(rounded.points, group) for group in domain.groups]
    return Comparison([Evaluation(*both) for both in zip(truth, made, strict=True)],
                      np.array([step.difference() for step in steps]),
                      np.array([total_variation(a / n, b) for a, b in zip(counts, shares, strict=True)]))


@dataclass(frozen=True, eq=False)
class _Steps:
    """One coordinate's distribution function, a step at each of its values, and the table's rows there; private."""

    values: NDArray[np.float64]
    reached: NDArray[np.float64]
    below: NDArray[np.int64]
    up_to: NDArray[np.int64]

    @classmethod
    def of(cls, made: NDArray[np.float64], weights: NDArray[np.float64]) -> "_Steps":
        values, place = np.unique(made, return_inverse=True)
        return cls(values, np.cumsum(np.bincount(place, weights)), *np.zeros((2, len(values) + 1), dtype=np.int64))

    def add(self, true: NDArray[np.float64]) -> "_Steps":
        """Count rows by the first value that is above them, and by the first that is not below them."""
        for counts, side in ((self.below, "right"), (self.up_to, "left")):
            counts += np.bincount(np.searchsorted(self.values, true, side=side), minlength=len(counts))  # type: ignore[call-overload]
        return self

    def difference(self) -> float:
        """Between two steps the table's function only grows, so it differs most at one of the ends."""
        below, up_to = (np.cumsum(counts[:-1]) / counts.sum() for counts in (self.below, self.up_to))
        return float(max(np.abs(up_to - self.reached).max(), np.abs(below - np.append(0.0, self.reached[:-1])).max()))


def _categories(points: NDArray[np.float64], group: OneHotGroup) -> NDArray[np.float64]:
    indicators = points[:, list(group.coordinates)]
    return indicators if group.complete else np.column_stack([indicators, 1.0 - indicators.sum(axis=1)])
