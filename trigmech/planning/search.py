"""A search for the moments to measure of rows of numbers, by predicted error and from public numbers only.

A design measures T_1, ..., T_p of every column, T_a T_b (a, b <= q) of every pair of columns, perhaps x_i x_j x_k of
every three, and perhaps the whole-row functions of :class:`trigmech.functions.features.Features`. All columns are
treated alike. If a workload needs a function of some columns only, the function is measured for all columns, and its
weight follows from its mean importance.

The search minimises the mean logarithm of the predicted error (:mod:`trigmech.planning.error_model`) over the query
groups of the workload. All groups count alike, including those of the members of a mixture. First there is a greedy
search over p, q, the triples and the whole-row functions, with weights by importance
(:mod:`trigmech.planning.allocation`). Then a coordinate search improves the weights. For delta = 0 the search takes the
better of Laplace noise and l-infinity blocks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import attrgetter

import numpy as np

from trigmech._arrays import Array
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.index import FunctionIndex
from trigmech.planning.allocation import Allocation, GaussianVector, InfinityBlocks, LaplaceVector
from trigmech.planning.design import MomentDesign, Regime
from trigmech.planning.error_model import MOST_DEGREE, MOST_PAIR_DEGREE, ErrorModel, Selection
from trigmech.privacy.budget import Budget
from trigmech.workload import Family, members_of
from trigmech.workload.family import is_symmetric

MAX_FUNCTIONS = 4_096
DEGREES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
PAIR_DEGREES = (0, 1, 2, 3, 4, 5, 6, 8)
# The least gain of the score that justifies a larger selection or a change of weights.
LEAST_GAIN, LEAST_REFINEMENT = 1e-3, 1e-4


def plan_moments(n: int, d: int, budget: Budget, workload: Family, *, degree: int | None = None,
                 pair_degree: int | None = None, triples: bool | None = None, whole_row: bool | None = None,
                 weighted: bool = True, max_functions: int = MAX_FUNCTIONS, fraction: float = 1.0) -> MomentDesign:
    """Return the design for n rows and d columns with the least predicted error.

    workload: The queries that the release should answer well.
    degree, pair_degree, triples, whole_row: Fix a part of the design in place of planning it.
    weighted: False: equal noise in all moments, for comparisons.
    max_functions: Limit of K. Time and memory of the fit grow with K.
    fraction: The fraction of the budget, above 0 and at most 1; see :class:`trigmech.planning.design.Regime`.

    Raises an InputError if a fixed part breaks a rule or needs more than ``max_functions`` functions.

    Privacy: public numbers only. Cost: some hundred sensitivities take less than a second, but some seconds for degrees
    above 16 (n above 10^7).
    """
    _check(n, d, workload, degree, pair_degree)
    # Functions beyond the planned degrees count as unmeasured.
    most = DEGREES[-1] if all(map(is_symmetric, members_of(workload))) else MOST_DEGREE
    model = ErrorModel(workload, max(most, degree or 0), max(PAIR_DEGREES[-1], pair_degree or 0))
    choices = _Choices(model, DEGREES if degree is None else (degree,),
                       (0,) if d == 1 else PAIR_DEGREES if pair_degree is None else (pair_degree,),
                       (False,) if d < 3 else (False, True) if triples is None else (triples,),
                       _whole_rows(model, whole_row), max_functions)
    regime = Regime.of(budget)
    search = _Search(model, n, regime.part(fraction), regime.gaussian, weighted)
    return _design(model, search.refined(search.best(choices)))


def _check(n: int, d: int, workload: Family, degree: int | None, pair_degree: int | None) -> None:
    for name, value, least in (("n", n, 2), ("d", d, 1), ("degree", degree, 1), ("pair_degree", pair_degree, 0)):
        if value is None and name.endswith("degree"):
            continue
        if isinstance(value, bool) or not (isinstance(value, int | np.integer) and value >= least):
            raise InputError(f"{name} must be an integer that is at least {least}, not {shown(value)}")
    for name, value, most in (("degree", degree, MOST_DEGREE), ("pair_degree", pair_degree, MOST_PAIR_DEGREE)):
        if value is not None and value > most:
            raise InputError(f"{name} must be at most {most}, because sensitivities of higher degrees are unknown; "
                             f"given {value}")
    if workload.d != d:
        raise InputError(f"the workload has {workload.d} columns, but the table has {d}")


def _whole_rows(model: ErrorModel, whole_row: bool | None) -> list[tuple[int, ...]]:
    """Return the sets of query groups whose mean queries may be measured together."""
    some: list[tuple[int, ...]] = [*((group,) for group in model.measurable), *combinations(model.measurable, 2)]
    wholes: list[tuple[int, ...]] = [()] if whole_row is False else some if whole_row else [(), *some]
    if not wholes:
        raise InputError("whole_row needs a workload of Gaussian kernels")
    return wholes


@dataclass(frozen=True)
class _Choices:
    """The allowed selections."""

    model: ErrorModel
    degrees: Sequence[int]
    pair_degrees: Sequence[int]
    triples: Sequence[bool]
    whole: Sequence[tuple[int, ...]]
    max_functions: int

    def first(self) -> Selection:
        first = Selection(self.model.d, self.degrees[0], self.pair_degrees[0], self.triples[0], self.whole[0])
        if first.sizes.sum() > self.max_functions:
            raise InputError(f"the design needs {first.sizes.sum()} functions for {self.model.d} columns, more than "
                             f"max_functions = {self.max_functions}; lower the degrees or raise it")
        return first

    def neighbours(self, selection: Selection) -> list[Selection]:
        """Return the selections one step away."""
        found = [replace(selection, degree=p) for p in self._near(self.degrees, selection.degree, 1)]
        found += [replace(selection, pair_degree=q) for q in self._near(self.pair_degrees, selection.pair_degree, 2)]
        found += [replace(selection, triples=t) for t in self.triples if t != selection.triples]
        found += [replace(selection, whole=groups) for groups in self.whole if groups != selection.whole]
        return [each for each in found if each.sizes.sum() <= self.max_functions]

    def _near(self, options: Sequence[int], value: int, width: int) -> list[int]:
        """Return the neighbouring degrees, the second next, and the next that matters.

        The second next is tried because an odd degree alone may gain nothing.
        """
        at = options.index(value)
        above = [i for i in range(at + 1, len(options)) if self.model.matters(width, options[at], options[i])]
        return [options[i] for i in sorted({at - 1, at + 1, at + 2, *above[:1]}) if 0 <= i < len(options)]


@dataclass(frozen=True)
class _Trial:
    """An allocation with its weights, the predicted variances of the errors, and the score."""

    allocation: Allocation
    weights: Array
    variances: Array
    score: float


@dataclass(frozen=True)
class _Search:
    """Compares selections and weights by the predicted error."""

    model: ErrorModel
    n: int
    strength: float
    gaussian: bool
    weighted: bool

    def best(self, choices: _Choices) -> _Trial:
        """Return the best selection that a greedy search finds, with weights by importance."""
        best = self._allocated(choices.first())
        while True:
            trials = map(self._allocated, choices.neighbours(best.allocation.selection))
            better = min(trials, key=attrgetter("score"), default=best)
            if not better.score < best.score - LEAST_GAIN:
                return best
            best = better

    def refined(self, trial: _Trial) -> _Trial:
        """Return a trial with weights that no change improves."""
        best, step = trial, 1.5 if self.weighted else 1.0
        while step > 1.1:
            improved = False
            for factors in best.allocation.changes(step):
                other = self._trial(best.allocation, best.allocation.normal(best.weights * factors))
                if other.score < best.score - LEAST_REFINEMENT:
                    best, improved = other, True
                    if not best.allocation.GREEDY:
                        break
            if not improved:
                step = math.sqrt(step)
        return best

    def _allocated(self, selection: Selection) -> _Trial:
        kinds: list[type[Allocation]] = [GaussianVector] if self.gaussian else [InfinityBlocks, LaplaceVector]
        allocations = [kind(self.n, self.strength, selection, self.model.symmetric) for kind in kinds]
        return min(map(self._by_importance, allocations), key=attrgetter("score"))

    def _by_importance(self, allocation: Allocation) -> _Trial:
        """Return weights by importance. Importance depends on the errors, so both are computed in turns."""
        if not self.weighted:
            return self._trial(allocation, allocation.equal())
        best = now = self._weighed(allocation, self.model.nothing())
        for _ in range(allocation.ROUNDS):
            now = self._weighed(allocation, now.variances)
            if now.score < best.score:
                best = now
            elif allocation.GREEDY:
                break
        return best

    def _weighed(self, allocation: Allocation, variances: Array) -> _Trial:
        return self._trial(allocation, allocation.by_importance(self.model.importance(allocation.selection, variances)))

    def _trial(self, allocation: Allocation, weights: Array) -> _Trial:
        variances = self.model.variances(allocation.selection, allocation.deviations(weights))
        return _Trial(allocation, weights, variances, self.model.score(variances))


def _design(model: ErrorModel, trial: _Trial) -> MomentDesign:
    selection = trial.allocation.selection
    index = FunctionIndex(selection.multi_indices, Domain(selection.d), len(selection.whole))
    features = Features(ChebyshevBasis(index.degrees), [np.asarray(model.profiles[f]) for f in selection.whole])
    predicted, baseline = (dict(zip(model.labels, np.sqrt(variances).tolist(), strict=True)) for variances in (
        trial.variances, model.nothing()))
    return MomentDesign(features, index, trial.allocation.rounds(features, trial.weights), predicted, baseline)
