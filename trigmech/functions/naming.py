"""Names for positions of columns and for cells, by the names of the coordinates."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.partition import Partition


def column_name(partition: Partition, coordinates: Sequence[str]) -> str:
    value = partition.value
    return coordinates[partition.indicators[0]].split("=")[0] if value is None else coordinates[value]


def position_names(partition: Partition, coordinates: Sequence[str]) -> list[str]:
    names = [coordinates[c] for c in partition.indicators]
    return names if partition.value is None else names + interval_names(coordinates[partition.value], partition.edges)


def cell_names(partition: Partition, cells: Integers, coordinates: Sequence[str]) -> list[str]:
    """Return a name for each cell of a column: its only position's, or that of an interval, or "others"."""
    names, k = position_names(partition, coordinates), len(partition.indicators)
    found = []
    for cell in range(int(cells.max()) + 1):
        held = np.flatnonzero(cells == cell)
        if len(held) == 1:
            found.append(names[held[0]])
        elif held[0] >= k:
            edges = partition.edges[[held[0] - k, held[-1] - k + 1]]
            found += interval_names(coordinates[partition.value or 0], edges)
        else:
            found.append(f"others of {names[held[0]].split('=')[0]}")
    return found


def interval_names(name: str, edges: Array) -> list[str]:
    """Return a name for each interval between edges (c + 1,)."""
    return [f"{name} in [{low:.6g}, {high:.6g})" for low, high in pairwise(edges.tolist())]
