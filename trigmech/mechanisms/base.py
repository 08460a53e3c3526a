"""What a mechanism is."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from trigmech.distribution import Distribution
from trigmech.measurement.released import MomentRelease, Release
from trigmech.measurement.rows import PrivateRows
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import Noise
from trigmech.reconstruction.l1 import Fit
from trigmech.reconstruction.pipeline import Reconstruction


@dataclass(frozen=True)
class Outcome:
    """What a mechanism made of a table: the release, the fit, the distribution, and a default number of rows."""

    release: Release | MomentRelease
    fit: Fit | Reconstruction
    distribution: Distribution
    rows: int


@runtime_checkable
class Mechanism(Protocol):
    """What `trigmech.synthesize` needs of a mechanism; with private bounds also ``approximate = False`` if it is pure.
    """

    @property
    def published(self) -> bool:
        """Whether its noise scales are the thesis's, which need not satisfy the budget."""
        ...

    def run(self, rows: PrivateRows, budget: Budget, ledger: Ledger, noise: Noise,
            rng: np.random.Generator) -> Outcome:
        """Release from private points of the cube, and make a distribution of what was released."""
        ...
