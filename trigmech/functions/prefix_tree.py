"""A set of multi-indices as a prefix tree, which the kernels walk."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from trigmech.functions import kernels


@dataclass(frozen=True)
class PrefixTree:
    """A set of multi-indices as a tree in depth-first order, so that each product costs one multiplication.

    The path from the root to a node is a multi-index read column by column; a node multiplies its parent's
    product by one feature T_q(x_j). Features of column j stand in rows offsets[j], ..., of the kernels' work
    space, by degree. ``nodes`` has the columns depth, feature, output (the position in the basis, or -1 for a
    node that is only a prefix) and leaf.
    """

    offsets: NDArray[np.int64]
    degrees: NDArray[np.int64]
    nodes: NDArray[np.int64]

    @classmethod
    def of(cls, index: NDArray[np.int64]) -> Self:
        """Build the tree of the rows of ``index`` (K, d)."""
        degrees = index.max(axis=0)
        offsets = np.concatenate([[0], np.cumsum(degrees)[:-1]])
        # Sorted as strings of (feature + 1), each prefix comes just before its extensions: depth-first order.
        outputs: dict[tuple[int, ...], int] = {}
        for k, row in enumerate(index):
            columns = np.flatnonzero(row)
            outputs[tuple((offsets[columns] + row[columns] - 1).tolist())] = k
        paths = {path[:depth] for path in outputs for depth in range(1, len(path) + 1)}
        order = sorted(paths)
        nodes = np.empty((len(order), 4), dtype=np.int64)
        for i, path in enumerate(order):
            leaf = i + 1 == len(order) or order[i + 1][:-1] != path
            nodes[i] = len(path) - 1, path[-1], outputs.get(path, -1), leaf
        return cls(offsets.astype(np.int64), degrees.astype(np.int64), nodes)

    @cached_property
    def lanes(self) -> int:
        """Rows in a block: a power of two with which the running sums of all nodes fit the second-level cache."""
        fitting = 2**17 // max(1, len(self.nodes))
        return max(32, min(kernels.BLOCK, 1 << max(0, fitting.bit_length() - 1)))

    @cached_property
    def parents(self) -> NDArray[np.int64]:
        """The number of each node's parent, or -1 at depth 0."""
        parents = np.full(len(self.nodes), -1, dtype=np.int64)
        path: list[int] = []
        for i, depth in enumerate(self.nodes[:, kernels.DEPTH].tolist()):
            del path[depth:]
            parents[i] = path[-1] if path else -1
            path.append(i)
        return parents

    def work_space(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return room for one block: its features, and the products along the current path."""
        depth = int(self.nodes[:, kernels.DEPTH].max(initial=0)) + 1
        features = np.empty((max(1, int(self.degrees.sum())), self.lanes + kernels.PADDING))
        return features, np.empty((depth, self.lanes))
