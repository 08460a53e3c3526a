"""One-dimensional distributions from noisy Chebyshev moments, and proposal points with these marginals."""

from dataclasses import dataclass

import numpy as np

from trigmech._arrays import Array
from trigmech._validate import check_integers, numbers
from trigmech.errors import InputError

NODES = 512
_ITERATIONS = 200
# The tolerance of the dual objective. The moments then agree to about its square root.
_TOLERANCE = 1e-15


@dataclass(frozen=True, eq=False)
class SmoothMarginals:
    """One distribution on [-1, 1] for each of d columns, by its probabilities on 512 cells of equal angle.

    Parameters
    ----------
    probabilities : ndarray (d, 512)
        The probabilities of the cells between cos(pi (k+1)/512) and cos(pi k/512), k = 0, 1, ..., from right to left.
    """

    probabilities: Array

    @classmethod
    def fit(cls, moments: Array, scales: Array) -> "SmoothMarginals":
        """Return the distributions of maximum entropy that agree with noisy moments.

        For each column, q minimises KL(q, uniform on [-1, 1]) + 1/2 sum_a ((E_q T_a - z_a) / s_a)^2. So a moment with
        less noise moves q further.

        Parameters
        ----------
        moments : ndarray (p, d)
            z: released or shrunk means of T_1, ..., T_p of each column.
        scales : ndarray (p, d)
            s, positive: their standard deviations.

        Raises
        ------
        InputError
            If the shapes differ, a moment is not finite, or a scale is not positive and finite.

        Notes
        -----
        No distribution on the cells has the moments of a single point; such moments are met to some 1e-4 at best.
        Privacy: post-processing. Cost: some ten Newton steps on the dual of all columns at once, 512 p^2 d each.
        """
        moments = numbers("moments", moments, "p", "d")
        p, d = moments.shape
        scales = numbers("scales", scales, p, d)
        if not (np.isfinite(moments).all() and np.isfinite(scales).all() and (scales > 0.0).all()):
            raise InputError("moments must be finite, and their scales positive and finite")
        angles = (np.arange(NODES) + 0.5) * np.pi / NODES
        T = np.cos(np.outer(np.arange(1, p + 1), angles))
        log_base = np.log(np.sin(angles) / np.sin(angles).sum())
        z, variances = moments.T, scales.T**2
        dual = np.zeros((d, p))
        value, q = _dual_value(dual, T, log_base, z, variances)
        for _ in range(_ITERATIONS):
            means = q @ T.T
            gradient = means - z + dual * variances
            hessian = np.einsum("dn,an,bn->dab", q, T, T, optimize=True) - means[:, :, None] * means[:, None, :]
            hessian[:, np.arange(p), np.arange(p)] += variances + 1e-12
            step = -np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
            decrease = -(gradient * step).sum(axis=1)
            if decrease.max() < _TOLERANCE:
                break
            # Each column has its own step length. A finished column has step length 0.
            length = np.where(decrease < _TOLERANCE, 0.0, 1.0)
            for _ in range(40):
                trial, trial_q = _dual_value(dual + length[:, None] * step, T, log_base, z, variances)
                worse = trial > value - 0.1 * length * decrease + 1e-12
                if not worse.any():
                    break
                length[worse] /= 2.0
            dual, value, q = dual + length[:, None] * step, trial, trial_q
        return cls(q)

    @property
    def d(self) -> int:
        """The number of columns."""
        return len(self.probabilities)

    def chebyshev_means(self, degree: int) -> Array:
        """Return the means (degree, d) of T_1, ..., T_degree."""
        angles = (np.arange(NODES) + 0.5) * np.pi / NODES
        return np.cos(np.outer(np.arange(1, degree + 1), angles)) @ self.probabilities.T

    def masses(self, column: int, edges: Array) -> Array:
        """Return a column's probabilities (k,) of cells with edges (k + 1,) from -1 to 1."""
        cumulative = np.concatenate([[0.0], np.cumsum(self.probabilities[column, ::-1])])
        return np.diff(np.interp(np.arccos(-edges) * NODES / np.pi, np.arange(NODES + 1), cumulative))

    def quantiles(self, levels: Array) -> Array:
        """Return points (m, d): the quantile function of each column at levels (m, d) in (0, 1)."""
        edges = -np.cos(np.arange(NODES + 1) * np.pi / NODES)
        points = np.empty_like(levels)
        for j, q in enumerate(self.probabilities):
            cumulative = np.concatenate([[0.0], np.cumsum(q[::-1])])
            points[:, j] = np.interp(levels[:, j], cumulative / cumulative[-1], edges)
        return np.clip(points, -1.0, 1.0)

    def cloud(self, count: int, rng: np.random.Generator, correlation: Array | None = None) -> Array:
        """Return points (count, d) with these marginals: independent columns, or a Gaussian copula.

        Parameters
        ----------
        count : int
            Number of points. Powers of two have the lowest discrepancy.
        rng : numpy.random.Generator
            Scrambles the Sobol' sequence; or draws independent points beyond its 21,201 columns.
        correlation : ndarray (d, d), optional
            The copula's correlation; positive definite with unit diagonal.

        Raises
        ------
        InputError
            If count is not a positive integer or the correlation is not (d, d).
        """
        from scipy.special import ndtr, ndtri
        from scipy.stats import qmc

        check_integers(1, count=count)
        if self.d > qmc.Sobol.MAXDIM:
            levels = rng.random((int(count), self.d))
        else:
            # Only powers of two are balanced, so a power of two is drawn and cut.
            levels = qmc.Sobol(self.d, rng=rng).random_base2(max(0, (int(count) - 1).bit_length()))[:count]
        if correlation is not None:
            correlation = numbers("correlation", correlation, self.d, self.d)
            normal = ndtri(np.clip(levels, 1e-9, 1.0 - 1e-9))
            levels = ndtr(normal @ np.linalg.cholesky(correlation).T)
        return self.quantiles(levels)


def copula_correlation(marginals: SmoothMarginals, products: Array, scales: Array,
                       threshold: float = 3.0) -> Array | None:
    """Return the correlation matrix of a Gaussian copula, from released means (d, d) of x_i x_j that pass a noise test.

    A covariance counts only if it exceeds ``threshold`` standard deviations (``scales``) of its noise. The diagonals
    are not read. The matrix is positive definite with unit diagonal; it is None if no pair passes. It uses the
    columns' correlation in place of that of the normal scores. The two are close for mild marginals, and the fit
    corrects the rest.

    Raises an InputError if a matrix is not (d, d) or not symmetric off the diagonal.
    """
    d = marginals.d
    products, scales = numbers("products", products, d, d), numbers("scales", scales, d, d)
    above = np.triu_indices(d, 1)
    if any((matrix[above] != matrix.T[above]).any() for matrix in (products, scales)):
        raise InputError("products and scales must be symmetric")
    first, second = marginals.chebyshev_means(2)
    deviations = np.sqrt(np.maximum((1.0 + second) / 2.0 - first**2, 1e-6))
    covariance = products - np.outer(first, first)
    passed = np.abs(covariance) > threshold * scales
    np.fill_diagonal(passed, False)
    if not passed.any():
        return None
    correlation = np.where(passed, np.clip(covariance / np.outer(deviations, deviations), -0.95, 0.95), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return positive_definite(correlation, 0.02)


def positive_definite(correlation: Array, least: float) -> Array:
    """Return a symmetric matrix whose eigenvalues are raised to at least ``least``, scaled to a unit diagonal."""
    values, vectors = np.linalg.eigh(correlation)
    repaired = (vectors * np.maximum(values, least)) @ vectors.T
    return np.asarray(repaired / np.sqrt(np.outer(np.diag(repaired), np.diag(repaired))))


def _dual_value(dual: Array, T: Array, log_base: Array, z: Array, variances: Array) -> tuple[Array, Array]:
    """Return the dual objectives (d,) and their distributions (d, nodes)."""
    exponents = dual @ T + log_base
    top = exponents.max(axis=1, keepdims=True)
    q = np.exp(exponents - top)
    total = q.sum(axis=1, keepdims=True)
    value = np.log(total[:, 0]) + top[:, 0] - (dual * z).sum(axis=1) + 0.5 * (variances * dual**2).sum(axis=1)
    return value, q / total
