"""What tables and products are taken to be: the released ones, without what is noise."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shrunk_table(deviation: Array, noise: float) -> Array:
    """Return a table's deviation from independence without the noise: its singular values, shrunk.

    Parameters
    ----------
    deviation : ndarray (a, b)
        Noisy, with rows and columns that sum to 0.
    noise : float
        Standard deviation in each entry.

    Notes
    -----
    A singular value y in units of noise sqrt(max(a, b)) becomes sqrt((y^2 - b - 1)^2 - 4 b) / y with b the ratio of
    sides, and 0 below 1 + sqrt(b): the best there is for the squared error of a matrix of low rank. What lies below
    together is kept as far as its squares exceed what noise alone has (James and Stein), for a table of full rank.

    References
    ----------
    Gavish and Donoho 2017, Optimal shrinkage of singular values.
    """
    size = min(deviation.shape)
    if size < 1 or not noise > 0.0:
        return deviation
    a, b = max(deviation.shape), size
    ratio, unit = b / a, noise * np.sqrt(a)
    left, values, right = np.linalg.svd(deviation, full_matrices=False)
    y = values / unit
    above = y > 1.0 + np.sqrt(ratio)
    kept = np.zeros(size)
    kept[above] = np.sqrt(np.maximum((y[above] ** 2 - ratio - 1.0) ** 2 - 4.0 * ratio, 0.0)) / y[above]
    below = float((y[~above] ** 2).sum())
    expected = ratio * int((~above).sum())
    if below > 0.0:
        kept[~above] = y[~above] * max(0.0, 1.0 - expected * a / (b * below) * 1.0) if expected else 0.0
    return (left * (kept * unit)) @ right
