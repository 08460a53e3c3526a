"""How an experiment is declared: what a run is of, what its files are called, and that pages are made of them alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from experiments import cells, every, frames
from experiments.asked import NUMBERS, Asked, LeftOut
from experiments.cells import call
from experiments.companions import marginals, statements
from experiments.declare import Experiment, calls_of, with_budgets
from experiments.frames import means, read_csv
from experiments.protocols import data

EPSILONS = ((1.0,), (1.0, 3.0))


def thirds(source, epsilon, seed):
    return {"third": epsilon / 3.0 + seed, "size": len(data.loaded(source)[0])}


toy = Experiment(
    name="toy", what="thirds", inputs=("one", "two"), quick=("one",), seeds=(1, 2), epsilons=EPSILONS,
    size=("few", "many"),
    cells=lambda asked: {call(thirds, each.source, epsilon, seed): {"table": each.source, "epsilon": epsilon}
                         for each in asked.inputs for epsilon in asked.epsilons for seed in range(asked.seeds)},
    table=lambda lines: means(lines, ["table", "epsilon", "measure"]), formats={"value": ".3g"},
    page=lambda lines, asked: [f"{asked.seeds} {asked.size}", *map(str, lines.to_numpy().tolist())])


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Two sets; "gone" is not to be had."""
    for rows, name in enumerate(("one", "two"), 1):
        table = pd.DataFrame({"x": np.zeros(rows)})
        monkeypatch.setitem(data.SETS, name, data.TableSet(name, (), lambda table=table: (table, tm.Schema.cube(1))))
    data.loaded.cache_clear()
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "run_cells", lambda todo, jobs, title: (
        (cell, cell.compute()) for cell in reversed(list(todo))))
    yield tmp_path
    data.loaded.cache_clear()


def told(source, rows, method, epsilon, kind, seed, size):
    return {}


def test_calls_are_of_all_combinations_and_lines_say_all_but_the_seed():
    asked = Asked(inputs=(data.Sample("one"), data.Sample("two", 9)), epsilons=(1.0, 3.0), seeds=2)
    budgets = with_budgets(("real",), ("best",), asked)
    assert budgets == [("real", 0.0), ("best", 1.0), ("best", 3.0)]
    found = calls_of(told, asked, 7, table=asked.inputs, method_epsilon=budgets, kind="ab")
    assert found == {call(told, source, rows, method, epsilon, kind, seed, 7): {
        "table": name, "method": method, "epsilon": epsilon, "kind": kind}
        for source, rows, name in (("one", 0, "one"), ("two", 9, "two, 9 rows")) for method, epsilon in budgets
        for kind in "ab" for seed in (0, 1)}


@pytest.mark.parametrize(("asked", "stem", "tables", "epsilons", "head"), [
    ({}, "toy", ["one", "two"], [1.0, 3.0], "2 many"), ({"quick": True}, "toy_quick", ["one"], [1.0], "1 few"),
    ({"sets": ("two",)}, "toy_partial", ["two"], [1.0, 3.0], "2 many"),
    ({"sets": ("one", "two"), "seeds": 4}, "toy", ["one", "two"], [1.0, 3.0], "4 many"),
    ({"epsilons": (2.0,)}, "toy_partial", ["one", "two"], [2.0], "2 many"),
    ({"quick": True, "epsilons": (2.0,)}, "toy_quick_partial", ["one"], [2.0], "1 few")])
def test_a_run_is_of_what_is_asked_and_results_of_a_part_replace_no_others(results, asked, stem, tables, epsilons,
                                                                           head):
    page = toy(Asked(**asked))
    assert page == results / f"{stem}.md"
    lines = read_csv(results / f"{stem}.csv")
    # In the order of the cells, whichever was done first.
    assert list(dict.fromkeys(lines["table"])) == tables
    assert list(dict.fromkeys(lines["epsilon"])) == epsilons
    own = lines[(lines["table"] == tables[-1]) & (lines["measure"] == "third")]["value"]
    seeds = int(head.split()[0])
    assert own.tolist() == [float(f"{epsilon / 3.0 + (seeds - 1) / 2.0:.3g}") for epsilon in epsilons]
    assert page.read_text(encoding="utf-8").splitlines()[0] == head


def test_a_run_on_numbers_is_whole_with_the_thesiss_sets_at_the_usual_budgets(results):
    of_numbers = replace(toy, inputs=(), numbers=True, cells=lambda asked: {
        call(thirds, "one", epsilon, 0): {"table": "one", "epsilon": epsilon} for epsilon in asked.epsilons})
    every_set = tuple(sorted(NUMBERS))
    assert of_numbers(Asked(every_set)).stem == of_numbers(Asked((*every_set, "ADULT"))).stem == "toy"
    assert of_numbers(Asked(every_set[1:])).stem == of_numbers(Asked(every_set, epsilons=(2.0,))).stem == "toy_partial"


def test_a_page_is_made_of_its_file_alone(results):
    page = toy(Asked())
    assert toy.committed(results) == page.read_text(encoding="utf-8")
    assert "0.833" in toy.committed(results)
    assert "0.8333" not in toy.committed(results)


def test_the_words_of_a_page_are_its_file_and_lines_stand_where_it_says(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "HERE", tmp_path)
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "one.md").write_text("# {title}\n\n{lines}\n\n{two[1]:.1f}, {n:,}\n\n", encoding="utf-8")
    assert frames.worded("one", title="A", lines=["b", "", "c"], two=(1, 2.04), n=1_000) == [
        "# A", "", "b", "", "c", "", "2.0, 1,000", ""]
    with pytest.raises(KeyError):
        frames.worded("one", title="A")


def test_each_file_of_words_is_used():
    source = "".join(path.read_text(encoding="utf-8") for path in cells.HERE.rglob("*.py"))
    assert [path.name for path in (cells.HERE / "pages").glob("*.md") if f'"{path.stem}"' not in source] == []


def test_what_is_not_at_hand_is_said_and_without_any_input_the_experiment_is_left_out(results, capsys):
    assert replace(toy, inputs=("gone", "one"))(Asked()) == results / "toy_partial.md"
    assert "left out: no data set is called 'gone'" in capsys.readouterr().out
    nothing = replace(toy, inputs=("gone",))
    with pytest.raises(LeftOut):
        nothing(Asked())
    assert replace(nothing, needed=False, cells=lambda asked: {call(thirds, "one", 3.0, 0): {
        "table": "one", "epsilon": 3.0}})(Asked()) == results / "toy_partial.md"


def test_lines_are_not_run_again_where_a_table_is_not_at_hand(results):
    """It would end in an error after all has been run."""
    again = replace(toy, inputs=("gone", "one"), keys=("table",), again=lambda asked, key: True)
    with pytest.raises(LeftOut, match="not at hand; nothing was run again"):
        again(Asked(ours=True))
    assert not list(results.glob("toy*"))


def test_every_declaration_has_a_name_of_its_own_and_says_what_it_does():
    found = [each for module in every.MODULES for each in every.declared_in(module)]
    assert len(every.EXPERIMENTS) == len(found) == len({each.name for each in found})
    for each in found:
        assert each.what


@pytest.mark.nightly  # By day one mechanism of a comparison is run again, in test_fingerprints.py.
def test_marginals_of_this_package_are_run_again_and_all_others_stay(tmp_path, monkeypatch):
    committed = cells.RESULTS / "marginals.csv"
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    (tmp_path / "marginals.csv").write_bytes(committed.read_bytes())
    monkeypatch.setattr(statements, "at_hand", lambda names, load: tuple(names))
    monkeypatch.setattr(cells, "run_cells", lambda todo, jobs, title: (
        (cell, dict.fromkeys(marginals.TARGETS[one["dataset"]], 0.25) if one["svm"] else {
            "seconds": 9.0, **{f"{k}-way": 0.125 for k in marginals.WAYS}})
        for cell in todo for one in [dict(cell.arguments)]))
    page = every.EXPERIMENTS["marginals"](Asked(ours=True)).read_text(encoding="utf-8")
    before, after = (read_csv(path) for path in (committed, tmp_path / "marginals.csv"))
    ours = before["method"] == marginals.OURS
    pd.testing.assert_frame_equal(after[~ours], before[~ours])
    assert set(after[ours]["mean"]) == {9.0, 0.125, 0.25}
    assert after[ours]["runs"].tolist() == before[ours]["runs"].tolist()
    # What the file does not say of runs without a table, it says by their number.
    start = "## Refused"
    assert page[page.index(start):page.index("## The source")] == (old := committed.with_suffix(".md").read_text(
        encoding="utf-8"))[old.index(start):old.index("## The source")]
