"""Warnings from public facts before a budget is spent, and from released numbers afterwards, which costs nothing."""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from trigmech.errors import BudgetError
from trigmech.functions.partition import END
from trigmech.mechanisms.base import Design
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget, shown_up
from trigmech.queries.base import Measurement, of_kind
from trigmech.queries.one_way import Look
from trigmech.report.columns import from_cube
from trigmech.report.tables import account_of
from trigmech.results import Synthesis
from trigmech.schema.column import Column
from trigmech.schema.satisfiability import without_missing
from trigmech.schema.schema import Schema
from trigmech.schema.values import text_of
from trigmech.schema.words import without_middle

# Beyond these a release protects little, or is hardly useful; a delta is recommended if it makes noise this much
# smaller.
MOST_EPSILON, FEWEST_ROWS, WORTH_A_DELTA = 10.0, 50, 1.5
# A pile at a bound: in this part of the range, at least this fraction of the rows, this many times the noise in the
# mean, and this many times the fraction of the part beside it. A value this close to a bound counts as the bound.
EDGE, PILED, NOISES, STEEP, AT = 1.0 / 40.0, 0.1, 10.0, 3.0, END / 2.0
# Integers with fewer values have rows at each bound as a matter of course.
MANY_INTEGERS = 80

# Above the first there is little to see in a column: the noise in the share of the rows below a value. Above the second
# there is little to see in a table of two columns: the noise in a cell.
ROUGH, FAINT = 0.1, 0.05

IDENTIFIERS = {"id", "ids", "uuid", "guid", "ssn", "email", "mail", "phone", "telephone", "mobile", "fax", "iban",
               "passport", "nhs", "mrn", "address", "surname", "username", "login", "ip", "imei", "barcode"}
NUMBERING = {"number", "no", "nr", "num", "code", "key", "index", "serial", "account", "record", "row", "case",
             "customer", "patient", "person"}
# The values of a column with such a name mostly lie in this range.
USUAL_RANGES = {"age": (0, 100), "bmi": (15, 45), "month": (1, 12), "weekday": (0, 7), "hour": (0, 24),
                "percent": (0, 100), "percentage": (0, 100), "latitude": (-90, 90), "longitude": (-180, 180)}
# Bounds that leave out nearly all of it, or are this many times as wide, are odd; but a table may be of one place.
LEAST_PART, WIDEST, MAY_BE_NARROW = 0.1, 5.0, ("latitude", "longitude")


def warnings_of(n: int, schema: Schema, budget: Budget, delta_chosen: bool = False) -> list[str]:
    """Return warnings before a budget is spent, from public facts alone: one sentence each.

    Parameters
    ----------
    n : int
        Rows.
    schema : Schema
    budget : Budget
    delta_chosen : bool
        Whether a delta of 0 was chosen on purpose.

    Returns
    -------
    list of str
        Warnings of an epsilon above 10, few rows, a delta that is too large or was forgotten, columns that look like
        identifiers, bounds that are unusual for a column's name, constraints that rule out missing values, and missing
        values that count as a middle where a column has no value.
        Whether bounds clip depends on the table: see :func:`clipping_of`.
    """
    found = []
    if budget.epsilon > MOST_EPSILON:
        found.append(f"epsilon = {shown_up(budget.epsilon)} is above {MOST_EPSILON:g}: a person who knows all other "
                     "rows may learn the last row almost with certainty")
    if n < FEWEST_ROWS:
        found.append(f"{n} rows are few: below {FEWEST_ROWS} rows, noise hides most of a table")
    if budget.delta >= 1.0 / n:
        found.append(f"delta = {shown_up(budget.delta)} is not below 1 / {n}, one divided by the number of rows; a "
                     "release may then show a whole record")
    if budget.delta == 0 and not delta_chosen:
        found += _forgotten_delta(n, schema.d, budget)
    for column in schema.columns:
        found += _like_an_identifier(column, n) + _unusual_bounds(column)
    return found + without_missing(schema.constraints, schema.columns) + without_middle(schema.columns)


def coarseness_of(design: Design, schema: Schema) -> list[str]:
    """Return warnings about statistics that are mostly noise: one sentence each, from public facts alone.

    Parameters
    ----------
    design : Design
        From :func:`trigmech.design`. Only measurements of columns and tables give warnings.
    schema : Schema

    Returns
    -------
    list of str
        A warning for each column whose categories hold less, on average, than the noise in them; one for all columns
        of numbers whose distribution is mostly noise; and one for pairs, if noise hides all but strong dependences.
    """
    return coarseness_in(design.mechanism.agenda(design).measurements, design.n, schema)


def coarseness_in(asked: Sequence[Measurement[Any]], n: int, schema: Schema) -> list[str]:
    """Return the warnings of :func:`coarseness_of` about measurements of n rows, before they have values."""
    found, rough = [], []
    for look in of_kind(asked, Look):  # type: ignore[type-abstract]
        column, partition = schema.columns[look.query.column], look.query.partition
        k, noise = len(partition.indicators), float(look.deviations.max())
        if column.complete and noise > 1.0 / k:
            found.append(f"column {column.name!r} has {k} categories: on average a category holds {100.0 / k:.2g} % of "
                         f"the rows, and the noise in it is {100.0 * noise:.2g} percentage points; combine rare "
                         "categories")
        if partition.intervals and look.deviation * look.query.greatest_noise > ROUGH:
            rough.append(column.name)
    if rough:
        more = f" and {len(rough) - 3} more" if len(rough) > 3 else ""
        found.append(f"{n} rows are few for {len(schema.columns)} columns at this budget: the distribution of "
                     f"{', '.join(map(repr, rough[:3]))}{more} will have errors above {100.0 * ROUGH:.0f} percentage "
                     "points in some places")
    # The least noise of any table, or of the products of contrasts that tell them.
    tables = [each.deviation for each in asked if each.query.tells_tables]
    if min(tables, default=0.0) > FAINT:
        found.append(f"the noise in all tables of two columns is above {100.0 * FAINT:.0f} percentage points per cell: "
                     "the release will find only strong dependences; fewer columns or a larger budget show more")
    return found


def clipping_of(made: Synthesis) -> list[str]:
    """Return which columns have many released values at a bound, or in a fortieth of their range: one sentence each.

    Parameters
    ----------
    made : Synthesis

    Notes
    -----
    Privacy: post-processing. Many values at a bound can mean that the bound clips them, or that the column really has
    them. Values beside a bound can be such a pile that the release spreads over the interval in which it was measured,
    or the values of a column whose bounds are far too wide. Excesses that noise alone could explain are ignored.
    """
    found: list[str] = []
    if made.fit.misfit is None:
        return found
    points, weights, schema = made.distribution.points, made.distribution.weights, made.schema
    noises = account_of(made).noise()
    for column, place, noise in zip(schema.columns, np.unique(schema.domain.owner), noises, strict=True):
        few = column.kind == "integer" and column.bounds[1] - column.bounds[0] < MANY_INTEGERS
        if column.kind not in ("continuous", "integer", "datetime") or few:
            continue
        for sign, side, bound in ((-1.0, "lower", column.lower), (1.0, "upper", column.upper)):
            # How far from the bound, as a part of the range.
            away = (1.0 - sign * points[:, place]) / 2.0
            edge = float(weights[away <= EDGE].sum())
            beside = float(weights[(away > EDGE) & (away <= 2.0 * EDGE)].sum())
            if edge < max(PILED, NOISES * noise) or edge < STEEP * beside:
                continue
            pile = float(weights[away <= AT].sum())
            if pile >= max(PILED, NOISES * noise):
                found.append(f"column {column.name!r}: {100.0 * pile:.0f} % of the synthetic values lie at the {side} "
                             f"bound {text_of(bound)}; if this is not true of real values, the bound clips them")
            else:
                end = from_cube(column, sign * (1.0 - 2.0 * EDGE))
                found.append(f"column {column.name!r}: {100.0 * edge:.0f} % of the synthetic values lie between the "
                             f"{side} bound {text_of(bound)} and {end}, in a fortieth of the range; if this is not "
                             "true of real values, the bound clips them; if it is true, narrower bounds, from "
                             "knowledge of the subject, would show these values better")
    return found


def usual_delta(n: int) -> float:
    """Return the largest power of ten that is at most 1 / (10 n)."""
    return 10.0 ** -math.ceil(math.log10(10.0 * n))


def _forgotten_delta(n: int, d: int, budget: Budget) -> list[str]:
    """Compare the noise of all columns and pairs measured once: K means, l-infinity or Gaussian."""
    delta = usual_delta(n)
    try:
        gain = math.sqrt(d * (d + 1) / 6.0) * gaussian_mu(Budget(budget.epsilon, delta)) / budget.epsilon
    except BudgetError:
        return []
    return [] if gain < WORTH_A_DELTA else [
        f"delta is not given: with delta = {delta:g}, which is at most 1 / (10 n), the noise in the means of all "
        f"columns and pairs would be about {gain:.2g} times smaller"]


def _words(name: str) -> list[str]:
    """Return the words of a name such as patient_id or patientId, in lower case."""
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return re.findall(r"[a-z]+", apart.lower())


def _like_an_identifier(column: Column, n: int) -> list[str]:
    words, advice = set(_words(column.name)), "leave it out if it is one"
    if words & IDENTIFIERS:
        return [f"column {column.name!r} looks like an identifier by its name; {advice}"]
    wide = column.kind == "integer" and not column.private_bounds and column.bounds[1] - column.bounds[0] + 1 >= n
    if wide and words & NUMBERING:
        return [f"column {column.name!r} looks like an identifier by its name, and it can have at least as many values "
                f"as there are rows ({n}); {advice}"]
    if column.categories is not None and len(column.categories) >= max(n / 2.0, 10.0):
        return [f"column {column.name!r} has {len(column.categories)} categories for {n} rows, like an identifier; "
                f"{advice}"]
    return []


def _unusual_bounds(column: Column) -> list[str]:
    name = next((word for word in _words(column.name) if word in USUAL_RANGES), None)
    if name is None or column.kind not in ("continuous", "integer") or column.private_bounds:
        return []
    low, high = USUAL_RANGES[name]
    lower, upper = column.bounds
    covered = (min(upper, high) - max(lower, low)) / (high - low)
    said = f"column {column.name!r} has the bounds {text_of(lower)} and {text_of(upper)}"
    usual = f"the range that such a name usually has, {low:g} to {high:g}"
    if covered < (0.0 if name in MAY_BE_NARROW else LEAST_PART):
        return [f"{said}, which leave out most of {usual}: values outside are clipped"]
    if upper - lower > WIDEST * (high - low):
        return [f"{said}, much wider than {usual}: the noise in the mean grows with the width of the bounds"]
    return []
