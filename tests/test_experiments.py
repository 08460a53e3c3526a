"""The experiments' machinery, on the data set that needs no download, and the promises on the committed results."""

import csv
import json

import pytest

from experiments import cells, search, tables
from experiments.cells import Cell


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(tables, "RESULTS", tmp_path / "results")
    return tmp_path


def test_a_cell_is_computed_once_and_is_the_same_when_computed_again(folders):
    cell = Cell("WDBC", "ImprovedTrigII", (("n_candidates", 500),), delta=1e-3, n_queries=100)
    first = cells.run_cell(cell)
    path = cells.CACHE / f"{cell.key()}.json"
    marked = {**first, "marked": True}
    path.write_text(json.dumps(marked))
    assert cells.run_cell(cell) == marked
    path.unlink()
    again = cells.run_cell(cell)
    assert {**again, "seconds": 0} == {**first, "seconds": 0}


def test_other_options_repetitions_and_queries_are_other_cells():
    cell = Cell("WDBC", "ImprovedTrigI")
    others = [Cell("WDBC", "ImprovedTrigI", (("rank", 3),)), Cell("WDBC", "ImprovedTrigI", repetition=1),
              Cell("WDBC", "ImprovedTrigI", n_queries=5), Cell("PKS", "ImprovedTrigI"),
              Cell("WDBC", "ImprovedTrigI", delta=1e-3)]
    assert len({other.key() for other in [cell, *others]}) == 6


def test_the_printed_tables_are_read_whole():
    for table in ("table_3_2", "table_3_3"):
        printed = search.expected(table)
        assert len(printed) == 6 * 11
    assert search.expected("table_3_3")["WDBC", "absolute", 4.0] == 0.213


def test_the_distance_to_the_thesis_is_zero_for_its_own_numbers_and_symmetric_in_the_ratio():
    printed = search.expected("table_3_2")
    own = {(name, sigma): value for (name, error, sigma), value in printed.items() if error == "absolute"}
    assert search.distance(own, printed) == 0.0
    twice = search.distance({cell: 2 * value for cell, value in own.items()}, printed)
    half = search.distance({cell: value / 2 for cell, value in own.items()}, printed)
    assert twice == pytest.approx(half) == pytest.approx(0.6931471805599453)


def test_the_committed_results_keep_the_promises():
    assert tables.check(cells.RESULTS) == []


def test_the_check_notices_a_broken_promise(tmp_path):
    for table in ("table_3_2", "table_3_3"):
        text = (cells.RESULTS / f"{table}.csv").read_text()
        (tmp_path / f"{table}.csv").write_text(text)
    lines = (tmp_path / "table_3_3.csv").read_text().splitlines()
    slow = [line.rsplit(",", 2)[0] + ",99," if line.startswith("WDBC,rigorous,seconds") else line for line in lines]
    assert slow != lines
    (tmp_path / "table_3_3.csv").write_text("\n".join(slow) + "\n")
    assert tables.check(tmp_path) == ["table_3_3: WDBC: a rigorous release was slower than the thesis's"]
    (tmp_path / "table_3_2.csv").unlink()
    assert any("missing" in failure for failure in tables.check(tmp_path))


def test_the_readme_shows_the_committed_table():
    readme = (cells.HERE.parent / "README.md").read_text(encoding="utf-8")
    table = (cells.RESULTS / "table_3_3.md").read_text(encoding="utf-8").split("## Absolute error")[1]
    rows = [line for line in table.split("## Relative error")[0].splitlines() if line.startswith("|")]
    assert len(rows) == 22
    assert [row for row in rows if row not in readme] == []


@pytest.mark.parametrize("table", ["table_3_2", "table_3_3"])
def test_the_chosen_options_are_the_nearest_of_the_committed_search(table):
    with (cells.RESULTS / f"search_{table}.csv").open(encoding="utf-8") as file:
        nearest = next(csv.DictReader(file))
    chosen = tables.CHOSEN[table]
    for name in [*search.SEARCHED[table], *search.COMMON]:
        assert nearest[name] == ("" if chosen[name] is None else str(chosen[name]))
