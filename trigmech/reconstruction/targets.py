"""Targets from released moments, and the columns' distributions that these moments suggest."""

from dataclasses import dataclass, replace

import numpy as np

from trigmech._arrays import Array
from trigmech.domain import OneHotGroup
from trigmech.functions.index import FunctionIndex
from trigmech.reconstruction.marginals import SmoothMarginals
from trigmech.reconstruction.shrinkage import (
    independent_means,
    moments_of_columns,
    shrink_columns,
    shrink_interactions,
)

# The least fraction of ordinary numbers in a column with special values that its noisy moments are divided by.
LEAST_ORDINARY = 0.01
# Beyond the degree that was released, the distributions' means are of use to a fit up to this degree.
LAST_DEGREE = 12
# Standard deviations by which noise alone changes a mean at most, next to always.
FURTHEST = 5.0


@dataclass(frozen=True, eq=False)
class MomentTargets:
    """The targets of the fit of a distribution.

    The marginals are of the domain's numbers, where their columns hold no special value, or None; frequencies are of
    each group's indicators; columns (p, d) are the means of T_1, ..., T_p of each coordinate, p at least 12; means (K,)
    are those of the functions; deviations (K,) are how far the means may be from the truth; expected (K,) are the means
    under independent columns.
    """

    marginals: SmoothMarginals | None
    frequencies: tuple[Array, ...]
    columns: Array
    means: Array
    deviations: Array
    expected: Array

    @classmethod
    def explained(cls, index: FunctionIndex, means: Array, deviations: Array, denoise: bool) -> "MomentTargets":
        """Return the released moments for the fit: as they are, or after shrinking the noise."""
        domain, degree = index.domain, max(int(index.highest.max(initial=0)), LAST_DEGREE)
        frequencies = tuple(_frequencies(index, means, group) for group in domain.groups)
        at_zero = np.cos(np.arange(1, degree + 1) * np.pi / 2.0)
        columns, special = np.zeros((degree, domain.d)), np.zeros(domain.d)
        for group, p in zip(domain.groups, frequencies, strict=True):
            columns[:, list(group.coordinates)] = p + np.outer(at_zero, 1.0 - p)
            if group.value is not None:
                special[group.value] = min(float(p.sum()), 1.0 - LEAST_ORDINARY)
        numbers, marginals = list(domain.numbers), None
        places = index.alone(numbers)
        alone, of_alone = moments_of_columns(places, means, deviations)
        if numbers:
            if denoise:
                alone, of_alone = shrink_columns(alone, of_alone)
            rest = 1.0 - special[numbers]
            # A number whose column holds a special value is 0 there.
            offset = np.outer(at_zero[: len(alone)], special[numbers])
            marginals = SmoothMarginals.fit((alone - offset) / rest, of_alone / rest)
            columns[:, numbers] = rest * marginals.chebyshev_means(degree) + np.outer(at_zero, special[numbers])
        expected, joint = independent_means(index.degrees, columns), index.joint
        released = cls(marginals, frequencies, columns, means, deviations, expected)
        if not denoise:
            return released
        target, deviations = means.copy(), deviations.copy()
        # If the columns' distributions do not follow their noisy moments, the rest is noise, if noise can be so large.
        target[places[places >= 0]], deviations[places[places >= 0]] = alone[places >= 0], of_alone[places >= 0]
        single = index.single
        single = single[np.abs(expected[single] - target[single]) <= FURTHEST * deviations[single]]
        target[single] = expected[single]
        # By columns instead of coordinates, so that a contingency table is one set of functions.
        target[joint] = shrink_interactions(index.by_column[joint], means[joint], deviations[joint], expected[joint])
        return replace(released, means=target, deviations=deviations)

    def tables_differ(self, index: FunctionIndex) -> bool:
        """Return whether any set of columns, of a table with indicators, is not as under independence."""
        return bool(index.domain.groups) and bool((self.means[index.joint] != self.expected[index.joint]).any())

    def at(self, scales: Array) -> "MomentTargets":
        """Return the same means with other deviations."""
        return replace(self, deviations=scales)


def nearest_frequencies(noisy: Array, complete: bool) -> Array:
    """Return the nearest point of the simplex (of sum 1, or at most 1 if incomplete) to noisy frequencies."""
    clipped = np.maximum(noisy, 0.0)
    if not complete and clipped.sum() <= 1.0:
        return clipped
    ordered = np.sort(noisy)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(noisy) + 1)
    return np.maximum(noisy - excess[np.flatnonzero(ordered > excess)[-1]], 0.0)


def _frequencies(index: FunctionIndex, means: Array, group: OneHotGroup) -> Array:
    """Return the frequencies of a group's indicators: nearest to the released ones, or to even ones if not released."""
    places = index.alone(group.coordinates)[0]
    even = 1.0 / (len(places) + (not group.complete))
    return nearest_frequencies(np.where(places < 0, even, means[places]), group.complete)
