"""Whose a row is does not depend on who reads it: identifiers of all types over all engines, and files that differ.

Spark's turn is in test_engines_spark.py, where there is a session.
"""

import logging

import pandas
import polars
import pyarrow as pa
import pytest
from engine_tables import DIFFERENT, IDENTIFIERS, PERSONS, different, identified, in_files, outcome
from hypothesis import given, settings
from hypothesis import strategies as st

import trigmech as tm
from trigmech.errors import WorkerError
from trigmech.measurement import persons
from trigmech.measurement.persons import chunk_of, hashes
from trigmech.tables.parquet_files import ParquetFiles

WITHOUT = tm.Schema([tm.Column("x", 0, 10)])
pytestmark = pytest.mark.usefixtures("quick_processes")


@pytest.fixture(scope="module")
def dask():
    """Dask's dataframes, with a cluster of threads of this process."""
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install trigmech[dask]")
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    made = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with made as cluster, distributed.Client(cluster):
        yield pytest.importorskip("dask.dataframe")
    logging.disable(before)


def thirds(whole):
    return [whole.slice(0, 5), whole.slice(5, 4), whole.slice(9)]


# The others are like one of these for every library, and are tried at night.
# Times of a zone by Spark.
BY_DAY = {"uint64", "text"}


@pytest.mark.daily("uint64")  # Text is, below.
@pytest.mark.parametrize("kind", [kind if kind in BY_DAY else pytest.param(kind, marks=pytest.mark.nightly)
                                  for kind in IDENTIFIERS])
def test_identifiers_of_a_type_name_the_same_persons_for_every_engine(kind, dask, tmp_path, monkeypatch):
    whole, people = identified(kind)
    expected = outcome(whole)
    assert expected[0] == people
    files = in_files(tmp_path / "files", *thirds(whole))
    typed = whole.to_pandas(types_mapper=pandas.ArrowDtype)
    assert outcome(whole.to_pandas()) == expected
    assert outcome(typed) == expected
    assert outcome(polars.from_arrow(whole)) == expected
    assert outcome(files) == expected
    assert outcome(files[::-1], engine="processes", workers=1) == expected
    assert outcome(files, engine="dask") == expected
    assert outcome(dask.from_pandas(typed, npartitions=3)) == expected
    monkeypatch.setattr(persons, "NUMBERS_IN_A_BUCKET", 8)
    assert outcome(files) == expected


@pytest.mark.parametrize("kind", DIFFERENT)
def test_files_that_differ_in_a_type_are_refused_alike_before_a_row_is_read(kind, dask, tmp_path, monkeypatch):
    monkeypatch.setattr(ParquetFiles, "chunks", None)
    tables, name = different(kind)
    files = in_files(tmp_path / "files", *tables, tables[0].slice(0, 0))
    said = outcome(files)
    assert said.startswith(f"column '{name}' has the type ")
    assert "write the column with the same type to all of them" in said
    assert outcome(files, engine="processes", workers=1) == said
    assert outcome(files, engine="dask") == said


def test_files_without_persons_are_read_each_by_its_own_types(dask, tmp_path):
    for kind in DIFFERENT:
        tables, _ = different(kind)
        files = in_files(tmp_path / kind, *tables)
        expected = outcome(pa.table({"x": [1.0, 2.0, 1.0, 2.0]}), WITHOUT)
        assert outcome(files, WITHOUT) == outcome(files, WITHOUT, engine="dask") == expected


@pytest.mark.nightly  # By day each type names the same persons, above.
def test_files_that_write_text_in_different_ways_hold_the_same_persons(dask, tmp_path):
    tables = [identified(kind)[0] for kind in ("text", "long text", "categories")]
    # A file without rows has no say, nor has whether a column may have missing values.
    strict = pa.table(tables[0].columns, schema=pa.schema([pa.field("who", pa.string(), nullable=False),
                                                           pa.field("x", pa.float64(), nullable=False)]))
    nothing = pa.table({"who": pa.nulls(0), "x": pa.nulls(0)})
    files = in_files(tmp_path / "files", *tables, strict, nothing)
    texts = pa.concat_tables([pa.table({"who": each["who"].cast(pa.string()), "x": each["x"]})
                              for each in [*tables, strict]])
    expected = outcome(texts)
    assert expected[0] == identified("text")[1]
    for options in ({}, {"engine": "processes", "workers": 1}, {"engine": "dask"}):
        assert outcome(files, **options) == expected


MIXED = {"whole and other numbers": [1, 1.0, 2, 3], "numbers and text": [1, "1", 2, 3], "truths and numbers":
         [True, 1, 2, 3], "whole numbers": [1, 1, 2, 3], "text": ["a", "b ", "b", "c"], "text and nothing":
         ["a", None, "b", "c"]}


# Text alone is compared by day above, and in all these ways beside numbers.
@pytest.mark.daily("numbers and text")
@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.nightly] * (
    kind in ("text", "whole and other numbers", "whole numbers")))
                                  for kind in MIXED])
def test_identifiers_without_a_type_are_those_of_a_frame_or_refused(kind, dask):
    import dask as settings_of_dask

    frame = pandas.DataFrame({"who": pandas.Series(MIXED[kind], dtype=object), "x": [1.0, 2.0, 3.0, 4.0]})
    expected = outcome(frame)
    parts = [frame[:2], frame[2:]]
    made = {
        "frame": lambda: dask.from_pandas(frame, npartitions=2),
        "function": lambda: dask.from_map(lambda k: parts[k], [0, 1], meta=frame[:0]),
        "with another name": lambda: dask.from_pandas(frame.rename(columns={"who": "id"}), npartitions=2).rename(
            columns={"id": "who"}),
        "joined later": lambda: dask.from_pandas(frame[["x"]], npartitions=2).assign(
            who=dask.from_pandas(frame["who"], npartitions=2)),
    }
    for way in made if kind in ("text", "numbers and text") else ("frame",):
        make = made[way]
        if kind.startswith("text"):
            assert outcome(make()) == expected, way
        else:
            assert "have the type 'object' and hold values that are not text" in outcome(make()), way
        if way != "joined later":  # Dask may read more than it is asked for.
            assert outcome(make(), WITHOUT) == outcome(frame, WITHOUT), way
        with settings_of_dask.config.set({"dataframe.convert-string": False}):
            assert outcome(make()) == expected, way


BASE = pandas.DataFrame({"who": [1, 2], "x": [1.0, 2.0]})
TOLD = "column '{}' has a type in some partitions that differs from the type that Dask was told"
PARTITIONS = {
    "another order": (BASE[["x", "who"]], ""),
    "more columns": (BASE.assign(y=1), ""),
    "whole numbers": (BASE.astype({"x": int}), ""),
    "no rows and no types": (BASE[:0].astype(object), ""),
    "text": (BASE.astype({"who": str}), TOLD.format("who")),
    "other numbers": (BASE.astype({"who": float}), TOLD.format("who")),
    "times": (BASE.assign(x=pandas.Timestamp(0)), TOLD.format("x")),
}


@pytest.mark.daily("other numbers", "text", "times")
@pytest.mark.parametrize("kind", PARTITIONS)
def test_partitions_that_differ_from_what_dask_was_told(kind, dask):
    other, said = PARTITIONS[kind]
    made = dask.from_map(lambda k: [BASE, other][k], [0, 1], meta=BASE[:0])
    found = outcome(made)
    if said:
        assert said in found
    else:
        assert found == outcome(pandas.concat([BASE, other]) if len(other) else BASE)


@pytest.mark.parametrize("left", [["x"], ["who"], []])
def test_a_partition_that_lacks_columns_is_refused_by_their_names(left, dask):
    # In the order in which they are asked for, which Dask leaves to the partitions; else it fails itself.
    whole = BASE[["x", "who"]]
    made = dask.from_map(lambda k: [whole, whole[left]][k], [0, 1], meta=whole[:0])
    absent = ", ".join(repr(name) for name in ("x", "who") if name not in left)
    assert f"a partition lacks the column(s) {absent} that the schema names" in outcome(made)


def test_parts_that_dask_itself_refuses_are_an_error_that_says_why(dask):
    from dask import delayed

    parts = [delayed(BASE), delayed(BASE[["x", "who"]])]
    assert outcome(dask.from_delayed(parts, meta=BASE[:0], verify_meta=False)) == outcome(pandas.concat([BASE, BASE]))
    for schema in (WITHOUT, PERSONS):
        with pytest.raises(WorkerError, match="perhaps because partitions have other columns, another order of"):
            outcome(dask.from_delayed(parts, meta=BASE[:0]), schema)


@given(st.lists(st.one_of(st.integers(-3, 3), st.sampled_from(
    [0.0, -0.0, 1.0, 2.5, "1", " 1", "1.0", "01", True, False])),
                min_size=1, max_size=12))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_rows_of_one_person_have_one_hash_and_one_place(values):
    frame = pandas.DataFrame({"who": pandas.Series(values, dtype=object), "x": 1.0})
    # Text without the space around it, and numbers by their value, also those that text is.
    keys = [("text", value) if value == "01" else ("number", float(value)) for value in values]
    assert len(chunk_of(frame, tm.Schema([tm.Column("x", 0, 2)], person="who")).starts) == len(set(keys))
    found = hashes(frame, "who").tolist()
    assert all(found[i] == found[j] for i in range(len(keys)) for j in range(i) if keys[i] == keys[j])
