"""Error bars of a release's answers, from public facts alone: the noise distribution, the fit, and stated priors.

This is of releases of moments; :mod:`trigmech.evaluation.resampling` of those of columns and tables.

The error of a query f = sum_r c_r phi_r is sum_r c_r (E_table phi_r - E_fit phi_r). For a measured moment, the table's
mean is taken as normal about the fitted target, with the variance s^2 t^2 / (s^2 + t^2) of a normal mean with prior
deviation t measured with noise s. The distance of the fit from the target is known and added. If the released mean
refutes the target, the mean is believed instead, with all of its noise. Each moment that was not measured adds the
variance that the planner supposes (`priors.prior_single`, `prior_pair`, and so on). The normal distribution is
exact for Gaussian noise and t large; elsewhere it is a model, and experiments/coverage holds it against the truth.

If a family treats all columns alike, the planner lists the products that were not measured. For any other family, each
query f itself gives the unmeasured part: g = f - sum over the measured r of c_r phi_r at points of the cube,
whatever products it is made of. If the columns are independent with the density 1 / (pi sqrt(1 - x^2)), the products
are orthogonal, with mean squares 1/2 for one column, 1/4 for two, and so on; the variance of g times the largest ratio
of a supposed variance to such a mean square is then at least the variance that the planner supposes of products of up
to three columns.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech._html import html_table
from trigmech._validate import check_level
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.measurement.released import Release
from trigmech.planning.error_model import unmeasured_variances
from trigmech.planning.priors import PRIOR_TRIPLE, prior_deviations, prior_pair, prior_single
from trigmech.reconstruction.result import Reconstruction
from trigmech.reconstruction.shrinkage import within_reason
from trigmech.workload import Mixture, Workload
from trigmech.workload.family import answerable, is_symmetric

QUERIES_AT_A_TIME = 128
POINTS_AT_A_TIME = 4_096
# At which a query that may be about any product is looked at: its variance is then right to a quarter or so.
RESIDUAL_POINTS = 256
# Unmeasured moments are assumed to be this much larger than the planner's priors, which are average values.
CAUTION = 1.5
# A released mean refutes a target that is further from it than this many standard deviations of its noise. Normal noise
# hardly moves one of some thousand means so far, and Laplace noise moves one in 300.
REFUTED = 4.0


@dataclass(frozen=True, eq=False)
class PredictedError:
    """Error bars of a workload's answers.

    Parameters
    ----------
    level : float
        The stated probability.
    deviation : ndarray (queries, parts)
        Standard deviation of each query's error; of a statistic's values, in their shape.
    bound : ndarray (queries, parts)
        Each query's absolute error is at most this, with probability ``level``. If a value of a statistic is the same
        in all plausible tables, they do not show how far the private table's may be. Then it may move towards the value
        of a table of evenly drawn rows, by the part of the rows that noise can hide. So a count of all rows has the
        bound 0, and a statistic that is no number for such a table has an infinite one.
    worst : ndarray (parts,)
        The largest absolute error of a part's queries is at most this, with probability ``level``; of a statistic, of
        its values with a finite bound, if there are any. A mixture has the parts of all its members, although its
        answers are one column.
    """

    level: float
    deviation: Array
    bound: Array
    worst: Array

    def __repr__(self) -> str:
        worst = ", ".join(f"{bound:.3g}" for bound in self.worst)
        return f"PredictedError(level={self.level:g}, worst=[{worst}], bound.shape={self.bound.shape})"

    def _repr_html_(self) -> str:
        # Those of a statistic have any shape, and are one part.
        bound = self.bound.reshape(-1, 1) if len(self.worst) == 1 else self.bound
        columns = [(f"{median:.3g}", f"{largest:.3g}") for median, largest in zip(
            np.median(bound, axis=0), bound.max(axis=0), strict=True)]
        if len(columns) != len(self.worst):
            # Those of a mixture are one column.
            columns = [("", "")] * len(self.worst)
        rows = [(part, *of_each, f"{worst:.3g}") for part, (of_each, worst) in enumerate(
            zip(columns, self.worst, strict=True), 1)]
        return html_table(f"Errors of {self.bound.size} answers, at most these with probability {self.level:g}", rows,
                          ("part", "an answer's, typically", "an answer's, at most", "all of the part"))


def predicted_error(workload: Workload, release: Release, fit: Reconstruction,
                    level: float = 0.95) -> PredictedError:
    """Return error bars for the answers of a distribution that was fitted to the release.

    Privacy: post-processing. The bound of the worst is by Bonferroni over the queries, hence cautious. Cost: the
    coefficients, queries times K for each part; of families that are not symmetric the answers at 256 points as well.
    """
    from scipy.special import ndtri

    if fit.misfit is None:
        raise InputError("error bars are not available for a fit by a linear program, as the thesis's mechanisms "
                         "make it")
    check_level(level)
    release, fit = _of_numbers(release, fit)
    if workload.d != release.features.d:
        raise InputError(f"the workload has {workload.d} columns, but the release has {release.features.d}")

    def bars(member: Workload) -> PredictedError:
        deviation, offset = _deviations(member, release, fit)
        single = float(ndtri((1.0 + level) / 2.0))
        all_queries = float(ndtri(1.0 - (1.0 - level) / (2.0 * len(deviation))))
        return PredictedError(level, deviation, offset + single * deviation,
                              (offset + all_queries * deviation).max(axis=0))

    return of_members(answerable(workload), bars)


def of_members(workload: Workload, bars: Callable[[Workload], PredictedError]) -> PredictedError:
    """Return the error bars of a workload, those of a mixture's members one after the other."""
    if not isinstance(workload, Mixture):
        return bars(workload)
    each = [of_members(answerable(member), bars) for member in workload.workloads]
    return PredictedError(each[0].level, np.concatenate([bar.deviation.reshape(-1, 1) for bar in each]),
                          np.concatenate([bar.bound.reshape(-1, 1) for bar in each]),
                          np.concatenate([bar.worst for bar in each]))


def _of_numbers(release: Release, fit: Reconstruction) -> tuple[Release, Reconstruction]:
    """Return a release and its fit, restricted to the coordinates that are numbers, as a release of these alone."""
    chosen, (of_numbers, kept) = list(release.index.domain.numbers), release.of_numbers()
    if of_numbers is release:
        return release, fit
    return of_numbers, replace(fit, distribution=Distribution(fit.points[:, chosen], fit.weights),
                               target=fit.target[kept])


def _deviations(workload: Workload, release: Release, fit: Reconstruction) -> tuple[Array, Array]:
    """Return the standard deviation of each answer's error (queries, parts), and the part of it that is known."""
    index = release.index.degrees
    K = len(index)
    noise, prior = within_reason(release.means, release.deviations)[1][:K], prior_deviations(index)
    missed, refuted = missed_moments(release, fit)
    # Moments that were fitted as they were released err by all of their noise.
    variances = noise**2 * np.where(refuted | (not fit.shrunk), 1.0, prior**2 / (noise**2 + prior**2))
    rest = _unmeasured(workload, release)
    deviations, offsets = [], []
    queries = len(workload.answers(np.zeros((1, workload.d))))
    for start in range(0, queries, QUERIES_AT_A_TIME):
        part = workload.coefficients(index, start, min(start + QUERIES_AT_A_TIME, queries))
        deviations.append(np.sqrt(np.square(part) @ variances + CAUTION**2 * rest(part, start)))
        offsets.append(np.abs(part @ missed))
    return np.concatenate(deviations), np.concatenate(offsets)


def _unmeasured(workload: Workload, release: Release) -> Callable[[Array, int], Array]:
    """Return a function of the coefficients (queries, parts, K) of some queries and the number of the first: the
    assumed variance of their unmeasured part, (parts,) or (queries, parts)."""
    if is_symmetric(workload):
        alike = unmeasured_variances(release.own_features, release.deviations, workload)
        return lambda part, start: alike
    basis = release.basis
    # Public points, the same for equal plans.
    angles = np.random.default_rng([basis.d, basis.K]).uniform(0.0, np.pi, (RESIDUAL_POINTS, basis.d))
    points = np.cos(angles)
    values = np.stack([workload.answers(point[None]) for point in points], axis=-1)
    products = basis.evaluate(points)
    measured = {(int(r.argmax()), int(r.max())) for r in release.index.degrees[release.index.single]}
    lowest = min(next(a for a in range(1, len(measured) + 2) if (j, a) not in measured) for j in range(basis.d))
    ratio = max(2.0 * prior_single(lowest) ** 2, 4.0 * prior_pair(1, 1) ** 2, 8.0 * PRIOR_TRIPLE**2)
    return lambda part, start: ratio * np.var(values[start : start + len(part)] - part @ products.T, axis=-1)


def missed_moments(release: Release, fit: Reconstruction) -> tuple[Array, NDArray[np.bool_]]:
    """Return how far the Chebyshev products' means are from the points', and where a released mean refutes its target.

    The first (K,) is the believed mean less that of the points, and 0 for whole-row functions. Where the second (K,) is
    true, the released mean is believed instead of the target. Cost: m K.
    """
    basis = release.basis
    means, scales = within_reason(release.means, release.deviations)
    target = fit.target[: basis.K]
    refuted = np.abs(means[: basis.K] - target) > REFUTED * scales[: basis.K]
    reached = sum(fit.weights[rows] @ basis.evaluate(fit.points[rows])
                  for rows in (slice(at, at + POINTS_AT_A_TIME) for at in range(0, len(fit.points), POINTS_AT_A_TIME)))
    return np.where(refuted, means[: basis.K], target) - reached, refuted
