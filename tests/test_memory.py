import tracemalloc

import numpy as np
import oracles
import pytest

from trigmech._parallel import THREADS_VARIABLE
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.measurement.moments import measure
from trigmech.workload import GaussianKernels

D = 20
BASIS = ChebyshevBasis.graded(D, 61)
WORKLOAD = GaussianKernels(D, seed=0, n_queries=40, widths=(2.0, 4.0), n_centers=2)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    # Each thread has its own work space, and whether two are held at once is up to the machine.
    monkeypatch.setenv(THREADS_VARIABLE, "1")


def mapped(folder, n, dtype):
    """A table of n rows in a file, mapped to memory."""
    path = folder / f"{n}-{dtype.__name__}.npy"
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(n, D))
    block = np.random.default_rng(0).uniform(-1.0, 1.0, (10_000, D))
    for start in range(0, n, len(block)):
        rows[start : start + len(block)] = block[: n - start]
    rows.flush()
    return np.load(path, mmap_mode="r")


def peak(work, X):
    """The most memory in bytes that Python and numpy held during a call beyond what they held before it."""
    work(X[:1000])
    tracemalloc.start()
    try:
        work(X)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def flat(small, large, data):
    """Whether four times the rows took nearly the same memory, far below the size of the data."""
    return large < 1.3 * small and large < data / 4


@pytest.mark.daily("float32")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_means_of_a_mapped_table_take_the_same_memory_for_four_times_the_rows(tmp_path, dtype):
    tables = [mapped(tmp_path, n, dtype) for n in (100_000, 400_000)]
    size = 8 * tables[1].size
    assert flat(*(peak(BASIS.means, X) for X in tables), size)
    # What is not meant: the whole matrix of values, or a copy of the table in double precision.
    assert not flat(*(peak(lambda X: oracles.products_by_series(X, BASIS.index[:5]).mean(axis=0), X) for X in tables),
                    size)
    assert not flat(*(peak(lambda X: np.array(X, dtype=np.float64).mean(axis=0), X) for X in tables), size)


def test_threads_add_their_work_space_and_nothing_that_grows(tmp_path, monkeypatch):
    X = mapped(tmp_path, 400_000, np.float64)
    alone = peak(BASIS.means, X)
    monkeypatch.setenv(THREADS_VARIABLE, "2")
    # Two chunks at work, and the sums of at most four that wait.
    assert peak(BASIS.means, X) <= 4 * alone
    assert 4 * alone < X.nbytes / 16


@pytest.mark.nightly  # By day means, above, by the same sums.
def test_moments_take_the_same_memory_for_four_times_the_rows(tmp_path):
    tables = [mapped(tmp_path, n, np.float64) for n in (300_000, 1_200_000)]
    assert flat(*(peak(lambda X: measure(X, BASIS, covariance=True), X) for X in tables), tables[1].nbytes)


@pytest.mark.nightly  # By day means, above, by the same chunks.
def test_kernel_answers_take_no_more_than_the_weights_for_four_times_the_rows(tmp_path):
    tables = [mapped(tmp_path, n, np.float64) for n in (50_000, 200_000)]
    peaks = [peak(WORKLOAD.answers, X) for X in tables]
    # One number a row, the weight 1/n, is all that may grow with the table.
    beyond = [used - 8 * len(X) for used, X in zip(peaks, tables, strict=True)]
    assert flat(*beyond, tables[1].nbytes)

    def all_at_once(X):
        centers = np.zeros((4, D))
        return np.exp(-((X[:, None] - centers) ** 2).sum(axis=2)).mean(axis=0)

    assert not flat(*(peak(all_at_once, X) for X in tables), tables[1].nbytes)
