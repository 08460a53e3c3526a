"""PRIVATE. A private selection of categories, for columns without a public list of them.

The rows of every key of each column with private categories are counted. A key is a text that a row holds, without the
white space around it. The counts of all columns get Gaussian noise by one draw. A key is released if its noisy count
exceeds a threshold; all other values count as the category ``other``. A key that no row holds has no count, because no
list of possible keys exists. So the counted keys depend on the table, and the threshold hides this.

**Theorem.** Let two tables differ in one row, and let c columns have private categories. The noise has standard
deviation s, and the threshold is 1 + s z with z = Phi^-1(1 - delta / c). Then the noisy counts above the threshold,
with their keys, are the post-processing of two independent mechanisms. The first is mu-GDP for mu = sqrt(2 c) / s. The
second is (0, delta)-DP.

*Proof.* Fix the two tables, and call a key common if both hold it. All noise is independent. So the counts of common
keys and those of other keys are two mechanisms, and the output is made from them in the same way for both tables.
(1) The common keys are the same for both tables. The replaced row is counted for at most one key of a column; if its
value is missing or not text, it is counted for no key. So in each column at most two counts differ, each by 1. All
counts together move by at most sqrt(2 c) in L2, and Gaussian noise makes this mu-GDP (Dong, Roth and Su 2022). (2) Take
a key that only one table holds. The replaced row holds it there, and no other row does. So each table has at most one
such key in a column, with count 1. It is released if its noise exceeds s z, which has a probability of at most
delta / c. So for either table, no such key is released with a probability of at least 1 - delta. If two distributions
both give one outcome a probability of at least 1 - delta, they differ by at most delta in total variation. This is
(0, delta)-DP.

A person with several rows could hold any number of keys, so she does not add shares. One of her rows is drawn by the
operating system's entropy, and it is the row of the proof. The draws of different persons are independent. The theorem
holds for every outcome of the draws, so it holds for their mixture.

The second mechanism costs no epsilon. Its delta is a charge of law "threshold", and composes with other charges as a
claim of (0, delta) does (:mod:`trigmech.privacy.accounting`). OpenDP's noise lies on a lattice of step 2^-1074. Its
tails differ from those of the normal distribution by less than the amount by which the threshold is raised (Canonne,
Kamath and Steinke 2020). The threshold is a float, so a count that is above it after rounding was above it before.

The next queries depend on the number of found categories, but their cost does not: they get Gaussian noise with a mu
that is fixed before. Other mechanisms are refused, because their composition needs scales that are fixed in advance.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from trigmech.errors import InputError
from trigmech.measurement.private_bounds import histogram_charge
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import Chunk
from trigmech.planning.design import UPWARD
from trigmech.privacy.budget import Budget, Charge, as_decimal, float_below
from trigmech.schema.encoding import key_of
from trigmech.schema.schema import Schema
from trigmech.tables.frames import Columns

# The inverse of the fraction of delta that thresholds get.
THRESHOLD_PARTS = 10
# The most categories of a column; more would make the table too wide for most mechanisms.
MOST_FOUND = 100

_PROOF = "private-categories"


def found_categories(rows: PrivateRows, schema: Schema, charges: tuple[Charge, ...],
                     session: Session) -> dict[str, tuple[str, ...]]:
    """Return the frequent categories of the columns that have private ones, for :meth:`Schema.with_categories`.

    Parameters
    ----------
    rows : PrivateRows, private
        The table, not mapped to points.
    schema : Schema
    charges : tuple of two Charge
        The charges of the counts and of the threshold, from :func:`selection_charges`.
    session : Session
        Both are charged before the noise is drawn.

    Returns
    -------
    dict of str to tuple of str
        For each column's name at most 100 categories, sorted by noisy count from the largest. A tuple can be empty.

    Raises
    ------
    InputError
        If a column is absent or cannot be read. Then nothing is charged.

    Notes
    -----
    Privacy: proved in the module's docstring. The number of different keys is private, and time and memory depend on
    it. Cost: one pass over the rows; some hundred bytes and 40 microseconds for each key.
    """
    names = schema.private_categories
    # Sorted, so that the noise of a key does not depend on the order of the rows.
    counted = [sorted(counts.items()) for counts in _counts(rows, schema, names, session)]
    noise, threshold = charges
    session.charge(noise, threshold)
    limit = least_count(noise, threshold, len(names))

    def frequent(noisy: NDArray[np.float64]) -> dict[str, tuple[str, ...]]:
        parts, found = np.split(noisy, np.cumsum([len(counts) for counts in counted])[:-1]), {}
        for name, counts, part in zip(names, counted, parts, strict=True):
            order = np.argsort(-part, kind="stable")[:MOST_FOUND]
            found[name] = tuple(counts[place][0] for place in order.tolist() if part[place] > limit)
        return found

    exact = np.array([count for counts in counted for _, count in counts], dtype=np.float64)
    return session.select(exact, noise, frequent)


def selection_charges(budget: Budget, share: float, columns: int) -> tuple[Charge, Charge]:
    """Return the charges for the counts of so many columns and for their thresholds; public.

    The budget is the whole budget, with delta > 0. The counts get a fraction of the rest that thresholds leave.
    """
    counts = histogram_charge("categories", without_thresholds(budget), share, columns)
    return (replace(counts, proof=_PROOF),
            Charge("threshold", "threshold", threshold_delta(budget), 0.0, "none", 1, _PROOF))


def threshold_delta(budget: Budget) -> float:
    """Return the fraction of a budget's delta that thresholds get: a tenth."""
    return float_below(as_decimal(budget.delta) / THRESHOLD_PARTS)


def without_thresholds(budget: Budget) -> Budget:
    """Return the budget that thresholds leave for all other charges."""
    return Budget(budget.epsilon, float_below(as_decimal(budget.delta) - as_decimal(threshold_delta(budget))))


def least_count(noise: Charge, threshold: Charge, columns: int) -> float:
    """Return the threshold. A key of one row exceeds it with a probability of at most delta / columns."""
    return (1.0 + noise.scale * float(-ndtri(threshold.scale / columns))) * UPWARD


def _counts(rows: PrivateRows, schema: Schema, names: tuple[str, ...], session: Session) -> list[Counter[str]]:
    """Return the number of persons for each key of the named columns, without the key of ``other``. Private."""
    counts = [Counter[str]() for _ in names]
    for chunk in rows.chunks():
        if not isinstance(chunk, Chunk):
            raise InputError("private categories can be found in a table only, not in points")
        # All names, because an array identifies its columns by their places only.
        read = Columns(chunk.rows, schema.names)
        chosen = None
        if chunk.starts is not None and chunk.order is not None:
            lengths = np.diff(np.append(chunk.starts, len(chunk.order)))
            chosen = chunk.order[chunk.starts + (session.uniform(len(lengths)) * lengths).astype(np.int64)]
        for name, count in zip(names, counts, strict=True):
            count.update(read.tally(schema.names.index(name), key_of, chosen))
    for name, count in zip(names, counts, strict=True):
        del count[str(schema.columns[schema.names.index(name)].other).strip()]
    return counts
