"""The thesis's mechanisms as option objects, and `synthesize`, which walks the path from a table to a release."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from trigmech.basis import ChebyshevBasis, Ties
from trigmech.budget import Budget, Ledger
from trigmech.calibration import Calibration, plan
from trigmech.distribution import Distribution
from trigmech.ellipsoid import Draw
from trigmech.errors import BudgetError, InputError
from trigmech.fit import Fit, fit_l1
from trigmech.grid import Grid, round_to_levels
from trigmech.moments import measure
from trigmech.noise import Noise, SimulatedNoise, SystemNoise
from trigmech.release import Release, release
from trigmech.schema import Schema
from trigmech.support import Eigenvalues, ellipsoid_points
from trigmech.tables import library_of, like

Size = int | Literal["formula"]

MAX_ROWS = 100_000_000


@dataclass(frozen=True)
class Sizes:
    """The four numbers of the first line of algorithms 4, 5, 9 and 10.

    Parameters
    ----------
    degree : int
        t: degrees of one column run from 0 to t - 1.
    grid : int
        N: points of A.
    rows : int
        m: rows of the synthetic table.
    levels : int
        L: numbers are rounded to multiples of 1/L.
    """

    degree: int
    grid: int
    rows: int
    levels: int

    @classmethod
    def of(cls, n: int, d: int, smoothness: int, delta: float | None) -> "Sizes":
        """Return the thesis's formulas: of algorithms 4 and 9 for delta None, else of 5 and 10.

        All four are powers of one unit, with the same exponents in both cases. The formulas use n, not n epsilon.
        """
        K = smoothness
        if delta is None:
            unit = n ** (1.0 / (2 * d + K))
        else:
            unit = (n**2 / math.log(1.0 / delta)) ** (1.0 / (3 * d + 2 * K))
        # A power that is whole must not be rounded up for an error in its last bit.
        return cls(*(max(1, math.ceil(unit**e * (1.0 - 1e-12))) for e in (1, K, 2 * d + 2 * K + 1, d + K)))


@dataclass(frozen=True)
class Outcome:
    """What a mechanism made of a table: the release, the fit, the distribution, and a default number of rows."""

    release: Release
    fit: Fit
    distribution: Distribution
    rows: int


@runtime_checkable
class Mechanism(Protocol):
    """What `synthesize` needs of a mechanism."""

    @property
    def published(self) -> bool:
        """Whether its noise scales are the thesis's, which need not satisfy the budget."""
        ...

    def run(self, X: NDArray[np.float64], budget: Budget, ledger: Ledger, noise: Noise,
            rng: np.random.Generator) -> Outcome:
        """Release from the private points X (n, d) of the cube, and make a distribution of what was released."""
        ...


@dataclass(frozen=True, kw_only=True)
class FullGridMechanism:
    """Algorithms 4 and 5: the means of all of {0..t-1}^d, fitted on all of the grid A^d.

    Use :class:`TrigI` or :class:`TrigII`.

    Parameters
    ----------
    smoothness : int
        K of the formulas: the number of bounded derivatives of the queries.
    degree, grid, rows, levels : int or "formula"
        t, N, m and L of the thesis; "formula" (default) is its first line, see :class:`Sizes`. The weights themselves
        are published, so ``rows`` is only the default size of a sample. ``levels=None``: no rounding.
    calibration : {"rigorous", "published"}
        Noise scales that satisfy the budget, or those that the thesis prints; see :mod:`trigmech.calibration`.
    max_weight : float, optional
        Cap on every single weight (100 / number of candidates in the authors' program).
    time_limit : float, optional
        Seconds for the linear program.

    Raises
    ------
    InputError
        If an option breaks a rule, or t^d or N^d is too large: these algorithms are for small d.

    Notes
    -----
    Privacy: one noisy vector of means; :mod:`trigmech.calibration` has the proofs and the ledger the total.
    The means are of the rows rounded to A. The constant is not given the noise that line 9 adds to it: its mean is 1
    whatever the table, and it only shifts the objective of the linear program.
    Cost: n t^d for the means; the program has N^d columns, at most 20 million, priced by the tensor structure.
    """

    approximate: ClassVar[bool]

    smoothness: int = 4
    degree: Size = "formula"
    grid: Size = "formula"
    rows: Size = "formula"
    levels: Size | None = "formula"
    calibration: Calibration = "rigorous"
    max_weight: float | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        _check_counts(self, (), "smoothness")
        _check_counts(self, ("formula",), "degree", "grid", "rows")
        _check_counts(self, ("formula", None), "levels")
        _check_choice("calibration", self.calibration, Calibration)
        _check_program(self.max_weight, self.time_limit)

    @property
    def published(self) -> bool:
        """Whether the noise scales are the thesis's."""
        return self.calibration == "published"

    def run(self, X: NDArray[np.float64], budget: Budget, ledger: Ledger, noise: Noise,
            rng: np.random.Generator) -> Outcome:
        """Release from the private points X (n, d) of the cube, and fit weights on the grid."""
        n, d = X.shape
        sizes = Sizes.of(n, d, self.smoothness, budget.delta if self.approximate and budget.delta > 0 else None)
        grid = Grid(d, _size(self.grid, sizes.grid))
        _check_cap(self.max_weight, len(grid))
        basis = ChebyshevBasis.tensor(d, _size(self.degree, sizes.degree))
        charges = plan(basis, n, budget, self.calibration, self.approximate)
        released = release(measure(X, basis, grid=grid.N), basis, charges, self.calibration, ledger, noise, rng)
        levels = None if self.levels is None else _size(self.levels, sizes.levels)
        fit = _fit(released, grid, levels, self.max_weight, self.time_limit)
        atoms = np.flatnonzero(fit.weights)
        return Outcome(released, fit, Distribution(grid.take(atoms), fit.weights[atoms]), _size(self.rows, sizes.rows))


@dataclass(frozen=True, kw_only=True)
class TrigI(FullGridMechanism):
    """Algorithm 4: pure epsilon (a budget's delta is not spent). Options: :class:`FullGridMechanism`.

    The published scale t^d/(n epsilon) is exactly epsilon-private at t = 2 and up to 1.21 epsilon beyond, although
    the thesis's proof takes half the true sensitivity of one mean.

    References
    ----------
    Huang 2014, algorithm 4, theorem 2.4.
    """

    approximate: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class TrigII(FullGridMechanism):
    """Algorithm 5: (epsilon, delta) with delta > 0. Options: :class:`FullGridMechanism`.

    "published" adds Laplace noise by proposition 1.12, whose proof has an inequality the wrong way round;
    "rigorous" adds Gaussian noise, which is what suits delta > 0.

    References
    ----------
    Huang 2014, algorithm 5, theorem 2.5.
    """

    approximate: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class EllipsoidMechanism:
    """Algorithms 9 and 10: a few means, fitted on points drawn in an ellipsoid of noisy principal axes.

    Use :class:`ImprovedTrigI` or :class:`ImprovedTrigII`.

    Parameters
    ----------
    n_candidates : int
        C: points drawn.
    n_basis : int, optional
        R: functions, by ascending total degree, see :meth:`ChebyshevBasis.graded`. Default 2 d + 1: the constant, and
        T_1 and T_2 of every column.
    rank, iterations : int
        k and L of the private subspace iteration; a rank above d is cut to d. Default rank: 8 for ImprovedTrigI, whose
        noise grows with it, and d for ImprovedTrigII, where rigorous Gaussian noise is the same for any rank above 1.
        These did best, of a few round values, on five of the thesis's data sets together.
    scale : float, optional
        kappa: semi-axes in standard deviations. Default sqrt(rank + 2), with which uniform points have the released
        covariance.
    smoothness : int
        K, for options that are "formula".
    degree, grid, levels : int, "formula" or None
        t, N and L. None: no limit to the degree of a column, no rounding to A, no rounding to multiples of 1/L.
        The formulas of line 1 give t = 2 and often N = 2 on the thesis's own data, which cannot have been what
        its experiments used; the authors' program has N = 100, which is the default here.
    rows : int or "formula", optional
        Default size of a sample; None: as many as the table has.
    calibration : {"rigorous", "published"}
        Noise scales that satisfy the budget, or those that the thesis prints; see :mod:`trigmech.calibration`.
    ellipsoid : {"uniform", "published"}
        How points are drawn; see :meth:`trigmech.ellipsoid.Ellipsoid.draw`.
    eigenvalues : {"rayleigh", "norm"}
        How semi-axes are estimated; "norm" is the thesis's. See :meth:`trigmech.release.Axes.eigenvalues`.
    background : float
        Share of the candidates drawn uniformly from the cube instead; 0 in the thesis.
    ties : {"fewest", "last"}
        Order of functions of one total degree; "last" is the authors' program's.
    max_weight : float, optional
        Cap on every single weight (100 / n_candidates in the authors' program).
    time_limit : float, optional
        Seconds for the linear program.

    Raises
    ------
    InputError
        If an option breaks a rule, or n_basis exceeds the number of functions with degrees below t.

    Notes
    -----
    Privacy: three steps (means, mean, axes), each with a third of the budget; :mod:`trigmech.calibration` has the
    proofs and the ledger the total. Readings taken where the thesis contradicts itself: line 11 of algorithm 10 calls
    the iteration of algorithm 7 and must mean 6; noise has the shape (d, k) of the product; the basis is averaged over
    rows rounded to A, the mean and the covariance over the rows as they are; L is the number of iterations there
    and the rounding level here. The authors' program also clips instead of rounding candidates, draws Laplace noise
    sqrt(2) too small and seeds it with a constant: none of that is reproduced.
    Cost: n (R + d^2/2) for the moments, C R for each of some ten iterations of the linear program.
    """

    approximate: ClassVar[bool]
    default_rank: ClassVar[int | None]

    n_candidates: int = 10_000
    n_basis: int | None = None
    rank: int | None = None
    iterations: int = 3
    scale: float | None = None
    smoothness: int = 4
    degree: Size | None = None
    grid: Size | None = 100
    levels: Size | None = None
    rows: Size | None = None
    calibration: Calibration = "rigorous"
    ellipsoid: Draw = "uniform"
    eigenvalues: Eigenvalues = "rayleigh"
    background: float = 0.5
    ties: Ties = "fewest"
    max_weight: float | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        _check_counts(self, (), "n_candidates", "iterations", "smoothness")
        _check_counts(self, (None,), "n_basis", "rank")
        _check_counts(self, ("formula", None), "degree", "grid", "levels", "rows")
        if self.scale is not None and not (_is_number(self.scale) and 0 < self.scale < math.inf):
            raise InputError(f"scale must be positive and finite, not {self.scale!r}")
        if not (_is_number(self.background) and 0 <= self.background <= 1):
            raise InputError(f"background must be between 0 and 1, not {self.background!r}")
        _check_program(self.max_weight, self.time_limit)
        _check_cap(self.max_weight, self.n_candidates)
        for name, choices in (("calibration", Calibration), ("ellipsoid", Draw), ("eigenvalues", Eigenvalues),
                              ("ties", Ties)):
            _check_choice(name, getattr(self, name), choices)

    @property
    def published(self) -> bool:
        """Whether the noise scales are the thesis's."""
        return self.calibration == "published"

    def run(self, X: NDArray[np.float64], budget: Budget, ledger: Ledger, noise: Noise,
            rng: np.random.Generator) -> Outcome:
        """Release from the private points X (n, d) of the cube, and fit weights on points of the ellipsoid."""
        n, d = X.shape
        sizes = Sizes.of(n, d, self.smoothness, budget.delta if self.approximate and budget.delta > 0 else None)
        grid = None if self.grid is None else _size(self.grid, sizes.grid)
        highest = None if self.degree is None else _size(self.degree, sizes.degree) - 1
        basis = ChebyshevBasis.graded(d, self.n_basis or 2 * d + 1, highest, self.ties)
        rank = min(self.rank or self.default_rank or d, d)
        charges = plan(basis, n, budget, self.calibration, self.approximate, rank, self.iterations)
        released = release(measure(X, basis, grid=grid, covariance=True), basis, charges, self.calibration, ledger,
                           noise, rng, rank, self.iterations)
        points = ellipsoid_points(released, self.n_candidates, self.scale or math.sqrt(rank + 2), rng,
                                  draw=self.ellipsoid, eigenvalues=self.eigenvalues, background=self.background,
                                  grid=grid)
        levels = None if self.levels is None else _size(self.levels, sizes.levels)
        fit = _fit(released, points, levels, self.max_weight, self.time_limit)
        atoms = np.flatnonzero(fit.weights)
        rows = n if self.rows is None else _size(self.rows, sizes.rows)
        return Outcome(released, fit, Distribution(points[atoms], fit.weights[atoms]), rows)


@dataclass(frozen=True, kw_only=True)
class ImprovedTrigI(EllipsoidMechanism):
    """Algorithm 9, with algorithm 7: pure epsilon. Options: :class:`EllipsoidMechanism`.

    References
    ----------
    Huang 2014, algorithms 7, 8 and 9, theorems 2.10 and 2.13.
    """

    approximate: ClassVar[bool] = False
    default_rank: ClassVar[int | None] = 8


@dataclass(frozen=True, kw_only=True)
class ImprovedTrigII(EllipsoidMechanism):
    """Algorithm 10, with algorithm 6: (epsilon, delta) with delta > 0. Options: :class:`EllipsoidMechanism`.

    "rigorous" adds Gaussian noise in all three steps; "published" adds Laplace noise to means and mean.

    References
    ----------
    Huang 2014, algorithms 6, 8 and 10, theorems 2.10 and 2.13.
    """

    approximate: ClassVar[bool] = True
    default_rank: ClassVar[int | None] = None


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
    fit : Fit
        Objective, certified gap, status and time of the linear program.
    rows : int
        Default size of a sample.
    library : str, optional
        Name of the library of the dataframe that came in; None for an array. Nothing of the table itself is kept.
    """

    distribution: Distribution
    ledger: Ledger
    schema: Schema
    release: Release
    fit: Fit
    rows: int
    library: str | None

    def __repr__(self) -> str:
        what = "SIMULATED, not private" if self.ledger.simulated else f"proved {self.ledger.guarantee}-DP"
        return f"Synthesis({self.distribution!r}, {what})"

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
        By default the best there is for the budget: `ImprovedTrigII`, or `ImprovedTrigI` at delta = 0.
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
        mechanism = ImprovedTrigII() if budget.delta > 0 else ImprovedTrigI()
    if isinstance(mechanism, type) or not isinstance(mechanism, Mechanism):
        raise InputError(f"mechanism must be a mechanism such as ImprovedTrigII(), not {mechanism!r}")
    X = schema.to_cube(table)
    noise: Noise
    if rng is None:
        noise, public_rng = SystemNoise(), np.random.default_rng()
    else:
        noise_rng, public_rng = rng.spawn(2)
        noise = SimulatedNoise(noise_rng)
    ledger = Ledger(budget, enforced=not mechanism.published, simulated=noise.simulated)
    outcome = mechanism.run(X, budget, ledger, noise, public_rng)
    return Synthesis(outcome.distribution, ledger, schema, outcome.release, outcome.fit, outcome.rows,
                     library_of(table))


def _fit(released: Release, points: NDArray[np.float64] | Grid, levels: int | None, max_weight: float | None,
         time_limit: float | None) -> Fit:
    target = released.means if levels is None else round_to_levels(released.means, levels)
    return fit_l1(released.basis, points, target, max_weight=max_weight, levels=levels, time_limit=time_limit)


def _size(option: Size, formula: int) -> int:
    return formula if option == "formula" else option


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def _check_counts(options: object, others: tuple[Any, ...], *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1:
            continue
        if not any(value is other or (isinstance(value, str) and value == other) for other in others):
            words = " or ".join(["a positive integer", *map(repr, others)])
            raise InputError(f"{name} must be {words}, not {value!r}")


def _check_choice(name: str, value: Any, choices: Any) -> None:
    if value not in get_args(choices):
        raise InputError(f"{name} must be one of {', '.join(map(repr, get_args(choices)))}, not {value!r}")


def _check_cap(max_weight: float | None, candidates: int) -> None:
    if max_weight is not None and max_weight * candidates < 1.0 - 1e-12:
        raise InputError(f"with max_weight = {max_weight} the weights of {candidates} candidates cannot sum to 1")


def _check_program(max_weight: float | None, time_limit: float | None) -> None:
    # Here and not only in the fit, which comes when the budget is spent.
    for name, value in (("max_weight", max_weight), ("time_limit", time_limit)):
        if value is not None and not (_is_number(value) and 0 < value < math.inf):
            raise InputError(f"{name} must be positive and finite, not {value!r}")
