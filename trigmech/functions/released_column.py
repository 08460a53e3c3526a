"""The released distribution of one column, which is public."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from trigmech._arrays import Array
from trigmech.functions.partition import Partition

# No normal score is larger than the first. Positions with less mass than the second have the score 0.
MOST_SCORE, LEAST_HELD = 8.0, 1e-12
# Equal masses make ties where columns are cut. Processors round differently, so rounding must not decide ties: limits
# that masses are compared with are moved by this fraction.
SLACK = 1e-9
# Both special and missing values, and numbers, have so much mass where the presence of a number is measured.
LEAST_APART = 0.05


@dataclass(frozen=True, eq=False)
class ReleasedColumn:
    """The released distribution of one column. Public.

    partition: Its positions.
    mass (size,): Their probabilities.
    deviation: The standard deviation of the noise in one frequency.
    """

    partition: Partition
    mass: Array
    deviation: float

    @property
    def ranks(self) -> Array:
        """The middle rank (size,) of each position, from 0 to 1; NaN for special and missing values of a number."""
        k = self.special
        mass = self.mass[k:]
        total = max(float(mass.sum()), np.finfo(float).tiny)
        return np.concatenate([np.full(k, np.nan), (np.cumsum(mass) - 0.5 * mass) / total])

    @property
    def normal_ends(self) -> Array:
        """Where a normal variable (l - 1,) passes from one to the next of the categories, or of a number's l intervals.

        Special and missing values of a number are left out; they come before the others.
        """
        mass = self.mass[self.special :]
        total = float(mass.sum())
        below = np.cumsum(mass)[:-1] / total if total > 0.0 else np.linspace(0.0, 1.0, len(mass) + 1)[1:-1]
        return np.asarray(ndtri(np.clip(below, 0.0, 1.0)))

    @property
    def normal_scores(self) -> Array:
        """The mean (size,) of a normal variable at each position, in their order, at most `MOST_SCORE` in size.

        0 for special and missing values of a number.
        """
        ends = np.concatenate([[-np.inf], self.normal_ends, [np.inf]])
        density, mass = np.exp(-0.5 * ends**2) / np.sqrt(2.0 * np.pi), self.mass[self.special :]
        held = mass / max(float(mass.sum()), np.finfo(float).tiny)
        inside = np.where(held > LEAST_HELD, -np.diff(density) / np.maximum(held, LEAST_HELD), 0.0)
        return np.concatenate([np.zeros(self.special), np.clip(inside, -MOST_SCORE, MOST_SCORE)])

    @property
    def absent(self) -> float:
        """The probability of special and missing values together; 0 for categories."""
        return float(self.mass[: self.special].sum())

    @property
    def presence_scores(self) -> Array | None:
        """A score (size,) that tells numbers from special and missing values, with mean 0 and variance 1.

        None for categories, and where one of both has hardly any mass: `LEAST_APART` at least.
        """
        absent = self.absent
        if not LEAST_APART * (1.0 - SLACK) <= absent <= 1.0 - LEAST_APART * (1.0 - SLACK):
            return None
        numbers = np.arange(len(self.mass)) >= self.special
        return np.where(numbers, np.sqrt(absent / (1.0 - absent)), -np.sqrt((1.0 - absent) / absent))

    @property
    def special(self) -> int:
        """How many positions are special or missing values of a number; they come first."""
        return 0 if self.partition.value is None else len(self.partition.indicators)
