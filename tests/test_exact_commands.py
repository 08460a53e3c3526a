"""What commands say while they work: the steps in their order, and where the private table is compared, that it is."""

import contextlib
import json
import re
from types import SimpleNamespace

import pytest
from test_cli import run as run  # a fixture

import trigmech as tm
from trigmech import cli
from trigmech.cli import app, copies, decision, judgement, release
from trigmech.errors import MissingLibraryError
from trigmech.report import against, page


@pytest.fixture
def steps(monkeypatch):
    """The steps of a command, whose work is not done."""
    told = []

    @contextlib.contextmanager
    def bar(quiet=False):
        told.append(("quiet" if quiet else "shown", 0, 0))
        yield lambda *step: told.append(step)

    for module in (app, decision, release, copies):
        monkeypatch.setattr(module, "progress_bar", bar)
    return told


@pytest.fixture
def saved(tmp_path, monkeypatch):
    (tmp_path / "a.tm").write_bytes(b"")
    (tmp_path / "b.tm").write_bytes(b"")
    loaded = []
    monkeypatch.setattr(tm, "load", lambda path: loaded.append(str(path)) or SimpleNamespace(of=str(path)))
    for module in (app, decision):
        monkeypatch.setattr(module, "table_against",
                            lambda made, path, schema, written: f"table of {path} by {made.of}")
    return loaded


@pytest.mark.parametrize("as_json", [False, True])
def test_evaluating_reads_the_table_and_then_compares(run, steps, saved, monkeypatch, as_json):
    given = []

    def judgement(made, table, progress):
        given.append(table)
        progress("comparing", 1, 2)
        return SimpleNamespace(by=lambda limits: SimpleNamespace(to_dict=lambda: {"verdict": "good"}))

    monkeypatch.setattr(against, "judgement_of", judgement)
    monkeypatch.setattr(against, "errors_of", lambda made, table: {"errors": table})
    monkeypatch.setattr(app, "tell_judgement", lambda found: print("judged"))
    status, out, err = run("evaluate", "a.tm", "--against", "t.csv", *["--json"] * as_json)
    assert (status, given, saved) == (0, ["table of t.csv by a.tm"], ["a.tm"])
    assert steps == [("quiet" if as_json else "shown", 0, 0), ("reading the table", 0, 0), ("comparing", 1, 2)]
    if as_json:
        assert json.loads(out) == {"private": True, "verdict": "good", "errors": "table of t.csv by a.tm"}
    else:
        assert out == "judged\n"
        assert err == ("NOT PRIVATE: these figures were computed from the private table. Do not publish them.")


@pytest.mark.parametrize("private", [False, True])
def test_a_page_is_written_after_its_tables_are_read(run, steps, saved, monkeypatch, tmp_path, private):
    given = {}

    def write(made, path, table, figures, progress, **more):
        given.update(more, table=table, figures=figures)
        progress("drawing", 1, 2)
        return path

    monkeypatch.setattr(page, "write", write)
    more = ("--against", "t.csv", "--held-out", "h.csv") if private else ()
    status, out, err = run("report", "a.tm", *more)
    assert (status, out) == (0, "written: a.html\n")
    assert steps == [("shown", 0, 0), ("reading the table", 0, 0), ("drawing", 1, 2)]
    assert (given["table"], given["held_out"], given["figures"]) == (
        ("table of t.csv by a.tm", "table of h.csv by a.tm", None) if private else (None, None, None))
    assert err == ("NOT PRIVATE: the page shows the private table. Do not publish it." if private else "")


def test_releases_are_compared_after_the_table_is_read(run, steps, saved, monkeypatch):
    given = []
    monkeypatch.setattr(tm, "compare", lambda releases, table, limits: given.append((list(releases), table)))
    monkeypatch.setattr(decision, "_tell", lambda found, html, as_json: None)
    status, _, err = run("compare", "a.tm", "b.tm", "--against", "t.csv")
    assert (status, given, saved) == (0, [(["a", "b"], "table of t.csv by a.tm")], ["a.tm", "b.tm"])
    assert steps == [("shown", 0, 0), ("reading the table", 0, 0), ("comparing", 0, 0)]
    assert err.startswith("NOT PRIVATE")
    status, _, err = run("compare", "a.tm", "b.tm", "--json")
    assert (status, given[1], err) == (0, (["a", "b"], None), "")
    assert steps[3:] == [("quiet", 0, 0), ("reading the table", 0, 0), ("comparing", 0, 0)]


def test_a_release_is_saved_in_a_step_of_its_own(run, steps, monkeypatch, tmp_path):
    (tmp_path / "s.toml").write_text("[columns.x]\nlower = 0\nupper = 10\n")
    (tmp_path / "t.csv").write_text("x\n" + "1\n2\n" * 20)
    order = []

    def made(asked, table, schema, book, progress, **engine):
        progress("measuring", 40, 40)
        return SimpleNamespace(warnings=())

    monkeypatch.setattr(release, "_synthesized", made)
    monkeypatch.setattr(release, "_save", lambda made, asked, book: order.append((len(steps), str(asked.out))))
    monkeypatch.setattr(release, "_tell", lambda *given: None)
    monkeypatch.setattr("trigmech.report.advice.clipping_of", lambda made: [])
    assert run("release", "t.csv", "--schema", "s.toml", "--epsilon", "1", "--out", "r.tm")[0] == 0
    assert steps == [("shown", 0, 0), ("measuring", 40, 40), ("saving", 0, 0)]
    assert order == [(3, "r.tm")]


@pytest.mark.parametrize("there", [False, True])
def test_imputed_tables_take_the_place_of_an_empty_folder(run, steps, tmp_path, monkeypatch, there):
    asked = []

    class Held(list):
        schema = SimpleNamespace(table_names=("x",))
        rows, n = 30, 60

        def columns(self, i):
            return i

    def imputations(m, population, rng, progress):
        asked.append((m, population))
        progress("imputations", m, m)
        return Held([0] * m)

    monkeypatch.setattr(tm, "load", lambda path: SimpleNamespace(imputations=imputations,
                                                                ledger=SimpleNamespace(simulated=False)))
    monkeypatch.setattr(copies, "write_table", lambda path, chunks: path.write_text(str(list(chunks))))
    monkeypatch.setattr(copies, "page_of", lambda held, names: f"page of {len(held)}")
    (tmp_path / "a.tm").write_bytes(b"")
    if there:
        (tmp_path / "out").mkdir()
    status, out, _ = run("sample", "a.tm", "--imputations", "2", "--out", "out")
    assert (status, asked, steps) == (0, [(2, False)], [("shown", 0, 0), ("imputations", 2, 2)])
    assert out == ("written: 2 imputed tables of 30 rows, and README.md, which says how to combine them, in out\n")
    assert {each.name: each.read_text() for each in (tmp_path / "out").iterdir()} == {
        "imputation_01.csv": "[0]", "imputation_02.csv": "[1]", "README.md": "page of 2"}
    assert {each.name for each in tmp_path.iterdir()} == {"a.tm", "out"}


@pytest.mark.parametrize(("columns", "person", "rows", "said"), [
    ([tm.Column("a", 0, 1), tm.Column("b", 0, 1), tm.Column("c", 0, 1)], None, 60, ("a ~ b", "60 rows.")),
    ([tm.Column("a b", 0, 1), tm.Column("c", 0, 1)], "who", 30,
     ("c ~ 1", "persons", "so counts and sums must be multiplied by 2 to")),
    ([tm.Column("c", kind="categorical", categories=["x", "y"])], None, 60, ("c ~ 1",))])
def test_the_page_beside_imputed_tables_has_a_formula_and_the_factor_of_sums(monkeypatch, columns, person, rows, said):
    monkeypatch.setattr(copies, "PAGE", "{m} {formula} {counted} {n}, {rows} rows{scaled} {factor}")

    class Held(list):
        schema, n = tm.Schema(columns, person=person), 60

    held = Held([0] * 3)
    held.rows = rows
    page = copies.page_of(held, tuple(column.name for column in columns))
    assert page.startswith(f"3 {said[0]} {'rows' if person is None else 'persons'} 60")
    assert page.endswith(f" {rows / 60:g}")
    assert all(part in page for part in said)


def test_a_judgement_is_a_table_between_its_verdict_and_how_to_read_it(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    measures = [SimpleNamespace(words="pairs", about="a[red]", name="pair_worst", value=0.12345, fresh=0.5,
                                light="poor"),
                SimpleNamespace(words="copies", about="", name="copies", value=1.0, fresh=None, light="good")]
    judgement.tell_judgement(SimpleNamespace(
        verdict="verdict", compared="compared", measures=measures,
        limits={"pair_worst": SimpleNamespace(good=0.8, care=0.6), "copies": SimpleNamespace(good=0.01, care=0.05)}))
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-2], lines[-1]) == ("verdict", "compared", judgement.HOW_TO_READ)
    cells = [[cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in lines if line[:1] in "┃│"]
    assert cells == [["measure", "release", "fresh", "limits", "light"],
                     ["pairs (a[red])", "0.123", "0.500", "0.8, 0.6", "poor"],
                     ["copies", "1.000", "", "0.01, 0.05", "good"]]


def test_without_the_library_of_commands_what_to_install_is_said_beside_the_output(monkeypatch, capsys):
    def need(extra, what):
        raise MissingLibraryError(f"{what} needs {extra}")

    monkeypatch.setattr(cli, "need", need)
    with pytest.raises(SystemExit) as ending:
        cli.main()
    assert (ending.value.code, *capsys.readouterr()) == (2, "", "trigmech: the command line needs cli\n")
