"""How the budget of a table is shared: between its columns, and the two ways of measuring how these depend."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trigmech._validate import check_integers, is_number
from trigmech.errors import InputError, shown
from trigmech.functions.partition import Partition
from trigmech.planning.contrasted import has_few

# At delta = 0, shares of epsilon: with little noise; the look's with much; and what pairs over n epsilon is for each.
PURE_LOOK, PURE_CLOSER, MOST_PURE_LOOK = 0.32, 0.1, 0.9
PURE_QUIET, PURE_NOISY = 0.012, 0.05
# Of what tables have under Gaussian noise: kept for those that are found to be worth it.
SELECTED = 0.6
ENOUGH_FOR_PRODUCTS = 0.006
# Where tables of all pairs would have so much noise in each cell, the look gets the largest share, and almost all that
# is left goes to directions of rows; where they would have less than the other, none does. Between them the shares pass
# from one to the other: the least errors of pairs over a grid of plans for public sets of 300 to 16,000 rows.
NOISY, QUIET = 0.03, 0.012
MOST_LOOK, LEAST_LOOK, CLOSER, FEW_DIRECTIONS, MANY_DIRECTIONS = 0.7, 0.15, 0.03, 0.3, 0.9
# Where other columns are to tell one column, its own tables come first; directions help while these have such noise.
QUIET_TARGET = 0.003
# Of the budget: less would buy noise beyond what floating point holds.
LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class Shares:
    """Parts of the budget: of mu^2 of Gaussian noise, or of epsilon where delta is 0.

    Parameters
    ----------
    look, closer : float
        Of the whole. The rest is for dependence.
    products : float
        Of the part for dependence: what goes to products.
    scores : int
        How many cosines of each number's ranks these products are of; 0 for the directions of rows, which all columns
        have (:class:`trigmech.queries.directions.Directions`). Where delta is 0, directions are not measured.
    selected : float
        Of the part for tables: what is kept for those that a first measurement shows to be worth it. Where delta is 0
        all are measured once.

    Raises
    ------
    InputError
        If a share is no number, below 10^-6 and not 0, or so large that less than 10^-6 is left; if the look's is 0; or
        if ``scores`` is no whole number from 0 on.
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
            raise InputError(f"shares must be 0 or at least {LEAST_SHARE:g}, the look's above 0, and leave as much: "
                             "look + closer, products and selected must be below 1, not "
                             f"{', '.join(map(shown, shares))}")


def planned_shares(n: int, columns: Sequence[Partition], strength: float, gaussian: bool,
                   crossed: bool = False) -> Shares:
    """Return the shares for n rows of some columns and noise of a strength (mu, or epsilon): public numbers alone.

    ``crossed`` says whether all others are crossed with one of the columns.
    """
    numbers = [column for column in columns if column.value is not None]
    if not gaussian:
        # All pairs share one noise that grows with their number: the more of it, the more the columns need.
        noise = math.comb(len(columns), 2) / (n * strength)
        noisy = min(max(math.log(max(noise, 1e-300) / PURE_QUIET) / math.log(PURE_NOISY / PURE_QUIET), 0.0), 1.0)
        look = (1.0 - noisy) * PURE_LOOK + noisy * MOST_PURE_LOOK
        wide = sum(not has_few(column) for column in columns) / len(columns)
        closer = PURE_CLOSER * min(1.0, 3.0 * wide) * min(1.0, (1.0 - look) / (1.0 - PURE_LOOK))
        return Shares(look, closer, 0.15 if len(numbers) > 1 else 0.0)
    d, m = len(columns), len(numbers)
    # The noise that tables of all pairs would have in each cell, if they had the whole budget: the more of it, the more
    # the columns themselves need, and the less tables tell beside one number for each pair.
    noise = math.sqrt(2.0 * math.comb(d, 2)) / (n * strength)
    # A table with the crossed column matters as much as all other tables of its other column.
    if crossed and d > 2 and math.sqrt(2.0 * (1.5 * d - 2.0)) / (n * strength) > QUIET_TARGET:
        return Shares(LEAST_LOOK, CLOSER, FEW_DIRECTIONS, 0)
    look = min(max(MOST_LOOK * (noise / NOISY) ** 0.4, LEAST_LOOK), MOST_LOOK)
    noisy = math.log(max(noise, 1e-300) / QUIET) / math.log(NOISY / QUIET)
    if noisy > 0.0:
        part = min(noisy, 1.0)
        return Shares(look, CLOSER, (1.0 - part) * FEW_DIRECTIONS + part * MANY_DIRECTIONS, 0, (1.0 - part) * SELECTED)
    if m < 2:
        return Shares(look, CLOSER, 0.0)
    # As little for products as leaves them a noise that is small beside .5, that of a strong dependence, and no more
    # than their part of the pairs; the less noise, the more degrees are worth having.
    most = max(0.15, 0.9 * math.comb(m, 2) / math.comb(d, 2))
    noise = m / (n * strength * math.sqrt(1.0 - look))
    products = min(max((noise / ENOUGH_FOR_PRODUCTS) ** 2, 0.15), most)
    noise /= math.sqrt(products)
    return Shares(look, CLOSER, products, 3 if noise <= 0.5 * ENOUGH_FOR_PRODUCTS else 2 if noise <= ENOUGH_FOR_PRODUCTS
                  else 1)
