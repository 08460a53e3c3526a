"""The pairs of columns whose released dependence is strongest: a table of them, and plots of their synthetic rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech.distribution import systematic
from trigmech.functions.ranks import ranks
from trigmech.report.columns import MOST_INTEGER_BINS, ColumnShares, is_numeric, ticks, unit_text
from trigmech.report.dependences import Dependence
from trigmech.report.figures import number, percent, slugs
from trigmech.report.pair_figures import Axis, boxes, cloud, shades
from trigmech.report.sections import PageRows, Pictures
from trigmech.report.statement import Table
from trigmech.report.tables import Account
from trigmech.schema.encoding import untransformed

LISTED, DRAWN = 20, 9
MOST_POINTS, MOST_VALUES = 2_000, 10
# A value that fewer rows have is not drawn.
RARE = 0.005
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
JITTER = 0.35


def pairs(account: Account, made: PageRows, true: PageRows | None, pictures: Pictures) -> dict[str, Any]:
    """Return the page's data about the pairs with the strongest released dependence."""
    known = account.dependences()
    found = [pair for pair in known if pair.strength > 0.0]
    strongest = found[:LISTED]
    names = [values.column.name for values in made.values]
    rows = [(f"{names[pair.first]} and {names[pair.second]}", pair.strength, pair.uncertainty, pair.synthetic,
             f"{pair.shape[0]} × {pair.shape[1]}", percent(pair.noise)) for pair in strongest]
    table = Table(f"The {len(rows)} pairs with the strongest released dependence",
                  ("Columns", "Strength", "Its noise, about", "In the synthetic rows", "Cells", "Noise in a cell"),
                  rows, links=[f"pair-{place + 1}" if place < DRAWN else "" for place in range(len(rows))])
    sides = [side for side in (made, true) if side is not None]
    files = slugs(names)
    return {"known": len(known), "absent": len(known) - len(found), "table": table,
            "above": sum(pair.strength > pair.uncertainty for pair in known),
            "shown": [_shown(place + 1, pair, sides, files, pictures) for place, pair in enumerate(strongest[:DRAWN])]}


def _shown(place: int, pair: Dependence, sides: Sequence[PageRows], files: Sequence[str],
           pictures: Pictures) -> dict[str, Any]:
    """Return one pair's figure; a number comes before a column of few values."""
    first, second = sorted((pair.first, pair.second), key=lambda j: (not is_numeric(sides[0].values[j].column), j))
    numeric = [is_numeric(sides[0].values[j].column) for j in (first, second)]
    draw = _cloud if all(numeric) else _boxes if any(numeric) else _shades
    kind, note, alt, figure = draw(sides, first, second)
    names = [sides[0].values[j].column.name for j in (first, second)]
    return {"id": f"pair-{place}", "name": f"{names[0]} and {names[1]}", "kind": kind, "note": note,
            "picture": pictures.add(f"pair-{files[first]}-and-{files[second]}",
                                    f"{names[0]} and {names[1]}, synthetic: {alt}", figure)}


Drawn = tuple[str, str, str, Any]


def _cloud(sides: Sequence[PageRows], first: int, second: int) -> Drawn:
    points, told = [], []
    for side in sides:
        rng = np.random.default_rng([0, first, second])
        chosen = systematic(side.weights, min(MOST_POINTS, len(side.weights)), rng)
        held = [side.values[j].numbers[chosen] for j in (first, second)]
        both = np.isfinite(held[0]) & np.isfinite(held[1])
        told.append((int(both.sum()), _rank_correlation(held[0][both], held[1][both]), both.mean()))
        points.append((_apart(side.marginals[first], held[0][both], rng),
                       _apart(side.marginals[second], held[1][both], rng)))
    count, correlation, share = told[0]
    note = "" if share == 1.0 else f"Not drawn: {percent(1.0 - share)} of the rows, without a number in both columns"
    alt = f"scatter plot of {count:,} rows, rank correlation {number(correlation, 2)}"
    axes = _axis(sides[0].marginals[first]), _axis(sides[0].marginals[second])
    return "points are rows", note, alt, cloud(points, axes[0], axes[1], _titles(sides))


def _boxes(sides: Sequence[PageRows], first: int, second: int) -> Drawn:
    kept = _most_frequent(sides[0], second)
    found = [np.array([_quantiles(side, first, side.values[second].codes == code) for code in kept]) for side in sides]
    names = [sides[0].values[second].labels[code] for code in kept]
    column = sides[0].values[first].column
    medians = ", ".join(f"{name} {unit_text(column, float(middle))}"
                        for name, middle in zip(names, untransformed(column, found[0][:, 2]), strict=True))
    return ("boxes hold the middle half, lines 90 %", _left_out(sides[0], (second,), (kept,)),
            f"box plot, medians {medians}",
            boxes(found, _axis(sides[0].marginals[first]), names, sides[0].values[second].column.name, _titles(sides)))


def _shades(sides: Sequence[PageRows], first: int, second: int) -> Drawn:
    kept = [_most_frequent(sides[0], j) for j in (first, second)]
    found = []
    for side in sides:
        a, b = (side.values[j] for j in (first, second))
        table = np.bincount(a.codes * len(b.labels) + b.codes, side.weights, len(a.labels) * len(b.labels))
        table = table.reshape(len(a.labels), len(b.labels))
        total = table.sum(axis=1, keepdims=True)
        found.append(np.divide(table, total, out=np.zeros_like(table), where=total > 0.0)[np.ix_(*kept)])
    names = [[sides[0].values[j].labels[code] for code in own] for j, own in zip((first, second), kept, strict=True)]
    columns = (sides[0].values[first].column.name, sides[0].values[second].column.name)
    most = np.argsort(-found[0].ravel(), kind="stable")[:4]
    alt = "table of shares, greatest " + ", ".join(
        f"{percent(found[0].flat[at])} {names[1][at % len(kept[1])]} of {names[0][at // len(kept[1])]}" for at in most)
    return ("percent of each row of the table", _left_out(sides[0], (first, second), kept), alt,
            shades(found, (names[0], names[1]), columns, _titles(sides)))


def _titles(sides: Sequence[PageRows]) -> tuple[str, ...]:
    return ("synthetic", "true")[: len(sides)]


def _axis(own: ColumnShares) -> Axis:
    return Axis(own.column.name, (float(own.edges[0]), float(own.edges[-1])), ticks(own.column, own.edges))


def _apart(own: ColumnShares, values: Array, rng: np.random.Generator) -> Array:
    """Return values, moved a little if they have so few different ones that points would hide each other."""
    few = own.column.kind == "integer" and own.column.transform is None and len(own.shares) <= MOST_INTEGER_BINS
    return values + rng.uniform(-JITTER, JITTER, len(values)) if few else values


def _rank_correlation(x: Array, y: Array) -> float:
    if min(len(np.unique(values)) for values in (x, y)) < 2:
        return float("nan")
    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


def _most_frequent(side: PageRows, column: int) -> Integers:
    """Return the codes of the most frequent values that are not rare, in the schema's order."""
    named = side.marginals[column].named
    order = np.argsort(-named, kind="stable")[:MOST_VALUES]
    return np.sort(order[named[order] >= min(RARE, float(named.max()))])


def _left_out(side: PageRows, columns: Sequence[int], kept: Sequence[Integers]) -> str:
    """Return how many values of columns are not drawn, in words."""
    values = [side.values[j] for j in columns]
    rare = [f"{len(each.labels) - len(own)} of {each.column.name}"
            for each, own in zip(values, kept, strict=True) if len(own) < len(each.labels)]
    return f"Not drawn, the rarest values: {', '.join(rare)}" if rare else ""


def _quantiles(side: PageRows, column: int, rows: NDArray[np.bool_]) -> Array:
    """Return the quantiles of a number in some weighted rows; not a number if there are none."""
    values = side.values[column].numbers
    held = rows & np.isfinite(values)
    if not held.any():
        return np.full(len(QUANTILES), np.nan)
    order = np.argsort(values[held], kind="stable")
    cumulative = np.cumsum(side.weights[held][order])
    places = np.searchsorted(cumulative, np.array(QUANTILES) * cumulative[-1])
    return np.asarray(values[held][order][np.minimum(places, len(order) - 1)])
