"""Values of rows of positions, which are looked up, beside those of their points."""

import numpy as np
import pytest
from numba import njit
from test_mixing import SCHEMA, made  # noqa: F401

import trigmech as tm
from trigmech.functions.partition import columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.reconstruction import constrained as module
from trigmech.reconstruction import mixing
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.drawn_values import DrawnValues
from trigmech.reconstruction.prefetch import prefetch

KINDS = tm.Schema([
    tm.Column("count", -3, 14, "integer", special=(-99, 5), missing="keep"),
    tm.Column("gain", 0.0, 1e5, special=(0.0, 7.0), transform="log1p", missing="keep"),
    tm.Column("income", 1.0, 1e6, transform="log", missing="centre"),
    tm.Column("plain", 0, 1), tm.Column("cents", 0, 9, decimals=2),
    tm.Column("yes", 0, 1, "binary"), tm.Column("half", 0.5, 2.5, "binary", missing="keep"),
    tm.Column("code", kind="categorical", categories=tuple("abcdefg"), missing="keep"),
    tm.Column("flag", kind="categorical", categories=(True, False)),
    tm.Column("grade", kind="ordinal", categories=("low", "middle", "high"), missing="keep"),
    tm.Column("score", kind="ordinal", categories=(0.5, 1.5, 7.25)),
    tm.Column("day", "2020-01-01", "2020-03-01", "datetime", missing="keep"),
    tm.Column("far", 0, 1e30, "integer"),
])


def cut(schema, count=5):
    """Released columns of a schema, whose numbers have a few intervals."""
    columns = []
    for column in columns_of(schema.domain):
        if column.value is not None:
            edges = np.linspace(-1.0, 1.0, count + 1)
            if column.levels is not None:
                inner = np.unique(np.linspace(1, len(column.levels), count, dtype=int, endpoint=False))
                inner = inner[inner < len(column.levels)]
                edges = np.concatenate([[-1.0], 0.5 * (column.levels[inner - 1] + column.levels[inner]), [1.0]])
            column = column.cut(edges)
        columns.append(ReleasedColumn(column, np.full(column.size, 1.0 / column.size), 0.1))
    return columns


def same(found, expected):
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert type(found[name]) is type(values), name
        assert found[name].dtype == values.dtype, name
        absent = np.ma.getmaskarray(values)
        np.testing.assert_array_equal(np.ma.getmaskarray(found[name]), absent)
        np.testing.assert_array_equal(np.ma.getdata(found[name])[~absent], np.ma.getdata(values)[~absent])


def both(rows, held, seed=0):
    """The values of rows, and those of their points; they draw as many numbers."""
    one, two = np.random.default_rng(seed), np.random.default_rng(seed)
    found = rows.decoded(held, one)
    expected = rows.schema.decode(rows.placed(held, rows.schema.width, two))
    assert one.random() == two.random()
    return found, expected


@pytest.mark.parametrize("count", [1, 2, 700])
def test_values_are_those_of_points_for_all_kinds_of_columns(count):
    rows = ConstrainedRows(KINDS, cut(KINDS))
    # An atom, as continuous numbers alone have it.
    place = tm.Schema([KINDS.columns[3]]).to_cube(np.array([[0.5]]))[0, 0]
    rows.atoms(3)[2] = place
    rng = np.random.default_rng(count)
    held = np.column_stack([rng.integers(len(column.mass), size=count) for column in rows.columns]).astype(np.int32)
    found, expected = both(rows, held)
    same(found, expected)
    if count > 2:
        assert (found["plain"] == 0.5).sum() == (held[:, 3] == 2).sum() > 0
        # All that a column can hold is there.
        assert set(found["code"].compressed()) == set("abcdefg")
        assert {-99, 5} < set(found["count"].compressed().tolist()) == {-99, *range(-3, 15)}


def test_each_position_has_all_its_levels_evenly():
    column, partition = KINDS.columns[0], cut(KINDS)[0].partition
    drawn = DrawnValues(column, partition, 0, np.full(partition.intervals, np.nan))
    for code in range(len(partition.indicators), partition.size):
        found = drawn.of(np.full(1_000, code), np.arange(1_000) / 1_000.0).compressed()
        held, times = np.unique(found, return_counts=True)
        assert len(held) == np.diff(partition.first_levels)[code - len(partition.indicators)]
        assert np.ptp(times) <= 1


@pytest.mark.parametrize("copied", [False, True])
def test_rows_that_break_a_constraint_get_the_values_of_their_new_points(copied, monkeypatch):
    schema = tm.Schema([*KINDS.columns[:4], tm.Column("more", 0, 1)], ["plain < more", "count > 3 implies gain < 50"])
    rows = ConstrainedRows(schema, cut(schema))
    if copied:
        # So few that some rows take over the numbers of others.
        monkeypatch.setattr(module, "DRAWS", 1)
    rng = np.random.default_rng(3)
    held = np.column_stack([rng.integers(len(column.mass), size=900) for column in rows.columns]).astype(np.int32)
    held = held[rows.broken(held) == 0]
    found, expected = both(rows, held)
    same(found, expected)
    assert schema.holds(found).all()
    first = rows._first_points(held, np.random.default_rng(0).random(held.shape), schema.width)
    assert (~module.keeps(schema, first)).sum() > 20


@pytest.mark.nightly
def test_tables_of_further_rows_are_their_points_decoded(made, monkeypatch):  # noqa: F811
    monkeypatch.setattr(mixing, "BLOCK", 2_400)
    for size in (1, 300, 1_200, 7_300):
        rows = mixing.FurtherRows(SCHEMA, made.release, made.distribution)
        tables, points = (list(way(size, np.random.default_rng(5))) for way in (rows.tables, rows.blocks))
        assert sum(map(len, points)) == size
        for table, block in zip(tables, points, strict=True):
            same(table, SCHEMA.completed(SCHEMA.decode(block)))


def test_positions_leave_the_points_as_they_are(made):  # noqa: F811
    rows = ConstrainedRows(SCHEMA, made.release.columns, made.release.closer)
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (50, SCHEMA.width))
    given = points.copy()
    rows.positions(points)
    np.testing.assert_array_equal(points, given)


@njit
def summed(matrix, ahead):
    total = 0.0
    for i in range(len(matrix)):
        if i + ahead < len(matrix):
            prefetch(matrix, i + ahead, matrix.shape[1] - 1)
        total += matrix[i, 0]
    return total


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_is_fetched_ahead_and_nothing_else_changes(kind, order):
    matrix = np.asarray(np.arange(60).reshape(20, 3), dtype=kind, order=order)
    assert summed(matrix, 2) == matrix[:, 0].sum() == 570
    made_of = "".join(summed.inspect_llvm().values())
    assert "call void @llvm.prefetch" in made_of
