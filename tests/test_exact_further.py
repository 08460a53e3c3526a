"""Laws of lines of a further draw by chance from the whole package, and of others of the same kind beside them."""

import decimal
import json
import math
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from test_cli import run as run

import trigmech as tm
from trigmech.acceptance.criteria import Criterion
from trigmech.acceptance.questions import Questions
from trigmech.cli.release import SHOWN, too_few
from trigmech.distribution import Distribution
from trigmech.domain import Domain
from trigmech.errors import BudgetError, InputError
from trigmech.evaluation.plausible import PlausibleTables
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.coordinate_ascent import coordinate_ascent
from trigmech.functions.features import Features
from trigmech.functions.partition import columns_of
from trigmech.inference.formula import FUNCTIONS, parsed_formula
from trigmech.inspection.categories import NAMED
from trigmech.queries.base import Measurement
from trigmech.queries.functions import Functions
from trigmech.queries.one_way import Histogram
from trigmech.reconstruction.frequencies import nearest_probabilities
from trigmech.reconstruction.l1_cube import CubeSearch
from trigmech.reconstruction.linear_program import RestrictedProgram
from trigmech.report import pair_figures
from trigmech.schema import constraints, rounding, toml, values
from trigmech.schema.lookup import LARGEST, Lookup, read_lookup
from trigmech.tables.frames import like
from trigmech.tables.lenient import LenientFile
from trigmech.thesis import candidates
from trigmech.workload import coefficients

# Acceptance tests and checks


@pytest.mark.parametrize("constant", [0, 1])
def test_a_correlation_needs_numbers_that_differ_in_both_columns(constant):
    schema = tm.Schema([tm.Column("a", 0.0, 1.0), tm.Column("b", 0.0, 1.0)])
    points = np.column_stack([np.linspace(-1.0, 1.0, 9), np.linspace(1.0, -1.0, 9)])
    asked = Criterion("correlation", 0.5, columns=("a", "b"))
    # Two different numbers are enough.
    points[:, constant] = np.where(np.arange(9) < 3, -0.5, 0.5)
    assert 0.1 < abs(Questions(schema, Distribution(points, np.full(9, 1.0 / 9.0))).query(asked).reference) < 0.9
    points[:, constant] = 0.5
    with pytest.raises(InputError, match=f"needs numbers that differ, and {'ab'[constant]!r} is constant"):
        Questions(schema, Distribution(points, np.full(9, 1.0 / 9.0))).query(asked)


@pytest.mark.parametrize("value", [0, 0.0, False, np.float64(0.0), decimal.Decimal(0)])
def test_a_zero_beside_values_of_other_types_is_a_number(value):
    frame = pd.DataFrame({"x": pd.Series([value, "word", None, 1] * 10, dtype=object)})
    found = {each.kind: each.count for each in tm.check(frame, tm.Schema([tm.Column("x", 0, 10)])).found}
    assert (found["type"], found["missing"]) == (10, 10)


# Plausible tables


@pytest.mark.parametrize("n", [300, 1_000])
def test_plausible_numbers_within_a_cell_keep_to_a_constraint_of_two_columns(n):
    """Pairs of cells on the diagonal hold rows that keep `first <= last` and rows that do not."""
    schema = tm.Schema([tm.Column("first", 0.0, 1.0), tm.Column("last", 0.0, 1.0)], ["first <= last"])
    rng = np.random.default_rng(0)
    first = rng.uniform(0.0, 1.0, n)
    frame = pd.DataFrame({"first": first, "last": np.minimum(first + rng.exponential(0.02, n), 1.0)})
    made = tm.synthesize(frame, schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(), np.random.default_rng(4))
    rng = np.random.default_rng(1)
    points = PlausibleTables(made.release.described(schema), rng).draw(300, rng)
    assert schema.holds(schema.decode(points)).all()


# Formulas


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "**"])
def test_a_formula_computes_with_each_operator_on_both_sides(operator):
    names = ["x", "y"]
    right = parsed_formula(f"y ~ I(x {operator} 2)", names).right
    assert re.sub(r"column_(\d)_", lambda place: names[int(place[1])], right).endswith(f"I((x {operator} 2.0))")
    left = parsed_formula(f"log(y {operator} x) ~ x", names).left
    assert re.sub(r"column_(\d)_", lambda place: names[int(place[1])], left) == f"log((y {operator} x))"


@pytest.mark.parametrize("operator", ["//", "%", "@", "<<", "|", "&", "^"])
def test_a_formula_computes_with_no_other_operator(operator):
    for formula in (f"y ~ I(x {operator} 2)", f"log(y {operator} x) ~ x"):
        with pytest.raises(InputError, match="a formula must not have"):
            parsed_formula(formula, ["x", "y"])


@pytest.mark.parametrize("function", ["I", *FUNCTIONS])
def test_each_function_of_a_formula_is_kept(function):
    found = parsed_formula(f"{function}(y) ~ {function}(x)", ["x", "y"])
    assert f"{function}(" in found.left
    assert f"{function}(" in found.right


# Files

@pytest.mark.parametrize(("encoding", "before", "damaged"), [
    # The euro sign has three bytes, of which two end the first block; the damaged byte ends a line.
    ("utf-8", b"x" * (2**20 - 6) + b"\nab" + b"\nc" + "€".encode()[:1], b"\xff\nmore\n"),
    ("utf-8", b"\n" * 3 + b"x" * (2**20 - 5) + "€".encode(), b"\xff\nmore\n"),
    # A letter whose bytes hold that of a line's end.
    ("utf-16-le", "Ċ\n".encode("utf-16-le") * 5, b"\x00\xdc\n\x00"),
], ids=["in the letter", "after the letter", "two bytes"])
def test_the_line_of_undecodable_bytes_is_that_of_an_editor_wherever_a_block_ends(tmp_path, encoding, before, damaged):
    path = tmp_path / "t.csv"
    path.write_bytes(before + damaged)
    valid = before.decode(encoding, errors="ignore")
    assert LenientFile(path, encoding=encoding).undecodable() == 1 + valid.count("\n")


# Pages

@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(("names", "said"), [
    ("cba", "release 'last' has the common columns in another order than the first one; the order must be a, b, c"),
    ("bxa", "release 'last' has the common columns in another order than the first one; the order must be a, b"),
    ("xyz", "the releases have no column in common")])
def test_every_release_is_compared_with_the_first_one_s_columns(place, names, said):
    schemas = [tm.Schema([tm.Column(name, 0.0, 1.0) for name in "abc"]) for _ in range(5)]
    schemas[place + 1] = tm.Schema([tm.Column(name, 0.0, 1.0) for name in names])
    releases = {f"release {k}" if k != place + 1 else "last": SimpleNamespace(schema=schema)
                for k, schema in enumerate(schemas)}
    with pytest.raises(InputError) as problem:
        tm.compare(releases)
    assert str(problem.value) == said


# Schemas

@pytest.mark.parametrize("rules", [[], ["a <= b"], ["a <= b", "a > 0"]])
@pytest.mark.parametrize("person", [None, "who"])
@pytest.mark.parametrize("derived", [{}, {"c": "a + b"}, {"c": "a + b", "d": "c + 1"}])
def test_a_schema_as_plain_data_has_just_the_parts_that_it_has(rules, person, derived):
    schema = tm.Schema([tm.Column("a", 0.0, 1.0), tm.Column("b", 0.0, 1.0)], rules, person, derived)
    plain = json.loads(json.dumps(schema.to_dict()))
    assert {key: len(value) for key, value in plain.items()} == {"columns": 2} | {
        key: len(value) for key, value in (("constraints", rules), ("person", person or ""), ("derived", derived))
        if value}
    assert tm.Schema.from_dict(plain) == schema
    assert tm.Schema.from_dict(plain).table_names == schema.table_names == ("a", "b", *derived)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("place", ["key", "result"])
def test_numbers_to_look_up_are_below_the_largest_on_both_sides_of_zero(sign, place):
    def held(value):
        (key, result), = Lookup("t", [(value, 1) if place == "key" else (1, value)]).rows
        return key if place == "key" else result

    largest = math.nextafter(LARGEST, 0.0)
    assert held(sign * largest) == sign * largest
    assert (held(sign * 2**53), type(held(sign * 2**53))) == (sign * 2.0**53, float)
    assert (held(sign * (2**53 - 1.0)), type(held(sign * (2**53 - 1.0)))) == (sign * (2**53 - 1), int)
    for value in (LARGEST, 10**400, math.inf, np.float64(LARGEST), int(LARGEST)):
        with pytest.raises(InputError, match="must have finite numbers and text"):
            held(sign * value)


@pytest.mark.parametrize("formula", ["-a", "0 - a", "a * -1", "round(-a, 1)", "-a / 3", "-b"])
def test_no_derived_number_is_a_negative_zero(formula):
    schema = tm.Schema([tm.Column("a", 0.0, 1.0, special=[0]), tm.Column("b", 0, 5, kind="integer")],
                       derived={"c": formula})
    found = schema.completed({"a": np.array([0.0, 1e-9, 1.0]), "b": np.array([0, 0, 1])})["c"]
    assert found[:2].tolist() == [0.0, 0.0]
    assert found[2] < 0.0
    assert np.signbit(found).tolist() == [False, False, True]


def test_no_other_number_that_is_written_is_a_negative_zero():
    column = tm.Column("x", -1.0, 1.0)
    rounded = rounding._to_digits(column, np.array([-1e-3 / 3.0, -0.3, 1e-3 / 3.0]), np.array([1, 1, 1]))
    for found in (rounded[[0, 2]], values.float_of(-0.0), values.plain_category(-0.0),
                  values.plain_category(np.float64(-0.0))):
        assert np.all(np.asarray(found) == 0.0)
        assert not np.signbit(found).any()
    assert rounded[1] == -0.3


# The thesis

@pytest.mark.parametrize("levels", [None, 2, 5])
@pytest.mark.parametrize("count", [7, 40])
def test_even_weights_are_judged_by_the_values_that_the_program_has(monkeypatch, levels, count):
    """More points than are taken, in several parts; the program's values are rounded to levels, if there are some."""
    monkeypatch.setattr(candidates, "EVEN_POINTS", 16)
    monkeypatch.setattr(candidates, "POINTS_AT_A_TIME", 5)
    basis = ChebyshevBasis.tensor(2, 3)
    rng = np.random.default_rng(3)
    points, target = rng.uniform(-1.0, 1.0, (count, 2)), rng.uniform(-0.5, 0.5, basis.K)
    found = candidates.even_fit(basis, points, target, None, levels)
    held = np.flatnonzero(found.weights)
    taken = min(count, 16)
    assert held.tolist() == [k * count // taken for k in range(taken)]
    assert set(found.weights[held]) == {1.0 / taken}
    exact = basis.evaluate(points[held])
    values = exact if levels is None else candidates.round_to_levels(exact, levels)
    assert found.objective == found.gap == pytest.approx(np.abs(values.mean(axis=0) - target).sum(), rel=1e-12)
    assert (levels is None) == bool(np.isclose(found.objective, np.abs(exact.mean(axis=0) - target).sum(), rtol=1e-9))


# Query families

@pytest.mark.parametrize("place", [0, 3, 5])
@pytest.mark.parametrize("value", [-1e-12, -1.0, np.nan, np.inf, -np.inf, -0.0])
def test_one_importance_alone_is_refused_wherever_it_stands(place, value):
    given = np.arange(1.0, 7.0).reshape(2, 3)
    given.flat[place] = value
    family = SimpleNamespace(labels=("one", "other"), importance=lambda index: given)
    index = np.ones((3, 1), dtype=np.int64)
    if value == 0.0:
        assert coefficients._asked(family, index).tolist() == given.tolist()
        return
    with pytest.raises(InputError, match="must return finite numbers that are at least 0"):
        coefficients._asked(family, index)


# What a second draw found

@pytest.mark.parametrize("digits", range(1, 9))
def test_a_part_that_rounding_makes_a_little_smaller_has_no_digit_more(digits):
    part = 10.0**-digits
    for factor in (1.0, 1.0 - 1e-15, 1.0 + 1e-15, 1.0 - 1e-10, 1.0 + 1e-10):
        assert rounding._digits(part * factor) == digits
    assert rounding._digits(part * (1.0 - 1e-7)) == digits + 1
    assert rounding._digits(part * (1.0 + 1e-7)) == digits


def test_a_column_of_a_decimal_range_has_the_digits_of_that_range():
    # 0.3 - 0.2 is a little less than 0.1.
    assert [rounding._zones(tm.Column("x", lower, upper))[0] for lower, upper in ((0.2, 0.3), (0.0, 0.1), (0.7, 0.8))
            ] == [rounding._zones(tm.Column("x", 0.0, 0.1))[0]] * 3


def test_functions_of_numbers_need_a_column_of_numbers():
    schema = tm.Schema([tm.Column(name, kind="categorical", categories=("p", "q")) for name in "ab"])
    frame = pd.DataFrame({name: ["p", "q"] * 50 for name in "ab"})
    made = tm.synthesize(frame, schema, tm.Budget(1.0, 1e-6), tm.MomentMechanism(points=32, iterations=1),
                         np.random.default_rng(0))
    with pytest.raises(InputError, match="such queries need a column of numbers, and the table has no such column"):
        made.release.of_numbers()


@pytest.mark.parametrize(("members", "count"), [
    (slice(0, 4, 2), 2), (slice(4, 0, -1), 4), (slice(2, 2), 0), (slice(9, 12), 0)])
def test_members_of_a_query_are_consecutive_functions(members, count):
    features = Features(ChebyshevBasis.tensor(1, 6))
    assert Functions.of(features, members=slice(1, 4)).size == 3
    assert Functions(features, Domain(1), np.ones(features.K - 1), slice(1, None)).size == features.K - 1
    with pytest.raises(BudgetError, match="are not consecutive functions of"):
        Functions(features, Domain(1), np.ones(count), members)


@pytest.mark.parametrize("first", [True, False])
def test_a_zero_byte_is_told_with_its_line(tmp_path, first):
    path = tmp_path / "t.csv"
    before = b"a\n1\n" if first else b"a\n" + b"1\n" * 2**20
    path.write_bytes(before + b"2\x00\n3\n")
    assert LenientFile(path).undecodable() == 1 + before.count(b"\n")
    path.write_bytes(before)
    assert LenientFile(path).undecodable() is None


def test_numbers_at_the_axes_of_rows_as_points_are_written_in_full_up_to_fourteen_letters():
    rows = np.zeros(3), np.zeros(3)
    marks = [(0.0, "-1,234,567.89"), (0.5, 14 * "i"), (1.0, 15 * "i")]
    axis = pair_figures.Axis("x", (0.0, 1.0), [(0.0, "0")])
    figure = pair_figures.cloud([rows], axis, pair_figures.Axis("y", (0.0, 1.0), marks), ["title"])
    told = [each.get_text() for each in figure.axes[0].get_yticklabels()]
    assert told[:2] == [text for _, text in marks[:2]]
    assert len(told[2]) <= 14


# Commands, files and queries


@pytest.mark.parametrize("option", ["--html", "--plot"])
def test_the_page_of_advice_is_written_by_its_older_option_too(run, tmp_path, option):
    (tmp_path / "s.toml").write_text("[columns.x]\nlower = 0\nupper = 1\n")
    command = ("advise", "s.toml", "--rows", "900", "--epsilon", "1", "--json")
    status, out, err = run(*command, option, "a.html")
    assert status == 0, err
    assert json.loads(out)["page"] == "a.html"
    assert (tmp_path / "a.html").is_file()
    assert json.loads(run(*command)[1])["page"] is None
    # An input is replaced by neither.
    assert run(*command, option, "s.toml")[0] == 2


@pytest.mark.parametrize("count", [1, 3, 4, 8])
def test_why_few_rows_are_not_released_has_six_errors_and_counts_the_others(count):
    # There are two of each column.
    schema = tm.Schema([tm.Column(f"c{j}", 0.0, 1.0) for j in range(count)])
    asked = SimpleNamespace(budget=tm.Budget(1.0, 1e-6), mechanism=tm.TableMechanism(), bounds_share=None)
    told = too_few(9, schema, asked)
    errors = [f"{each.column!r}, {each}" for each in tm.preview(9, schema, asked.budget).columns]
    assert len(errors) == 2 * count
    assert [error in told for error in errors] == [j < SHOWN for j in range(2 * count)]
    assert re.findall(r"; and (\d+) more", told) == ([str(2 * count - SHOWN)] if 2 * count > SHOWN else [])


@pytest.mark.parametrize("blank", ["", " ", "\t "])
def test_a_cell_of_blanks_is_an_empty_result_of_a_table_for_lookup(tmp_path, blank):
    (tmp_path / "t.csv").write_text(f"key,result\n1,{blank}\n2,3\n")
    assert read_lookup("t.csv", tmp_path).rows == ((1, None), (2, 3))
    (tmp_path / "t.csv").write_text(f"key,result\na,{blank}\nb,c\n")
    assert read_lookup("t.csv", tmp_path).rows == (("a", None), ("b", "c"))
    (tmp_path / "t.csv").write_text(f"key,result\n{blank},1\n2,3\n")
    with pytest.raises(InputError, match="no empty key"):
        read_lookup("t.csv", tmp_path)


@pytest.mark.parametrize("end", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["age", "Age", " AGE "])
def test_a_check_reads_a_column_whose_name_differs_in_capital_letters(tmp_path, end, name):
    frame = pd.DataFrame({"other": [0.0] * 30, name: [*range(25), 200, 300, 400, None, None]})
    path = tmp_path / f"t.{end}"
    if end == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    found = {each.kind: each.count for each in tm.check(path, tm.Schema([tm.Column("age", 0, 100)])).found
             if each.column == "age"}
    assert ("absent" in found) == (name != "age")
    assert (found["outside"], found["far outside"], found["missing"]) == (1, 2, 2)


def test_a_query_has_no_values_before_its_draw():
    measured = Measurement(Histogram(0, columns_of(Domain(1))[0].cut(np.linspace(-1.0, 1.0, 5))))
    for read in (lambda: measured.known, lambda: measured.means, lambda: measured.combined(measured.drawn(
            np.zeros(measured.query.size), 1.0, "gaussian"))):
        with pytest.raises(InputError, match=r"was not measured yet: .* of the columns \(0,\)"):
            read()
    values = np.arange(float(measured.query.size))
    assert np.array_equal(replace(measured, weight=2.0).drawn(values, 1.0, "laplace").known, values / 2.0)


def test_an_ascent_counts_the_sweeps_of_all_its_rows():
    basis = ChebyshevBasis.tensor(2, 3)
    rng = np.random.default_rng(0)
    held, starts, y = CubeSearch(basis), rng.uniform(-1.0, 1.0, (7, 2)), rng.normal(size=basis.K)

    def swept(points, most=1_000):
        return coordinate_ascent(points, y, held._term_starts, held._term_features, held._column_starts,
                                 held._column_terms, held._column_degrees, held._offsets, held._degrees, 1e-9, most)

    together, alone = starts.copy(), starts.copy()
    counts = [swept(alone[i:i + 1]) for i in range(len(starts))]
    assert swept(together) == sum(counts) > len(starts)
    assert np.array_equal(together, alone)
    assert swept(starts.copy(), 1) == len(starts)
    assert swept(starts[:0].copy()) == 0


@pytest.mark.parametrize("library", [None, "pandas", "polars", "pyarrow"])
def test_a_square_matrix_becomes_a_table_by_its_columns(library):
    matrix = np.array([[1.0, 2.0], [3.0, 4.0]])
    made = like(library, ("a", "b"), matrix)
    held = like(library, ("a", "b"), list(matrix.T))
    if library is None:
        assert np.array_equal(made, matrix)
        assert np.array_equal(held, matrix)
    else:
        assert [[list(each[name]) for name in ("a", "b")] for each in (
            table if library == "pandas" else table.to_pandas() for table in (made, held))] == [[[1, 3], [2, 4]]] * 2


@pytest.mark.parametrize("total", [0.25, 1.0, 3.0])
def test_nearest_frequencies_have_any_total_and_are_lowered_by_one_number(total):
    values = np.random.default_rng(0).normal(0.2, 1.0, 12) * total
    made = nearest_probabilities(values, total)
    assert made.sum() == pytest.approx(total, rel=1e-12)
    lowered = (values - made)[made > 0.0]
    assert np.ptp(lowered) < 1e-12
    # Numbers that became 0 would be below 0.
    assert (values[made == 0.0] <= lowered.mean() + 1e-12).all()
    assert 0 < (made == 0.0).sum() < len(values)
    assert nearest_probabilities(np.full(4, 7.0), total) == pytest.approx(np.full(4, total / 4))


@pytest.mark.parametrize("costs", [(3.0, 0.2), (1.0, 1.0), (0.05, 40.0)])
def test_prices_of_functions_beyond_reach_are_their_weights(costs):
    program = RestrictedProgram(np.array([0.9, -0.9]), np.array(costs), 1.0)
    program.add(np.zeros((1, 2)))
    assert program.solve(None) == "optimal"
    prices, _ = program.duals()
    assert prices == pytest.approx(np.array([costs[0], -costs[1]]), rel=1e-9)


@pytest.mark.parametrize("beyond", [-1, 0, 1, 7])
def test_lists_that_are_cut_count_just_what_they_leave_out(tmp_path, beyond):
    def left(told):
        return re.findall(r"and (\d+) more", told)

    wanted = [str(beyond)] if beyond > 0 else []
    names = tuple(f"n{j}" for j in range(constraints.LISTED + beyond))
    told = constraints.categories_listed(tm.Column("c", kind="categorical", categories=names))
    assert left(told) == wanted
    assert re.findall(r"'(n\d+)'", told) == list(names[:constraints.LISTED])
    (tmp_path / "s.toml").write_text("".join(f"[columns.c{j}]\nlower = 2\nupper = 1\n"
                                             for j in range(toml.SHOWN + beyond)))
    with pytest.raises(InputError, match="is not complete") as error:
        toml.load(tmp_path / "s.toml")
    assert left(str(error.value)) == wanted
    never = tuple(f"n{j}" for j in range(NAMED + beyond))
    found = {each.kind: each for each in tm.check(pd.DataFrame({"c": ["a", "b"] * 300}), tm.Schema([
        tm.Column("c", kind="categorical", categories=("a", "b", *never))])).found}
    assert left(str(found["never occurs"])) == wanted
    assert found["never occurs"].count == len(never)
