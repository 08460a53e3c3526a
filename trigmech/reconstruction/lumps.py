"""Lumps: shapes with a mass of their own beside the base of a smooth density.

An atom is a single interval, for a value that many rows share. A bump is a narrow bell, for rows that lie apart from
the others: a base has hardly any mass there, and its cosines cannot put it there.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, eye_array, kron, vstack
from scipy.special import ndtr

from trigmech._arrays import Array

# Bumps have standard deviations of 1, 2, 4, ... intervals, at most this fraction of the range, and lie a deviation
# apart. No part of a bump holds less than LEAST_PART of it.
WIDEST_BUMP, LEAST_PART = 0.12, 1e-6


@dataclass(frozen=True, eq=False)
class Lumps:
    """All possible lumps of a histogram of c intervals: c atoms, then bumps.

    shapes (l, c): The part of each lump in each interval. The total of a lump is 1.
    fine (l, c parts): The same for equal parts of intervals. Atoms are even within their interval.
    squares (l,): The squared lengths of the measured shapes.
    """

    shapes: csr_array
    fine: csr_array
    squares: Array

    @classmethod
    def of(cls, count: int, parts: int, gram: Array) -> "Lumps":
        """Return the lumps of ``count`` intervals; ``gram`` (c, c) is the product of the measurement with itself."""
        ends, width = np.linspace(0.0, count, count * parts + 1), 1.0
        made = [csr_array(kron(eye_array(count), np.full((1, parts), 1.0 / parts)))]
        while width <= WIDEST_BUMP * count:
            middles = np.arange(0.5 * width, count, width)
            bells = np.diff(ndtr((ends - middles[:, None]) / width), axis=1)
            bells[bells < LEAST_PART] = 0.0
            made.append(csr_array(bells / bells.sum(axis=1, keepdims=True)))
            width *= 2.0
        fine = csr_array(vstack(made))
        shapes = csr_array(fine @ kron(eye_array(count), np.ones((parts, 1))))
        return cls(shapes, fine, np.asarray((shapes * (shapes @ gram)).sum(axis=1)))
