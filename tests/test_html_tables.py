"""What notebooks show of a schema, a ledger, a design, a release and its error bars: well-formed, escaped, public."""

import subprocess
import sys
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech._html import MOST_LETTERS, MOST_ROWS, html_table

SCRIPT = "<script>alert('x')</script>&\"name\""
SECRET = 7.31373737


@cache
def shown():
    """An object of each class whose names are scripts, with the words that its table must have."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame({SCRIPT: np.full(100, SECRET), "x": rng.uniform(0, 9, 100),
                          "y": rng.choice([SCRIPT, "<b>"], 100)})
    schema = tm.Schema([tm.Column(SCRIPT, 0.0, 10.0, special=(0.0,)), tm.Column("x", 0.0, 10.0, "integer"),
                        tm.Column("y", kind="categorical", categories=(SCRIPT, "<b>"), other="<b>")])
    mechanism = tm.MomentMechanism(points=64, iterations=2, degree=2, pair_degree=1, triples=False)
    made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-3), mechanism, np.random.default_rng(1))
    private = tm.Ledger(tm.Budget(1.0))
    private.charge(tm.Charge(SCRIPT, "laplace", 2.0, 1.0, "L1", 1, "here"))
    thesis = tm.synthesize(rng.uniform(-1, 1, (50, 2)), tm.Schema.cube(2), tm.Budget(1.0),
                           tm.TrigI(degree=2, grid=4, calibration="published"), np.random.default_rng(1))
    own = tm.MomentMechanism(workload=Named()).design(500, 3, tm.Budget(1.0))
    kernels = tm.workload.GaussianKernels(2, seed=1, n_queries=9, widths=(1.0, 2.0))
    mixture = tm.workload.Mixture((kernels, tm.workload.SecondMoments(2)))
    return {
        "schema": (schema, [SCRIPT, "integer", "0.0 to 10.0", "other: <b>", "special"]),
        "ledger": (private, [SCRIPT, "laplace", "proved (0.5, 0)-DP", "budget (1, 0)"]),
        "simulated ledger": (made.ledger, ["SIMULATED, NOT PRIVATE", "moments", "gaussian"]),
        "published ledger": (thesis.ledger, ["claimed by the thesis"]),
        "design": (own, [SCRIPT, "l-infinity K-norm noise", "columns", "if nothing were measured"]),
        "release": (made, [SCRIPT, "SIMULATED, NOT PRIVATE", "100", "numpy"]),
        "release of the thesis": (thesis, ["x1, x2", "50"]),
        "error bars": (made.predicted_error(kernels), ["Errors of 18 answers", "0.95"]),
        "error bars of a mixture": (made.predicted_error(mixture), ["Errors of 21 answers"]),
    }


class Named:
    """A family whose label is a script."""

    d, labels = 3, (SCRIPT,)

    def importance(self, index):
        return (np.asarray(index).sum(axis=1) == 1).astype(float)[None]


NAMES = ["schema", "ledger", "simulated ledger", "published ledger", "design", "release", "release of the thesis",
         "error bars", "error bars of a mixture"]


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_well_formed_and_escape_every_name(name):
    thing, words = shown()[name]
    tree = ElementTree.fromstring(f"<div>{thing._repr_html_()}</div>")
    assert {element.tag for element in tree.iter()} <= {"div", "table", "caption", "thead", "tbody", "tr", "th", "td",
                                                     "p", "strong", "b"}
    assert {key for element in tree.iter() for key in element.attrib} <= {"scope", "style", "colspan"}
    text = "".join(tree.itertext())
    assert [word for word in words if word not in text] == []
    assert str(SECRET)[:6] not in text
    # Each body's rows are as long as its head.
    for table in tree.iter("table"):
        lengths = {len(row) for row in table.iter("tr")}
        assert len(lengths) == 1


def test_every_kind_is_looked_at():
    assert list(shown()) == NAMES


def test_a_planted_name_that_is_not_escaped_is_found():
    with pytest.raises(ElementTree.ParseError):
        ElementTree.fromstring(f"<div>{html_table('a', [(1, 2)]).replace('1', SCRIPT)}</div>")


def test_long_tables_and_long_texts_are_cut():
    schema = tm.Schema(tm.Column(f"c{j}", kind="categorical", categories=tuple(map(str, range(999))))
                       for j in range(MOST_ROWS + 40))
    tree = ElementTree.fromstring(schema._repr_html_())
    assert len(list(tree.iter("tr"))) == 1 + MOST_ROWS + 1
    assert "and 40 more" in "".join(tree.itertext())
    assert max(len(text) for text in tree.itertext()) == MOST_LETTERS + 1


def test_a_row_without_a_head_starts_with_its_name():
    tree = ElementTree.fromstring(html_table("title", [("rows", 3)]))
    assert [(cell.tag, cell.text) for cell in tree.iter() if cell.tag in ("th", "td")] == [("th", "rows"), ("td", "3")]


@pytest.mark.parametrize("head", [None, ("a" * 201, "b")])
def test_texts_are_cut_beyond_the_most_letters_and_rows_beyond_the_most_rows(head):
    for letters, shown in ((MOST_LETTERS, MOST_LETTERS * "x"), (MOST_LETTERS + 1, MOST_LETTERS * "x" + "…")):
        tree = ElementTree.fromstring(html_table("title", [(letters * "x", letters * "x")], head))
        assert [cell.text for cell in tree.find("tbody").iter() if cell.tag in ("th", "td")] == [shown, shown]
    for count, more in ((MOST_ROWS, []), (MOST_ROWS + 1, ["and 1 more"]), (MOST_ROWS + 9, ["and 9 more"])):
        tree = ElementTree.fromstring(html_table("title", [(str(i), "y") for i in range(count)], head))
        rows = [[cell.text for cell in row] for row in tree.find("tbody")]
        assert rows == [*([str(i), "y"] for i in range(MOST_ROWS)), *([text] for text in more)]


def test_only_a_light_of_a_place_of_lights_has_a_sign():
    tree = ElementTree.fromstring(html_table("title", [("good", "care", "x")], ("good", "poor", "care"), lights={1, 2}))
    assert [cell.text for cell in tree.find("thead").iter("th")] == ["good", "poor", "care"]
    cells = list(tree.find("tbody").iter("td"))
    assert [cell.text for cell in cells] == ["good", None, "x"]
    assert [bold.text for bold in tree.iter("b")] == ["▲ care"]


@pytest.mark.nightly  # By day a release imports none, in test_tables.py.
def test_no_dataframe_library_is_needed():
    code = ("import sys, trigmech as tm\ntm.Schema.cube(2)._repr_html_(); tm.Ledger(tm.Budget(1.0))._repr_html_()\n"
            "print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(("delta", "shown"), [(0.0, "(1.00001, 0)"), (1.2340004e-9, "(1.00001, 1.23401e-09)")])
def test_a_guarantee_and_its_parts_are_shown_rounded_up(delta, shown):
    # To the nearest of six, and of four, digits these would read as less than they are.
    ledger = tm.Ledger(tm.Budget(2.0, delta))
    ledger.charge(tm.Charge("a", "laplace", 1.0 / 1.000004, 1.0, "L1", 1, "here"))
    page = ledger._repr_html_()
    assert f"proved {shown}-DP" in page
    assert "(1.001, 0)" in page
