"""Contrasts: functions of finitely many cells that, with the constant, span all functions of them. Public."""

from functools import lru_cache

import numpy as np

from trigmech._arrays import Array, Integers


@lru_cache(maxsize=256)
def contrasts(cells: int) -> Integers:
    """Return the signs (cells, cells - 1), -1, 0 and 1, of cosines of the cell's place, of growing degree.

    Under noise that is charged for the largest move of any of them, signs leave less noise in the cells' frequencies
    than the cosines themselves: of 2 cells and of 4, where they are Walsh's, the least there is.
    """
    waves = np.cos(np.pi * np.arange(1, cells) * (np.arange(cells)[:, None] + 0.5) / cells)
    # Cosines of right angles are rounding alone.
    found = np.where(np.abs(waves) < 1e-9, 0, np.sign(waves)).astype(np.int64)
    found.flags.writeable = False  # The cache gives it to everybody.
    return found


@lru_cache(maxsize=256)
def signs(special: int, intervals: int, count: int) -> Integers:
    """Return the signs (special + intervals, special + count), -1, 0 and 1, of a number's positions.

    The first functions tell each special value from all other positions. The others are the first contrasts of the
    intervals, and are 0 at special values.
    """
    found = np.zeros((special + intervals, special + count), dtype=np.int64)
    found[:, :special] = 2 * np.eye(special + intervals, special, dtype=np.int64) - 1
    found[special:, special:] = contrasts(intervals)[:, :count]
    found.flags.writeable = False
    return found


@lru_cache(maxsize=256)
def decoding(cells: int) -> Array:
    """Return the matrix (cells, cells - 1) that turns contrasts' means into frequencies, up to those of equal cells."""
    values = contrasts(cells).astype(np.float64)
    found = np.linalg.pinv(values - values.mean(axis=0)).T
    found.flags.writeable = False
    return found


def decoded(values: Array) -> Array:
    """Return the frequencies (cells,), of sum 1, that contrasts' means (cells - 1,) imply, without bias."""
    cells = len(values) + 1
    return 1.0 / cells + decoding(cells) @ (values - contrasts(cells).mean(axis=0))
