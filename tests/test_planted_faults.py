"""The planted faults can be planted, and who plants them tells those that die from those that do not."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from planted_faults import Fault, missing, read
from planted_faults.__main__ import forget_compiled, judged

ROOT = Path(__file__).parents[1]
FAULTS = read()


@pytest.mark.nightly  # By day texts are looked for, below; to compile each takes seconds.
def test_every_fault_can_still_be_planted():
    for fault in FAULTS:
        assert fault.planted((ROOT / fault.file).read_text(encoding="utf-8")), fault.name


def test_the_text_of_every_fault_stands_once_and_its_tests_are_there():
    sources = {file: (ROOT / file).read_text(encoding="utf-8") for file in {fault.file for fault in FAULTS}}
    for fault in FAULTS:
        # Of the package, of what measures it, or of what is said of it.
        assert fault.file.startswith(("trigmech/", "experiments/", "docs/")) or fault.file == "README.md", fault.name
        assert sources[fault.file].count(fault.old) == 1, fault.name
        assert fault.new != fault.old, fault.name
        assert fault.tests, fault.name
        assert missing(fault, ROOT) == [], fault.name
        assert fault.why.endswith("."), fault.name


def test_every_fault_has_a_test_that_runs_by_day(request):
    if request.config.option.keyword or any("::" in chosen for chosen in request.config.args):
        pytest.skip("a part of a file was chosen")
    run = set()
    for item in request.session.items:
        # A case, its test, and its file may be named.
        run |= {item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]}
    files = {test.partition("::")[0] for test in run}
    assert [fault.name for fault in FAULTS if {test.partition("::")[0] for test in fault.tests} <= files
            and not run.intersection(fault.tests)] == []


def test_there_are_enough_of_them_and_they_are_of_many_modules():
    assert len(FAULTS) >= 70
    assert len({fault.file for fault in FAULTS}) >= 20


def test_what_is_compiled_of_those_who_use_a_faulty_function_is_forgotten(tmp_path):
    """Three faults lived: numba looks at the time of a function's own file, and not at those of what it calls."""
    uses = {"steps.py": "", "sweeps.py": "from trigmech.fit.steps import one\n", "other.py": "import numpy as np\n",
            "rows.py": "from trigmech.fit.sweeps import sweep\n", "mixed.py": "from trigmech.fit.rows import Rows\n",
            "steps_of.py": "from trigmech.fit.steps_more import one\n"}
    folder = tmp_path / "trigmech" / "fit"
    (folder / "__pycache__").mkdir(parents=True)
    for name, text in uses.items():
        (folder / name).write_text(text, encoding="utf-8")
    # Rows are not compiled, so what uses them holds no sweeps.
    compiled = [folder / "__pycache__" / f"{name}.one-1.py311{end}"
                for name in ("steps", "sweeps", "other", "mixed", "steps_of") for end in (".nbi", ".1.nbc")]
    for path in compiled:
        path.touch()
    forget_compiled(tmp_path, "trigmech/fit/steps.py")
    assert [path.exists() for path in compiled] == [True] * 2 + [False] * 2 + [True] * 6


SOURCE = "def double(x):\n    return x + x  # twice\n"


@pytest.mark.parametrize(("old", "new", "said"), [
    ("x * 2", "x * 3", "stands 0 times"), ("x", "y", "stands 3 times"), ("# twice", "# two times", "changes nothing"),
    ("x + x", "x + x", "changes nothing")])
def test_what_cannot_be_planted_is_told(old, new, said):
    fault = Fault("name", "Why.", "a.py", old, new, ("tests/test_a.py",))
    with pytest.raises(ValueError, match=said):
        fault.planted(SOURCE)


def test_a_page_is_planted_with_a_fault_as_a_module_is():
    page = Fault("name", "Why.", "a.md", "42 times", "52 times", ("tests/test_a.py",))
    assert page.planted("It is 42 times as large (not 4).") == "It is 52 times as large (not 4)."
    with pytest.raises(ValueError, match="stands 0 times"):
        page.planted("It is 52 times as large.")
    with pytest.raises(ValueError, match="changes nothing"):
        Fault("name", "Why.", "a.md", "42", "42", ("tests/test_a.py",)).planted("It is 42.")


def test_tests_that_are_not_there_or_not_run_are_told():
    fault = Fault("name", "Why.", "a.py", "x", "y", (
        "tests/test_planted_faults.py", "tests/test_none.py", "tests/test_planted_faults.py::test_none",
        "tests/test_planted_faults.py::test_tests_that_are_not_there_or_not_run_are_told[any]",
        "tests/test_planted_faults.py::test_the_status_is_0_if_all_that_were_named_died"))
    assert missing(fault, ROOT) == [
        "tests/test_none.py", "tests/test_planted_faults.py::test_none",
        "tests/test_planted_faults.py::test_the_status_is_0_if_all_that_were_named_died"]


TREE = {
    "double.py": SOURCE,
    "tests/test_double.py": "from double import double\n\n\ndef test_two():\n    assert double(1) == 2\n\n\n"
                            "def test_zero():\n    assert double(0) == 0\n",
}
LISTED = """
[[fault]]
name = "{name}"
why = "Why."
file = "double.py"
old = "{old}"
new = "{new}"
tests = ["tests/test_double.py{test}"]
"""
# Of an old and a new text and a test: what is said.
ATTEMPTS = {
    "dies": ("x + x", "x + 2 * x", "", "died      dies"),
    "survives": ("x + x", "x + 2 * x", "::test_zero", "SURVIVED  survives"),
    "not there": ("x + y", "x + 2 * x", "", "did not apply not there"),
    "no name": ("x + x", "x + y", "", "could not be tested no name"),
}


def attempted(folder, names, source=SOURCE):
    """What comes of planting faults in a small tree."""
    for path, content in {**TREE, "double.py": source}.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(content)
    listed = folder / "faults.toml"
    listed.write_text("".join(LISTED.format(name=name, old=ATTEMPTS[name][0], new=ATTEMPTS[name][1],
                                            test=ATTEMPTS[name][2]) for name in ATTEMPTS))
    command = [sys.executable, "-m", "tests.planted_faults", "--root", str(folder), "--file", str(listed), *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    # The tree itself is left alone.
    assert (folder / "double.py").read_text() == source
    return done


@pytest.mark.parametrize(("status", "printed", "verdict"), [
    (0, "", "SURVIVED"), (1, "FAILED tests/test_a.py::test_a - assert 1 == 2\n", "died"), (-signal.SIGSEGV, "", "died"),
    (-signal.SIGABRT, "1 passed\n", "died"), (-signal.SIGKILL, "", "could not be tested"),
    (1, "ERROR tests/test_a.py - ImportError: no\n", "could not be tested"),
    (1, "FAILED tests/test_a.py::test_a - NameError: name 'x'\n", "could not be tested"),
    (5, "no tests ran\n", "could not be tested")])
def test_a_failed_test_and_a_crash_are_deaths_and_nothing_else_is(status, printed, verdict):
    assert judged(subprocess.CompletedProcess([], status, printed, ""))[0] == verdict


@pytest.mark.nightly
def test_faults_that_die_are_told_from_those_that_do_not_and_from_those_that_cannot_be_tested(tmp_path):
    done = attempted(tmp_path, [])
    for *_, said in ATTEMPTS.values():
        assert said in done.stdout, done.stdout + done.stderr
    assert done.returncode == 1
    assert "1 of 4 died\nnot: " in done.stdout


@pytest.mark.nightly
def test_the_status_is_0_if_all_that_were_named_died(tmp_path):
    done = attempted(tmp_path, ["d*"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 died" in done.stdout
    assert "survives" not in done.stdout


@pytest.mark.nightly
def test_without_tests_that_pass_nothing_is_planted(tmp_path):
    done = attempted(tmp_path, ["dies"], SOURCE.replace("x + x", "x"))
    assert done.returncode == 1
    assert "FAILED tests/test_double.py::test_two" in done.stdout
    assert "died" not in done.stdout
