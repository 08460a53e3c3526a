"""What the modules may import and use, read from their source; nothing of the package is run but its import."""

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("trigmech").submodule_search_locations[0])
ROOT = Path(__file__).parent.parent
SOURCES = {path.relative_to(PACKAGE).with_suffix("").as_posix(): path.read_text(encoding="utf-8")
           for path in sorted(PACKAGE.rglob("*.py"))}

# The only modules that import a library, wherever in their source.
SOLE_IMPORTERS = {"highspy": {"reconstruction/linear_program"}, "opendp": {"privacy/noise"},
                  "dp_accounting": {"privacy/accounting", "privacy/privacy_loss"},
                  "numba": {"functions/kernels", "functions/coordinate_ascent", "measurement/counts",
                            "measurement/sums", "reconstruction/columns", "reconstruction/row_kernels"},
                  "filelock": {"privacy/ledger_lock"}, "psycopg": {"privacy/ledger_server"},
                  "dask": {"engines/dask"}, "distributed": {"engines/dask"}, "pyspark": {"engines/spark"}}

@cache
def imports(source):
    """Names of all imported modules, dotted; `from a import b` gives a and a.b, for b may be a module."""
    found = set()
    for node in ast.walk(ast.parse(source)):
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
    found, tree = [], ast.parse(source)
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


@pytest.mark.parametrize(("module", "line"), [
    ("workload/family", "from trigmech.synthesis import synthesize"),
    ("functions/grid", "import trigmech.planning.search"),
    ("reconstruction/shrinkage", "def f():\n    from trigmech.measurement.moments import measure"),
    ("reconstruction/particles", "from trigmech.measurement import rows"),
    ("planning/one_hot", "from trigmech.measurement.release import release_moments"),
    ("synthesis", "from trigmech.measurement.moments import measure"),
    ("results", "from trigmech.measurement.counts import histograms"),
    ("planning/dependence", "from trigmech.measurement.counts import joint_counts"),
    ("results", "from trigmech.measurement.release import Session"),
    ("mechanisms/moment", "from trigmech.thesis import calibration"),
    ("engines/spread", "from trigmech.measurement.release import Session"),
    ("measurement/rows", "from trigmech.engines.choice import opened"),
])
def test_planted_imports_break_the_contracts(copied, module, line):
    path = copied / "trigmech" / f"{module}.py"
    path.write_text(path.read_text(encoding="utf-8") + f"\n\n{line}\n", encoding="utf-8")
    assert contracts(copied).returncode != 0


def test_imports_are_absolute():
    assert [module for module, source in SOURCES.items() if any(name.startswith(".") for name in imports(source))] == []


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


IMPORT = """
import json, sys
import trigmech
from trigmech.functions import kernels
compiled = {name: len(value.signatures) for name, value in vars(kernels).items() if hasattr(value, "signatures")}
print(json.dumps({"modules": sorted({name.partition(".")[0] for name in sys.modules}), "compiled": compiled}))
"""


def test_importing_the_package_loads_no_heavy_library_and_compiles_nothing():
    # -W error as in the suite, and in isolation from what the suite has imported.
    done = subprocess.run([sys.executable, "-W", "error", "-c", IMPORT], cwd=PACKAGE.parent, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout)
    assert "numba" in state["modules"]
    heavy = {"opendp", "dp_accounting", "highspy", "matplotlib", "sklearn", "pandas", "polars", "pyarrow", "rich",
             "psycopg", "dask", "distributed", "pyspark", "cloudpickle"}
    assert heavy & set(state["modules"]) == set()
    assert len(state["compiled"]) >= 6
    assert set(state["compiled"].values()) == {0}
