"""The beginning of a page: the uses of the table, in three lines, and a light for each column and each pair."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from trigmech.evaluation.forecast import ExpectedError, Forecast, forecast
from trigmech.evaluation.judgement import Judgement
from trigmech.evaluation.verdict import LIGHTS, LIMITS, LightLimits
from trigmech.report.figures import number, percent
from trigmech.report.statement import NO_TABLE, Side, Table, table_of_lights
from trigmech.results import Synthesis

# How many errors in a hundred were at most the upper end of their bars, by experiments/results/lights.md.
HELD = {"columns": 95, "pairs": 96, "correlations": 85}
MARGINS_SAID = (
    "A column gets the light for 1.25 times its expected error; a pair gets the light for the largest errors that its "
    "table and its correlation usually have. Usually: on eight public tables, "
    f"{HELD['columns']} of 100 columns, {HELD['pairs']} of 100 tables of pairs and {HELD['correlations']} of 100 "
    "correlations were not further off.")
# A page lists no more pairs: those whose lights are worst, and then those that depend most.
MOST_PAIRS = 150
EXPECTED = ("Expected", "Shares of rows are off by", "Usually at most")
MEASURED = ("Measured", "Shares of rows were off by")


def forecast_of(synthesis: Synthesis, limits: Mapping[str, LightLimits] = LIMITS) -> Forecast | None:
    """Return the errors that a release is expected to have; None for releases of moments."""
    if not synthesis.release.columns:
        return None
    return forecast(synthesis.release, synthesis.schema, synthesis.distribution.points, limits)


def lead(synthesis: Synthesis, expected: Forecast | None, judged: Judgement | None) -> dict[str, Any]:
    """Return the data of the top of the page; private if there is a judgement."""
    said: dict[str, Any] = {
        "sentences": [] if expected is None else expected.sentences(synthesis.release.n),
        "verdict": "" if judged is None else judged.verdict, "compared": "" if judged is None else judged.compared,
        "columns": NO_TABLE, "pairs": NO_TABLE, "left_out": 0, "limits": NO_TABLE, "known": expected is not None,
        "margins": MARGINS_SAID,
        "measures": NO_TABLE if judged is None else _measures(judged),
        "regressions": NO_TABLE if judged is None else _regressions(judged),
        "determined": NO_TABLE if judged is None else _determined(judged)}
    if expected is None and judged is None:
        return said
    limits = (judged if expected is None else expected).limits  # type: ignore[union-attr]
    said["columns"] = _columns(synthesis, expected, judged)
    said["pairs"], said["left_out"] = _pairs(synthesis, expected, judged)
    said["limits"] = Table("The limits of the lights", ("Light of", "Measure", "Good to", "Care to", "Best", "Why"), [
        (words, name, number(limits[name].good), number(limits[name].care), number(limits[name].best),
         limits[name].reason)
        for words, name in (("a column", "column_worst"), ("a pair, its table", "pair_worst"),
                            ("a pair, its correlation", "correlation_worst"))], (2, 3, 4))
    return said


def _bars(errors: Sequence[ExpectedError | None]) -> list[list[str]]:
    """Return a column of errors and one of the upper ends of their bars."""
    return [["" if each is None else (number if each.kind == "correlation" else percent)(getattr(each, end))
             for each in errors] for end in ("error", "high")]


def measured_errors(judged: Judgement, names: Sequence[str], pairs: bool) -> list[list[str]]:
    """Return the lights of columns or of pairs, and how far shares of rows were off; of pairs also correlations."""
    lights = judged.lights_of_pairs() if pairs else judged.lights_of_columns()
    # One column has no pairs.
    scores = judged.details.get("pairs" if pairs else "columns", {})
    wrong = judged.details.get("correlations", {}).get("differences", {})
    return [[lights[name] for name in names], [percent(1.0 - scores[name]) for name in names],
            *([[number(wrong[name]) if name in wrong else "" for name in names]] if pairs else [])]


def _columns(synthesis: Synthesis, expected: Forecast | None, judged: Judgement | None) -> Table:
    names, sides = synthesis.schema.names, list[Side]()
    if expected is not None:
        sides.append((EXPECTED, [[each.light for each in expected.columns], *_bars(expected.columns)]))
    if judged is not None:
        sides.append((MEASURED, measured_errors(judged, names, False)))
    return table_of_lights("A light for each column", "Column", names, sides,
                           [f"column-{j + 1}" for j in range(len(names))])


def _pairs(synthesis: Synthesis, expected: Forecast | None, judged: Judgement | None) -> tuple[Table, int]:
    """Return the table of pairs, those first that were seen to depend most, and how many pairs it leaves out."""
    every, sides = list(itertools.combinations(synthesis.schema.names, 2)), list[Side]()
    lights = [found.lights_of_pairs() for found in (expected, judged) if found is not None]
    strengths = {} if expected is None else expected.strengths
    # Those with the worst lights, and of these those first that depend most.
    worst = sorted(every, key=lambda about: (-sum(LIGHTS.index(own[" and ".join(about)]) for own in lights),
                                             -strengths.get(about, 0.0)))
    chosen = sorted(worst[:MOST_PAIRS], key=lambda about: -strengths.get(about, 0.0))
    names = [" and ".join(about) for about in chosen]
    if expected is not None:
        tables, correlations = ({each.about: each for each in part} for part in (
            expected.pairs, expected.correlations))
        sides.append(((*EXPECTED, "Correlation is off by", "Usually at most", "Dependence seen"),
                      [[lights[0][name] for name in names], *_bars([tables[about] for about in chosen]),
                       *_bars([correlations.get(about) for about in chosen]),
                       [number(strengths[about], 2) for about in chosen]]))
    if judged is not None:
        sides.append(((*MEASURED, "Correlation was off by"), measured_errors(judged, names, True)))
    return table_of_lights("A light for each pair of columns", "Pair of columns", names, sides), len(every) - len(names)


def _measures(judged: Judgement) -> Table:
    rows = [(each.words + (f" ({each.about})" if each.about else ""), each.light, number(each.value),
             "" if each.fresh is None else number(each.fresh), number(judged.limits[each.name].good),
             number(judged.limits[each.name].care), number(judged.limits[each.name].best)) for each in judged.measures]
    return Table("Measures of the release", ("Measure", "Light", "Release", "True rows drawn again", "Good to",
                                                     "Care to", "Best"), rows, (2, 3, 4, 5, 6), (), (1,))


def _regressions(judged: Judgement) -> Table:
    rows = [(name, each["R2_true"], each["R2_synthetic"], each["R2_true"] - each["R2_synthetic"])
            for name, each in judged.details.get("regressions", {}).items()]
    return Table("Regressions of each column on all others, tested on true rows: R²",
                 ("Target", "Learned from true rows", "Learned from synthetic rows", "Loss"), rows)


def _determined(judged: Judgement) -> Table:
    rows = [(f"{first} determines {second}", percent(true), percent(made))
            for first, second, true, made in judged.details.get("determined", [])]
    return Table("Columns that nearly determine others", ("Columns", "True rows", "Synthetic rows"), rows)
