"""Advice before any budget is spent: expected errors for each epsilon, of a made-up table of the schema."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

from trigmech._arrays import Array
from trigmech._validate import check_integers, is_number
from trigmech.domain import Domain
from trigmech.errors import InputError, shown
from trigmech.evaluation.features import USUAL
from trigmech.evaluation.forecast import Forecast, forecast
from trigmech.evaluation.verdict import LIMITS, LightLimits
from trigmech.functions.partition import columns_of
from trigmech.mechanisms.rehearsal import rehearsed_release
from trigmech.mechanisms.table import TableMechanism
from trigmech.privacy.budget import Budget
from trigmech.report.advice import usual_delta
from trigmech.report.expected import Outlook, outlook_of
from trigmech.report.figures import number, percent
from trigmech.report.statement import Table
from trigmech.report.tabled import Section, Tabled
from trigmech.schema.schema import Schema
from trigmech.synthesis import design

EPSILONS = (0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
# The made-up table: at most so many rows; the loading of each column on a common factor, so that any two have a
# correlation of about 0.25; the shape of numbers within their bounds; the share of each special or missing value.
MOST_ROWS, SEED, LOADING, SHAPE, SPECIAL = 10_000, 2014, 0.5, (2.0, 4.0), 0.05
# Noise is drawn several times, because a single draw can move the expected error of a pair by a third: so many times
# that this many pairs are seen, at least the first number and at most the second. Many pairs cost time.
DRAWN_PAIRS, DRAWS = 250, (2, 4)
# An effect is found in 80 of 100 cases if it is so many standard errors large: of a 95 % interval, and of the power.
POWER = 1.959964 + 0.841621


@dataclass(frozen=True, eq=False)
class Step:
    """The expected errors for one epsilon."""

    epsilon: float
    expected: Forecast
    outlook: Outlook
    correlation: float
    difference: float


def advise(schema: Schema, rows: int, *, target: str | None = None, delta: float | None = None,
           epsilons: Sequence[float] = EPSILONS, limits: Mapping[str, LightLimits] = LIMITS,
           progress: Callable[[str, int, int], Any] | None = None) -> Tabled:
    """Return for each epsilon the expected errors, the lights and the smallest visible effects; spends no budget.

    Parameters
    ----------
    schema : Schema
        With public bounds and categories.
    rows : int
        Rows of the table, at least 20; public.
    target : str, optional
        A column that models will predict, see :class:`trigmech.TableMechanism`.
    delta : float, optional
        Default: the largest power of ten that is at most 1 / (10 rows).
    epsilons : sequence of float, optional
    limits : mapping of str to LightLimits, optional
    progress : callable, optional
        Called with the name of a step, the finished amount and the total.

    Returns
    -------
    Tabled
        Its ``facts`` have, for each epsilon, all expected errors, and the smallest correlation and difference of means
        that would be found with a power of 80 %.

    Raises
    ------
    InputError, BudgetError
        If an argument breaks a rule, bounds or categories are private, or an epsilon is too small to plan with.

    Notes
    -----
    Privacy: public facts alone; nothing is charged and no table is read. The errors are those of a made-up table:
    numbers lie in the lower middle of their bounds, categories have frequencies like 1, 1/2, 1/3, and any two columns
    have a correlation of about 0.25. Errors are means over two to four draws of the noise. A table whose values fill
    less of the bounds has larger errors. Cost: two to three seconds for each epsilon and 17 columns.

    Examples
    --------
    >>> import trigmech as tm
    >>> schema = tm.Schema([tm.Column("age", 0, 120), tm.Column("income", 0, 200_000)])
    >>> found = tm.advise(schema, 3_000, epsilons=(0.1, 1.0))
    >>> found.facts["smallest_epsilon"]["age"]
    0.1
    """
    delta, epsilons = _checked(schema, rows, delta, epsilons)
    points = made_up(schema.domain, min(rows, MOST_ROWS))
    steps = []
    for at, epsilon in enumerate(epsilons):
        if progress is not None:
            progress("planning", at, len(epsilons))
        steps.append(_step(schema, rows, Budget(epsilon, delta), target, points, limits))
    smallest = {name: _smallest(steps, name, False) for name in schema.names} | {
        each.name: _smallest(steps, each.name, True) for each in steps[0].expected.pairs}
    return Tabled(f"What a budget would buy: {rows:,} rows, δ = {number(delta)}", _sentences(steps, schema, smallest),
                  tuple(_parts(steps, schema, smallest, limits)), {
                      "rows": rows, "delta": delta, "target": target, "smallest_epsilon": smallest,
                      "epsilons": [{"epsilon": step.epsilon, **step.expected.to_dict(),
                                    "smallest_correlation": _known(step.correlation),
                                    "smallest_difference": _known(step.difference),
                                    "in_units": {each.column: each.amount for each in step.outlook.columns}}
                                   for step in steps]})


def _checked(schema: Schema, rows: int, delta: float | None, epsilons: Sequence[float]) -> tuple[float, list[float]]:
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a Schema, not {type(schema).__name__}")
    check_integers(20, rows=rows)
    if schema.private_bounds or schema.private_categories:
        raise InputError(f"column {(*schema.private_bounds, *schema.private_categories)[0]!r} has private bounds or "
                         "categories: advice needs public ones, so give your best guess in a schema for it")
    if not len(epsilons) or not all(is_number(each) and 0.0 < each < math.inf for each in epsilons):
        raise InputError(f"epsilons must be numbers above 0, not {shown(epsilons)}")
    return (usual_delta(rows) if delta is None else delta), sorted(map(float, epsilons))


def made_up(domain: Domain, rows: int) -> Array:
    """Return a made-up table (rows, D) in the cube, from public facts alone: its columns depend on a common factor."""
    rng = np.random.default_rng(SEED)
    points, factor = np.zeros((rows, domain.d)), rng.normal(size=rows)
    for partition in columns_of(domain):
        place = ndtr(LOADING * factor + math.sqrt(1.0 - LOADING**2) * rng.normal(size=rows))
        k = len(partition.indicators)
        if partition.value is None:
            shares = 1.0 / np.arange(1.0, k + 1.0)
            codes = np.searchsorted(np.cumsum(shares / shares.sum())[:-1], place, side="right")
        else:
            special = min(SPECIAL, 0.5 / max(k, 1))
            codes = np.minimum((rng.random(rows) / special).astype(np.int64), k)
        partition.place(codes, np.minimum(beta.ppf(place, *SHAPE), 1.0 - 1e-9), points)
    return points


def _step(schema: Schema, rows: int, budget: Budget, target: str | None, points: Array,
          limits: Mapping[str, LightLimits]) -> Step:
    planned = design(rows, schema, budget, TableMechanism(target=target))
    draws = int(np.clip(DRAWN_PAIRS // max(math.comb(len(schema.columns), 2), 1), *DRAWS))
    releases = [replace(rehearsed_release(planned, points, np.random.default_rng(SEED + draw)), n=rows)
                for draw in range(draws)]
    expected = forecast(releases[0], schema, points, limits, releases[1:])
    noise = [_seen(each.hidden) for each in expected.correlations]
    # Halves of the rows: the noise in both means, and the chance of each.
    halves = 2.0 * expected.group_noise
    return Step(budget.epsilon, expected, outlook_of(planned.mechanism.agenda(planned), schema),
                POWER * math.hypot(float(np.median(noise)), 1.0 / math.sqrt(rows)) if noise else math.nan,
                POWER * math.sqrt(2.0) * math.hypot(halves, math.sqrt(2.0 / rows)))


def _known(effect: float) -> float | None:
    """Return an effect; None if the release cannot show any."""
    return effect if math.isfinite(effect) else None


def _seen(hidden: float) -> float:
    """Return the noise in a correlation whose hidden part is that large."""
    return math.inf if hidden >= USUAL else hidden * USUAL / math.sqrt(USUAL**2 - hidden**2)


def _smallest(steps: Sequence[Step], name: str, pair: bool) -> float | None:
    """Return the smallest epsilon from which on the light is good; None if there is none."""
    found = None
    for step in reversed(steps):
        lights = step.expected.lights_of_pairs() if pair else step.expected.lights_of_columns()
        if lights[name] != "good":
            break
        found = step.epsilon
    return found


def _sentences(steps: Sequence[Step], schema: Schema, smallest: Mapping[str, float | None]) -> tuple[str, ...]:
    said = []
    pairs = [each.name for each in steps[0].expected.pairs]
    for words, names in (("columns", list(schema.names)), ("pairs of columns", pairs)):
        if names:
            held = [smallest[name] for name in names]
            known = [each for each in held if each is not None]
            said.append(f"All {words} are expected to be good from ε = {number(max(known))} on."
                        if len(known) == len(held) else
                        f"{len(known)} of {len(held)} {words} are expected to be good at ε = "
                        f"{number(steps[-1].epsilon)}; the others would need more.")
    said.append("These are the errors of a made-up table with your columns. Nothing was charged, and no table was "
                "read.")
    return tuple(said)


def _parts(steps: Sequence[Step], schema: Schema, smallest: Mapping[str, float | None],
           limits: Mapping[str, LightLimits]) -> list[Section]:
    epsilons = [f"ε = {number(step.epsilon)}" for step in steps]
    good = [_epsilon(smallest[name], steps) for name in schema.names]
    columns = [(name, good[j], *(percent(step.expected.columns[j].error) for step in steps))
               for j, name in enumerate(schema.names)]
    found = [Section("Over epsilon", _overall(steps), "Means over all columns and pairs, and how many are good.",
                     _picture(steps, limits)),
             Section("Columns", Table("Shares of rows are expected to be off by", ("Column", "Good from ε", *epsilons),
                                      columns)),
             Section("In their own units", _units(steps, epsilons),
                     "The standard deviation of the noise; 1 error in 20 is more than twice as large. Points are "
                     "percentage points.")]
    if steps[0].expected.pairs:
        found.append(Section("Pairs of columns", _pairs(steps, epsilons, smallest),
                             "Shares of rows are expected to be off by the first number, the correlation by the "
                             "second."))
    if not math.isnan(steps[0].correlation) or steps[0].expected.pairs:
        found.append(Section("The smallest effects that could be seen", Table(
            "The smallest effect that a 95 % interval would distinguish from 0 in 80 of 100 cases",
            ("ε", "Correlation of two numbers", "Difference of means between halves of the rows, standard deviations"),
            [(number(step.epsilon), _effect(step.correlation, 1.0), _effect(step.difference, 10.0))
             for step in steps])))
    return found


def _effect(value: float, most: float) -> str:
    return "" if math.isnan(value) else "not at all" if value > most else number(value, 2)


def _epsilon(value: float | None, steps: Sequence[Step]) -> str:
    return f"above {number(steps[-1].epsilon)}" if value is None else number(value)


def _overall(steps: Sequence[Step]) -> Table:
    rows = []
    for step in steps:
        columns, pairs = step.expected.lights_of_columns(), step.expected.lights_of_pairs()
        rows.append((number(step.epsilon), _mean(step.expected.columns, percent), _mean(step.expected.pairs, percent),
                     _mean(step.expected.correlations, number),
                     f"{list(columns.values()).count('good')} of {len(columns)}",
                     f"{list(pairs.values()).count('good')} of {len(pairs)}"))
    return Table("Expected errors over epsilon",
                 ("ε", "Columns", "Pairs", "Correlations", "Good columns", "Good pairs"), rows)


def _mean(errors: Sequence[Any], words: Callable[[float], str]) -> str:
    return words(float(np.mean([each.error for each in errors]))) if errors else ""


def _units(steps: Sequence[Step], epsilons: Sequence[str]) -> Table:
    rows = [(f"{each.column or 'two columns'}, {each.what}", *(
        _amount(step.outlook, at) for step in steps))
        for at, each in enumerate((*steps[0].outlook.columns, *steps[0].outlook.together))]
    return Table("Noise in single statistics", ("Statistic", *epsilons), rows)


def _amount(outlook: Outlook, at: int) -> str:
    held = (*outlook.columns, *outlook.together)
    if at >= len(held) or held[at].error is None:
        return ""
    # The table says that these are percentage points.
    unit = held[at].unit.replace("percentage points", "points")
    return f"{number(held[at].error or 0.0, 2)} {unit}".strip()


def _pairs(steps: Sequence[Step], epsilons: Sequence[str], smallest: Mapping[str, float | None]) -> Table:
    held = [{each.name: each.error for each in step.expected.correlations} for step in steps]
    rows = [(each.name, _epsilon(smallest[each.name], steps), *(
        percent(step.expected.pairs[at].error) + (f"; {number(own[each.name], 2)}" if each.name in own else "")
        for step, own in zip(steps, held, strict=True))) for at, each in enumerate(steps[0].expected.pairs)]
    return Table("Expected errors of pairs", ("Pair", "Good from ε", *epsilons), rows)


def _picture(steps: Sequence[Step], limits: Mapping[str, LightLimits]) -> dict[str, Any] | None:
    if len(steps) < 2:
        return None
    from trigmech._optional import need

    need("report", "a plot")
    from trigmech.report.figures import curves, styled
    from trigmech.report.sections import Pictures

    lines = [(words, [float(np.mean([each.error for each in getattr(step.expected, kind)])) for step in steps],
              abs(limits[name].good - limits[name].best))
             for words, kind, name in (("columns", "columns", "column_worst"), ("pairs", "pairs", "pair_worst"),
                                       ("correlations", "correlations", "correlation_worst"))
             if getattr(steps[0].expected, kind)]
    alt = "Mean expected error over epsilon: " + "; ".join(
        f"{words} from {number(errors[0], 2)} to {number(errors[-1], 2)}, limit {number(limit, 2)}"
        for words, errors, limit in lines)
    with styled():
        return Pictures(None, False).add("advice", alt, curves([step.epsilon for step in steps], lines))
