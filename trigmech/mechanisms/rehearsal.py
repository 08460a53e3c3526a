"""A rehearsal: the same release of a public table with simulated noise, which shows the error of the fit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import Design
from trigmech.mechanisms.table import TableMechanism, released
from trigmech.planning.tables import PROOF, TableDesign
from trigmech.privacy.budget import NORMS, Charge, Law, deviation_of
from trigmech.privacy.noise import SimulatedNoise, drawn
from trigmech.queries.base import Measurement
from trigmech.queries.directions import Directions
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import Contrasts, Ranges
from trigmech.reconstruction.tables import reconstruct_table

Array = NDArray[np.float64]


class _Rehearsal(Session):
    """A session for public rows, which charges nothing."""

    def __init__(self, rng: np.random.Generator, turned: bool = False) -> None:
        self._noise, self._turned = SimulatedNoise(rng), turned

    def charge(self, *charges: Charge) -> None:
        """Do nothing."""

    def draw(self, values: Array, charge: Charge) -> Array:
        """Return the values with simulated noise of the charge's distribution and scale, or with its opposite."""
        noisy = drawn(self._noise, charge.law, values, charge.scale)
        return 2.0 * values - noisy if self._turned else noisy

    def _check_moves(self, asked: Sequence[Measurement[Any]], charge: Charge, n: int) -> None:
        """Accept all measurements, because the sensitivity to public rows does not matter."""


def rehearsed(release: Release, points: Array, rng: np.random.Generator, design: Design | None = None,
              turned: bool = False) -> Array:
    """Return the points (m, D) that the same release of another table, a public one, would give.

    Parameters
    ----------
    release : Release
        The release of the private table.
    points : ndarray (m, D), public
        The rows of the public table, as points of the release's domain.
    rng : numpy.random.Generator
        Draws the noise, which has the release's scales for any m, and the fit's random numbers.
    design : Design, optional
        The design of the release. Mechanisms other than :class:`trigmech.TableMechanism` require it.
    turned : bool
        Whether the noise is the opposite of that which the same random numbers give otherwise. In the mean of both
        releases noise cancels, so that the bias of the fit remains.

    Notes
    -----
    Privacy: post-processing. It uses no private value, so nothing is charged. Cost: that of a release of m rows.
    """
    session = _Rehearsal(rng, turned)
    if design is not None and not isinstance(design.mechanism, TableMechanism):
        facts = replace(design.facts, n=len(points), domain=release.domain)
        made: Any = design.mechanism.run(PrivateRows.of(points, release.domain), replace(design, facts=facts), session,
                                         rng)
        whole = made if release.schema is None else made.described(release.schema)
        return design.mechanism.reconstruct(whole, design, rng).distribution.sample(len(points), rng)
    again = released(PrivateRows.of(points, release.domain), _design_of(release, len(points)), session)
    schema = release.schema
    return reconstruct_table(again if schema is None else again.described(schema), len(points), rng).points


def rehearsed_release(design: Design, points: Array, rng: np.random.Generator) -> Release:
    """Return what a design would release of a public table: with its noise for the design's n, whatever m is.

    Parameters
    ----------
    design : Design
        Of :class:`trigmech.TableMechanism`.
    points : ndarray (m, D), public
    rng : numpy.random.Generator

    Notes
    -----
    Privacy: public numbers alone; nothing is charged. Cost: sums over m rows.
    """
    again = released(PrivateRows.of(points, design.facts.domain), replace(design.measured, n=len(points)),
                     _Rehearsal(rng))
    return replace(again, n=design.facts.n)


def _design_of(release: Release, rows: int) -> TableDesign:
    """Return the design of a release for another number of rows, as far as the release determines the design."""
    looks, kinds = release.looks, Marginal | Products | Directions
    joint = [each for each in release.measurements if isinstance(each.query, kinds)]
    gaussian = isinstance(looks[0].query, Ranges)
    law: Law = "gaussian" if gaussian else "laplace"

    def charge(deviation: float, law: Law = law, entries: int = 1) -> Charge:
        return Charge("rehearsal", law, deviation / deviation_of(law, entries), 1.0 / rows, NORMS[law][0], 1, PROOF)

    # With charges of deviation 1, these weights give the released deviations.
    contrasted = np.array([isinstance(look.query, Contrasts) for look in looks])
    entries = sum(look.query.size for look in looks if isinstance(look.query, Contrasts))
    design = TableDesign(rows, release.domain, gaussian, tuple(look.query.partition for look in looks), contrasted,
                         np.array([1.0 / look.deviation for look in looks]), None if contrasted.all() else charge(1.0),
                         charge(1.0, "linf", entries) if entries else None, None, None, 0.0, 1)
    if release.closer:
        design = replace(design, closer=charge(release.closer[0].deviation * design.closer_weight))
    if not joint:
        return design
    products, noise = release.products, joint[0].noise
    if products is not None and products.query.contrasted:
        return replace(design, dependence=charge(noise, "linf", products.query.size))
    # The noise of the last round differs from that of the second.
    last = [each for each in joint if each.noise != noise]
    first = [each for each in joint if each.noise == noise and isinstance(each.query, Marginal)]
    weights = np.array([each.weight for each in first])
    of_tables = 2.0 * float((weights**2 if gaussian else weights).sum())
    return replace(design, dependence=charge(noise), crossed=_crossed(len(looks), first),
                   scores=_scores(release),
                   products=0.0 if products is None and release.directions is None else max(0.0, 1.0 - of_tables),
                   selected=charge(last[0].noise) if last else None,
                   triples=release.importance)


def _scores(release: Release) -> int:
    if release.directions is not None:
        return 0
    return 1 if release.products is None else max(score.shape[1] for score in release.products.query.scores)


def _crossed(d: int, tables: Sequence[Measurement[Any]]) -> tuple[int, ...]:
    """Return the columns whose tables with all others have more weight than the tables' shapes explain."""
    a, b = np.array([each.query.shape for each in tables], dtype=np.float64).reshape(-1, 2).T
    importance = np.array([each.weight for each in tables]) ** 3 / np.sqrt(a * b * (a + b))
    more, pairs = importance > 1.5 * importance.min(), np.array([each.query.columns for each in tables])
    if more.all() or not more.any():
        return ()
    return tuple(j for j in range(d) if more[(pairs == j).any(axis=1)].all())
