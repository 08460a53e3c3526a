"""What the top of a page lists of many pairs, and when a comparison says that it is not private."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.cli.app import main
from trigmech.evaluation.forecast import forecast
from trigmech.evaluation.verdict import LIGHTS
from trigmech.report import advised, lead
from trigmech.report.figures import number, percent


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    first = rng.random(400)
    return pd.DataFrame({name: np.clip(first + spread * rng.normal(size=400), 0, 1)
                         for name, spread in zip("abcd", (0.0, 0.02, 0.3, 5.0), strict=True)})


@pytest.fixture(scope="module")
def made(table):
    schema = tm.Schema([tm.Column(name, 0, 1) for name in "abcd"])
    return tm.synthesize(table, schema, tm.Budget(5.0, 1e-6), tm.TableMechanism(points=256), np.random.default_rng(1))


def test_of_many_pairs_those_of_the_worst_lights_and_of_these_the_strongest_are_listed(made, monkeypatch):
    expected = forecast(made.release, made.schema, made.distribution.points)
    lights = expected.lights_of_pairs()
    whole, left_out = lead._pairs(made, expected, None)
    assert (len(whole.rows), left_out) == (6, 0)
    strengths = {" and ".join(about): strength for about, strength in expected.strengths.items()}
    worst = sorted(strengths, key=lambda name: (-LIGHTS.index(lights[name]), -strengths[name]))
    for most in (1, 2, 5):
        monkeypatch.setattr(lead, "MOST_PAIRS", most)
        listed, left_out = lead._pairs(made, expected, None)
        assert sorted(row[0] for row in listed.rows) == sorted(worst[:most])
        assert left_out == 6 - most
        assert all(row in whole.rows for row in listed.rows)


@pytest.mark.parametrize("against", [False, True])
def test_a_comparison_says_that_it_is_not_private_where_it_read_the_table_and_nowhere_else(
        against, made, table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("one.tm", "two.tm"):
        made.save(name)
    table.to_csv("data.csv", index=False)
    monkeypatch.setattr(sys, "argv", ["trigmech", "compare", "one.tm", "two.tm", "--json",
                                      *(["--against", "data.csv"] if against else [])])
    with pytest.raises(SystemExit) as ending:
        main()
    told = capsys.readouterr().err
    assert not ending.value.code, told
    assert ("NOT PRIVATE: these figures were computed from the private table" in told) == against


def shown_by(monkeypatch, capsys, *arguments, width):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "argv", ["trigmech", *arguments])
    with pytest.raises(SystemExit) as ending:
        main()
    printed = capsys.readouterr()
    assert not ending.value.code, printed.err
    return printed.out


LONG = "household_income_before_taxes_and_transfers_of_all_members"
ADVISED = ["age", LONG, "years of school", "region", *(f"x{k}" for k in range(5))]


@pytest.fixture(scope="module")
def facts():
    """What is to be shown, whatever the width: what one epsilon would buy, in the place of each."""
    step, made = advised._step, []

    def once(schema, rows, budget, *others):
        if not made:
            made.append(step(schema, rows, budget, *others))
        return replace(made[0], epsilon=budget.epsilon)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advised, "_step", once)
        return tm.advise(tm.Schema([tm.Column(name, 0, 9, "integer") for name in ADVISED]), 500).facts, once


@pytest.mark.daily("60")
@pytest.mark.parametrize("width", [60, 80, 200])
def test_advice_fits_a_terminal_and_loses_no_word_of_it(width, facts, tmp_path, monkeypatch, capsys):
    facts, once = facts
    monkeypatch.setattr(advised, "_step", once)
    (tmp_path / "schema.toml").write_text("".join(
        f"[columns.\"{name}\"]\nkind = \"integer\"\nlower = 0\nupper = 9\n" for name in ADVISED))
    asked = ["advise", str(tmp_path / "schema.toml"), "--rows", "500"]
    said = shown_by(monkeypatch, capsys, *asked, width=width)
    lines = said.splitlines()
    assert "…" not in said
    tables = lines[next(at for at, line in enumerate(lines) if "─" in line):]
    assert max(map(len, tables)) <= width
    # A long name is broken, and each number stands in one piece beside the rows of its own table.
    for step in facts["epsilons"]:
        assert all(percent(each["error"]) in said for each in step["columns"])
    assert LONG in "".join(line[:max(24, width // 3) + 1].strip() for line in lines)
    # 36 pairs are more than a terminal is shown, and a line below the table says so.
    words = " ".join(said.split())
    assert "the first 30 of 36 lines" in words.split("Expected errors of pairs")[1]
    assert words.count("lines; --html PAGE or --json has all") == 1
    assert "Points are percentage points" in words


def test_wide_tables_are_wrapped_on_paper_which_has_no_scroll_bar(tmp_path):
    schema = tm.Schema([tm.Column(name, 0, 1) for name in "ab"])
    page = tm.advise(schema, 500, epsilons=(1.0,)).write(tmp_path / "page.html").read_text()
    screen, paper = page.split("@media print")
    assert ".n { text-align: right; white-space: nowrap;" in screen
    assert ".n { white-space: normal; }" in paper.split("</style>")[0]


@pytest.mark.nightly
def test_a_dependence_of_rounding_errors_is_no_dependence(made):
    expected = forecast(made.release, made.schema, made.distribution.points)
    assert all(strength == 0.0 or strength > 1e-9 for strength in expected.strengths.values())
    exact = tm.synthesize(np.random.default_rng(3).random((200, 6)) * 2 - 1, tm.Schema.cube(6), tm.Budget(0.5, 1e-6),
                          tm.TableMechanism(points=256), np.random.default_rng(1))
    expected = forecast(exact.release, exact.schema, exact.distribution.points)
    assert min(expected.strengths.values()) == 0.0


def test_measured_errors_are_what_scores_lack_and_correlations_as_they_are():
    found = SimpleNamespace(details={"columns": {"a": 0.9, "b": 0.75}, "pairs": {"a and b": 0.8, "a and c": 0.95},
                                     "correlations": {"differences": {"a and b": 0.07}}},
                            lights_of_columns=lambda: {"a": "care", "b": "poor"},
                            lights_of_pairs=lambda: {"a and c": "good", "a and b": "care"})
    assert lead.measured_errors(found, ["a", "b"], False) == [["care", "poor"], [percent(1.0 - 0.9), percent(0.25)]]
    assert lead.measured_errors(found, ["a and b", "a and c"], True) == [
        ["care", "good"], [percent(1.0 - 0.8), percent(1.0 - 0.95)], [number(0.07), ""]]
