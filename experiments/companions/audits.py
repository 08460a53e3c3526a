"""Printed privacy claims by experiment: as printed and corrected, told apart on two tables by `experiments.audit`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from experiments.audit import Bound, lower_bound
from experiments.companions import jtree, marginal_models, selection, tutorial
from experiments.companions.discrete import Array, Codes

Statistic = Callable[[int, np.random.Generator], float]
# Rows and columns of the tables of the filters: few rows, so that a threshold is passed about every second time.
ROWS, COLUMNS = 50, 16


@dataclass(frozen=True)
class Claim:
    """A claim of privacy, and a number that a run shows of the first (0) or second (1) of two neighbouring tables.

    The larger it is, the more it speaks for the second.
    """

    name: str
    claimed: float
    published: Statistic
    corrected: Statistic

    def bound(self, which: str, count: int, seed: int) -> Bound:
        """Return the lower bound of epsilon from `count` runs of each table; `which` is "published" or "corrected"."""
        shown: Statistic = getattr(self, which)
        found = []
        for side in (0, 1):
            rng = np.random.default_rng([seed, side, *self.name.encode(), *which.encode()])
            found.append((np.array([shown(side, rng) for _ in range(count)]), rng.random(count)))
        return lower_bound(found[1], found[0], 0.0)


def halves(side: int) -> Codes:
    """Return rows of zeros and one whose first half (0) or second half (1) is ones."""
    table = np.zeros((ROWS, COLUMNS), dtype=np.int64)
    table[-1, side * COLUMNS // 2: (side + 1) * COLUMNS // 2] = 1
    return table


def _scores(tables: tuple[Codes, Codes], score: str) -> tuple[Array, Array]:
    first, second = (marginal_models.pair_scores(each, (2,) * COLUMNS, score) for each in tables)
    return first, second


def privhd(claimed: float = 0.5) -> Claim:
    """The filter of PrivHD at half of `claimed`, against edges drawn at all of it."""
    ones = np.zeros((ROWS, COLUMNS), dtype=np.int64)
    ones[-1] = 1
    filtered, drawn = _scores((0 * ones, ones), "I"), _scores((halves(0), halves(1)), "R")
    least = jtree.thresholds((2,) * COLUMNS, 0.2)
    scale = marginal_models.information_sensitivity(ROWS, True) / (claimed / 2.0)
    moved, count = marginal_models.dependence_sensitivity(ROWS), 5
    at = [scores * (claimed / count / (2.0 * moved)) for scores in drawn]

    def corrected(side: int, rng: np.random.Generator) -> float:
        ratio, left = 0.0, [each.copy() for each in at]
        for i in selection.several(drawn[side], moved, claimed, count, rng):
            ratio += float(left[1][i] - np.logaddexp.reduce(left[1]) - left[0][i] + np.logaddexp.reduce(left[0]))
            left[0][i] = left[1][i] = -np.inf
        return ratio

    return Claim("PrivHD's filter", claimed,
                 lambda side, rng: float(jtree.passed(filtered[side], least, scale, rng, False).sum()), corrected)


def jtree_filter(claimed: float = 0.5) -> Claim:
    """The filter of JTree without sampling, against noise that pays for all pairs."""
    scores, least = _scores((halves(0), halves(1)), "I"), jtree.thresholds((2,) * COLUMNS, 0.2)
    scale = marginal_models.information_sensitivity(ROWS, True) / claimed
    sign = np.sign(scores[1] - scores[0])

    def kept(factor: float, shared: bool) -> Statistic:
        return lambda side, rng: float(sign @ jtree.passed(scores[side], least, factor * scale, rng, shared))

    return Claim("JTree's filter", claimed, kept(2.0, True), kept(len(sign), False))


def noisy_max(claimed: float = 1.0) -> Claim:
    """Report noisy max of two counts, of which a replaced row moves one down and one up: whether the lower one wins."""
    counts = (np.array([3.0, 0.0]), np.array([2.0, 1.0]))

    def wins(monotone: bool) -> Statistic:
        return lambda side, rng: selection.noisy_max(counts[side], 1.0, claimed,
                                                     lambda value, scale: value + rng.laplace(0.0, scale), monotone)

    return Claim("Report noisy max, replace-one", claimed, wins(True), wins(False))


def sample_and_aggregate(claimed: float = 1.0, k: int = 20) -> Claim:
    """The mean of k groups' clipped means, by position and by a keyed hash, of rows and of all but the first."""
    ages = np.tile([0.0, 0.0, 200.0, 200.0], k // 2)
    places, hashed = np.arange(len(ages)) // 2, tutorial.keyed_groups(len(ages), k)
    whole = tutorial.chunk_answers(ages, hashed, k).mean()
    without = [tutorial.chunk_answers(np.delete(ages, r), np.delete(hashed, r), k).mean() for r in range(len(ages))]
    # By position the first row goes, by the hash the one that raises the mean most.
    means = {True: [tutorial.chunk_answers(ages[cut:], places[: len(ages) - cut], k).mean() for cut in (0, 1)],
             False: [whole, max(without)]}

    def noisy(by_position: bool) -> Statistic:
        return lambda side, rng: float(means[by_position][side] + rng.laplace(0.0, 60.0 / (k * claimed)))

    return Claim("Sample and aggregate, one row removed", claimed, noisy(True), noisy(False))


def propose_test_release(claimed: float = 1.0) -> Claim:
    """A test one step short of its threshold or at it, and a mean that moves by b: both spend, so half of each."""
    def run(each: float) -> Statistic:
        def statistic(side: int, rng: np.random.Generator) -> float:
            passes = side - 1.0 + rng.laplace(0.0, 1.0 / each) >= 0
            return side + rng.laplace(0.0, 1.0 / each) if passes else -1e9
        return statistic
    return Claim("Propose-test-release", claimed, run(claimed), run(claimed / 2.0))


CLAIMS = (privhd, jtree_filter, noisy_max, sample_and_aggregate, propose_test_release)
