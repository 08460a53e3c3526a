"""The noise in single statistics of a release, in the columns' own units, from its design alone."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech.functions.index import FunctionIndex
from trigmech.planning.design import Agenda
from trigmech.queries.base import Measurement
from trigmech.queries.directions import Directions
from trigmech.queries.functions import Functions
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import Look
from trigmech.report.figures import number
from trigmech.report.moments import noise_alone
from trigmech.schema.column import Column
from trigmech.schema.schema import Schema
from trigmech.schema.values import text_of

TIMES = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
# The fraction of rows of the category whose means the preview describes.
TYPICAL_SHARE = 0.1
COARSE = "only the coarse shape of the column is measured"
# An error beyond this one is given as this one: JSON has no infinity, and nobody needs to tell them apart.
LARGEST_ERROR = 1e300


@dataclass(frozen=True)
class Expected:
    """The noise in one statistic of a release.

    Parameters
    ----------
    column : str
        The column's name; empty for a statistic of two columns.
    what : str
        The statistic.
    error : float or None
        Standard deviation of the noise in it, at most 10^300; None if it is not measured.
    unit : str
        The unit of the error; "" means the column's own.
    note : str
        The assumptions of the figure.
    """

    column: str
    what: str
    error: float | None
    unit: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.error is not None:
            object.__setattr__(self, "error", min(self.error, LARGEST_ERROR))

    @property
    def amount(self) -> str:
        """The error in words."""
        if self.error is None:
            return "not measured"
        error = f"± {number(self.error, 2)} {self.unit}".rstrip()
        return error + (f"   ({self.note})" if self.note else "")

    def __str__(self) -> str:
        return f"{self.what}: {self.amount}"


@dataclass(frozen=True)
class Outlook:
    """The planned measurements of a design, with their noise in single columns and in two ``together``.

    ``measured`` counts the released numbers, for tables if the columns spread evenly; ``words`` describe them;
    ``predicted`` are root mean square errors of queries, as far as the design predicts them.
    """

    columns: tuple[Expected, ...]
    together: tuple[Expected, ...]
    measured: int
    words: str
    predicted: dict[str, float]


def outlook_of(agenda: Agenda, schema: Schema) -> Outlook:
    columns, together = list[Expected](), list[Expected]()
    told: dict[str, Callable[[Sequence[Any], Schema, str], Iterable[Expected]]] = {
        "column": _of_looks, "functions": _of_functions, "tables": _of_tables, "products": _of_products}
    for shown in (*told.values(), _of_others):
        held = [each for each in agenda.measurements if told.get(each.query.shown_as, _of_others) is shown]
        for each in shown(held, schema, agenda.note) if held else ():
            (columns if each.column else together).append(each)
    size = sum(math.prod(each.query.shape) for each in agenda.measurements)
    return Outlook(tuple(columns), tuple(together), size, agenda.words, agenda.predicted)


def _of_others(asked: Sequence[Measurement[Any]], schema: Schema, note: str) -> Iterable[Expected]:
    return [Expected("", f"{each.query.kind}, at worst", float(each.deviations.max())) for each in asked]


def _of_functions(asked: Sequence[Measurement[Functions]], schema: Schema, note: str) -> Iterable[Expected]:
    index = FunctionIndex(np.concatenate([each.query.degrees for each in asked]), asked[0].query.domain)
    # Functions of whole rows, which are no Chebyshev products, come last in each measurement.
    parted = [np.split(each.deviations, [len(each.query.degrees)]) for each in asked]
    scales, whole = (np.concatenate(parts) for parts in zip(*parted, strict=True))
    if len(scales):
        for column, noise in zip(schema.columns, noise_alone(index, scales), strict=True):
            yield from _of_column_moments(column, noise)
        yield from _together_moments(index, scales)
    if len(whole):
        yield Expected("", "mean of a function of whole rows, at worst", float(whole.max()))


def _of_looks(asked: Sequence[Measurement[Look]], schema: Schema, note: str) -> Iterable[Expected]:
    for look in asked:
        yield from _of_look(look, schema.columns[look.query.column])


def _of_look(look: Measurement[Any], column: Column) -> Iterable[Expected]:
    """Return the noise in a column's mean, in the share of its rows below a value (of signs: in half of its range), and
    in that of a category."""
    # Before anything is measured, hardly any rows are expected to hold a bound.
    query, partition, points = look.query.without_ends, look.query.without_ends.partition, "percentage points"
    signs, k = not query.tells_frequencies, len(partition.indicators)
    if partition.intervals:
        yield _of_number(column, float(look.deviation * query.noise_of(np.pad(partition.centres, (k, 0)))))
        greatest = 100.0 * look.deviation * query.greatest_noise
        if signs:
            yield Expected(column.name, "share of the rows in half of the range", greatest, points, COARSE)
        elif column.kind != "binary":
            yield Expected(column.name, "share of the rows below any value", greatest, points)
    if k:
        # The share of a sign is (1 + mean) / 2.
        noise = 50.0 * look.deviation if signs else 100.0 * float(look.deviations[:k].max())
        yield Expected(column.name, _named_value(column), noise, points)


def _named_value(column: Column) -> str:
    return "frequency of a category" if column.complete else "share of a special or missing value"


def _of_tables(asked: Sequence[Measurement[Marginal]], schema: Schema, note: str) -> Iterable[Expected]:
    most = max((each.query.shape for each in asked), key=math.prod)
    of = " of two columns" * all(len(each.query.columns) == 2 for each in asked)
    yield Expected("", f"cell of a table{of}, at worst", 100.0 * max(each.deviation for each in asked),
                   "percentage points", f"{len(asked)} tables of up to {' by '.join(map(str, most))} cells {note}")


def _of_products(asked: Sequence[Measurement[Products | Directions]], schema: Schema, note: str) -> Iterable[Expected]:
    for each in asked:
        if each.query.tells_tables:
            yield Expected("", "product of contrasts of the cells of two columns; all products determine the table",
                           100.0 * each.deviation, "percentage points", f"{each.query.size} products {note}")
        else:
            yield Expected("", f"correlation of the ranks of two {each.query.correlated}",
                           each.query.correlation_noise * each.deviation)


def _of_column_moments(column: Column, noise: Array) -> list[Expected]:
    numbers = [] if column.complete else [_of_number(column, float(noise[0]))]
    return numbers + [Expected(column.name, _named_value(column), 100.0 * float(indicators.max()), "percentage points")
                      for indicators in [noise[len(numbers):]] if len(indicators)]


def _of_number(column: Column, noise: float) -> Expected:
    """Return the noise in the mean of a coordinate in [-1, 1], converted to the column's units."""
    note = "if all rows hold an ordinary number; more if few do" if len(column.coordinates) > 1 else ""
    if column.private_bounds:
        scale = "logarithmic range" if column.transform else "range"
        return Expected(column.name, "mean", 50.0 * noise, f"% of the {scale} that the private step finds", note)
    lower, upper = column.bounds
    half = (upper - lower) / 2.0 * noise
    if column.kind == "binary":
        return Expected(column.name, f"share of {text_of(column.upper)}", 50.0 * noise, "percentage points", note)
    if column.kind == "ordinal":
        return Expected(column.name, f"mean place among {int(upper) + 1} categories", half, "places", note)
    if column.kind == "datetime":
        seconds = half * column.seconds
        size, unit = next((each for each in TIMES if seconds >= each[0]), TIMES[-1])
        return Expected(column.name, "mean", seconds / size, unit, note)
    if column.transform is not None:
        width = math.log(upper / lower) if column.transform == "log" else math.log1p(upper - lower)
        above = "" if not lower else f" - {text_of(lower)}" if lower > 0 else f" + {text_of(-lower)}"
        of = "" if column.transform == "log" else f" of 1 + value{above}"
        # An exponential beyond floating point is larger than any stated error.
        error = 100.0 * math.expm1(min(width / 2.0 * noise, math.log(LARGEST_ERROR)))
        return Expected(column.name, f"geometric mean{of}", error, "%", note)
    return Expected(column.name, "mean", half, "", note)


def _together_moments(index: FunctionIndex, scales: Array) -> Iterable[Expected]:
    """Return the noise in correlations, in contingency tables, and in means within a category."""
    domain = index.domain

    def worst(chosen: Integers) -> float | None:
        return float(scales[chosen].max()) if len(chosen) else None

    if len(domain.numbers) > 1:
        noise = worst(index.bilinear(domain.numbers)[0])
        # Evenly over the bounds, a coordinate has the variance 1/3.
        yield Expected("", "correlation of two columns of numbers", None if noise is None else 3.0 * noise, "",
                       "if both spread evenly over their bounds; more if they fill less of them")
    if sum(group.value is None for group in domain.groups) > 1:
        tables = index.of_kind("two-way table")
        noise, pairs = worst(tables), len(np.unique(index.column_sets[tables]))
        yield Expected("", "cell of a table of two columns of categories, at worst",
                       None if noise is None else 100.0 * noise, "percentage points",
                       f"{pairs} of {math.comb(len(domain.groups), 2)} tables are measured, including those of missing "
                       "values")
    if domain.groups and domain.numbers:
        products = index.of_kind("number by category")
        noise = worst(products[index.total[products] == 2])
        yield Expected("", "mean of a number over the rows of a category that holds a tenth of all rows",
                       None if noise is None else 50.0 * noise / TYPICAL_SHARE, "% of the width of its bounds")
