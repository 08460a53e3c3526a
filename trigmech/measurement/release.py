"""THE DOOR. Certify the noise, charge the ledger, draw: the only way from private moments to anything public."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.errors import BudgetError, InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features, FunctionSet
from trigmech.measurement.moments import PrivateMoments
from trigmech.measurement.released import Axes, MomentRelease, Release
from trigmech.planning.calibration import Calibration, Plan
from trigmech.planning.design import Block
from trigmech.privacy.budget import Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import Noise

Array = NDArray[np.float64]

# What the noise's own proof may say more than a charge, relatively: both round, and OpenDP upwards.
CERTIFIED_WITHIN = 1e-9
# Standard deviations beyond this overflow in what is computed of them.
LARGEST_DEVIATION = 1e100


def release(moments: PrivateMoments, basis: ChebyshevBasis, plan: Plan, calibration: Calibration, ledger: Ledger,
            noise: Noise, rng: np.random.Generator, rank: int = 0, iterations: int = 0) -> Release:
    """Release what a plan asks for.

    Parameters
    ----------
    moments : PrivateMoments
        With the covariance if the plan has axes.
    basis : ChebyshevBasis
        That the moments are of.
    plan : Plan
        Public; made by :func:`trigmech.planning.calibration.plan`.
    calibration : {"published", "rigorous"}
        Decides which matrix the subspace iteration multiplies by; see :func:`subspace_iteration`.
    ledger : Ledger
        All steps are charged, together, before the first draw; but at the published scales, where that of the axes
        depends on the released mean, each step before its own.
    noise : Noise
    rng : numpy.random.Generator
        For the public random start of the subspace iteration.
    rank, iterations : int
        Of the subspace iteration.

    Returns
    -------
    Release

    Raises
    ------
    InputError
        If the moments are of other functions or lack the covariance that the plan needs, or rank or iterations are
        below 1 or too large; nothing is charged or drawn then.
    BudgetError
        If the charges would exceed the ledger's budget: nothing is charged or drawn then, but for earlier steps at the
        published scales, which stay spent. If the noise's own proof says that a step costs more than its charge: for
        all steps before anything is charged.

    Notes
    -----
    Privacy: proved in :mod:`trigmech.planning.calibration`; the ledger holds the total.
    """
    _check_functions(moments, basis)
    _certify(plan.means, noise)
    if plan.mean is not None and plan.axes is not None:
        if moments.second.shape != (basis.d, basis.d) or not (1 <= rank <= basis.d and iterations >= 1):
            raise InputError(f"principal axes need the covariance of {basis.d} columns, a rank from 1 to {basis.d} and "
                             f"at least one iteration; given rank={rank!r} and iterations={iterations!r}")
        _certify(plan.mean, noise)
        # The axes' own scale is not known before the mean is, but the least one is.
        _certify(plan.axes(0.0), noise)
    exact = moments.basis_sum / moments.n
    moving = basis.index.any(axis=1)
    means = np.ones(basis.K)
    if plan.mean is None or plan.axes is None:
        # The constant's mean is 1 whatever the table, so it needs no noise and costs nothing.
        means[moving] = _noisy(exact[moving], plan.means, ledger, noise)
        return Release(moments.n, basis, means, plan.means.scale)
    if calibration == "rigorous":
        # A data set's ledger file could have room for the first step alone, which would then be spent in vain.
        charge = plan.axes(0.0)
        ledger.charge(plan.means, plan.mean, charge)
        means[moving] = _draw(exact[moving], plan.means, noise)
        mean = _draw(moments.first / moments.n, plan.mean, noise)
        axes = subspace_iteration(moments, mean, charge, calibration, None, noise, rng, rank, iterations)
    else:
        means[moving] = _noisy(exact[moving], plan.means, ledger, noise)
        mean = _noisy(moments.first / moments.n, plan.mean, ledger, noise)
        charge = plan.axes(float(np.linalg.norm(mean)))
        axes = subspace_iteration(moments, mean, charge, calibration, ledger, noise, rng, rank, iterations)
    return Release(moments.n, basis, means, plan.means.scale, mean, axes)


def release_moments(moments: PrivateMoments, features: Features, blocks: Sequence[Block], ledger: Ledger,
                    noise: Noise) -> MomentRelease:
    """Release weighted means, each block by one mechanism call.

    Parameters
    ----------
    moments : PrivateMoments
    features : Features
        That the moments are of.
    blocks : sequence of Block
        Consecutive, together all K functions; made by :func:`trigmech.planning.planner.plan_moments`.
    ledger : Ledger
        All blocks are charged, together, before the first draw.
    noise : Noise

    Returns
    -------
    MomentRelease

    Raises
    ------
    InputError
        If the moments are of other functions; nothing is charged or drawn then.
    BudgetError
        If the blocks do not fit, the noise's own proof says that one costs more than its charge, or together they would
        exceed the ledger's budget; nothing is charged or drawn then.

    Notes
    -----
    Privacy: the movements of the weighted means are proved in :mod:`trigmech.planning.planner`; dividing by the public
    weights afterwards is post-processing.
    """
    _check_functions(moments, features)
    places = [range(features.K)[block.members] for block in blocks]
    if [k for place in places for k in place] != list(range(features.K)) or any(
            block.weights.shape != (len(place),) for block, place in zip(blocks, places, strict=True)):
        raise BudgetError(f"the blocks must hold {features.K} functions together, one after another, and a weight each")
    for block in blocks:
        if not block.deviation <= LARGEST_DEVIATION * float(block.weights.min()):
            raise BudgetError(f"{block.charge.purpose}: noise of a deviation above {LARGEST_DEVIATION:g} leaves "
                              "nothing of a mean")
        _certify(block.charge, noise)
    ledger.charge(*(block.charge for block in blocks))
    exact = moments.basis_sum / moments.n
    means = [_draw(exact[block.members] * block.weights, block.charge, noise) / block.weights for block in blocks]
    scales = [block.deviation / block.weights for block in blocks]
    return MomentRelease(moments.n, features, np.concatenate(means), np.concatenate(scales))


def release_counts(counts: Array, charge: Charge, ledger: Ledger, noise: Noise) -> Array:
    """Release numbers of rows by one mechanism call; made for :mod:`trigmech.measurement.private_bounds`, which proves
    the sensitivity.

    Parameters
    ----------
    counts : ndarray, private
    charge : Charge
        Recorded before the draw.
    ledger : Ledger
    noise : Noise

    Returns
    -------
    ndarray

    Raises
    ------
    BudgetError
        If the noise's own proof says that it costs more than the charge, or the charge would exceed the budget; nothing
        is drawn then.
    """
    _certify(charge, noise)
    return _noisy(counts, charge, ledger, noise)


def subspace_iteration(moments: PrivateMoments, mean: Array, charge: Charge, calibration: Calibration,
                       ledger: Ledger | None, noise: Noise, rng: np.random.Generator, rank: int,
                       iterations: int) -> Axes:
    """Return noisy principal axes: algorithm 6 (Gaussian) or 7 (Laplace), whichever the charge's law is.

    "published" multiplies by the covariance A about the exact mean. "rigorous" multiplies by the second moment M about
    the cube's centre and subtracts the released mean's part afterwards, which is post-processing: M moves 4 times
    less than A when a row is replaced, and by an amount that does not depend on the table.

    Parameters
    ----------
    moments : PrivateMoments
    mean : ndarray (d,)
        The released mean.
    charge : Charge
        With ``count`` equal to ``iterations``; recorded as a whole before the first draw.
    ledger : Ledger or None
        None if the charge is recorded already.
    rank, iterations : int
        k and L of the thesis, at least 1; rank at most d.

    Notes
    -----
    Privacy: :mod:`trigmech.planning.calibration`. The thesis prints noise of shape (n, k); the product has shape (d,
    k). Cost: L products of (d, d) and (d, k).

    References
    ----------
    Huang 2014, algorithms 6 and 7; Hardt 2013.
    """
    _certify(charge, noise)
    if ledger is not None:
        ledger.charge(charge)
    matrix = moments.second / moments.n
    if calibration == "published":
        exact_mean = moments.first / moments.n
        matrix = matrix - np.outer(exact_mean, exact_mean)
    directions = _gram_schmidt(rng.standard_normal((len(mean), rank)))
    for _ in range(iterations):
        previous = directions
        images = _draw(matrix @ previous, charge, noise)
        if calibration == "rigorous":
            images -= np.outer(mean, mean @ previous)
        directions = _gram_schmidt(images)
    return Axes(directions, images, previous)


def _check_functions(moments: PrivateMoments, functions: FunctionSet) -> None:
    """Refuse to release sums as means of functions that they are not of: as many may be other ones."""
    def described(those: FunctionSet) -> list[NDArray[Any]]:
        if isinstance(those, Features):
            return [those.basis.index, *those.profiles]
        return [those.index] if isinstance(those, ChebyshevBasis) else []

    first, second = described(moments.functions), described(functions)
    same = len(first) == len(second) > 0 and all(map(np.array_equal, first, second))
    if not (same or moments.functions is functions):
        raise InputError("the moments were measured of other functions than those that are to be released")


def _certify(charge: Charge, noise: Noise) -> None:
    """Refuse real noise whose own proof (OpenDP's privacy map) says that it costs more than the charge does.

    Whether real or simulated, nothing is drawn for a charge that is a claim of another tool.
    """
    if charge.law == "other":
        raise BudgetError(f"{charge.purpose}: what another tool claims of its release cannot be drawn here")
    if noise.simulated:
        return
    if charge.norm == "each":
        # Of one vector whose entries each move by the sensitivity.
        proved = noise.loss(charge.law, charge.scale, charge.count * charge.sensitivity)
    else:
        proved = charge.count * noise.loss(charge.law, charge.scale, charge.sensitivity)
    charged = charge.mu * charge.mu / 2.0 if charge.law == "gaussian" else charge.pure_epsilon
    # The negation also refuses what is not a number. What lies below the smallest normal float is rounded coarsely.
    if not proved <= charged * (1.0 + CERTIFIED_WITHIN) + sys.float_info.min:
        kind = "rho" if charge.law == "gaussian" else "epsilon"
        raise BudgetError(f"{charge.purpose}: the {charge.law} noise of scale {charge.scale:g} costs {kind} = "
                          f"{proved:.9g} by its own proof, more than the {charged:.9g} of its charge")


def _noisy(values: Array, charge: Charge, ledger: Ledger, noise: Noise) -> Array:
    ledger.charge(charge)
    return _draw(values, charge, noise)


def _draw(values: Array, charge: Charge, noise: Noise) -> Array:
    draws = {"laplace": noise.laplace, "gaussian": noise.gaussian, "linf": noise.linf}
    return draws[charge.law](values, charge.scale)


def _gram_schmidt(matrix: Array) -> Array:
    """Return the columns made orthonormal in order, each with a positive component along the original one."""
    q, r = np.linalg.qr(matrix)
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)
