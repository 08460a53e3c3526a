"""A rehearsal: the same release of a public table with simulated noise, which shows the error of the fit."""

from collections.abc import Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from trigmech._arrays import Array
from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import Design
from trigmech.privacy.budget import Charge
from trigmech.privacy.noise import SimulatedNoise, drawn
from trigmech.queries.base import Measurement
from trigmech.reconstruction.common import positioned


class _Rehearsal(Session):
    """A session for public rows, which charges nothing."""

    def __init__(self, rng: np.random.Generator, turned: bool = False) -> None:
        self._noise, self._turned = SimulatedNoise(rng), turned

    def charge(self, *charges: Charge) -> None:
        """Do nothing."""

    def draw(self, values: Array, charge: Charge) -> Array:
        noisy = drawn(self._noise, charge.law, values, charge.scale)
        return 2.0 * values - noisy if self._turned else noisy

    def _check_moves(self, asked: Sequence[Measurement[Any]], charge: Charge, n: int) -> None:
        """Accept all measurements, because the sensitivity to public rows does not matter."""


def rehearsed(design: Design, points: Array, rng: np.random.Generator, *, turned: bool = False) -> Array:
    """Return the points (m, D) that the release of a design would give for a public table.

    design: With its schema. The noise has the design's scales for any m.
    turned: Whether all noise has the opposite sign.

    Privacy: post-processing. It uses no private value, so nothing is charged. Cost: that of a release of m rows.
    """
    release = rehearsed_release(design, points, rng, turned=turned).described(design.schema_given)
    mechanism = copy(design.mechanism)
    # Mechanisms with an option for it fit as many rows as the table has. Others draw them from their fit.
    with suppress(AttributeError):
        object.__setattr__(mechanism, "points", len(points))
    made = mechanism.reconstruct(release, design, rng).distribution
    even = len(made.points) == len(points) and bool((made.weights == made.weights[0]).all())
    return made.points if even else made.sample(len(points), rng)


def rehearsed_release(design: Design, points: Array, rng: np.random.Generator, *, turned: bool = False) -> Release:
    """Return the release of a public table by a design. Its noise has the size for the design's n, also if m differs.

    Privacy: public numbers alone; nothing is charged. Cost: sums over m rows.
    """
    design = replace(design, facts=replace(design.facts, n=len(points)))
    return positioned(design.mechanism.run(
        PrivateRows.of(points, design.facts.domain), design, _Rehearsal(rng, turned), rng))
