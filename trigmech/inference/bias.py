"""The bias of fits, from the values of a statistic of rehearsals (:mod:`trigmech.inference.rehearsing`)."""

import numpy as np

from trigmech._arrays import Array


def bias(values: Array) -> Array:
    """Return the mean of the fits minus the table (r, ...), of a statistic of each rehearsal's tables (r, 3, ...)."""
    return np.asarray(0.5 * (values[:, 1] + values[:, 2]) - values[:, 0])


def at_zero(values: Array) -> Array:
    """Return the same under the hypothesis that the statistic is 0.

    A table of the hypothesis differs from 0 by chance, and where fits do not have this, it is no bias. So fits that are
    nearer to 0 than to the table count by their distance from 0.
    """
    off, fits = bias(values), values[:, 1:].mean(axis=1)
    return np.where(np.abs(fits) < np.abs(off), fits, off)


def squared(found: Array) -> Array:
    """Return the mean square of biases (r, ...) over the rehearsals. One that is not finite says nothing."""
    known = np.isfinite(found)
    total = np.square(np.where(known, found, 0.0)).sum(axis=0)
    return np.asarray(total / np.maximum(known.sum(axis=0), 1))
