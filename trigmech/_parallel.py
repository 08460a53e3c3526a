"""Fixed chunks of rows, worked on by a few threads and combined in order.

The chunks depend on the number of rows alone and their results are combined in the order of the rows, so that
a sum has the same bits on one thread and on many.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

T = TypeVar("T")

THREADS_VARIABLE = "TRIGMECH_NUM_THREADS"


def thread_count() -> int:
    """Return the number of worker threads: ``TRIGMECH_NUM_THREADS``, or else the cores this process may use."""
    asked = os.environ.get(THREADS_VARIABLE, "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return the pool of this process; starting threads anew for each call would take longer than most calls."""
    return ThreadPoolExecutor(threads, thread_name_prefix="trigmech")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; the child makes its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def in_order(work: Callable[[int, int], T], rows: int, size: int) -> Iterator[T]:
    """Yield ``work(start, stop)`` for consecutive chunks of at most ``size`` rows, in order.

    At most two chunks a thread are under way or waiting, so memory does not grow with ``rows``.
    """
    spans = ((start, min(start + size, rows)) for start in range(0, rows, size))
    threads = thread_count()
    # Work that calls this in its turn is already on one of the threads, and must not wait for them.
    if threads == 1 or rows <= size or threading.current_thread().name.startswith("trigmech"):
        for start, stop in spans:
            yield work(start, stop)
        return
    waiting: deque[Future[T]] = deque()
    pool = _pool(threads)
    try:
        for start, stop in spans:
            waiting.append(pool.submit(work, start, stop))
            if len(waiting) >= 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # After an error, or when the caller stops listening, nothing goes on behind its back. The last are cancelled
        # first: a chunk may wait for an earlier one, which must not be cancelled before it.
        for future in reversed(waiting):
            future.cancel()
        wait(waiting)


def for_each(work: Callable[[int, int], object], rows: int, size: int) -> None:
    """Call ``work(start, stop)`` for all chunks; it writes its results."""
    deque(in_order(work, rows, size), maxlen=0)


def total(work: Callable[[int, int], NDArray[np.float64]], rows: int, size: int, *shape: int) -> NDArray[np.float64]:
    """Return the sum of the arrays ``work(start, stop)`` of all chunks, added in order."""
    result = np.zeros(shape)
    for part in in_order(work, rows, size):
        result += part
    return result


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread within a ``with``, or, as a decorator, within calls of a function."""
    with _libraries("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries(scipy: bool) -> "ThreadpoolController":
    """Return the libraries of NumPy, and of SciPy if it is loaded; to look for them takes longer than many a fit."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
