"""Laws of lines that were drawn at random from the whole package, and of their siblings."""

import math
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.polynomial.legendre import legval
from test_atoms import looked_at
from test_derived import ROUTES
from test_signs import DOMAIN
from test_steps import Waves

import trigmech as tm
from trigmech.distribution import Distribution
from trigmech.domain import Domain
from trigmech.engines.question import PieceQuestion, answered
from trigmech.errors import InputError, UncertainChargeError
from trigmech.evaluation.sides import Coding
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference import regression
from trigmech.inference.regression import MOST_COLUMNS
from trigmech.inference.smooth import BINS, RANKS, _of_ranks, parts
from trigmech.measurement.kept import Kept
from trigmech.measurement.moments import FunctionSums
from trigmech.mechanisms import base
from trigmech.mechanisms.base import check_functions_of_own
from trigmech.parts import shares
from trigmech.privacy import ledger_server, noise
from trigmech.privacy.noise import lattice_step
from trigmech.reconstruction import row_effects, tables
from trigmech.reconstruction.atoms import atoms
from trigmech.reconstruction.conditional import conditional_points
from trigmech.reconstruction.row_arrays import FittedRows
from trigmech.report import figures, sections
from trigmech.schema import rounding
from trigmech.storage import rounds_file
from trigmech.storage.measurements_file import entries_of


class Rounds(tm.AdaptiveMechanism):
    """A round of all histograms, and a number of rows."""

    rounds = (tm.Measure(1.0),)

    def __init__(self, points=None):
        self.points = points

    def ask(self, so_far):
        return [so_far.histogram(name) for name in so_far.facts.names]


# Each of several, and not the first alone


@pytest.mark.parametrize("wrong", ["a", "b", "c"])
@pytest.mark.parametrize(("asked", "message"), [
    ({(0, 4): 0.5, (5, 9): 0.4}, "the shares of '{}' must be numbers from 0 to 1 with the sum 1"),
    ({(0, 4): 1.5, (5, 9): -0.5}, "the shares of '{}' must be numbers from 0 to 1 with the sum 1"),
    ({}, "the shares of '{}' must be .* not an empty dictionary"), ("word", "the shares of '{}' must be .* not 'word'"),
    ({(0, 5): 0.5, (5, 9): 0.5}, "the values of '{}' in shares must not overlap")])
def test_the_shares_of_each_column_are_looked_at(wrong, asked, message):
    schema = tm.Schema([tm.Column(name, 0, 9, "integer") for name in "abc"])
    fitted = Distribution(np.array([[1.0] * 3, [1.0 / 9.0] * 3, [-1.0] * 3]), np.full(3, 1.0 / 3.0))
    given = {name: {(0, 4): 0.25, (5, 9): 0.75} for name in "abc"} | {wrong: asked}
    with pytest.raises(InputError, match=message.replace("{}", wrong)):
        conditional_points(schema, None, fitted, 4, np.random.default_rng(0), shares=given)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_atom_is_found_by_each_of_several_closer_looks(order):
    edges, here = [-1.0, -0.501, -0.5, 0.0, 0.001, 1.0], []
    for place in (-0.501, 0.0):
        released, look = looked_at([5, 2, 5, 2, 5], edges, np.round(place + 0.001 * np.arange(-2, 4), 9).tolist())
        here.append(look.query)
    column = tm.Column("x", 0, 100)
    alone = [np.flatnonzero(np.isfinite(atoms(column, released, [look]))).tolist() for look in here]
    assert alone == [[1], [3]]
    assert np.flatnonzero(np.isfinite(atoms(column, released, [here[k] for k in order]))).tolist() == [1, 3]


# Estimates


def test_each_prior_of_the_effects_of_rows_is_a_normal_density_of_mass_1():
    priors, at = row_effects.PRIORS, row_effects.THETAS
    np.testing.assert_allclose(priors.sum(axis=1), 1.0, rtol=1e-12)
    for own, spread in zip(priors, row_effects.SPREADS, strict=True):
        np.testing.assert_allclose(own, own.max() * np.exp(-at**2 / (2.0 * spread**2)), rtol=1e-12)


# Files and servers


@pytest.mark.parametrize(("name", "expected"), [
    ("a.html", "a.not-private.html"), ("a.not-private.html",) * 2, ("A.NOT-PRIVATE.HTML",) * 2,
    ("not-private-a.html",) * 2, ("private.html", "private.not-private.html")])
def test_a_name_says_once_that_a_page_is_not_private(name, expected, tmp_path):
    assert sections.page_path(tmp_path / name, private=True) == tmp_path / expected
    assert sections.page_path(str(tmp_path / name), private=False) == Path(tmp_path / name)


@pytest.mark.parametrize("nested", [0, 1, rounds_file.DEEPEST - 1])
def test_fingerprints_tell_values_apart_as_deep_as_they_look(nested):
    one, other = 1, 2
    for _ in range(nested):
        one, other = [one], [other]
    assert rounds_file.fingerprint(one) != rounds_file.fingerprint(other)
    # What holds itself has a fingerprint, too.
    one = []
    one.append(one)
    assert rounds_file.fingerprint(one) == rounds_file.fingerprint(one)


class BrokenError(Exception):
    """What the driver of a server raises."""


@pytest.mark.parametrize("what", ["written", "made", "removed"])
@pytest.mark.parametrize("away", [0.0, 0.9, 2.5, math.inf])
@pytest.mark.parametrize("timeout", [0.0, 1.0, 3.0])
def test_a_server_is_asked_until_the_time_is_over_whether_a_commit_succeeded(monkeypatch, away, timeout, what):
    now, asked = [100.0], []
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(ledger_server, "time", clock)
    levels = SimpleNamespace(READ_COMMITTED=1)
    monkeypatch.setattr(ledger_server, "_driver", lambda: SimpleNamespace(Error=BrokenError, IsolationLevel=levels))
    cursor = SimpleNamespace(execute=lambda *_: None)

    def connected():
        asked.append(now[0] - 100.0)
        if asked[-1] < away:
            raise BrokenError
        return SimpleNamespace(cursor=lambda: cursor, close=lambda: None)

    server = SimpleNamespace(name="it", _timeout=timeout, _connected=connected, _patience=lambda: "1s")

    def settle():
        ledger_server.Server._settle(server, lambda _: True, what)

    if away <= timeout:
        settle()
        assert asked[-1] <= away + ledger_server.LONGEST_PAUSE
    else:
        with pytest.raises(UncertainChargeError if what == "written" else InputError, match="cannot be asked"):
            settle()
        assert timeout < asked[-1] <= timeout + 2.0 * ledger_server.LONGEST_PAUSE


# Figures


@pytest.mark.parametrize("draw", [
    lambda: figures.scatter([np.array([0.1, 0.2])], [np.array([0.2, 0.1])], ["one"], "across", "up"),
    lambda: figures.histogram(np.array([-1.0, 0.0, 1.0]), np.array([0.4, 0.6]), None, [(-1.0, "0"), (1.0, "9")])])
def test_panels_lie_within_the_figure(draw):
    for axes in draw().axes:
        box = axes.get_position()
        assert 0.0 < box.x0 < box.x1 <= 1.0
        assert 0.0 < box.y0 < box.y1 <= 1.0


# Counts, limits and rests


class Chunks:
    """Chunks of a table, which count how often they are made."""

    made = 0

    def __call__(self):
        self.made += 1
        return iter(())


@pytest.mark.parametrize("before", [0, 1, 3])
def test_closed_chunks_are_made_again_each_time_and_not_kept_again(before):
    chunks = Chunks()
    held = Kept(chunks)
    for _ in range(before):
        assert list(held.chunks()) == []
    # They are made once, and kept.
    assert chunks.made == min(before, 1)
    held.close()
    for times in range(1, 4):
        assert list(held.chunks()) == []
        assert chunks.made == min(before, 1) + times


@pytest.mark.parametrize("mechanism", [tm.TableMechanism(), tm.MomentMechanism(), Rounds()])
def test_more_rows_than_memory_and_files_can_hold_are_refused_by_the_plan(mechanism):
    domain = Domain(4)
    most = base.MOST_COORDINATES // 4
    facts = base.PublicFacts(1_000, domain, tm.Budget(1.0, 1e-6), tuple("abcd"))
    replace(mechanism, points=most).plan(facts) if not isinstance(mechanism, Rounds) else Rounds(most).plan(facts)
    with pytest.raises(InputError, match=f"points = {most + 1} of 4 coordinates are more than 100000000 numbers"):
        (Rounds(most + 1) if isinstance(mechanism, Rounds) else replace(mechanism, points=most + 1)).plan(facts)


@pytest.mark.parametrize(("size", "largest"), [(5, 1.0), (4, 2.0**80), (4, -2.0**80)])
def test_shares_hold_so_many_numbers_of_such_a_size_and_no_more(monkeypatch, size, largest):
    monkeypatch.setattr(shares, "MOST_ENTRIES", 4)
    charge = SimpleNamespace(scale=1.0, sensitivity=1.0, purpose="it")
    step = lattice_step(1.0)
    values = np.full(4, min(abs(largest), 2.0**79) * step)
    assert shares._shared(values, charge, 3, 1).limbs.shape == (2, 4)
    with pytest.raises(InputError, match="it: shares can hold at most 4 numbers, each at most"):
        shares._shared(np.full(size, largest * step * (1.0 if size > 4 else 1.0 + 1e-12)), charge, 3, 1)


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_a_formula_has_as_many_coefficients_as_the_limit_and_no_more(levels):
    """The intercept is the term without factors; a term of categories has at most one coefficient for each."""
    named = SimpleNamespace(columns={"c": "kind", "x": "x"})
    schema = SimpleNamespace(columns=[SimpleNamespace(name="kind", categories=list("abcdefg")),
                                      SimpleNamespace(name="x", categories=None)])
    for numbers, refused in ((MOST_COLUMNS - levels, False), (MOST_COLUMNS - levels + 1, True)):
        model = SimpleNamespace(formula=named, _schema=schema, _levels={"kind": ["a"] * levels}, _right=[
            SimpleNamespace(factors=["c"]), *[SimpleNamespace(factors=["x", "x"])] * numbers])
        if refused:
            with pytest.raises(InputError, match=f"about {MOST_COLUMNS + 1:,} coefficients, more than {MOST_COLUMNS}"):
                regression._Model._check_width(model)
        else:
            regression._Model._check_width(model)


# Missing values, and rows without names


def test_outcomes_of_missing_values_are_missing_and_others_are_not():
    columns = (tm.Column("x", 0, 1, missing="keep"),
               tm.Column("c", kind="categorical", categories=("a", "b"), missing="keep"),
               tm.Column("y", 0, 1))
    absent = np.array([False, True, False, True])
    table = {"x": np.ma.array([0.0, 0.5, 1.0, 0.5], mask=absent), "y": np.array([0.0, 0.2, 0.4, 0.6]),
             "c": np.ma.array(np.array(["a", "b", "a", "b"], dtype=object), mask=absent)}
    coding = Coding.of(columns, table)
    side = coding.side(table)
    np.testing.assert_array_equal(np.isnan(side.outcomes), np.column_stack([absent, absent, np.zeros(4, bool)]))
    np.testing.assert_array_equal(np.isnan(side.values), np.isnan(side.outcomes))
    # Their cell is the last one, which no other row is in.
    np.testing.assert_array_equal(side.cells == coding.sizes - 1, np.isnan(side.outcomes))


@pytest.mark.parametrize("table", [np.zeros((30, 2)), pd.DataFrame({"x": np.linspace(0.0, 1.0, 30)})])
def test_the_lack_of_a_column_of_persons_is_told_as_that(table):
    found = tm.check(table, tm.Schema([tm.Column("x", 0, 1)], person="who"))
    assert [(each.column, each.sentence) for each in found.found if each.kind == "absent"] == [
        ("who", "the table lacks the column that identifies persons")]


def test_a_release_may_ignore_the_levels_of_several_numbers():
    domain = Domain(4, [], [(0, [-1.0, 1.0]), (2, [-1.0, 0.0, 1.0]), (3, [-1.0, 1.0])])
    for ignored in ([], [0], [2], [3], [0, 2], [2, 3], [0, 2, 3]):
        values, left = entries_of({"continuous": ignored}, domain, {})
        assert values["continuous"] == ignored
        assert [coordinate for coordinate, _ in left.levels] == [j for j in (0, 2, 3) if j not in ignored]
    for wrong in ([1], [2, 0], [0, 0], [0, 1], [4]):
        with pytest.raises(InputError, match="in ascending order"):
            entries_of({"continuous": wrong}, domain, {})


# Sums over the parts of a whole


@pytest.mark.parametrize("cuts", [[0, 60], [0, 20, 60], [0, 1, 2, 59, 60]])
def test_an_answer_is_of_all_tables_of_a_piece(cuts):
    rng = np.random.default_rng(0)
    whole = pa.table({"x": rng.random(60), "y": rng.random(60)})
    schema = tm.Schema([tm.Column("x", 0, 1), tm.Column("y", 0, 1)])
    packed = PieceQuestion(FunctionSums(ChebyshevBasis.graded(2, 6)), schema, schema).packed()
    alone = answered(packed, lambda _: [whole]).total
    found = answered(packed, lambda _: [whole.slice(low, high - low) for low, high in pairwise(cuts)]).total
    assert found.n == alone.n == 60
    np.testing.assert_array_equal(found.limbs, alone.limbs)


@pytest.mark.parametrize("further", [0, 4])
def test_a_fit_tells_the_sweeps_of_all_its_descents(monkeypatch, further):
    first, second = (FittedRows(np.zeros((2, 1), dtype=np.int32), 1.0, sweeps) for sweeps in (3, further))
    monkeypatch.setattr(tables, "_descended", lambda *_: second)
    monkeypatch.setattr(tables, "_ask_triples", lambda *_: True)
    targets = SimpleNamespace(release=SimpleNamespace(triples=[0]), objective=lambda count: None)
    constrained = SimpleNamespace(ask=lambda objective: None)
    assert tables._with_triples(first, targets, constrained, np.random.default_rng(0)).sweeps == 3 + further
    # Products that are missed are fitted again, more firmly.
    descents = iter((first, second))
    compiled = SimpleNamespace(firmer=lambda firmness: None, missed=lambda *_: 2.0,
                               descend=lambda *_, **options: next(descents))
    assert tables._moved(compiled, first.rows, np.random.default_rng(0), 1.0, 1, None).sweeps == 3 + further


@pytest.mark.parametrize("absent", [0.0, 0.5, 0.9])
def test_parts_of_a_number_have_equal_mass_however_many_values_are_special(absent):
    partition = Partition((0,), 1, np.linspace(-1.0, 1.0, 21))
    column = ReleasedColumn(partition, np.concatenate([[absent], np.full(20, (1.0 - absent) / 20)]), 0.0)
    wanted = np.floor((np.arange(20) + 0.5) / 20 * (BINS - 1)).astype(int)
    np.testing.assert_array_equal(parts(column), [BINS - 1, *wanted])
    assert len({*wanted}) == BINS - 1


@pytest.mark.parametrize("special", [0, 2])
def test_polynomials_of_ranks_are_those_of_the_middle_of_each_position(special):
    p = np.array([0.1, 0.2, 0.05, 0.3, 0.15, 0.2])
    ordinary = p[special:]
    found = _of_ranks(p, special)
    assert [power for _, power in found] == list(range(1, RANKS + 1))
    middle = np.array([ordinary[:i].sum() + 0.5 * ordinary[i] for i in range(len(ordinary))]) / ordinary.sum()
    for values, power in found:
        np.testing.assert_array_equal(values[:special], 0.0)
        np.testing.assert_allclose(values[special:], legval(2.0 * middle - 1.0, np.eye(RANKS + 1)[int(power)]),
                                   rtol=1e-12, atol=1e-14)


class Writing(Waves):
    """Functions that change the points they are given."""

    def evaluate(self, X):
        found = super().evaluate(X)
        X[:] = 0.25
        return found


def test_functions_that_write_into_their_points_are_looked_at_with_points_of_their_own():
    check_functions_of_own(Writing(), 2, 1e-12)


# Numbers near others


@pytest.mark.parametrize("decimals", [0, 1, 2])
def test_candidates_are_the_nearest_numbers_between_the_ends(decimals):
    column = tm.Column("x", 0, 10, decimals=decimals)
    rng = np.random.default_rng(decimals)
    low, high = np.sort(rng.uniform(0.0, 10.0, (2, 40)), axis=0)
    values = rng.uniform(low, high)
    every = np.arange(10 * 10**decimals + 1) / 10**decimals
    for inset, found in enumerate(rounding.candidates(column, values, low, high)):
        for k in range(40):
            allowed = every[(every >= low[k]) & (every <= high[k])]
            allowed = allowed[inset : len(allowed) - inset]
            if len(allowed):
                assert abs(found[k] - values[k]) == np.abs(allowed - values[k]).min()
            else:
                assert np.isnan(found[k])


# Words


@pytest.mark.parametrize(("formula", "message"), [
    ("lookup()", "write lookup"), ("lookup('routes.csv')", "write lookup"), ("lookup(a)", "write lookup"),
    ("lookup(a, a)", "write lookup"), ("lookup(a, 'routes.csv')", "write lookup"),
    ("lookup('routes.csv', a)", r"has 2 column\(s\) beside that with the result, and 1 are given")])
def test_a_look_up_names_a_table_first_and_then_columns(formula, message):
    held = {"routes.csv": ROUTES} if "('routes" in formula else ()
    with pytest.raises(InputError, match=message):
        tm.Schema([tm.Column("a", 0, 9, "integer")], derived=[tm.Derived("z", formula, tables=held)])


@pytest.mark.parametrize(("n", "epsilon", "signs"), [(50, 0.2, 3), (1_000, 0.2, 3), (10_000, 10.0, 0)])
def test_a_plan_counts_the_columns_measured_by_contrasts_and_those_by_signs(n, epsilon, signs):
    design = tm.TableMechanism().plan(base.PublicFacts(n, DOMAIN, tm.Budget(epsilon))).measured
    line = next(line for line in str(design).splitlines() if "noise in each" in line)
    held = re.findall(r"of (\d+) (?:columns|numbers) by ", line)
    # The numbers are counted by intervals where they are not by signs.
    assert held == (["2", "3"] if signs else ["2"])


@pytest.mark.parametrize("drawn", [noise.integer_gaussian, lambda size, scale: noise._discrete_laplace(scale, size)])
def test_noise_of_integers_is_about_0_and_symmetric(drawn):
    # Another integer than 0 has a probability below 1e-21.
    assert not np.any(drawn(200, 1.0 / 50.0))
    values = np.array(drawn(4_000, 2.0))
    # Up to six standard errors of the mean, whose variance is at most 8.
    assert abs(values.mean()) < 6.0 * math.sqrt(8.0 / 4_000)
    assert abs((values > 0).mean() - (values < 0).mean()) < 6.0 / math.sqrt(4_000)
