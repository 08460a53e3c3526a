"""Tables in parts: the release of one table, to the last bit, and refusals before anything is charged."""

import io
import json
import os
import stat
import sys
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.cli.app import main
from trigmech.errors import InputError
from trigmech.measurement.sums import Total
from trigmech.mechanisms.base import History
from trigmech.parts import answers, design_file
from trigmech.parts.answers import Recorder
from trigmech.parts.part import Part
from trigmech.storage import archive

N = 600
BUDGET, PURE = tm.Budget(1.0, 1e-6), tm.Budget(1.0)
CATEGORIES = tm.Column("job", kind="categorical", categories=("a", "b", "c"))
SCHEMA = tm.Schema([tm.Column("age", 0, 120, "integer"), tm.Column("weight", 20, 200, missing="keep"), CATEGORIES])
BOUNDS = tm.Schema([tm.Column("age", 0, 120, "integer"), tm.Column("weight", private_bounds=True, missing="keep"),
                    CATEGORIES])
CUBE = tm.Schema.cube(3)
smooth = tm.MomentMechanism(degree=3, pair_degree=1)


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    found = pd.DataFrame({"age": rng.integers(0, 90, n), "weight": rng.normal(70, 12, n),
                          "job": rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1])})
    found.loc[rng.random(n) < 0.1, "weight"] = np.nan
    return found


def cube(n=N):
    return np.random.default_rng(1).uniform(-1, 1, (n, 3))


CASES = {"default": (SCHEMA, None, BUDGET), "default, pure": (SCHEMA, None, PURE),
         "private bounds": (BOUNDS, None, BUDGET), "smooth": (SCHEMA, smooth, BUDGET),
         "smooth, private bounds": (BOUNDS, smooth, PURE), "thesis": (CUBE, tm.ImprovedTrigII(n_candidates=50), BUDGET),
         "thesis, pure": (CUBE, tm.ImprovedTrigI(n_candidates=50), PURE)}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def cut(data, count, seed=0):
    """The rows, shuffled, in parts of different lengths."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data))
    cuts = np.sort(rng.choice(np.arange(1, len(data)), count - 1, replace=False))
    rows = data.iloc if isinstance(data, pd.DataFrame) else data
    return [rows[own] for own in np.split(order, cuts)]


def released(parts, design, seed=5):
    """What is released of parts, round after round, and how many rounds there were."""
    rounds = 0
    while isinstance(design, tm.Design):
        measured = [tm.measure_part(part, design) for part in parts]
        design = tm.release_parts(measured, design, np.random.default_rng(seed))
        rounds += 1
    return design, rounds


@pytest.mark.daily(4)
@each_case
@pytest.mark.parametrize("count", [1, 7])
def test_parts_are_released_as_their_table_to_the_last_bit(case, count):
    schema, mechanism, budget = case
    data = cube() if schema is CUBE else table()
    design = tm.design(N, schema, budget, mechanism)
    whole = tm.measure(data, schema, design, np.random.default_rng(5))
    found, rounds = released(cut(data, count), design)
    np.testing.assert_array_equal(found.means, whole.means)
    assert found.schema == whole.schema
    assert found.ledger.charges == whole.ledger.charges
    assert rounds <= design.passes
    tm.reconstruct(found, np.random.default_rng(0))


@pytest.mark.nightly  # By day seven parts, above.
def test_a_thousand_parts_of_a_row_each_are_the_table():
    data = cube(1_000)
    design = tm.design(1_000, CUBE, BUDGET, smooth)
    parts = [tm.measure_part(data[i : i + 1], design) for i in range(1_000)]
    found = tm.release_parts([sum(parts[:500]), *parts[500:]], design, np.random.default_rng(5))
    np.testing.assert_array_equal(found.means, tm.measure(data, CUBE, design, np.random.default_rng(5)).means)


def test_the_design_says_how_many_rounds_there_can_be():
    assert tm.design(N, SCHEMA, BUDGET, smooth).passes == 1
    assert tm.design(N, SCHEMA, BUDGET).passes == 4
    assert tm.design(N, BOUNDS, BUDGET).passes == 6
    assert tm.design(N, CUBE, BUDGET, tm.ImprovedTrigII()).passes == 1


# Real releases: a ledger, and a file of what is released


@pytest.fixture
def book(tmp_path):
    return tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(3.0, 1e-5))


def all_rounds(parts, design, book, path):
    seen = []
    while isinstance(design, tm.Design):
        design = tm.release_parts([tm.measure_part(part, design) for part in parts], design, ledger=book, rounds=path)
        seen.append(len(tm.LedgerFile.open(book.path).entries))
    return design, seen


@pytest.mark.parametrize("schema", [SCHEMA, BOUNDS], ids=["public bounds", "private bounds"])
def test_all_rounds_are_charged_together_before_the_first_draw(schema, book, tmp_path):
    design = tm.design(N, schema, BUDGET)
    found, seen = all_rounds(cut(table(), 3), design, book, tmp_path / "rounds")
    assert len(seen) >= 3
    assert set(seen) == {len(design.all_charges)}
    assert found.ledger.charges == list(design.all_charges)
    assert tm.LedgerFile.open(book.path).verify() == []


def test_a_round_that_is_released_again_is_not_drawn_again(book, tmp_path):
    design = tm.design(N, SCHEMA, BUDGET)
    parts = cut(table(), 3)
    first = [tm.measure_part(part, design) for part in parts]
    once, twice = (tm.release_parts(first, design, ledger=book, rounds=tmp_path / "rounds") for _ in range(2))
    assert [drawn.tolist() for _, drawn in once.history.draws] == [drawn.tolist() for _, drawn in twice.history.draws]
    # Other rows neither: what was drawn is kept, whatever is given for it.
    other = [tm.measure_part(table(seed=9), design)]
    again = tm.release_parts(other, design, ledger=book, rounds=tmp_path / "rounds")
    assert [drawn.tolist() for _, drawn in again.history.draws] == [drawn.tolist() for _, drawn in once.history.draws]
    assert len(tm.LedgerFile.open(book.path).entries) == len(design.all_charges)


def _dies_in_the_second_round(folder):
    """Run the first round, and end in the middle of the second, after its draw was kept."""
    from trigmech.storage import rounds_file

    book, design = tm.LedgerFile.open(f"{folder}/ledger.json"), design_file.load(f"{folder}/design.json")
    part = Part.load(f"{folder}/a.part")
    keep = rounds_file.RoundsFile.keep

    def dying(self, charge, values):
        keep(self, charge, values)
        os._exit(1)

    rounds_file.RoundsFile.keep = dying
    tm.release_parts([part], design, ledger=book, rounds=f"{folder}/rounds")


@pytest.mark.nightly  # By day test_rounds.py ends a run at every moment, in one process.
def test_a_killed_run_goes_on_and_draws_nothing_twice(book, tmp_path):
    design = tm.design(N, SCHEMA, BUDGET)
    design = tm.release_parts([tm.measure_part(table(), design)], design, ledger=book, rounds=tmp_path / "rounds")
    design_file.save(tmp_path / "design.json", design)
    tm.measure_part(table(), design).save(tmp_path / "a.part")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(Exception, match="terminated"):
        pool.submit(_dies_in_the_second_round, str(tmp_path)).result()
    lines = (tmp_path / "rounds").read_text().splitlines()
    found, _ = all_rounds([table()], design, book, tmp_path / "rounds")
    assert (tmp_path / "rounds").read_text().splitlines()[: len(lines)] == lines
    assert len(tm.LedgerFile.open(book.path).entries) == len(found.ledger.charges) == len(design.all_charges)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(tm.reconstruct(found).sample(10)) == 10


# What is refused


def parts_and_design(schema=SCHEMA, mechanism=smooth, count=2):
    design = tm.design(N, schema, BUDGET, mechanism)
    return [tm.measure_part(part, design) for part in cut(table(), count)], design


def refused(parts, design, words, book, **options):
    with pytest.raises(InputError, match=words):
        tm.release_parts(parts, design, ledger=book, **options)
    assert tm.LedgerFile.open(book.path).entries == ()


def test_parts_of_other_questions_are_refused_before_anything_is_charged(book):
    parts, design = parts_and_design()
    wider = tm.Schema([tm.Column("age", 0, 130, "integer"), *SCHEMA.columns[1:]])
    others = {"another schema": tm.design(N, wider, BUDGET, smooth), "another size": tm.design(N + 1, SCHEMA, BUDGET,
                                                                                                smooth),
              "another budget": tm.design(N, SCHEMA, tm.Budget(2.0, 1e-6), smooth),
              "another mechanism": tm.design(N, SCHEMA, BUDGET, tm.MomentMechanism(degree=2, pair_degree=1))}
    for other in others.values():
        strange = tm.measure_part(cut(table(), 2)[1], other)
        refused([parts[0], strange], design, "answer different questions", book)
        refused([tm.measure_part(table(), other)], design, "were not measured for this design", book)


@pytest.mark.parametrize(("name", "value"), [("version", lambda: "9.9.9"), ("SHARE_BITS", 45)])
def test_parts_of_another_version_or_lattice_are_refused(name, value, book, monkeypatch):
    parts, design = parts_and_design()
    with monkeypatch.context() as other:
        other.setattr(answers, name, value)
        strange = tm.measure_part(cut(table(), 2)[1], design)
    refused([parts[0], strange], design, "answer different questions", book)


def test_what_does_not_add_up_to_the_persons_of_the_design_is_refused(book):
    parts, design = parts_and_design()
    refused(parts[:1], design, f"the design is for {N} persons, but the parts have", book)
    refused([*parts, parts[0]], design, "added twice", book)
    refused([parts[0] + parts[1], parts[1]], design, "added twice", book)
    refused([], design, "a non-empty list of parts", book)
    refused([table()], design, "a non-empty list of parts", book)
    with pytest.raises(InputError, match=r"Design by trigmech\.design"):
        tm.release_parts(parts, "design")


def test_sums_that_no_persons_have_are_refused(book):
    for mechanism, words in ((None, f"counts of {N} persons"), (smooth, "larger than the number of persons")):
        design = tm.design(N, SCHEMA, BUDGET, mechanism)
        part = tm.measure_part(table(), design)
        total = Total(part.total.limbs.shape[1])
        total += part.total
        total.limbs[0] += 2**31
        refused([Part(total, part.question, part.identities)], design, words, book,
                rounds=None if mechanism else book.path.with_name("rounds"))
        short = Total(3)
        short.n = N
        refused([Part(short, part.question, part.identities)], design, "do not contain the statistic", book,
                rounds=None if mechanism else book.path.with_name("rounds"))


def test_several_rounds_need_a_file_that_stays(book, tmp_path):
    parts, design = parts_and_design(mechanism=None)
    refused(parts, design, "may have 4 rounds", book)
    refused(parts, design, "must not have a rounds", book, rng=np.random.default_rng(0), rounds=tmp_path / "rounds")
    second = tm.release_parts(parts, design, ledger=book, rounds=tmp_path / "rounds")
    again = [tm.measure_part(table(), second)]
    with pytest.raises(InputError, match=r"the rounds file .* does not exist"):
        tm.release_parts(again, second, ledger=book, rounds=tmp_path / "other")
    # One of another run: what is asked now follows from what that one never released.
    book_of_other = tm.LedgerFile.create(tmp_path / "other.json", BUDGET)
    tm.release_parts(parts, design, ledger=book_of_other, rounds=tmp_path / "other")
    with pytest.raises(InputError, match="another run"):
        tm.release_parts(again, second, ledger=book_of_other, rounds=tmp_path / "other")
    assert len(tm.LedgerFile.open(book.path).entries) == len(design.all_charges)


def test_a_part_of_an_earlier_round_does_not_answer_a_later_one(book, tmp_path):
    parts, design = parts_and_design(mechanism=None)
    second = tm.release_parts(parts, design, ledger=book, rounds=tmp_path / "rounds")
    with pytest.raises(InputError, match="were not measured for this design"):
        tm.release_parts(parts, second, ledger=book, rounds=tmp_path / "rounds")


def test_a_sum_from_a_file_still_knows_each_part_of_it(tmp_path):
    parts, design = parts_and_design(count=4)
    three = sum(parts[:3])
    three.save(tmp_path / "three.part")
    loaded = Part.load(tmp_path / "three.part")
    assert loaded.identities == three.identities
    assert len(loaded.identities) == 3
    for part in (*parts[:3], parts[1] + parts[3], loaded):
        with pytest.raises(InputError, match="added twice"):
            loaded + part
    assert (loaded + parts[3]).n == design.n


def test_draws_of_a_history_are_returned_for_their_own_charge_and_shape_alone():
    one, other = (tm.Charge("mean", "laplace", scale, 1.0, "L1", 1, "here") for scale in (2.0, 4.0))
    history = History("run", 0, 2, ((one, np.arange(3.0)), (other, np.ones(2))))
    recorder = Recorder(history)
    assert recorder.known(one, (3,)).tolist() == [0.0, 1.0, 2.0]
    assert recorder.known(other, (2,)).tolist() == [1.0, 1.0]
    assert recorder.known(other, (2,)) is None
    for charge, shape in ((other, (3,)), (one, (2,)), (one, (3, 1)), (one, None)):
        with pytest.raises(InputError, match="earlier rounds in the design do not fit"):
            Recorder(history).known(charge, shape)


def test_a_recorder_without_a_file_begins_and_removes_none_and_one_with_a_file_asks_it():
    class File:
        def __init__(self):
            self.asked = []

        def begin(self):
            self.asked.append("begin")
            return len(self.asked) == 1

        def remove(self):
            self.asked.append("remove")

    alone = Recorder(None)
    assert alone.begin() is False
    alone.remove()
    file = File()
    recorder = Recorder(None, file)
    assert (recorder.begin(), recorder.begin()) == (True, False)
    recorder.remove()
    assert file.asked == ["begin", "begin", "remove"]


def test_a_round_goes_on_with_the_file_of_its_own_run_and_draws_alone(book, tmp_path):
    parts, design = parts_and_design(mechanism=None)
    path = tmp_path / "rounds"
    second = tm.release_parts(parts, design, ledger=book, rounds=path)
    history, content = second.history, path.read_bytes()
    (charge, values), *later = history.draws
    changed = values.copy()
    changed.ravel()[-1] += 1e-9

    def fails(history):
        forged = second.after(history)
        with pytest.raises(InputError, match="the rounds file of another run, not of this design's"):
            tm.release_parts([tm.measure_part(table(), forged)], forged, ledger=book, rounds=path)

    fails(replace(history, run="0" * len(history.run)))
    fails(replace(history, draws=((charge, changed), *later)))
    path.write_bytes(b"".join(content.splitlines(keepends=True)[:-1]))
    fails(history)
    path.write_bytes(content)
    tm.release_parts([tm.measure_part(table(), second)], second, ledger=book, rounds=path)


def test_private_categories_are_not_found_over_parts():
    schema = tm.Schema([tm.Column("job", kind="categorical", private_categories=True)])
    design = tm.design(N, schema, BUDGET)
    with pytest.raises(InputError, match="private categories cannot be found over parts"):
        tm.measure_part(table(), design)
    with pytest.raises(InputError, match="private categories cannot be found over parts"):
        tm.release_parts([], design)


def test_a_design_that_no_part_can_measure_is_not_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text('[columns]\njob = { kind = "categorical", categories = "private" }\n')
    monkeypatch.setattr(sys, "argv", ["trigmech", "part", "design", "--schema", "schema.toml", "--n", "500",
                                      "--epsilon", "1", "--delta", "1e-6", "--out", "design.json"])
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 2
    assert "private categories cannot be found over parts" in capsys.readouterr().err
    assert not (tmp_path / "design.json").exists()


# Files


def test_a_part_says_that_it_is_private_and_shows_nothing(tmp_path):
    parts, _ = parts_and_design()
    parts[0].save(tmp_path / "a.part")
    assert stat.S_IMODE((tmp_path / "a.part").stat().st_mode) == 0o600
    assert "NOT PRIVATE" in archive.read(tmp_path / "a.part", Part.KIND)[0]["privacy"]
    assert "NOT PRIVATE" in repr(parts[0])
    assert "hidden" in repr(parts[0])
    loaded = Part.load(tmp_path / "a.part")
    np.testing.assert_array_equal(loaded.total.limbs, parts[0].total.limbs)
    assert (loaded.n, loaded.question, loaded.identities) == (parts[0].n, parts[0].question, parts[0].identities)
    with pytest.raises(InputError, match="added twice"):
        loaded + parts[0]
    with pytest.raises(TypeError):
        parts[0] + 1


@pytest.mark.parametrize("content", [b"", b"PK", b"{}", bytes(1_000)])
def test_a_file_that_is_no_part_is_refused(tmp_path, content):
    (tmp_path / "a.part").write_bytes(content)
    with pytest.raises(InputError, match=r"cannot read .*a\.part"):
        Part.load(tmp_path / "a.part")
    with pytest.raises(InputError, match=r"cannot read .*missing"):
        Part.load(tmp_path / "missing")


@pytest.mark.daily(4)
@pytest.mark.parametrize("mechanism", [None, smooth, tm.TableMechanism(workload=tm.workload.Marginals(3)),
                                       tm.MomentMechanism(workload=tm.workload.SecondMoments(2))])
def test_a_design_comes_back_from_its_file(tmp_path, mechanism):
    design = tm.design(N, SCHEMA, BUDGET, mechanism)
    design_file.save(tmp_path / "design.json", design)
    loaded = design_file.load(tmp_path / "design.json")
    part = tm.measure_part(table(), design)
    assert tm.measure_part(table(), loaded).question == part.question
    after = tm.release_parts([part], loaded, np.random.default_rng(0))
    if isinstance(after, tm.Design):
        design_file.save(tmp_path / "next.json", after)
        again = design_file.load(tmp_path / "next.json")
        assert tm.measure_part(table(), again).question == tm.measure_part(table(), after).question


def test_draws_of_any_shape_come_back_from_a_design_s_file(tmp_path):
    charge = tm.Charge("axes", "gaussian", 2.0, 1.0, "L2", 3, "here")
    draws = [(charge, np.random.default_rng(0).normal(size=shape)) for shape in ((3,), (2, 3), (1, 1, 2), (0,))]
    history = History("run", 7, 4, tuple(draws))
    design_file.save(tmp_path / "a.json", tm.design(N, SCHEMA, BUDGET).after(history))
    again = design_file.load(tmp_path / "a.json").history
    assert (again.run, again.seed, again.round) == ("run", 7, 4)
    for (own, drawn), (other, before) in zip(again.draws, draws, strict=True):
        assert own == other
        assert (drawn.dtype, drawn.shape, drawn.tobytes()) == (before.dtype, before.shape, before.tobytes())


def test_a_design_of_a_file_that_was_changed_is_refused(tmp_path):
    path = tmp_path / "design.json"
    design_file.save(path, tm.design(N, SCHEMA, BUDGET))
    good = json.loads(path.read_text())
    for change, words in (({"n": 601}, "a different design"), ({"version": "0.0.0"}, "another version"),
                          ({"format": "else"}, "not a design"), ({"mechanism": {"is": "Budget"}}, "no 'Budget'"),
                          ({"mechanism": {"is": "TableMechanism", "more": 1}}, "options do not fit"), ({"n": "x"}, "n"),
                          ({"history": {"run": "a"}}, "history")):
        path.write_text(json.dumps(good | change))
        with pytest.raises(InputError, match=words):
            design_file.load(path)
    path.write_text("[" * 100_000)
    with pytest.raises(InputError, match="cannot read"):
        design_file.load(path)


def test_a_mechanism_of_somebody_s_own_is_not_written(tmp_path):
    class Own(tm.TableMechanism):
        pass

    with pytest.raises(InputError, match="Own cannot be written"):
        design_file.save(tmp_path / "design.json", tm.design(N, SCHEMA, BUDGET, Own()))


# The command line

def command(monkeypatch, *words, status=0):
    output, error = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "argv", ["trigmech", "part", *map(str, words)])
    with pytest.raises(SystemExit) as done, redirect_stdout(output), redirect_stderr(error):
        main()
    assert (done.value.code or 0) == status, error.getvalue()
    return output.getvalue() + error.getvalue()


def test_the_commands_on_parts_replace_nothing_but_their_own(tmp_path, monkeypatch):
    from trigmech.schema import toml

    call = partial(command, monkeypatch)
    monkeypatch.chdir(tmp_path)
    toml.save("schema.toml", SCHEMA)
    table().to_csv("data.csv", index=False)
    design = ("design", "--schema", "schema.toml", "--n", N, "--epsilon", 1, "--delta", 1e-6, "--smooth", "--out")
    call(*design, "design.json")
    call(*design, "shared.json", "--shares")
    measure, share = ("measure", "data.csv", "--design", "design.json", "--out"), (
        "share", "data.csv", "--design", "shared.json", "--party", 1, "--parties", 1, "--out")
    call(*measure, "a.part")
    call(*share, "a.share")
    tm.LedgerFile.create("ledger.json", BUDGET)
    call("release", "a.part", "--design", "design.json", "--out", "paid.tm")
    Path("notes.txt").write_text("mine")
    ours = {"a.part", "a.share"}
    Path("ledger.json.lock").unlink()
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words in (design, measure, share, ("add", "a.part", "--out"),
                  ("release", "a.part", "--design", "design.json", "--out", "new.tm", "--next")):
        for name in set(kept) - (ours if words[0] not in ("design", "release") else {"design.json", "shared.json"}):
            said = call(*words, name, status=2)
            assert f"{name!r} exists and is no" in said or "given twice" in said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    # What is made again takes its own place.
    call(*design, "design.json")
    call(*measure, "a.part")


def test_the_next_round_has_a_name_of_its_own_and_files_are_read_as_the_schema_file_says(tmp_path, monkeypatch):
    from trigmech.schema import toml

    call = partial(command, monkeypatch)
    monkeypatch.chdir(tmp_path)
    toml.save("schema.toml", SCHEMA, {"delimiter": ";", "missing": ["n/a"]})
    toml.save("other.toml", CUBE)
    table().to_csv("data.csv", index=False, sep=";", na_rep="n/a")
    call("design", "--schema", "schema.toml", "--n", N, "--epsilon", 1, "--delta", 1e-6, "--out", "all.json")
    assert "lacks the column" in call("measure", "data.csv", "--design", "all.json", "--out", "a.part", status=2)
    assert "is not the design's schema" in call("measure", "data.csv", "--design", "all.json", "--schema",
                                                      "other.toml", "--out", "a.part", status=2)
    design = "all.json"
    for following in ("all.round2.json", "all.round3.json", "all.round4.json", None):
        call("measure", "data.csv", "--design", design, "--schema", "schema.toml", "--out", "a.part")
        said = call("release", "a.part", "--design", design, "--ledger", "ledger.json", "--out", "all.tm")
        if Path("all.tm").exists():
            break
        assert f"the design of the next round is {following}" in said
        design = following
    assert tm.load("all.tm").n == N


def test_three_files_are_released_by_the_command_line(tmp_path, monkeypatch):
    from trigmech.schema import toml

    call = partial(command, monkeypatch)

    toml.save(tmp_path / "schema.toml", SCHEMA)
    for k, part in enumerate(cut(table(), 3)):
        part.to_csv(tmp_path / f"{k}.csv", index=False)
    call("design", "--schema", tmp_path / "schema.toml", "--n", N, "--epsilon", 1, "--delta", 1e-6, "--out",
         tmp_path / "design.json")
    design, parts = tmp_path / "design.json", [tmp_path / f"{k}.part" for k in range(3)]
    out = tmp_path / "all.tm"
    for r in range(4):
        for k, part in enumerate(parts):
            call("measure", tmp_path / f"{k}.csv", "--design", design, "--out", part)
        call("add", *parts[:2], "--out", tmp_path / "two.part")
        assert "600 persons" in call("add", tmp_path / "two.part", parts[2], "--out", tmp_path / "three.part")
        following = tmp_path / f"next{r}.json"
        release = ("release", tmp_path / "two.part", parts[2], "--design", design, "--out", out, "--ledger",
                   tmp_path / "ledger.json", "--next", following)
        if r == 1:
            # It was charged, and is ended before it has written anything.
            with monkeypatch.context() as patch:
                patch.setattr(tm, "release_parts", lambda *given, **options: (
                    Path(options["rounds"]).touch(), (_ for _ in ()).throw(KeyboardInterrupt)))
                told = call(*release, status=130)
            assert f"run the same command again to continue from {out}.rounds; nothing is charged twice" in told
        call(*release)
        if out.exists():
            break
        design = following
    assert tm.load(out).n == N
    assert not out.with_name("all.tm.rounds").exists()
    shown = json.loads(call("show", *parts, "--json"))
    assert sum(part["persons"] for part in shown["parts"]) == N
    # Wrong input.
    assert "exists" in call("release", *parts, "--design", design, "--out", out, status=2)
    other = tmp_path / "other.tm"
    assert "added twice" in call("release", parts[0], parts[0], "--design", design, "--out", other, status=2)
    assert "cannot read" in call("show", tmp_path / "ledger.json", status=2)
    assert "not a design" in call("measure", tmp_path / "0.csv", "--design", tmp_path / "ledger.json", "--out",
                                  parts[0], status=2)
    assert "cannot read" in call("release", tmp_path / "no.part", "--design", design, "--out", other, status=2)
    call("release", status=2)
    call("measure", tmp_path / "0.csv", "--design", design, "--out", "-", status=2)


def test_a_release_of_parts_that_cannot_be_saved_is_paid_once(tmp_path, monkeypatch):
    from trigmech.schema import toml

    call, calls = partial(command, monkeypatch), []
    monkeypatch.chdir(tmp_path)
    toml.save("schema.toml", tm.Schema([tm.Column("x", 0, 1)]))
    pd.DataFrame({"x": np.random.default_rng(0).random(300)}).to_csv("data.csv", index=False)
    call("design", "--schema", "schema.toml", "--n", 300, "--epsilon", 1, "--smooth", "--out", "design.json")
    call("measure", "data.csv", "--design", "design.json", "--out", "a.part")
    release = ("release", "a.part", "--design", "design.json", "--out", "made.tm", "--ledger", "ledger.json")

    def full(self, path):
        calls.append(path)
        raise OSError(28, "secret")

    with monkeypatch.context() as patch:
        patch.setattr(tm.Synthesis, "save", full)
        said = call(*release, status=8)
    assert "cannot write 'made.tm': No space left on device. The drawn values are in 'made.tm.rounds'" in said
    assert (len(calls), "secret" in said) == (1, False)
    paid = [entry.charge for entry in tm.LedgerFile.open("ledger.json").entries]
    call(*release)
    assert [entry.charge for entry in tm.LedgerFile.open("ledger.json").entries] == paid == tm.load(
        "made.tm").ledger.charges
