import numpy as np
import oracles
import pytest

from trigmech.distribution import Distribution
from trigmech.errors import InputError

M, DRAWS = 40, 200_000


def example(weights=None):
    """Forty distinct points in the order of their first column; the one numbered 7 weighs nothing."""
    rng = np.random.default_rng(1)
    points = np.column_stack([np.linspace(-1.0, 1.0, M), rng.uniform(-1.0, 1.0, (M, 2))])
    if weights is None:
        weights = rng.uniform(0.5, 1.5, M)
        weights[7] = 0.0
        weights /= weights.sum()
    return Distribution(points, weights)


def counts(distribution, rows):
    """How often each point was drawn; every row must be one of the points, whole."""
    numbers = np.searchsorted(distribution.points[:, 0], rows[:, 0])
    np.testing.assert_array_equal(distribution.points[numbers], rows)
    return np.bincount(numbers, minlength=M)


# Means


def test_expect_is_the_weighted_mean_of_one_value_or_of_several_at_each_point():
    distribution = example()
    pairs = zip(distribution.points, distribution.weights, strict=True)
    total = sum(weight * point**2 for point, weight in pairs)
    one = distribution.expect(lambda points: points[:, 1] ** 2)
    assert type(one) is float
    assert one == pytest.approx(total[1], rel=1e-14)
    np.testing.assert_allclose(distribution.expect(lambda points: points**2), total, rtol=1e-14)
    assert distribution.expect(lambda points: points[:, :1]).shape == (1,)
    assert distribution.expect(lambda points: points[:, 0] <= 1.0) == pytest.approx(1.0, rel=1e-14)


@pytest.mark.parametrize("f", [
    lambda points: 1.0, lambda points: points[:-1], lambda points: points[:-1, 0], lambda points: points.T,
    lambda points: points[:, :, None],
])
def test_expect_wants_one_value_or_row_for_each_point(f):
    with pytest.raises(InputError, match="40 points"):
        example().expect(f)


# Draws


def test_points_are_drawn_as_often_as_they_weigh_but_for_whole_rows():
    distribution = example()
    for size in (0, 1, 7, 40, 1001):
        drawn = counts(distribution, distribution.sample(size, np.random.default_rng(2)))
        assert drawn.sum() == size
        assert (np.abs(drawn - size * distribution.weights) < 1.0).all()
        assert drawn[7] == 0


def first_rows(distribution, draws=12_000):
    rng = np.random.default_rng(3)
    return counts(distribution, np.vstack([distribution.sample(5, rng)[:1] for _ in range(draws)]))


@pytest.mark.nightly
def test_each_row_by_itself_follows_the_distribution():
    # Eight groups of five points: the two-sided chi-square test fails by chance less than once in 1e9.
    distribution = example()

    def grouped(values):
        return values.reshape(-1, 8).sum(axis=0)

    drawn = first_rows(distribution)
    assert oracles.frequencies_p(grouped(drawn), grouped(distribution.weights)) > 1e-10
    off = distribution.weights * np.where(np.arange(M) % 2, 1.2, 0.8)
    planted = first_rows(example(off / off.sum()))
    assert oracles.frequencies_p(grouped(planted), grouped(distribution.weights)) < 1e-10


def test_sampled_means_err_far_less_than_those_of_independent_draws():
    distribution = example()
    rng = np.random.default_rng(4)
    exact = distribution.expect(lambda points: points)
    errors = [distribution.sample(400, rng).mean(axis=0) - exact for _ in range(50)]
    chosen = [rng.choice(M, 400, p=distribution.weights) for _ in range(50)]
    independent = [distribution.points[numbers].mean(axis=0) - exact for numbers in chosen]
    assert np.square(errors).mean() < 0.1 * np.square(independent).mean()


def test_draws_repeat_with_the_generator_and_not_without():
    distribution = example()
    first, again = (distribution.sample(50, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    # No point weighs more than 0.05, so equal draws have a probability below 0.05^50.
    assert (distribution.sample(50) != distribution.sample(50)).any()


@pytest.mark.parametrize("size", [-1, 2.0, "3", None])
def test_the_number_of_draws_is_an_integer_from_0(size):
    with pytest.raises(InputError, match="size"):
        example().sample(size)


# What is refused


@pytest.mark.parametrize(("points", "weights"), [
    (np.zeros((3, 2)), np.full(2, 0.5)),
    (np.zeros((2, 2)), np.full((2, 1), 0.5)),
    (np.zeros(2), np.full(2, 0.5)),
    (np.zeros((0, 2)), np.zeros(0)),
    (np.zeros((2, 2)), np.array([1.1, -0.1])),
    (np.zeros((2, 2)), np.array([0.5, 0.499])),
    (np.zeros((2, 2)), np.array([0.5, np.nan])),
    (np.zeros((2, 2)), np.array([0.5, np.inf])),
], ids=["more points", "2-D weights", "1-D points", "nothing", "negative", "sum below 1", "NaN", "infinite"])
def test_points_are_rows_with_weights_from_0_that_sum_to_1(points, weights):
    with pytest.raises(InputError):
        Distribution(points, weights)


@pytest.mark.parametrize("entry", [1.5, -1.5, np.nan, np.inf])
def test_points_lie_in_the_cube(entry):
    with pytest.raises(InputError):
        Distribution(np.array([[0.0, entry], [0.0, 0.0]]), np.full(2, 0.5))
