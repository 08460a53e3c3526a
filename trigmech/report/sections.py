"""The parts of a report about the result of a release: columns, their associations, errors and points."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trigmech._arrays import Array, Integers
from trigmech._files import check_writable, write_whole
from trigmech.distribution import Distribution
from trigmech.evaluation.distances import Evaluation, distribution_difference, evaluate, total_variation
from trigmech.evaluation.error_bars import PredictedError
from trigmech.report.against import Queries, distances, families, worst_queries
from trigmech.report.columns import (
    MOST_COLUMNS,
    ColumnShares,
    Noisy,
    Values,
    associations,
    is_numeric,
    left_out_of_associations,
    marginal,
    ticks,
    unit_text,
    values_of,
)
from trigmech.report.figures import (
    LABELLED,
    Format,
    bars,
    content,
    distributions,
    heat_map,
    histogram,
    number,
    percent,
    scatter,
    slugs,
)
from trigmech.report.statement import Table
from trigmech.report.tables import Account
from trigmech.results import Synthesis
from trigmech.schema.schema import Schema
from trigmech.tables.different import different_rows

SHOWN_AT_ONCE = 24
MOST_BARS = 12
LEVEL = 0.95
# Multiplications that the answers of Gaussian kernels may take, and the fewest and most queries of a family.
QUERY_WORK = 2e9
FEWEST_QUERIES, MOST_QUERIES = 50, 1_000
PRIVATE_MARK = "not-private"
# Numbers in a sample that is drawn to count its rows.
MOST_SAMPLED = 2**21


def page_path(path: str | Path, private: bool) -> Path:
    """Return where a page is written: a private one has "not-private" in its name. It can be written there."""
    path = Path(path)
    if private and PRIVATE_MARK not in path.name.lower():
        path = path.with_name(f"{path.stem}.{PRIVATE_MARK}{path.suffix}")
    check_writable(path)
    return path


@dataclass(frozen=True)
class Pictures:
    """Where figures go: into the page, and into a folder if one is named."""

    folder: Path | None
    private: bool

    def add(self, name: str, alt: str, figure: Any, raster: bool = False) -> dict[str, Any]:
        """Return the data with which the page shows a figure."""
        from markupsafe import Markup

        kind: Format = "png" if raster else "svg"
        made, media = {kind: content(figure, kind)}, "image/png" if raster else "image/svg+xml"
        if self.folder is not None:
            stem = f"{PRIVATE_MARK}-{name}" if self.private else name
            others: tuple[Format, ...] = ("png", "pdf")
            for other in others:
                write_whole(self.folder / f"{stem}.{other}", made.get(other) or content(figure, other))
        width, height = (round(96.0 * float(inches)) for inches in figure.get_size_inches())
        coded = base64.b64encode(made[kind]).decode("ascii")
        return {"source": Markup(f"data:{media};base64,{coded}"), "width": width, "height": height, "alt": alt}


@dataclass(frozen=True, eq=False)
class PageRows:
    """Weighted rows: the release's or the true ones."""

    points: Array
    weights: Array
    values: list[Values]
    marginals: list[ColumnShares]

    @classmethod
    def of(cls, schema: Schema, points: Array, weights: Array) -> "PageRows":
        values = values_of(schema, points)
        return cls(points, weights, values, [marginal(column, weights) for column in values])


def columns(account: Account, made: PageRows, true: PageRows | None, pictures: Pictures,
            say: Callable[[int, int], Any]) -> dict[str, Any]:
    """Return the page's data about each column, with its picture."""
    shown, rows = [], []
    names = slugs([own.column.name for own in made.marginals])
    released = account.columns(made.marginals)
    for j, own in enumerate(made.marginals):
        say(j, len(made.marginals))
        column, truth = own.column, None if true is None else true.marginals[j]
        between = (" to ".join(unit_text(column, bound) for bound in column.bounds) if is_numeric(column) else
                   f"{len(own.labels)} values")
        rows.append([column.name, str(j + 1), column.kind, between, *_moments_text(own),
                     *(() if true is None else (*_moments_text(true.marginals[j]), _difference(made, true, j)))])
        if j < MOST_COLUMNS:
            shown.append({"id": f"column-{j + 1}", "name": column.name, "kind": column.kind,
                          "note": _named_text(own, truth) if is_numeric(column) else "",
                          "picture": _column_picture(f"column-{names[j]}", own, truth, released[j], pictures)})
    head = ["Column", "No.", "Kind", "Range", "Mean", "Deviation",
            *(() if true is None else ("True mean", "True deviation", "Difference"))]
    table = Table("Columns", head, rows, (1, *range(3, len(head))),
                  [f"column-{j + 1}" if j < MOST_COLUMNS else "" for j in range(len(rows))])
    return {"drawn": len(shown), "all": len(rows), "table": table,
            "special": any(own.labels and is_numeric(own.column) for own in made.marginals),
            "released": any(noisy is not None for noisy in released), "shown": shown[:SHOWN_AT_ONCE],
            "more": shown[SHOWN_AT_ONCE:]}


def _difference(made: PageRows, true: PageRows, j: int) -> float:
    own, other = made.values[j].numbers, true.values[j].numbers
    if not is_numeric(made.values[j].column):
        return total_variation(made.marginals[j].named, true.marginals[j].named)
    held = np.isfinite(own)
    return distribution_difference(other[np.isfinite(other)], own[held], made.weights[held])


def _moments_text(own: ColumnShares) -> list[str]:
    if not is_numeric(own.column):
        return ["", ""]
    if own.column.unit is not None:
        days = own.deviation * own.column.seconds / 86_400.0
        return [unit_text(own.column, own.mean), f"{number(days)} days"]
    return [number(own.mean, 4), number(own.deviation, 4)]


def _shares_text(labels: Sequence[str], shares: Array, truth: Array | None) -> list[str]:
    return [f"{label} {percent(share)}" + ("" if truth is None else f" (true {percent(truth[i])})")
            for i, (label, share) in enumerate(zip(labels, shares, strict=True))]


def _named_text(own: ColumnShares, truth: ColumnShares | None) -> str:
    """Return the shares of special and missing values, which a histogram does not show."""
    parts = _shares_text([f"{label}:" for label in own.labels], own.named, None if truth is None else truth.named)
    return "Not drawn: " + "; ".join(parts) if parts else ""


def _column_picture(name: str, own: ColumnShares, truth: ColumnShares | None, noisy: Noisy | None,
                    pictures: Pictures) -> dict[str, Any]:
    if is_numeric(own.column):
        alt = f"Histogram of {own.column.name}, " + "; ".join(
            "{}: mean {}, standard deviation {}".format(side, *_moments_text(each))
            for side, each in (("synthetic", own), ("true", truth)) if each is not None)
        return pictures.add(name, alt, histogram(
            own.edges, own.shares, None if truth is None else truth.shares, ticks(own.column, own.edges),
            None if noisy is None else (noisy.shares, noisy.shares_noise)))
    labels, shares, other = own.labels, own.named, None if truth is None else truth.named
    released = None if noisy is None else (noisy.named, noisy.named_noise)
    if len(labels) > MOST_BARS:
        # The most frequent of the synthetic ones, in the schema's order, and the rest together.
        order = np.sort(np.argsort(-own.named, kind="stable")[: MOST_BARS - 1])
        labels = (*(labels[i] for i in order), f"{len(labels) - len(order)} others")
        shares, other = _pooled(shares, order), None if other is None else _pooled(other, order)
        if released is not None:
            rest = len(own.labels) - len(order)
            released = (np.append(released[0][order], released[0].sum() - released[0][order].sum()),
                        np.append(released[1][order], np.sqrt(rest) * released[1].max()))
    most = np.argsort(-shares, kind="stable")[:6]
    listed = _shares_text([labels[i] for i in most], shares[most], None if other is None else other[most])
    alt = f"Shares of {own.column.name}, synthetic: " + ", ".join(listed)
    return pictures.add(name, alt, bars(labels, shares, other, released))


def _pooled(shares: Array, order: Integers) -> Array:
    return np.append(shares[order], max(0.0, float(shares.sum() - shares[order].sum())))


def together(made: PageRows, true: PageRows | None, pictures: Pictures) -> dict[str, Any]:
    """Return the matrices of the page: correlations of columns with an order, and associations of all kinds."""
    both = [associations(side.values, side.weights) for side in (made, true) if side is not None]
    ordered, every, matrices = both[0].ordered, both[0].all, []
    if len(ordered) > 1:
        matrices += _pair("correlation", ordered, [each.correlation for each in both], made, pictures)
    if len(every) > max(1, len(ordered)):
        matrices += _pair("association", every, [each.strength for each in both], made, pictures)
    return {"matrices": matrices, "left_out": left_out_of_associations(made.values)}


def _pair(name: str, chosen: list[int], both: Sequence[Array], made: PageRows,
          pictures: Pictures) -> list[dict[str, Any]]:
    """Return a matrix and, if there is a true one, the difference to it."""
    what, numbered = name.capitalize(), len(chosen) > LABELLED
    names, places = [made.values[j].column.name for j in chosen], [j + 1 for j in chosen]

    def shown(name: str, title: str, label: str, matrix: Array, signed: bool, limit: float = 1.0,
              greatest: str | None = None, mean: str | None = None) -> dict[str, Any]:
        picture = pictures.add(name, f"{label}: {_strongest(matrix, names)}",
                               heat_map(matrix, names, places, signed, limit, label), raster=numbered)
        return {"id": name, "title": title, "numbered": numbered, "picture": picture, "greatest": greatest,
                "mean": mean}

    found = [shown(name, f"{what}, synthetic", what, both[0], name == "correlation")]
    for truth in both[1:]:
        gap, title = both[0] - truth, f"{what}, synthetic minus true"
        apart = np.abs(gap[np.triu_indices(len(gap), 1)])
        apart = apart[np.isfinite(apart)] if np.isfinite(apart).any() else np.zeros(1)
        found.append(shown(f"{name}-difference", title, title, gap, True, max(float(apart.max()), 1e-3),
                           number(apart.max()), number(apart.mean())))
    return found


def _strongest(matrix: Array, names: Sequence[str]) -> str:
    """Return the strongest entries of a symmetric matrix in words."""
    rows, at = np.triu_indices(len(names), 1)
    values = matrix[rows, at]
    order = np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:3]
    listed = [f"{names[rows[i]]} and {names[at[i]]} {number(values[i])}" for i in order if np.isfinite(values[i])]
    return "greatest entries " + ", ".join(listed) if listed else "not defined"


@dataclass(frozen=True, eq=False)
class AskedQueries:
    """A family of queries with its predicted errors and, if there is a table, its answers."""

    family: Queries
    bar: PredictedError | None
    evaluation: Evaluation | None


def errors(account: Account, made: PageRows, true: PageRows | None, pictures: Pictures, seed: int) -> dict[str, Any]:
    """Return the page's data about errors of queries: predicted and, if there is a table, true."""
    synthesis = account.synthesis
    numbers = list(synthesis.schema.domain.numbers)
    rows, d = max(synthesis.release.n, len(made.points)), len(numbers)
    count = int(np.clip(QUERY_WORK / (rows * max(d, 1) * 10), FEWEST_QUERIES, MOST_QUERIES))
    # Error bars of releases of tables take minutes of trials; the lights are about their errors.
    predictable = synthesis.has_error_bars and not synthesis.release.columns
    points = Distribution(made.points[:, numbers], made.weights)
    asked = [AskedQueries(family, synthesis.predicted_error(family, LEVEL) if predictable else None,
                   None if true is None else evaluate(family, true.points[:, numbers], points))
             for family in families(d, count, count, seed)]
    told = {"frequencies": account.errors(), "queries": _query_table(asked, true is not None),
            "worst": _worst_table(asked, made)}
    return {**told, "predictable": predictable, "unpredictable": not synthesis.has_error_bars,
            "about": account.about_errors, "bounds": account.about_bounds, "scatter": _scatter(asked, pictures),
            "shown": any(table.rows for table in told.values()) or not synthesis.has_error_bars}


def _query_table(asked: Sequence[AskedQueries], true: bool) -> Table:
    head = ["Queries", "Number", "Typical bound", "Greatest bound", "All together"]
    if true:
        head += ["True typical error", "True greatest error", "Within their bounds"]
    return Table("Errors of queries of numbers", head, [row for each in asked for row in _query_rows(each)])


def _query_rows(asked: AskedQueries) -> list[list[Any]]:
    rows: list[list[Any]] = []
    bar, evaluation, labels = asked.bar, asked.evaluation, asked.family.labels
    if bar is not None:
        rows = [[label, *bar.bound.shape[:1], np.median(bound), bound.max(), worst]
                for label, bound, worst in zip(labels, bar.bound.T, bar.worst, strict=True)]
    elif evaluation is not None:
        rows = [[label, len(evaluation.truth), "", "", ""] for label in labels]
    if evaluation is not None:
        for part, (row, error) in enumerate(zip(rows, evaluation.errors.T, strict=True)):
            within = "" if bar is None else percent((error <= bar.bound[:, part]).mean())
            row += [np.median(error), error.max(), within]
    return rows


def _worst_table(asked: Sequence[AskedQueries], made: PageRows) -> Table:
    columns = [values.column for values in made.values if values.column.kind != "categorical"]
    return Table("The worst queries of each family",
                 ("Query", "Error", "Its bound", "True answer", "Synthetic answer"),
                 [row for each in asked if each.evaluation is not None for row in worst_queries(
                     each.family, each.evaluation, None if each.bar is None else each.bar.bound, columns)])


def _scatter(asked: Sequence[AskedQueries], pictures: Pictures) -> dict[str, Any] | None:
    drawn = [(each.bar.bound.ravel(), each.evaluation.errors.ravel(), each.family.labels[0].split(",")[0])
             for each in asked if each.bar is not None and each.evaluation is not None]
    if not drawn:
        return None
    x, y, labels = zip(*drawn, strict=True)
    return pictures.add("errors", "True absolute errors of queries over their predicted bounds",
                        scatter(x, y, labels, "predicted bound, 95 %", "true absolute error"))


def points(synthesis: Synthesis, made: PageRows, true: PageRows | None, pictures: Pictures,
           seed: int) -> dict[str, Any]:
    """Return the page's data about the points, and about their distances to true records."""
    schema = synthesis.schema
    count = max(1, min(synthesis.rows, MOST_SAMPLED // made.points.shape[1]))
    sample = synthesis.columns(count, np.random.default_rng([seed, 2]))
    rows = [("Points: rows that were fitted", len(made.points)),
            ("Different rows among them, in the columns' units", different_rows(schema.decode(made.points).values())),
            ("Effective number of points, 1 / (sum of squared weights)",
             number(1.0 / np.square(made.weights).sum(), 5)),
            ("Largest weight of a point", made.weights.max()),
            ("Default number of rows in a sample", synthesis.rows),
            (f"Different rows in a sample of {count:,}", different_rows(sample[name] for name in schema.names))]
    said: dict[str, Any] = {"table": Table("Points", ("What", "Value"), rows), "picture": None,
                            "redrawn": synthesis.release.columns}
    if true is None or len(true.points) < 2:
        return said
    samples = distances(synthesis.distribution, true.points, np.random.default_rng([seed, 1]))
    labels = ("synthetic row to its nearest true record", "true record to its nearest other one")
    said["counts"] = [f"{len(sample):,}" for sample in samples]
    said["picture"] = pictures.add("distances", "Distribution functions of the distances to the nearest true record, "
                                   "of synthetic rows and of true records",
                                   distributions(samples, labels, "distance"))
    steps = (0.05, 0.25, 0.5, 0.75, 0.95)
    said["distances"] = Table("Distances to the nearest true record",
                              ("Rows", *(f"{100 * q:.0f} %" for q in steps), "At 0"),
                              [(label, *np.quantile(sample, steps), percent((sample == 0.0).mean()))
                               for label, sample in zip(labels, samples, strict=True)])
    return said
