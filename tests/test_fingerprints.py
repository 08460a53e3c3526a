"""Which code made a result: fingerprints by behaviour, marks on pages, and own rows that are run again."""

import importlib
import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from experiments import __main__ as program
from experiments import cells, comparison, fingerprints, frames, tables
from experiments.asked import Asked
from experiments.datasets import DatasetMissing
from experiments.protocols import boards, pages

RESULTS = cells.RESULTS
# The pages of headline tables, in the order in which README's readers come to them.
HEADLINES = "".join((cells.HERE.parent / name).read_text(encoding="utf-8")
                    for name in ("README.md", "docs/results.md", "docs/thesis.md"))
# The tables of smooth queries, on a page that may have rows of older code.
SMOOTH = (cells.HERE.parent / "docs" / "comparison.md").read_text(encoding="utf-8").split(
    "## Smooth queries of the thesis\n")[1]


@pytest.fixture
def results(tmp_path):
    """A folder of results that know of this code, and of an older one of each mechanism."""
    known = {name: [{"id": "old", "numbers": [[[0.0]]]}, {"id": f"now of {name}", "numbers": [[[1.0]]]}]
             for name in fingerprints.OWN}
    (tmp_path / fingerprints.KNOWN).write_text(json.dumps(known))
    return tmp_path


def note(results, file, **made):
    path = results / fingerprints.MADE
    noted = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(noted | {file: {"trigmech": "0.1.0", "code": made}}))


def older_rows(text):
    return [line for line in text.splitlines() if line.startswith("|") and fingerprints.OLDER in line]


NOW = {name: f"now of {name}" for name in fingerprints.OWN}


# The golden runs see changes of pure ones by day.
@pytest.mark.daily("MomentMechanism", "the thesis's")  # Tables are golden cases by day.
@pytest.mark.parametrize("mechanism", fingerprints.OWN)
def test_the_code_gives_what_is_noted_of_it(mechanism):
    noted = fingerprints.known(RESULTS)[mechanism][-1]["numbers"]
    assert fingerprints.alike(fingerprints.computed(mechanism), noted), (
        "the code gives other numbers than it did: note them by `python -m experiments fingerprints`, mark older "
        "results by `python -m experiments pages`, and run the experiments again that README and docs/results.md show")


def test_no_headline_table_holds_a_figure_of_older_code():
    assert older_rows(HEADLINES) == [], "run these experiments again, then `python -m experiments pages`"


def smaller(function):
    return lambda *given, **named: 0.999 * function(*given, **named)


@pytest.mark.daily(5)
@pytest.mark.parametrize(("mechanism", "where", "other"), [
    pytest.param(fingerprints.DEFAULT, "trigmech.reconstruction.tables.FIRMNESS_BY_ROWS", lambda value: 0.8 * value,
                 marks=pytest.mark.nightly),
    (fingerprints.PURE_DEFAULT, "trigmech.reconstruction.rows.LEAST_GAIN", lambda value: 10.0 * value),
    (fingerprints.EQUAL, "experiments.protocols.boards.equal_epsilon", smaller),
    (fingerprints.SMOOTH, "trigmech.reconstruction.pipeline.LEAST_MOVE", lambda value: 0.5 * value),
    (fingerprints.PURE_SMOOTH, "trigmech.reconstruction.pipeline.LEAST_MOVE", lambda value: 0.5 * value),
    (fingerprints.THESIS, "trigmech.thesis.mechanisms.ellipsoid_points", smaller)])
def test_other_behaviour_has_another_fingerprint(monkeypatch, mechanism, where, other):
    # Remembered from here on, so first of all.
    before = fingerprints.computed(mechanism)
    module, _, name = where.rpartition(".")
    monkeypatch.setattr(where, other(getattr(importlib.import_module(module), name)))
    assert not fingerprints.alike(fingerprints._computed(mechanism), before)


@pytest.mark.nightly  # By day other behaviour of each kind of mechanism has another one, above.
def test_other_samples_of_the_same_release_have_another_fingerprint(monkeypatch):
    before = fingerprints._computed(fingerprints.PURE_DEFAULT)
    assert fingerprints.alike(before, fingerprints.computed(fingerprints.PURE_DEFAULT))
    monkeypatch.setattr("trigmech.reconstruction.mixing.APART", 0.5)
    assert not fingerprints.alike(before, fingerprints._computed(fingerprints.PURE_DEFAULT))


def test_fingerprints_are_alike_but_for_rounding_and_for_fewer_than_half_of_the_runs():
    one = [[[1.0, 200.0], [2.0, 3.0], [4.0, 5.0]], [[7.0]]]

    def other(*places, by=1.0):
        made = json.loads(json.dumps(one))
        for kind, run in places:
            made[kind][run][0] += by
        return made

    assert fingerprints.alike(one, other((0, 0), (0, 1), (0, 2), (1, 0), by=1e-8))
    assert fingerprints.alike(one, other((0, 1)))
    assert not fingerprints.alike(one, other((0, 1), (0, 2)))
    assert not fingerprints.alike(one, other((1, 0), by=1e-4))
    assert not fingerprints.alike(one, one[:1])
    assert not fingerprints.alike(one, [[one[0][0]], one[1]])
    assert not fingerprints.alike(one, [one[0], [[7.0, 7.0]]])


def test_what_the_code_gives_is_noted_once_and_last(tmp_path, monkeypatch):
    given = {name: [[[float(i)]]] for i, name in enumerate(fingerprints.OWN)}
    monkeypatch.setattr(fingerprints, "computed", lambda mechanism: given[mechanism])
    first = fingerprints.now(tmp_path)
    assert len(set(first.values())) == len(fingerprints.OWN)
    text = (tmp_path / fingerprints.KNOWN).read_text()
    assert fingerprints.now(tmp_path) == first
    assert (tmp_path / fingerprints.KNOWN).read_text() == text
    given[fingerprints.SMOOTH] = [[[0.5]]]
    second = fingerprints.now(tmp_path)
    assert {name for name in fingerprints.OWN if second[name] != first[name]} == {fingerprints.SMOOTH}
    assert [len(every) for every in fingerprints.known(tmp_path).values()].count(2) == 1
    # What it gave before it may give again.
    given[fingerprints.SMOOTH] = [[[float(fingerprints.OWN.index(fingerprints.SMOOTH))]]]
    assert fingerprints.now(tmp_path) == first
    assert [each["id"] for each in fingerprints.known(tmp_path)[fingerprints.SMOOTH]] == [
        second[fingerprints.SMOOTH], first[fingerprints.SMOOTH]]


def test_results_are_of_older_code_unless_they_are_known_to_be_of_this_one(results):
    own = frozenset(fingerprints.SHOWN["nist"])
    assert fingerprints.older("nist", results) == own
    (results / fingerprints.MADE).write_text(json.dumps({"nist.csv": {"trigmech": "0.1.0", "commit": "abc"}}))
    assert fingerprints.older("nist", results) == own
    note(results, "nist.csv", **NOW)
    assert fingerprints.older("nist", results) == frozenset()
    note(results, "nist.csv", **(NOW | {fingerprints.EQUAL: "old"}))
    assert fingerprints.older("nist", results) == {fingerprints.EQUAL}
    assert fingerprints.older("linear", results) == frozenset()
    (results / fingerprints.KNOWN).unlink()
    assert fingerprints.older("nist", results) == own


def test_a_published_file_is_noted_with_the_code_of_what_it_shows(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprints, "computed", lambda mechanism: [[[float(len(mechanism))]]])
    cells.publish(tmp_path / "figure_3_2.csv", "a\n1\n")
    cells.publish(tmp_path / "linear.csv", "a\n1\n")
    noted = json.loads((tmp_path / fingerprints.MADE).read_text())
    assert noted["figure_3_2.csv"]["code"] == {fingerprints.THESIS: fingerprints.now(tmp_path)[fingerprints.THESIS]}
    assert "code" not in noted["linear.csv"]
    assert fingerprints.older("figure_3_2", tmp_path) == frozenset()


@pytest.mark.nightly  # By day marks of single pages, rows and sentences are tested below.
def test_every_page_of_results_marks_what_older_code_made(results):
    # Comparisons take long, and have a test of their own.
    stems = [stem for stem in fingerprints.SHOWN if (RESULTS / f"{stem}.md").exists() and stem[0] != "w"]
    assert len(stems) > 18
    for stem in stems:
        for file in RESULTS.glob(f"{stem}.*"):
            (results / file.name).write_bytes(file.read_bytes())
        file = f"{stem}.csv" if (results / f"{stem}.csv").exists() else f"{stem}.md"
        note(results, file, **NOW)
        clean = pages.rewritten(stem, results)
        (results / f"{stem}.md").write_text(clean)
        assert not older_rows(clean), stem
        assert fingerprints.START not in clean
        mechanism = fingerprints.SHOWN[stem][-1]
        note(results, file, **(NOW | {mechanism: "old"}))
        marked = pages.rewritten(stem, results)
        if stem in fingerprints.BY_ROWS:
            assert set(older_rows(marked)) - set(older_rows(clean)), stem
        else:
            assert f"{fingerprints.START}{mechanism}{fingerprints.END}" in marked


def test_a_sentence_of_older_code_comes_and_goes(results):
    page = "# Title\n\nWords.\n"
    marked = fingerprints.marked(page, "curves", results)
    assert marked == (f"# Title\n\n{fingerprints.START}{fingerprints.SMOOTH}, {fingerprints.PURE_SMOOTH}"
                      f"{fingerprints.END}Words.\n")
    assert fingerprints.marked(marked, "curves", results) == marked
    note(results, "curves.csv", **NOW)
    assert fingerprints.marked(marked, "curves", results) == page


@pytest.mark.nightly  # By day lines of older code are found, here.
def test_tables_of_pages_mark_rows_of_older_code(results):
    for stem in ("nist", "adult", "w1", "w2", "w3", "table_3_3"):
        (results / f"{stem}.csv").write_bytes((RESULTS / f"{stem}.csv").read_bytes())
        note(results, f"{stem}.csv", **NOW)
    pages.best_of.cache_clear()
    assert older_rows(pages.filled(HEADLINES + SMOOTH, results)) == []
    note(results, "w3.csv", **(NOW | {fingerprints.DEFAULT: "old"}))
    note(results, "table_3_3.csv", **(NOW | {fingerprints.THESIS: "old"}))
    note(results, "nist.csv", **(NOW | {fingerprints.SMOOTH: "old"}))
    found = older_rows(pages.filled(HEADLINES + SMOOTH, results))
    assert [row.split(" | ")[0].strip("| ") or row.split(" | ")[1] for row in found if "smooth" in row] == [
        "smooth (older code)"]
    assert sum("| default (older code) |" in row for row in found) == 5
    assert sum("published (older code)" in row or "rigorous (older code)" in row for row in found) == 10
    assert len(found) == 16


def with_ours(committed, new):
    return frames.with_new(committed, new, ["dataset", "method", "epsilon"], partial(boards.again, Asked()))


@pytest.mark.parametrize("name", boards.PROTOCOLS)
def test_lines_of_rivals_stay_to_the_letter_where_ours_are_run_again(name):
    path = RESULTS / f"{name}.csv"
    committed = frames.read_csv(path)
    own = committed["method"].isin((*boards.OWN, *boards.NOT_PRIVATE))
    todo = boards.own_cells(boards.PROTOCOLS[name], committed, 30.0)
    assert {(cell.dataset, cell.method, cell.epsilon) for cell in todo} == {
        tuple(key) for key in committed[own][["dataset", "method", "epsilon"]].itertuples(index=False)}
    for (dataset, method, epsilon), group in committed[own].groupby(["dataset", "method", "epsilon"]):
        seeds = [cell.seed for cell in todo if (cell.dataset, cell.method, cell.epsilon) == (dataset, method, epsilon)]
        assert seeds == list(range(group["seeds"].max()))
    new = committed[own].iloc[::-1].assign(mean=lambda lines: lines["mean"] + 1.0)
    made = with_ours(committed, new)
    text = made.to_csv(index=False, float_format="%.6g", lineterminator="\n").splitlines()
    before = path.read_text(encoding="utf-8").splitlines()
    places = np.flatnonzero(~own.to_numpy()) + 1
    rivals = made["method"].isin((*boards.OWN, *boards.NOT_PRIVATE)).to_numpy()
    assert [text[i] for i in np.flatnonzero(~rivals) + 1] == [before[i] for i in places]
    assert made["mean"].sum() == pytest.approx(committed["mean"].sum() + own.sum())
    assert len(made) == len(committed)
    # In the place of the old lines, nothing else being new.
    same = with_ours(committed, committed[own])
    assert same.to_csv(index=False, float_format="%.6g", lineterminator="\n") == path.read_text(encoding="utf-8")


def test_lines_that_do_not_take_the_place_of_others_are_refused():
    committed = frames.read_csv(RESULTS / "adult.csv")
    own = committed[committed["method"].isin((*boards.OWN, *boards.NOT_PRIVATE))]
    with pytest.raises(ValueError, match=r"'smooth', 1.*new lines do not$"):
        with_ours(committed, own[own["method"] != "smooth"])
    with pytest.raises(ValueError, match=r"-dpmm', 1.*new lines do$"):
        with_ours(committed, committed)
    with pytest.raises(ValueError, match=r"do not have .*another.*new lines do$"):
        with_ours(committed, pd.concat([own, own[:3].assign(dataset="another")]))


def test_own_rows_are_run_again_and_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(fingerprints, "computed", lambda mechanism: [[[float(len(mechanism))]]])
    (tmp_path / "adult.csv").write_bytes((RESULTS / "adult.csv").read_bytes())
    before = frames.read_csv(tmp_path / "adult.csv")
    asked = []

    def ran(todo, jobs, title):
        asked.append(todo)
        return [(cell, {"scores": {"auc": 0.5 + cell.seed / 100}, "seconds": 1.0}) for cell in todo]

    monkeypatch.setattr(cells, "run_cells", ran)
    done = CliRunner().invoke(program.app, ["run", "adult", "--ours", "--jobs", "2"])
    assert done.exit_code == 0, done.output
    after = frames.read_csv(tmp_path / "adult.csv")
    rivals = [lines[~lines["method"].isin((*boards.OWN, *boards.NOT_PRIVATE))].reset_index(drop=True)
              for lines in (before, after)]
    assert rivals[0].equals(rivals[1])
    own = after[(after["dataset"] == "adult") & (after["method"] == "default")].set_index("measure")
    assert set(own.index) == {"auc", "seconds", "failures"}
    assert own.loc["auc", ["mean", "seeds"]].tolist() == [0.52, 5]
    assert {cell.protocol for cell in asked[0]} == {"adult"}
    assert fingerprints.older("adult", tmp_path) == frozenset()
    assert older_rows((tmp_path / "adult.md").read_text(encoding="utf-8")) == []


def test_one_mechanism_of_a_comparison_is_run_again_and_all_other_lines_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(fingerprints, "computed", lambda mechanism: [[[float(len(mechanism))]]])
    (tmp_path / "w2.csv").write_bytes((RESULTS / "w2.csv").read_bytes())
    before, asked = (tmp_path / "w2.csv").read_text(encoding="utf-8").splitlines(), []

    def ran(todo, jobs, title):
        asked.extend(todo)
        errors = {kind: [0.25] * 3 for kind in comparison.KINDS}
        return [(cell, {"seconds": 1.0, "distinct": 7, "proved_epsilon": 1.0, "w2": errors}) for cell in todo]

    monkeypatch.setattr(cells, "run_cells", ran)
    names = tuple(dict.fromkeys(line.split(",")[0] for line in before[1:]))
    program.EXPERIMENTS["w2"](Asked(names, methods=(fingerprints.SMOOTH,), ours=True))
    after = (tmp_path / "w2.csv").read_text(encoding="utf-8").splitlines()
    own = [",B,MomentMechanism," in line for line in before]
    assert 0 < sum(own) < len(own)
    assert len(after) == len(before)
    for old, line, ours in zip(before, after, own, strict=True):
        assert line == old if not ours else line.split(",")[7] in ("0.25", "1", "7")
    assert {(dict(cell.arguments)["mechanism"], dict(cell.arguments)["delta"]) for cell in asked} == {
        ("MomentMechanism", 1e-3)}
    assert fingerprints.SMOOTH not in fingerprints.older("w2", tmp_path)
    assert fingerprints.DEFAULT in fingerprints.older("w2", tmp_path)


@pytest.mark.parametrize("more", [
    ("--datasets", "wdbc"), ("--methods", "default"), ("--seeds", "1"), ("--eps", "2"), ("--cells", "16"), ("--quick",),
    ("--finished",)])
def test_own_rows_are_run_again_as_they_are_committed_or_not_at_all(more):
    done = CliRunner().invoke(program.app, ["run", "adult", "--ours", *more])
    assert done.exit_code == 2
    assert CliRunner().invoke(program.app, ["run", "adult", "w1", "--ours"]).exit_code == 2


def test_a_data_set_that_is_not_there_keeps_its_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "CACHE", tmp_path)
    monkeypatch.setattr(boards, "CACHE", tmp_path)
    text = (RESULTS / "aim.csv").read_text(encoding="utf-8")
    (tmp_path / "aim.csv").write_text(text)

    def missing(name):
        raise DatasetMissing(name)

    monkeypatch.setattr(boards, "loaded", missing)
    with pytest.raises(DatasetMissing):
        program.EXPERIMENTS["aim"](Asked(ours=True))
    assert (tmp_path / "aim.csv").read_text(encoding="utf-8") == text


def test_comparisons_mark_each_setting_by_its_own_mechanism():
    older = frozenset({fingerprints.PURE_DEFAULT, fingerprints.THESIS})
    assert [comparison.labelled(name, setting, older) for setting in "AB" for name in comparison.OWN] == [
        "MomentMechanism", "TableMechanism (older code)", "ImprovedTrigI", "ImprovedTrigII (older code)",
        "MomentMechanism", "TableMechanism", "ImprovedTrigI", "ImprovedTrigII (older code)"]
    assert comparison.labelled("diagonal", "A", older) == "diagonal"
    assert set(tables.CHOSEN) <= set(fingerprints.BY_ROWS)
