"""Printed claims of privacy, tested by experiment as printed, corrected, and corrected with a fault that must be seen.

Each claim has two neighbouring tables. On them the published system, or the planted fault, spends all or nearly all of
the epsilon that it can spend. `experiments.audit` makes the lower bounds. The systems are those of the companions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from experiments import Array
from experiments.audit import Bound, Statistic, false_alarm, lower_bound
from experiments.companions import jtree, selection, tutorial
from experiments.companions import marginal_models as models
from experiments.errata import figure
from experiments.protocols.coding import Codes

RUNS, SEED = 20_000, 2018
# By how much a planted fault makes noise too small.
FAULT = 1.75
# The filters' tables have few rows, so that a threshold is passed about every second time.
ROWS, COLUMNS = 50, 16
LEAST, MOVED = jtree.JTree().thresholds((2,) * COLUMNS), models.sensitivity(ROWS, (2, 2), "I")


@dataclass(frozen=True)
class Claim:
    """A claim of privacy, and a number that a run shows of the first (0) or second (1) of two neighbouring tables.

    The larger the number is, the more it speaks for the second table. `corrected` takes the epsilon to spend; a planted
    fault spends `fault` times the claim.
    """

    name: str
    claimed: float
    published: Statistic
    corrected: Callable[[float], Statistic]
    fault: float = FAULT

    def bound(self, which: str, count: int, seed: int) -> Bound:
        """Return the lower bound of epsilon from `count` runs of each table, "published", "corrected" or "planted"."""
        spent, found = self.claimed * (self.fault if which == "planted" else 1.0), []
        shown = self.published if which == "published" else self.corrected(spent)
        for side in (0, 1):
            rng = np.random.default_rng([seed, side, *self.name.encode(), *which.encode()])
            found.append((np.array([shown(side, rng) for _ in range(count)]), rng.random(count)))
        return lower_bound(found[1], found[0], 0.0)


def zeros_and(*last: int) -> Codes:
    return np.vstack([np.zeros((ROWS - 1, len(last)), dtype=np.int64), last])


def scores_of_halves(score: str) -> tuple[list[Array], Array]:
    """Return the pairs' scores of two tables, whose last rows have ones in one half, and the signs of differences."""
    ones, zeros = (1,) * (COLUMNS // 2), (0,) * (COLUMNS // 2)
    found = [models.pair_scores(zeros_and(*row), (2,) * COLUMNS, score) for row in (ones + zeros, zeros + ones)]
    return found, np.sign(found[1] - found[0])


def privhd_filter(claimed: float = 4.0, edges: int = 8) -> Claim:
    """The filter of PrivHD at half of `claimed`, against edges drawn at all of it; the fault spends it on each edge."""
    filtered, (drawn, sign) = (np.zeros(len(LEAST)), np.full(len(LEAST), MOVED)), scores_of_halves("R")

    def corrected(epsilon: float) -> Statistic:
        return lambda side, rng: float(sign[selection.several(
            drawn[side], models.sensitivity(ROWS, (2, 2), "R"), epsilon, edges, rng)].sum())

    return Claim("PrivHD's filter", claimed, lambda side, rng: len(jtree.passed(
        filtered[side], LEAST, 2.0 * MOVED / claimed, rng)), corrected, float(edges))


def jtree_filter(claimed: float = 2.0) -> Claim:
    """The filter of JTree without sampling, against noise that pays for all pairs, of three columns that all move."""
    (of, sign), tables = scores_of_halves("I"), (zeros_and(0, 0, 0), zeros_and(1, 1, 1))

    def corrected(epsilon: float) -> Statistic:
        # A threshold just above the scores.
        method = jtree.JTree("honest", strength=0.45)
        return lambda side, rng: len(method.chosen(tables[side], (2,) * 3, epsilon, rng))

    def published(side: int, rng: np.random.Generator) -> float:
        return float(sign[jtree.passed(of[side], LEAST, 2.0 * MOVED / claimed, rng, shared=True)].sum())

    return Claim("JTree's filter", claimed, published, corrected)


def report_noisy_max(claimed: float = 1.0) -> Claim:
    """Report noisy max of two counts, of which a replaced row moves one down and one up: whether the lower one wins."""
    def wins(epsilon: float, monotone: bool = False) -> Statistic:
        return lambda side, rng: selection.noisy_max([3.0 - side, side], 1.0, epsilon, rng.laplace, monotone)

    return Claim("Report noisy max, replace-one", claimed, wins(claimed, monotone=True), wins)


def sample_and_aggregate(claimed: float = 1.0, k: int = 20) -> Claim:
    """The mean of k groups' clipped means, by position and by a keyed hash, of all rows and without one.

    By position the first row goes; by the hash one that is alone in its group, which had 80 and then has 20.
    """
    ages, places = np.tile([0.0, 0.0, 200.0, 200.0], k // 2), np.arange(2 * k) // 2
    hashed = tutorial.keyed_groups(2 * k, k)
    alone = int(np.flatnonzero(np.bincount(hashed)[hashed] == 1)[0])
    others = np.arange(2 * k) != alone
    only = np.where(others, 0.0, 200.0)
    by_place = [tutorial.chunk_answers(ages[cut:], places[: 2 * k - cut], k).mean() for cut in (0, 1)]
    by_hash = [tutorial.chunk_answers(only[kept], hashed[kept], k).mean() for kept in (others, slice(None))]

    def noisy(means: list[float], epsilon: float) -> Statistic:
        return lambda side, rng: float(means[side] + rng.laplace(0.0, 60.0 / (k * epsilon)))

    return Claim("Sample and aggregate, one row removed", claimed, noisy(by_place, claimed), partial(noisy, by_hash))


def propose_test_release(claimed: float = 1.0) -> Claim:
    """A test one step short of its threshold or at it, and a mean that moves by b: both spend, so half of each."""
    def run(epsilon: float) -> Statistic:
        return lambda side, rng: (side + rng.laplace(0.0, 1.0 / epsilon) if side - 1.0 + rng.laplace(0.0, 1.0 / epsilon)
                                  >= 0 else -1e9)

    return Claim("Propose-test-release", claimed, run(claimed), lambda epsilon: run(epsilon / 2.0))


CLAIMS = {claim.__name__: claim for claim in (privhd_filter, jtree_filter, report_noisy_max, sample_and_aggregate,
                                              propose_test_release)}


def figures(name: str) -> list[str]:
    """Return the lower bounds of a claim, as printed and corrected, for `python -m experiments.errata`."""
    claim = CLAIMS[name]()
    bounds = {which: claim.bound(which, RUNS, SEED) for which in ("published", "corrected", "planted")}
    return [figure(
        f"{claim.name}: lower bounds of epsilon by {RUNS} runs, with 99.9 % confidence",
        "as; claimed; at least; share; other share; probability of a false alarm",
        [(which, claim.claimed, each.epsilon, each.share, each.other,
          false_alarm(each.other, RUNS // 2, claim.claimed, 0.0)) for which, each in bounds.items()])]


ENTRIES = {name: partial(figures, name) for name in CLAIMS}
