"""Samples of more rows than were fitted: each further copy of a row has numbers of its own, where these lie free.

A release of columns and tables says in which interval a number lies and no more: within the interval a fitted row has
it anywhere. So has each copy. Everything that rows were fitted to (frequencies of the columns' positions, tables,
products) is a function of the positions, which copies keep, and is of the sample exactly what it would be if rows were
repeated as they are. Of other releases means are known, which moved numbers would change: there copies are equal.
"""

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution
from trigmech.functions.partition import all_codes
from trigmech.measurement.released import Release
from trigmech.measurement.table_release import TableRelease
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.schema.schema import Schema

Array = NDArray[np.float64]


def sampled(schema: Schema, release: Release | TableRelease, fitted: Distribution, size: int,
            rng: np.random.Generator) -> Array:
    """Return rows of a fitted distribution as points (size, D) of the cube.

    Parameters
    ----------
    schema : Schema
        Whose constraints all rows keep, as the fitted ones do.
    release : Release or TableRelease
        That the points were fitted to.
    fitted : Distribution
    size : int
        At least 0.
    rng : numpy.random.Generator

    Notes
    -----
    Privacy: post-processing. The first copy of each point is the point itself. Of the others categories, special and
    missing values stay; a number is drawn anew in its released interval, or among its levels there, but where it is the
    one value that the interval's rows share. A copy that keeps the constraints in no draw is a repetition.
    """
    chosen = fitted.drawn(size, rng)
    points = fitted.points[chosen]
    if not isinstance(release, TableRelease):
        return points
    again = copies(chosen)
    if len(again):
        constrained = ConstrainedRows(schema, release.columns, release.closer)
        rows = all_codes([column.partition for column in constrained.columns], fitted.points)
        points[again] = constrained.redrawn(points[again], rows[chosen[again]], rng)
    return points


def copies(chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where numbers stand of which an equal one stands before, ascending."""
    first = np.zeros(len(chosen), dtype=np.bool_)
    first[np.unique(chosen, return_index=True)[1]] = True
    return np.flatnonzero(~first)
