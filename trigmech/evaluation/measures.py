"""NON-PRIVATE. Measures of how far a synthetic table is from the true one, by the names and definitions of the field.

Scores of SDMetrics [1]_ are from 0 (nothing is alike) to 1 (equal): a column's is KSComplement for numbers and times,
and TVComplement for categories; a pair's is ContingencySimilarity, and CorrelationSimilarity for two numbers. One thing
differs: SDMetrics cuts numbers into ten equal parts of their range, and here deciles of the true table cut them, as
quantiles do in NIST's score [2]_, because most rows of a skewed column lie in one such part.

References
----------
.. [1] DataCebo, "SDMetrics", https://docs.sdv.dev/sdmetrics: KSComplement, TVComplement, MissingValueSimilarity,
   ContingencySimilarity, CorrelationSimilarity, NewRowSynthesis, LogisticDetection.
.. [2] Task, Bhagat and Howarth (2023), "SDNist v2: Deidentified data report tool", NIST: the k-marginal score.
.. [3] Austin (2009), "Balance diagnostics for comparing the distribution of baseline covariates between treatment
   groups in propensity-score matched samples", Statistics in Medicine 28: the standardised mean difference.
.. [4] Esteban, Hyland and Rätsch (2017), "Real-valued (medical) time series generation with recurrent conditional
   GANs": train on synthetic, test on real.
.. [5] Lopez-Paz and Oquab (2017), "Revisiting classifier two-sample tests", ICLR: a detector of synthetic rows.
"""

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from trigmech._arrays import Array, Integers
from trigmech.evaluation.distances import distribution_difference, total_variation
from trigmech.evaluation.sides import Coding, Side, unit_of
from trigmech.functions.ranks import ranks_of_places

# Groups with fewer rows are mostly chance. A group without synthetic rows counts as this error, in deviations.
FEWEST_IN_GROUP, LOST = 100, 1.0
# So many categories of a column, the most frequent ones, are inputs of regressions; the ridge of these.
MOST_INDICATORS, RIDGE = 20, 1e-6
# One column nearly determines another if it does so for this share of the rows; so many pairs are listed.
DETERMINED, MOST_DETERMINED = 0.95, 20


def column_scores(coding: Coding, true: Side, made: Side) -> Array:
    """Return each column's score (d,): KSComplement, without missing values, or TVComplement, with them.

    KSComplement is 1 minus the largest difference of the distribution functions; TVComplement is 1 minus half the sum
    of the differences of the frequencies. If only one table has numbers in a column, its score is 0. Private.
    """
    scores = np.zeros(len(coding.columns))
    for j, column in enumerate(coding.columns):
        if column.categories is not None:
            first, second = (_shares(side.cells[:, j], int(coding.sizes[j])) for side in (true, made))
            scores[j] = 1.0 - total_variation(first, second)
        else:
            first, second = (side.values[~np.isnan(side.values[:, j]), j] for side in (true, made))
            if len(first) and len(second):
                scores[j] = 1.0 - distribution_difference(first, second, np.full(len(second), 1.0 / len(second)))
            else:
                scores[j] = float(len(first) == len(second))
    return scores


def missing_scores(true: Side, made: Side) -> Array:
    """Return each column's MissingValueSimilarity (d,): 1 minus the difference of the parts that miss. Private."""
    first, second = (np.isnan(side.values).mean(axis=0) for side in (true, made))
    found: Array = 1.0 - np.abs(first - second)
    return found


def pair_scores(coding: Coding, true: Side, made: Side) -> Array:
    """Return the ContingencySimilarity of all pairs of columns, in the order of ``itertools.combinations``; private.

    It is 1 minus the total variation of the two tables of relative frequencies. Cost: pairs times rows.
    """
    return np.array([1.0 - total_variation(*(_table(coding, side, j, h) for side in (true, made)))
                     for j, h in itertools.combinations(range(len(coding.columns)), 2)])


def _table(coding: Coding, side: Side, j: int, h: int) -> Array:
    """Return the table of relative frequencies of two columns."""
    shape = int(coding.sizes[j]), int(coding.sizes[h])
    return _shares(side.cells[:, j] * shape[1] + side.cells[:, h], shape[0] * shape[1]).reshape(shape)


def _shares(cells: Integers, size: int) -> Array:
    found: Array = np.bincount(cells, minlength=size) / len(cells)
    return found


def correlation_differences(coding: Coding, true: Side, made: Side, ranked: bool = False) -> tuple[Array, list]:
    """Return the absolute differences of correlations of any two numbers, and which pairs of columns these are.

    CorrelationSimilarity is 1 minus half of it. Rows in which a value is missing are left out; the correlation with a
    constant is 0. With ``ranked`` they are Spearman's, otherwise Pearson's. Private.
    """
    places = [j for j, column in enumerate(coding.columns) if column.kind != "categorical"]
    pairs = list(itertools.combinations(places, 2))
    first, second = (_correlations(side.values, pairs, ranked) for side in (true, made))
    return np.abs(first - second), pairs


def _correlations(values: Array, pairs: list[tuple[int, int]], ranked: bool) -> Array:
    found, columns = np.zeros(len(pairs)), np.ascontiguousarray(values.T)
    chosen = {j for pair in pairs for j in pair}
    known = ~np.isnan(columns)
    # One sort of each column is enough for its ranks in any rows.
    places = {j: np.unique(columns[j], return_inverse=True)[1] for j in chosen} if ranked else {}

    def standard(j: int, rows: NDArray[np.bool_] | slice) -> Array:
        return _standard(ranks_of_places(places[j][rows]) if ranked else columns[j][rows])

    whole = {j: standard(j, slice(None)) for j in chosen if known[j].all()}
    for k, (j, h) in enumerate(pairs):
        if j in whole and h in whole:
            first, second = whole[j], whole[h]
        else:
            both = known[j] & known[h]
            first, second = standard(j, both), standard(h, both)
        # Not by matrix products: their threads wait for each other at such short ones.
        found[k] = (first * second).sum()
    return found


def _standard(values: Array) -> Array:
    """Return values with mean 0 and length 1, or zeros if they are constant."""
    if not len(values):
        return values
    values = values / unit_of(values)
    apart = values - values.mean()
    length = float(np.sqrt(np.square(apart).sum()))
    # Rounding leaves something where all values are the same.
    small = 1e-12 * float(np.abs(values).max()) * np.sqrt(len(values))
    return apart / length if length > small else np.zeros(len(values))


def group_differences(coding: Coding, true: Side, made: Side, fewest: float | None = None) -> Array:
    """Return absolute standardised mean differences of all outcomes in all groups of enough true rows; private.

    A group is the rows of one cell of a column, at least ``fewest`` (by default 100): a category, a value, or a tenth
    of the rows. In each the mean of every other column's outcome is compared. The unit is the outcome's standard
    deviation in the true table. A group that the synthetic table lacks counts as :data:`LOST`. Cost: columns squared
    times rows.
    """
    found, means, start = [], [_group_means(coding, side) for side in (true, made)], 0
    for j, size in enumerate(coding.sizes.tolist()):
        counts = np.bincount(true.cells[:, j], minlength=size)
        groups = start + np.flatnonzero(counts >= (FEWEST_IN_GROUP if fewest is None else fewest))
        others = np.delete(np.arange(len(coding.columns)), j)
        start += size
        if not (len(groups) and len(others)):
            continue
        own, made_means = (each[np.ix_(groups, others)] for each in means)
        differences = np.abs(own - made_means)
        differences[np.isnan(made_means)] = LOST
        found.append(differences[~np.isnan(own)])
    return np.concatenate(found) if found else np.empty(0)


def _group_means(coding: Coding, side: Side) -> Array:
    """Return the mean (cells, d) of each outcome in each cell of all columns one after the other; NaN without values.

    The sums are one product with the sparse matrix of which row is in which cells.
    """
    n, d = side.cells.shape
    places = (side.cells + (np.cumsum(coding.sizes) - coding.sizes)).ravel()
    within = csr_array((np.ones(n * d), places, np.arange(0, n * d + 1, d)), shape=(n, int(coding.sizes.sum()))).T
    known = ~np.isnan(side.outcomes)
    sums, counts = within @ np.where(known, side.outcomes, 0.0), within @ known.astype(np.float64)
    found: Array = np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0.0)
    return found


def regression_losses(coding: Coding, true: Side, made: Side, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return R² (d,) on real rows of regressions trained on other real rows, and of those trained on synthetic rows.

    Each column's outcome is predicted from all other columns by least squares: "train on synthetic, test on real". One
    half of the true rows trains the first, and the other half tests both. R² is 1 minus the mean squared error in units
    of the variance of the test rows, at least -1; NaN for a column that does not vary. Private. Cost: the square of the
    number of inputs times rows.
    """
    order = rng.permutation(len(true.values))
    train, test = (true.rows(half) for half in np.array_split(order, 2))
    chosen = _indicators(coding, true)
    return (_explained(coding, chosen, train, test), _explained(coding, chosen, made, test))


def _indicators(coding: Coding, true: Side) -> list[tuple[int, int]]:
    """Return the cells that are inputs, by column and cell: categories, and missing values of any column."""
    found = []
    for j, column in enumerate(coding.columns):
        counts = np.bincount(true.cells[:, j], minlength=coding.sizes[j])
        # The most frequent category needs no indicator, nor does a cell that nobody is in.
        cells = np.argsort(-counts, kind="stable")[1 : 1 + MOST_INDICATORS] if column.categories is not None else [
            coding.sizes[j] - 1]
        found += [(j, int(cell)) for cell in cells if counts[cell]]
    return found


def _explained(coding: Coding, chosen: list[tuple[int, int]], train: Side, test: Side) -> Array:
    inputs, owners = _inputs(coding, chosen, train)
    # A missing outcome is 0 here, so that its row adds nothing.
    gram, products = inputs.T @ inputs, inputs.T @ np.nan_to_num(train.outcomes)
    fits = np.zeros(products.shape)
    for j in range(len(coding.columns)):
        own, absent = np.flatnonzero(owners != j), inputs[np.isnan(train.outcomes[:, j])]
        within = (gram - absent.T @ absent if len(absent) else gram)[np.ix_(own, own)]
        ridge = RIDGE * max(len(inputs) - len(absent), 1)
        fits[own, j] = np.linalg.solve(within + ridge * np.eye(len(own)), products[own, j])
    errors = np.square(test.outcomes - _inputs(coding, chosen, test)[0] @ fits)
    found = np.full(len(coding.columns), np.nan)
    for j, error in enumerate(errors.T):
        known = ~np.isnan(error)
        spread = float(test.outcomes[known, j].var()) if known.any() else 0.0
        if spread > 1e-12:
            found[j] = max(1.0 - float(error[known].mean()) / spread, -1.0)
    return found


def _inputs(coding: Coding, chosen: list[tuple[int, int]], side: Side) -> tuple[Array, Integers]:
    """Return a constant, the numbers and the indicators (n, inputs), and the column of each, -1 for the constant."""
    numbers = [j for j, column in enumerate(coding.columns) if column.categories is None]
    columns = [np.ones(len(side.values)), *(np.nan_to_num(side.outcomes[:, j]) for j in numbers),
               *((side.cells[:, j] == cell).astype(np.float64) for j, cell in chosen)]
    return np.column_stack(columns), np.array([-1, *numbers, *(j for j, _ in chosen)])


def determined(coding: Coding, true: Side, made: Side) -> list[tuple[int, int, float, float]]:
    """Return the pairs of columns of which the first nearly determines the second, with two shares of rows; private.

    Take the most frequent second cell for each first cell. The shares are those of the rows that have this second cell,
    in the true and in the synthetic table. A pair is listed if its true share is at least :data:`DETERMINED`, and if at
    most half as many rows deviate from it as from the most frequent second cell alone. The pair with the largest true
    share comes first. Cost: columns squared times rows.
    """
    found = []
    for j, h in itertools.combinations(range(len(coding.columns)), 2):
        tables = [_table(coding, side, j, h) for side in (true, made)]
        for first, second, both in ((j, h, tables), (h, j, [table.T for table in tables])):
            own, other = (float(table.max(axis=1).sum()) for table in both)
            if own >= DETERMINED and 1.0 - own <= 0.5 * (1.0 - float(both[0].sum(axis=0).max())):
                found.append((first, second, own, other))
    return sorted(found, key=lambda each: (-each[2], *each[:2]))[:MOST_DETERMINED]


def copied_shares(true: Side, made: Side) -> tuple[float, float]:
    """Return the share of synthetic rows that equal a true row, and of true rows that equal another true row.

    All columns must be equal, after rounding as the schema says. NewRowSynthesis, with a tolerance of 0, is 1 minus the
    first. The second says how much chance would do: without any copying, a new row of the same people would often equal
    a true one. Private. Cost: one sort of all rows.
    """
    together = np.ascontiguousarray(np.nan_to_num(np.concatenate([true.values, made.values]), nan=np.inf)) + 0.0
    rows = together.view(np.dtype((np.void, together.dtype.itemsize * together.shape[1]))).ravel()
    _, places = np.unique(rows, return_inverse=True)
    n = len(true.values)
    counts = np.bincount(places[:n], minlength=int(places.max()) + 1)
    return float((counts[places[n:]] > 0).mean()), float((counts[places[:n]] > 1).mean())


