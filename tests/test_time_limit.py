"""A test that hangs fails, whatever it hangs in, and all others run; of a grid of cases some run by day."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import conftest
import pytest

ROOT = Path(__file__).parent.parent

# In Python; in a lock that another thread has; in a fixture; in compiled code that lets nobody else run, as HiGHS or a
# kernel might; and where hypothesis tries again what was interrupted.
HANGING = """
import collections, itertools, threading, time
import conftest
import pytest
from hypothesis import given, settings, strategies

def test_that_sleeps():
    time.sleep(60)

def test_that_waits_for_a_lock():
    lock = threading.Lock()
    threading.Thread(target=lambda: (lock.acquire(), time.sleep(60)), daemon=True).start()
    time.sleep(0.1)
    lock.acquire()

@pytest.fixture
def slow():
    time.sleep(60)

def test_whose_fixture_sleeps(slow):
    pass

def test_in_compiled_code():
    collections.deque(itertools.repeat(None), maxlen=0)

@settings(deadline=None, database=None)
@given(strategies.integers())
def test_that_is_tried_again(number):
    time.sleep(60)

@pytest.mark.timeout(60)
def test_that_may_take_longer():
    time.sleep(0.5)

@pytest.mark.nightly
def test_of_every_night():
    time.sleep(0.5)
"""
MAY = {"test_that_may_take_longer", "test_of_every_night"}


@pytest.mark.nightly
def test_a_test_that_hangs_fails_and_the_others_are_run(tmp_path):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_hanging.py").write_text(HANGING)
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml",
                           "--rootdir", tmp_path, "--timeout", "0.2", "--tb", "no", "-rfEp", "-n", "2", "-m", "",
                           tmp_path], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    ends = set(re.findall(r"^(?:FAILED|ERROR) .*::(\w+)", done.stdout, re.MULTILINE))
    assert ends == set(re.findall(r"def (test_\w+)", HANGING)) - MAY, done.stdout
    assert set(re.findall(r"^PASSED .*::(\w+)", done.stdout, re.MULTILINE)) == MAY


def test_every_test_has_a_limit(request):
    assert 0 < float(request.config.getini("timeout")) <= 600
    # Another limit is a number, and no test has none.
    marks = [mark for item in request.session.items for mark in item.iter_markers("timeout")]
    assert all(0 < limit <= 3600 for mark in marks for (limit,) in [mark.args])


class Case:
    """As much of a collected test as its marks."""

    def __init__(self, nodeid, *marks):
        self.nodeid, self.marks = nodeid, {mark.name: mark for mark in marks}

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, mark):
        self.marks[mark.name] = mark.mark


def test_of_a_daily_grid_the_first_of_each_so_many_cases_and_the_last_run_by_day():
    daily = pytest.mark.daily(3).mark
    cases = [*(Case(f"a.py::one[{k}]", daily) for k in range(8)), Case("a.py::two[0]"), Case("a.py::three[0]", daily)]
    conftest.pytest_collection_modifyitems(cases)
    nightly = [case.nodeid for case in cases if "nightly" in case.marks]
    assert nightly == [f"a.py::one[{k}]" for k in (1, 2, 4, 5)]
    # They have the time of the night, too.
    assert all("timeout" in case.marks for case in cases if "nightly" in case.marks)


def test_of_a_daily_grid_with_names_those_cases_run_by_day(request, monkeypatch):
    if not any("::" in chosen for chosen in request.config.args):
        assert conftest.MISNAMED == []
    monkeypatch.setattr(conftest, "MISNAMED", [])
    daily = pytest.mark.daily("a", "b-1", "c").mark
    cases = [Case(f"a.py::one[{name}]", daily) for name in ("a", "b", "b-1", "b-2")]
    conftest.pytest_collection_modifyitems(cases)
    assert [case.nodeid for case in cases if "nightly" in case.marks] == ["a.py::one[b]", "a.py::one[b-2]"]
    assert conftest.MISNAMED == ["a.py::one[c]"]
