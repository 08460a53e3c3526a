"""A test that hangs is a failure of that test, whatever it hangs in, and the others are run all the same."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# In Python; in a lock that another thread has; in a fixture; in compiled code that lets nobody else run, as HiGHS or a
# kernel might; and where hypothesis tries again what was interrupted.
HANGING = """
import collections, itertools, threading, time
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
