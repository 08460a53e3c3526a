"""The prior that the numbers of a table share: how wide they are, and where in their bounds they lie.

With much noise a column alone tells little of its shape. Bounds are often chosen alike for all columns, so the columns'
densities resemble each other. Prior probabilities of widths and of places are estimated from all columns together
(empirical Bayes, by expectation maximisation). Each column gets the prior that the others show, because its own
measurements count in its likelihood.

References
----------
Efron and Morris 1975, Data analysis using Stein's estimator and its generalizations, for empirical Bayes; Dempster,
Laird and Rubin 1977, for expectation maximisation.
"""

from collections.abc import Sequence

import numpy as np

from trigmech._arrays import Array
from trigmech.reconstruction.bases import EVEN, PLACES, bases
from trigmech.reconstruction.densities import COARSE, Prior, SmoothDensity

# The usual prior counts as so many columns. Without it a table of few columns, or one of unlike columns, would get
# worse. The number was set on five tables of 178 to 2,111 rows; on eleven others it served as well. Rounds of
# expectation maximisation.
USUAL, ROUNDS = 4.0, 5


def shared_priors(densities: Sequence[SmoothDensity | None]) -> list[Prior | None]:
    """Return each column's prior as the other columns show it; None for no density, and if there are no others.

    Cost: .1 ms for each column.
    """
    shares = [each.shares for each in densities if each is not None]
    if len(shares) < 2:
        return [None] * len(densities)
    usual = _counted(np.append(EVEN, bases(COARSE).probabilities))
    priors, counted = list[Prior](), [_counted(each) for each in shares]
    for _ in range(ROUNDS):
        totals = [sum(each) for each in zip(*counted, strict=True)]
        priors = [_prior(usual, [total - own for total, own in zip(totals, each, strict=True)]) for each in counted]
        counted = [_counted(own * prior / float(own @ prior)) for own, prior in zip(shares, priors, strict=True)]
    left = iter(priors)
    return [None if each is None else next(left) for each in densities]


def _counted(shares: Array) -> tuple[Array, Array]:
    """Return the probabilities of widths, the last one that of the even base, and of places, from those of bases."""
    every = bases(COARSE)
    widths = np.bincount(every.widths, shares[1:]).astype(np.float64)
    places = np.bincount(every.places, shares[1:], PLACES).astype(np.float64)
    return np.append(widths, shares[0]), places


def _prior(usual: Sequence[Array], counted: Sequence[Array]) -> Prior:
    """Return the prior of a column, given how many others have each width and place."""
    every = bases(COARSE)
    # Sums without a column can be below 0 by rounding.
    widths, places = [(USUAL * known + np.maximum(own, 0.0)) / ((USUAL + own.sum()) * known)
                      for known, own in zip((usual[0], usual[1] / usual[1].sum()), counted, strict=True)]
    made = np.append(widths[-1], widths[every.widths] * places[every.places])
    return made / float(made @ np.append(EVEN, every.probabilities))
