"""The parts of a report that show what came of a release: columns, their associations, errors and points."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._files import write_whole
from trigmech.distribution import Distribution
from trigmech.domain import Domain
from trigmech.evaluation.distances import Evaluation, evaluate
from trigmech.evaluation.error_bars import PredictedError, missed_moments, predicted_error
from trigmech.report.against import Queries, distances, worst_queries
from trigmech.report.columns import (
    MOST_COLUMNS,
    Marginal,
    Values,
    associations,
    bounds_text,
    distinct_rows,
    greatest_difference,
    grouped,
    is_numeric,
    marginal,
    ticks,
    total_variation,
    unit_text,
    values_of,
)
from trigmech.report.figures import LABELLED, Format, bars, content, distributions, heat_map, histogram, number, scatter
from trigmech.report.statement import NO_TABLE, Table
from trigmech.results import Synthesis
from trigmech.schema.schema import Schema
from trigmech.workload import GaussianKernels, PairKernels, SecondMoments

Array = NDArray[np.float64]

SHOWN_AT_ONCE = 24
MOST_BARS = 12
LEVEL = 0.95
# Multiplications that the answers of Gaussian kernels may take, and the fewest and most queries of a family.
QUERY_WORK = 2e9
FEWEST_QUERIES, MOST_QUERIES = 50, 1_000
PRIVATE_MARK = "not-private"


@dataclass(frozen=True)
class Pictures:
    """Where figures go: into the page, and into a folder if one is named."""

    folder: Path | None
    private: bool

    def add(self, name: str, alt: str, figure: Any, raster: bool = False) -> dict[str, Any]:
        """Return what the page needs to show a figure."""
        from markupsafe import Markup

        if self.folder is not None:
            stem = f"{PRIVATE_MARK}-{name}" if self.private else name
            kinds: tuple[Format, ...] = ("png", "pdf")
            for kind in kinds:
                write_whole(self.folder / f"{stem}.{kind}", content(figure, kind))
        kind, media = ("png", "image/png") if raster else ("svg", "image/svg+xml")
        width, height = (round(96.0 * float(inches)) for inches in figure.get_size_inches())
        coded = base64.b64encode(content(figure, kind)).decode("ascii")
        return {"source": Markup(f"data:{media};base64,{coded}"), "width": width, "height": height, "alt": alt}


@dataclass(frozen=True, eq=False)
class Side:
    """Weighted rows: the release's or the true ones."""

    points: Array
    weights: Array
    values: list[Values]
    marginals: list[Marginal]

    @classmethod
    def of(cls, schema: Schema, points: Array, weights: Array) -> "Side":
        values = values_of(schema, points)
        return cls(points, weights, values, [marginal(column, weights) for column in values])


def columns(made: Side, true: Side | None, pictures: Pictures, say: Callable[[int, int], Any]) -> dict[str, Any]:
    shown, rows = [], []
    truths: Sequence[Marginal | None] = made.marginals if true is None else true.marginals
    for j, (own, other) in enumerate(zip(made.marginals, truths, strict=True)):
        truth = None if true is None else other
        say(j, len(made.marginals))
        row = [own.column.name, str(j + 1), own.column.kind, _range_text(own), *_moments_text(own)]
        if true is not None and truth is not None:
            row += [*_moments_text(truth), number(_difference(made, true, j))]
        rows.append(row)
        if j < MOST_COLUMNS:
            shown.append({"id": f"column-{j + 1}", "name": own.column.name, "kind": own.column.kind,
                          "note": _named_text(own, truth) if is_numeric(own.column) else "",
                          "picture": _column_picture(j, own, truth, pictures)})
    head = ["Column", "No.", "Kind", "Range", "Mean", "Deviation"]
    if true is not None:
        head += ["True mean", "True deviation", "Difference"]
    table = Table("Columns", head, rows, (1, *range(3, len(head))),
                  [f"column-{j + 1}" if j < MOST_COLUMNS else "" for j in range(len(rows))])
    return {"drawn": len(shown), "all": len(rows), "table": table, "shown": shown[:SHOWN_AT_ONCE],
            "more": shown[SHOWN_AT_ONCE:]}


def _difference(made: Side, true: Side, j: int) -> float:
    if is_numeric(made.values[j].column):
        return greatest_difference(made.values[j], made.weights, true.values[j], true.weights)
    return total_variation(made.marginals[j], true.marginals[j])


def _range_text(own: Marginal) -> str:
    if not is_numeric(own.column):
        return f"{len(own.labels)} values"
    return bounds_text(own.column)


def _moments_text(own: Marginal) -> list[str]:
    if not is_numeric(own.column):
        return ["", ""]
    if own.column.unit is not None:
        days = own.deviation / (1.0 if own.column.unit == "D" else 86_400.0)
        return [unit_text(own.column, own.mean), f"{number(days)} days"]
    return [number(own.mean, 4), number(own.deviation, 4)]


def _named_text(own: Marginal, truth: Marginal | None) -> str:
    """Return the shares of special and missing values, which are no part of a histogram."""
    parts = [f"{label}: {_percent(share)}" + ("" if truth is None else f" (true {_percent(truth.named[i])})")
             for i, (label, share) in enumerate(zip(own.labels, own.named, strict=True))]
    return "Not drawn: " + "; ".join(parts) if parts else ""


def _column_picture(j: int, own: Marginal, truth: Marginal | None, pictures: Pictures) -> dict[str, Any]:
    name = f"column-{j + 1:03d}"
    if is_numeric(own.column):
        alt = (f"Histogram of {own.column.name}, synthetic: mean {_moments_text(own)[0]}, standard deviation "
               f"{_moments_text(own)[1]}")
        if truth is not None:
            alt += f"; true: mean {_moments_text(truth)[0]}, standard deviation {_moments_text(truth)[1]}"
        return pictures.add(name, alt, histogram(own.edges, own.shares, None if truth is None else truth.shares,
                                                 ticks(own.column, own.edges)))
    order = np.arange(len(own.labels))
    labels, shares = list(own.labels), own.named
    other = None if truth is None else truth.named
    if len(order) > MOST_BARS:
        # The most frequent of the synthetic ones, in the schema's order, and the rest together.
        order = np.sort(np.argsort(-own.named, kind="stable")[: MOST_BARS - 1])
        labels = [labels[i] for i in order] + [f"{len(labels) - len(order)} others"]
        shares, other = _pooled(shares, order), None if other is None else _pooled(other, order)
    told = np.argsort(-shares, kind="stable")[:6]
    alt = f"Shares of {own.column.name}, synthetic: " + ", ".join(
        f"{labels[i]} {_percent(shares[i])}" + ("" if other is None else f" (true {_percent(other[i])})") for i in told)
    return pictures.add(name, alt, bars(labels, shares, other))


def _pooled(shares: Array, order: NDArray[np.int64]) -> Array:
    return np.append(shares[order], max(0.0, float(shares.sum() - shares[order].sum())))


def together(made: Side, true: Side | None, pictures: Pictures) -> dict[str, Any]:
    """Return the matrices of the page: correlations of columns with an order, and associations of all kinds."""
    own = associations(made.values, made.weights)
    other = own if true is None else associations(true.values, true.weights)
    matrices = []
    if len(own.ordered) > 1:
        matrices += _pair("correlation", "Correlation", own.ordered, own.correlation,
                          None if true is None else other.correlation, made, pictures)
    if len(own.all) > max(1, len(own.ordered)):
        matrices += _pair("association", "Association", own.all, own.strength,
                          None if true is None else other.strength, made, pictures)
    return {"matrices": matrices}


def _pair(name: str, what: str, chosen: list[int], matrix: Array, truth: Array | None, made: Side,
          pictures: Pictures) -> list[dict[str, Any]]:
    """Return a matrix and, if there is a true one, the difference to it."""
    numbered = len(chosen) > LABELLED
    shown = [{"id": name, "title": f"{what}, synthetic", "numbered": numbered, "greatest": None, "mean": None,
              "picture": _matrix_picture(name, what, matrix, made, chosen, name == "correlation", 1.0, pictures)}]
    if truth is not None:
        gap = matrix - truth
        apart = np.abs(gap[np.triu_indices(len(gap), 1)])
        apart = apart[np.isfinite(apart)] if np.isfinite(apart).any() else np.zeros(1)
        title, limit = f"{what}, synthetic minus true", max(float(apart.max()), 1e-3)
        name = f"{name}-difference"
        shown.append({"id": name, "title": title, "numbered": numbered, "greatest": number(float(apart.max())),
                      "mean": number(float(apart.mean())),
                      "picture": _matrix_picture(name, title, gap, made, chosen, True, limit, pictures)})
    return shown


def _matrix_picture(name: str, what: str, matrix: Array, made: Side, chosen: list[int], signed: bool, limit: float,
                    pictures: Pictures) -> dict[str, Any]:
    names = [made.values[j].column.name for j in chosen]
    figure = heat_map(matrix, names, [j + 1 for j in chosen], signed, limit, what)
    return pictures.add(name, f"{what}: {_strongest(matrix, names)}", figure, raster=len(chosen) > LABELLED)


def _strongest(matrix: Array, names: Sequence[str]) -> str:
    """Return the strongest entries of a symmetric matrix in words."""
    rows, at = np.triu_indices(len(names), 1)
    values = matrix[rows, at]
    order = np.argsort(-np.abs(np.nan_to_num(values)), kind="stable")[:3]
    told = [f"{names[rows[i]]} and {names[at[i]]} {number(float(values[i]))}" for i in order if np.isfinite(values[i])]
    return "greatest entries " + ", ".join(told) if told else "not defined"


def errors(synthesis: Synthesis, domain: Domain, made: Side, true: Side | None, pictures: Pictures,
           seed: int) -> dict[str, Any]:
    """Return what the page says of the errors of queries, predicted and, if there is a table, true."""
    release, fit, numbers = synthesis.release, synthesis.fit, list(domain.numbers)
    families = _families(max(release.n, len(made.points)), len(numbers), seed) if numbers else []
    predictable = fit.misfit is not None
    predicted: list[PredictedError | None] = [None] * len(families)
    if predictable:
        predicted = [predicted_error(family, release, fit, LEVEL) for family in families]
    evaluations = [None if true is None else _evaluate(family, made, true, numbers) for family in families]
    said: dict[str, Any] = {"predictable": predictable, "frequencies": _frequencies(synthesis, domain),
                            "queries": _query_table(families, predicted, evaluations, true is not None),
                            "scatter": None, "worst": NO_TABLE}
    with_numbers = [values.column for values in made.values if values.column.kind != "categorical"]
    rows: list[tuple[str, ...]] = []
    drawn = []
    for family, bar, evaluation in zip(families, predicted, evaluations, strict=True):
        if evaluation is None:
            continue
        bounds = None if bar is None else bar.bound
        rows += [(worst.words, number(worst.error), "" if worst.predicted is None else number(worst.predicted),
                  number(worst.truth, 4), number(worst.answer, 4))
                 for worst in worst_queries(family, evaluation, bounds, with_numbers)]
        if bounds is not None:
            name = family.labels[0].split(",")[0]
            drawn.append((bounds.ravel(), np.abs(evaluation.answers - evaluation.truth).ravel(), name))
    said["worst"] = Table("The worst queries of each family",
                          ("Query", "Error", "Its bound", "True answer", "Synthetic answer"), rows, range(1, 5))
    if drawn:
        x, y, labels = zip(*drawn, strict=True)
        said["scatter"] = pictures.add("errors", "True absolute errors of queries over their predicted bounds",
                                       scatter(x, y, labels, "predicted bound, 95 %", "true absolute error"))
    return said


def _query_table(families: Sequence[Queries], predicted: Sequence[PredictedError | None],
                 evaluations: Sequence[Evaluation | None], true: bool) -> Table:
    head = ["Queries", "Number", "Typical bound", "Greatest bound", "All together"]
    if true:
        head += ["True typical error", "True greatest error", "Within their bounds"]
    rows = [row for family, bar, evaluation in zip(families, predicted, evaluations, strict=True)
            if bar is not None or evaluation is not None for row in _query_rows(family, bar, evaluation)]
    return Table("Errors of queries of numbers", head, rows, range(1, len(head)))


def _families(rows: int, d: int, seed: int) -> list[Queries]:
    """Return the families of the default workload, with as many queries as can be answered in seconds."""
    count = int(np.clip(QUERY_WORK / (rows * d * 10), FEWEST_QUERIES, MOST_QUERIES))
    families: list[Queries] = [GaussianKernels(d, seed, count), SecondMoments(d)]
    return families if d == 1 else [families[0], PairKernels(d, seed, count), families[1]]


def _evaluate(family: Queries, made: Side, true: Side, numbers: list[int]) -> Evaluation:
    return evaluate(family, true.points[:, numbers], Distribution(made.points[:, numbers], made.weights))


def _query_rows(family: Queries, bar: PredictedError | None, evaluation: Evaluation | None) -> list[list[str]]:
    rows = []
    for part, label in enumerate(family.labels):
        some = bar.bound if bar is not None else evaluation.truth if evaluation is not None else np.empty((0, 0))
        row = [label, f"{len(some):,}"]
        row += ["", "", ""] if bar is None else [number(float(value)) for value in (
            np.median(bar.bound[:, part]), bar.bound[:, part].max(), bar.worst[part])]
        if evaluation is not None:
            error = np.abs(evaluation.answers - evaluation.truth)[:, part]
            row += [number(float(np.median(error))), number(float(error.max())),
                    "" if bar is None else _percent(float((error <= bar.bound[:, part]).mean()))]
        rows.append(row)
    return rows


def _frequencies(synthesis: Synthesis, domain: Domain) -> Table:
    """Return the predicted errors of the frequencies of the values of each column that has indicators."""
    release, fit = synthesis.release, synthesis.fit
    if fit.misfit is None or not domain.groups:
        return NO_TABLE
    missed = np.abs(missed_moments(release, fit)[0])
    gaussian = not any(charge.law == "laplace" for charge in synthesis.ledger.charges)
    # In standard deviations: the normal law's, or -log(1 - LEVEL) / sqrt(2) of a Laplace law.
    reach = 1.959964 if gaussian else 2.118279
    rows = []
    for name, group in zip(grouped(synthesis.schema), domain.groups, strict=True):
        own = release.index.alone(group.coordinates)[0]
        own = own[own >= 0]
        if not len(own):
            continue
        scales = release.deviations[own]
        rows.append((name, f"{len(own)}", number(scales.max()), number(missed[own].max()),
                     f"± {number((reach * scales + missed[own]).max())}",
                     number((np.sqrt(2.0 / np.pi) * scales.max() * len(own) + missed[own].sum()) / 2.0)))
    return Table("Predicted errors of the frequencies of each column's values",
                 ("Column", "Frequencies", "Standard deviation of the noise", "Missed by the points", "95 % within",
                  "Total variation, expected"), rows, range(1, 6))


def points(synthesis: Synthesis, made: Side, true: Side | None, pictures: Pictures, seed: int) -> dict[str, Any]:
    """Return what the page says of the points themselves, and of their distances to true records."""
    effective = 1.0 / float(np.square(made.weights).sum())
    rows = [("Points", f"{len(made.points):,}"), ("Different rows among them, in the columns' units",
                                                  f"{distinct_rows(made.values):,}"),
            ("Effective number of points, 1 / (sum of squared weights)", number(effective, 5)),
            ("Largest weight of a point", number(float(made.weights.max()))),
            ("Rows of a sample, unless told otherwise", f"{synthesis.rows:,}")]
    said: dict[str, Any] = {"table": Table("Points", ("What", "Value"), rows, (1,)), "picture": None}
    if true is None or len(true.points) < 2:
        return said
    found = distances(synthesis.distribution, true.points, np.random.default_rng([seed, 1]))
    labels = ("synthetic row to its nearest true record", "true record to its nearest other one")
    samples = (found.synthetic, found.true)
    said["counts"] = [f"{len(sample):,}" for sample in samples]
    said["picture"] = pictures.add("distances", "Distribution functions of the distances to the nearest true record, "
                                   "of synthetic rows and of true records",
                                   distributions(samples, labels, "distance"))
    steps = (0.05, 0.25, 0.5, 0.75, 0.95)
    said["distances"] = Table("Distances to the nearest true record",
                              ("Rows", *(f"{100 * q:.0f} %" for q in steps), "At 0"),
                              [(label, *(number(float(v)) for v in np.quantile(sample, steps)),
                                _percent(float((sample == 0.0).mean())))
                               for label, sample in zip(labels, samples, strict=True)], range(1, 7))
    return said


def _percent(share: float) -> str:
    return f"{number(100.0 * float(share))} %"
