"""A budget is never lost: what is refused is refused before the charge, and whatever was released becomes a table."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trigmech import reconstruct as numbers_module
from trigmech import reconstruct_mixed as mixed_module
from trigmech.basis import ChebyshevBasis
from trigmech.features import Features
from trigmech.layout import Group, Layout
from trigmech.reconstruct import reconstruct
from trigmech.reconstruct_mixed import reconstruct_mixed
from trigmech.release import MomentRelease
from trigmech.workload import GaussianKernels

# Hypothesis draws: the numbers a release can hold, and what only a file or another mechanism could.
HOSTILE = st.sampled_from([0.0, 1.0, -1.0, 0.5, -0.5, 1e-300, 1e300, -1e300, 1e6, -1e6, 1e-9, 3.0, -7.0])
MEANS = st.one_of(HOSTILE, st.floats(-2.0, 2.0, width=32))
SCALES = st.sampled_from([1e-300, 1e-15, 1e-9, 1e-3, 0.1, 1.0, 30.0, 1e4, 1e12, 1e300])
QUICK = settings(derandomize=True, deadline=None, max_examples=60)


@pytest.fixture(autouse=True, scope="module")
def _small_clouds():
    with pytest.MonkeyPatch.context() as patch:
        for module in (numbers_module, mixed_module):
            patch.setattr(module, "CLOUD", 64)
            patch.setattr(module, "FIRST_POINTS", 16)
            patch.setattr(module, "START_ITERATIONS", 8)
        patch.setattr(numbers_module, "CLOUD_ITERATIONS", 8)
        patch.setattr(numbers_module, "ATOM_SECONDS", 0.2)
        yield


@st.composite
def released(draw, layout, whole_row=False):
    """Distinct products of a layout's coordinates in any order, with hostile means and scales."""
    d = layout.d
    rows = draw(st.lists(hnp.arrays(np.int64, d, elements=st.sampled_from([0, 0, 0, 1, 1, 2, 3, 5])), min_size=1,
                         max_size=12, unique_by=tuple))
    rows = [row for row in rows if row.any()]
    if not rows or draw(st.booleans()):
        # As every design of the package has them.
        rows = draw(st.permutations([*np.eye(d, dtype=np.int64), *(row for row in rows if row.sum() > 1)]))
    profiles = [GaussianKernels(d, seed=0).mean_profile(2.0, 8)] if whole_row and draw(st.booleans()) else []
    features = Features(ChebyshevBasis(np.array(rows)), profiles)
    means = draw(hnp.arrays(np.float64, features.K, elements=MEANS))
    scales = draw(hnp.arrays(np.float64, features.K, elements=SCALES))
    return MomentRelease(draw(st.sampled_from([2, 50, 10**6])), features, means, scales)


def sound(made, release, layout, count=None):
    assert made.points.shape == (count or len(made.points), layout.d)
    assert np.abs(made.points).max() <= 1.0
    assert made.weights.min() >= 0.0
    assert made.weights.sum() == pytest.approx(1.0, abs=1e-9)
    assert made.target.shape == release.means.shape
    assert np.isfinite(made.target).all()
    assert np.isfinite(made.misfit)


@QUICK
@given(st.data())
def test_numbers_are_made_of_whatever_was_released(data):
    layout = Layout(data.draw(st.sampled_from([1, 2, 3, 7])))
    release = data.draw(released(layout, whole_row=True))
    fit = data.draw(st.sampled_from(["particles", "particles", "cloud", "atoms"]))
    count = data.draw(st.sampled_from([1, 7, 40]))
    options = {name: data.draw(st.booleans()) for name in ("denoise", "copula", "weigh")}
    made = reconstruct(release, count, np.random.default_rng(1), fit=fit, iterations=3, **options)
    sound(made, release, layout, count if fit == "particles" else None)


LAYOUTS = {
    "one category": Layout(1, [Group((0,), True)]),
    "categories": Layout(9, [Group((0, 1, 2, 3), True), Group((4, 5, 6), True), Group((7, 8), True)]),
    "numbers, special values and categories": Layout(9, [Group((2, 3), False, 1), Group((4, 5, 6), True),
                                                         Group((7, 8), True)]),
    "special values alone": Layout(4, [Group((2,), False, 0), Group((3,), False, 1)]),
}


@QUICK
@given(st.data())
def test_categories_are_made_of_whatever_was_released(data):
    layout = LAYOUTS[data.draw(st.sampled_from(sorted(LAYOUTS)))]
    release = data.draw(released(layout))
    count = data.draw(st.sampled_from([1, 7, 40]))
    options = {name: data.draw(st.booleans()) for name in ("denoise", "copula", "weigh")}
    made = reconstruct_mixed(release, layout, count, np.random.default_rng(1), iterations=3, **options)
    sound(made, release, layout, count)
    layout.check(made.points)
