"""Each number that a caller gives has the bounds that its documentation names: these pass, and what is beyond not."""

import itertools
import math

import numpy as np
import pytest

import trigmech as tm
from trigmech.acceptance.criteria import Criterion
from trigmech.distribution import systematic
from trigmech.errors import InputError
from trigmech.evaluation import resampling, statistics
from trigmech.evaluation.verdict import _limit
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.grid import Grid
from trigmech.functions.sensitivity import pair_l1_diameter, pair_l2_diameter
from trigmech.inference.estimate import combine
from trigmech.inference.imputations import Imputations
from trigmech.inference.regression import fitted
from trigmech.inference.sql import ask
from trigmech.inference.weighted import WeightedTable
from trigmech.planning.minimax import plan_smooth
from trigmech.planning.shares import Shares
from trigmech.reconstruction import marginals, particles, shrinkage
from trigmech.reconstruction.l1 import Problem
from trigmech.reconstruction.l1_cube import CubeSearch, fit_cube
from trigmech.reconstruction.linear_program import Clock
from trigmech.workload import GaussianKernels, Marginals, PairKernels, Polynomials, Ranges, SecondMoments, Smooth
from trigmech.workload.family import query_span

CUBE = tm.Schema.cube(2)
BASIS = ChebyshevBasis.graded(1, 2)
KERNELS = GaussianKernels(1, 0, 5)
POINTS = np.array([[0.0], [0.5]])


def distribution():
    return tm.Distribution(POINTS, np.array([0.5, 0.5]))


def cloud(count):
    return marginals.SmoothMarginals.fit(np.zeros((2, 1)), np.ones((2, 1))).cloud(count, np.random.default_rng(0))


# What is called with an integer, its name in the message, its least value, and the greatest if there is one.
CASES = {
    "cube": (tm.Schema.cube, "d", 1, None),
    "cloud": (cloud, "count", 1, None),
    "levels of a program": (lambda k: Problem(BASIS, POINTS, np.zeros(2), None, None, k), "levels", 1, None),
    "scores": (lambda k: Shares(0.3, 0.1, 0.5, k), "scores", 0, None),
    "cells of a statistic": (lambda k: statistics.marginal(CUBE, ["x1"], k), "cells", 1, None),
    "marginals": (Marginals, "k", 1, 3),
    "ranges": (Ranges, "k", 1, None),
    "kernels: columns": (lambda k: GaussianKernels(k, 0), "d", 1, None),
    "kernels: queries": (lambda k: GaussianKernels(2, 0, k), "n_queries", 1, None),
    "kernels: centres": (lambda k: GaussianKernels(2, 0, n_centers=k), "n_centers", 1, None),
    "kernels: degree": (lambda k: KERNELS.mean_profile(2.0, k), "degree", 0, None),
    "pair kernels: columns": (lambda k: PairKernels(k, 0), "", 2, None),
    "pair kernels: queries": (lambda k: PairKernels(2, 0, k), "n_queries", 1, None),
    "second moments": (SecondMoments, "d", 1, None),
    "polynomials: columns": (lambda k: Polynomials(k, 2, seed=0), "d", 1, None),
    "polynomials: degree": (lambda k: Polynomials(2, k, seed=0), "degree", 1, None),
    "polynomials: queries": (lambda k: Polynomials(2, 2, k, seed=0), "n_queries", 1, None),
    "smooth: columns": (lambda k: Smooth(k, 2.0, 3), "d", 1, None),
    "smooth: degree": (lambda k: Smooth(2, 2.0, k), "degree", 1, None),
    "grid: columns": (lambda k: Grid(k, 3), "d", 1, None),
    "grid: nodes": (lambda k: Grid(2, k), "N", 1, None),
    "diameter in L1": (lambda k: pair_l1_diameter(k, [1.0], [1.0]), "the number of columns", 1, None),
    "diameter in L2": (lambda k: pair_l2_diameter(k, [1.0], [1.0]), "the number of columns", 1, None),
    "full set: columns": (lambda k: ChebyshevBasis.tensor(k, 2), "d", 1, None),
    "full set: degrees": (lambda k: ChebyshevBasis.tensor(2, k), "t", 1, None),
    "graded: columns": (lambda k: ChebyshevBasis.graded(k, 1), "d", 1, None),
    "graded: functions": (lambda k: ChebyshevBasis.graded(1, k), "K", 1, None),
    "graded: degree": (lambda k: ChebyshevBasis.graded(2, 4, k), "max_degree", 1, None),
    "graded: functions up to a degree": (lambda k: ChebyshevBasis.graded(2, k, 2), "K", 1, 9),
    "total degree: columns": (lambda k: ChebyshevBasis.total_degree(k, 1), "d", 1, None),
    "total degree: degree": (lambda k: ChebyshevBasis.total_degree(2, k), "degree", 0, None),
    "sensitivity in L1": (BASIS.l1_sensitivity, "n", 1, None),
    "sensitivity in L2": (BASIS.l2_sensitivity, "n", 1, None),
    "sample": (lambda k: distribution().sample(k), "size", 0, None),
    "systematic": (lambda k: systematic(np.ones(2), k, np.random.default_rng(0)), "count", 1, None),
    "first query": (lambda k: query_span(k, 5, 5), "start", 0, 5),
    "last query": (lambda k: query_span(0, k, 5), "stop", 0, 5),
}


@pytest.mark.parametrize("case", CASES)
def test_the_least_integer_that_is_documented_passes_and_one_less_does_not(case):
    call, name, least, most = CASES[case]
    call(least)
    call(np.int64(least))
    for wrong in itertools.chain([least - 1, -1, True, least + 0.5], [] if most is None else [most + 1]):
        with pytest.raises(InputError) as refused:
            call(wrong)
        # The message names the argument that is at fault.
        assert name in str(refused.value)
    if most is not None:
        call(most)


def criterion(**options):
    return Criterion(**{"measure": "correlation", "limit": 0.1, "columns": ("a", "b"), **options})


def searched(tolerance):
    return CubeSearch(BASIS).ascend(POINTS, [0.0, 1.0], tolerance)


def improved(**options):
    return tm.ImprovedTrigI(**options)


ABOVE_0, BELOW_1, LEAST = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0), math.nextafter(0.0, -1.0)
LEVELS = ([], [0.0, 1.0, -0.5, 1.5, math.nan])
# What is called with a number, its name in the message, numbers that pass, and numbers that do not.
RANGES = {
    "combined level": (lambda x: combine([1.0, 2.0], level=x), "level", [0.01, 0.99], LEVELS[1]),
    # The level is looked at before anything else.
    "level of imputations": (lambda x: Imputations.combined(None, [], [], x), "level", *LEVELS),
    "level of a regression": (lambda x: fitted(None, "y ~ x", "gaussian", x), "level", *LEVELS),
    "level of a question": (lambda x: ask(None, "", x), "level", *LEVELS),
    "level of weighted rows": (lambda x: WeightedTable.interval(None, [], [], x), "level", *LEVELS),
    "level of a weighted statistic": (lambda x: WeightedTable.estimate(None, None, x), "level", *LEVELS),
    "level of plausible tables": (lambda x: resampling.Resamples.bars(None, len, x), "level", *LEVELS),
    "variances of combined tables": (lambda x: combine([1.0, 2.0], [1.0, x]), "variances", [0.0], [LEAST, -1.0]),
    "weight of a program": (lambda x: Problem(BASIS, POINTS, np.zeros(2), [1.0, x], None, None), "weights",
                            [0.0], [LEAST, -1.0]),
    "largest weight": (lambda x: Problem(BASIS, POINTS, np.zeros(2), None, x, None), "max_weight",
                       [0.5, 3.0], [0.0, -1.0, math.nan]),
    "time": (Clock, "time_limit", [ABOVE_0, None], [0.0, -1.0, math.nan]),
    "gap": (lambda x: fit_cube(BASIS, [0.0, 0.0], POINTS, gap=x), "gap", [], [0.0, 1.0, math.nan]),
    "noise level": (lambda x: fit_cube(BASIS, [0.0, 0.0], POINTS, noise_level=x), "noise_level",
                    [], [LEAST, math.inf, math.nan]),
    "start": (lambda x: CubeSearch(BASIS).ascend([[x]], [0.0, 1.0]), "starts",
              [-1.0, 1.0], [math.nextafter(1.0, 2.0), math.nextafter(-1.0, -2.0), math.nan]),
    "tolerance": (searched, "tolerance", [0.0, 1.0], [LEAST, math.inf, math.nan]),
    "jitter": (lambda x: particles.draw(POINTS, np.ones(2), 2, x, np.random.default_rng(0)), "jitter",
               [0.0, 1.0], [LEAST, math.inf, math.nan]),
    "scale of a mean": (lambda x: particles.reweight(np.ones((2, 1)), np.zeros(1), np.array([x])), "scales",
                        [1e-3], [0.0, -1.0, math.nan]),
    "caution": (lambda x: shrinkage.shrink_interactions([[1, 1]], [0.5], [1.0], [0.0], x), "caution",
                [0.0, 1.0], [LEAST, math.nan]),
    "scale of an interaction": (lambda x: shrinkage.shrink_interactions([[1, 1]], [0.5], [x], [0.0]), "scales",
                                [1e-3], [0.0, -1.0, math.nan]),
    "smoothness": (lambda x: plan_smooth(100, 2, tm.Budget(1.0, 1e-6), x, 100), "smoothness",
                   [0.01, 4.0], [0.0, -1.0, math.inf, math.nan]),
    "scale of an ellipsoid": (lambda x: improved(scale=x), "scale", [ABOVE_0, 1e6, None],
                              [0.0, -1.0, math.nextafter(1e6, 1e7), math.nan]),
    "background": (lambda x: improved(background=x), "background", [0, 1, 0.0, 1.0],
                   [LEAST, math.nextafter(1.0, 2.0), math.nan, True]),
    "limit of a criterion": (lambda x: criterion(limit=x), "limit", [0.0, 1.0], [LEAST, math.nextafter(1.0, 2.0)]),
    "confidence": (lambda x: criterion(confidence=x), "confidence", [0.5, 0.999], [math.nextafter(0.5, 0.0), 1.0]),
    "clip": (lambda x: criterion(clip=x), "clip", [ABOVE_0, 10.0], [0.0, math.nextafter(10.0, 11.0)]),
    "share of a criterion": (lambda x: criterion(share=x), "share", [ABOVE_0, 1e6], [0.0, math.nextafter(1e6, 1e7)]),
    "bins": (lambda x: criterion(bins=x), "bins", [2, 1_024], [1, 1_025, 2.0, True]),
    "limit of a light": (lambda x: _limit("detector", {"care": x}), "care", [1.0], [LEAST, math.nextafter(1.0, 2.0)]),
    "share of the look": (lambda x: Shares(x, 0.0, 0.5), "look", [1e-6, 1.0 - 1e-6], [0.0, 9e-7, 1.0, -0.1, math.nan]),
    "share of details": (lambda x: Shares(0.5, x, 0.5), "closer", [0.0, 1e-6, 0.499998],
                         [9e-7, 0.4999995, 0.5, -0.1, math.nan]),
    "share of products": (lambda x: Shares(0.5, 0.1, x), "products", [0.0, 1e-6, 1.0 - 1e-6],
                          [9e-7, 1.0 - 5e-7, 1.0, -0.1, math.nan]),
    "share of chosen tables": (lambda x: Shares(0.5, 0.1, 0.5, selected=x), "selected", [0.0, 1e-6, 1.0 - 1e-6],
                               [9e-7, 1.0 - 5e-7, 1.0, -0.1, math.nan]),
    "point": (lambda x: tm.Distribution(np.array([[x]]), np.ones(1)), "points", [-1.0, 1.0],
              [math.nextafter(1.0, 2.0), math.nextafter(-1.0, -2.0), math.nan]),
    "weight": (lambda x: tm.Distribution(POINTS, np.array([1.0 - x, x])), "weights", [0.0, 1.0],
               [LEAST, 1.0 + 1e-9, math.nan]),
    "sum of weights": (lambda x: tm.Distribution(POINTS[:1], np.array([x])), "weights",
                       [1.0 - 9e-10, 1.0 + 9e-10], [1.0 - 2e-9, 1.0 + 2e-9]),
    "drawn weights": (lambda x: systematic(np.array([1.0, x]), 3, np.random.default_rng(0)), "weights",
                      [0.0, 5.0], [LEAST, math.inf, math.nan]),
    "only weight": (lambda x: systematic(np.array([x]), 3, np.random.default_rng(0)), "weights", [1e-300], [0.0]),
    "weight of a pair": (lambda x: pair_l2_diameter(2, [1.0], [x]), "", [0.0, 1e60],
                         [LEAST, math.nextafter(1e60, 1e61), math.nan]),
}


@pytest.mark.parametrize("case", RANGES)
def test_numbers_at_the_bounds_pass_and_the_next_ones_do_not(case):
    call, name, good, bad = RANGES[case]
    for value in good:
        call(value)
    for value in bad:
        with pytest.raises(InputError) as refused:
            call(value)
        assert name in str(refused.value), value
