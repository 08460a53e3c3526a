"""Laws where one, the last or a further one counts: one family of queries, the second column, a later charge."""

import io
import math
from types import SimpleNamespace

import numpy as np
import pytest

import trigmech as tm
from trigmech import run as running
from trigmech.errors import BudgetError, InputError
from trigmech.evaluation import judgement, plausible
from trigmech.evaluation.sides import Coding
from trigmech.functions import contrasts
from trigmech.functions.partition import Partition
from trigmech.inference import projection, sql
from trigmech.measurement import kept as keeping
from trigmech.measurement import released
from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.parts import steps
from trigmech.planning import shares
from trigmech.privacy import privacy_loss
from trigmech.privacy.accounting import Charge
from trigmech.queries.functions import Functions
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import Detail, Look
from trigmech.reconstruction import directed, estimates
from trigmech.reconstruction.constrained import witness
from trigmech.report import sections
from trigmech.report.sections import AskedQueries
from trigmech.schema import toml
from trigmech.schema.derived import _rounded
from trigmech.storage import measurements_file
from trigmech.tables.reader import TableFile
from trigmech.workload import kernel_expansion

# The page


@pytest.mark.parametrize("count", [1, 2])
def test_errors_are_drawn_from_the_first_family_on_that_has_both(monkeypatch, count):
    def asked(k, bar=True, evaluation=True):
        return AskedQueries(SimpleNamespace(labels=[f"f{k}, width 1", "other"]),
                            SimpleNamespace(bound=np.full((2, 2), k)) if bar else None,
                            SimpleNamespace(errors=np.full((2, 2), 10 + k)) if evaluation else None)

    monkeypatch.setattr(sections, "scatter", lambda x, y, labels, *told: (np.array(x), np.array(y), labels))
    pictures = SimpleNamespace(add=lambda name, alt, figure: figure)
    others = [asked(7, bar=False), asked(8, evaluation=False)]
    assert sections._scatter(others, pictures) is None
    x, y, labels = sections._scatter([*others, *map(asked, range(count))], pictures)
    assert x[:, 0].tolist() == list(range(count))
    assert y[:, 0].tolist() == [10 + k for k in range(count)]
    assert labels == tuple(f"f{k}" for k in range(count))


# Privacy loss distributions


@pytest.mark.parametrize(("parts", "mu", "step"), [
    # A Gaussian loss stays below mu^2/2 + 10 mu: half of what half a million points are for.
    ([(0.001, 1, True)], 5.0, 5e-4 + 4e-9),
    # A sum of many small losses stays below k r^2 + 10 r sqrt(k), and then the step divides the loss.
    ([(0.001, 1_000_000, True)], 0.0, 0.001 / 24),
    # A few losses stay below their sum.
    ([(1.0, 100, True)], 0.0, 1.0 / 2_500), ([(0.02, 4, True)], 0.0, 5e-5),
    # The step divides the loss that costs most together.
    ([(0.1, 4_000, True), (0.3, 1, True)], 0.0, 0.1 / (2 * math.ceil(0.1 / (2 * 103.54553203367588 / 2.5e5)))),
])
def test_losses_are_on_a_grid_of_at_most_half_a_million_points(parts, mu, step):
    assert math.isclose(privacy_loss._step(parts, mu), step, rel_tol=1e-12)


# Derived columns


@pytest.mark.parametrize(("number", "digits"), [
    (254499419655741.5, 2), (-199353778695197.22, 2), (16080825295.692831, 6), (10554228.845676247, 9), (1e300, 12)])
def test_numbers_that_floats_hold_no_closer_stay_as_they_are(number, digits):
    assert _rounded(np.array([number]), digits).tolist() == [number]


def test_smaller_numbers_are_rounded():
    assert _rounded(np.array([2.675, -0.004, 1e9 + 0.126]), 2).tolist() == [2.68, 0.0, 1e9 + 0.13]


# The order of what is released


def test_numbers_stand_by_columns_then_closer_columns_pairs_products_others_and_tables_of_more():
    def query(kind, *columns):
        return SimpleNamespace(order=kind.order, columns=columns, ways=len(columns) if kind is Marginal else 0)

    wanted = [query(Look, 0), query(Look, 2), query(Detail, 1), query(Detail, 0), query(Marginal, 1, 2),
              query(Marginal, 0, 1), query(Products, 0, 1), query(Functions, 0), query(Marginal, 0, 1, 2)]
    shuffled = [wanted[k] for k in (8, 7, 6, 4, 5, 2, 1, 0, 3)]
    assert sorted(shuffled, key=released._place) == wanted


# What is kept for all


@pytest.mark.parametrize("kept", [
    lambda: kernel_expansion.kernel_coefficients(0.5),
    lambda: [kernel_expansion._kernel_expansion(0.5)],
    lambda: [contrasts.contrasts(3), contrasts.signs(1, 3, 1), contrasts.decoding(3)],
    lambda: directed._even_rows(2),
    lambda: (lambda found: [found.table, found.deviation])(estimates.estimate_of(MEASURED, np.full((2, 2), 0.25))),
], ids=["kernel", "pairs of kernels", "contrasts", "even rows", "table"])
def test_nobody_can_change_what_others_are_given(kept):
    for first, again in zip(kept(), kept(), strict=True):
        assert first is again
        with pytest.raises(ValueError, match="read-only"):
            first[...] = 7.0


class Measured:
    """A measured table, as the estimate reads it."""

    means, deviation = np.array([[0.4, 0.1], [0.2, 0.3]]), 0.01
    query = SimpleNamespace(partitions=(SimpleNamespace(value=None),) * 2)


MEASURED = Measured()


# Files of schemas


def test_each_fault_of_a_file_is_told_beside_the_others(tmp_path):
    schema, _, faults = toml._parts({"column": {}, "file": {"delimiter": 7}}, tmp_path)
    assert schema is None
    assert [each[:12] for each in faults] == ["remove 'colu", "[file]: deli", "write a tabl"]
    schema, _, faults = toml._parts({"column": {}, "file": [], "columns": {"a": {}, "b": {"derived": "a", "x": 1}}},
                                    tmp_path)
    assert schema is None
    assert [each[:20] for each in faults] == ["remove 'column'; the", "write [file] as a ta", "column 'a': lower is",
                                              "column 'a': upper is", "derived column 'b': "]


# Judgements


def test_what_is_determined_in_the_true_table_is_told_with_the_share_of_the_synthetic_one():
    schema = tm.Schema([tm.Column(name, kind="categorical", categories=["x", "y"]) for name in "ab"])
    true = {"a": np.array(list("xyxy")), "b": np.array(list("xyxy"))}
    made = {**true, "b": np.array(list("xyyx"))}
    coding, details = Coding.of(schema.columns, true), {}
    judgement._pairs(coding, coding.side(true), coding.side(made), coding.side(true), details, None)
    assert details["determined"] == [("a", "b", 1.0, 0.5), ("b", "a", 1.0, 0.5)]
    assert details["pairs"] == {"a and b": 0.5}
    assert details["pairs, fresh"] == {"a and b": 1.0}


# Constraints


def test_a_row_is_found_with_any_number_of_private_columns():
    numbers = [tm.Column(f"n{k}", private_bounds=True) for k in range(3)]
    texts = [tm.Column(f"t{k}", kind="categorical", private_categories=True) for k in range(3)]
    flag = tm.Column("flag", kind="categorical", categories=["no", "yes"])
    schema = tm.Schema([*numbers, *texts, flag], ["flag = 'yes'"])
    (point,) = witness(schema)
    assert point[-1] > point[-2]


# Correlations


def test_correlations_are_made_definite_by_the_least_eigenvalue_alone():
    a, b = 0.999, directed.LEAST_EIGENVALUE
    near = np.array([[1.0, a], [a, 1.0]])
    np.testing.assert_allclose(directed.definite(near), near, rtol=0, atol=1e-12)
    # Eigenvalues 2.2 and -0.2, which becomes the least; then the diagonal is 1 again.
    found = directed.definite(np.array([[1.0, 1.2], [1.2, 1.0]]))
    np.testing.assert_allclose(found, [[1.0, (2.2 - b) / (2.2 + b)], [(2.2 - b) / (2.2 + b), 1.0]], rtol=1e-12)
    np.testing.assert_allclose(directed.definite(np.array([[1.0, 1.2], [1.2, 1.0]]), 0.5)[0, 1], 1.7 / 2.7, rtol=1e-12)


# Plausible tables


def test_plausible_tables_keep_what_was_fitted_beside_independence(monkeypatch):
    own, sparse = np.full((2, 2), 0.25), np.array([[0.5, 0.0], [0.0, 0.5]])
    pairs = [SimpleNamespace(table=own + 0.1, sparse=False), SimpleNamespace(table=sparse, deviation=0.02, sparse=True)]
    targets = SimpleNamespace(pairs=pairs, products=np.array([0.5, 0.2]))
    monkeypatch.setattr(plausible, "Targets", lambda release: targets)
    monkeypatch.setattr(plausible, "independent", lambda release: ([own, own], np.array([0.1, 0.3])))
    monkeypatch.setattr(plausible, "priors_of", lambda looks: [])
    asked = []
    monkeypatch.setattr(plausible, "_left_open", lambda shrink, *given: asked.append(given) or float(len(asked)))
    tables = [SimpleNamespace(means=own + 0.3, deviation=0.07), SimpleNamespace(means=sparse, deviation=0.08)]
    products = SimpleNamespace(means=np.array([0.7, 0.7]), deviation=0.05)
    release = SimpleNamespace(columns=(), tables=tables, products=products)
    made = plausible.PlausibleTables(release, "rng")
    np.testing.assert_allclose(made._kept[0], 0.1)
    np.testing.assert_allclose(made._kept[1], sparse - own)
    np.testing.assert_allclose(made._kept_products, [0.4, -0.1])
    # Where a sparse table is empty nothing is open.
    assert made._deviations[0] == 1.0
    assert made._product_deviation == 2.0
    np.testing.assert_allclose(made._deviations[1], [[0.02, 0.0], [0.0, 0.02]])
    opened = (np.full((2, 2), 0.3), 0.07), ([0.6, 0.4], 0.05)
    for (deviation, noise, _, rng), wanted in zip(asked, opened, strict=True):
        np.testing.assert_allclose(deviation, wanted[0])
        assert (noise, rng) == (wanted[1], "rng")
    release.products = None
    assert plausible.PlausibleTables(release, "rng")._product_deviation == 0.0


# Tables of one column


@pytest.mark.parametrize(("content", "rows"), [
    # Line ends within quotes end no line, whichever they are.
    ('x\n"a\rb"\nc\n', 2), ('x\n"a\r\nb"\nc\n', 2), ('x\r"a\nb"\rc\r', 2), ('x\r\n"a\rb\nc"\r\nd\r\n', 2),
    # A return alone after c, and line feeds elsewhere: a cell without quotes may hold the return.
    ('x\n"a\r\nb"\nc\rd\n', None), ('x\n"a\rb"\nc\rd\n', None), ('x\r"a\nb"\rc\rd\n', None)])
def test_lines_of_one_column_end_in_one_way(tmp_path, content, rows):
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode())
    if rows is None:
        with pytest.raises(InputError, match="its lines end in two ways"):
            len(range(TableFile(path).n))
    else:
        assert TableFile(path).n == rows


# Names


def test_no_derived_column_has_the_name_of_another_or_of_the_persons():
    for derived, twice in (({"key": "a + 1"}, "key"), ({"a": "a + 1"}, "a")):
        with pytest.raises(InputError, match=f"given twice: '{twice}'"):
            tm.Schema([tm.Column("a", 0, 1)], person="key", derived=derived)
    assert tm.Schema([tm.Column("a", 0, 1)], person="key", derived={"keys": "a + 1"}).person == "key"


# A run


def run_of(own, asked, bounds=()):
    """What a run declares for these charges, and for rounds that will ask for others."""
    def run(rows, planned, session, rng):
        raise InterruptedError(session._declared)

    planned = SimpleNamespace(mechanism=SimpleNamespace(published=False, run=run), rounds=(), charges=own,
                              bounds=bounds, categories=(), all_charges=(*bounds, *own),
                              measured=SimpleNamespace(rounds=[SimpleNamespace(charge=each) for each in asked]))
    session = Session(None, SimpleNamespace(simulated=True))
    private = SimpleNamespace(rows=lambda schema, found: SimpleNamespace(n=9),
                              say=lambda *step: run(None, None, session, None))
    with pytest.raises((InterruptedError, BudgetError)) as told:
        running.run(private, SimpleNamespace(d=1), planned, None, SimpleNamespace(simulated=True), session)
    return told.value


def test_rounds_that_the_design_does_not_pay_for_are_refused_before_the_first(monkeypatch):
    monkeypatch.setattr(running, "replace", lambda planned, **completed: planned)
    first, second, other = (Charge(name, "gaussian", scale, 1.0, "L2", 1, "proof")
                            for name, scale in (("first", 1.0), ("second", 2.0), ("other", 0.25)))
    assert str(run_of((first, second), [second])) == str([first, second])
    assert isinstance(run_of((first, second), [other]), BudgetError)
    # Each pays once.
    assert isinstance(run_of((second,), [second, second]), BudgetError)
    # What finds bounds pays for no round.
    assert isinstance(run_of((first,), [other], bounds=(other,)), BudgetError)
    assert str(run_of((first,), [first], bounds=(other,))) == str([other, first])


# Files of releases


@pytest.mark.parametrize("importance", [0.0, 0.5])
def test_a_file_of_a_release_keeps_the_public_numbers_beside_its_measurements(importance):
    domain = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1)]).domain
    release = Release(9, domain, (), (), importance=importance, mean=np.array([0.25, -0.5]))
    again = measurements_file.release_of(*measurements_file.parts_of(release, domain), domain)
    assert (again.n, again.importance) == (9, importance)
    np.testing.assert_array_equal(again.mean, release.mean)


# Questions of smooth weights


@pytest.mark.parametrize("powers", [(2, 0), (0, 2), (1, 2)])
def test_smooth_weights_are_powers_of_the_number_and_of_its_normal_scores(powers):
    centres, scores = np.array([-0.9, -0.2, 0.1, 0.4, 0.8]), np.array([-2.0, -0.5, 0.0, 1.0, 3.0])
    column = SimpleNamespace(partition=SimpleNamespace(indicators=(), value=0, centres=centres), mass=np.full(5, 0.2),
                             normal_scores=scores)
    found = projection.smooth(column, np.arange(5), powers)
    wanted = np.linalg.qr(np.column_stack([np.ones(5), *(centres**k for k in range(1, powers[0] + 1)),
                                           *(scores**k for k in range(1, powers[1] + 1))]))[0]
    np.testing.assert_allclose(found.T @ found, np.eye(sum(powers) + 1), atol=1e-12)
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, atol=1e-12)


# Rows that are kept


class BrokenFile(io.BytesIO):
    def write(self, _content):
        raise OSError


@pytest.mark.parametrize("fault", ["full", "broken", "forbidden"])
def test_rows_that_find_no_room_leave_nothing_behind(monkeypatch, fault):
    file = BrokenFile()
    monkeypatch.setattr(keeping, "MEMORY", 24)
    monkeypatch.setattr(keeping, "_arrays", lambda chunk: [np.zeros(3)])
    monkeypatch.setattr(keeping, "_free", lambda file: 10**15 if fault == "broken" else 0)
    monkeypatch.setattr(keeping, "tempfile", SimpleNamespace(TemporaryFile=lambda prefix: file))
    if fault == "forbidden":
        monkeypatch.setenv(keeping.DISK_VARIABLE, "0")
    store = keeping._Store()
    assert store.add("first")
    assert len(store) == 1
    assert not store.add("second")
    assert len(store) == 0
    assert file.closed == (fault != "forbidden")


# Answers


@pytest.mark.parametrize(("value", "shown"), [
    (9_999.7, "10,000"), (-9_999.7, "-10,000"), (9_999.2, "9,999"), (12_345.6, "12,346"), (999.96, "1,000"),
    (0.123456, "0.1235"), (1e-7, "1e-07"), (12_345, "12345"), (None, "")])
def test_large_numbers_of_answers_are_shown_without_powers_of_ten(value, shown):
    assert sql._shown(value) == shown


# Shares of the budget


@pytest.mark.parametrize(("sizes", "full"), [((2, 2, 2, 20), 0.5), ((2, 2), 0.0), ((20, 20), 1.0), ((2, 4), 0.5)])
def test_columns_of_many_categories_ask_for_no_more_of_the_budget_than_those_of_six(sizes, full):
    columns = [Partition(tuple(range(size)), None, np.empty(0)) for size in sizes]
    # So much noise that the columns get all that they may.
    found = shares.planned_shares(2, columns, 1e-9, gaussian=False)
    assert math.isclose(found.look, (1.0 - full) * shares.BINARY_LOOK + full * shares.MOST_PURE_LOOK)


# Parts


def test_rounds_of_parts_belong_to_their_schema_design_and_ledger(monkeypatch):
    def identity(*given):
        raise LookupError(*given)

    monkeypatch.setattr(steps, "Ledger", lambda budget, **options: SimpleNamespace(**options))
    monkeypatch.setattr(steps, "opened_ledger", lambda ledger: f"opened {ledger}")
    monkeypatch.setattr(steps, "identity", identity)
    design = SimpleNamespace(budget=None, mechanism=SimpleNamespace(published=False), history=None,
                             schema_given="schema")
    with pytest.raises(LookupError) as told:
        steps.next_of(None, design, None, None, "ledger", "rounds")
    assert told.value.args == ("schema", design, "opened ledger")
