"""What rehearsals are made of and show, and measures of two tables, by hand."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.evaluation import measures
from trigmech.evaluation.sides import Coding
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference import rehearsing

SAVED = Path(__file__).parent / "data" / "releases-0.1" / "tables.tm"


def test_two_public_tables_are_rehearsed_with_noise_and_with_its_opposite(monkeypatch):
    made, called = tm.load(SAVED), []
    points = made.distribution.points
    monkeypatch.setattr(rehearsing, "MOST", 25)

    def arrange(rows, rng):
        rows[:] = rows[0]

    def rehearsed(design, table, rng, turned):
        called.append((len(table), int(rng.integers(2**40)), turned))
        return table + (2.0 if turned else 1.0)

    monkeypatch.setattr(rehearsing, "copula_of", lambda release: SimpleNamespace(arrange=arrange))
    monkeypatch.setattr(rehearsing, "rehearsed", rehearsed)
    found = rehearsing.rehearsals(made.release, points, made.planned, np.random.default_rng(0))
    assert found.shape == (2, 3, 25, points.shape[1])
    assert sorted((rows, turned) for rows, _, turned in called) == [(25, False)] * 2 + [(25, True)] * 2
    # The same noise for both fits of a table, and other noise for the other table.
    assert len({seed for _, seed, _ in called}) == 2
    for table, one, other in found:
        np.testing.assert_allclose(one - table, 1.0)
        np.testing.assert_allclose(other - table, 2.0)
    # The first table has the copula's dependence, the second is of different fitted rows.
    partitions = [column.partition for column in made.release.columns]
    smooth = np.column_stack([partition.codes(found[0, 0]) for partition in partitions])
    assert len(np.unique(smooth, axis=0)) == 1
    known = {tuple(row) for row in points.tolist()}
    assert {tuple(row) for row in found[1, 0].tolist()} <= known
    trimmed = [rehearsing.without_tails(column) for column in made.release.columns]
    inside = rehearsing._inside(made.release.columns, trimmed, points)
    _, often = np.unique(found[1, 0], axis=0, return_counts=True)
    if len(known) == len(points):
        # They have no tails, and come again as evenly as possible.
        assert {tuple(row) for row in found[1, 0].tolist()} <= {tuple(row) for row in points[inside].tolist()}
        assert len(often) == min(25, len(inside))
        assert often.max() - often.min() <= 1


def test_what_is_not_smooth_is_the_mean_distance_of_cells(monkeypatch):
    cells = {0: np.array([0, 1]), 2: np.array([0, 1, 1])}
    monkeypatch.setattr(rehearsing, "cells_of_columns", lambda release: cells)
    table = np.array([[0, 9, 0], [0, 9, 1], [1, 9, 2], [1, 9, 2]])
    one = np.array([[0, 9, 0], [0, 9, 0], [1, 9, 2], [1, 9, 1]])
    # Frequencies of the cells (0, 0), (0, 1), (1, 0), (1, 1): .25 .25 0 .5 against .5 0 0 .5.
    distance = (0.25**2 / 0.375 + 0.25**2 / 0.125) / 2
    assert rehearsing._distance(None, [table, one]) == pytest.approx(distance, rel=1e-12)
    assert rehearsing._distance(None, [table, one, table]) == pytest.approx(distance / 2, rel=1e-12)
    monkeypatch.setattr(rehearsing, "cells_of_columns", lambda release: {0: cells[0]})
    assert rehearsing._distance(None, [table, one]) == 0.0
    monkeypatch.setattr(rehearsing, "_distance", lambda release, codes: codes[0])
    monkeypatch.setattr(rehearsing, "all_codes", lambda partitions, points: points)
    release = SimpleNamespace(columns=[], n=200)
    assert rehearsing.rehearsed_white(release, [[0.001], [0.02]]) == 0.02
    assert rehearsing.rehearsed_white(release, [[0.001], [0.002]]) == 0.005


def column_of(mass, deviation, number=True, special=()):
    edges = np.linspace(-1.0, 1.0, len(mass) - len(special) + 1) if number else np.empty(0)
    partition = Partition(tuple(special), 0 if number else None, edges)
    return ReleasedColumn(partition, np.array(mass), deviation)


def test_tails_that_may_be_noise_are_not_rehearsed():
    # Twice .02 may be noise: .03 below, and .01 + .02 above. Special values are no tail.
    found = rehearsing.without_tails(column_of([0.01, 0.03, 0.1, 0.4, 0.43, 0.02, 0.01], 0.02, special=(9,)))
    np.testing.assert_allclose(found.mass, [0.01, 0.0, *(0.99 / 0.93 * np.array([0.1, 0.4, 0.43])), 0.0, 0.0])
    # An outer position that holds more is no tail, however little those within it hold.
    same = column_of([0.1, 0.01, 0.01, 0.88], 0.02)
    np.testing.assert_allclose(rehearsing.without_tails(same).mass, same.mass)
    # Categories have no tails, and a column that is noise altogether stays as it is.
    for column in (column_of([0.01, 0.99], 0.02, number=False, special=(0, 1)), column_of([0.5, 0.5], 1.0)):
        assert rehearsing.without_tails(column) is column


# Measures of two tables


def sides(true, made, *columns):
    schema = tm.Schema(columns)
    decoded = [schema.decode(schema.to_cube(pd.DataFrame(table))) for table in (true, made)]
    coding = Coding.of(schema.columns, decoded[0])
    return coding, *(coding.side(each) for each in decoded)


NUMBERS = [tm.Column(name, -10, 10, missing="keep") for name in "abc"]


@pytest.mark.parametrize("ranked", [False, True])
def test_correlations_leave_out_rows_in_which_either_value_is_missing(ranked):
    rng = np.random.default_rng(0)
    true, made = ({name: rng.normal(size=40) for name in "abc"} for _ in range(2))
    true["a"][:5] = true["b"][3:9] = made["c"][:7] = np.nan
    coding, *held = sides(true, made, *NUMBERS)
    found, pairs = measures.correlation_differences(coding, *held, ranked)
    assert pairs == [(0, 1), (0, 2), (1, 2)]
    for difference, (j, h) in zip(found, pairs, strict=True):
        own = []
        for side in held:
            values = pd.DataFrame(side.values).iloc[:, [j, h]].dropna()
            own.append((values.rank() if ranked else values).corr().iloc[0, 1])
        assert difference == pytest.approx(abs(own[0] - own[1]), rel=1e-9)


def test_the_correlation_with_a_constant_is_0():
    assert measures._standard(np.full(5, 0.1)).tolist() == [0.0] * 5
    assert measures._standard(np.empty(0)).size == 0
    np.testing.assert_allclose(measures._standard(np.array([1.0, 3.0])), [-0.5**0.5, 0.5**0.5])
    np.testing.assert_allclose(measures._standard(np.array([1e200, 3e200])), [-0.5**0.5, 0.5**0.5])


def test_means_of_groups_are_compared_in_the_true_table_s_deviations():
    column = tm.Column("g", kind="categorical", categories=["p", "q", "r"])
    true = {"g": ["p"] * 100 + ["q"] * 100 + ["r"] * 99, "a": np.r_[np.zeros(100), np.ones(100), np.full(99, 2.0)]}
    made = {"g": ["p"] * 50 + ["r"] * 9, "a": np.r_[np.full(50, 0.5), np.zeros(9)]}
    coding, one, other = sides(true, made, column, NUMBERS[0])
    deviation = np.std(true["a"])
    by_group = measures.group_differences(coding, one, other)
    # Groups of the first column: p is off by half a unit, q is lost, and r has too few rows. Groups of the number: 0
    # and 1 have a hundred rows each.
    assert by_group[0] == pytest.approx(0.5 / deviation, rel=1e-9)
    assert by_group[1] == measures.LOST == 1.0
    assert len(by_group) == 4
    assert len(measures.group_differences(coding, one, other, 99)) == 6
