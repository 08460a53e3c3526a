"""The planted faults can be planted, and who plants them tells those that die from those that do not."""

import subprocess
import sys
from pathlib import Path

import pytest
from planted_faults import Fault, missing, read

ROOT = Path(__file__).parents[1]
FAULTS = read()
each_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


@each_fault
def test_every_fault_can_still_be_planted_and_its_tests_are_there(fault):
    assert fault.file.startswith("trigmech/")
    compile(fault.planted((ROOT / fault.file).read_text(encoding="utf-8")), fault.file, "exec")
    assert fault.tests
    assert missing(fault, ROOT) == []
    assert fault.why.endswith(".")


def test_there_are_enough_of_them_and_they_are_of_many_modules():
    assert len(FAULTS) >= 70
    assert len({fault.file for fault in FAULTS}) >= 20


SOURCE = "def double(x):\n    return x + x  # twice\n"


@pytest.mark.parametrize(("old", "new", "said"), [
    ("x * 2", "x * 3", "stands 0 times"), ("x", "y", "stands 3 times"), ("# twice", "# two times", "changes nothing"),
    ("x + x", "x + x", "changes nothing")])
def test_what_cannot_be_planted_is_told(old, new, said):
    fault = Fault("name", "Why.", "a.py", old, new, ("tests/test_a.py",))
    with pytest.raises(ValueError, match=said):
        fault.planted(SOURCE)


def test_tests_that_are_not_there_are_told():
    fault = Fault("name", "Why.", "a.py", "x", "y", (
        "tests/test_planted_faults.py", "tests/test_none.py", "tests/test_planted_faults.py::test_none",
        "tests/test_planted_faults.py::test_tests_that_are_not_there_are_told[any]"))
    assert missing(fault, ROOT) == ["tests/test_none.py", "tests/test_planted_faults.py::test_none"]


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
# Of an old and a new text and a test: what is said, and whether all is well.
ATTEMPTS = {
    "dies": ("x + x", "x + 2 * x", "", "died      dies", True),
    "survives": ("x + x", "x + 2 * x", "::test_zero", "SURVIVED  survives", False),
    "not there": ("x + y", "x + 2 * x", "", "did not apply not there", False),
    "no name": ("x + x", "x + y", "", "could not be tested no name", False),
    "no test": ("x + x", "x - x", "::test_one", "ERROR", False),
}


def attempted(folder, *names):
    for path, content in TREE.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(content)
    listed = folder / "faults.toml"
    listed.write_text("".join(LISTED.format(name=name, old=ATTEMPTS[name][0], new=ATTEMPTS[name][1],
                                            test=ATTEMPTS[name][2]) for name in names))
    command = [sys.executable, "-m", "tests.planted_faults", "--root", str(folder), "--file", str(listed)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_the_runner_tells_faults_that_die_from_others(name, tmp_path):
    *_, said, well = ATTEMPTS[name]
    done = attempted(tmp_path, name)
    assert said in done.stdout, done.stdout + done.stderr
    assert (done.returncode == 0) == well
    # The tree itself is left alone.
    assert (tmp_path / "double.py").read_text() == SOURCE


def test_one_that_survives_is_enough_for_the_status(tmp_path):
    done = attempted(tmp_path, "dies", "survives")
    assert done.returncode == 1
    assert "1 of 2 died\nnot: survives" in done.stdout


def test_without_the_right_tests_nothing_is_planted(tmp_path):
    attempted(tmp_path, "dies")
    (tmp_path / "double.py").write_text(SOURCE.replace("x + x", "x"))
    done = subprocess.run([sys.executable, "-m", "tests.planted_faults", "--root", str(tmp_path), "--file",
                           str(tmp_path / "faults.toml")], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAILED tests/test_double.py::test_two" in done.stdout
    assert "died" not in done.stdout
