"""Releases of the thesis's mechanisms: means of Chebyshev products, the mean of the rows, principal axes."""

from dataclasses import replace

import numpy as np

from trigmech._arrays import Array
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.features import Features
from trigmech.measurement.moments import PrivateMoments
from trigmech.measurement.release import Session
from trigmech.measurement.released import Axes, Release
from trigmech.privacy.budget import Charge
from trigmech.queries.base import Measurement
from trigmech.queries.functions import Functions
from trigmech.thesis.calibration import Calibration, NoiseScales


def release(moments: PrivateMoments, scales: NoiseScales, calibration: Calibration, session: Session,
            rng: np.random.Generator, rank: int = 0, iterations: int = 0,
            domain: Domain | None = None) -> Release:
    """Release means of Chebyshev products, and principal axes if the scales have them.

    Parameters
    ----------
    moments : PrivateMoments
        Sums of Chebyshev products, with the covariance if there are axes. The constant may come first. Its mean is 1
        for every table, so it gets no noise and costs nothing.
    scales : NoiseScales
        Public scales from :func:`trigmech.thesis.calibration.noise_scales`.
    calibration : {"published", "rigorous"}
        Decides the matrix of the subspace iteration; see :func:`subspace_iteration`.
    session : Session
        All steps are charged together before the first draw. The published scale of the axes depends on the released
        mean, so at published scales each step is charged before its own draw.
    rng : numpy.random.Generator
        For the public random start of the subspace iteration.
    rank, iterations : int
        The rank and the number of steps of the subspace iteration.
    domain : Domain, optional
        The domain of the rows. Default: only numbers.

    Raises
    ------
    InputError
        If the moments lack the covariance that the scales need, or if rank or iterations are below 1 or too large. Then
        nothing is charged or drawn.
    BudgetError
        If the charges would exceed the ledger's budget. Then nothing is charged or drawn; at published scales, earlier
        steps stay spent. Also if OpenDP's map for the noise gives a step a higher cost than its charge; this
        is checked for all steps before the first charge.

    Notes
    -----
    Privacy: proved in :mod:`trigmech.thesis.calibration`; the ledger holds the total.
    """
    features = Features.of(moments.functions)
    d = features.d
    if features.basis.constant not in (None, 0):
        raise InputError("the constant must be the first of the functions")
    if scales.mean is None or scales.axes is None:
        session.charge(scales.means)
        return _noisy_means(moments, features, domain, scales.means, session)
    if moments.second.shape != (d, d) or not (1 <= rank <= d and iterations >= 1):
        raise InputError(f"principal axes need the covariance of {d} columns, a rank from 1 to {d} and at least one "
                         f"iteration; given rank={rank!r} and iterations={iterations!r}")
    # The scale of the axes is unknown before the mean is released, but its least value is known.
    session.check(*scales.charges)
    charge = scales.axes(0.0)
    if calibration == "rigorous":
        # A ledger file could have room for the first step only, which would then be spent in vain.
        session.charge(scales.means, scales.mean, charge)
        released = _noisy_means(moments, features, domain, scales.means, session)
        mean = session.draw(moments.first / moments.n, scales.mean)
    else:
        session.charge(scales.means)
        released = _noisy_means(moments, features, domain, scales.means, session)
        session.charge(scales.mean)
        mean = session.draw(moments.first / moments.n, scales.mean)
        charge = scales.axes(float(np.linalg.norm(mean)))
        session.charge(charge)
    return replace(released, mean=mean,
                   axes=subspace_iteration(moments, mean, charge, calibration, session, rng, rank, iterations))


def _noisy_means(moments: PrivateMoments, features: Features, domain: Domain | None, charge: Charge,
                 session: Session) -> Release:
    first, made = int(features.basis.constant is not None), list[Measurement[Functions]]()
    if first:
        # The constant's mean is 1 for every table, so it needs no draw.
        made.append(Measurement(Functions.of(features, domain, slice(0, 1)), 1.0, np.ones(1), 0.0))
    if first < features.K:
        moving = Functions.of(features, domain, slice(first, None))
        made += session.drawn([Measurement(moving)], [moments.basis_sum[first:]], charge, moments.n)
    return Release(moments.n, made[0].query.domain, tuple(made))


def subspace_iteration(moments: PrivateMoments, mean: Array, charge: Charge, calibration: Calibration, session: Session,
                       rng: np.random.Generator, rank: int, iterations: int) -> Axes:
    """Return noisy principal axes by algorithm 6 (a charge of Gaussian noise) or 7 (Laplace noise).

    "published" multiplies by the covariance A about the exact mean. "rigorous" multiplies by the second moment M about
    the cube's centre. It subtracts the part of the released mean afterwards, which is post-processing. When a row is
    replaced, M moves 4 times less than A, and by an amount that does not depend on the table.

    charge: A recorded charge with ``count`` equal to ``iterations``.
    rank, iterations: k and L of the thesis, at least 1; rank at most d.

    Privacy: :mod:`trigmech.thesis.calibration`. The thesis prints noise of shape (n, k); the product has shape (d, k).
    Cost: L products of (d, d) and (d, k). Source: Huang 2014, algorithms 6 and 7; Hardt 2013.
    """
    matrix = moments.second / moments.n
    if calibration == "published":
        exact_mean = moments.first / moments.n
        matrix = matrix - np.outer(exact_mean, exact_mean)
    directions = _gram_schmidt(rng.standard_normal((len(mean), rank)))
    for _ in range(iterations):
        previous = directions
        images = session.draw(matrix @ previous, charge)
        if calibration == "rigorous":
            images -= np.outer(mean, mean @ previous)
        directions = _gram_schmidt(images)
    return Axes(directions, images, previous)


def _gram_schmidt(matrix: Array) -> Array:
    """Return orthonormal columns; each has a positive component along its original column."""
    q, r = np.linalg.qr(matrix)
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
