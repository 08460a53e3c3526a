"""The models of smooth densities: bases, and the matrices that tell how well each explains noisy measurements.

See :mod:`trigmech.reconstruction.densities`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trigmech._arrays import Array


@dataclass(frozen=True, eq=False)
class Models:
    """Bases (b, m), their cosines (b, m, K), and the matrices that the evidence needs.

    Let D be the diagonal matrix of the roots of k^-r, for one decay r, and G the Gram matrix of the measured cosines.
    Then D G D = U diag(gains) U', with ``gains`` (b, r, K) and ``loadings`` U' D (b, r, K, K). The coefficients'
    variances are ``variances`` (v,) times k^-r. ``spread`` (c, m) distributes a base's intervals over the measured
    ones, ``crossed`` (c, m) is F'F spread, and ``gram`` (m, m) is spread' F'F spread. ``between`` (b, m) and
    ``squares`` (b,) are the products of ``gram`` with each base, on one side and on both. ``priors`` (b, 1, 1) are the
    logarithms of single models' probabilities.
    """

    bases: Array
    cosines: Array
    gains: Array
    loadings: Array
    variances: Array
    spread: Array
    crossed: Array
    gram: Array
    between: Array
    squares: Array
    priors: Array

    def effects(self, b: int) -> Array:
        """Return F'F times each cosine (c, K) of a base."""
        return self._effects_of_the_only if len(self.bases) == 1 else self.crossed @ self.cosines[b]

    @cached_property
    def _effects_of_the_only(self) -> Array:
        return self.crossed @ self.cosines[0]

    @classmethod
    def of(cls, shapes: tuple[Array, Array, Array], factor: Array, spread: Array,
           grid: tuple[Array, Array]) -> "Models":
        (bases, cosines, probabilities), (decays, variances) = shapes, grid
        crossed = factor.T @ (factor @ spread)
        gram = spread.T @ crossed
        roots = np.arange(1.0, cosines.shape[2] + 1.0) ** (-decays[:, None] / 2.0)
        own = np.swapaxes(cosines, 1, 2) @ (gram @ cosines)
        gains, vectors = np.linalg.eigh(roots[:, :, None] * own[:, None] * roots[:, None, :])
        between = bases @ gram
        return cls(bases, cosines, np.maximum(gains, 0.0), np.swapaxes(vectors, 2, 3) * roots[:, None, :], variances,
                   spread, crossed, gram, between, (between * bases).sum(axis=1),
                   np.log(probabilities / (len(decays) * len(variances)))[:, None, None])
