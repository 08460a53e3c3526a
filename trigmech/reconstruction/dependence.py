"""Targets for tables and products: the released values after shrinkage."""

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array

# The most rounds that fill in the diagonal, and the change at which they end.
ROUNDS, SETTLED = 20, 0.05
# Squares and fourth powers of larger numbers would overflow.
LARGEST = 1e60
# The least sum of squares: numbers that are divided by it stay finite.
FAINTEST = 1e-280
# The least variance that a matrix of low rank leaves of the noise.
LEAST_LEFT = 0.2
# The usual size of the dependence in a product of contrasts, as a fraction of the largest possible one: a correlation.
USUAL = 0.25
# The largest eigenvalue of noise exceeds 2 by more than CHANCE times the size^(-2/3) in one of a hundred matrices (the
# law of Tracy and Widom).
CHANCE = 2.0
# Noise has so many standard deviations less than once in 10^12 numbers. No rows have a number that lies so far outside
# of the possible: the number stays, so that the fit misses it and says so.
IMPOSSIBLE = 20.0
# The prior of products of directions without their part in a matrix of low rank: the odds that all are 0; the smallest
# size and the number of sizes, up to that of the largest product; fractions that are not 0; and the deviations in their
# mixture.
NOTHING, LEAST_SIZE, SIZES, FRACTIONS, MULTIPLES = 0.1, 0.5, 10, (0.3, 0.999), (0.5, 1.0, 2.0, 4.0)


def shrunk_table(deviation: Array, noise: float) -> Array:
    """Return the shrunk deviation of a noisy table from its prediction by fewer columns.

    ``noise`` is the standard deviation in each entry, above 0. The result sums to 0 along each axis, because other
    measurements determine the distributions of fewer columns better.

    Three axes become two: the longest one, and the other two together. Sums of 0 take one dimension from each axis. Let
    y be a singular value, in units of the noise times the root of the longer side, and r the ratio of the sides. Above
    1 + sqrt(r), y becomes sqrt((y^2 - r - 1)^2 - 4 r) / y. This is optimal for the squared error of a large matrix of
    low rank (Gavish and Donoho 2017, Optimal shrinkage of singular values). The smaller singular values are shrunk by a
    common factor, by the excess of their squares over those of noise alone (James and Stein). This factor is for tables
    of full rank.
    """
    return np.asarray(shrunk_tables(deviation[None], np.array([noise]))[0])


def shrunk_tables(deviations: Array, noise: Array) -> Array:
    """Return :func:`shrunk_table` of each of several tables (t, ...) of one shape, with noise (t,)."""
    if not (min(deviations.shape) > 0 and noise.min() > 0.0):
        return deviations
    values, noise = deviations, noise.reshape(-1, *[1] * (deviations.ndim - 1))
    values = centred(np.clip(values / noise, -LARGEST, LARGEST), 1)
    longest = 1 + int(np.argmax(values.shape[1:]))
    moved = np.moveaxis(values, longest, 1)
    short, long = sorted((moved.shape[1] - 1, math.prod(side - 1 for side in moved.shape[2:])))
    if not short:
        return np.zeros(values.shape)
    left, singular, right = np.linalg.svd(moved.reshape(*moved.shape[:2], -1), full_matrices=False)
    y, ratio = singular[:, :short] / np.sqrt(long), short / long
    above = y > 1.0 + np.sqrt(ratio)
    kept = np.zeros(y.shape)
    kept[above] = np.sqrt(np.maximum((y[above] ** 2 - ratio - 1.0) ** 2 - 4.0 * ratio, 0.0)) / y[above]
    # The values descend, so those above come first. Sums of equally many have the bits that they have for one table.
    counts = above.sum(axis=1)
    for count in np.unique(counts).tolist():
        own = np.flatnonzero(counts == count)
        rest = y[own, count:]
        below = (rest**2).sum(axis=1)
        own, rest, below = own[below > 0.0], rest[below > 0.0], below[below > 0.0]
        kept[own, count:] = rest * np.maximum(0.0, 1.0 - (short - count) / below)[:, None]
    made = (left[:, :, :short] * (kept * np.sqrt(long) * noise.reshape(-1, 1))[:, None]) @ right[:, :short]
    return np.moveaxis(made.reshape(moved.shape), 1, longest)


def shrunk_beside(deviation: Array, noise: float) -> Array:
    """Return the shrunk deviation (a, b, c) of a noisy table from the same table of fitted rows.

    The interaction of all axes is shrunk as in :func:`shrunk_table`. The interactions of fewer axes come from other
    measurements, but the rows may not match them exactly. They are shrunk by a common factor, by the excess of their
    squares over those of noise alone (James and Stein).
    """
    lower = deviation - noise * centred(np.clip(deviation / noise, -LARGEST, LARGEST))
    freedom = deviation.size - math.prod(side - 1 for side in deviation.shape)
    known = max(0.0, 1.0 - freedom / max(float(((lower / noise) ** 2).sum()), FAINTEST))
    return shrunk_table(deviation, noise) + known * lower


def centred(values: Array, first: int = 0) -> Array:
    """Return the values less their means along each axis from the ``first``, so that all sums along them are 0."""
    for axis in range(first, values.ndim):
        values = values - values.mean(axis=axis, keepdims=True)
    return values


def shrunk_products(deviation: Array, noise: float, places: NDArray[np.int64]) -> Array:
    """Return the shrunk deviations (K,) of noisy products from independence.

    ``noise`` is the standard deviation in each product, above 0. ``places`` (K, 2) are the two factors of each product
    among the scores of all columns; they belong to different columns.

    All products together are a symmetric matrix without the blocks on its diagonal. The estimate itself fills these
    blocks in (factor analysis). Let y be an eigenvalue, in units of the noise times the root of the size. Above 2 it
    becomes sqrt(y^2 - 4), and below 2 it becomes 0. This is optimal for the squared error of a large matrix of low rank
    (Donoho and Gavish 2014 and 2017). The rest of each product is shrunk by its own factor (James and Stein).
    """
    values = np.clip(deviation / noise, -LARGEST, LARGEST)
    common, _ = _common(values, places)
    rest = values - common
    return (common + rest * np.maximum(0.0, 1.0 - 1.0 / np.maximum(rest**2, np.finfo(float).tiny))) * noise


def shrunk_directions(deviation: Array, noise: float, places: NDArray[np.int64], scales: Array) -> Array:
    """Return the shrunk deviations (K,) of noisy products of directions from independence.

    As :func:`shrunk_products`, but the rest of all products is shrunk together by :func:`sparse_means`. Its noise is
    smaller, because the matrix of low rank has followed a part. ``scales`` (K,), not all 0, are proportional to how
    large the products can be; with scale 0 a product's rest is noise.
    """
    values = np.clip(deviation / noise, -LARGEST, LARGEST)
    common, left = _common(values, places)
    return (common + left * sparse_means((values - common) / left, scales / scales.max())) * noise


def shrunk_presence(deviation: Array, noise: float, counts: NDArray[np.int64], scales: Array | None = None) -> Array:
    """Return the shrunk deviations (K,) from independence of noisy products with scores of presence; 0 for others.

    ``counts`` (K,) are how many of both scores are of presence, and ``scales`` as for :func:`shrunk_directions`, by
    default all 1. Presence may depend on few columns, where ranks depend on each other everywhere. So
    :func:`sparse_means` has a prior of its own for products of two presences, and for those of presence and another
    column. A matrix of low rank would follow the strong ones, and with them the noise of all others in their rows.
    """
    made, scales = np.zeros(len(deviation)), np.ones(len(deviation)) if scales is None else scales
    for count in (1, 2):
        if (own := (counts == count) & (scales > 0.0)).any():
            values = np.clip(deviation[own] / noise, -LARGEST, LARGEST)
            made[own] = sparse_means(values, scales[own] / scales[own].max()) * noise
    return made


def shrunk_contrasts(deviation: Array, noise: float, places: NDArray[np.int64], scales: Array) -> Array:
    """Return the shrunk deviations (K,) of noisy products of contrasts from independence.

    As :func:`shrunk_directions`, but ``scales`` (K,) are the products of the standard deviations of the two factors,
    beyond which no true deviation lies. The noise of many products can be larger than that. Shrunk one by one, the
    largest third of pure noise would then count as strong dependence. Here a prior of possible sizes leaves hardly
    anything of it. Values that no noise and no rows explain stay as they are.
    """
    largest = float(scales.max(initial=0.0))
    values = np.clip(deviation / noise, -LARGEST, LARGEST)
    kept = np.zeros(len(values))
    if largest > 0.0:
        size = len(np.unique(places))
        common, left = np.zeros(len(values)), 1.0
        # If noise is larger, no possible dependence has an eigenvalue above those of noise.
        if 2.0 * noise <= math.sqrt(size) * largest:
            common, left = _common(values, places, 2.0 + CHANCE * size ** (-2.0 / 3.0))
        rest = sparse_means((values - common) / left, scales / largest, USUAL * largest / noise)
        kept = np.clip((common + left * rest) * noise, -scales, scales)
    return np.where(np.abs(values) > scales / noise + IMPOSSIBLE, values * noise, kept)


def sparse_means(values: Array, scales: Array, largest: float = math.inf) -> Array:
    """Return the posterior means (K,) of numbers that were measured with noise of deviation 1.

    Each number is 0, or it comes from a mixture of normal distributions whose deviations are multiples of its scale:
    most are small, a few are large. The size of the deviations and the fraction of numbers that are not 0 are averaged
    over a grid by their marginal likelihood (empirical Bayes), beside all numbers being 0. So noise alone leaves hardly
    anything, and strong numbers stay as they are. No size exceeds ``largest``, above 0. Cost: about 200 K exponentials.

    References
    ----------
    Johnstone and Silverman 2004, Needles and straw in haystacks; Stephens 2017, False discovery rates: a new deal.
    """
    most_size = min(max(float(np.abs(values).max(initial=0.0)), 2.0 * LEAST_SIZE), largest)
    sizes = np.geomspace(min(LEAST_SIZE, 0.5 * most_size), most_size, SIZES)
    # The sum of likelihoods over that of zeros alone, and of means with these weights, both over exp(most).
    most, total, made = 0.0, NOTHING, np.zeros(len(values))
    for size, fraction in product(sizes.tolist(), FRACTIONS):
        prior = (size * np.array(MULTIPLES)[:, None] * scales) ** 2
        part = prior / (1.0 + prior)
        # Logarithms of each number's likelihood over that of 0, under each normal distribution and under their mixture.
        ratios = 0.5 * (part * values**2 - np.log1p(prior)) - np.log(len(MULTIPLES))
        ratio = np.logaddexp.reduce(ratios, axis=0)
        mixed = np.logaddexp(math.log(fraction) + ratio, math.log1p(-fraction))
        evidence = float(mixed.sum())
        before, most = most, max(most, evidence)
        weight = math.exp(evidence - most) / (SIZES * len(FRACTIONS))
        shrunk = (np.exp(ratios - mixed) * part).sum(axis=0) * (fraction * values)
        made, total = made * math.exp(before - most) + weight * shrunk, total * math.exp(before - most) + weight
    return made / total


def _common(values: Array, places: NDArray[np.int64], above: float = 2.0) -> tuple[Array, float]:
    """Return the part (K,) of products that a matrix of low rank explains, and the deviation of the noise in the rest.

    The products are in units of their noise, and so are both results. The matrix's eigenvalues exceed ``above``, in
    units of the noise times the root of the size. The matrix has followed as many dimensions of the noise as it has
    parameters.
    """
    held, own = np.unique(places, return_inverse=True)
    size, (first, second) = len(held), own.reshape(-1, 2).T
    known, measured, found = np.zeros((size, size)), np.zeros((size, size), dtype=bool), np.zeros((size, size))
    known[first, second] = known[second, first] = values
    measured[first, second] = measured[second, first] = True
    for _ in range(ROUNDS):
        eigenvalues, vectors = np.linalg.eigh(np.where(measured, known, found))
        y = eigenvalues / np.sqrt(size)
        kept = np.sign(y) * np.sqrt(np.maximum(y**2 - 4.0, 0.0)) * np.sqrt(size) * (np.abs(y) > above)
        before, found = found, (vectors * kept) @ vectors.T
        # In units of the noise. With many columns the diagonal is a small part, so it settles at once.
        if np.abs(found - before).max(initial=0.0) <= SETTLED:
            break
    rank = int(np.count_nonzero(kept))
    followed = (rank * size - math.comb(rank, 2)) / max(1, math.comb(size, 2))
    return np.asarray(found[first, second]), math.sqrt(max(1.0 - followed, LEAST_LEFT))
