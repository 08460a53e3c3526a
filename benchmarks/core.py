"""Timing of alternatives side by side: rows of results, and how a row is measured.

The machine may be shared and its speed may drift, so alternatives take turns (A B A B ...) and only ratios within one
run mean anything. Every row has the same keys, so that one table and one comparison serve all subjects.
"""

import gc
import os
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from trigmech._parallel import THREADS_VARIABLE

ROUNDS, MOST_ROUNDS, SLOW_ROUNDS = 9, 50, 3
QUICK_ROUNDS = 3
ENOUGH_SECONDS = 1.0


class Row(TypedDict):
    """One alternative in one case; None where a figure was not taken or does not apply.

    ``ratio`` says how many times faster than the baseline (or, where the subject says so, how many times larger);
    ``difference`` is the largest difference from the baseline's result, relative to that result's largest entry.
    """

    case: str
    alternative: str
    seconds: float | None
    fastest: float | None
    rounds: int
    rate: float | None
    ratio: float | None
    difference: float | None
    peak_mb: float | None
    note: str


@dataclass(frozen=True)
class Settings:
    """How thorough a run is, and where it reports its progress."""

    quick: bool
    progress: Callable[[str], None]


@dataclass(frozen=True)
class Subject:
    """Something worth measuring; `text` says what is compared, with what, and how to read ratio, rate and peak."""

    title: str
    text: str
    rate: str  # its unit, empty if there is none
    rows: Callable[[Settings], Iterator[Row]]


@dataclass(frozen=True)
class Alternative:
    """One way to do the work: `run` does it once and returns its result."""

    name: str
    run: Callable[[], Any]
    share: float = 1.0  # the part of the work that `run` does; its time is divided by this, and the note says so
    slow: bool = False  # takes seconds: fewer rounds, no warm-up and no run for its memory
    note: str = ""


def compare(settings: Settings, case: str, alternatives: Sequence[Alternative], baseline: str | None = None, *,
            work: float | None = None, value: Callable[[str, Any], ArrayLike | None] = lambda name, result: result,
            describe: Callable[[Any], str] = lambda result: "") -> Iterator[Row]:
    """Time the alternatives in turn, and compare their results with the baseline's.

    `work` are the units of work in a whole run, for the rate. `value` takes an alternative's name and result to the
    numbers that are compared, or to None if they cannot be; `describe` takes a result to a remark.
    """
    seconds: dict[str, list[float]] = {a.name: [] for a in alternatives}
    peaks: dict[str, float] = {}
    results: dict[str, Any] = {}
    for a in alternatives:
        if not a.slow:
            settings.progress(f"{case}: {a.name}, warm-up and memory")
            a.run()
            peaks[a.name] = traced_peak(a.run)
    least, slow = (QUICK_ROUNDS, 1) if settings.quick else (ROUNDS, SLOW_ROUNDS)
    began = time.perf_counter()
    for turn in range(MOST_ROUNDS):
        # Short runs are repeated until there is a second of them.
        if turn >= least and (settings.quick or time.perf_counter() - began > ENOUGH_SECONDS):
            break
        for a in alternatives:
            if a.slow and turn >= slow:
                continue
            settings.progress(f"{case}: {a.name}, round {turn + 1}")
            gc.collect()
            started = time.perf_counter()
            results[a.name] = a.run()
            seconds[a.name].append((time.perf_counter() - started) / a.share)
    reference = None if baseline is None else value(baseline, results[baseline])
    for a in alternatives:
        median = statistics.median(seconds[a.name])
        found = value(a.name, results[a.name])
        scaled = "" if a.share == 1.0 else f"time scaled up from {a.share:.0%} of the functions"
        yield Row(case=case, alternative=a.name, seconds=median, fastest=min(seconds[a.name]),
                  rounds=len(seconds[a.name]), rate=None if work is None else work / median,
                  ratio=None if baseline is None else statistics.median(seconds[baseline]) / median,
                  difference=None if a.name == baseline else difference(found, reference),
                  peak_mb=peaks.get(a.name),
                  note="; ".join(filter(None, (a.note, scaled, describe(results[a.name])))))


def difference(found: ArrayLike | None, reference: ArrayLike | None) -> float | None:
    """Return max|found - reference| / max|reference|, or None if there is nothing to compare."""
    if found is None or reference is None:
        return None
    reference = np.asarray(reference)
    return float(np.abs(np.asarray(found) - reference).max() / np.abs(reference).max())


def traced_peak(run: Callable[[], Any]) -> float:
    """Return the peak memory in MB that Python and numpy allocate during a run, its result included."""
    gc.collect()
    tracemalloc.start()
    try:
        result = run()
        peak = tracemalloc.get_traced_memory()[1]
        del result
        return peak / 1e6
    finally:
        tracemalloc.stop()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let trigmech use this many threads."""
    before = os.environ.get(THREADS_VARIABLE)
    os.environ[THREADS_VARIABLE] = str(count)
    try:
        yield
    finally:
        if before is None:
            del os.environ[THREADS_VARIABLE]
        else:
            os.environ[THREADS_VARIABLE] = before
