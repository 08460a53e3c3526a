"""NON-PRIVATE. A true table and a synthetic one in the same numbers and cells, for measures that compare them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.evaluation.statistics import numbers_of_values
from trigmech.schema.column import Column
from trigmech.schema.rounding import to_own_digits

# A column of numbers with at most so many different values has a cell for each; others are cut at the true table's
# deciles, as NIST's score cuts at quantiles of the truth.
MOST_VALUES, DECILES = 20, np.linspace(0.1, 0.9, 9)
# Larger numbers are taken in larger units, because their squares would overflow. No outcome is so many standard
# deviations away.
LARGEST = 1e100


@dataclass(frozen=True, eq=False)
class Side:
    """One table; the true one is private.

    values (n, d): Numbers with their column's own digits, days or seconds since 1970, or the places of categories; NaN
      where missing.
    cells (n, d) of int: The cell of each value, from 0; the last cell of a column holds missing values.
    outcomes (n, d): The numbers that are averaged in groups and predicted, in standard deviations of the true table:
      the number, or for categories the indicator of the most frequent one; NaN where missing.
    """

    values: Array
    cells: Integers
    outcomes: Array

    def __post_init__(self) -> None:
        # Measures take one column at a time.
        for name in ("values", "cells", "outcomes"):
            object.__setattr__(self, name, np.asfortranarray(getattr(self, name)))

    def __repr__(self) -> str:
        return f"Side(n={len(self.values)}, d={self.values.shape[1]}, values hidden)"

    def rows(self, chosen: Integers) -> "Side":
        """Return some of the rows, which may be chosen several times."""
        return Side(self.values[chosen], self.cells[chosen], self.outcomes[chosen])


@dataclass(frozen=True, eq=False)
class Coding:
    """How values of a true table become cells and outcomes; as private as the table.

    ``sizes`` (d,) is the number of cells of each column, with the one for missing values.
    """

    columns: tuple[Column, ...]
    edges: tuple[Array, ...]
    centres: Array
    scales: Array
    sizes: Integers

    @classmethod
    def of(cls, columns: Sequence[Column], true: Mapping[str, Any]) -> "Coding":
        """Return the coding by a true table: columns by name, as :meth:`trigmech.Schema.decode` returns them."""
        edges, centres, scales = [], [], []
        for column in columns:
            values = _numbers(column, true)
            known = values[~np.isnan(values)]
            if column.categories is not None:
                edges.append(np.arange(0.5, len(column.categories) - 1.0))
                places = np.bincount(known.astype(np.int64), minlength=1)
                outcome = (known == places.argmax()).astype(np.float64)
                centres.append(float(places.argmax()))
            else:
                edges.append(_edges(known))
                outcome = known
                centres.append(_in_units(known, np.mean))
            deviation = _in_units(outcome, np.std)
            scales.append(deviation if deviation > 0.0 else 1.0)
        return cls(tuple(columns), tuple(edges), np.array(centres), np.array(scales),
                   np.array([len(each) + 2 for each in edges]))

    def side(self, table: Mapping[str, Any]) -> Side:
        """Return a table of that form in numbers, cells and outcomes."""
        values = np.column_stack([_numbers(column, table) for column in self.columns])
        missing = np.isnan(values)
        cells = np.column_stack([np.searchsorted(edges, values[:, j]) for j, edges in enumerate(self.edges)])
        cells[missing] = np.broadcast_to(self.sizes - 1, cells.shape)[missing]
        named = np.array([column.categories is not None for column in self.columns])
        outcomes = np.where(named, values == self.centres, values - self.centres) / self.scales
        # Synthetic values of a column that has one value in the true table can be that far away.
        outcomes = np.clip(outcomes, -LARGEST, LARGEST)
        outcomes[missing] = np.nan
        return Side(values, cells.astype(np.int64), outcomes)


def _numbers(column: Column, table: Mapping[str, Any]) -> Array:
    """Return a column's values as numbers, with as many digits in both tables: else shared values would never agree."""
    return to_own_digits(column, numbers_of_values(column, table))


def unit_of(values: Array) -> float:
    """Return 1, or the larger unit in which squares of values do not overflow; NaN counts as 0."""
    return max(float(np.nan_to_num(np.abs(values)).max(initial=0.0)) / LARGEST, 1.0)


def _in_units(values: Array, function: Callable[[Array], Any]) -> float:
    """Return a function of values whose squares may overflow, such as their mean; 0 without values."""
    unit = unit_of(values)
    return float(function(values / unit)) * unit if len(values) else 0.0


def _edges(known: Array) -> Array:
    """Return the numbers between cells: a value belongs to the first cell whose upper edge is not below it."""
    different = np.unique(known)
    if len(different) <= MOST_VALUES:
        return different[1:] / 2.0 + different[:-1] / 2.0
    found: Array = np.unique(np.quantile(known, DECILES, method="lower"))
    return found
