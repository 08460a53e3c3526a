"""How wrong a release's answers may be, from public things alone: the noise law, the fit, and stated priors.

The error of a query f = sum_r c_r phi_r is sum_r c_r (E_table phi_r - E_fit phi_r). Of a measured moment, the table's
mean is taken as normal about the fitted target, with the variance s^2 t^2 / (s^2 + t^2) of a normal mean with prior
deviation t measured with noise s; what the fit did not reach of the target is known and added. What was not measured
adds the variance that the planner supposes (`planner.prior_single`, `prior_pair`, and so on). The normal law is exact
for Gaussian noise and t large; elsewhere it is a model, and experiments/coverage holds it against the truth.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trigmech.basis import ChebyshevBasis
from trigmech.errors import InputError
from trigmech.features import Features
from trigmech.layout import Layout
from trigmech.planner import prior_deviations, unmeasured_variances
from trigmech.reconstruct import Reconstruction
from trigmech.release import MomentRelease
from trigmech.workload import Workload

Array = NDArray[np.float64]

QUERIES_AT_A_TIME = 128
POINTS_AT_A_TIME = 4_096
# What was not measured is supposed to be this much larger than the planner's priors, which are meant to be middling.
CAUTION = 1.5


@dataclass(frozen=True, eq=False)
class PredictedError:
    """Error bars of a workload's answers.

    Parameters
    ----------
    level : float
        The stated probability.
    deviation : ndarray (queries, parts)
        Standard deviation of each query's error.
    bound : ndarray (queries, parts)
        Each query's absolute error is at most this, with probability ``level``.
    worst : ndarray (parts,)
        The largest absolute error of a part's queries is at most this, with probability ``level``.
    """

    level: float
    deviation: Array
    bound: Array
    worst: Array


def of_numbers(release: MomentRelease, fit: Reconstruction, layout: Layout) -> tuple[MomentRelease, Reconstruction]:
    """Return what a release and its fit say of the coordinates that are numbers, as a release of these alone.

    Raises
    ------
    InputError
        If the layout has no numbers.
    """
    numbers = list(layout.numbers)
    if not numbers:
        raise InputError("the table has no column of numbers, which such queries are about")
    index = release.features.basis.index
    kept = np.flatnonzero(index[:, numbers].sum(axis=1) == index.sum(axis=1))
    features = Features(ChebyshevBasis(index[kept][:, numbers]))
    return (MomentRelease(release.n, features, release.means[kept], release.scales[kept]),
            replace(fit, points=fit.points[:, numbers], target=fit.target[kept]))


def predicted_error(workload: Workload, release: MomentRelease, fit: Reconstruction,
                    level: float = 0.95) -> PredictedError:
    """Return error bars for the answers of a fitted distribution.

    Parameters
    ----------
    workload : Workload
        Of as many columns as the release.
    release : MomentRelease
    fit : Reconstruction
        Made from the release.
    level : float
        Between 0 and 1.

    Returns
    -------
    PredictedError

    Notes
    -----
    Privacy: post-processing. The bound of the worst is by Bonferroni over the queries, hence cautious. Cost: the
    coefficients, queries times K for each part.
    """
    from scipy.special import ndtri

    if not 0.0 < level < 1.0:
        raise InputError(f"level must be between 0 and 1, not {level!r}")
    if workload.d != release.features.d:
        raise InputError(f"the workload is of {workload.d} columns, the release of {release.features.d}")
    index = release.features.basis.index
    K = len(index)
    scales, prior = release.scales[:K], prior_deviations(index)
    # Moments that were fitted as they were released err by all of their noise.
    variances = scales**2 * (prior**2 / (scales**2 + prior**2) if fit.shrunk else 1.0)
    basis = release.features.basis
    reached = sum(fit.weights[rows] @ basis.evaluate(fit.points[rows])
                  for rows in (slice(at, at + POINTS_AT_A_TIME) for at in range(0, len(fit.points), POINTS_AT_A_TIME)))
    missed = fit.target[:K] - reached
    rest = CAUTION**2 * unmeasured_variances(release.features, release.scales, workload)
    deviations, offsets = [], []
    queries = len(workload.answers(np.zeros((1, workload.d))))
    for start in range(0, queries, QUERIES_AT_A_TIME):
        part = workload.coefficients(index, start, min(start + QUERIES_AT_A_TIME, queries))
        deviations.append(np.sqrt(np.square(part) @ variances + rest))
        offsets.append(np.abs(part @ missed))
    deviation, offset = np.concatenate(deviations), np.concatenate(offsets)
    single = float(ndtri((1.0 + level) / 2.0))
    all_queries = float(ndtri(1.0 - (1.0 - level) / (2.0 * len(deviation))))
    return PredictedError(level, deviation, offset + single * deviation, (offset + all_queries * deviation).max(axis=0))
