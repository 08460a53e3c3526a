"""What tables and products are taken to be: the released ones, without what is noise."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# Squares and fourth powers of what is larger would overflow.
LARGEST = 1e60


def shrunk_table(deviation: Array, noise: float) -> Array:
    """Return a table's deviation from independence without the noise.

    Parameters
    ----------
    deviation : ndarray (a, b)
        Noisy.
    noise : float
        Standard deviation in each entry, above 0.

    Returns
    -------
    ndarray (a, b)
        With rows and columns that sum to 0: the columns' own distributions are known better from elsewhere.

    Notes
    -----
    Sums of 0 leave one dimension less on each side. A singular value y, in units of noise times the root of the longer
    side, becomes sqrt((y^2 - r - 1)^2 - 4 r) / y with r the ratio of the sides, and 0 below 1 + sqrt(r): the best there
    is for the squared error of a large matrix of low rank. What lies below together is kept as far as its squares
    exceed those of noise alone (James and Stein), which serves tables of full rank.

    References
    ----------
    Gavish and Donoho 2017, Optimal shrinkage of singular values.
    """
    if not (min(deviation.shape) > 0 and noise > 0.0):
        return deviation
    values = np.clip(deviation / noise, -LARGEST, LARGEST)
    values = values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()
    short, long = sorted(side - 1 for side in values.shape)
    if not short:
        return np.zeros(values.shape)
    left, singular, right = np.linalg.svd(values, full_matrices=False)
    y, ratio = singular[:short] / np.sqrt(long), short / long
    above = y > 1.0 + np.sqrt(ratio)
    kept = np.zeros(short)
    kept[above] = np.sqrt(np.maximum((y[above] ** 2 - ratio - 1.0) ** 2 - 4.0 * ratio, 0.0)) / y[above]
    below, rest = float((y[~above] ** 2).sum()), float(short - above.sum())
    if below > 0.0:
        kept[~above] = y[~above] * max(0.0, 1.0 - rest / below)
    return (left[:, :short] * (kept * np.sqrt(long) * noise)) @ right[:short]


def shrunk_products(deviation: Array, noise: float, pairs: NDArray[np.int64]) -> Array:
    """Return products' deviations from independence without the noise.

    Parameters
    ----------
    deviation : ndarray (p, q, q)
        Noisy.
    noise : float
        Standard deviation in each entry, above 0.
    pairs : ndarray (p, 2) of int
        The columns of each.

    Notes
    -----
    All columns' scores are one symmetric matrix, with zeros where no pair is. What they have in common is of low rank:
    an eigenvalue w becomes sqrt(w^2 - e^2), 0 below e, the edge of the eigenvalues of noise alone. What is left of each
    product is shrunk by itself (James and Stein).
    """
    columns, places = np.unique(pairs, return_inverse=True)
    q = deviation.shape[1]
    first, second = (places.reshape(-1, 2)[:, side, None, None] * q for side in (0, 1))
    rows, others = np.broadcast_arrays(first + np.arange(q)[:, None], second + np.arange(q))
    values = np.clip(deviation / noise, -LARGEST, LARGEST)
    matrix = np.zeros((len(columns) * q, len(columns) * q))
    matrix[rows, others] = matrix[others, rows] = values
    eigenvalues, vectors = np.linalg.eigh(matrix)
    edge = 2.0 * np.sqrt(2.0 * values.size / len(matrix))
    kept = np.sign(eigenvalues) * np.sqrt(np.maximum(eigenvalues**2 - edge**2, 0.0))
    common = ((vectors * kept) @ vectors.T)[rows, others]
    rest = values - common
    return (common + rest * np.maximum(0.0, 1.0 - 1.0 / np.maximum(rest**2, np.finfo(float).tiny))) * noise
