"""Compiled functions read and write within their arrays: without their compiler, Python looks at each index.

A write just beyond the end of an array changes what stands next to it in memory, and mostly nothing that a test sees.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN = """
import numpy as np
import numba
assert numba.config.DISABLE_JIT
rng = np.random.default_rng(0)
"""
CALLS = {
    "ascents": """
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.coordinate_ascent import coordinate_ascent
from trigmech.reconstruction.l1_cube import CubeSearch
for d, degree in ((1, 1), (1, 4), (2, 3)):
    basis = ChebyshevBasis.tensor(d, degree)
    held = CubeSearch(basis)
    for points in (rng.uniform(-1.0, 1.0, (2, d)), np.ones((1, d)), -np.ones((1, d))):
        assert coordinate_ascent(points, rng.normal(size=basis.K), held._term_starts, held._term_features,
                                 held._column_starts, held._column_terms, held._column_degrees, held._offsets,
                                 held._degrees, 1e-9, 3) > 0
        assert (np.abs(points) <= 1.0).all()
""",
    "functions": """
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.workload import GaussianKernels, PairKernels, Polynomials, SecondMoments, Smooth
points = rng.uniform(-1.0, 1.0, (9, 3))
for basis in (ChebyshevBasis.tensor(3, 2), ChebyshevBasis(np.array([[0, 0, 0], [5, 0, 0], [1, 0, 3]]))):
    assert np.allclose(Features(basis).means(points), basis.evaluate(points).mean(axis=0))
    assert np.isfinite(Features(basis).gradient(points, rng.normal(size=basis.K))).all()
for workload in (GaussianKernels(3, seed=0, n_queries=5), PairKernels(3, seed=0, n_queries=5),
                 Polynomials(3, 2, seed=0, n_queries=5), SecondMoments(3), Smooth(3, 2, 2)):
    assert np.isfinite(workload.answers(points)).all()
""",
    "rows": """
from trigmech.inference.drawing import _exchanged
from trigmech.reconstruction.thinning import STEPS, _by_distance, alike, exchanged
codes = rng.integers(0, STEPS + 2, (12, 3)).astype(np.int32)
kernel = alike(codes, np.array([True, False, False]), _by_distance())
for size in (1, 5, 12):
    found = exchanged(kernel, kernel.mean(axis=1), np.arange(size))
    assert len(set(found.tolist())) == size
values, picked = rng.normal(size=(20, 2)), np.arange(20)
missing = np.array([0.2, -0.1])
_exchanged(values, picked, missing, values @ missing, np.square(values).sum(axis=1), rng.integers(20, size=(40, 2)))
assert ((picked >= 0) & (picked < 20)).all()
"""}


def test_kernels_stay_within_their_arrays():
    # One process for all, for it loads libraries for seconds.
    done = subprocess.run([sys.executable, "-c", BEGIN + "".join(CALLS.values())], capture_output=True, text=True,
                          check=False, env=os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
