"""Numbers in the sentences of pages: those that follow from committed results are held to them, and no others hide."""

import contextlib
import re

import pytest
from typer.testing import CliRunner

from experiments import __main__ as program
from experiments import fingerprints, prose
from experiments.cells import HERE, RESULTS
from experiments.companions import marginals
from experiments.datasets import DatasetMissing
from experiments.protocols import boards, data

PAGES = {str(page.relative_to(HERE.parent)): page.read_text(encoding="utf-8") for page in prose.pages_of()}
each_page = pytest.mark.parametrize("name", PAGES)

# These parts of a page are no sentences.
NO_PROSE = re.compile(r"^```.*?^```$|^\|.*?$|^#.*?$|<!--.*?-->|`[^`\n]*`|\$[^$\n]+\$|\]\([^)]*\)|https?://\S+",
                      re.DOTALL | re.MULTILINE)
# Names of parts of a source and of versions are no measurements.
NAMES = re.compile(r"\b(?:[Tt]ables?|[Ff]igures?|[Tt]heorems?|[Pp]ropositions?|[Ss]ections?|Python|sdnist|"
                   r"OpenDP|highspy)(?:\s+(?:before\s+)?(?:and\s+|to\s+)?\d+(?:\.\d+)+)+")
UNITS = r"%|times\b|of \d|[GMk]B\b|minutes\b|seconds\b|hours\b|million\b|megabytes\b"
FIGURE = re.compile(rf"(?<![\w.,^-])(?:\d+[\d,]*\.\d+|\.\d+|\d[\d,]*(?=(?:\s+to\s+[\d.,]+)?\s*(?:{UNITS}))|"
                    r"\d+(?:,\d{3})+(?=\s+(?:rows|people|persons)\b))")

# Pages whose every figure is of another kind, with the reason.
OTHERS = {"docs/errata.md": "what is true instead of a statement: tests/test_errata.py and tests/test_companions.py "
                            "compute it from formulas, and no results are involved",
          "docs/gallery.md": "written by experiments/companions/tutorial.py; test_companions.py holds its tables"}
# Phrases whose figures do not follow from results, with the reason.
SETTING, TERMS, PRINTED = "a setting, which somebody chose", "what a word means", "printed in a source"
ONCE = "measured once, of what no experiment keeps"
UNHELD = {
    "README.md": {"rows at ε = 0.5, 1, 3": SETTING},
    "experiments/README.md": {
        "σ = 0.25, 0.5": SETTING, "ε = 0.1, 0.3, 1, 3, 10": SETTING, "10, 30 and 100 % of the rows": SETTING,
        "Error bars at 95 % for": SETTING, "ε = 0.3 and 10": SETTING, "requires 95 % on": SETTING,
        "Error bars at 95 % of": SETTING, "ε = 0.3, 1 and 3": SETTING, "requires 93 %": SETTING, "80 % for": SETTING,
        "at 99.9 % together": SETTING, "at most 2 megabytes": SETTING, "published .0098, .018 and .050": PRINTED,
        "16 pairs at 3,000 rows": SETTING, "and k (for 3.3)": "the name of a table",
        "(3.3) of the": "the name of a table",
        "(CTG .053 .199 .031 .054 .056)": PRINTED, "80 to 90 %": ONCE, "(0.15 at": ONCE, "at 0.03 to 0.04": PRINTED,
        "with k, to 0.01": ONCE, "at most 10,000 rows": SETTING, "1,000 to 20,000 rows": SETTING,
        "3,000 and 10,000 rows": SETTING, "between 3,000 rows": SETTING},
    "docs/how.md": {"is .22 for two numbers and .10 for other pairs":
                    "of test_pairs_lose_their_dependence_in_noise_and_keep_a_part_without_it"},
    "docs/cli.md": {"(0.4 GB of it": ONCE, "10 to 25 % for 587": ONCE},
    "docs/companions.md": {
        "at 0.3 ε": SETTING, "φ = 0.2": SETTING, "of PrivHD: 0.1": SETTING, "at ε = 1.6 the": SETTING,
        "at 0.1,": SETTING, "at 1.6)": SETTING,
        "at ε = 0.05)": SETTING, "below ε = 0.4": "held by a comment", "within 0.01 of": "held by a comment",
        "from ε = 0.4": "held by a comment", "at ε = 0.8)": SETTING, "For ε ≤ 0.5": SETTING, "(σ = 0.5)": SETTING},
    "docs/comparison.md": {"at most 2 megabytes": SETTING, "in the 12 minutes": SETTING, "best at 0.5": TERMS},
    "docs/accept.md": {"0.95 unless": SETTING, "5,000 rows and": SETTING, "ε = 0.3": SETTING},
    "docs/evaluate.md": {
        "more than 1,000 times": SETTING, "300,000 rows of": ONCE, "score of 0.95": SETTING,
        "0.1 and 0.3 are small": PRINTED, "medium at 0.2 and 0.5, and values of R² at 0.02 and 0.13": PRINTED,
        "below 0.1 is": PRINTED, "AUC of 0.7, and outstanding from 0.9": PRINTED, "at most 1.5 times": SETTING,
        "error √2 times": "two samples err, and not one", "At most 100,000 rows": SETTING,
        "for 1.25 times": SETTING, "that a 95 % interval": SETTING, "power of 80 %": SETTING},
    "docs/format.md": {'the category "2.0"': "a text in a cell"},
    "docs/holders.md": {"and 1.0 is the same as 1": "a text in a cell", "1.0, not proved": "the version of a tool",
                        "At most 100,000 rows": SETTING},
    "docs/idea.md": {"95 % unless": SETTING},
    "docs/large.md": {"some 500,000 rows": SETTING, "100,000 rows are fitted": SETTING, "1, 1.0 and": "cells",
                      "(4.9 GB)": "in the name of the benchmark, by which the other figures are found"},
    "docs/results.md": {"(best: 0.5)": TERMS, "ε from 0.1 to 10": SETTING},
    "docs/decisions.md": {"Before version 0.2": "a version of this package"},
    "docs/stability.md": {"Until version 1.0": "a version of this package"},
    "docs/researchers.md": {"times 1.96": "of the normal distribution, at 95 %", "bars of 95 %": SETTING},
}


def unmarked(text, others=()):
    """Return the figures in a page's sentences that no mark holds: line, figure, and the line as it stands."""
    phrases = [re.compile(r"\s+".join(map(re.escape, phrase.split()))) for phrase in others]
    bare = text
    for pattern in (prose.MARK, prose.AS_IN, NO_PROSE, NAMES, *phrases):
        bare = pattern.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), bare)
    found = [(bare[: figure.start()].count("\n"), figure[0]) for figure in FIGURE.finditer(bare)]
    return [(line + 1, figure, text.splitlines()[line]) for line, figure in found]


@each_page
def test_what_a_page_says_is_what_the_committed_results_are(name):
    assert prose.filled(PAGES[name], RESULTS) == PAGES[name], "python -m experiments pages"
    assert prose.broken(PAGES[name], RESULTS) == []


@pytest.mark.nightly
def test_data_sets_have_the_sizes_that_are_stated():
    """Of those at hand; the thesis's are in table_3_1.csv."""
    stated = prose.lines_of(HERE / "expected", "sizes").set_index("dataset")
    known = [name for name in stated.index if not name.startswith("adult, ") and name not in ("br2000", "acs", "tic")]
    found = {}
    for name in [each for each in known if boards.available([each])]:
        rows = data.load(name)[0]
        found[name] = rows.shape
    for name, own in (("nltcs", "nltcs"), ("adult", "adult, discrete"), ("br2000", "br2000"), ("acs", "acs"),
                      ("tic", "tic")):
        with contextlib.suppress(DatasetMissing):
            found[own] = marginals.loaded(name)[0].shape
    assert {name: tuple(stated.loc[name]) for name in found} == found
    assert "wdbc" in found
    assert stated.loc["adult", "rows"] == round(0.8 * stated.loc["adult, all", "rows"])


@each_page
def test_no_figure_in_a_sentence_is_held_by_nothing(name):
    if name not in OTHERS:
        assert unmarked(PAGES[name], UNHELD.get(name, {})) == []


@pytest.mark.nightly  # By day figures of pages are compared with results, here.
def test_every_reason_is_of_a_figure_that_is_there():
    for name, phrases in UNHELD.items():
        for phrase in phrases:
            rest = [other for other in phrases if other != phrase]
            assert unmarked(PAGES[name], rest) != [], (name, phrase)
    assert set(OTHERS) | set(UNHELD) <= set(PAGES)


@each_page
def test_a_wrong_number_is_put_right_and_another_sentence_is_left_alone(name):
    marks = [*prose.MARK.finditer(PAGES[name])]
    for mark in marks:
        assert prose.filled("98765" + mark[2], RESULTS).lower() == mark[0].lower()
        # Without its mark it would be found.
        assert unmarked(f"It is {mark[0]} here, and 0.98765 there.") == [
            (1, "0.98765", f"It is {mark[0]} here, and 0.98765 there.")]
    expected = {"README.md": 5, "docs/results.md": 5, "docs/thesis.md": 13,
                "docs/companions.md": 15, "docs/comparison.md": 3, "docs/large.md": 4,
                "docs/researchers.md": 6, "docs/idea.md": 1, "SECURITY.md": 1}
    assert len(marks) >= expected.get(name, 0)


@pytest.mark.parametrize(("text", "found"), [
    ("It is 42 times as large.", ["42"]), ("It is 42<!-- = 42 --> times as large.", []),
    ("From 0.6 to 1.1 it is.", ["0.6", "1.1"]), ("Some 93 to 99.6 % of it.", ["93", "99.6"]),
    ("In 21 minutes, by AIM-2MB.", ["21"]),
    ("The score of .0098.", [".0098"]), ("48 of 96 cases.", ["48"]), ("`0.5` and [a](b0.5.md) and $0.5$.", []),
    ("| 0.5 |\n## 0.5\n```\n0.5\n```", []), ("Of table 3.3 and theorems 3.14 to 3.16, by Python 3.11.", []),
    ("Some 1,234.5 rows and 4.9 GB.", ["1,234.5", "4.9"]), ("It takes 7 rows.", [])])
def test_what_a_figure_is(text, found):
    assert [figure for _, figure, _ in unmarked(text)] == found
    assert unmarked(text, [text]) == []


def test_marks_are_filled_and_what_does_not_hold_is_named(tmp_path):
    (tmp_path / "x.csv").write_text("method,mean\na,0.125\nb,2\n")
    (tmp_path / "x.md").write_text("# X\n\n- First: 3 of 4\n- Second, of all: 5\n")
    text = ('Of 9<!-- = at("x", "mean", method="a"): .2f --> and Eleven<!-- = len(column("x", "mean")): word -->; '
            '1<!-- = said("x.md", r"First: (\\d)"): .0f -->.\n\n<!-- as in: x.md -->\n- Second, of all: 1\n'
            "- First: 2\n")
    assert re.sub("<!--.*?-->", "", prose.filled(text, tmp_path)) == (
        "Of 0.12 and Two; 3.\n\n\n- Second, of all: 5\n- First: 3 of 4\n")
    assert prose.broken('<!-- holds: at("x", "mean", method="a") < at("x", "mean", method="b") -->', tmp_path) == []
    lost = '7<!-- = at("x", "mean", method="c") -->'
    assert prose.filled(lost, tmp_path) == lost
    assert prose.broken(lost, tmp_path) == ['7 cannot be found again: at("x", "mean", method="c")']
    for expression in ('at("x", "mean", method="a") > 1', 'at("gone", "mean") > 1', 'open("x")'):
        assert prose.broken(f"<!-- holds: {expression} -->", tmp_path) == [f"does not hold: {expression}"]
    assert "has no such line" in prose.filled("<!-- as in: x.md -->\n- Third: 1\n", tmp_path)


def test_the_command_brings_pages_up_to_date_and_names_what_fails(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text('It is at 9.9<!-- = version -->.\n')
    monkeypatch.setattr(prose, "pages_of", lambda: [page])
    # One page of results of many; test_fingerprints.py has the others.
    monkeypatch.setattr(fingerprints, "SHOWN", {"curves": fingerprints.SHOWN["curves"]})
    assert CliRunner().invoke(program.app, ["pages"]).exit_code == 0
    assert page.read_text() == f"It is at {prose.value('version', RESULTS)}<!-- = version -->.\n"
    page.write_text("Ours is better.\n\n<!-- holds: 1 > 2 -->\n")
    result = CliRunner().invoke(program.app, ["pages"])
    assert result.exit_code == 1
    assert "page.md: does not hold: 1 > 2" in result.output


def test_a_mark_in_a_sentence_goes_from_the_site_without_the_line_break():
    hooks = pytest.importorskip("docs.hooks", reason="pages are not built here: pip install trigmech[docs]")
    assert hooks.on_page_markdown("some 42<!-- = 42 -->\ntimes\n\n<!-- holds: True -->\nIt is.\n") == (
        "some 42\ntimes\n\nIt is.\n")
