"""Estimates of measured tables of two columns: which ways of taking noise away are used for which table.

All are shrunk by singular values. Then a sparse table, or one of a category and a number with row effects, may have a
better estimate, and the cells one by one are blended in. Each module says how the choice is made from the release.
"""

from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.reconstruction.cells import with_cells
from trigmech.reconstruction.dependence import shrunk_tables
from trigmech.reconstruction.row_effects import by_row_effects, shifts
from trigmech.reconstruction.sparse import LEAST_CELLS, TableEstimate, estimated

_ESTIMATES: WeakKeyDictionary[Measurement[Marginal], tuple[Array, TableEstimate]] = WeakKeyDictionary()


def estimate_of(measured: Measurement[Marginal], expected: Array) -> TableEstimate:
    """Return the estimate of a measured table of two columns that is predicted to be ``expected``."""
    return estimates_of([measured], [expected])[0]


def estimates_of(measured: Sequence[Measurement[Marginal]], expected: Sequence[Array]) -> list[TableEstimate]:
    """Return the estimates of measured tables of two columns that are predicted to be ``expected``.

    They are kept as long as the measurements, because the choice of the last tables, the fit and the report all ask for
    them. Small tables of one shape, of which there can be thousands, are shrunk at once.
    """
    found, small = dict[int, TableEstimate](), dict[tuple[tuple[int, ...], bool], list[int]]()
    for t, (each, own) in enumerate(zip(measured, expected, strict=True)):
        known = _ESTIMATES.get(each)
        if known is not None and np.array_equal(known[0], own):
            found[t] = known[1]
        elif own.size < LEAST_CELLS:
            small.setdefault((own.shape, each.deviation > 0.0), []).append(t)
        else:
            found[t] = _kept(each, own, estimate_at(each.query, each.means, own, each.deviation))
    for held in small.values():
        noise = np.array([measured[t].deviation for t in held])
        predicted = np.array([expected[t] for t in held])
        made = predicted + shrunk_tables(np.array([measured[t].means for t in held]) - predicted, noise)
        for t, table, own in zip(held, made, noise, strict=True):
            shrunk, each = TableEstimate(table.copy(), np.full(table.shape, own), False), measured[t]
            found[t] = _kept(each, expected[t], _improved(each.query, each.means, expected[t], own, shrunk))
    return [found[t] for t in range(len(measured))]


def estimate_at(query: Marginal, table: Array, expected: Array, noise: float) -> TableEstimate:
    """Return the estimate of a table of two columns, if ``table`` had been measured with this standard deviation."""
    return _improved(query, table, expected, noise, estimated(table, expected, noise, _counted(query)))


def _counted(query: Marginal) -> list[NDArray[np.bool_]]:
    """Return which levels of each axis have categories, or special or missing values: these are counted one by one."""
    return [np.isin(np.arange(size), cells[: len(partition.indicators)])
            for size, cells, partition in zip(query.shape, query.maps, query.partitions, strict=True)]


def _improved(query: Marginal, table: Array, expected: Array, noise: float, known: TableEstimate) -> TableEstimate:
    """Return the estimate with row effects, if one column is a number and that is better, and with single cells."""
    numbers = [partition.value is not None for partition in query.partitions]
    if sum(numbers) != 1:
        return with_cells(known, table, noise, lambda _: expected)
    if numbers[0]:
        return _turned(_of_levels(query, 0, table.T, expected.T, noise, _turned(known)))
    return _of_levels(query, 1, table, expected, noise, known)


def _of_levels(query: Marginal, axis: int, table: Array, expected: Array, noise: float,
               known: TableEstimate) -> TableEstimate:
    """Return the same for a table (levels, cells) of a category and a number, which is on this axis of the query."""
    special = len(query.partitions[axis].indicators)
    numbers = np.zeros(query.shape[axis], dtype=np.bool_)
    numbers[query.maps[axis][special:]] = True
    numbers[query.maps[axis][:special]] = False
    made = by_row_effects(known, table, expected, noise, numbers)
    return with_cells(made, table, noise, shifts(expected, noise, numbers) or (lambda _: expected))


def _turned(known: TableEstimate) -> TableEstimate:
    return replace(known, table=known.table.T, deviation=known.deviation.T)


def _kept(measured: Measurement[Marginal], expected: Array, made: TableEstimate) -> TableEstimate:
    known = expected.copy()
    for values in (known, made.table, made.deviation):
        values.flags.writeable = False
    _ESTIMATES[measured] = known, made
    return made
