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
LEAST = jtree.thresholds((2,) * COLUMNS, 0.2)
MOVED = marginal_models.information_sensitivity(ROWS, True)


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
        shown, found = getattr(self, which), []
        for side in (0, 1):
            rng = np.random.default_rng([seed, side, *self.name.encode(), *which.encode()])
            found.append((np.array([shown(side, rng) for _ in range(count)]), rng.random(count)))
        return lower_bound(found[1], found[0], 0.0)


def scores(score: str, *ones: slice) -> list[Array]:
    """Return the pairs' scores of tables of zeros whose last row has ones in some columns."""
    tables: list[Codes] = [np.zeros((ROWS, COLUMNS), dtype=np.int64) for _ in ones]
    for table, columns in zip(tables, ones, strict=True):
        table[-1, columns] = 1
    return [marginal_models.pair_scores(table, (2,) * COLUMNS, score) for table in tables]


HALVES = (slice(COLUMNS // 2), slice(COLUMNS // 2, None))


def privhd(claimed: float = 0.5, count: int = 5) -> Claim:
    """The filter of PrivHD at half of `claimed`, against `count` edges drawn at all of it."""
    filtered, drawn = scores("I", slice(0), slice(None)), scores("R", *HALVES)
    moved = marginal_models.dependence_sensitivity(ROWS)

    def corrected(side: int, rng: np.random.Generator) -> float:
        ratio, left = 0.0, [selection.exponents(each, moved, claimed / count) for each in drawn]
        for i in selection.several(drawn[side], moved, claimed, count, rng):
            ratio += float(left[1][i] - np.logaddexp.reduce(left[1]) - left[0][i] + np.logaddexp.reduce(left[0]))
            left[0][i] = left[1][i] = -np.inf
        return ratio

    return Claim("PrivHD's filter", claimed, lambda side, rng: float(len(jtree.passed(
        filtered[side], LEAST, 2.0 * MOVED / claimed, rng, False))), corrected)


def jtree_filter(claimed: float = 0.5) -> Claim:
    """The filter of JTree without sampling, against noise that pays for all pairs."""
    of = scores("I", *HALVES)
    sign = np.sign(of[1] - of[0])

    def kept(factor: float, shared: bool) -> Statistic:
        return lambda side, rng: float(sign[jtree.passed(of[side], LEAST, factor * MOVED / claimed, rng,
                                                                    shared)].sum())

    return Claim("JTree's filter", claimed, kept(2.0, True), kept(len(sign), False))


def noisy_max(claimed: float = 1.0) -> Claim:
    """Report noisy max of two counts, of which a replaced row moves one down and one up: whether the lower one wins."""
    def wins(monotone: bool) -> Statistic:
        return lambda side, rng: selection.noisy_max([3.0 - side, side], 1.0, claimed, rng.laplace, monotone)

    return Claim("Report noisy max, replace-one", claimed, wins(True), wins(False))


def sample_and_aggregate(claimed: float = 1.0, k: int = 20) -> Claim:
    """The mean of k groups' clipped means, by position and by a keyed hash, of rows and of all but one.

    By position the first row goes, by the hash the one that raises the mean most.
    """
    ages = np.tile([0.0, 0.0, 200.0, 200.0], k // 2)
    places, hashed = np.arange(len(ages)) // 2, tutorial.keyed_groups(len(ages), k)
    without = max(tutorial.chunk_answers(np.delete(ages, r), np.delete(hashed, r), k).mean() for r in range(len(ages)))
    by_place = [tutorial.chunk_answers(ages[cut:], places[: len(ages) - cut], k).mean() for cut in (0, 1)]
    by_hash = [tutorial.chunk_answers(ages, hashed, k).mean(), without]

    def noisy(means: list[float]) -> Statistic:
        return lambda side, rng: float(means[side] + rng.laplace(0.0, 60.0 / (k * claimed)))

    return Claim("Sample and aggregate, one row removed", claimed, noisy(by_place), noisy(by_hash))


def propose_test_release(claimed: float = 1.0) -> Claim:
    """A test one step short of its threshold or at it, and a mean that moves by b: both spend, so half of each."""
    def run(each: float) -> Statistic:
        return lambda side, rng: (side + rng.laplace(0.0, 1.0 / each)
                                  if side - 1.0 + rng.laplace(0.0, 1.0 / each) >= 0 else -1e9)

    return Claim("Propose-test-release", claimed, run(claimed), run(claimed / 2.0))


CLAIMS = (privhd, jtree_filter, noisy_max, sample_and_aggregate, propose_test_release)
