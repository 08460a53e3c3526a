"""Samples of more rows than were fitted: each further copy of a row has numbers of its own, where these lie free.

A release of columns and tables says only in which interval a number lies. A fitted row has its number at any place in
the interval, and so does each copy. Everything that rows were fitted to (frequencies of the columns' positions, tables,
products) is a function of the positions, which copies keep, and is of the sample exactly what it would be if rows were
repeated as they are. Other releases hold means, which moved numbers would change: their copies are equal.
"""

import numpy as np
from numpy.typing import NDArray

from trigmech.distribution import Distribution
from trigmech.measurement.released import Release
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.schema.schema import Schema
from trigmech.tables.different import copies, numbered

Array = NDArray[np.float64]

# Draws of numbers for copies that are still equal to another row.
DRAWS = 8


def sampled(schema: Schema, release: Release, fitted: Distribution, size: int,
            rng: np.random.Generator) -> Array:
    """Return rows of a fitted distribution as points (size, D) of the cube.

    Parameters
    ----------
    schema : Schema
        Whose constraints all rows keep, as the fitted ones do.
    release : Release
        That the points were fitted to.
    fitted : Distribution
    size : int
        At least 0.
    rng : numpy.random.Generator

    Notes
    -----
    Privacy: post-processing. The first copy of each point is the point itself. The other copies keep its categories,
    special and missing values; a number is drawn again in its released interval, or among its levels there, except
    where it is the one value that the interval's rows share. A copy repeats a row if no draw keeps the constraints, or
    if the rounded numbers of its intervals are too few for all copies.

    Cost: up to eight draws of numbers, and a sort of the sample after each.
    """
    chosen = fitted.drawn(size, rng)
    points = fitted.points[chosen]
    if not release.columns:
        return points
    again = copies(chosen)
    if len(again):
        constrained = ConstrainedRows(schema, release.columns, release.closer)
        rows = constrained.positions(fitted.points)[chosen]
        for _ in range(DRAWS):
            points[again] = constrained.redrawn(points[again], rows[again], rng)
            # Numbers are rounded, so that copies can still be equal to others.
            order = np.concatenate([np.setdiff1d(np.arange(size), again), again])
            equal = order[copies(numbered(schema.decode(points).values())[order])]
            left = np.intersect1d(again, equal)
            # Where most are equal again there are too few numbers for them.
            if len(left) == 0 or len(left) > 10 + 0.5 * len(again):
                break
            again = left
    return points
