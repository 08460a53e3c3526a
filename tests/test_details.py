"""Details of positions within wide intervals of a look: a value that many rows share keeps all of them."""

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.domain import Domain
from trigmech.functions.partition import Partition, columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Detail, Histogram
from trigmech.reconstruction.common import common_positions
from trigmech.reconstruction.details import looked_closer, with_details

NOISE = 1e-3
# Two wide intervals of a look; the first has four positions, of which the last is in both, and the second has two.
MEASURED = Partition((0,), 1, np.array([-1.0, 0.0, 1.0]))
COLUMN = ReleasedColumn(MEASURED.cut(np.array([-1.0, -0.75, -0.5, -0.25, 0.1, 0.5, 1.0])),
                        np.array([0.1, 0.1, 0.1, 0.2, 0.1, 0.2, 0.2]), NOISE)


def detail(interval, values, deviation=NOISE):
    edges = COLUMN.partition.edges[interval : interval + 2]
    query = Detail(0, COLUMN.partition, interval, np.linspace(*edges, len(values) + 1))
    return Measurement(query, 0.5, np.array(values), deviation / 2.0)


def made(*details):
    found = with_details(COLUMN, MEASURED, details, 1024, COLUMN)
    assert found.mass.sum() == pytest.approx(1.0)
    assert (found.mass >= 0.0).all()
    assert found.mass[0] == COLUMN.mass[0]
    return found, np.bincount(COLUMN.partition.holding(found.partition), found.mass[1:])


def test_a_shared_value_takes_its_rows_from_the_whole_interval():
    # Finer intervals: too many for their sum to be precise, but one of them is clear.
    values = np.zeros(128)
    values[5] = 0.41
    found, masses = made(detail(2, values, 0.01))
    assert found.mass.max() == pytest.approx(0.41)
    # The other 0.09 keeps its proportions 1 : 1 : 2 : 1, and the second interval all of its mass.
    np.testing.assert_allclose(masses, [0.018, 0.018, 0.446, 0.018, 0.2, 0.2], atol=1e-12)


def test_few_finer_intervals_tell_the_mass_of_their_position_and_the_others_get_the_rest():
    # Two positions are nearly empty, so that the third one, of which there is no detail, holds the rest.
    _, masses = made(detail(2, [0.004, 0.006]), detail(0, [0.01, 0.02]))
    np.testing.assert_allclose(masses, [0.03, 0.23, 0.01, 0.23, 0.2, 0.2])


def test_a_position_that_is_known_to_be_empty_gives_its_rows_to_the_others():
    """Its detail found no rows, and fewer than none if noise is below 0."""
    for values in ([0.0, 0.0], [-0.01, 0.004]):
        _, masses = made(detail(0, values))
        np.testing.assert_allclose(masses, [0.0, 0.125, 0.25, 0.125, 0.2, 0.2])
    # Where all are empty there is nobody to take the rows.
    _, masses = made(detail(5, [0.0, 0.0]), detail(4, [0.0, 0.0]))
    np.testing.assert_allclose(masses[4:], [0.2, 0.2])


def test_details_that_found_more_than_the_interval_has_are_scaled():
    values = np.zeros(128)
    values[5] = 0.6
    _, masses = made(detail(3, values, 0.01), detail(2, values, 0.01))
    np.testing.assert_allclose(masses, [0.0, 0.0, 0.25, 0.25, 0.2, 0.2], atol=1e-12)
    # All positions of the second interval are told, by less than it has.
    _, masses = made(detail(5, [0.1, 0.05]), detail(4, [0.05, 0.1]))
    np.testing.assert_allclose(masses[4:], [0.2, 0.2])


def test_what_noise_hides_changes_nothing():
    flat = np.zeros(128)
    for details in ([detail(2, flat, 0.01)], [detail(4, [-0.004, 0.003], 0.2)]):
        found, masses = made(*details)
        np.testing.assert_allclose(masses, COLUMN.mass[1:])
        np.testing.assert_array_equal(found.mass, looked_closer(COLUMN, details[0], 1024).mass)


def test_a_position_that_is_the_whole_interval_keeps_its_mass():
    column = ReleasedColumn(MEASURED, np.array([0.1, 0.5, 0.4]), NOISE)
    values = np.zeros(16)
    values[3] = 0.3
    look = Measurement(Detail(0, MEASURED, 0, np.linspace(-1.0, 0.0, 17)), 0.5, values, NOISE)
    found = with_details(column, MEASURED, [look], 16, column)
    np.testing.assert_array_equal(found.mass, looked_closer(column, look, 16).mass)
    assert with_details(column, MEASURED, [], 0, column) is column


def test_hostile_noise_leaves_a_distribution():
    rng = np.random.default_rng(0)
    for scale in (1e-9, 1.0, 1e9, 1e300):
        for _ in range(20):
            size = int(rng.choice([2, 5, 64]))
            made(*(detail(i, scale * rng.normal(size=size), 0.5 * NOISE) for i in (5, 3, 2, 0)))


@pytest.mark.daily("integer-1000-3.0", "continuous-1000-3.0")
@pytest.mark.parametrize(("n", "epsilon"), [(1_000, 3.0), (1_000, 10.0), (5_000, 1.0)])
@pytest.mark.parametrize("kind", ["continuous", "integer"])
def test_without_delta_a_value_that_many_rows_share_keeps_them(n, epsilon, kind):
    """While positions within wide intervals were looked at alone, it had half of its rows or fewer."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(n) < 0.3, 37.0, rng.gamma(4.0, 9.0, n)).clip(1.0, 99.0)
    table = pd.DataFrame({"x": x if kind == "continuous" else x.round(), "c": rng.choice(["a", "b"], n)})
    schema = tm.Schema([tm.Column("x", 1, 99, kind), tm.Column("c", kind="categorical", categories=("a", "b"))])
    found = []
    for seed in range(3):
        release = tm.synthesize(table, schema, tm.Budget(epsilon), tm.TableMechanism(points=64),
                                np.random.default_rng(seed)).release
        column = release.columns[0]
        width = 0.6 if kind == "integer" else 0.1
        at = np.flatnonzero(np.abs(49.0 * column.partition.centres + 50.0 - 37.0) < width)
        found.append(float(column.mass[at].sum()))
    truth = float((table.x == 37.0).mean())
    assert np.abs(np.array(found) - truth).max() < 0.1


def test_a_detail_of_an_own_mechanism_counts_where_the_look_was_smoothed():
    """While only intervals that no smooth density had cut were divided, such a detail was ignored."""
    rng, noise = np.random.default_rng(0), 0.004
    x = np.where(rng.random(2_000) < 0.4, 0.313, rng.normal(0.0, 0.4, 2_000)).clip(-1.0, 1.0)

    def counted(edges):
        return np.histogram(x, edges)[0] / len(x) + noise * rng.normal(size=len(edges) - 1)

    partition = columns_of(Domain(1))[0].cut(np.linspace(-1.0, 1.0, 11))
    finer = np.linspace(*partition.edges[6:8], 65)
    look = Measurement(Histogram(0, partition), 1.0, counted(partition.edges), noise)
    detail = Measurement(Detail(0, partition, 6, finer), 1.0, counted(finer), noise)
    (alone,), (found,) = (common_positions(Domain(1), asked) for asked in ([look], [look, detail]))
    place = int(np.argmax(found.mass))
    assert found.partition.edges[place] <= 0.313 < found.partition.edges[place + 1]
    assert found.mass[place] == pytest.approx(np.mean(np.abs(x - 0.313) < 0.0015), abs=6.0 * noise)
    # The interval and all others keep their mass.
    for column in (alone, found):
        np.testing.assert_allclose(np.bincount(partition.holding(column.partition), column.mass), np.bincount(
            partition.holding(alone.partition), alone.mass), atol=1e-12)
