"""Releases of the thesis's mechanisms: means of Chebyshev products, the mean of the rows, principal axes."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

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

Array = NDArray[np.float64]


def release(moments: PrivateMoments, scales: NoiseScales, calibration: Calibration, session: Session,
            rng: np.random.Generator, rank: int = 0, iterations: int = 0,
            domain: Domain | None = None) -> Release:
    """Release means of Chebyshev products, and principal axes if the scales have them.

    Parameters
    ----------
    moments : PrivateMoments
        Sums of Chebyshev products, with the covariance if there are axes. The constant may come first: its mean is
        1 whatever the table, so it gets no noise and costs nothing.
    scales : NoiseScales
        Public; made by :func:`trigmech.thesis.calibration.noise_scales`.
    calibration : {"published", "rigorous"}
        Decides which matrix the subspace iteration multiplies by; see :func:`subspace_iteration`.
    session : Session
        All steps are charged, together, before the first draw; but at the published scales, where that of the axes
        depends on the released mean, each step before its own.
    rng : numpy.random.Generator
        For the public random start of the subspace iteration.
    rank, iterations : int
        The rank and the number of steps of the subspace iteration.
    domain : Domain, optional
        The domain of the rows. Default: only numbers.

    Returns
    -------
    Release

    Raises
    ------
    InputError
        If the moments lack the covariance that the scales need, or rank or iterations are
        below 1 or too large; nothing is charged or drawn then.
    BudgetError
        If the charges would exceed the ledger's budget: nothing is charged or drawn then, but for earlier steps at the
        published scales, which stay spent. If by the noise's own proof a step costs more than its charge: for
        all steps before anything is charged.

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
    # The axes' own scale is not known before the mean is, but the least one is.
    session.check(*scales.charges)
    charge = scales.axes(0.0)
    if calibration == "rigorous":
        # A data set's ledger file could have room for the first step alone, which would then be spent in vain.
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
        # The constant's mean is 1 whatever the table: it is known without a draw.
        made.append(Measurement(Functions.of(features, domain, slice(0, 1)), 1.0, np.ones(1), 0.0))
    if first < features.K:
        moving = Functions.of(features, domain, slice(first, None))
        made += session.drawn([Measurement(moving)], [moments.basis_sum[first:]], charge, moments.n)
    return Release(moments.n, made[0].query.domain, tuple(made))


def subspace_iteration(moments: PrivateMoments, mean: Array, charge: Charge, calibration: Calibration, session: Session,
                       rng: np.random.Generator, rank: int, iterations: int) -> Axes:
    """Return noisy principal axes: algorithm 6 (Gaussian) or 7 (Laplace), whichever noise the charge is of.

    "published" multiplies by the covariance A about the exact mean. "rigorous" multiplies by the second moment M about
    the cube's centre and subtracts the released mean's part afterwards, which is post-processing: M moves 4 times
    less than A when a row is replaced, and by an amount that does not depend on the table.

    Parameters
    ----------
    moments : PrivateMoments
    mean : ndarray (d,)
        The released mean.
    charge : Charge
        With ``count`` equal to ``iterations``; recorded already.
    session : Session
    rank, iterations : int
        k and L of the thesis, at least 1; rank at most d.

    Notes
    -----
    Privacy: :mod:`trigmech.thesis.calibration`. The thesis prints noise of shape (n, k); the product has shape (d, k).
    Cost: L products of (d, d) and (d, k).

    References
    ----------
    Huang 2014, algorithms 6 and 7; Hardt 2013.
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
    """Return the columns made orthonormal in order, each with a positive component along the original one."""
    q, r = np.linalg.qr(matrix)
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
