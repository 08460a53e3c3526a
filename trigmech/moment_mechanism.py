"""The package's own mechanism: one weighted release of planned moments, and points that explain it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trigmech.budget import Budget, Ledger
from trigmech.distribution import Distribution
from trigmech.mechanisms import Outcome
from trigmech.moments import measure
from trigmech.noise import Noise
from trigmech.planner import MAX_FUNCTIONS, Design, plan_moments
from trigmech.reconstruct import reconstruct
from trigmech.release import release_moments
from trigmech.workload import Family, GaussianKernels, Mixture, PairKernels, SecondMoments

FEWEST_POINTS, MOST_POINTS = 1_024, 50_000


def default_workload(d: int) -> Family:
    """Return the mixture that a release serves unless told otherwise: broad kernels, kernels of pairs, second moments."""
    members = [GaussianKernels(d, seed=0), *([PairKernels(d, seed=0)] if d > 1 else []), SecondMoments(d)]
    return Mixture(tuple(members))


@dataclass(frozen=True, kw_only=True)
class MomentMechanism:
    workload: Family | None = None
    degree: int | None = None
    pair_degree: int | None = None
    triples: bool | None = None
    whole_row: bool | None = None
    max_functions: int = MAX_FUNCTIONS
    points: int | None = None
    denoise: bool = True
    copula: bool = True
    weigh: bool = True
    iterations: int = 80

    @property
    def published(self) -> bool:
        return False

    def design(self, n: int, d: int, budget: Budget) -> Design:
        return plan_moments(n, d, budget, self.workload or default_workload(d), degree=self.degree,
                            pair_degree=self.pair_degree, triples=self.triples, whole_row=self.whole_row,
                            max_functions=self.max_functions)

    def run(self, X: NDArray[np.float64], budget: Budget, ledger: Ledger, noise: Noise,
            rng: np.random.Generator) -> Outcome:
        n, d = X.shape
        design = self.design(n, d, budget)
        released = release_moments(measure(X, design.features), design.features, design.blocks, ledger, noise)
        count = self.points or min(max(n, FEWEST_POINTS), MOST_POINTS)
        made = reconstruct(released, count, rng, denoise=self.denoise, copula=self.copula, weigh=self.weigh,
                           iterations=self.iterations)
        return Outcome(released, made, Distribution(made.points, np.full(count, 1.0 / count)), n)
