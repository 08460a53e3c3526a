"""Shares: their sum is the draw, with the noise that is charged, and nothing else is ever drawn or released."""

import json
import re
import stat
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from page_runner import BLOCK
from scipy import integrate, stats
from test_parts import BOUNDS, BUDGET, CUBE, PURE, SCHEMA, N, command, cube, cut, smooth, table

import trigmech as tm
from trigmech.errors import BudgetError, InputError
from trigmech.measurement.sums import Total
from trigmech.parts import design_file, steps
from trigmech.parts import shares as module
from trigmech.parts.part import Part, answer_of
from trigmech.parts.shares import Share, load_part, share_scale, shares_rho
from trigmech.privacy.budget import Charge
from trigmech.privacy.ledger_lock import attempted
from trigmech.privacy.noise import lattice_step
from trigmech.storage import archive

CASES = {"default": (SCHEMA, None), "private bounds": (BOUNDS, None), "smooth": (SCHEMA, smooth),
         "smooth, private bounds": (BOUNDS, smooth)}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
CHARGE = Charge("moments", "gaussian", 0.037, 0.002, "L2", 1, "look-and-tables")
# Noise is from the operating system's entropy: no seed, and false alarms of 1e-9 a test.
RARE = 1e-9


@pytest.fixture
def book(tmp_path):
    return tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(3.0, 1e-5))


@pytest.fixture
def silent(monkeypatch):
    """No noise at all."""
    monkeypatch.setattr(module, "integer_gaussian", lambda size, scale: np.zeros(size, dtype=np.int64))


def shared(rows, design, tolerated=0):
    return [tm.share_part(own, design, party=k, parties=len(rows), tolerated=tolerated)
            for k, own in enumerate(rows, 1)]


def draws_of(released):
    return [values for _, values in released.history.draws]


# The noise


@pytest.mark.daily("1-0", "2-0", "2-1")
@pytest.mark.parametrize(("m", "t"), [(1, 0), (2, 0), (2, 1), (10, 0), (10, 4)])
def test_the_sum_has_the_noise_of_the_charge_for_those_who_are_not_tolerated(m, t):
    rng, size = np.random.default_rng(m), 3_000
    values = rng.normal(0.0, 1.0, (m, size))
    total = Total(size)
    for own in values:
        total += module._shared(own, CHARGE, m, t)
    noise = (total.over(0) * lattice_step(CHARGE.scale) - values.sum(axis=0)) / CHARGE.scale
    wanted = np.sqrt(m / (m - t))
    squares = float((noise / wanted) @ (noise / wanted))
    assert RARE < stats.chi2.cdf(squares, size) < 1.0 - RARE
    assert stats.kstest(noise, stats.norm(scale=wanted).cdf).pvalue > RARE


def test_a_share_alone_has_its_part_of_the_variance_and_no_more():
    own = module._shared(np.zeros(3_000), CHARGE, 10, 2).over(0) * lattice_step(CHARGE.scale) / CHARGE.scale
    assert RARE < stats.chi2.cdf(float(own @ own) * 8, 3_000) < 1.0 - RARE


@pytest.mark.parametrize(("m", "t"), [(1, 0), (2, 1), (10, 0), (100, 30), (10_000, 9_999)])
@pytest.mark.parametrize("mu", [1e-3, 0.2, 5.0])
def test_what_is_proved_of_the_sum_is_what_is_charged(m, t, mu):
    scale = 0.01
    rho = shares_rho(scale, scale * mu, m, t)
    assert mu * mu / 2.0 * (1.0 - 1e-6) <= rho <= mu * mu / 2.0
    # By hand: all that may move, over the variance of those who are not tolerated.
    step, own = lattice_step(scale), share_scale(scale, scale * mu, m, t)
    assert rho >= (scale * mu / step + 2.0**12) ** 2 / (2.0 * (m - t) * own * own) * (1.0 - 1e-12)


def theta(v, u=0.0):
    y = np.arange(-400, 401)
    return np.exp(-((y - u) ** 2) / (2.0 * v)).sum()


@pytest.mark.parametrize("v", [0.6, 0.8, 1.0])
def test_the_proof_s_bounds_hold_where_they_can_be_seen(v):
    def e(v):
        return 3.0 * np.exp(-2.0 * np.pi**2 * v)

    # Poisson's sum.
    for u in np.linspace(0.0, 1.0, 11):
        assert abs(theta(v, u) / np.sqrt(2.0 * np.pi * v) - 1.0) <= e(v) + 1e-14
    # (1) The sum of five beside one of five times the variance, where neither is all rounding.
    y = np.arange(-60, 61)
    one = np.exp(-(y**2) / (2.0 * v)) / theta(v)
    five = one
    for _ in range(4):
        five = np.convolve(five, one, "same")
    seen = np.abs(y) <= 8
    ratio = np.log(five / (np.exp(-(y**2) / (10.0 * v)) / theta(5.0 * v)))[seen]
    assert 0.0 < np.abs(ratio).max() <= 3.0 * 5.0 * e(v / 2.0)
    # (2) A normal number, rounded at random, beside a discrete Gaussian.
    V = v + 3.0
    for k in range(4):
        rounded, _ = integrate.quad(lambda x, k=k: stats.norm.pdf(x, scale=np.sqrt(V - v)) * np.exp(
            -((k - x) ** 2) / (2.0 * v)) / theta(v, x), -30, 30, epsabs=1e-13, limit=500)
        assert abs(np.log(rounded / (np.exp(-(k**2) / (2.0 * V)) / theta(V)))) <= 5.0 * e(v) + 1e-9


# What is drawn


@pytest.mark.daily(4)
@each_case
def test_without_noise_the_sum_of_shares_is_what_the_whole_table_draws(case, silent, tmp_path):
    schema, mechanism = case
    design = tm.design(N, schema, BUDGET, mechanism).for_shares()
    rows = cut(table(), 3)
    for _ in range(design.passes):
        whole = module.drawn(design, answer_of(tm.measure_part(table(), design)))
        before = 0 if design.history is None else len(design.history.draws)
        following = tm.release_shares(shared(rows, design), design, rounds=tmp_path / "rounds")
        drawn = [json.loads(line.partition(" ")[2]) for line in (tmp_path / "rounds").read_text().splitlines()[1:]]
        for (charge, values), found in zip(whole, drawn[before:], strict=True):
            assert charge == Charge.from_dict(found["charge"])
            np.testing.assert_allclose(found["released"], values, rtol=0.0,
                                       atol=2.0 * lattice_step(charge.scale) + 1e-12)
        if not isinstance(following, tm.Design):
            return
        # What is asked next follows from public random numbers of the file's seed.
        assert f"{following.history.seed:032x}" in (tmp_path / "rounds").read_text()
        design = following
    pytest.fail("more rounds than the design says")


@each_case
def test_what_is_drawn_does_not_depend_on_what_was_drawn_for_the_same_question(case, monkeypatch):
    schema, mechanism = case
    design = tm.design(N, schema, BUDGET, mechanism).for_shares()
    answer = answer_of(tm.measure_part(table(), design))
    first = module.drawn(design, answer)
    monkeypatch.setattr(module._Captured, "gaussian", lambda self, values, scale: (
        self.values.append(np.array(values)), np.full(np.shape(values), 0.3))[1])
    for (charge, values), (other, again) in zip(first, module.drawn(design, answer), strict=True):
        assert charge == other
        np.testing.assert_array_equal(values, again)


@pytest.mark.daily(4)
@each_case
def test_a_person_of_a_small_party_moves_its_values_no_further_than_is_charged(case):
    schema, mechanism = case
    design, rows = tm.design(N, schema, BUDGET, mechanism).for_shares(), table(12)

    def values(rows):
        part = tm.measure_part(rows, design)

        def answer(asked, question):
            # As a share is made: means are over the persons of all parties.
            part.total.n = N
            return part.total

        return module.drawn(design, answer)

    extremes = [(0, 20.0, "a"), (120, 200.0, "c"), (60, np.nan, "b")]
    found = {charge.purpose: [] for charge, _ in values(rows)}
    for first in extremes:
        for second in extremes:
            pair = []
            for row in (first, second):
                rows.loc[rows.index[0], ["age", "weight", "job"]] = row
                pair.append(values(rows))
            for (charge, own), (_, other) in zip(*pair, strict=True):
                assert np.linalg.norm(own - other) <= charge.sensitivity
                found[charge.purpose].append(np.linalg.norm(own - other) / charge.sensitivity)
    assert all(max(moved) > 0.3 for moved in found.values())


@pytest.mark.daily("2")
@pytest.mark.parametrize("m", [1, 2, pytest.param(10, marks=pytest.mark.nightly)])
def test_all_rounds_are_charged_once_and_each_sum_is_opened_once(m, book, tmp_path):
    design, rows = tm.design(N, SCHEMA, BUDGET).for_shares(), cut(table(), m) if m > 1 else [table()]
    rounds, histories = tmp_path / "rounds", []
    while isinstance(design, tm.Design):
        asked, given = design, shared(rows, design, tolerated=m // 4)
        design = tm.release_shares([sum(given[:2]), *given[2:]], asked, ledger=book, rounds=rounds)
        if isinstance(design, tm.Design):
            # Other shares of the same rows: the sum that was opened is what is released.
            again = tm.release_shares(shared(rows, asked), asked, ledger=book, rounds=rounds)
            for first, second in zip(draws_of(design), draws_of(again), strict=True):
                np.testing.assert_array_equal(first, second)
            histories.append(draws_of(design))
    assert all(np.array_equal(a, b) for first, second in pairwise(histories) for a, b in zip(first, second,
                                                                                          strict=False))
    assert len(histories) >= 2
    assert design.ledger.charges == list(asked.all_charges)
    assert not design.ledger.simulated
    assert len(book.entries) == len(asked.all_charges)
    assert book.verify() == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(tm.reconstruct(design, np.random.default_rng(0)).sample(10)) == 10


def test_a_run_that_was_broken_off_between_two_draws_opens_the_same_sum(book, tmp_path):
    design = tm.design(N, SCHEMA, BUDGET, smooth).for_shares()
    given, path = shared(cut(table(), 3), design), tmp_path / "rounds"
    once = tm.release_shares(given, design, ledger=book, rounds=path)
    first, moments, indicators = path.read_bytes().splitlines(keepends=True)
    for kept in (first, first + moments, first + moments + indicators[:20]):
        path.write_bytes(kept)
        again = tm.release_shares(given, design, ledger=book, rounds=path)
        np.testing.assert_array_equal(again.means, once.means)
        assert path.read_bytes() == first + moments + indicators
    assert len(book.entries) == len(design.all_charges)


def test_what_is_drawn_of_a_share_is_over_the_persons_of_all_parties(monkeypatch):
    design, found, drawn = tm.design(N, SCHEMA, BUDGET, smooth).for_shares(), [], module.drawn

    def told(answer, *question):
        total = answer(*question)
        found.append(total.n)
        return total

    monkeypatch.setattr(module, "drawn", lambda design, answer: drawn(design, partial(told, answer)))
    part = tm.share_part(cut(table(), 3)[0], design, party=1, parties=3)
    assert found
    assert set(found) == {N}
    assert part.n < N


def test_public_random_numbers_are_those_of_the_rounds_file_which_there_must_be(book, tmp_path, monkeypatch):
    # A run begins, and has its seed, when its design is made one for shares.
    designs, states, run = [tm.design(N, SCHEMA, BUDGET, smooth).for_shares() for _ in range(2)], [], steps.run
    sums = [shared(cut(table(), 3), design) for design in designs]
    monkeypatch.setattr(steps, "run", lambda *given: (
        given[4].simulated or states.append(given[3].bit_generator.state), run(*given))[1])
    with pytest.raises(InputError, match="give rounds, the path of a file"):
        tm.release_shares(sums[0], designs[0], ledger=book, rounds=None)
    assert book.entries == ()
    for name, given, design in zip(("one", "two"), sums, designs, strict=True):
        tm.release_shares(given, design, rounds=tmp_path / name)
    (one,), (two,) = (re.findall('"seed": ?"([0-9a-f]{32})"', (tmp_path / name).read_text()) for name in ("one", "two"))
    assert states == [np.random.default_rng(int(seed, 16)).bit_generator.state for seed in (one, two)]
    assert one != two


def test_the_released_means_are_the_table_s_with_noise(tmp_path):
    design = tm.design(N, SCHEMA, BUDGET, smooth).for_shares()
    exact = tm.measure(table(), SCHEMA, tm.design(N, SCHEMA, tm.Budget(1e6, 1e-6), smooth),
                       np.random.default_rng(0)).means
    found = tm.release_shares(shared(cut(table(), 5), design), design, rounds=tmp_path / "rounds").release
    squares = float((((found.means - exact) / found.deviations) ** 2).sum())
    assert RARE < stats.chi2.cdf(squares, len(exact)) < 1.0 - RARE


# What is refused


def refused(given, design, words, book, tmp_path):
    with pytest.raises(InputError, match=words):
        tm.release_shares(given, design, ledger=book, rounds=tmp_path / "rounds")
    assert book.entries == ()
    assert not (tmp_path / "rounds").exists()


def test_what_is_not_all_shares_of_one_sum_is_refused_before_the_charge(book, tmp_path):
    design, rows = tm.design(N, SCHEMA, BUDGET, smooth).for_shares(), cut(table(), 3)
    given = shared(rows, design)
    refused(given[:2], design, f"the design is for {N} persons, but the shares have", book, tmp_path)
    refused([*given, given[0]], design, "added twice", book, tmp_path)
    refused([tm.share_part(table(), design, party=1, parties=3)], design, "for 3 parties, but 1 are given", book,
            tmp_path)
    refused([given[0] + given[1], shared(rows, design, tolerated=1)[2]], design, "different questions", book, tmp_path)
    refused([], design, "a non-empty list of shares", book, tmp_path)
    parts = [tm.measure_part(own, design) for own in rows]
    refused(parts, design, "a non-empty list of shares", book, tmp_path)
    with pytest.raises(InputError, match="a non-empty list of parts"):
        tm.release_parts(given, design, ledger=book)
    with pytest.raises(InputError, match="different questions"):
        given[0] + parts[1]
    other = tm.design(N, SCHEMA, tm.Budget(2.0, 1e-6), smooth).for_shares()
    refused(given, other, "were not measured for this design", book, tmp_path)
    cut_off = Total(3)
    cut_off.n = N
    whole = sum(given)
    refused([Share(cut_off, whole.question, whole.identities, 3, 0)], design, "do not contain the statistic", book,
            tmp_path)


def test_shares_in_common_cannot_be_opened_in_two_sums(book, tmp_path):
    # The difference of the two releases would have the noise of two shares alone.
    design, rows = tm.design(N, SCHEMA, BUDGET, smooth).for_shares(), cut(table(), 3)
    given = shared(rows, design)
    tm.release_shares(given, design, ledger=book, rounds=tmp_path / "first")
    charged = book.entries
    mended = rows[0].assign(**{name: rows[0][name].to_numpy()[::-1] for name in list(rows[0])[:1]})
    again = [tm.share_part(mended, design, party=1, parties=3), *given[1:]]
    with pytest.raises(InputError, match="a sum of them was already opened"):
        tm.release_shares(again, design, ledger=book, rounds=tmp_path / "second")
    assert book.entries == charged
    assert not (tmp_path / "second").exists()
    # Of another run they are shares of another question.
    other = tm.design(N, SCHEMA, BUDGET, smooth).for_shares()
    with pytest.raises(InputError, match="different questions"):
        tm.release_shares([tm.share_part(mended, other, party=1, parties=3), *given[1:]], other, ledger=book,
                          rounds=tmp_path / "second")
    with pytest.raises(InputError, match="were not measured for this design"):
        tm.release_shares(given, other, ledger=book, rounds=tmp_path / "second")
    assert book.entries == charged
    # New shares of all are another release, at its own cost.
    tm.release_shares(shared(rows, other), other, ledger=book, rounds=tmp_path / "second")
    assert len(book.entries) == 2 * len(charged)
    assert {attempted(entry.run) for entry in book.entries} == {design.history.run, other.history.run}


def test_a_party_is_not_added_twice_in_the_place_of_another_of_as_many_persons(book, tmp_path):
    design, whole = tm.design(N, SCHEMA, BUDGET, smooth).for_shares(), table()
    rows = [whole.iloc[k::3] for k in range(3)]
    given, again = shared(rows, design), tm.share_part(rows[0], design, party=1, parties=3)
    assert {share.n for share in [*given, again]} == {N // 3}
    for twice in ([given[0], given[1], again], [given[0] + given[1], again], [again, given[1], given[0]]):
        refused(twice, design, "both hold a share of the same party", book, tmp_path)
    # Numbers that there are not.
    strange = replace(given[2], identities=frozenset(["party 4"]))
    refused([given[0], given[1], strange], design, "with the numbers from 1 to 3", book, tmp_path)
    tm.release_shares([again, *given[1:]], design, ledger=book, rounds=tmp_path / "rounds")


def test_two_rounds_files_at_once_open_one_sum(book, tmp_path, monkeypatch):
    design, rows = tm.design(N, SCHEMA, BUDGET, smooth).for_shares(), cut(table(), 3)
    # Both have looked at all that they look at before they charge.
    opened, charge = threading.Barrier(2, timeout=30.0), tm.LedgerFile.charge
    monkeypatch.setattr(tm.LedgerFile, "charge", lambda self, *given: (opened.wait(), charge(self, *given))[1])

    def released(k):
        try:
            tm.release_shares(shared(rows, design), design, ledger=book.path, rounds=tmp_path / f"{k}.rounds")
        except InputError as problem:
            return str(problem)

    with ThreadPoolExecutor(2) as pool:
        told = list(pool.map(released, range(2)))
    assert sum(each is None for each in told) == 1
    assert "a sum of them was already opened" in next(filter(None, told))
    assert len(book.entries) == len(design.all_charges)
    assert [path.name for path in tmp_path.glob("*.rounds")] == [f"{told.index(None)}.rounds"]


def test_a_rounds_file_that_was_begun_before_another_was_charged_opens_no_second_sum(book, tmp_path, monkeypatch):
    design, rows = tm.design(N, SCHEMA, BUDGET, smooth).for_shares(), cut(table(), 3)
    given, others = shared(rows, design), shared(rows, design)
    with monkeypatch.context() as patch:
        patch.setattr(tm.LedgerFile, "charge", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            tm.release_shares(others, design, ledger=book, rounds=tmp_path / "first")
    assert len((tmp_path / "first").read_text().splitlines()) == 1
    tm.release_shares(given, design, ledger=book, rounds=tmp_path / "second")
    charged = book.entries
    with pytest.raises(InputError, match="a sum of them was already opened"):
        tm.release_shares(others, design, ledger=book, rounds=tmp_path / "first")
    assert (book.entries, len((tmp_path / "first").read_text().splitlines())) == (charged, 1)


def test_another_ledger_does_not_know_that_a_sum_was_opened(book, tmp_path):
    # As documented: who releases must have one ledger, and one rounds file where there is none.
    design, rows = tm.design(N, SCHEMA, BUDGET, smooth).for_shares(), cut(table(), 3)
    other = tm.LedgerFile.create(tmp_path / "other.json", tm.Budget(3.0, 1e-5))
    for each in (book, other):
        tm.release_shares(shared(rows, design), design, ledger=each, rounds=tmp_path / f"{each.path.name}.rounds")
    assert len(other.entries) == len(book.entries) == len(design.all_charges)


def test_shares_are_of_a_run(book, tmp_path):
    design = tm.design(N, SCHEMA, BUDGET, smooth)
    with pytest.raises(InputError, match=r"not for a run with shares: .*for_shares\(\)"):
        tm.share_part(table(), design, party=1, parties=1)
    refused([], design, "not for a run with shares", book, tmp_path)
    begun = design.for_shares()
    design_file.save(tmp_path / "design.json", begun)
    read = design_file.load(tmp_path / "design.json")
    assert (read.history.run, read.history.seed, read.history.round) == (begun.history.run, begun.history.seed, 0)
    own = tm.share_part(table(), read, party=1, parties=1)
    tm.release_shares([own], begun, ledger=book, rounds=tmp_path / "rounds")
    assert {attempted(entry.run) for entry in book.entries} == {begun.history.run}


def test_what_is_not_linear_or_has_other_noise_cannot_be_shared(book, tmp_path):
    class Own(tm.TableMechanism):
        pass

    for schema, budget, mechanism, rows in (
            (CUBE, BUDGET, tm.ImprovedTrigII(n_candidates=50), cube()), (CUBE, BUDGET, tm.TrigII(smoothness=1), cube()),
            (SCHEMA, PURE, None, table()), (SCHEMA, PURE, smooth, table()), (SCHEMA, BUDGET, Own(), table())):
        design = tm.design(N, schema, budget, mechanism).for_shares()
        with pytest.raises(InputError, match="noise can be shared only for"):
            tm.share_part(rows, design, party=1, parties=2)
        refused([], design, "noise can be shared only for", book, tmp_path)
    design = tm.design(N, SCHEMA, BUDGET, smooth).for_shares()
    for options in ({"parties": 0}, {"parties": 2, "tolerated": 2}, {"parties": 2, "tolerated": -1}, {"parties": 2.0},
                    {"parties": 10_001}, {"parties": 2, "party": 3}, {"parties": 2, "party": 0},
                    {"parties": 2, "party": 1.0}):
        with pytest.raises(InputError, match=r"parties must be|tolerated must be|party must be"):
            tm.share_part(table(), design, **{"party": 1} | options)


def test_noise_that_is_proved_too_little_is_refused_before_the_charge(book, tmp_path, monkeypatch):
    design = tm.design(N, SCHEMA, BUDGET).for_shares()
    given = shared(cut(table(), 3), design)
    enough = module.share_scale
    monkeypatch.setattr(module, "share_scale", lambda *facts: enough(*facts) * (1.0 - 1e-6))
    with pytest.raises(BudgetError, match="by its own proof"):
        tm.release_shares(given, design, ledger=book, rounds=tmp_path / "rounds")
    assert book.entries == ()


def test_values_that_do_not_fit_are_refused_and_large_ones_are_exact(silent):
    step = lattice_step(CHARGE.scale)
    values = np.array([2.0**80, -(2.0**80), 2.0**70 + 2.0**20, -1.0, 0.4, -0.6]) * step
    total = Total(len(values))
    for _ in range(3):
        total += module._shared(values, CHARGE, 3, 0)
    assert total.over(0).tolist() == (3.0 * np.array([2.0**80, -(2.0**80), 2.0**70 + 2.0**20, -1.0, 0.0,
                                                      -1.0])).tolist()
    with pytest.raises(InputError, match="at most 2\\^39 times the noise"):
        module._shared(values * 1.1, CHARGE, 3, 0)


# The page


@pytest.mark.nightly  # By day the functions that it calls, above.
def test_the_python_of_the_page_runs_and_the_release_is_the_pooled_table_s(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, names = Path(__file__).parent.parent / "docs" / "parts.md", {}
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["title"]:
            Path(block["title"]).write_text(block["text"], encoding="utf-8")
        elif block["kind"] == "python":
            exec(block["text"], names)
    parts = names["made"]
    frames = [pd.read_csv(f"{hospital}.csv") for hospital in names["hospitals"]]
    assert len(frames) == 3
    schema = tm.load_schema("schema.toml")
    pooled = tm.measure(pd.concat(frames), schema, tm.design(2_000, schema, tm.Budget(1.0, 1e-6)),
                        np.random.default_rng(0))
    np.testing.assert_array_equal(parts.release.means, pooled.means)
    # Shares, three rounds of them, are charged as one release.
    assert names["design"].ledger.charges == pooled.ledger.charges


# Files


def test_a_share_says_that_it_is_private_alone_and_comes_back(tmp_path):
    design = tm.design(N, SCHEMA, BUDGET, smooth).for_shares()
    own, path = tm.share_part(cut(table(), 2)[0], design, party=2, parties=2, tolerated=1), tmp_path / "a.share"
    own.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "NOT PRIVATE alone" in archive.read(path, Share.KIND)[0]["privacy"]
    assert "NOT PRIVATE" in repr(own)
    loaded = load_part(path)
    assert isinstance(loaded, Share)
    np.testing.assert_array_equal(loaded.total.limbs, own.total.limbs)
    assert (loaded.n, loaded.question, loaded.identities, loaded.parties, loaded.tolerated) == (
        own.n, own.question, frozenset(["party 2"]), 2, 1)
    assert own.identities == loaded.identities
    tm.measure_part(table(), design).save(tmp_path / "a.part")
    assert type(load_part(tmp_path / "a.part")) is Part
    with pytest.raises(InputError, match="trigmech part"):
        Part.load(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"cannot read .*a\.share"):
        load_part(path)


def test_shares_are_made_added_and_released_by_the_command_line(tmp_path, monkeypatch):
    from trigmech.schema import toml

    call = partial(command, monkeypatch)
    toml.save(tmp_path / "schema.toml", SCHEMA)
    for k, rows in enumerate(cut(table(), 3)):
        rows.to_csv(tmp_path / f"{k}.csv", index=False)
    design, out, own = tmp_path / "design.json", tmp_path / "all.tm", [tmp_path / f"{k}.share" for k in range(3)]
    call("design", "--schema", tmp_path / "schema.toml", "--n", N, "--epsilon", 1, "--delta", 1e-6, "--smooth",
         "--shares", "--out", design)
    for k, path in enumerate(own):
        said = call("share", tmp_path / f"{k}.csv", "--design", design, "--party", k + 1, "--parties", 3, "--tolerated",
                    1, "--out", path)
        assert "NOT PRIVATE alone" in said
    call("add", *own, "--out", tmp_path / "sum.share")
    assert "3 measured" in call("show", tmp_path / "sum.share")
    ledger = tmp_path / "ledger.json"
    # All must be there, and no part among them.
    assert "persons" in call("release", *own[:2], "--design", design, "--ledger", ledger, "--out", out, status=2)
    call("measure", tmp_path / "2.csv", "--design", design, "--out", tmp_path / "2.part")
    assert "give shares only, or parts only" in call("release", *own[:2], tmp_path / "2.part", "--design", design,
                                                     "--ledger", ledger, "--out", out, status=2)
    # A share takes no place of a part, and a part none of a share.
    part = (tmp_path / "2.part").read_bytes()
    call("share", tmp_path / "2.csv", "--design", design, "--party", 3, "--parties", 3, "--tolerated", 1, "--out",
         tmp_path / "2.part", status=2)
    call("add", *own, "--out", tmp_path / "2.part", status=2)
    call("measure", tmp_path / "2.csv", "--design", design, "--out", tmp_path / "sum.share", status=2)
    assert (tmp_path / "2.part").read_bytes() == part
    assert not out.exists()
    call("release", tmp_path / "sum.share", "--design", design, "--ledger", ledger, "--out", out)
    assert tm.load(out).n == N
    assert len(tm.LedgerFile.open(ledger).entries) == 2
    call("share", tmp_path / "0.csv", "--design", design, "--out", own[0], status=2)


@pytest.mark.parametrize(("party", "parties", "tolerated", "said"), [
    (1, 2, 2, "more than tolerated; given parties=2 and tolerated=2"), (1, 3, 5, "given parties=3 and tolerated=5"),
    (3, 2, 0, "party must be from 1 to parties; given party=3 and parties=2")])
def test_numbers_of_parties_that_do_not_fit_are_told_each_by_its_name(party, parties, tolerated, said):
    mechanism = tm.MomentMechanism(points=20, iterations=1)
    design = tm.design(40, tm.Schema.cube(1), tm.Budget(1.0, 1e-6), mechanism).for_shares()
    with pytest.raises(InputError, match=f"{said}$"):
        tm.share_part(np.zeros((20, 1)), design, party=party, parties=parties, tolerated=tolerated)
