"""Fixed chunks of rows, worked on by a few threads and combined in order.

The chunks depend on the number of rows alone and their results are combined in the order of the rows, so that
a sum has the same bits on one thread and on many.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

THREADS_VARIABLE = "TRIGMECH_NUM_THREADS"


def thread_count() -> int:
    """Return the number of worker threads: ``TRIGMECH_NUM_THREADS``, or else the cores this process may use."""
    asked = os.environ.get(THREADS_VARIABLE, "")
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_order(work: Callable[[int, int], T], rows: int, size: int) -> Iterator[T]:
    """Yield ``work(start, stop)`` for consecutive chunks of at most ``size`` rows, in order.

    At most two chunks a thread are under way or waiting, so memory does not grow with ``rows``.
    """
    spans = ((start, min(start + size, rows)) for start in range(0, rows, size))
    threads = thread_count()
    if threads == 1 or rows <= size:
        for start, stop in spans:
            yield work(start, stop)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for start, stop in spans:
            waiting.append(pool.submit(work, start, stop))
            if len(waiting) >= 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
