"""Common positions of all queries of a release, and the distribution of each column by itself."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trigmech.domain import Domain
from trigmech.functions.partition import Partition, columns_of, of_one_size
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement, Query, of_kind
from trigmech.queries.joint import Marginal
from trigmech.queries.one_way import Detail, Look
from trigmech.reconstruction.columns import released_columns
from trigmech.reconstruction.cuts import cut, joined
from trigmech.reconstruction.details import looked_closer
from trigmech.reconstruction.frequencies import nearest_probabilities

# Intervals of a number that was not measured.
EVEN = 64


def common_positions(domain: Domain, measurements: Sequence[Measurement[Query]]) -> tuple[ReleasedColumn, ...]:
    """Return each column's positions, cut so that all queries' positions consist of them, and their probabilities.

    The probabilities come from the most exact histogram of the column, with its closer looks; otherwise from the most
    exact table with the column; otherwise they are even.
    """
    wholes = columns_of(domain)
    own = [[each for each in measurements if j in each.query.columns] for j in range(len(wholes))]
    looks = [min(of_kind(found, Look), key=lambda each: each.deviation, default=None)  # type: ignore[type-abstract]
             for found in own]
    released = iter(released_columns([look for look in looks if look is not None]))
    among = sum(each.query.size for each in of_kind(measurements, Detail))
    return tuple(_common(j, whole, found, None if look is None else next(released), among)
                 for j, (whole, found, look) in enumerate(zip(wholes, own, looks, strict=True)))


def positioned(release: Release) -> Release:
    """Return a release with columns, of which rows can be made; a release of one set of functions needs no columns."""
    if release.columns or release.of_one_set:
        return release
    columns = common_positions(release.domain, release.known)
    return replace(release, columns=columns).on(columns)


def _common(j: int, whole: Partition, own: Sequence[Measurement[Query]],
            released: ReleasedColumn | None, among: int) -> ReleasedColumn:
    if whole.value is not None:
        whole = of_one_size(whole, EVEN, 2 * EVEN)
    column = ReleasedColumn(whole, np.full(whole.size, 1.0 / whole.size), 1.0)
    tables = of_kind(own, Marginal)
    if released is not None:
        column = released
    elif tables:
        column = _margin(j, min(tables, key=lambda each: each.deviation))
    asked = [partition.edges for each in own for i, partition in each.query.held if i == j]
    cuts, details = np.unique(np.concatenate([column.partition.edges[:1], *asked])), of_kind(own, Detail)
    for each in details:
        low, high = each.query.edges[[0, -1]]
        # Within an interval that a detail divides, the look's density is only a guess.
        if not ((cuts > low) & (cuts < high)).any():
            column = joined(column, low, high)
    column = cut(column, np.unique(np.concatenate([column.partition.edges, cuts])))
    for each in details:
        query = each.query
        if query.edges[0] in column.partition.edges:
            first = int(np.searchsorted(column.partition.edges, query.edges[0]))
            # Only if no other query has cut the interval.
            if column.partition.edges[first + 1] == query.edges[-1]:
                column = looked_closer(column, replace(each, query=replace(query, interval=first)), among)
    return column


def _margin(j: int, table: Measurement[Marginal]) -> ReleasedColumn:
    """Return the distribution of a column of a table; rows lie evenly within a cell."""
    query, axis = table.query, table.query.columns.index(j)
    others = tuple(c for c in range(len(query.columns)) if c != axis)
    cells, partition = query.maps[axis], query.partitions[axis]
    sums = nearest_probabilities(table.means.sum(axis=others))
    mass = (sums / np.bincount(cells))[cells]
    return ReleasedColumn(partition, mass, table.deviation * float(np.sqrt(query.size / len(sums))))
