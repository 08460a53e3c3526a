"""`synthesize`, which walks the path from a table to a release, and what it returns."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from trigmech.budget import Budget, Ledger
from trigmech.distribution import Distribution
from trigmech.error_bars import PredictedError, predicted_error
from trigmech.errors import BudgetError, InputError
from trigmech.fit import Fit
from trigmech.mechanisms import Mechanism
from trigmech.moment_mechanism import MomentMechanism
from trigmech.noise import Noise, SimulatedNoise, SystemNoise
from trigmech.reconstruct import Reconstruction
from trigmech.release import MomentRelease, Release
from trigmech.rows import PrivateRows
from trigmech.schema import Schema
from trigmech.tables import library_of, like
from trigmech.workload import Workload

MAX_ROWS = 100_000_000


@dataclass(frozen=True, eq=False)
class Synthesis:
    """What `synthesize` returns. All of it is public.

    Parameters
    ----------
    distribution : Distribution
        Weighted points of the cube.
    ledger : Ledger
        What was spent, on what, and what that proves.
    schema : Schema
        Public; maps points back to the table's units.
    release : Release
        The noisy numbers that everything else was made from.
    fit : Fit or Reconstruction
        Of the thesis's mechanisms: objective, certified gap, status and time of the linear program. Of
        :class:`trigmech.MomentMechanism`: what was fitted and how well.
    rows : int
        Default size of a sample.
    library : str, optional
        Name of the library of the dataframe that came in; None for an array. Nothing of the table itself is kept.
    """

    distribution: Distribution
    ledger: Ledger
    schema: Schema
    release: Release | MomentRelease
    fit: Fit | Reconstruction
    rows: int
    library: str | None

    def __repr__(self) -> str:
        what = "SIMULATED, not private" if self.ledger.simulated else f"proved {self.ledger.guarantee}-DP"
        return f"Synthesis({self.distribution!r}, {what})"

    def predicted_error(self, workload: Workload, level: float = 0.95) -> PredictedError:
        """Return error bars for a workload's answers, from the noise law and the fit alone.

        Parameters
        ----------
        workload : Workload
        level : float
            Probability, between 0 and 1, with which each bound holds.

        Returns
        -------
        PredictedError

        Raises
        ------
        InputError
            If the release was not by :class:`trigmech.MomentMechanism`.
        """
        if not (isinstance(self.release, MomentRelease) and isinstance(self.fit, Reconstruction)):
            raise InputError("error bars are there for releases by MomentMechanism only")
        return predicted_error(workload, self.release, self.fit, level)

    def sample(self, size: int | None = None, rng: np.random.Generator | None = None) -> Any:
        """Return a synthetic table of the type that came in.

        Parameters
        ----------
        size : int, optional
            Rows; by default ``rows``.
        rng : numpy.random.Generator, optional
            By default one seeded by the operating system.

        Returns
        -------
        dataframe or ndarray (size, d), in the columns' units

        Raises
        ------
        InputError
            If no size is given and the thesis's formula asks for more than 10^8 rows.
        """
        if size is None and self.rows > MAX_ROWS:
            raise InputError(f"the formula for the number of rows gives {self.rows}; name a size")
        points = self.distribution.sample(self.rows if size is None else size, rng)
        return like(self.library, self.schema.names, self.schema.from_cube(points))


def synthesize(table: Any, schema: Schema, budget: Budget, mechanism: Mechanism | None = None,
               rng: np.random.Generator | None = None) -> Synthesis:
    """Release a table as a distribution that answers smooth queries accurately.

    Parameters
    ----------
    table : dataframe or array_like (n, d), private
        At least 2 rows of numbers, none missing.
    schema : Schema
        Public names, bounds and kinds. Values outside the bounds are clipped.
    budget : Budget
    mechanism : Mechanism, optional
        Default: :class:`trigmech.MomentMechanism`, the best there is.
    rng : numpy.random.Generator, optional
        Makes the run a repeatable *simulation*, and the ledger says so. Leave it out for a real release: noise then
        comes from OpenDP's samplers and the operating system's entropy.

    Returns
    -------
    Synthesis

    Raises
    ------
    InputError
        If the table does not fit the schema or an option does not fit the table's size.
    BudgetError
        If the mechanism needs delta > 0 and has none.
    SolverError
        If the linear program fails; what was charged stays spent.

    Notes
    -----
    Privacy: (epsilon, delta) under replace-one adjacency with n public, if the mechanism's calibration is rigorous;
    otherwise ``ledger.guarantee`` says what holds.
    """
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a Schema, not {type(schema).__name__}")
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be a Budget, not {type(budget).__name__}")
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, not {type(rng).__name__}")
    if mechanism is None:
        mechanism = MomentMechanism()
    if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
        raise InputError(f"mechanism must be a mechanism such as MomentMechanism(), not {mechanism!r}")
    X = schema.to_cube(table)
    noise: Noise
    if rng is None:
        noise, public_rng = SystemNoise(), np.random.default_rng()
    else:
        noise_rng, public_rng = rng.spawn(2)
        noise = SimulatedNoise(noise_rng)
    ledger = Ledger(budget, enforced=not mechanism.published, simulated=noise.simulated)
    outcome = mechanism.run(PrivateRows.of(X, getattr(schema, "layout", None)), budget, ledger, noise, public_rng)
    return Synthesis(outcome.distribution, ledger, schema, outcome.release, outcome.fit, outcome.rows,
                     library_of(table))
