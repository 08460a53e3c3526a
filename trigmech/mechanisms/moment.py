"""The package's own mechanism: one weighted release of planned moments, and points that explain it."""

import logging
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from trigmech._validate import check_choice, check_counts, check_flags, check_positive
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.measurement.released import Release
from trigmech.mechanisms.base import Design, Mechanism, PublicFacts, check_points, points_of
from trigmech.planning.design import MomentDesign
from trigmech.planning.minimax import plan_smooth
from trigmech.planning.one_hot import MAX_MIXED_FUNCTIONS, plan_mixed
from trigmech.planning.search import MAX_FUNCTIONS, plan_moments
from trigmech.privacy.budget import Budget
from trigmech.reconstruction.pipeline import CLOUD, Method, reconstruct
from trigmech.reconstruction.result import Reconstruction
from trigmech.workload import Family, GaussianKernels, Mixture, PairKernels, SecondMoments

logger = logging.getLogger(__name__)

MINIMAX_FUNCTIONS = 1_024


def default_workload(d: int) -> Mixture:
    """Return the mixture that a release serves by default: broad kernels, kernels of pairs, second
    moments."""
    members = [GaussianKernels(d, seed=0), *([PairKernels(d, seed=0)] if d > 1 else []), SecondMoments(d)]
    return Mixture(tuple(members))


@dataclass(frozen=True, kw_only=True)
class MomentMechanism(Mechanism):
    """One noisy vector of the important moments, and equally weighted points that explain it.

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
        k: the minimax design for k times differentiable queries instead of a planned one; see :func:`minimax`.
    max_functions : int, optional
        The largest number of moments. Default: 4096, or 16,384 for tables with categories.
    fit : {"rows", "cloud", "atoms"}
        The method that fits a distribution to the moments; see :func:`trigmech.reconstruction.pipeline.reconstruct`.
    points : int, optional
        The number of points for "rows". Default: the number of rows of the table, but 1024 to 50,000.
    iterations : int
        The most steps of the descent of "rows" that moves points continuously, inside the cells of a grid; few suffice.
    denoise, copula, weigh : bool
        Steps of the reconstruction, which can be switched off for comparisons; ``weigh`` belongs to "cloud".

    Raises
    ------
    InputError
        If an option breaks a rule or has no effect together with another one, or there are too many moments or points;
        before anything is charged.

    Notes
    -----
    Privacy: one mechanism call on one vector, Gaussian for delta > 0, otherwise K-norm (Laplace or blocks of
    l-infinity); proofs in :mod:`trigmech.planning.allocation`, :mod:`trigmech.planning.minimax` and
    :mod:`trigmech.functions.sensitivity`. The rest is post-processing. Cost: n K for the moments; planning and
    reconstruction do not depend on n, a few seconds at most.

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
            Rows.
        d : int or Domain
            Columns of numbers, or the domain of a schema (``schema.domain``) that has indicators as well; the workload
            is then of its numbers alone.
        budget : Budget

        Raises
        ------
        InputError
            If the workload is of another number of columns, or the design is too large.
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
        if domain.groups or workload is None:
            if self.fit != "rows" or self.whole_row:
                raise InputError("for tables with indicators fit must be 'rows', and whole_row cannot be True; "
                                 f"given fit={self.fit!r} and whole_row={self.whole_row!r}")
            return plan_mixed(n, domain, budget, workload, degree=self.degree, pair_degree=self.pair_degree,
                              triples=self.triples, weighted=self.weighted,
                              max_functions=self.max_functions or MAX_MIXED_FUNCTIONS)
        return plan_moments(n, d, budget, workload, degree=self.degree, pair_degree=self.pair_degree,
                            triples=self.triples, whole_row=self.whole_row, weighted=self.weighted,
                            max_functions=self.max_functions or MAX_FUNCTIONS)

    def plan(self, facts: PublicFacts) -> Design:
        """Return what will be measured and charged; see :meth:`design`.

        Raises
        ------
        InputError
            As :meth:`design`, or if the points asked for are too many for memory.
        """
        d = facts.domain.d
        check_points(self.most_points(facts.n, d), d)
        measured = self.design(facts.n, facts.domain, facts.budget)
        logger.info("design chosen: n = %d, D = %d, K = %d, degrees up to %d, in pairs up to %d", facts.n, d,
                    measured.features.K, measured.degree, measured.pair_degree)
        return Design(self, facts, measured, tuple(each.charge for each in measured.rounds))

    def most_points(self, n: int, d: int) -> int:
        """Return how many points are made at most: those that are asked for, those of n rows, or those of a cloud."""
        return self.points or (points_of(n, d) if self.fit == "rows" else max(points_of(n, d), 2 * CLOUD))

    def reconstruct(self, release: Release, design: Design | None, rng: np.random.Generator) -> Reconstruction:
        """Return equally weighted points, or weights, that explain the released numbers; post-processing."""
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

    Returns
    -------
    MomentMechanism

    References
    ----------
    Musco, Musco, Rosenblatt and Singh 2025; Ding, He and Zhu 2026. Constants are those of
    :mod:`trigmech.planning.minimax`.
    """
    return MomentMechanism(**{"smoothness": smoothness, "max_functions": MINIMAX_FUNCTIONS, **options})
