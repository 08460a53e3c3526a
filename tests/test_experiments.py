"""The experiments' machinery, on the data set that needs no download, and the promises on the committed results."""

import csv
import json
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import trigmech as tm
from experiments import __main__ as program
from experiments import (
    ablations,
    baselines,
    cells,
    comparison,
    coverage,
    curves,
    datasets,
    fingerprints,
    frames,
    parties,
    rates,
    runs,
    search,
    tables,
)
from experiments.asked import Asked
from experiments.cells import call
from experiments.companions import composition, net
from experiments.declare import measured
from experiments.protocols import boards, data, pages
from paper_figures import parties as parties_figure
from paper_figures.draw import draw_curves, draw_rates
from trigmech.evaluation.error_bars import PredictedError
from trigmech.privacy.accounting import gaussian_mu


@pytest.fixture
def folders(tmp_path, monkeypatch):
    for module in (cells, runs):
        monkeypatch.setattr(module, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(cells, "RESULTS", tmp_path / "results")
    return tmp_path


@pytest.mark.nightly
def test_a_cell_is_computed_once_and_is_the_same_when_computed_again(folders):
    cell = runs.release("WDBC", "ImprovedTrigII", {"n_candidates": 500}, delta=1e-3, n_queries=100)
    first = cells.run_cell(cell)
    path = cells.CACHE / f"{cell.key()}.json"
    marked = {**first, "marked": True}
    path.write_text(json.dumps(marked))
    assert cells.run_cell(cell) == marked
    path.unlink()
    again = cells.run_cell(cell)
    assert {**again, "seconds": 0} == {**first, "seconds": 0}


def broken(results, *names):
    return [failure for name in names for failure in program.EXPERIMENTS[name].broken(results)]


def test_the_committed_results_keep_the_promises():
    assert broken(cells.RESULTS, "table_3_2", "table_3_3") == []


NUMBER = re.compile(r"(\d+(?:\.\d+)?)")


@pytest.mark.daily("smooth-None", "table_3_3-None", "coverage-page10", "rates-page11", "coverage_tables-page12")
@pytest.mark.parametrize(("stem", "page"), [
    # The same page as w1 of other queries.
    *(pytest.param(stem, None, marks=[pytest.mark.nightly] * (stem in ("w2", "w3")))
      for stem in fingerprints.BY_ROWS),
    ("coverage", coverage.coverage), ("rates", rates.rates), ("coverage_tables", coverage.coverage_tables),
    ("net", net.of_net), ("composition", composition.of_composition)])
def test_committed_pages_are_what_their_committed_lines_make(stem, page):
    path = cells.RESULTS / f"{stem}.csv"
    text = pages.rewritten(stem, cells.RESULTS) if page is None else fingerprints.marked(
        page.committed(cells.RESULTS), stem, cells.RESULTS)
    made, committed = (NUMBER.split(text) for text in (text, path.with_suffix(".md").read_text(encoding="utf-8")))
    assert made[::2] == committed[::2], "python -m experiments pages"
    for one, other in zip(made[1::2], committed[1::2], strict=True):
        # The lines are rounded already: the last digit may be another.
        digits = min(len(number.partition(".")[2]) for number in (one, other))
        assert abs(float(one) - float(other)) <= 1.01 * 10.0**-digits * ("." in one or "." in other)


@pytest.mark.nightly
def test_the_check_notices_a_broken_promise(tmp_path):
    for table in ("table_3_2", "table_3_3"):
        text = (cells.RESULTS / f"{table}.csv").read_text()
        (tmp_path / f"{table}.csv").write_text(text)
    lines = (tmp_path / "table_3_3.csv").read_text().splitlines()
    slow = [line.rsplit(",", 2)[0] + ",99," if line.startswith("WDBC,rigorous,seconds") else line for line in lines]
    (tmp_path / "table_3_3.csv").write_text("\n".join(slow) + "\n")
    (told,) = broken(tmp_path, "table_3_2", "table_3_3")
    assert "slower" in told
    (tmp_path / "table_3_2.csv").unlink()
    assert any("missing" in failure for failure in broken(tmp_path, "table_3_2", "table_3_3"))


def test_pages_show_the_committed_table_and_comparison():
    compared, thesis = ((cells.HERE.parent / "docs" / name).read_text(encoding="utf-8")
                        for name in ("comparison.md", "thesis.md"))
    assert len(pages.worst(["table_3_3"], cells.RESULTS)) == 20
    for stems, page in ((["w1"], compared), (["w2", "w3"], compared), (["table_3_3"], thesis)):
        assert "\n".join(pages.worst(stems, cells.RESULTS)) in page, "python -m experiments pages"


@pytest.mark.parametrize("table", ["table_3_2", "table_3_3"])
def test_the_chosen_options_are_the_nearest_of_the_committed_search(table):
    with (cells.RESULTS / f"search_{table}.csv").open(encoding="utf-8") as file:
        nearest = next(csv.DictReader(file))
    chosen = tables.CHOSEN[table]
    for name in [*search.SEARCHED[table], *search.COMMON]:
        assert nearest[name] == ("" if chosen[name] is None else str(chosen[name]))


@pytest.mark.nightly  # By day experiments run, below, and fingerprints are compared.
def test_a_cell_measures_all_three_workloads_as_the_package_does(folders):
    cell = runs.release("WDBC", "ImprovedTrigII", {"n_candidates": 100}, delta=1e-3, n_queries=50, repetition=2)
    result = cells.run_cell(cell)
    X = runs.cube("WDBC")
    rng = np.random.default_rng([2, *b"WDBC"])
    release = tm.synthesize(X, tm.Schema.cube(30), tm.Budget(1.0, 1e-3), tm.ImprovedTrigII(n_candidates=100), rng)
    for which, workload in runs.workloads(30, 50).items():
        errors = workload.errors(X, release.distribution)
        np.testing.assert_allclose(result[which]["absolute"], errors.max(axis=0), rtol=1e-12)
        np.testing.assert_allclose(result[which]["typical"], np.median(errors, axis=0), rtol=1e-12)
    assert result["rows"] == 569
    assert 1 < result["distinct"] <= result["atoms"]
    assert result["largest"] == pytest.approx(release.distribution.weights.max() * len(release.distribution.weights))
    assert 1 < result["table"] <= min(result["rows"], result["distinct"])
    assert 0.999 < result["proved_epsilon"] <= 1.0


@pytest.mark.nightly
def test_baselines_are_cells(folders):
    cell = runs.release("WDBC", "histograms", {"bins": 4}, n_queries=50)
    result = cells.run_cell(cell)
    assert (result["atoms"], result["distinct"]) == (0, 0)
    assert 0.999 < result["proved_epsilon"] <= 1.0
    assert {len(result[which]["absolute"]) for which in ("w1", "w2", "w3")} == {5, 3, 1}


def twice(a, b=2, c=()):
    return {"product": 2 * a * b}


twice.__module__ = "experiments.frames"


def test_a_call_is_named_by_what_it_is_given_and_what_it_reaches(monkeypatch, tmp_path):
    assert call(twice, 3).compute() == {"product": 12}
    assert call(twice, 3) == call(twice, a=3, b=2)
    assert len({call(twice, 3).key(), call(twice, 4).key(), call(twice, 3, c=((1, "x"),)).key()}) == 3
    (tmp_path / "experiments").mkdir()
    for name, text in (("one", "from experiments import two\nimport numpy"), ("two", "def f():\n    import trigmech.a"),
                       ("three", "from experiments.one import what")):
        (tmp_path / "experiments" / f"{name}.py").write_text(text)
    (tmp_path / "trigmech").mkdir()
    (tmp_path / "trigmech" / "a.py").write_text("from trigmech.report import page")
    monkeypatch.setattr(cells, "ROOT", tmp_path)
    every = {"experiments.three", "experiments.one", "experiments.two", "trigmech.a"}
    assert cells.reached("experiments.three") == every
    before = cells.code_of.__wrapped__("experiments.three")
    (tmp_path / "trigmech" / "a.py").write_text("from trigmech.report import pages")
    assert (after := cells.code_of.__wrapped__("experiments.three")) != before
    # Descriptions of data are read by experiments, and not by the package.
    package = cells.code_of.__wrapped__("trigmech.a")
    (tmp_path / "experiments" / "expected").mkdir()
    (tmp_path / "experiments" / "expected" / "one.toml").write_text("low = 0")
    assert cells.code_of.__wrapped__("experiments.three") != after
    assert cells.code_of.__wrapped__("trigmech.a") == package


def made_up(dataset, row, errors, setting="B", proved=1.0, seconds=0.5, workload="w1", name=None, repetitions=1):
    """CSV lines of one method whose worst error is the given one for each width, in every repetition."""
    head = {"dataset": dataset, "setting": setting, "row": row, "method": row if name is None else f"{row} {name} bins"}
    numbers = [(workload, kind, sigma, error) for kind in comparison.KINDS
               for sigma, error in zip(frames.SIGMAS[workload], errors, strict=True)]
    numbers += [("", "seconds", "", seconds), ("", "distinct", "", 7), ("", "proved_epsilon", "", proved)]
    return comparison.summary(workload, pd.DataFrame([
        {**head, "workload": where, "what": what, "sigma": sigma, "value": value}
        for _ in range(repetitions) for where, what, sigma, value in numbers]))


@pytest.mark.nightly
def test_cells_above_the_goal_are_marked_and_counted():
    # The goals of PKS in setting B are .006 .002 .0007 .0003 .0002; one that is met exactly is met.
    lines = pd.concat([made_up("PKS", "MomentMechanism", [0.006, 0.0021, 0.0001, 0.0004, 0.0001]),
                       made_up("PKS", "diagonal", [0.9] * 5)])
    rows = comparison.rows_of(lines)
    assert comparison.missed("w1", "B", "MomentMechanism", rows) == (2, 5)
    text = comparison.page("w1", lines, Asked(size=10_000))
    (shown,) = [line for line in text if line.startswith("|  | MomentMechanism") and "✗" in line]
    assert "| 0.006 | 0.0021 ✗ | 0.0001 | 0.0004 ✗ | 0.0001 |" in shown
    assert sum("✗" in line for line in text) == 2  # that one, and the legend


def test_the_ratio_to_the_thesis_is_a_geometric_mean_over_the_cells_that_it_prints():
    printed = search.expected("table_3_3")
    rows = comparison.rows_of(pd.concat([
        made_up(dataset, "MomentMechanism", [max(printed[dataset, "absolute", width], 1e-9) / times
                                             for width in runs.WIDTHS])
        for dataset, times in (("PKS", 8.0), ("WDBC", 2.0), ("CRM", 2.0))]))
    # CRM has one cell printed as 0.000.
    assert comparison.ratio_to_thesis("B", "MomentMechanism", rows) == pytest.approx(2 ** ((15 + 5 + 4) / 14), rel=1e-4)
    assert comparison.ratio_to_thesis("B", "MomentMechanism", rows, large=True) == pytest.approx(8.0, rel=1e-4)
    assert math.isnan(comparison.ratio_to_thesis("A", "MomentMechanism", rows))


def test_rivals_stand_beside_our_tables_with_what_their_scoreboard_says():
    lines = frames.read_csv(comparison.SCOREBOARD)
    for workload, measures in (("w1", [f"w1_{sigma}" for sigma in frames.SIGMAS["w1"]]), ("w3", ["w3"])):
        table = {row[0].removesuffix(fingerprints.OLDER): row for row in comparison.rows_of_rivals(workload, "WDBC")}
        assert {"rows of smooth", "rows of default", "rows of DP-MERF-merf"} <= set(table)
        assert not any(name in row for row in table for name in boards.NOT_PRIVATE)
        own = lines[(lines["dataset"] == "wdbc") & (lines["method"] == "DP-MERF-merf")]
        best = own.groupby("measure")["mean"].min()
        assert table["rows of DP-MERF-merf"][1:1 + len(measures)] == [frames.shown(best[name]) for name in measures]
    assert comparison.rows_of_rivals("w1", "NEW") == []
    # The scoreboard's budget is that of setting B alone.
    assert boards.PROTOCOLS["smooth"].delta == comparison.SETTINGS["B"][1]


def test_lines_do_not_depend_on_which_cell_was_done_first(monkeypatch):
    todo = {call(twice, r): {"repetition": r} for r in range(4)}
    monkeypatch.setattr(cells, "run_cells", lambda cells, jobs, title: (
        (cell, {"seconds": 1.0 + repetition, "w2": {"absolute": [0.1, 0.2, repetition]}})
        for cell in reversed(list(cells)) for repetition in [dict(cell.arguments)["a"]]))
    lines = measured(todo, Asked(), "", frames.of_workloads)
    assert lines["repetition"].tolist() == [r for r in range(4) for _ in range(4)]
    assert lines[lines["what"] == "seconds"]["value"].tolist() == [1.0, 2.0, 3.0, 4.0]
    widest = lines[(lines["workload"] == "w2") & (lines["sigma"] == "1")]
    assert widest["value"].tolist() == [0, 1, 2, 3]
    upside_down = frames.arranged(lines.iloc[::-1], ["repetition", "what"], lines)
    assert upside_down["repetition"].tolist() == lines["repetition"].tolist()
    assert frames.formatted(lines.tail(1), value=".2f")["value"].tolist() == ["3.00"]
    assert frames.markdown(["a", "b"], [["x", 1]]) == ["| a | b |", "| --- | --- |", "| x | 1 |"]


@pytest.mark.nightly
def test_the_check_of_w1_notices_broken_promises_and_skips_what_is_not_there(tmp_path):
    assert broken(tmp_path, "w1") == []

    def written(*lines):
        pd.concat(lines).to_csv(tmp_path / "w1.csv", index=False)
        return broken(tmp_path, "w1")

    good = made_up("PKS", "MomentMechanism", [0.001, 0.001, 0.001, 0.001, 0.001])
    assert written(good) == []
    (told,) = written(good, made_up("PKS", "diagonal", [0.1] * 5, proved=1.01))
    assert "diagonal proved more" in told
    assert len(written(made_up("PKS", "MomentMechanism", [0.01] * 5))) == 2


def rows_beside(page):
    with page.with_suffix(".csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def in_this_process(todo, jobs, title):
    for cell in todo:
        yield cell, cells.run_cell(cell)


@pytest.fixture
def quickly(folders, monkeypatch):
    """Cells in this process, of 10 queries, without the progress bar's processes."""
    def run(todo, jobs, title):
        for cell in todo:
            yield cell, cells.run_cell(call(cell.function, **{**dict(cell.arguments), "n_queries": 10}))

    monkeypatch.setattr(cells, "run_cells", run)
    monkeypatch.setattr(comparison, "methods", lambda setting, quick: [
        ("uniform", {}, 1),
        *(("histograms", {"bins": bins}, 2) for bins in (4, 8))])
    monkeypatch.setattr(curves, "BEST", "diagonal")
    # Answers of a product need not be exact here: test_baselines holds them to the definition.
    monkeypatch.setattr(baselines, "SPLINE_POINTS", 17)
    return folders


@pytest.mark.nightly
def test_the_three_workloads_share_their_cells(quickly):
    for workload in ("w1", "w2", "w3"):
        path = program.EXPERIMENTS[workload](Asked(("WDBC",), quick=True))
        assert path.name == f"{workload}_quick_partial.md"
        rows = comparison.rows_of(frames.read_csv(path.with_suffix(".csv")))
        assert set(rows) == {("WDBC", setting, name) for setting in "AB" for name in ("uniform", "histograms")}
        assert {sigma for what, sigma in rows["WDBC", "B", "histograms"] if what == "absolute"} == set(
            frames.SIGMAS[workload])
    assert len(list(cells.CACHE.glob("runs-release_errors-*.json"))) == 2 * (1 + 4)


@pytest.mark.nightly  # By day they are written for another set, below.
def test_the_curves_are_written_and_drawn(quickly):
    path = curves.curves(Asked(("WDBC",), quick=True))
    rows = rows_beside(path)
    assert len(rows) == 3 * 3 * 3 * 2
    assert all(float(row["least"]) <= float(row["median"]) <= float(row["most"]) for row in rows)
    path.with_suffix(".csv").rename(path.parent / "curves.csv")
    picture = draw_curves(path.parent, quickly / "curves.png")
    assert picture.stat().st_size > 10_000


def test_one_of_three_releases_has_a_third_of_the_budget():
    assert ablations.split_budget(tm.Budget(0.9), 3) == tm.Budget(0.9 / 3)
    whole = tm.Budget(1.0, 1e-3)
    part = ablations.split_budget(whole, 3)
    assert part.delta == whole.delta
    assert math.sqrt(3.0) * gaussian_mu(part) == pytest.approx(gaussian_mu(whole), rel=1e-5)
    charge = tm.Charge("part", "gaussian", 1.0, gaussian_mu(part), "L2", 3, "here")
    ledger = tm.Ledger(whole)
    ledger.charge(charge)
    assert 0.999 < ledger.proved_epsilon <= 1.0


def of_errors(variant, repetition, w1, w2, w3, seconds=1.0, distinct=9):
    """Lines of one cell as they are measured."""
    head = {"setting": "B", "dataset": "PKS", "variant": variant, "repetition": repetition}
    facts = {"seconds": seconds, "distinct": distinct, "table": distinct, "largest": 1.0}
    return [*({**head, "workload": which, "what": "absolute", "value": error}
              for which, errors in (("w1", w1), ("w2", w2), ("w3", w3)) for error in errors),
            *({**head, "workload": "", "what": what, "value": value} for what, value in facts.items())]


def test_an_ablation_is_compared_with_the_default_of_the_same_repetition():
    lines = frames.formatted(ablations.summary(pd.DataFrame([
        *of_errors("default", 0, [1.0, 1.0], [1.0], [2.0]), *of_errors("default", 1, [10.0, 10.0], [1.0], [0.0]),
        *of_errors("no pairs", 1, [80.0, 5.0], [2.0], [0.0], seconds=3.0),
        *of_errors("no pairs", 0, [2.0, 8.0], [2.0], [1.0])])), **ablations.ablations.formats)
    mine = lines[lines["variant"] == "no pairs"].set_index("what")
    # Repetition 0: sqrt(2 * 8) = 4; repetition 1: sqrt(8 * 1/2) = 2.
    assert float(mine["value"]["w1"]) == pytest.approx(math.sqrt(8.0), rel=1e-5)
    assert (mine["least"]["w1"], mine["most"]["w1"]) == ("2", "4")
    assert float(mine["value"]["w2"]) == 2.0
    # An answer that is exact in both is no worse.
    assert (mine["least"]["w3"], mine["most"]["w3"]) == ("0.5", "1")
    assert (mine["value"]["seconds"], mine["value"]["distinct"]) == ("2", "9")
    assert set(lines[(lines["variant"] == "default") & lines["what"].isin(["w1", "w2", "w3"])]["value"]) == {"1"}


@pytest.mark.nightly
def test_the_ablations_are_run_and_written(folders, monkeypatch):
    small = {"points": 64, "iterations": 2, "degree": 2, "pair_degree": 1}
    monkeypatch.setattr(ablations, "VARIANTS", {ablations.DEFAULT: (small, "as it is"),
                                                "independent": ({**small, "copula": False}, "without")})
    monkeypatch.setattr(cells, "run_cells", in_this_process)
    path = ablations.ablations(Asked(("WDBC",), quick=True))
    assert path.name == "ablations_quick_partial.md"
    rows = rows_beside(path)
    assert len(rows) == 2 * 2 * (3 + 4)
    assert {row["value"] for row in rows if row["variant"] == "default" and row["what"] in ("w1", "w2", "w3")} == {"1"}
    assert any(row["value"] != "1" for row in rows if row["variant"] != "default" and row["what"] == "w1")


def test_error_bars_are_held_against_the_errors():
    bars = PredictedError(0.95, np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[2.0, 4.0], [2.0, 4.0]]),
                          np.array([3.0, 4.5]))
    errors, measured = np.array([[-1.0, 5.0], [4.0, -1.0]]), np.array([[-1.0, 1.0], [4.0, -1.0]])
    found = coverage.held_by_width(errors, measured, bars)
    assert found["within"] == [0.5, 0.5]
    assert found["worst"] == [0.0, 0.0]
    assert found["ratio"] == [(2.0 + 0.5) / 2.0, (0.8 + 4.0) / 2.0]
    assert found["excess"] == pytest.approx([math.sqrt(17.0 / 2.0), math.sqrt(26.0 / 8.0)])
    assert found["unmeasured"] == pytest.approx([0.0, 16.0 / 18.0])
    assert coverage.held_by_width(0.1 * errors, measured, bars)["worst"] == [1.0, 1.0]
    # An answer without error is within, and divides by no zero.
    assert np.isfinite(coverage.held_by_width(0.0 * errors, 0.0 * measured, bars)["ratio"]).all()


@pytest.mark.nightly
def test_the_coverage_of_a_release_is_computed_and_written(folders, monkeypatch):
    monkeypatch.setattr(cells, "run_cells", in_this_process)
    monkeypatch.setattr(coverage, "BUDGETS", {"A": (1.0, 0.0)})
    path = coverage.coverage(Asked(("WDBC",), quick=True))
    rows = rows_beside(path)
    assert len(rows) == 9
    assert {row["repetitions"] for row in rows} == {"2"}
    assert all(0.0 <= float(row[share]) <= 1.0 for row in rows for share in ("within", "worst", "unmeasured"))
    # W3 of 30 columns at delta = 0 is hardly measured.
    assert float(rows[-1]["unmeasured"]) > 0.9


def test_the_thesis_has_its_printed_noise_in_the_rates():
    X, budget = rates.table(2)[:300], tm.Budget(1.0, 1e-3)
    for name, scales in ((rates.THESIS, "rigorous"), (rates.PUBLISHED, "published")):
        mechanism = rates.mechanism_of(name, 1, 1e-3)
        assert (type(mechanism), mechanism.calibration, mechanism.smoothness) == (tm.TrigII, scales, 1)
        assert type(rates.mechanism_of(name, 1, 0.0)) is tm.TrigI
        claim = tm.synthesize(X, tm.Schema.cube(2), budget, mechanism, np.random.default_rng(1)).ledger.claim
        assert (claim is not None) == (scales == "published")
    assert rates.theory(1, 1, 0.0, rates.PUBLISHED) == rates.theory(1, 1, 0.0, rates.THESIS) == pytest.approx(-1 / 3)


@pytest.mark.nightly
def test_the_rates_are_written_and_drawn(folders, monkeypatch):
    monkeypatch.setattr(cells, "run_cells", in_this_process)
    monkeypatch.setattr(rates, "SMOOTHNESS", {1: (1, 2), 2: (1,)})
    rates.table.cache_clear()
    path = replace(rates.rates, size=((40, 80, 160),) * 2)(Asked(quick=True))
    rates.table.cache_clear()
    rows = rows_beside(path)
    assert len(rows) == 3 * 2 * 4 * 3
    (line,) = [line for line in path.read_text(encoding="utf-8").splitlines()
               if line.startswith("| 1 | 2 | 0 | thesis |")]
    points = pd.Series({int(row["n"]): float(row["error"]) for row in rows
                        if (row["d"], row["smoothness"], row["delta"], row["mechanism"]) == ("1", "2", "0", "thesis")})
    assert line.endswith(f"| {rates.slope(points):.2f} | {rates.slope(points):.2f} | -0.50 |")
    path.with_suffix(".csv").rename(path.parent / "rates.csv")
    picture = draw_rates(path.parent, folders / "rates.png")
    assert picture.stat().st_size > 10_000


@pytest.mark.nightly  # By day test_parts.py compares parts with their table to the last bit.
def test_parties_are_written_and_drawn_and_parts_err_as_the_whole_table_does(folders, monkeypatch):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 90, 400)
    table = pd.DataFrame({"age": age, "kind": np.where(age + rng.integers(0, 40, 400) > 60, "old", "young")})
    schema = tm.Schema([tm.Column("age", 0, 100, "integer"),
                        tm.Column("kind", kind="categorical", categories=("old", "young"))])
    monkeypatch.setattr(parties.data, "load", lambda name: (table, schema))
    monkeypatch.setattr(data.Sample, "load", lambda self, seed: (table, schema))
    monkeypatch.setattr(cells, "run_cells", in_this_process)
    page = parties.parties(Asked(quick=True))
    error = {(row["mechanism"], row["way"], row["parties"]): row["error"] for row in rows_beside(page)}
    assert len(error) == 2 * 3 * 2
    for mechanism in parties.MECHANISMS:
        assert error[mechanism, "parts", "1"] == error[mechanism, "parts", "5"]
        assert error[mechanism, "parts", "5"] < error[mechanism, "split", "5"]
    page.with_suffix(".csv").rename(page.parent / "parties.csv")
    first, second = (parties_figure.draw(page.parent, folders / name).read_bytes() for name in "ab")
    assert first == second


def test_the_page_of_parties_shows_the_committed_table_and_figure(tmp_path):
    shown = (cells.HERE.parent / "docs" / "parts.md").read_text(encoding="utf-8")
    table = [line for line in (cells.RESULTS / "parties.md").read_text(encoding="utf-8").splitlines()
             if line.startswith("|")]
    assert len(table) == 8
    assert "\n".join(table) in shown
    drawn = parties_figure.draw(folder=tmp_path).read_text(encoding="utf-8")
    committed = (parties_figure.IMAGES / "parties.svg").read_text(encoding="utf-8")
    # Another version of what draws may write the same picture in other words.
    assert drawn.count("<path") == committed.count("<path")


def test_every_listed_experiment_is_in_the_readme_and_is_given_what_was_asked_for(monkeypatch, tmp_path):
    given = []

    def run(asked):
        given.append(asked)
        (tmp_path / "page.md").write_text("done", encoding="utf-8")
        return tmp_path / "page.md"

    for name, experiment in list(program.EXPERIMENTS.items()):
        monkeypatch.setitem(program.EXPERIMENTS, name, replace(experiment, run=run))
    result = CliRunner().invoke(program.app, ["run", "all", "--datasets", "WDBC,nltcs", "--seeds", "3", "--eps", "1,2"])
    assert result.exit_code == 0
    assert given == [Asked(("WDBC",), ("wdbc", "nltcs"), epsilons=(1.0, 2.0), seeds=3)] * len(program.EXPERIMENTS)
    listed = CliRunner().invoke(program.app, ["list"]).output
    readme = (cells.HERE / "README.md").read_text(encoding="utf-8")
    for name in program.EXPERIMENTS:
        assert f"{name} " in listed
        assert name in readme


@pytest.fixture
def newcomer(folders, monkeypatch):
    """A data set that neither the thesis nor goals.csv knows, and results of all cells that are made up."""
    def made_up_result(cell):
        if cell.function is coverage.smooth_bars:
            one = {"within": 0.9, "worst": 1.0, "ratio": 3.0, "excess": 1.5, "unmeasured": 0.2}
            return {workload: {what: [value] * len(sigmas) for what, value in one.items()}
                    for workload, sigmas in frames.SIGMAS.items()}
        size = 0.1 + 0.01 * dict(cell.arguments)["repetition"]
        errors = {workload: {kind: [size] * len(sigmas) for kind in comparison.KINDS}
                  for workload, sigmas in frames.SIGMAS.items()}
        return {**errors, "seconds": 1.0, "rows": 80, "atoms": 9, "distinct": 9, "largest": 1.0, "table": 9,
                "proved_epsilon": 1.0}

    rng = np.random.default_rng(8)
    monkeypatch.setitem(datasets.DATASETS, "NEW", datasets.Dataset(
        "NEW", "Newcomer", "", "", (), lambda: pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc")),
        "All of it."))
    monkeypatch.setitem(data.SETS, "new", data.TableSet("new", (), lambda: None, numbers="NEW"))
    monkeypatch.setattr(cells, "run_cells", lambda todo, jobs, title: (
        (cell, made_up_result(cell)) for cell in list(todo)))
    return folders / "results"


OF_ANY_DATA = ["table_3_1", "table_3_2", "table_3_3", "w1", "w2", "w3", "curves", "ablations", "coverage"]


@pytest.mark.daily("NEW-coverage", "NEW-table_3_3", "NEW-table_3_1")
@pytest.mark.parametrize("name", [*OF_ANY_DATA, "search", "figure_3_1"])
# By day with one set of its own: that a set of the thesis beside it changes nothing of this is seen each night.
@pytest.mark.parametrize("names", ["NEW", pytest.param("NEW,WDBC", marks=pytest.mark.nightly)])
def test_no_experiment_fails_for_a_data_set_that_the_thesis_does_not_have(newcomer, name, names):
    result = CliRunner().invoke(program.app, ["run", name, "--quick", "--datasets", names])
    assert result.exit_code == 0, result.output
    assert result.exception is None
    left_out = f"{name} left out" in result.output
    assert left_out == (name == "figure_3_1" or (name, names) == ("search", "NEW"))
    written = sorted(newcomer.glob("*")) if newcomer.exists() else []
    assert bool(written) != left_out
    assert not any("nan" in path.read_text(encoding="utf-8") for path in written)
    if name in OF_ANY_DATA:
        (page,) = [path for path in written if path.suffix == ".md"]
        assert ("| NEW" in page.read_text() or "NEW W1" in page.read_text()) == ("NEW" in names)
        # What is said of the thesis is said of its own set.
        if name == "w1":
            assert ("Geometric mean of thesis" in page.read_text()) == ("WDBC" in names)
            assert ("misses the goal" in page.read_text()) == ("WDBC" in names)


def test_on_each_small_table_the_default_has_the_least_error_of_pairs_as_the_page_of_results_says():
    lines = pd.read_csv(cells.RESULTS / "few.csv").query("measure == 'pairs' and epsilon == 1.0")
    rivals = {"MST-dpmm-equal", "AIM-dpmm-equal", "PrivBayes-dpmm-equal", "DP-MERF-merf"}
    assert lines["dataset"].nunique() == 16
    for name, of_table in lines.groupby("dataset"):
        means = of_table.groupby("method")["mean"].min()
        assert rivals <= set(means.index)
        assert means["default"] < min(means[method] for method in rivals), name


def test_an_answer_without_an_interval_neither_holds_the_truth_nor_misses_it(monkeypatch):
    from experiments import answers

    monkeypatch.setattr(answers, "truth", lambda kind: (np.zeros(3), ("means", "means", "quantiles")))
    result = {f"{method} error": [0.5, 2.0, 0.0] for method in answers.METHODS} | {
        f"{method} half": [1.0, 1.0, np.nan] for method in answers.METHODS} | {"oracle": [1.0, 1.0, 1.0]}
    lines = answers.of_methods({"kind": "any"}, result)
    assert [line["held"] for line in lines[:2]] == [1.0, 0.0]
    assert all(np.isnan(line["held"]) and np.isnan(line["width"]) for line in lines[2::3])
