"""The fractions of a table's budget: for single columns, and for the two ways to measure their dependence."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trigmech._arrays import Array
from trigmech._validate import check_integers, is_number
from trigmech.errors import InputError, shown
from trigmech.functions.partition import Partition, scored_columns
from trigmech.planning.contrasted import by_levels, contrasts_are_sharper, has_few, mean_error, planned_cells
from trigmech.planning.few_rows import VARIATION, columns_error, of_pairs, pairs_error
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.privacy_loss import gaussian_epsilon

# At delta = 0, fractions of epsilon for the look and for details with little noise, and for the look with much noise.
# Noise is little or much if the number of pairs over n epsilon is below the first or above the second number.
PURE_LOOK, PURE_CLOSER, MOST_PURE_LOOK = 0.32, 0.1, 0.97
PURE_QUIET, PURE_NOISY = 0.006, 0.015
# The least fraction of the rest for products of ranks beside tables, and the noise in a product up to which two cosines
# are measured. With more noise in products, rows lost a third of the dependence that the tables tell.
PURE_PRODUCTS, OF_RANKS = 0.15, 0.008
# The look's largest fraction if all columns have two positions; and the number of positions where it stops growing.
BINARY_LOOK, FULL_SIZE = 0.42, 6
# Under Gaussian noise, the fraction of the tables' budget that is kept for tables that deserve more precision.
SELECTED = 0.6
ENOUGH_FOR_PRODUCTS = 0.006
# The least fraction for products, where numbers have some, and where only columns of two categories have.
OF_PRODUCTS, LEAST_OF_PRODUCTS = 0.15, 0.02
# If tables of all pairs would have at least the first noise in each cell, the look gets its largest fraction, and
# directions of rows get almost all the rest. Below the second noise directions get nothing. In between, the fractions
# change gradually. The values gave the least errors of pairs in a grid of plans for public sets of 300 to 16,000 rows.
NOISY, QUIET = 0.03, 0.012
MOST_LOOK, LEAST_LOOK, CLOSER, FEW_DIRECTIONS, MANY_DIRECTIONS = 0.7, 0.15, 0.03, 0.3, 0.9
# The largest look, if noise is predicted to hide the dependence, and the step between looks. The predicted error of
# pairs may be larger by the fraction NEARLY with a smaller look, because ranks need the dependence too: with half of
# NEARLY, ranks of tables with strong correlations got worse by a third.
LARGEST_LOOK, STEP, NEARLY = 0.95, 0.05, 0.04
# In the look, a number's distribution function counts as much as this many categories.
OF_A_NUMBER = 8
# With a target column its own tables come first. Directions help if these tables have at least this noise.
QUIET_TARGET = 0.003
# The smallest fraction of the budget. With less, the noise would exceed the range of floating point.
LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Shares:
    """Fractions of the budget: of mu^2 for Gaussian noise, or of epsilon if delta is 0.

    look, closer: Fractions of the whole budget, for the measurement of each column and for details of heavy intervals.
      The rest is for dependence.
    products: The fraction of the rest that goes to products.
    scores: The number of cosines of each number's ranks in these products. With 0, the directions of rows take their
      place (:class:`trigmech.queries.directions.Directions`). If delta is 0, directions are not measured.
    selected: The fraction of the tables' budget that is kept for tables whose first measurement justifies a second one.
      If delta is 0, all tables are measured once.

    Raises an InputError if a fraction is not a number, is below 10^-6 and not 0, or leaves less than 10^-6; if ``look``
    is 0; or if ``scores`` is not an integer that is at least 0.
    """

    look: float
    closer: float
    products: float
    scores: int = 3
    selected: float = SELECTED

    def __post_init__(self) -> None:
        check_integers(0, scores=self.scores)
        shares = (self.look, self.closer, self.products, self.selected)
        if not all(map(is_number, shares)) or not (
                self.look > 0 and all(share == 0 or share >= LEAST_SHARE for share in shares)
                and self.look + self.closer <= 1 - LEAST_SHARE
                and max(self.products, self.selected) <= 1 - LEAST_SHARE):
            raise InputError(f"shares must be 0 or at least {LEAST_SHARE:g}, look must be above 0, and look + closer, "
                             "products and selected must be below 1; given look, closer, products, selected = "
                             f"{', '.join(map(shown, shares))}")


def planned_shares(n: int, columns: Sequence[Partition], strength: float, gaussian: bool,
                   crossed: bool = False) -> Shares:
    """Return the fractions for n rows and a noise strength (mu, or epsilon), from public numbers only.

    ``crossed`` is True if there is a target column.
    """
    m = len(scored_columns(columns, gaussian))
    if not gaussian:
        return _pure_shares(columns, n * strength, m)
    d = len(columns)
    # The noise that tables of all pairs would have in each cell with the whole budget. With more noise the columns get
    # a larger fraction, and tables add less to the single number that is measured for each pair.
    noise = math.sqrt(2.0 * math.comb(d, 2)) / (n * strength)
    # A table with the target column matters as much as all other tables of its other column together.
    if crossed and d > 2 and math.sqrt(2.0 * (1.5 * d - 2.0)) / (n * strength) > QUIET_TARGET:
        return Shares(LEAST_LOOK, CLOSER, FEW_DIRECTIONS, 0)
    look = min(max(MOST_LOOK * (noise / NOISY) ** 0.4, LEAST_LOOK), MOST_LOOK)
    noisy = math.log(max(noise, 1e-300) / QUIET) / math.log(NOISY / QUIET)
    if noisy > 0.0:
        part = min(noisy, 1.0)
        return _with_least_look(columns, n * strength, Shares(
            look, CLOSER, (1.0 - part) * FEW_DIRECTIONS + part * MANY_DIRECTIONS, 0, (1.0 - part) * SELECTED))
    if m < 2:
        return Shares(look, CLOSER, 0.0)
    # Products get only as much as makes their noise small relative to .5, the size of a strong dependence. They get at
    # most the fraction of the pairs that have some; columns of two categories count half, because small tables tell
    # more. With less noise, more degrees are useful.
    numbers = sum(column.value is not None for column in columns)
    half = 0.5 * (numbers + m)
    least, most = OF_PRODUCTS if numbers > 1 else LEAST_OF_PRODUCTS, 0.45 * half * (half - 1.0) / math.comb(d, 2)
    noise = m / (n * strength * math.sqrt(1.0 - look))
    products = min(max((noise / ENOUGH_FOR_PRODUCTS) ** 2, least), max(most, OF_PRODUCTS))
    noise /= math.sqrt(products)
    return Shares(look, CLOSER, products, 3 if noise <= 0.5 * ENOUGH_FOR_PRODUCTS else 2 if noise <= ENOUGH_FOR_PRODUCTS
                  else 1)


def _pure_shares(columns: Sequence[Partition], strength: float, numbers: int) -> Shares:
    """Return the fractions at delta = 0 for n times epsilon and so many numbers among the columns.

    With products of contrasts, the look is the one whose predicted error of pairs is least.
    """
    # All pairs share one noise, which grows with their number. With more noise the columns get a larger fraction.
    noise = math.comb(len(columns), 2) / strength
    noisy = min(max(math.log(max(noise, 1e-300) / PURE_QUIET) / math.log(PURE_NOISY / PURE_QUIET), 0.0), 1.0)
    # A column with two positions needs little, because it is a single number.
    sizes = math.fsum(min(by_levels(column).size if has_few(column) else FULL_SIZE, FULL_SIZE)
                      for column in columns) / len(columns)
    full = min(max((sizes - 2.0) / (0.5 * FULL_SIZE - 1.0), 0.0), 1.0)
    most = (1.0 - full) * BINARY_LOOK + full * MOST_PURE_LOOK
    wide = sum(not has_few(column) for column in columns) / len(columns)

    def shares(look: float) -> Shares:
        closer = PURE_CLOSER * min(1.0, 3.0 * wide) * min(1.0, (1.0 - look) / (1.0 - PURE_LOOK))
        return Shares(look, closer, *_pure_products(numbers, strength * (1.0 - look - closer)))

    def rest(planned: Shares) -> float:
        return strength * (1.0 - planned.look - planned.closer)

    if len(columns) < 2 or not contrasts_are_sharper(columns, rest(shares(PURE_LOOK))):
        return shares((1.0 - noisy) * PURE_LOOK + noisy * most)
    # Where noise hides everything, the look gets all that it may.
    found = [shares(each) for each in [most, *np.arange(PURE_LOOK, most, STEP)[::-1].tolist()]]
    errors = [of_pairs(VARIATION * mean_error(columns, strength * each.look), planned_cells(columns, rest(each))[2])
              for each in found]
    return found[int(np.argmin(errors))]


def _pure_products(numbers: int, strength: float) -> tuple[float, int]:
    """Return the fraction for products of ranks beside tables at delta = 0, and the number of cosines.

    ``strength`` is n epsilon of both. More cosines have more noise, and are measured if it is small.
    """
    if numbers < 2:
        return 0.0, 1
    of_one = math.sqrt(2.0 * math.comb(numbers, 2)) * numbers / strength
    part = PURE_PRODUCTS * min(max(of_one / PURE_PRODUCTS / OF_RANKS, 1.0), 2.0)
    noise = [math.fsum(1.0 / a**2 for a in range(1, q + 1)) * q * of_one / part for q in (2, 3)]
    return part, 3 if noise[1] <= 0.5 * OF_RANKS else 2 if noise[0] <= OF_RANKS else 1


def look_parts(columns: Sequence[Partition], gaussian: bool) -> Array:
    """Return the importance of each column (d,) in the look, up to a factor.

    The error of k frequencies in total variation is about k times the noise. The error of a distribution function is
    about that of a few frequencies. The sum of these errors is least for the cube roots of the factors; for noise in
    L1, for their square roots. A slightly larger exponent than 1/3 reduces the largest error.
    """
    def worth(column: Partition) -> int:
        levels = OF_A_NUMBER if column.levels is None else min(OF_A_NUMBER, len(column.levels))
        return len(column.indicators) + (0 if column.value is None else levels)

    return np.array([max(worth(column), 1) for column in columns]) ** (0.45 if gaussian else 0.5)


def predicted_errors(columns: Sequence[Partition], strength: float, shares: Shares) -> tuple[float, float]:
    """Return the predicted mean total variations of columns and of pairs, for n times the whole budget's mu.

    Tables of pairs are ignored: few rows tell dependence by directions alone.
    """
    parts = look_parts(columns, True)
    of_columns = columns_error(columns, parts / np.linalg.norm(parts), math.sqrt(shares.look) * strength)
    directed = shares.products * (1.0 - shares.look - shares.closer)
    return of_columns, pairs_error(columns, of_columns, math.sqrt(directed) * strength)


def _with_least_look(columns: Sequence[Partition], strength: float, shares: Shares) -> Shares:
    """Return shares with the smallest look, at least the given one, whose predicted error of pairs is nearly least."""
    looks = [*np.arange(shares.look, LARGEST_LOOK, STEP).tolist(), LARGEST_LOOK]
    found = [replace(shares, look=look) for look in looks]
    errors = np.array([predicted_errors(columns, strength, each)[1] for each in found])
    return found[int(np.argmax(errors <= (1.0 + NEARLY) * errors.min()))]


def budget_of(charges: Sequence[Charge], whole: Budget) -> Budget:
    """Return the budget that charges of Gaussian noise, or of pure noise, spend together, with the delta of another."""
    if whole.delta > 0:
        return Budget(gaussian_epsilon(math.hypot(*(charge.mu for charge in charges)), whole.delta), whole.delta)
    return Budget(math.fsum(charge.pure_epsilon for charge in charges))


def shares_of(charges: Sequence[Charge], planned: Shares) -> Shares:
    """Return the fractions of a budget that give these charges. Fractions that charges do not show are as planned."""
    spent: dict[str, float] = {}
    for charge in charges:
        purpose = charge.purpose.removesuffix(", contrasts")
        spent[purpose] = spent.get(purpose, 0.0) + (charge.mu**2 if charge.law == "gaussian" else charge.pure_epsilon)
    whole = math.fsum(spent.values())
    look, closer, last = (spent.get(purpose, 0.0) / whole for purpose in ("columns", "columns, closer",
                                                                          "selected tables"))
    look = min(look, 1.0 - closer - LEAST_SHARE)
    if not last:
        return replace(planned, look=look, closer=closer, selected=0.0)
    products = max(1.0 - last / (SELECTED * (1.0 - look - closer)), 0.0)
    return replace(planned, look=look, closer=closer, products=products, selected=SELECTED)
