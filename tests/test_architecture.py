"""What the modules may import and use, read from their source; nothing of the package is run but its import."""

import ast
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(importlib.util.find_spec("trigmech").submodule_search_locations[0])
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.glob("*.py"))}

# Imports go strictly to lower levels, so a reader never turns back. A new module needs a line here.
LEVELS = {
    "chunks": 0, "cli_progress": 0, "errors": 0, "html_tables": 0, "memory": 0, "report_figures": 0, "typed_columns": 0,
    "values": 0, "_kernels": 0,
    "budget": 1, "column": 1, "csv_cells": 1, "ellipsoid": 1, "kernel_numbers": 1, "layout": 1, "noise": 1,
    "outputs": 1, "privacy_loss": 1, "sensitivity": 1, "tables": 1,
    "accounting": 2, "archive": 2, "basis": 2, "denoise": 2, "distribution": 2, "encoding": 2, "file_formats": 2,
    "ledger_format": 2, "ledger_lock": 2, "marginals": 2, "rows": 2,
    "calibration": 3, "cli_options": 3, "csv_text": 3, "features": 3, "grid": 3, "ledger_file": 3, "pricing": 3,
    "query_family": 3, "relaxed": 3, "schema": 3,
    "fit": 4, "importance": 4, "kernel_queries": 4, "ledger": 4, "moments": 4, "particles": 4, "polynomial_queries": 4,
    "report_columns": 4, "table_file": 4,
    "release": 5, "schema_file": 5, "workload": 5,
    "bounds": 6, "evaluate": 6, "planner": 6, "reconstruct": 6, "support": 6,
    "error_bars": 7, "mechanisms": 7, "mixed": 7, "reconstruct_mixed": 7, "report_against": 7, "saved": 7, "smooth": 7,
    "moment_mechanism": 8, "rehearsal": 8,
    "synthesis": 9,
    "advice": 10, "cli_evaluation": 10, "cli_files": 10, "demo": 10, "report_statement": 10, "synthesizer": 10,
    "cli_ledger": 11, "preview": 11, "report_sections": 11,
    "cli_preview": 12, "report": 12, "__init__": 12,
    "cli_release": 13,
    "cli": 14,
}  # fmt: skip

# The only modules that import a library, wherever in their source.
SOLE_IMPORTERS = {"highspy": {"fit"}, "opendp": {"noise"}, "dp_accounting": {"accounting", "privacy_loss"},
                  "numba": {"_kernels"}, "filelock": {"ledger_lock"}}

ONLY_THESE_SEE_PRIVATE_MOMENTS = {"release", "mechanisms", "moment_mechanism"}
# What asks the door to release something; the bounds bring counts instead of moments.
USE_THE_DOOR = {"mechanisms", "moment_mechanism", "bounds"}
# What comes after the release, or, like the planners, before it from public numbers alone: it may not even reach the
# moments through another module.
BEHIND_THE_DOOR = {"ellipsoid", "fit", "distribution", "workload", "evaluate", "features", "marginals", "particles",
                   "denoise", "pricing", "planner", "smooth", "calibration", "sensitivity", "layout", "relaxed",
                   "mixed", "query_family", "importance", "kernel_numbers", "kernel_queries", "polynomial_queries"}
# What works on a release and may know its type, but not the functions that make one.
KNOW_THE_TYPE_OF_A_RELEASE = {"support", "reconstruct", "reconstruct_mixed", "error_bars", "synthesis", "saved",
                              "advice", "report_sections", "report_statement"}
TYPES_OF_RELEASES = {"Axes", "Release", "MomentRelease"}

each_module = pytest.mark.parametrize("module", SOURCES)


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


def own_imports(source):
    """The package's modules among the imports; the package itself is its __init__."""
    found = set()
    for name in imports(source):
        parts = name.split(".")
        if parts[0] == "trigmech":
            found.add(parts[1] if len(parts) > 1 else "__init__")
    # `from trigmech import workload` names a module of the package, not what its __init__ makes.
    modules = {name for name in found if name in SOURCES}
    if "__init__" in modules and not imports_package_itself(source):
        modules.discard("__init__")
    return modules


def imports_package_itself(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and any(alias.name == "trigmech" for alias in node.names):
            return True
        if (isinstance(node, ast.ImportFrom) and node.module == "trigmech"
                and any(alias.name not in SOURCES for alias in node.names)):
            return True
    return False


def upward(module, source):
    return {name for name in own_imports(source) if LEVELS[name] >= LEVELS[module]}


def reachable(module):
    seen, waiting = set(), [module]
    while waiting:
        for name in own_imports(SOURCES[waiting.pop()]) - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def taken_of_the_door(source):
    """Names that a source imports from the door; * if it imports the module itself."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            if node.module == "trigmech.release":
                found |= {alias.name for alias in node.names}
            elif node.module == "trigmech" and any(alias.name == "release" for alias in node.names):
                found.add("*")
        elif isinstance(node, ast.Import) and any(alias.name == "trigmech.release" for alias in node.names):
            found.add("*")
    return found


def libraries(source):
    return {name.split(".")[0] for name in imports(source)}


def dotted(node):
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def faults(source):
    """Global randomness, constant seeds, assert statements and fast mathematics in a source."""
    found = []
    for node in ast.walk(ast.parse(source)):
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
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr) and "default_rng" in ast.dump(node):
            found.append("module-level generator")
    return found


def test_every_module_has_a_level_and_no_level_is_left_over():
    assert set(SOURCES) == set(LEVELS)


@each_module
def test_imports_go_strictly_to_lower_levels(module):
    assert upward(module, SOURCES[module]) == set()


@each_module
def test_imports_are_absolute(module):
    assert not [name for name in imports(SOURCES[module]) if name.startswith(".")]


@each_module
def test_heavy_libraries_have_one_importer_each(module):
    allowed = {name for name, importers in SOLE_IMPORTERS.items() if module in importers}
    assert libraries(SOURCES[module]) & set(SOLE_IMPORTERS) == allowed


@each_module
def test_private_moments_are_imported_by_the_door_and_by_what_leads_to_it_alone(module):
    assert ("moments" in own_imports(SOURCES[module])) == (module in ONLY_THESE_SEE_PRIVATE_MOMENTS)


@pytest.mark.parametrize("module", sorted(BEHIND_THE_DOOR))
def test_modules_behind_the_door_cannot_reach_private_moments(module):
    assert reachable(module) & {"moments", "release", "schema", "rows", "bounds", "table_file"} == set()


@each_module
def test_only_the_mechanisms_use_the_door_and_others_know_its_results_at_most(module):
    taken = taken_of_the_door(SOURCES[module])
    if module in KNOW_THE_TYPE_OF_A_RELEASE:
        assert taken
        assert taken <= TYPES_OF_RELEASES
    else:
        assert bool(taken) == (module in USE_THE_DOOR)


@pytest.mark.parametrize("fault", ["from trigmech.release import MomentRelease, release_moments",
                                   "import trigmech.release", "from trigmech import release"])
def test_planted_uses_of_the_door_are_found(fault):
    assert not taken_of_the_door(fault) <= TYPES_OF_RELEASES


@each_module
def test_no_global_randomness_no_assert_no_fast_mathematics(module):
    assert faults(SOURCES[module]) == []


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


@pytest.mark.parametrize("fault", ["from trigmech.release import release", "import trigmech",
                                   "from trigmech import Budget", "from trigmech import mechanisms",
                                   "def f():\n    from trigmech.cli import app"])
def test_planted_upward_imports_are_found(fault):
    assert upward("moments", fault) != set()


IMPORT = """
import json, sys
import trigmech
from trigmech import _kernels
compiled = {name: len(value.signatures) for name, value in vars(_kernels).items() if hasattr(value, "signatures")}
print(json.dumps({"modules": sorted({name.partition(".")[0] for name in sys.modules}), "compiled": compiled}))
"""


def test_importing_the_package_loads_no_heavy_library_and_compiles_nothing():
    # -W error as in the suite, and in isolation from what the suite has imported.
    done = subprocess.run([sys.executable, "-W", "error", "-c", IMPORT], cwd=PACKAGE.parent, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout)
    assert "numba" in state["modules"]
    heavy = {"opendp", "dp_accounting", "highspy", "matplotlib", "sklearn", "pandas", "polars", "pyarrow", "rich"}
    assert heavy & set(state["modules"]) == set()
    assert len(state["compiled"]) >= 6
    assert set(state["compiled"].values()) == {0}
