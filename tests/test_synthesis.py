"""`synthesize` from end to end: mixed tables of every library, private bounds, the ledger file, files, refusals."""

import hashlib
import traceback
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import trigmech as tm
from trigmech.errors import BudgetError, InputError, TrigmechError
from trigmech.privacy.accounting import epsilon_of
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import SystemNoise
from trigmech.tables import reader as table_file
from trigmech.tables.reader import TableFile, write_table

SCHEMA = tm.Schema([
    tm.Column("age", 0, 120, kind="integer", special=(0, 120)),
    tm.Column("income", 0, 1e5, missing="keep", transform="log1p"),
    tm.Column("sex", kind="categorical", categories=("f", "m", "other"), missing="keep"),
    tm.Column("grade", kind="ordinal", categories=(1, 2, 3), missing="keep"),
    tm.Column("born", date(1900, 1, 1), date(2020, 12, 31), kind="datetime"),
    tm.Column("smoker", kind="categorical", categories=(False, True)),
])
BUDGET = tm.Budget(4.0, 1e-6)
FAST = tm.MomentMechanism(points=200, iterations=3, degree=2, pair_degree=1, triples=False, whole_row=False)
NUMBERS = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", private_bounds=True)])


def frame(n=600, seed=1):
    """A pandas dataframe; "other" never occurs."""
    rng = np.random.default_rng(seed)
    income = rng.lognormal(9.0, 1.0, n)
    income[rng.random(n) < 0.3] = np.nan
    return pd.DataFrame({
        "age": np.where(rng.random(n) < 0.2, 0, rng.integers(18, 100, n)), "income": income,
        "sex": rng.choice(np.array(["f", "m", None], dtype=object), n, p=[0.4, 0.4, 0.2]),
        "grade": pd.array(rng.integers(1, 4, n), dtype="Int64"),
        "born": np.datetime64("1950-01-01", "s") + rng.integers(0, 20_000, n) * np.timedelta64(86_400, "s"),
        "smoker": rng.random(n) < 0.3}).assign(grade=lambda t: t["grade"].mask(rng.random(n) < 0.25))


def numbers(n=400, seed=2):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.random(n), "b": rng.normal(5.0, 2.0, n)})


def as_objects(table):
    plain = table.astype(object)
    return plain.where(plain.notna(), None).to_numpy()


LIBRARIES = {"pandas": lambda t: t, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas, "array": as_objects,
             "list": lambda t: as_objects(t).tolist()}


def simulate(table, schema=SCHEMA, mechanism=FAST, seed=3, **options):
    return tm.synthesize(table, schema, BUDGET, mechanism, rng=np.random.default_rng(seed), **options)


def fingerprint(made):
    return hashlib.sha256(made.distribution.points.tobytes() + made.release.means.tobytes()).hexdigest()


@pytest.fixture
def book(tmp_path):
    return tm.LedgerFile.create(tmp_path / "ledger.json", BUDGET)


@pytest.fixture
def draws(monkeypatch):
    """What real noise is asked for; it is then 0."""
    asked = []
    for law in ("laplace", "gaussian", "linf"):
        monkeypatch.setattr(SystemNoise, law, lambda self, values, scale, law=law: asked.append(law) or values)
    return asked


# Types and kinds


@pytest.mark.daily("pyarrow")
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_mixed_table_comes_back_in_its_own_type_and_kinds_and_with_missing_values(library):
    table = LIBRARIES[library](frame())
    made = simulate(table)
    sample = made.sample(500, np.random.default_rng(4))
    assert isinstance(sample, np.ndarray if library == "list" else type(table))
    assert made.sample(0).shape == (0, 6)
    made.schema.domain.check(made.distribution.points)
    columns = made.columns(500, np.random.default_rng(4))
    assert columns["age"].dtype == np.int64
    assert set(columns["sex"][~columns["sex"].mask]) <= {"f", "m", "other"}
    assert set(columns["grade"].compressed()) <= {1, 2, 3}
    assert columns["born"].dtype == "datetime64[D]"
    assert columns["smoker"].dtype == bool
    for name, share in (("income", 0.3), ("sex", 0.2), ("grade", 0.25)):
        assert np.ma.getmaskarray(columns[name]).mean() == pytest.approx(share, abs=0.15)
    assert (columns["age"] == 0).mean() == pytest.approx(0.2, abs=0.15)
    assert (columns["sex"].filled("") == "other").mean() < 0.1
    # Points are the same whatever library the table came from, and may be released again.
    assert fingerprint(made) == fingerprint(simulate(frame()))
    simulate(sample)


def test_many_categories_take_time_by_their_number_and_no_longer():
    categories = tuple(f"c{i}" for i in range(400))
    values = np.random.default_rng(5).choice(categories[:300], 2_000)
    made = simulate(pd.DataFrame({"v": values}), tm.Schema([tm.Column("v", kind="categorical", categories=categories)]),
                    tm.MomentMechanism())
    # Rows start with the frequencies, so that there is next to nothing to move.
    assert made.fit.iterations <= 3
    assert made.fit.status == "converged"
    assert made.fit.misfit < 1.0


TYPED = {
    "pandas": lambda: frame().astype({"sex": "category", "grade": "category"}),
    "polars": lambda: pl.from_pandas(frame()).with_columns(pl.col("sex").cast(pl.Categorical)),
    "polars enumeration": lambda: pl.from_pandas(frame()).with_columns(pl.col("sex").cast(pl.Enum(["m", "f"]))),
    "pyarrow": lambda: pa.table({name: column.dictionary_encode() if name in ("sex", "grade") else column
                                 for name, column in zip(frame(), pa.Table.from_pandas(frame()).columns, strict=True)}),
}


def types_of(table):
    return {"sex": table["sex"].type, "grade": table["grade"].type} if isinstance(table, pa.Table) else {
        "sex": table["sex"].dtype, "grade": table["grade"].dtype}


@pytest.mark.daily(1)
@pytest.mark.parametrize("library", TYPED)
def test_columns_of_categories_come_back_in_such_a_type_with_the_categories_of_the_schema(library, tmp_path):
    table = TYPED[library]()
    made = simulate(table)
    made.save(tmp_path / "release.tm")
    for release in (made, tm.load(tmp_path / "release.tm")):
        found = types_of(release.sample(50, np.random.default_rng(1)))
        assert found == {
            "pandas": {"sex": pd.CategoricalDtype(["f", "m", "other"]),
                       "grade": pd.CategoricalDtype([1, 2, 3], ordered=True)},
            "pyarrow": {"sex": pa.dictionary(pa.int32(), pa.string()),
                        "grade": pa.dictionary(pa.int32(), pa.int64(), ordered=True)},
        }.get(library, {"sex": pl.Categorical, "grade": pl.Int64})
    assert "category" not in map(str, simulate(frame()).sample(50).dtypes)
    assert made.categorical == (("sex", "grade") if library in ("pandas", "pyarrow") else ("sex",))


def test_of_a_type_of_categories_nothing_but_that_it_was_one_is_kept():
    tables = [frame().assign(sex=pd.Categorical(frame()["sex"], categories=categories, ordered=ordered))
              for categories, ordered in ((["f", "m"], False), (["never", "m", "secret", "f"], True))]
    first, second = (simulate(table) for table in tables)
    pd.testing.assert_frame_equal(*(made.sample(50, np.random.default_rng(1)) for made in (first, second)))
    assert first.categorical == second.categorical == ("sex",)


def test_categories_that_are_the_same_as_floats_come_back_as_numbers():
    schema = tm.Schema([tm.Column("c", kind="categorical", categories=(2**64, 2**64 + 1))])
    made = simulate(pd.DataFrame({"c": pd.Categorical([2**64, 2**64 + 1] * 50)}), schema)
    assert made.sample(5)["c"].dtype == np.float64


def test_a_stream_is_read_once_whatever_is_asked_for():
    made = simulate(pa.Table.from_pandas(numbers(2_000)).to_reader(), NUMBERS)
    assert fingerprint(made) == fingerprint(simulate(numbers(2_000), NUMBERS))
    assert isinstance(made.sample(5), pa.Table)
    lazy = simulate(pl.from_pandas(frame()).lazy())
    assert fingerprint(lazy) == fingerprint(simulate(frame()))
    assert isinstance(lazy.sample(5), pl.DataFrame)


# Private bounds


@pytest.mark.daily(5)
@pytest.mark.parametrize("library", LIBRARIES)
def test_private_bounds_are_found_in_tables_of_every_library(library):
    made = simulate(LIBRARIES[library](numbers(2_000)), NUMBERS)
    assert made.schema.private_bounds == ()
    assert -20.0 < made.schema.columns[1].lower < 5.0 < made.schema.columns[1].upper < 30.0
    assert [charge.purpose for charge in made.ledger.charges][:2] == ["bounds, coarse", "bounds, fine"]
    assert 0.999 * BUDGET.epsilon < epsilon_of(made.ledger.charges, BUDGET.delta) <= BUDGET.epsilon


@pytest.mark.daily(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("budget", [tm.Budget(1e-4, 1e-3), tm.Budget(1e-3)])
def test_bounds_of_noise_alone_still_make_a_schema(budget, seed):
    schema = tm.Schema([tm.Column(f"{kind} {transform}", kind=kind, transform=transform, private_bounds=True)
                        for kind in ("continuous", "integer") for transform in (None, "log", "log1p")])
    made = tm.synthesize(np.full((2, 6), 1.0), schema, budget, FAST, rng=np.random.default_rng(seed))
    assert made.schema.private_bounds == ()


def test_whole_numbers_near_0_have_bounds_with_a_logarithm():
    schema = tm.Schema([tm.Column("v", kind="integer", transform="log", private_bounds=True)])
    made = simulate(np.random.default_rng(6).integers(1, 6, (4_000, 1)), schema)
    assert made.schema.columns[0].lower == 1.0


@pytest.mark.parametrize("mechanism", [tm.TrigI(degree=3, grid=8, rows=10), tm.TrigII(degree=3, grid=8, rows=10), FAST])
def test_bounds_and_any_mechanism_share_the_budget(mechanism):
    made = simulate(numbers(), NUMBERS, mechanism)
    assert len(made.ledger.charges) == 3
    assert made.ledger.proved_epsilon <= BUDGET.epsilon


# The ledger file


def test_the_file_is_charged_before_noise_is_drawn_and_refuses_the_next_run(book, draws, monkeypatch):
    charged_at_draw = []
    monkeypatch.setattr(SystemNoise, "gaussian", lambda self, values, scale: (
        draws.append("gaussian") or charged_at_draw.append(len(book.entries)) or values))
    made = tm.synthesize(frame(), SCHEMA, BUDGET, FAST, ledger=book.path)
    assert [entry.charge for entry in book.entries] == made.ledger.charges
    assert charged_at_draw == [len(made.ledger.charges)] * len(made.ledger.charges)
    before = len(draws)
    for again in (frame(), frame(seed=9)):
        with pytest.raises(BudgetError, match="ledger file"):
            tm.synthesize(again, SCHEMA, tm.Budget(0.5, 1e-6), FAST, ledger=book)
    assert len(draws) == before
    assert len(book.entries) == len(made.ledger.charges)
    assert book.verify() == []


def test_simulations_are_in_the_file_but_do_not_count(book):
    for _ in range(3):
        simulate(frame(), ledger=book.path)
    assert all(entry.simulated for entry in book.entries)
    assert book.total == 0.0


def faulty(**cells):
    table = numbers().astype(object)
    for name, value in cells.items():
        table.loc[7, name] = value
    return table


SECRET = 918273645.5
CATEGORIES = tm.Schema([*NUMBERS.columns, tm.Column("c", kind="categorical", categories=("x", "y"))])
# Of a table, a schema and options; each was found to be refused after bounds had been paid for, or may be.
REFUSED = {
    "a missing value": (lambda: faulty(a=None), NUMBERS, {}),
    "an unknown category": (lambda: numbers().assign(c=str(SECRET)), CATEGORIES, {}),
    "text among numbers": (lambda: faulty(a=str(SECRET)), NUMBERS, {}),
    "a column that is not there": (lambda: numbers()[["b"]], NUMBERS, {}),
    "one row": (lambda: numbers(1), NUMBERS, {}),
    "too many functions": (numbers, NUMBERS, {"mechanism": tm.MomentMechanism(degree=9, max_functions=4)}),
    "a mechanism that needs delta": (numbers, NUMBERS, {"mechanism": tm.TrigII(), "budget": tm.Budget(1.0)}),
    "a grid that is too large": (numbers, NUMBERS, {"mechanism": tm.TrigI(grid=10**6)}),
    "no share for bounds": (numbers, NUMBERS, {"bounds_share": 0.0}),
    "more than is left of the file": (numbers, NUMBERS, {"budget": tm.Budget(4.1, 1e-6)}),
    "more pure noise than is left of the file": (numbers, NUMBERS, {"budget": tm.Budget(9.0)}),
    "several steps of which the file has room for one": (numbers, tm.Schema.cube(2), {
        "mechanism": tm.ImprovedTrigII(n_candidates=100), "budget": tm.Budget(5.0, 1e-6)}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_be_refused_is_refused_before_anything_is_charged_or_drawn(case, book, draws):
    make, schema, options = REFUSED[case]
    table = make()
    if schema.names == ("x1", "x2"):
        table = table.set_axis(["x1", "x2"], axis=1).clip(-1.0, 1.0)
    with pytest.raises(TrigmechError) as refusal:
        tm.synthesize(table, schema, **{"budget": BUDGET, "mechanism": FAST, **options}, ledger=book.path)
    assert book.entries == ()
    assert draws == []
    assert str(SECRET) not in "".join(traceback.format_exception(refusal.value))


@pytest.mark.parametrize("cell", ["a word", None])
def test_a_bad_cell_of_a_file_costs_no_bounds(cell, book, draws, tmp_path):
    path = tmp_path / "table.csv"
    faulty(a=cell).to_csv(path, index=False)
    with pytest.raises(InputError, match="'a'"):
        tm.synthesize(path, NUMBERS, BUDGET, FAST, ledger=book)
    assert book.entries == ()
    assert draws == []


@pytest.mark.parametrize("ledger", [Ledger(BUDGET), 3, {"budget": 1}])
def test_what_is_no_ledger_file_is_refused(ledger):
    with pytest.raises(InputError, match="ledger must be the path"):
        simulate(frame(), ledger=ledger)


# Files


@pytest.mark.daily(".parquet-private bounds")
@pytest.mark.parametrize(("suffix", "schema"), [(".csv", "public bounds"), (".csv.gz", "private bounds"),
                                                (".parquet", "private bounds")])
def test_a_file_gives_the_bits_of_its_dataframe_however_it_is_cut(suffix, schema, tmp_path, monkeypatch):
    columns = SCHEMA if schema == "public bounds" else tm.Schema(
        [*SCHEMA.columns[:1], tm.Column("income", private_bounds=True, missing="keep"), *SCHEMA.columns[2:]])
    path = tmp_path / f"table{suffix}"
    write_table(path, SCHEMA.decode(SCHEMA.to_cube(frame())))
    expected = fingerprint(simulate(like_written(frame()), columns))
    assert fingerprint(simulate(str(path), columns)) == expected
    monkeypatch.setattr(table_file, "MAX_NUMBERS", 23 * columns.domain.d)
    assert fingerprint(simulate(TableFile(path), columns)) == expected


def like_written(table):
    """The table as its file holds it: decoding a coordinate rounds."""
    return pa.table({name: pa.array(np.ma.getdata(values), mask=np.ma.getmaskarray(values))
                     for name, values in SCHEMA.decode(SCHEMA.to_cube(table)).items()})


@pytest.mark.parametrize(("rows", "schema"), [(10, tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 9)])),
                                              (700, NUMBERS)])
def test_a_file_that_changes_after_it_was_counted_is_refused_before_anything_is_charged(rows, schema, book, tmp_path):
    path = tmp_path / "table.csv"
    numbers().to_csv(path, index=False)
    table = TableFile(path)
    assert table.n == 400
    numbers(rows).to_csv(path, index=False)
    with pytest.raises(InputError, match="changed"):
        tm.synthesize(table, schema, BUDGET, FAST, ledger=book)
    assert book.entries == ()


@pytest.mark.daily(".parquet-file", ".csv-path")
@pytest.mark.parametrize("open_it", [str, lambda path: path, TableFile], ids=["text", "path", "file"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_release_of_a_file_samples_a_table_with_its_names_and_types(suffix, open_it, tmp_path):
    path = tmp_path / f"table{suffix}"
    write_table(path, SCHEMA.decode(SCHEMA.to_cube(frame())))
    made = simulate(open_it(path))
    made.save(tmp_path / "release.tm")
    for release in (made, tm.load(tmp_path / "release.tm")):
        sample = release.sample(5)
        assert sample.schema == like_written(frame()).schema
        simulate(sample)


def test_progress_names_steps_and_public_numbers_alone(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    numbers().to_csv(path, index=False)
    monkeypatch.setattr(table_file, "MAX_NUMBERS", 2 * 150)
    said = []
    simulate(path, NUMBERS, progress=lambda *step: said.append(step))
    assert said == [("checking the table and the options", 0, 0), ("finding bounds", 0, 0),
                    ("counting rows and planning", 0, 0), ("measuring", 150, 400), ("measuring", 300, 400),
                    ("measuring", 400, 400), ("releasing and fitting", 0, 0)]
    said.clear()
    simulate(numbers(), tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 9)]),
             progress=lambda *step: said.append(step))
    assert said == [("planning, measuring and fitting", 0, 0)]


def test_progress_that_fails_costs_nothing(book, tmp_path):
    def fails(step, done, total):
        if step.startswith("releasing"):
            raise RuntimeError("no terminal")

    path = tmp_path / "table.csv"
    numbers().to_csv(path, index=False)
    with pytest.raises(RuntimeError, match="no terminal"):
        tm.synthesize(path, tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 9)]), BUDGET, FAST, ledger=book,
                      progress=fails)
    assert book.entries == ()


# What comes of it


def test_a_saved_release_samples_and_answers_as_the_first_one(tmp_path):
    made = simulate(frame(), tm.Schema([*SCHEMA.columns[:1], tm.Column("income", private_bounds=True, missing="keep"),
                                        *SCHEMA.columns[2:]]))
    made.save(tmp_path / "release.tm")
    again = tm.load(tmp_path / "release.tm")
    assert again.schema == made.schema
    assert again.ledger.simulated
    assert "NOT PRIVATE" in str(again.ledger)
    assert "SIMULATED" in repr(again)
    pd.testing.assert_frame_equal(made.sample(50, np.random.default_rng(1)), again.sample(50, np.random.default_rng(1)))
    workload = tm.workload.SecondMoments(len(made.schema.domain.numbers))
    first, second = made.query(workload), again.query(workload)
    np.testing.assert_array_equal(first.values, second.values)
    np.testing.assert_array_equal(first.error.bound, second.error.bound)


def test_queries_about_numbers_have_error_bars_and_those_about_all_coordinates_none():
    made = simulate(frame())
    domain = made.schema.domain
    assert made.query(tm.workload.SecondMoments(len(domain.numbers))).error is not None
    everything = made.query(tm.workload.SecondMoments(domain.d))
    assert everything.error is None
    np.testing.assert_allclose(everything.values, tm.workload.SecondMoments(domain.d).answers(
        made.distribution.points, made.distribution.weights))
    with pytest.raises(InputError, match="2 columns"):
        made.query(tm.workload.SecondMoments(2))


@pytest.mark.parametrize("seed", [0, 3, np.int64(3), "x", np.random.RandomState(1)], ids=list("abcde"))
def test_a_bare_seed_in_place_of_a_generator_is_refused_everywhere(seed):
    """0 would look like no generator, so that the rows could not be drawn again."""
    schema, table = tm.Schema([tm.Column("x", 0, 1)]), np.random.default_rng(0).random((60, 1))
    mechanism, budget = tm.TableMechanism(points=16), tm.Budget(1.0, 1e-5)
    made = tm.synthesize(table, schema, budget, mechanism, np.random.default_rng(0))
    moments = tm.measure(table, schema, tm.design(60, schema, budget, mechanism), rng=np.random.default_rng(0))
    for use in (lambda rng: tm.synthesize(table, schema, budget, mechanism, rng), lambda rng: made.sample(3, rng),
                lambda rng: made.columns(3, rng, given={"x": 0.5}), lambda rng: list(made.batches(3, rng)),
                lambda rng: made.distribution.sample(3, rng), lambda rng: tm.generate(moments, 3, rng),
                lambda rng: tm.reconstruct(moments, rng), lambda rng: made.imputations(2, rng=rng)):
        with pytest.raises(InputError, match=r"rng must be a numpy.random.Generator, not \w+; np.random.default_rng"):
            use(seed)


def test_a_structured_array_is_refused_with_the_remedy():
    for column in (tm.Column("x", 0, 1), tm.Column("x", kind="categorical", categories=(0, 1))):
        with pytest.raises(InputError, match=r"structured array; pandas.DataFrame\(table\) makes a dataframe"):
            tm.synthesize(np.zeros(60, dtype=[("x", float)]), tm.Schema([column]), tm.Budget(1.0))
