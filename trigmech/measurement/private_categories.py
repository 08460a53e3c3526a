"""PRIVATE. Categories of columns without a public list of them, found by a private selection.

The rows of every key of each column with private categories are counted. A key is a text that a row holds, without the
white space around it. The counts of all columns get Gaussian noise by one draw. A key is released if its noisy count
exceeds a threshold; all other values count as the category ``other``. A key that no row holds has no count, because no
list of possible keys exists. So the counted keys depend on the table, and the threshold hides this.

**Theorem.** Let two tables differ in one row, and let c columns be concerned. With noise of standard deviation s and
the threshold 1 + s z, z = Phi^-1(1 - delta / c), the noisy counts above the threshold, with their keys, are the
post-processing of two independent mechanisms: one that is mu-GDP for mu = sqrt(2 c) / s, and one that is (0, delta)-DP.

*Proof.* Fix the two tables, and call a key common if both hold it. All noise is independent, so the counts of common
keys and those of other keys can be looked at as two mechanisms, of which the output is made in the same way for both
tables. (1) The common keys are the same for both tables. The row that is replaced is counted for at most one key of a
column (for none if its value is missing or no text), so in each column at most two counts differ, each by 1. In all
that is sqrt(2 c) in L2, which Gaussian noise makes mu-GDP (Dong, Roth and Su 2022). (2) A key that one table alone
holds is held there by the row that is replaced, and by no other row: there is at most one in a column of each table,
and its count is 1. It is released if its noise exceeds s z, with a probability of at most delta / c. So with a
probability of at least 1 - delta none is released, whichever of the tables it is. Two distributions that both give one
outcome a probability of at least 1 - delta differ by at most delta in total variation: that is (0, delta)-DP.

A person of several rows does not add shares of keys, of which there could be any number: of her rows one is drawn, by
the operating system's entropy, and is the row of the proof. The theorem holds for every outcome of these draws, which
are made for each person by herself, so it holds for their mixture.

By the second mechanism alone no epsilon is lost: delta is a charge of law "threshold", and composes with the rest as a
claim of (0, delta) does (:mod:`trigmech.privacy.accounting`). OpenDP's noise is on a lattice so fine (2^-1074) that its
tails are those of the normal distribution up to less than what the threshold is raised by; and a count that rounding
brings above the threshold, which is a float, was above it before (Canonne, Kamath and Steinke 2020, for the tails).

What is measured afterwards depends on how many categories were found, but what it costs does not: it is Gaussian noise
with a mu that is fixed before. Therefore other mechanisms are refused, as composing them takes scales fixed in advance.
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

# One over the part of delta that thresholds have.
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
        The table as it is.
    schema : Schema
    charges : tuple of two Charge
        The charges of the counts and of the threshold, from :func:`selection_charges`.
    session : Session
        Both are charged before the noise is drawn.

    Returns
    -------
    dict of str to tuple of str
        By name, at most 100 of each column, those with the largest noisy counts first. Empty if none was found.

    Raises
    ------
    InputError
        If a column is absent or cannot be read; nothing is charged then.

    Notes
    -----
    Privacy: proved in the module's docstring. How many different keys there are is private; time and memory depend on
    it. Cost: one pass over the rows; in memory every key with its count, some hundred bytes each; 40 microseconds for
    the noise of each.
    """
    names = schema.private_categories
    # Sorted: the noise of a key does not depend on where the table has it.
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
    """Return the charges for counts of so many columns, with a fraction of what thresholds leave, and for thresholds.

    Public. The budget is the whole one, with delta > 0.
    """
    counts = histogram_charge("categories", without_thresholds(budget), share, columns)
    return (replace(counts, proof=_PROOF),
            Charge("threshold", "threshold", threshold_delta(budget), 0.0, "none", 1, _PROOF))


def threshold_delta(budget: Budget) -> float:
    """Return the part of a budget's delta that thresholds have, a tenth."""
    return float_below(as_decimal(budget.delta) / THRESHOLD_PARTS)


def without_thresholds(budget: Budget) -> Budget:
    """Return what thresholds leave of a budget to all other charges."""
    return Budget(budget.epsilon, float_below(as_decimal(budget.delta) - as_decimal(threshold_delta(budget))))


def least_count(noise: Charge, threshold: Charge, columns: int) -> float:
    """Return what a noisy count must exceed: one row's does so with a probability of at most delta / columns."""
    return (1.0 + noise.scale * float(-ndtri(threshold.scale / columns))) * UPWARD


def _counts(rows: PrivateRows, schema: Schema, names: tuple[str, ...], session: Session) -> list[Counter[str]]:
    """Return how many persons hold each key of the named columns, but for those that are ``other`` anyway. Private."""
    counts = [Counter[str]() for _ in names]
    for chunk in rows.chunks():
        if not isinstance(chunk, Chunk):
            raise InputError("private categories can be found in a table only, not in points")
        # All names, for an array's columns are known by their places alone.
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
