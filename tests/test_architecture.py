"""What the modules may import and use, read from their source; nothing of the package is run but its import."""

import ast
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import trigmech

PACKAGE = Path(importlib.util.find_spec("trigmech").submodule_search_locations[0])
ROOT = Path(__file__).parent.parent
SOURCES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
           for path in sorted(PACKAGE.rglob("*.py"))}

# The number of lines that a module has at most; two ideas share a longer one.
MOST_LINES = 400
# The only modules that import a library, wherever in their source.
SOLE_IMPORTERS = {"highspy": {"reconstruction/linear_program"}, "opendp": {"privacy/noise"},
                  "dp_accounting": {"privacy/privacy_loss"},
                  "numba": {"functions/kernels", "functions/coordinate_ascent", "functions/look_up",
                            "inference/drawing", "measurement/compact", "measurement/sums", "measurement/sweep",
                            "reconstruction/pieces", "reconstruction/prefetch", "reconstruction/row_arrays",
                            "reconstruction/thinning"},
                  "filelock": {"privacy/ledger_lock"}, "psycopg": {"privacy/ledger_server"},
                  "dask": {"engines/dask"}, "distributed": {"engines/dask"}, "pyspark": {"engines/spark"}}

# A source is read by several tests.
parsed = cache(ast.parse)


@cache
def imports(source):
    """Names of all imported modules, dotted; `from a import b` gives a and a.b, for b may be a module."""
    found = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            # A relative import would hide from the rules below.
            base = "." * node.level + (node.module or "")
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


def libraries(source):
    return {name.split(".")[0] for name in imports(source)}


def dotted(node):
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def faults(source):
    """Global randomness, constant seeds, assert statements and fast mathematics in a source."""
    found, tree = [], parsed(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            found.append("assert")
        if isinstance(node, ast.keyword) and node.arg == "fastmath" and not (
                isinstance(node.value, ast.Constant) and node.value.value is False):
            found.append("fastmath")
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if name.startswith(("np.random.", "numpy.random.")) and name.split(".")[2] not in (
                    "default_rng", "Generator", "SeedSequence"):
                found.append(name)
        if isinstance(node, ast.Call) and dotted(node.func).endswith("default_rng") and any(
                isinstance(argument, ast.Constant) and argument.value is not None for argument in node.args):
            found.append("constant seed")
    if "random" in libraries(source):
        found.append("random")
    # Made at import, a generator is global state whatever its seed.
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr) and "default_rng" in ast.dump(node):
            found.append("module-level generator")
    return found


def contracts(folder, more=""):
    """Return what import-linter finds of a package at ``folder``, by this project's contracts."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    assert settings["contracts"]
    config = folder / "pyproject.toml"
    config.write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"), encoding="utf-8")
    return subprocess.run([sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()",
                           "--config", str(config), "--no-cache"], cwd=folder, capture_output=True, text=True,
                          check=False, env={**os.environ, "PYTHONPATH": str(folder)})


@pytest.fixture
def copied(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "trigmech", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_imports_keep_to_the_contracts(copied):
    done = contracts(copied)
    assert done.returncode == 0, done.stdout


# Each breaks a contract: where it is planted, and what it imports.
PLANTED_IMPORTS = (
    ("workload/family", "from trigmech.synthesis import synthesize"),
    ("functions/grid", "import trigmech.planning.search"),
    ("reconstruction/shrinkage", "def f():\n    from trigmech.measurement.moments import measure"),
    ("reconstruction/particles", "from trigmech.measurement import rows"),
    ("planning/one_hot", "from trigmech.measurement.release import release_moments"),
    ("synthesis", "from trigmech.measurement.moments import measure"),
    ("results", "from trigmech.measurement.counts import histograms"),
    ("planning/dependence", "from trigmech.measurement.counts import JointCounts"),
    ("results", "from trigmech.measurement.release import Session"),
    ("queries/base", "from trigmech.measurement.rows import PrivateRows"),
    ("queries/joint", "from trigmech.planning.tables import TableDesign"),
    ("queries/one_way", "from trigmech.schema.schema import Schema"),
    ("planning/selection", "from trigmech.measurement.exact import exact_sums"),
    ("storage/mechanism_file", "from trigmech.measurement.rows import PrivateRows"),
    ("mechanisms/moment", "from trigmech.thesis import calibration"),
    ("engines/spread", "from trigmech.measurement.release import Session"),
    ("measurement/rows", "from trigmech.engines.choice import opened"),
)


@pytest.mark.nightly  # By day the contracts themselves, and one planted import.
def test_planted_imports_break_the_contracts(copied):
    for module, line in PLANTED_IMPORTS:
        path = copied / "trigmech" / f"{module}.py"
        path.write_text(path.read_text(encoding="utf-8") + f"\n\n{line}\n", encoding="utf-8")
    done = contracts(copied)
    said = re.sub(r"\s+", " ", done.stdout)
    for module, line in PLANTED_IMPORTS:
        imported = re.search(r"(?:from|import) (trigmech[\w.]*)", line)[1]
        assert f"trigmech.{module.replace('/', '.')} -> {imported}" in said, line
    assert done.returncode != 0


def test_imports_are_absolute():
    assert [module for module, source in SOURCES.items() if any(name.startswith(".") for name in imports(source))] == []


def long_modules(sources):
    return {name for name, source in sources.items() if source.count("\n") > MOST_LINES}


def test_no_module_is_longer_than_a_reader_can_hold():
    assert long_modules(SOURCES) == set()
    name, source = max(SOURCES.items(), key=lambda each: each[1].count("\n"))
    assert long_modules({name: source + "\n" * (MOST_LINES + 1 - source.count("\n"))}) == {name}


def test_heavy_libraries_have_one_importer_each():
    found = {name: {module for module, source in SOURCES.items() if name in libraries(source)}
             for name in SOLE_IMPORTERS}
    assert found == SOLE_IMPORTERS


def test_no_global_randomness_no_assert_no_fast_mathematics():
    assert {module: found for module, source in SOURCES.items() if (found := faults(source))} == {}


@pytest.mark.parametrize(("fault", "found"), [
    ("import numpy as np\nx = np.random.normal()", "np.random.normal"),
    ("import numpy as np\ndef f():\n    np.random.seed(0)", "np.random.seed"),
    ("import numpy as np\ndef f():\n    return np.random.default_rng(0)", "constant seed"),
    ("from numpy.random import default_rng\ndef f():\n    return default_rng(7)", "constant seed"),
    ("import numpy as np\nrng = np.random.default_rng()", "module-level generator"),
    ("def f():\n    import random", "random"),
    ("def f(x):\n    assert x > 0", "assert"),
    ("@njit(fastmath=True)\ndef f(x):\n    return x", "fastmath"),
    ("@njit(fastmath={'nnan'})\ndef f(x):\n    return x", "fastmath"),
])
def test_planted_faults_are_found(fault, found):
    assert found in faults(fault)


# What a program prints of itself: the libraries that it has loaded, without Python's own, and how often kernels were
# compiled. -W error as in the suite, and in a process of its own, for the suite has imported most of them.
LOADED = """
import json, sys
before = set(sys.modules)
{program}
loaded = set(sys.modules) - before
kernels = vars(sys.modules.get("trigmech.functions.kernels", json))
print(json.dumps({{
    "libraries": sorted({{library for library in (name.partition(".")[0] for name in loaded)
                          if library not in sys.stdlib_module_names and not library.startswith("_")}}),
    "compiled": {{name: len(value.signatures) for name, value in kernels.items() if hasattr(value, "signatures")}},
    "scipy": sorted(name for name in loaded if name.startswith("scipy.") and name.count(".") == 1
                    and not name.startswith("scipy._"))}}), file=sys.stderr)
"""
HELP = """
import trigmech.cli
sys.argv = ["trigmech", "--help"]
try:
    trigmech.cli.main()
except SystemExit as end:
    assert not end.code
"""
# With what they take along if it is there.
TYPER = {"annotated_doc", "attr", "attrs", "click", "colorama", "markdown_it", "mdurl", "pygments", "rich",
         "shellingham", "typer", "typing_extensions"}


def loaded_by(program, package=PACKAGE.parent):
    done = subprocess.run([sys.executable, "-W", "error", "-c", LOADED.format(program=program)], cwd=package,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stderr.splitlines()[-1])


# What may be loaded, and nothing else: who asks for a name waits for what it needs, and for no more.
@pytest.mark.parametrize(("program", "allowed"), [
    ("import trigmech", set()),
    ("import trigmech\ntrigmech.InputError, dir(trigmech), trigmech.__version__", set()),
    (HELP, TYPER | {"numpy"}),
    ("from trigmech import Budget, Charge", {"numpy"}),
    ("from trigmech import Column, Schema, load_schema", {"narwhals", "numpy", "tomli_w"}),
], ids=["import", "errors", "--help", "budgets", "schemas"])
def test_nothing_is_loaded_that_is_not_used(program, allowed):
    assert set(loaded_by(program)["libraries"]) - {"trigmech"} <= allowed


def test_a_release_is_ready_without_what_only_other_things_need_and_compiles_nothing():
    state = loaded_by("from trigmech import synthesize, load")
    heavy = {"opendp", "dp_accounting", "highspy", "matplotlib", "sklearn", "pandas", "polars", "pyarrow", "rich",
             "psycopg", "dask", "distributed", "pyspark", "cloudpickle"}
    assert heavy & set(state["libraries"]) == set()
    assert not {"scipy.stats", "scipy.signal", "scipy.integrate"} & set(state["scipy"])
    # What a run needs after its charge is there before it: what cannot be loaded then would lose what was paid for.
    assert {"scipy.special", "scipy.optimize", "scipy.interpolate"} <= set(state["scipy"])
    assert "numba" in state["libraries"]
    assert len(state["compiled"]) >= 6
    assert set(state["compiled"].values()) == {0}


@pytest.mark.parametrize("planted", ["import numpy", "import trigmech.privacy.accounting"])
def test_a_planted_import_is_found(copied, planted):
    path = copied / "trigmech" / "__init__.py"
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{planted}\n", encoding="utf-8")
    assert set(loaded_by(f"sys.path.insert(0, {str(copied)!r})\nimport trigmech", copied)["libraries"]) > {"trigmech"}


def test_public_names_are_what_type_checkers_see_and_are_had_by_any_way():
    """One list for people and type checkers, one for Python: both have all names, from the same modules."""
    tree = ast.parse(SOURCES["__init__"])
    seen = {alias.name: node.module for block in tree.body if isinstance(block, ast.If) for node in block.body
            for alias in node.names}
    homes = {name: f"trigmech.{home}" for name, home in trigmech._HOME_OF.items()}
    assert seen == homes | {"workload": "trigmech"}
    assert sorted(seen) == trigmech.__all__
    assert set(seen) <= set(dir(trigmech))
    for name, home in homes.items():
        assert getattr(trigmech, name) is getattr(importlib.import_module(home), name)
    assert trigmech.workload is importlib.import_module("trigmech.workload")
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = trigmech.absent
