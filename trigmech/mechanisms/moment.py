"""The mechanism for tables of numbers: one weighted release of planned moments, and points fitted to it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from trigmech._validate import check_choice, check_counts, check_flags, check_positive
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.measurement.released import Release
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts, check_points, points_of
from trigmech.planning.design import Agenda, MomentDesign
from trigmech.planning.minimax import plan_smooth
from trigmech.planning.one_hot import MAX_MIXED_FUNCTIONS, plan_mixed
from trigmech.planning.search import MAX_FUNCTIONS, plan_moments
from trigmech.privacy.budget import Budget
from trigmech.reconstruction.pipeline import CLOUD, Method, reconstruct
from trigmech.reconstruction.result import Reconstruction
from trigmech.workload import Family, GaussianKernels, Mixture, PairKernels, SecondMoments

logger = logging.getLogger(__name__)

MINIMAX_FUNCTIONS = 1_024

# A preview, a release and its rehearsals make one plan: it depends on these public arguments alone.
_plan_mixed_once: Callable[..., MomentDesign] = lru_cache(maxsize=8)(plan_mixed)
_plan_moments_once: Callable[..., MomentDesign] = lru_cache(maxsize=8)(plan_moments)


def _own(design: MomentDesign) -> MomentDesign:
    """Return a remembered design with dictionaries of its own, which its holder may change."""
    return replace(design, predicted=dict(design.predicted), baseline=dict(design.baseline))


@lru_cache(maxsize=8, typed=True)
def default_workload(d: int) -> Mixture:
    """Return the default workload: a mixture of broad kernels, kernels of pairs, and second moments."""
    members = [GaussianKernels(d, seed=0), *([PairKernels(d, seed=0)] if d > 1 else []), SecondMoments(d)]
    return Mixture(tuple(members))


@dataclass(frozen=True, kw_only=True)
class MomentMechanism(Mechanism):
    """One noisy vector of the important moments, and equally weighted points that are fitted to it.

    Parameters
    ----------
    workload : Family, optional
        The queries that the release should answer well: :class:`GaussianKernels`, :class:`PairKernels`,
        :class:`SecondMoments`, :class:`Polynomials`, :class:`Smooth` or a :class:`Mixture` of these. It decides which
        moments are measured; the release answers all other queries too. Default: :func:`default_workload`.
    degree, pair_degree : int, optional
        Measure T_1, ..., T_p of each column, and T_a T_b, a, b <= q, of each pair (0: no pairs). Default: planned.
    triples, whole_row : bool, optional
        Measure x_i x_j x_k of any three columns, and the mean query of the workload's kernels. Default: planned.
    weighted : bool
        False: equal noise in all moments.
    smoothness : float, optional
        k, for the minimax design for k times differentiable queries in place of a planned one; see :func:`minimax`.
    max_functions : int, optional
        The largest number of moments. Default: 4096, or 16,384 for tables with categories.
    fit : {"rows", "cloud", "atoms"}
        The method that fits a distribution to the moments; see :func:`trigmech.reconstruction.pipeline.reconstruct`.
    points : int, optional
        The number of points for "rows". Default: the number of rows of the table, but 1024 to 50,000.
    iterations : int
        The most steps of the descent of "rows" that moves points continuously inside the cells of a grid. A few
        suffice.
    denoise, copula, weigh : bool
        Steps of the reconstruction. They can be switched off for comparisons. ``weigh`` belongs to "cloud".

    Raises
    ------
    InputError
        If an option breaks a rule or has no effect together with another one, or if there are too many moments or
        points. It is raised before the charge.

    Notes
    -----
    Privacy: one noisy vector. The noise is Gaussian for delta > 0, otherwise K-norm noise (Laplace, or blocks of
    l-infinity). The proofs are in :mod:`trigmech.planning.allocation`, :mod:`trigmech.planning.minimax` and
    :mod:`trigmech.functions.sensitivity`. The rest is post-processing. Cost: n K multiplications for the moments.
    Planning and reconstruction take a few seconds at most, for any n.

    Examples
    --------
    >>> import trigmech as tm
    >>> mechanism = tm.MomentMechanism(workload=tm.workload.SecondMoments(8))
    >>> design = mechanism.design(n=10_000, d=8, budget=tm.Budget(1.0, 1e-6))
    >>> (design.degree, design.pair_degree)
    (2, 1)
    """

    workload: Family | None = None
    degree: int | None = None
    pair_degree: int | None = None
    triples: bool | None = None
    whole_row: bool | None = None
    weighted: bool = True
    smoothness: float | None = None
    max_functions: int | None = None
    fit: Method = "rows"
    points: int | None = None
    iterations: int = 80
    denoise: bool = True
    copula: bool = True
    weigh: bool = True

    def __post_init__(self) -> None:
        check_counts(self, (), "iterations")
        check_counts(self, (None,), "degree", "points", "max_functions")
        check_counts(self, (None, 0), "pair_degree")
        if self.fit == "particles":  # type: ignore[comparison-overlap] # its older name
            object.__setattr__(self, "fit", "rows")
        check_choice("fit", self.fit, Method)
        check_flags(self, (), "weighted", "denoise", "copula", "weigh")
        check_flags(self, (None,), "triples", "whole_row")
        if self.workload is not None and not isinstance(self.workload, Family):
            raise InputError(f"workload must be a query family such as GaussianKernels, not {shown(self.workload)}")
        if self.smoothness is not None:
            check_positive(smoothness=self.smoothness)
            self._refuse("smoothness", "workload", "degree", "pair_degree", "triples", "whole_row", "weighted",
                         "denoise")
        self._refuse(f"fit={self.fit!r}", *(["weigh"] if self.fit == "rows" else ["points", "iterations"]))
        if self.fit == "atoms":
            self._refuse("fit='atoms'", "weigh", *(["whole_row"] if self.whole_row else []))

    def _refuse(self, reason: str, *names: str) -> None:
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name in names and value is not option.default and value != option.default:
                raise InputError(f"{option.name} has no effect together with {reason}; give only one of them")

    def design(self, n: int, d: int | Domain, budget: Budget) -> MomentDesign:
        """Return the planned measurements of a table of n rows and d columns, and the expected error; public.

        Parameters
        ----------
        n : int
            The number of rows.
        d : int or Domain
            The number of numeric columns; or the domain of a schema (``schema.domain``), which may have indicators too.
            The workload concerns the numeric columns only.
        budget : Budget

        Raises
        ------
        InputError
            If the workload has another number of columns, or the design is too large.
        """
        domain = d if isinstance(d, Domain) else Domain(d)
        d = len(domain.numbers)
        if self.smoothness is not None:
            if domain.groups:
                raise InputError("the minimax design is only for tables whose columns are all numbers")
            return plan_smooth(n, d, budget, self.smoothness, self.max_functions or MAX_FUNCTIONS)
        workload = self.workload or (default_workload(d) if d else None)
        if workload is not None and workload.d != d:
            raise InputError(f"the workload has {workload.d} columns, but the table has {d} with numbers")
        # Own workloads may change, or have no hash.
        once = self.workload is None and isinstance(n, int)
        if domain.groups or workload is None:
            if self.fit != "rows" or self.whole_row:
                raise InputError("for tables with indicators fit must be 'rows', and whole_row cannot be True; "
                                 f"given fit={self.fit!r} and whole_row={self.whole_row!r}")
            mixed = _plan_mixed_once if once else plan_mixed
            return _own(mixed(n, domain, budget, workload, degree=self.degree, pair_degree=self.pair_degree,
                              triples=self.triples, weighted=self.weighted,
                              max_functions=self.max_functions or MAX_MIXED_FUNCTIONS))
        moments = _plan_moments_once if once else plan_moments
        return _own(moments(n, d, budget, workload, degree=self.degree, pair_degree=self.pair_degree,
                            triples=self.triples, whole_row=self.whole_row, weighted=self.weighted,
                            max_functions=self.max_functions or MAX_FUNCTIONS))

    def plan(self, facts: PublicFacts) -> Design:
        """Return the planned measurements and charges; see :meth:`design`.

        Raises
        ------
        InputError
            As :meth:`design`, or if the requested points do not fit into memory.
        """
        d = facts.domain.d
        check_points(self.most_points(facts.n, d), d)
        measured = self.design(facts.n, facts.domain, facts.budget)
        logger.info("design chosen: n = %d, D = %d, K = %d, degrees up to %d, in pairs up to %d", facts.n, d,
                    measured.features.K, measured.degree, measured.pair_degree)
        return Design(self, facts, measured, tuple(each.charge for each in measured.rounds))

    def agenda(self, design: Design) -> Agenda:
        """Return all measurements, and the predicted errors."""
        measured: MomentDesign = design.measured
        return replace(super().agenda(design), words=measured.head, predicted=measured.predicted)

    def most_points(self, n: int, d: int) -> int:
        """Return the largest number of points: the requested number, or the default for n rows or for a cloud."""
        return self.points or (points_of(n, d) if self.fit == "rows" else max(points_of(n, d), 2 * CLOUD))

    def reconstruct(self, release: Release, design: Design | None, rng: np.random.Generator) -> Reconstruction:
        """Return points, with equal or fitted weights, that agree with the released numbers; post-processing."""
        count = self.points or points_of(release.n, release.domain.d)
        costs = None
        if self.smoothness is not None:
            costs = np.linalg.norm(release.index.degrees, axis=1) ** self.smoothness
        return reconstruct(release, count, rng, fit=self.fit, denoise=self.denoise and costs is None,
                           copula=self.copula, weigh=self.weigh, iterations=self.iterations, costs=costs)


def minimax(smoothness: float, **options: Any) -> MomentMechanism:
    """Return the mechanism with the minimax rate for k times differentiable queries of few columns.

    Parameters
    ----------
    smoothness : float
        k, positive.
    **options
        Options of :class:`MomentMechanism`; the default of ``max_functions`` is 1024 here.

    References
    ----------
    Musco, Musco, Rosenblatt and Singh 2025; Ding, He and Zhu 2026. The constants are derived in
    :mod:`trigmech.planning.minimax`.
    """
    return MomentMechanism(**{"smoothness": smoothness, "max_functions": MINIMAX_FUNCTIONS, **options})
