"""A row encodes alone exactly as it does among others: no cell changes how the cells of another row are read.

Of this it follows that replacing one row changes one encoded row, which all sensitivities rest on.
"""

import collections
import datetime
import decimal
import enum
import fractions
import math
import pathlib
import tempfile
import zoneinfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trigmech as tm
from trigmech.errors import InputError
from trigmech.tables.reader import TableFile

laws = settings(max_examples=40, derandomize=True, deadline=None, database=None)

BERLIN, PARIS = zoneinfo.ZoneInfo("Europe/Berlin"), zoneinfo.ZoneInfo("Europe/Paris")
# At the end of summer time this hour comes twice; the two are equal within their zone.
TWICE = datetime.datetime(2020, 10, 25, 2, 30, tzinfo=BERLIN)
SECOND = TWICE.replace(fold=1)


def lying(kind):
    """A class whose values call themselves equal to anything, and all have one hash."""
    return type(f"Lying{kind.__name__}", (kind,), {
        "__eq__": lambda self, other: True, "__ne__": lambda self, other: False, "__hash__": lambda self: 1})


Text, Whole, Number, Time = map(lying, (str, int, float, datetime.datetime))
Colour = enum.Enum("Colour", {"a": "a", "b": "b"}, type=str)
Level = enum.IntEnum("Level", {"one": 1, "two": 2})

MISSING = [None, math.nan, np.float32("nan"), pd.NaT, pd.NA, np.datetime64("NaT"), decimal.Decimal("NaN"),
           decimal.Decimal("sNaN")]
# Of each group all are equal, or are taken for each other somewhere.
ONES = [True, 1, np.True_, 1.0, np.int8(1), np.float16(1), decimal.Decimal("1"), decimal.Decimal("1.00"),
        fractions.Fraction(1), Level.one, Whole(1), Whole(2), Number(1.0), Number(3.0)]
NOUGHTS = [False, 0, np.False_, 0.0, -0.0, decimal.Decimal("-0"), decimal.Decimal("0.0"), Whole(0), Number(-0.0)]
LARGE = [2**53, 2**53 + 1, float(2**53), decimal.Decimal(2**53 + 1), fractions.Fraction(2**53 + 1), np.int64(2**53 + 1),
         np.uint64(2**63), 10**400, decimal.Decimal("1e400"), math.inf, -math.inf]
LETTERS = ["a", "a\0", "a ", "\u00e9", "e\u0301", b"a", np.str_("a"), Text("a"), Text("b"), Colour.a, Colour.b, "1",
           "1.0", "true", "True"]
TIMES = [TWICE, SECOND, TWICE.astimezone(PARIS), SECOND.astimezone(PARIS), TWICE.astimezone(datetime.UTC),
         TWICE.replace(tzinfo=None), pd.Timestamp(TWICE), pd.Timestamp(SECOND), Time(2020, 10, 25, 2, 30),
         Time(2021, 10, 25, 2, 30, tzinfo=BERLIN), Time(2020, 10, 25, 2, 30, tzinfo=BERLIN, fold=1),
         pd.Timestamp("2020-10-25 02:30:00.999999999"), np.datetime64("2020-10-25T02:30"), np.datetime64("2020-10-25"),
         datetime.date(2020, 10, 25), "2020-10-25", "2020-10-25T02:30+01:00", "2020-10-25T02:30+02:00"]
STRANGE = [object(), [1], {"x": 1}, 1j, datetime.timedelta(1), np.timedelta64(1, "s"), np.timedelta64("NaT")]

NUMBERS = [
    tm.Column("c", -5, 5), tm.Column("c", 0, 2**54, "integer", missing="centre"), tm.Column("c", 0, 1, "binary"),
    tm.Column("c", 1, 9, missing="keep", special=(0, 1, 2**53), transform="log"),
    tm.Column("c", 0, 9, "integer", missing="keep", transform="log1p", special=(0,)),
]
CATEGORIES = [
    tm.Column("c", kind="categorical", categories=("a", "True", "1"), missing="keep"),
    tm.Column("c", kind="categorical", categories=("a", "e\u0301", "1", "0", "x", str(2**53 + 1)), other="x"),
    tm.Column("c", kind="categorical", categories=(0, 1, 2**53 + 1, 7), other=7, missing="keep"),
    tm.Column("c", kind="categorical", categories=(False, True), other=False, missing="keep"),
    tm.Column("c", kind="ordinal", categories=("b", "\u00e9", "true", "a"), other="b", missing="centre"),
    tm.Column("c", kind="ordinal", categories=(0, 0.5, 1, 3, float(2**53)), other=0.5, missing="keep"),
]
DATES = [
    tm.Column("c", "2020-01-01T00:00", "2021-01-01", "datetime", missing="keep",
              special=("2020-10-25T00:30", "2020-10-25T01:30")),
    tm.Column("c", "2020-01-01", "2021-01-01", "datetime", missing="centre"),
    tm.Column("c", "2020-10-24", "2020-10-26", "datetime"),
]


def array_of(cells):
    array = np.empty((len(cells), 1), dtype=object)
    array[:, 0] = [*cells, None][:-1]
    return array


# Tables of one column whose type says nothing of its cells.
OBJECTS = {
    "array": array_of,
    "pandas": lambda cells: pd.DataFrame({"c": pd.Series(cells, dtype=object)}),
    "polars": lambda cells: pl.DataFrame({"c": pl.Series(cells, dtype=pl.Object)}),
}


def encoded(column, table):
    """The rows of a table, or None where it is refused."""
    try:
        return tm.Schema([column]).to_cube(table)
    except InputError:
        return None


def check(column, rows, places):
    """Compare rows in one table with the same rows alone; ``rows`` makes tables of those at some places."""
    alone = {place: encoded(column, rows([place])) for place in set(places)}
    among = encoded(column, rows(places))
    if any(alone[place] is None for place in places):
        assert among is None, "a row is refused alone, and not among others"
    else:
        assert among is not None, "a row is refused among others, and not alone"
        np.testing.assert_array_equal(among, np.vstack([alone[place] for place in places]))


@st.composite
def places(draw, count):
    """All rows in some order; sometimes after more equal ones than any library looks at to guess a type."""
    order = draw(st.permutations(range(count)))
    return draw(st.sampled_from([[], order[:1] * 101])) + order


# Columns, and groups of cells of which most can be theirs.
KINDS = {"numbers": (NUMBERS, [ONES, NOUGHTS, LARGE]), "dates": (DATES, [TIMES]),
         "categories": (CATEGORIES, [ONES, NOUGHTS, LARGE, LETTERS, TIMES])}


@st.composite
def mixtures(draw, kind):
    """A column, cells that are much alike, and places."""
    columns, groups = KINDS[kind]
    cells = draw(st.lists(st.sampled_from(draw(st.sampled_from(groups))), min_size=3, max_size=5))
    cells += draw(st.sampled_from([[]] * 4 + [[cell] for cell in MISSING]))
    if draw(st.integers(0, 9)) == 0:
        cells.append(draw(st.sampled_from(STRANGE + LETTERS)))
    return draw(st.sampled_from(columns)), cells, draw(places(len(cells)))


# Each library and each kind; dates of pandas see that a library takes cells for each other.
@pytest.mark.daily("pandas-dates", "polars-numbers", "array-categories")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("library", OBJECTS)
def test_objects_of_any_types_mean_the_same_alone_and_among_others(library, kind):
    # Two of the many times that make a fault of dates visible must meet.
    @settings(laws, max_examples=60 if kind == "dates" else 25)
    @given(mixtures(kind))
    def law(mixture):
        column, cells, order = mixture
        check(column, lambda chosen: OBJECTS[library]([cells[place] for place in chosen]), order)

    law()


# Rows of a list, each in a container of its own

def objects_of(cell):
    return pd.Series([cell], dtype=object)


CONTAINERS = [
    lambda cell: [cell], lambda cell: (cell,), lambda cell: collections.deque([cell]),
    lambda cell: collections.UserList([cell]), lambda cell: array_of([cell])[0], objects_of,
    lambda cell: pd.Series([cell]), lambda cell: np.array([cell]),
    lambda cell: np.array([cell], dtype="datetime64[ns]"),
    lambda cell: pl.Series([cell]), lambda cell: pa.array([cell]), lambda cell: pd.Index([cell]),
    lambda cell: np.ma.array([cell]), lambda cell: np.array([[cell]], dtype=object), lambda cell: [[cell]],
    lambda cell: {cell: cell}, lambda cell: {cell}, lambda cell: cell, lambda cell: [cell, cell], lambda cell: [],
]
CELLS_OF_ROWS = [True, 1, 0.5, 2**53 + 1, 2**63, "a", "1", None, np.datetime64("2020-10-25"),
                 TWICE.replace(tzinfo=None), datetime.date(2020, 10, 25), np.int64(2**53 + 1), decimal.Decimal("1.0"),
                 "2020-10-25"]


def contained(kind, cell):
    """The row, or a list if the container has no such cells."""
    try:
        return CONTAINERS[kind](cell)
    except (TypeError, ValueError, OverflowError, pa.ArrowException, pl.exceptions.PolarsError):
        return [cell]


@pytest.mark.daily(3)
@pytest.mark.parametrize("outer", [list, tuple, collections.deque])
@pytest.mark.parametrize("columns", [NUMBERS, DATES, CATEGORIES], ids=["numbers", "dates", "categories"])
def test_rows_of_a_list_mean_the_same_in_any_containers(outer, columns):
    @settings(laws, max_examples=10)
    @given(st.sampled_from(columns), st.lists(st.tuples(
        st.one_of(st.integers(0, 9), st.integers(0, len(CONTAINERS) - 1)), st.sampled_from(CELLS_OF_ROWS)), min_size=2,
        max_size=3), st.data())
    def law(column, parts, data):
        rows = [contained(kind, cell) for kind, cell in parts]
        check(column, lambda chosen: outer(rows[place] for place in chosen), data.draw(places(len(rows))))

    law()


@pytest.mark.parametrize("other", [collections.deque, pd.Series, pl.Series, collections.UserList, tuple])
def test_a_row_in_another_container_does_not_turn_the_times_of_all_rows_into_integers(other):
    schema = tm.Schema([tm.Column(name, "2020-01-01", "2021-01-01", "datetime") for name in "ab"])
    first, second = (np.array(days, dtype="datetime64[ns]") for days in (["2020-01-01", "2021-01-01"],
                                                                        ["2020-07-02", "2020-07-02"]))
    assert schema.to_cube([first, other(second)]).tolist() == [[-1.0, 1.0], [0.0, 0.0]]


# Types of columns that say what the cells are

POOLS = {
    "text": ["a", "a ", "e\u0301", "\u00e9", "1", "1.0", "True", "2020-10-25", "2020-10-25T02:30+01:00", None],
    "integers": [0, 1, 2, 2**53, 2**53 + 1, -7, None], "floats": [0.0, -0.0, 1.0, 0.5, 2.0**53, math.inf, 1e-300, None],
    "truths": [True, False, None], "decimals": [decimal.Decimal("1.0"), decimal.Decimal("0.5"), None],
    "days": [datetime.date(2020, 10, 25), datetime.date(1969, 12, 31), None],
    "times": [TWICE.replace(tzinfo=None), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), None],
    "times with a zone": [TWICE.astimezone(datetime.UTC), SECOND.astimezone(datetime.UTC), None],
    "nothing": [None, None],
}
# Each makes a table of one column, or fails if the library has no such type.
TYPED = {
    "array": lambda cells: np.array(cells[:-1])[:, None],
    "array of 32 bits": lambda cells: np.array(cells, dtype=np.float32)[:, None],
    "pandas": lambda cells: pd.DataFrame({"c": cells}),
    "pandas nullable": lambda cells: pd.DataFrame({"c": cells}).convert_dtypes(),
    "pandas categories": lambda cells: pd.DataFrame({"c": pd.Categorical(cells)}),
    "pandas mixed categories": lambda cells: pd.DataFrame({"c": pd.Categorical([*cells, "a", 2, TWICE, SECOND, None])}),
    "pandas text in objects": lambda cells: pd.DataFrame({"c": pd.array([*map(str, cells)], "string[python]")}),
    "pandas with Arrow": lambda cells: pa.table({"c": cells}).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas sparse": lambda cells: pd.DataFrame({"c": pd.arrays.SparseArray(np.array(cells, dtype=float))}),
    "polars": lambda cells: pl.DataFrame({"c": cells}),
    "polars categories": lambda cells: pl.DataFrame({"c": pl.Series(cells, dtype=pl.Categorical)}),
    "polars enumeration": lambda cells: pl.DataFrame({"c": pl.Series(cells, dtype=pl.Enum(cells[:-1]))}),
    "pyarrow": lambda cells: pa.table({"c": cells}),
    "pyarrow dictionary": lambda cells: pa.table({"c": pa.array(cells).dictionary_encode()}),
    "pyarrow chunks": lambda cells: pa.table({"c": pa.chunked_array([cells[:1], cells[1:]], pa.array(cells).type)}),
}


def made(library):
    """The tables of a library, of the pools that it has a type for."""
    for cells in POOLS.values():
        try:
            yield TYPED[library](cells)
        except (TypeError, ValueError, OverflowError, pa.ArrowException):
            assert library not in ("pandas", "polars", "pyarrow")


def taken(table, places):
    if isinstance(table, pd.DataFrame):
        return table.iloc[places]
    return table.take(places) if isinstance(table, pa.Table) else table[places]


@pytest.mark.daily(15)
@pytest.mark.parametrize("library", TYPED)
def test_rows_of_typed_columns_mean_the_same_alone_and_among_others(library):
    tables = list(made(library))
    assert tables

    @settings(laws, max_examples=len(tables) + 3)
    @given(st.data())
    def law(data):
        table = data.draw(st.sampled_from(range(len(tables))).map(tables.__getitem__))
        column, order = data.draw(st.sampled_from(NUMBERS + CATEGORIES + DATES)), data.draw(places(len(table)))
        check(column, lambda chosen: taken(table, chosen), order)

    law()


CELLS = ["1", "0", "true", "True", "FALSE", "inf", "nan", "1e3", "-0", " 1 ", "", ".5", "1_0", "Infinity", "NA", "NaN",
         "a", '"a"', '" a"', "2020-10-25", "2020-10-25T02:30+01:00"]


@pytest.mark.nightly
@settings(laws, max_examples=30)
@given(st.sampled_from(NUMBERS + CATEGORIES + DATES), st.lists(st.sampled_from(CELLS), min_size=2, max_size=3))
def test_rows_of_a_file_mean_the_same_alone_and_among_others(column, cells):
    def rows(chosen):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "table.csv")
            path.write_text("".join(f"{cell},0\n" for cell in ["c", *chosen]))
            try:
                return np.vstack([tm.Schema([column]).to_cube(chunk)
                                  for chunk in TableFile(path).chunks(tm.Schema([column]))])
            except InputError:
                return None

    among, alone = rows(cells), [rows([cell]) for cell in cells]
    # Truths among numbers are refused, though each is read where all are such.
    if among is not None:
        np.testing.assert_array_equal(among, np.vstack(alone))


# Faults that there were, each with what it must be


@pytest.mark.parametrize("library", OBJECTS)
@pytest.mark.parametrize(("first", "others", "category"), [
    (True, 1, 2), (1, True, 1), (np.True_, 1.0, 2), (decimal.Decimal(2**53 + 1), 2**53 + 1, 3), (1.0, True, 1),
], ids=str)
def test_a_first_row_does_not_decide_what_equal_objects_are(library, first, others, category):
    column = tm.Column("c", kind="categorical", categories=("a", "True", "1", str(2**53 + 1), str(2**53)))
    points = encoded(column, OBJECTS[library](["a"] * 100 + [first] + [others] * 899))
    assert points[:100, 0].all()
    assert points[101:, category].all()


@pytest.mark.parametrize("library", OBJECTS)
@pytest.mark.parametrize("first", [TWICE, SECOND])
def test_a_first_row_does_not_decide_in_which_of_two_equal_hours_the_others_are(library, first):
    column = tm.Column("c", "2020-10-25T00:30", "2020-10-25T02:30", "datetime")
    assert encoded(column, OBJECTS[library]([first] + [TWICE] * 9))[1:].tolist() == [[-1.0]] * 9
    assert encoded(column, OBJECTS[library]([first] + [SECOND] * 9))[1:].tolist() == [[0.0]] * 9


def test_a_wrong_number_among_objects_is_reported_by_a_type_that_no_cell_chose():
    told = set()
    for cells in ([None] * 150 + ["x"], ["x"] * 150, [1, "x"], [datetime.date(2020, 1, 1)]):
        with pytest.raises(InputError, match="'c'") as caught:
            tm.Schema([NUMBERS[0]]).to_cube(OBJECTS["pandas"](cells))
        told.add(str(caught.value))
    assert len(told) == 1


NOTHING = {
    "pandas": pd.DataFrame({"c": pd.Series([None] * 3, dtype=object)}), "polars": pl.DataFrame({"c": [None] * 3}),
    "pyarrow": pa.table({"c": [None] * 3}), "array": array_of([None] * 3),
    "polars objects": OBJECTS["polars"]([None] * 3),
    "pandas with Arrow": pd.DataFrame({"c": pd.array([None] * 3, dtype=pd.ArrowDtype(pa.null()))}),
}


@pytest.mark.daily(15)
@pytest.mark.parametrize("library", NOTHING)
@pytest.mark.parametrize("column", [column for column in NUMBERS + CATEGORIES + DATES if column.missing != "refuse"])
def test_a_column_without_any_value_is_read_as_any_kind(library, column):
    points = encoded(column, NOTHING[library])
    assert points.shape == (3, len(column.coordinates))
    assert (points[:, -1] == (1.0 if column.missing == "keep" else 0.0)).all()
    assert not points[:, :-1].any()


@pytest.mark.parametrize("library", NOTHING)
def test_a_column_without_any_value_is_refused_where_values_must_not_be_missing(library):
    with pytest.raises(InputError, match="values are missing"):
        tm.Schema([tm.Column("c", 0, 1)]).to_cube(NOTHING[library])
