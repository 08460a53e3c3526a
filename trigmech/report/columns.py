"""The columns of a report: marginals and associations of weighted rows, synthetic or true ones alike."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trigmech._arrays import Array, Integers
from trigmech.report.figures import number
from trigmech.schema.column import Column
from trigmech.schema.encoding import floats_of, transformed, transformed_bounds, untransformed
from trigmech.schema.schema import Schema
from trigmech.schema.values import text_of

# A power of two, as the intervals of a release are.
BINS = 32
MOST_INTEGER_BINS = 40
ROWS_AT_A_TIME = 8_192
# Ten days: marks of an axis this long differ in their dates.
SECONDS_THAT_NEED_NO_TIME = 864_000.0
# Associations leave out columns with more categories, and columns beyond this number.
MOST_CATEGORIES = 64
MOST_COLUMNS = 250
MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Values:
    """The values of one column in some rows; as private as the rows.

    ``labels`` are its named values: categories, special values and missing ones; ``codes`` (n,) say which one a row
    has, -1 for a number. ``numbers`` (n,) are on the scale of the column's transform, NaN where a row has none.
    """

    column: Column
    labels: tuple[str, ...]
    codes: Integers
    numbers: Array


@dataclass(frozen=True, eq=False)
class ColumnShares:
    """The distribution of one column: shares of all rows by named value, and of the others by number.

    ``edges`` (bins + 1,) and ``shares`` (bins,) are empty for categories; ``mean`` and ``deviation`` of the numbers are
    in the column's units, NaN if there are none.
    """

    column: Column
    labels: tuple[str, ...]
    named: Array
    edges: Array
    shares: Array
    mean: float
    deviation: float


@dataclass(frozen=True, eq=False)
class Noisy:
    """The released values of one column in the cells of its marginal, with the deviations of their noise; public.

    ``named`` (labels,) are shares of all rows by named value, ``shares`` (bins,) those of its numbers.
    """

    named: Array
    named_noise: Array
    shares: Array
    shares_noise: Array


def is_numeric(column: Column) -> bool:
    """Whether a column's values are numbers or times, which have a histogram."""
    return column.kind not in ("binary", "ordinal", "categorical")


def owners(schema: Schema) -> list[str]:
    """Return the name of the column that each coordinate belongs to."""
    return [column.name for column in schema.columns for _ in column.coordinates]


def values_of(schema: Schema, points: Array) -> list[Values]:
    """Return the values of all columns at points of the cube, as the schema decodes them."""
    decoded = schema.decode(points)
    return [_values(column, decoded[column.name]) for column in schema.columns]


def marginal(values: Values, weights: Array) -> ColumnShares:
    """Return the distribution of one column of weighted rows; the weights (n,) sum to 1."""
    column = values.column
    held = values.codes >= 0
    named = np.bincount(values.codes[held], weights[held], minlength=len(values.labels)).astype(np.float64)
    if not is_numeric(column):
        return ColumnShares(column, values.labels, named, np.empty(0), np.empty(0), math.nan, math.nan)
    ordinary = values.codes < 0
    numbers, own = values.numbers[ordinary], weights[ordinary]
    edges = _edges(column)
    # By number and range, which is much faster than by edges.
    ends = float(edges[0]), float(edges[-1])
    shares = np.histogram(np.clip(numbers, *ends), len(edges) - 1, ends, weights=own)[0]
    mean = deviation = math.nan
    if own.sum() > 0.0:
        units = untransformed(column, numbers)
        mean = float(own @ units / own.sum())
        away = units - mean
        size = float(_size(np.abs(away).max()))
        deviation = size * math.sqrt(float(own @ np.square(away / size) / own.sum()))
    return ColumnShares(column, values.labels, named, edges, shares, mean, deviation)


def unit_text(column: Column, value: float) -> str:
    """Return a number in the column's units as people write it."""
    if column.unit is None or not math.isfinite(value):
        return number(value, 4)
    time = np.datetime64(round(value), column.unit)
    return str(time.astype("datetime64[m]") if column.unit == "h" else time).replace("T", " ")


def from_cube(column: Column, coordinate: float) -> str:
    """Return the value whose coordinate is a number in [-1, 1], in the column's units."""
    low, high = transformed_bounds(column)
    at = float(untransformed(column, np.array(low + (coordinate + 1.0) / 2.0 * (high - low))))
    if column.kind == "ordinal":
        return text_of((column.categories or ())[round(at)])
    return unit_text(column, at)


def ticks(column: Column, edges: Array) -> list[tuple[float, str]]:
    """Return marks for a histogram's axis, with their texts in the column's units."""
    if column.transform is not None:
        values = _round_values(column)
        return [(float(at), unit_text(column, value)) for at, value in zip(
            transformed(column, np.array(values)), values, strict=True)]
    if column.unit is None:
        from matplotlib.ticker import MaxNLocator

        places = [float(at) for at in MaxNLocator(4).tick_values(edges[0], edges[-1]) if edges[0] <= at <= edges[-1]]
    else:
        places = [float(at) for at in np.linspace(edges[0], edges[-1], 7)[1::2]]
    texts = [unit_text(column, float(untransformed(column, np.array([at]))[0])) for at in places]
    if column.unit and column.unit != "D":
        dates, times = zip(*(text.split(" ") for text in texts), strict=True)
        far = (edges[-1] - edges[0]) * column.seconds > SECONDS_THAT_NEED_NO_TIME
        short = (f"{date} {time[:5]}" for date, time in zip(dates, times, strict=True))
        texts = list(dates if far else times if len(set(dates)) == 1 else short)
    return list(zip(places, texts, strict=True))


def _round_values(column: Column) -> list[float]:
    """Return at most five round values for a logarithmic scale; by log1p, which begins at its lower bound, this too."""
    lower, upper = column.bounds
    above = column.transform == "log1p"
    low, high = (1.0, upper - lower) if above else (lower, upper)
    values: list[float] = []
    for digits in ((1.0,), (1.0, 2.0, 5.0)):
        if len(values) < 3:
            powers = range(math.floor(math.log10(low)), math.ceil(math.log10(max(high, low))) + 1)
            # A power beyond floating point is infinite when it is read, and an error when it is computed.
            values = [at for power in powers for digit in digits if low <= (at := digit * float(f"1e{power}")) <= high]
    step = max(-(-len(values) // 4), 1)
    chosen = [lower, *(lower + at for at in values[step // 2 :: step])] if above else values[step // 2 :: step]
    return chosen if len(chosen) > 1 else [lower, upper]


@dataclass(frozen=True, eq=False)
class Associations:
    """How strongly columns go together.

    ``ordered`` are the columns of numbers, times, binary and ordinal values, ``correlation`` Pearson's, on the scale of
    the columns' transforms, over the rows with a number in both. ``all`` adds the columns of categories; ``strength``
    is from 0 to 1: the absolute correlation, the correlation ratio of a number given a category, or Cramer's V of two
    columns of categories.
    """

    ordered: list[int]
    correlation: Array
    all: list[int]
    strength: Array


def left_out_of_associations(table: Sequence[Values]) -> str:
    """Return a sentence about the columns that have too many categories for associations; "" without any."""
    names = [values.column.name for values in table[:MOST_COLUMNS]
             if values.column.kind == "categorical" and len(values.labels) > MOST_CATEGORIES]
    return f"Columns with more than {MOST_CATEGORIES} categories are left out: {', '.join(names)}." if names else ""


def associations(table: Sequence[Values], weights: Array) -> Associations:
    """Return how strongly the columns of weighted rows go together; cost: rows times the square of the columns."""
    table = list(table)[:MOST_COLUMNS]
    ordered = [j for j, values in enumerate(table) if values.column.kind != "categorical"]
    named = [j for j, values in enumerate(table) if values.column.kind == "categorical"
             and len(values.labels) <= MOST_CATEGORIES]
    gram, k = _gram([table[j] for j in ordered], [table[j] for j in named], weights), len(ordered)
    there, first, second = slice(0, k), slice(k, 2 * k), slice(2 * k, 3 * k)
    with np.errstate(divide="ignore", invalid="ignore"):
        count = gram[there, there]
        x, y = gram[first, there] / count, gram[there, first] / count
        own, other = gram[second, there] / count - x**2, gram[there, second] / count - y**2
        scale = np.sqrt(np.where((own > 1e-14) & (other > 1e-14), own * other, np.nan))
        correlation = np.clip((gram[first, first] / count - x * y) / scale, -1.0, 1.0)
    strength = np.full((k + len(named), k + len(named)), np.nan)
    strength[:k, :k] = np.abs(correlation)
    ends = 3 * k + np.cumsum([0, *(len(table[j].labels) for j in named)])
    rows = [slice(int(a), int(b)) for a, b in pairwise(ends)]
    for g, own_rows in enumerate(rows, k):
        ratio = _correlation_ratios(gram[own_rows, there], gram[own_rows, first], gram[own_rows, second])
        strength[g, :k] = strength[:k, g] = ratio
        for h, other_rows in enumerate(rows, k):
            strength[g, h] = _cramer(gram[own_rows, other_rows])
    return Associations(ordered, correlation, ordered + named, strength)


def _gram(ordered: Sequence[Values], named: Sequence[Values], weights: Array) -> Array:
    """Return the weighted products of: whether a row has each number, the number, its square; and each category."""
    numbers = np.column_stack([values.numbers for values in ordered]) if ordered else np.empty((len(weights), 0))
    there = np.isfinite(numbers)
    numbers = np.where(there, numbers, 0.0)
    held = weights @ there
    centre = weights @ numbers / np.where(held > 0.0, held, 1.0)
    ranges = np.array([_range(values.column) for values in ordered])
    numbers = np.where(there, numbers - centre, 0.0) / _size(ranges)
    norm = np.sqrt(weights @ np.square(numbers))
    # A norm of rounding errors would be stretched to a unit.
    small = 1e-9 * ranges / _size(ranges)
    numbers = numbers / np.where(norm > small, norm, np.inf)
    size = 3 * len(ordered) + sum(len(values.labels) for values in named)
    total = np.zeros((size, size))
    for at in range(0, len(weights), ROWS_AT_A_TIME):
        rows = slice(at, at + ROWS_AT_A_TIME)
        block = np.hstack([there[rows], numbers[rows], np.square(numbers[rows]),
                           *(values.codes[rows, None] == np.arange(len(values.labels)) for values in named)])
        total += (block * weights[rows, None]).T @ block
    return total


def _correlation_ratios(count: Array, first: Array, second: Array) -> Array:
    """Return the correlation ratios (k,) of numbers given a category, from sums (categories, k) of x^0, x^1 and x^2."""
    with np.errstate(divide="ignore", invalid="ignore"):
        total, mean = count.sum(axis=0), first.sum(axis=0) / count.sum(axis=0)
        between = np.where(count > 0.0, first**2 / count, 0.0).sum(axis=0) / total - mean**2
        within = second.sum(axis=0) / total - mean**2
        return np.sqrt(np.clip(between / np.where(within > 1e-14, within, np.nan), 0.0, 1.0))


def _cramer(table: Array) -> float:
    """Return Cramer's V of a table of shares; not a number if a column has one category only."""
    table = table[np.ix_(table.sum(axis=1) > 0.0, table.sum(axis=0) > 0.0)]
    least = min(table.shape) - 1
    if least < 1:
        return math.nan
    table = table / table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    return min(1.0, math.sqrt(float((np.square(table - expected) / expected).sum()) / least))


def _values(column: Column, values: Any) -> Values:
    """Return the decoded values of one column as codes and numbers."""
    absent = np.ma.getmaskarray(values)
    values = np.ma.getdata(values)
    labels, codes = _codes(column, values)
    numbers = np.full(len(values), np.nan)
    if is_numeric(column):
        numbers[codes < 0] = transformed(column, floats_of(column, values[codes < 0]))
    elif column.kind != "categorical":
        numbers = codes.astype(np.float64)
    if column.missing == "keep":
        codes[absent] = len(labels)
        labels = (*labels, MISSING)
        numbers[absent] = np.nan
    return Values(column, labels, codes, numbers)


def _codes(column: Column, values: Any) -> tuple[tuple[str, ...], Integers]:
    if column.categories is not None:
        labels, names = tuple(map(text_of, column.categories)), column.categories
    elif column.kind == "binary":
        labels, names = tuple(map(text_of, column.bounds)), column.bounds
    else:
        labels = tuple(f"= {text_of(value)}" for value in column.special)
        names = tuple(map(column.number, column.special))
        values = floats_of(column, values)
    if not names:
        return (), np.full(len(values), -1, dtype=np.int64)
    position: dict[Any, int] = {name: i for i, name in enumerate(names)}
    return labels, np.fromiter((position.get(value, -1) for value in values.tolist()), np.int64, len(values))


def _size(values: ArrayLike) -> Array:
    """Return the power of two below each value, or 1/2 of zeros: divided by it the largest floats have squares, too."""
    return np.ldexp(1.0, np.frexp(values)[1] - 1)


def _range(column: Column) -> float:
    low, high = transformed_bounds(column) if is_numeric(column) else (0.0, 1.0)
    return high - low


def _edges(column: Column) -> Array:
    """Return the equally spaced edges of a column's bins; those of integers lie between them."""
    lower, upper = column.bounds
    if column.kind == "integer" and column.transform is None:
        first, count = math.ceil(lower), math.floor(upper) - math.ceil(lower) + 1
        width = 1 if count <= MOST_INTEGER_BINS else -(-count // BINS)
        return _ascending(first - 0.5 + width * np.arange(-(-count // width) + 1, dtype=np.float64))
    low, high = transformed_bounds(column)
    return _ascending(low + np.arange(BINS + 1, dtype=np.float64) / BINS * (high - low))


def _ascending(edges: Array) -> Array:
    """Return equally spaced edges, fewer of them if a narrow range far from 0 has not as many floats."""
    count, made = len(edges) - 1, edges
    # As `np.histogram` computes them, which refuses bins without a width.
    while count > 1 and not (np.diff(np.linspace(edges[0], edges[-1], count + 1)) > 0.0).all():
        count //= 2
        made = np.linspace(edges[0], edges[-1], count + 1)
    return made
