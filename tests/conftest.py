"""One thread for each of pytest's processes, and an end for tests that hang.

Numerical libraries would start as many threads as there are cores in each process, and wait for each other at work.
They read the variable when they are loaded, so it is set before. The package's own threads are as many as ever.

A test that hangs fails: the limit of pyproject.toml ends it, and twice that limit ends what cannot be interrupted.
pytest-timeout interrupts Python. Compiled code that does not return, and hypothesis, which takes the interruption for a
failure and tries again, are ended with their process, which a timer of Python's own does even if nobody else can run.
With it goes what fixtures started; pytest-xdist reports the test and goes on in a new process.
"""

import contextlib
import faulthandler
import gc
import importlib
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are drawn depends on what else the machine does, so it is not a reason to fail.
settings.register_profile("unhurried", deadline=None, database=None,
                          suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
settings.load_profile("unhurried")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests start hundreds of programs, which would each compile the package anew if nothing may be written beside it.
# This also keeps the assertions that pytest has rewritten, which takes each process some seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What tests write need not outlive a failure of the power, and to wait for the disk takes milliseconds for each file.
# Tests of what is waited for watch the calls.
os.fsync = os.fstat
STANDARD_ERROR = pytest.StashKey[int]()
# The limit in seconds by which a timer ends this process, and when it was set.
WATCHED = {}
# Seconds that a test of every night may take.
NIGHTLY = 1200
# Cases that should run by day, and that were not collected.
MISNAMED = []


def pytest_configure(config):
    # While a test runs, its standard error is kept from people.
    config.stash[STANDARD_ERROR] = os.dup(2)


def pytest_unconfigure(config):
    os.close(config.stash[STANDARD_ERROR])


def pytest_collection(session):
    """Import all tests, every second process from the last one on: in a new tree each rewrites and compiles half."""
    # Modules and tests are no garbage: to look for it among them takes a fifth of the time of collecting.
    gc.set_threshold(1_000_000, 20, 20)
    worker = getattr(session.config, "workerinput", None)
    if worker is None or worker["workercount"] == 1 or not all(os.path.isdir(path) for path in session.config.args):
        return
    step = -1 if int(worker["workerid"].removeprefix("gw")) % 2 else 1
    for path in sorted(Path(__file__).parent.glob("test_*.py"))[::step]:
        # What cannot be imported is told when it is collected.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(path.stem)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a grid marked `daily(every)` leave to the night all but the first of each `every` cases and the last.

    Of one marked `daily("a case", "another")` leave to the night all but these.
    """
    grids = {}
    for item in items:
        if item.get_closest_marker("daily"):
            grids.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for function, cases in grids.items():
        chosen = cases[0].get_closest_marker("daily").args
        named = isinstance(chosen[0], str)
        names = [item.nodeid.partition("[")[2][:-1] for item in cases]
        if named:
            MISNAMED.extend(f"{function}[{name}]" for name in set(chosen).difference(names))
        for k, item in enumerate(cases):
            if names[k] not in chosen if named else k % chosen[0] and k < len(cases) - 1:
                item.add_marker(pytest.mark.nightly)
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.timeout(NIGHTLY))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session):
    # What was collected stays to the end, so it need not be looked through for garbage again and again.
    gc.collect()
    gc.freeze()
    # Before pytest-xdist hears of the collection: it starts tests when all processes are done with their share.
    share_of_compiling(session.config)
    gc.set_threshold(20_000, 20, 20)


def share_of_compiling(config):
    """In a tree whose kernels nobody has compiled yet, begin with a part of them, each process with another.

    Otherwise all processes would need the same kernels at the same time, and each would compile all of them.
    """
    worker, kernels = getattr(config, "workerinput", None), config.rootpath / "trigmech" / "reconstruction"
    if worker is None or worker["workercount"] == 1 or not kernels.is_dir() or list(
            kernels.glob("__pycache__/row_kernels.sweep-*.nbi")):
        return
    import numpy as np

    import trigmech as tm
    from trigmech.reconstruction import rows as fit

    rows, first = np.random.default_rng(0).uniform(-1.0, 1.0, (200, 3)), worker["workerid"].endswith(tuple("02468"))
    # Columns of a constraint move together.
    cube, bound = tm.Schema.cube(3), tm.Schema(tm.Schema.cube(3).columns, ["x1 <= x2"])
    tables = tm.TableMechanism(points=64), tm.Budget(30.0, 1e-6)
    moments = tm.MomentMechanism(points=64, iterations=1), tm.Budget(1.0, 1e-6)
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        for name in ("sweep_together",) if first else ("sweep", "exchange"):
            # It moves no entry, and is not compiled here.
            patch.setattr(fit, name, lambda *_: 0)
        # The first begins with moments, so that it finds what the second has compiled for columns.
        for schema, (mechanism, budget) in ((cube, moments), (cube, tables)) if first else ((bound, tables),):
            made = tm.synthesize(rows, schema, budget, mechanism, np.random.default_rng(0))
        if not first:
            # Of more rows than were fitted: they exchange entries.
            made.sample(200, np.random.default_rng(0))


def pytest_timeout_set_timer(item, settings):
    # To start a timer and to end it takes longer than half of all tests: it is set anew some seconds after the last.
    if settings.timeout != WATCHED.get("limit") or time.monotonic() > WATCHED["since"] + 0.02 * settings.timeout:
        WATCHED.update(limit=settings.timeout, since=time.monotonic())
        faulthandler.dump_traceback_later(2.0 * settings.timeout, exit=True, file=item.config.stash[STANDARD_ERROR])


def unwatched():
    """End the timer: nobody runs a test, or somebody looks at one."""
    faulthandler.cancel_dump_traceback_later()
    WATCHED.clear()


def pytest_enter_pdb():
    unwatched()


def pytest_exception_interact():
    unwatched()


def pytest_sessionfinish():
    unwatched()


@pytest.fixture
def quick_processes(monkeypatch):
    """Workers that begin as copies of a process that has loaded what they need, for tests of what they are asked."""
    from trigmech.engines import processes

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["trigmech.engines.processes", "trigmech.measurement.moments",
                                    "trigmech.measurement.counts", "pyarrow.parquet", "pyarrow.compute", "narwhals",
                                    "pandas", "scipy.linalg"])
    monkeypatch.setattr(processes.multiprocessing, "get_context", lambda kind: context)


@pytest.fixture
def few_resamples(monkeypatch):
    """Error bars by a few plausible tables, for tests of what is done with them; their width is tested elsewhere."""
    from trigmech.evaluation import resampling

    monkeypatch.setattr(resampling, "TABLES", 2)
    monkeypatch.setattr(resampling, "RELEASES", 1)


@pytest.fixture
def unpainted(monkeypatch):
    """Pages without their pictures, for tests of what else they say."""
    from unpainted import leave_out_pictures

    leave_out_pictures(monkeypatch)
