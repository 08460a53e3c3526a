"""The thesis's mechanisms, as frozen objects that hold options only."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from trigmech._arrays import Array
from trigmech._validate import check_choice, check_counts, check_positive, is_number
from trigmech.distribution import Distribution
from trigmech.errors import InputError, SolverError, shown
from trigmech.functions.chebyshev import ChebyshevBasis, Ties
from trigmech.functions.features import Features
from trigmech.functions.grid import Grid, round_to_levels
from trigmech.measurement.moments import measure
from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts
from trigmech.reconstruction.l1 import fit_l1
from trigmech.reconstruction.result import Reconstruction
from trigmech.thesis.calibration import Calibration, NoiseScales, noise_scales
from trigmech.thesis.candidates import Draw, Eigenvalues, ellipsoid_points, even_fit
from trigmech.thesis.release import release
from trigmech.thesis.sizes import Sizes

Size = int | Literal["formula"]

# Targets are clipped to the first number, because all means lie in [-1, 1]. The largest allowed kappa is the second.
LARGEST_TARGET, LARGEST_SCALE = 1e3, 1e6
# The most entries of the candidates, and of the first linear program: 1.6 GB.
MOST_ENTRIES = 200_000_000


@dataclass(frozen=True, eq=False)
class ThesisDesign:
    """The measurements, their noise scales, and the sizes for the fit.

    grid: N, for rows that are rounded to A^d.
    levels: L, for means that are rounded to multiples of 1/L.
    rows: Default size of a sample; None: the number of rows of the table.
    rank, iterations: k and L of the private subspace iteration. Rank 0: no such iteration.
    """

    features: Features
    scales: NoiseScales
    grid: int | None
    levels: int | None
    rows: int | None
    rank: int = 0
    iterations: int = 0

    def __str__(self) -> str:
        axes = f", {self.rank} principal axes by {self.iterations} iterations" if self.rank else ""
        return f"means of {self.features.K} Chebyshev products{axes}"


@dataclass(frozen=True, kw_only=True)
class ThesisMechanism(Mechanism):
    """Options that all mechanisms of the thesis share.

    Parameters
    ----------
    smoothness : int
        K of the formulas: the number of bounded derivatives of the queries.
    calibration : {"rigorous", "published"}
        Noise scales that satisfy the budget, or those that the thesis prints; see :mod:`trigmech.thesis.calibration`.
    max_weight : float, optional
        The largest allowed weight (100 / number of candidates in the authors' program).
    time_limit : float, optional
        Seconds for the linear program. If it finds no weights in this time, or fails, the fit's status is "not solved",
        and some candidates get equal weights; see :func:`trigmech.thesis.candidates.even_fit`.

    Raises
    ------
    InputError
        If an option breaks a rule. All mechanisms of the thesis raise it before the charge.
    """

    approximate: ClassVar[bool]
    by_design: ClassVar[bool] = True

    smoothness: int = 4
    calibration: Calibration = "rigorous"
    max_weight: float | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        check_counts(self, (), "smoothness")
        check_choice("calibration", self.calibration, Calibration)
        for name in ("max_weight", "time_limit"):
            value = getattr(self, name)
            if value is not None:
                check_positive(**{name: value})

    @property
    def published(self) -> bool:  # type: ignore[override]
        """Whether the noise scales are the thesis's."""
        return self.calibration == "published"

    def _sizes(self, facts: PublicFacts) -> Sizes:
        delta = facts.budget.delta
        return Sizes.of(facts.n, facts.domain.d, self.smoothness, delta if self.approximate and delta > 0 else None)

    @abstractmethod
    def _measured(self, facts: PublicFacts) -> ThesisDesign:
        """Return the measurements, their noise scales, and the sizes for the fit."""

    @abstractmethod
    def _candidates(self, release: Release, design: ThesisDesign, rng: np.random.Generator) -> Array | Grid:
        """Return the points on which weights are fitted."""

    def plan(self, facts: PublicFacts) -> Design:
        measured = self._measured(facts)
        return Design(self, facts, measured, measured.scales.charges)

    def run(self, rows: PrivateRows, design: Design, session: Session, rng: np.random.Generator) -> Release:
        """Release means of Chebyshev products, and principal axes if the algorithm has them."""
        measured: ThesisDesign = design.measured
        moments = measure(rows, measured.features, grid=measured.grid, covariance=measured.rank > 0)
        return release(moments, measured.scales, self.calibration, session, rng, measured.rank,
                       measured.iterations, rows.domain)

    def reconstruct(self, release: Release, design: Design | None, rng: np.random.Generator) -> Reconstruction:
        """Return weights of candidates with the least L1 distance from the released means; post-processing.

        Raises
        ------
        InputError
            If there is no design. A loaded release has no design if it was made with other options or private bounds.
        """
        if design is None:
            raise InputError("the thesis's mechanisms need the release's design to make a distribution, and files do "
                             "not hold designs")
        measured: ThesisDesign = design.measured
        points = self._candidates(release, measured, rng)
        # Beyond 1 the size of a target does not change the best weights, but it affects the solver's tolerances.
        means = np.clip(release.means, -LARGEST_TARGET, LARGEST_TARGET)
        target = means if measured.levels is None else round_to_levels(means, measured.levels)
        try:
            fit = fit_l1(release.basis, points, target, max_weight=self.max_weight, levels=measured.levels,
                         time_limit=self.time_limit)
        except SolverError:
            # The release is paid for and must not be lost.
            fit = even_fit(release.basis, points, target, self.max_weight, measured.levels)
        atoms = np.flatnonzero(fit.weights)
        chosen = points.take(atoms) if isinstance(points, Grid) else points[atoms]
        return Reconstruction(Distribution(chosen, fit.weights[atoms]), target, fit.status, fit.iterations, fit.seconds,
                              objective=fit.objective, gap=fit.gap, rows=measured.rows)

    def _check_sizes(self, candidates: int, entries: int) -> None:
        # The fit also checks this, but it comes after the charge.
        if entries > MOST_ENTRIES:
            raise InputError(f"the candidates or the linear program would have {entries} entries, more than "
                             f"{MOST_ENTRIES}; take fewer candidates or functions")
        if self.max_weight is not None and self.max_weight * candidates < 1.0 - 1e-12:
            raise InputError(f"with max_weight = {self.max_weight} the weights of {candidates} candidates cannot sum "
                             "to 1")


@dataclass(frozen=True, kw_only=True)
class FullGridMechanism(ThesisMechanism):
    """Algorithms 4 and 5: the means of all functions of {0..t-1}^d, fitted on the whole grid A^d.

    Use :class:`TrigI` or :class:`TrigII`.

    Parameters
    ----------
    degree, grid, rows, levels : int or "formula"
        t, N, m and L of the thesis; "formula" (default) is its first line, see :class:`Sizes`. The weights themselves
        are published, so ``rows`` is only the default size of a sample. ``levels=None``: no rounding.
    smoothness, calibration, max_weight, time_limit
        See :class:`ThesisMechanism`.

    Raises
    ------
    InputError
        If an option breaks a rule, or t^d or N^d is too large: these algorithms are for small d.

    Notes
    -----
    Privacy: one noisy vector of means. :mod:`trigmech.thesis.calibration` has the proofs, and the ledger has the total.
    The means are taken over rows rounded to A. Line 9 also adds noise to the constant. This class does not, because the
    constant's mean is 1 for every table, and its noise would only shift the objective of the linear program.
    Cost: n t^d for the means. The program has N^d columns, at most 20 million, priced by the tensor structure.
    """

    degree: Size = "formula"
    grid: Size = "formula"
    rows: Size = "formula"
    levels: Size | None = "formula"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, ("formula",), "degree", "grid", "rows")
        check_counts(self, ("formula", None), "levels")

    def _measured(self, facts: PublicFacts) -> ThesisDesign:
        n, d = facts.n, facts.domain.d
        sizes = self._sizes(facts)
        grid = Grid(d, _size(self.grid, sizes.grid))
        basis = ChebyshevBasis.tensor(d, _size(self.degree, sizes.degree))
        self._check_sizes(len(grid), basis.K * min(len(grid), 2 * basis.K))
        scales = noise_scales(basis, n, facts.budget, self.calibration, self.approximate)
        return ThesisDesign(Features(basis), scales, grid.N, _size_or_none(self.levels, sizes.levels),
                            _size(self.rows, sizes.rows))

    def _candidates(self, release: Release, design: ThesisDesign, rng: np.random.Generator) -> Grid:
        return Grid(release.features.d, design.grid or 0)


@dataclass(frozen=True, kw_only=True)
class TrigI(FullGridMechanism):
    """Algorithm 4: pure epsilon (a budget's delta is not spent). Options: :class:`FullGridMechanism`.

    The published scale t^d/(n epsilon) is exactly epsilon-private at t = 2, and up to 1.22 epsilon for larger t. The
    thesis's proof uses half the true sensitivity of one mean.

    References
    ----------
    Huang 2014, algorithm 4, theorem 2.4.
    """

    approximate: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class TrigII(FullGridMechanism):
    """Algorithm 5: (epsilon, delta) with delta > 0. Options: :class:`FullGridMechanism`.

    "published" adds Laplace noise by proposition 1.12, whose proof has a reversed inequality. "rigorous" adds Gaussian
    noise, which suits delta > 0.

    References
    ----------
    Huang 2014, algorithm 5, theorem 2.5.
    """

    approximate: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class EllipsoidMechanism(ThesisMechanism):
    """Algorithms 9 and 10: a few means, fitted on points drawn in an ellipsoid of noisy principal axes.

    Use :class:`ImprovedTrigI` or :class:`ImprovedTrigII`.

    Parameters
    ----------
    n_candidates : int
        C: the number of drawn points.
    n_basis : int, optional
        R: functions, by ascending total degree, see :meth:`ChebyshevBasis.graded`. Default 2 d + 1: the constant, and
        T_1 and T_2 of every column.
    rank, iterations : int
        k and L of the private subspace iteration. A rank above d is cut to d. Default rank: 8 for ImprovedTrigI, whose
        noise grows with the rank; d for ImprovedTrigII, whose rigorous Gaussian noise is the same for all ranks above
        1. Among a few round values, these were best on five of the thesis's data sets together.
    scale : float, optional
        kappa: semi-axes in standard deviations. Default sqrt(rank + 2), for which uniform points have the released
        covariance.
    degree, grid, levels : int, "formula" or None
        t, N and L. None: no limit to the degree of a column, no rounding to A, no rounding to multiples of 1/L. On the
        thesis's own data the formulas of line 1 give t = 2 and often N = 2. Its experiments cannot have used these
        values. The authors' program has N = 100, which is the default here.
    rows : int or "formula", optional
        Default size of a sample; None: the number of rows of the table.
    ellipsoid : {"uniform", "published"}
        The distribution of the points; see :meth:`trigmech.thesis.candidates.Ellipsoid.draw`.
    eigenvalues : {"rayleigh", "norm"}
        The estimate of semi-axes; the thesis uses "norm". See :meth:`trigmech.measurement.released.Axes.eigenvalues`.
    background : float
        Fraction of the candidates that are uniform in the cube; 0 in the thesis.
    ties : {"fewest", "last"}
        The order of functions with equal total degree; the authors' program uses "last".
    smoothness, calibration, max_weight, time_limit
        See :class:`ThesisMechanism`.

    Raises
    ------
    InputError
        If an option breaks a rule, or n_basis exceeds the number of functions with degrees below t.

    Notes
    -----
    Privacy: three steps (means, mean, axes), each with a third of the budget. :mod:`trigmech.thesis.calibration` has
    the proofs, and the ledger has the total. The thesis contradicts itself in some places; these are our readings. Line
    11 of algorithm 10 calls the iteration of algorithm 7, but must mean 6. Noise has the shape (d, k) of the product.
    The basis is averaged over rows rounded to A; the mean and the covariance use rows without rounding. The thesis uses
    L for the number of iterations and for the rounding level; here these are two options. The authors' program clips
    candidates but does not round them, draws Laplace noise that is sqrt(2) too small, and seeds it with a constant;
    this class does not. Cost: n (R + d^2/2) for the moments, C R for each of some ten iterations of the linear program.
    """

    default_rank: ClassVar[int | None]

    n_candidates: int = 10_000
    n_basis: int | None = None
    rank: int | None = None
    iterations: int = 3
    scale: float | None = None
    degree: Size | None = None
    grid: Size | None = 100
    levels: Size | None = None
    rows: Size | None = None
    ellipsoid: Draw = "uniform"
    eigenvalues: Eigenvalues = "rayleigh"
    background: float = 0.5
    ties: Ties = "fewest"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(self, (), "n_candidates", "iterations")
        check_counts(self, (None,), "n_basis", "rank")
        check_counts(self, ("formula", None), "degree", "grid", "levels", "rows")
        if self.scale is not None and not (is_number(self.scale) and 0 < self.scale <= LARGEST_SCALE):
            raise InputError(f"scale must be positive and at most {LARGEST_SCALE:g}, not {shown(self.scale)}")
        if not (is_number(self.background) and 0 <= self.background <= 1):
            raise InputError(f"background must be between 0 and 1, not {shown(self.background)}")
        self._check_sizes(self.n_candidates, self.n_candidates)
        for name, choices in (("ellipsoid", Draw), ("eigenvalues", Eigenvalues), ("ties", Ties)):
            check_choice(name, getattr(self, name), choices)

    def _measured(self, facts: PublicFacts) -> ThesisDesign:
        n, d = facts.n, facts.domain.d
        sizes = self._sizes(facts)
        highest = None if self.degree is None else _size(self.degree, sizes.degree) - 1
        basis = ChebyshevBasis.graded(d, self.n_basis or 2 * d + 1, highest, self.ties)
        self._check_sizes(self.n_candidates, max(self.n_candidates * d, basis.K * min(self.n_candidates, 2 * basis.K)))
        rank = min(self.rank or self.default_rank or d, d)
        scales = noise_scales(basis, n, facts.budget, self.calibration, self.approximate, rank, self.iterations)
        return ThesisDesign(Features(basis), scales, _size_or_none(self.grid, sizes.grid),
                            _size_or_none(self.levels, sizes.levels), _size_or_none(self.rows, sizes.rows), rank,
                            self.iterations)

    def _candidates(self, release: Release, design: ThesisDesign, rng: np.random.Generator) -> Array:
        return ellipsoid_points(release, self.n_candidates, self.scale or math.sqrt(design.rank + 2), rng,
                                draw=self.ellipsoid, eigenvalues=self.eigenvalues, background=self.background,
                                grid=design.grid)


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


def _size(option: Size, formula: int) -> int:
    return formula if option == "formula" else option


def _size_or_none(option: Size | None, formula: int) -> int | None:
    return None if option is None else _size(option, formula)
