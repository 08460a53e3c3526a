import numpy as np
import oracles
import pytest
from scipy import stats

from trigmech.errors import InputError
from trigmech.thesis.candidates import Ellipsoid

DRAWS = 40_000
dimensions = pytest.mark.parametrize("k", [1, 2, 3, 10])
both = pytest.mark.parametrize("how", ["uniform", "published"])


def unit_ball(k, how, size=DRAWS, seed=3):
    return Ellipsoid(np.zeros(k), np.eye(k), np.ones(k)).draw(size, np.random.default_rng([seed, k]), how)


class Coordinate:
    """The law of one coordinate of a uniform point of the unit sphere of R^k, k >= 2: its square is Beta."""

    def __init__(self, k):
        self.square = stats.beta(0.5, (k - 1) / 2.0)

    def cdf(self, x):
        return 0.5 * (1.0 + np.sign(x) * self.square.cdf(np.square(x)))


def direction_misfit(points):
    """The worst coordinate's distance from the law of a uniform direction, in units of what chance may reach."""
    k = points.shape[1]
    directions = points / np.linalg.norm(points, axis=1, keepdims=True)
    return max(oracles.misfit(coordinate, Coordinate(k), 1e-9 / k) for coordinate in directions.T)


def variance_misfit(points, expected):
    """The worst second moment's distance from the expected one, in units of what chance may reach."""
    squares = points**2
    # Numbers in [0, 1] vary by at most their mean.
    false_alarm = 1e-9 / len(expected)
    tolerance = np.array([oracles.bernstein_tolerance(mean, 1.0, len(points), false_alarm) for mean in expected])
    return np.max(np.abs(squares.mean(axis=0) - expected) / tolerance)


@both
@dimensions
def test_the_radius_has_the_law_of_uniform_volume(k, how):
    # The part of the volume within radius r is r^k. Algorithm 8 is right about the radius.
    radii = np.linalg.norm(unit_ball(k, how), axis=1)
    assert oracles.misfit(radii**k, stats.uniform()) <= 1.0
    assert oracles.misfit(radii ** (1.2 * k), stats.uniform()) > 1.0


@pytest.mark.daily(3)
@pytest.mark.parametrize("k", [2, 3, 10])
def test_directions_are_uniform_on_the_sphere(k):
    points = unit_ball(k, "uniform")
    assert direction_misfit(points) <= 1.0
    # In directions that are no axes too.
    rotation, _ = np.linalg.qr(np.random.default_rng(k).standard_normal((k, k)))
    assert direction_misfit(points @ rotation) <= 1.0


@pytest.mark.parametrize("k", [2, 3, 10])
def test_radius_and_direction_are_independent(k):
    points = unit_ball(k, "uniform")
    radii = np.linalg.norm(points, axis=1)
    near, far = points[radii**k < 0.5], points[radii**k >= 0.5]
    assert max(direction_misfit(near), direction_misfit(far)) <= 1.0


@both
def test_in_one_dimension_both_signs_are_as_likely(how):
    positive = (unit_ball(1, how) > 0).mean()
    assert abs(positive - 0.5) <= oracles.bernstein_tolerance(0.25, 0.5, DRAWS)


@dimensions
def test_uniform_points_vary_by_radius_squared_over_k_plus_2(k):
    points = unit_ball(k, "uniform")
    assert variance_misfit(points, np.full(k, 1.0 / (k + 2))) <= 1.0
    # Products of different coordinates have mean 0; they are at most 1/2 and vary by less than 1/(k+2).
    products = (points.T @ points / DRAWS)[np.triu_indices(k, 1)]
    assert np.abs(products).max(initial=0.0) <= oracles.bernstein_tolerance(1.0 / (k + 2), 0.5, DRAWS, 1e-9 / k**2)


@both
@dimensions
def test_points_lie_in_the_plane_of_the_axes_and_inside_the_ellipsoid(k, how):
    rng = np.random.default_rng(k)
    d = 12
    center = rng.standard_normal(d)
    directions, _ = np.linalg.qr(rng.standard_normal((d, k)))
    radii = np.geomspace(3.0, 0.1, k)
    points = Ellipsoid(center, directions, radii).draw(2_000, rng, how)
    assert points.shape == (2_000, d)
    inside = (points - center) @ directions
    np.testing.assert_allclose(inside @ directions.T, points - center, rtol=0, atol=1e-12)
    assert ((inside / radii) ** 2).sum(axis=1).max() <= 1.0 + 1e-12
    # The ellipsoid is the unit ball, stretched.
    ball = Ellipsoid(np.zeros(k), np.eye(k), np.ones(k)).draw(2_000, np.random.default_rng(5), how)
    stretched = Ellipsoid(center, directions, radii).draw(2_000, np.random.default_rng(5), how)
    np.testing.assert_allclose(stretched, center + (ball * radii) @ directions.T, rtol=0, atol=1e-12)


@both
def test_an_axis_of_length_0_is_flat_and_no_points_are_no_points(how):
    flat = Ellipsoid(np.ones(3), np.eye(3), np.array([2.0, 0.0, 1.0]))
    points = flat.draw(500, np.random.default_rng(0), how)
    assert (points[:, 1] == 1.0).all()
    assert np.ptp(points[:, 0]) > 1.0
    assert flat.draw(0, np.random.default_rng(0), how).shape == (0, 3)


def test_another_way_to_draw_is_refused():
    with pytest.raises(InputError, match='"uniform" or "published"'):
        Ellipsoid(np.zeros(2), np.eye(2), np.ones(2)).draw(3, np.random.default_rng(0), "normal")
