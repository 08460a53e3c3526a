"""What a budget will buy, in the columns' own units, and what to think of before it is spent; from public numbers."""

import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.accounting import filtered_epsilon, gaussian_mu
from trigmech.bounds import histogram_charge, rest_of
from trigmech.budget import Budget, Charge, shown_up
from trigmech.column import Column, text_of
from trigmech.errors import BudgetError, InputError, TrigmechError, shown
from trigmech.ledger import Ledger
from trigmech.ledger_file import LedgerFile
from trigmech.moment_mechanism import MomentMechanism
from trigmech.planner import Design
from trigmech.release import MomentRelease
from trigmech.report_figures import number
from trigmech.schema import Schema
from trigmech.synthesis import BOUNDS_SHARE, Synthesis

Array = NDArray[np.float64]

# Beyond these a release protects little, or says little; a delta is recommended if noise becomes so many times smaller.
MOST_EPSILON, FEWEST_ROWS, WORTH_A_DELTA = 10.0, 50, 1.5
# A pile at a bound: in this part of the range, at least this share of the rows, this many times the noise in the mean,
# and this many times the share of the part beside it.
EDGE, PILED, NOISES, STEEP = 1.0 / 40.0, 0.1, 10.0, 3.0
TIMES = ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
# A category of the size that means within categories are told of.
TYPICAL_SHARE = 0.1
# Integers with fewer values have a share of rows at each bound as a matter of course.
MANY_INTEGERS = 80

IDENTIFIERS = {"id", "ids", "uuid", "guid", "ssn", "email", "mail", "phone", "telephone", "mobile", "fax", "iban",
               "passport", "nhs", "mrn", "address", "surname", "username", "login", "ip", "imei", "barcode"}
NUMBERING = {"number", "no", "nr", "num", "code", "key", "index", "serial", "account", "record", "row", "case",
             "customer", "patient", "person"}
# What the values of a column of such a name mostly lie between.
USUAL_RANGES = {"age": (0, 100), "bmi": (15, 45), "month": (1, 12), "weekday": (0, 7), "hour": (0, 24),
                "percent": (0, 100), "percentage": (0, 100), "latitude": (-90, 90), "longitude": (-180, 180)}
# Bounds that leave out nearly all of it, or are this many times as wide, are odd; but a table may be of one place.
LEAST_PART, WIDEST, MAY_BE_NARROW = 0.1, 5.0, ("latitude", "longitude")


@dataclass(frozen=True)
class Expected:
    """How far noise moves one thing that a release says.

    Parameters
    ----------
    column : str
        Its name; empty for what is about two columns.
    what : str
        The statistic.
    error : float or None
        Standard deviation of the noise in it; None if it is not measured.
    unit : str
        Of the error: "" is the column's own.
    note : str
        What the figure supposes.
    """

    column: str
    what: str
    error: float | None
    unit: str = ""
    note: str = ""

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.what}: not measured"
        error = f"± {number(self.error, 2)} {self.unit}".rstrip()
        return f"{self.what}: {error}" + (f"   ({self.note})" if self.note else "")


@dataclass(frozen=True, eq=False)
class Preview:
    """What :func:`preview` returns. All of it is public.

    Parameters
    ----------
    n : int
        Rows.
    budget : Budget
    columns, together : tuple of Expected
        Of single columns, and of two at once.
    design : Design
        The plan, with the errors of queries that it predicts.
    charges : tuple of Charge
        What would be charged.
    proved_epsilon : float
        Of these charges together, at the budget's delta.
    warnings : tuple of str
        Of :func:`warnings_of`.
    ledger : dict, optional
        Of the ledger file: its budget, its total now and after the release, and whether that would be accepted.
    """

    n: int
    budget: Budget
    columns: tuple[Expected, ...]
    together: tuple[Expected, ...]
    design: Design
    charges: tuple[Charge, ...]
    proved_epsilon: float
    warnings: tuple[str, ...]
    ledger: dict[str, Any] | None

    def __str__(self) -> str:
        width = max(len(each.column) for each in self.columns)
        lines = [f"{self.n:,} rows, budget {self.budget}: nothing is charged, and no cell was looked at",
                 "how far noise would move what the release says (standard deviation; twice as far in 1 case of 20):",
                 *(f"  {each.column:<{width}}  {each}" for each in self.columns),
                 *(f"  {each}" for each in self.together), str(self.design).partition("\n")[0],
                 "predicted root mean square error of queries, with numbers on a scale from -1 to 1:",
                 *(f"  {label}: {number(error, 2)}" for label, error in self.design.predicted.items()),
                 f"proved: ({shown_up(self.proved_epsilon)}, {shown_up(self.budget.delta)})-differential privacy"]
        if self.ledger is not None:
            state = "there is room for it" if self.ledger["accepted"] else "it would be REFUSED"
            lines.append(f"ledger file {self.ledger['file']}: {shown_up(self.ledger['total'])} of "
                         f"{shown_up(self.ledger['budget']['epsilon'])} is spent, "
                         f"{shown_up(self.ledger['total_after'] or math.inf)} after this release; {state}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the plan's details, of the types that JSON has."""
        return {"n": self.n, "budget": self.budget.to_dict(), "columns": [asdict(each) for each in self.columns],
                "together": [asdict(each) for each in self.together], "moments": self.design.features.K,
                "predicted": dict(self.design.predicted), "charges": [charge.to_dict() for charge in self.charges],
                "proved_epsilon": self.proved_epsilon, "delta": self.budget.delta, "ledger": self.ledger,
                "warnings": list(self.warnings)}


def preview(n: int, schema: Schema, budget: Budget, *, mechanism: MomentMechanism | None = None,
            bounds_share: float = BOUNDS_SHARE, ledger: str | Path | LedgerFile | None = None,
            delta_chosen: bool = False) -> Preview:
    """Say what a release would be worth, before anything is charged and without the table.

    Parameters
    ----------
    n : int
        Rows of the table, at least 2; public.
    schema : Schema
    budget : Budget
    mechanism : MomentMechanism, optional
        By default the one that :func:`trigmech.synthesize` takes.
    bounds_share : float
        Of the budget, between 0 and 1, for columns with private bounds.
    ledger : path or LedgerFile, optional
        The data set's ledger file; it is read only.
    delta_chosen : bool
        Whether a delta of 0 was chosen on purpose, and is not warned of.

    Returns
    -------
    Preview

    Raises
    ------
    InputError
        If n, the schema or an option breaks a rule, or the ledger file cannot be read.
    BudgetError
        If the budget is too small to plan with.

    Notes
    -----
    Privacy: public numbers only; nothing is charged or drawn. An error is the standard deviation of the noise in what
    is released; points that are made of it, and tables drawn from these, add less to it than it is, mostly. Where noise
    is so large that it would drown a moment, the points shrink it, and the error is smaller than said.
    Cost: that of a plan, some seconds at most.

    Examples
    --------
    >>> import trigmech as tm
    >>> schema = tm.Schema([tm.Column("age", 0, 120), tm.Column("income", 0, 200_000)])
    >>> expected = tm.preview(3_000, schema, tm.Budget(1.0, 1e-6))
    >>> [(each.column, each.what, round(each.error, 2)) for each in expected.columns]
    [('age', 'mean', 0.31), ('income', 'mean', 508.92)]
    """
    if isinstance(n, bool) or not (isinstance(n, int | np.integer) and n >= 2):
        raise InputError(f"n, the number of rows, must be an integer that is at least 2, not {shown(n)}")
    if not isinstance(schema, Schema):
        raise InputError(f"schema must be a Schema, not {type(schema).__name__}")
    if not isinstance(budget, Budget):
        raise BudgetError(f"budget must be a Budget, not {type(budget).__name__}")
    left, charges = budget, []
    if schema.private_bounds:
        left = rest_of(budget, bounds_share)
        charges = [histogram_charge(f"bounds, {step}", budget, bounds_share / 2.0, len(schema.private_bounds))
                   for step in ("coarse", "fine")]
    design = (mechanism or MomentMechanism()).design(int(n), schema.layout, left)
    charges += [block.charge for block in design.blocks]
    account = Ledger(budget)
    account.charge(*charges)
    noises = _alone(schema, design.features.basis.index, design.scales)
    columns = [each for column, noise in zip(schema.columns, noises, strict=True)
               for each in _of_column(column, noise)]
    return Preview(int(n), budget, tuple(columns), tuple(_together(schema, design)), design, tuple(charges),
                   account.proved_epsilon, tuple(warnings_of(int(n), schema, budget, delta_chosen)),
                   None if ledger is None else _state(ledger, charges))


def warnings_of(n: int, schema: Schema, budget: Budget, delta_chosen: bool = False) -> list[str]:
    """Return what to think of before a budget is spent, from public facts alone: one sentence each.

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
        Of an epsilon above 10, few rows, a delta that is too large or was forgotten, columns that look like
        identifiers, and bounds far from what a name suggests. Whether bounds clip depends on the table: see
        :func:`clipping_of`.
    """
    found = []
    if budget.epsilon > MOST_EPSILON:
        found.append(f"epsilon = {shown_up(budget.epsilon)} is above {MOST_EPSILON:g}: whoever knows all rows but one "
                     "may tell that one nearly for certain")
    if n < FEWEST_ROWS:
        found.append(f"{n} rows are few: below {FEWEST_ROWS} noise mostly drowns what a table says")
    if budget.delta >= 1.0 / n:
        found.append(f"delta = {shown_up(budget.delta)} is not below 1 / {n}, one over the number of rows; a release "
                     "may then show a whole record")
    if budget.delta == 0 and not delta_chosen:
        found += _forgotten_delta(n, schema.d, budget)
    for column in schema.columns:
        found += _like_an_identifier(column, n) + _unusual_bounds(column)
    return found


def clipping_of(made: Synthesis) -> list[str]:
    """Return which columns' values pile up at a bound in what was released: one sentence each.

    Parameters
    ----------
    made : Synthesis

    Notes
    -----
    Privacy: post-processing. Bounds that clip make such a pile, and so does a column that has one. Piles that noise
    alone could make are passed over.
    """
    found: list[str] = []
    if not isinstance(made.release, MomentRelease):
        return found
    points, weights, schema = made.distribution.points, made.distribution.weights, made.schema
    noise = _alone(schema, made.release.features.basis.index, made.release.scales)
    for column, place, scales in zip(schema.columns, _first_coordinates(schema), noise, strict=True):
        few = column.kind == "integer" and column.bounds[1] - column.bounds[0] < MANY_INTEGERS
        if column.kind not in ("continuous", "integer", "datetime") or few:
            continue
        for sign, side, bound in ((-1.0, "lower", column.lower), (1.0, "upper", column.upper)):
            # How far from the bound, as a part of the range.
            away = (1.0 - sign * points[:, place]) / 2.0
            edge = float(weights[away <= EDGE].sum())
            beside = float(weights[(away > EDGE) & (away <= 2.0 * EDGE)].sum())
            if edge >= max(PILED, NOISES * scales[0]) and edge >= STEEP * beside:
                found.append(f"column {column.name!r}: {100.0 * edge:.0f} % of the synthetic values lie at the {side} "
                             f"bound {text_of(bound)}; if that is not how such values are, the bound clips them")
    return found


def _forgotten_delta(n: int, d: int, budget: Budget) -> list[str]:
    """Compare the noise of all columns and pairs measured once: K means, l-infinity or Gaussian."""
    delta = 10.0 ** -math.ceil(math.log10(10.0 * n))
    try:
        gain = math.sqrt(d * (d + 1) / 6.0) * gaussian_mu(Budget(budget.epsilon, delta)) / budget.epsilon
    except BudgetError:
        return []
    return [] if gain < WORTH_A_DELTA else [
        f"no delta is given: with delta = {delta:g}, at most 1 / (10 n), the noise in the means of all columns and "
        f"pairs would be about {gain:.2g} times smaller"]


def _words(name: str) -> list[str]:
    """Return the words of a name such as patient_id or patientId, in lower case."""
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return re.findall(r"[a-z]+", apart.lower())


def _like_an_identifier(column: Column, n: int) -> list[str]:
    words, advice = set(_words(column.name)), "leave it out, unless it is none"
    if words & IDENTIFIERS:
        return [f"column {column.name!r} looks like an identifier by its name; {advice}"]
    wide = column.kind == "integer" and not column.private_bounds and column.bounds[1] - column.bounds[0] + 1 >= n
    if wide and words & NUMBERING:
        return [f"column {column.name!r} looks like an identifier by its name, with at least as many values as the "
                f"{n} rows; {advice}"]
    if column.categories is not None and len(column.categories) >= max(n / 2.0, 10.0):
        return [f"column {column.name!r} has {len(column.categories)} categories for {n} rows, as an identifier has; "
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
    usual = f"the usual range from {low:g} to {high:g} of such a name"
    if covered < (0.0 if name in MAY_BE_NARROW else LEAST_PART):
        return [f"{said}, which leave out most of {usual}: what lies outside is clipped"]
    if upper - lower > WIDEST * (high - low):
        return [f"{said}, much wider than {usual}: the noise in its mean grows with their distance"]
    return []


def _first_coordinates(schema: Schema) -> list[int]:
    return [0, *np.cumsum([len(column.coordinates) for column in schema.columns]).tolist()[:-1]]


def _alone(schema: Schema, index: NDArray[np.int64], scales: Array) -> list[Array]:
    """Return, for each column, the noise in the means of its coordinates."""
    found = np.full(schema.layout.d, math.nan)
    rows = np.flatnonzero(index.sum(axis=1) == 1)
    found[index[rows].argmax(axis=1)] = scales[rows]
    return np.split(found, _first_coordinates(schema)[1:])


def _of_column(column: Column, noise: Array) -> list[Expected]:
    numbers = [] if column.complete else [_of_number(column, float(noise[0]))]
    what = "frequency of a category" if column.complete else "share of a special or missing value"
    return numbers + [Expected(column.name, what, 100.0 * float(indicators.max()), "percentage points")
                      for indicators in [noise[len(numbers):]] if len(indicators)]


def _of_number(column: Column, noise: float) -> Expected:
    """Return what noise in the mean of a coordinate in [-1, 1] is in the column's units."""
    note = "if all rows hold an ordinary number; more if few do" if len(column.coordinates) > 1 else ""
    if column.private_bounds:
        scale = "logarithmic range" if column.transform else "range"
        return Expected(column.name, "mean", 50.0 * noise, f"% of the {scale} that is found", note)
    lower, upper = column.bounds
    half = (upper - lower) / 2.0 * noise
    if column.kind == "binary":
        return Expected(column.name, f"share of {text_of(column.upper)}", 50.0 * noise, "percentage points", note)
    if column.kind == "ordinal":
        return Expected(column.name, f"mean place among {int(upper) + 1} categories", half, "places", note)
    if column.kind == "datetime":
        seconds = half * (86_400.0 if column.unit == "D" else 1.0)
        size, unit = next((each for each in TIMES if seconds >= each[0]), TIMES[-1])
        return Expected(column.name, "mean", seconds / size, unit, note)
    if column.transform is not None:
        spread = math.log(upper / lower) if column.transform == "log" else math.log1p(upper - lower)
        of = "" if column.transform == "log" else f" of 1 + value - {text_of(lower)}"
        return Expected(column.name, f"geometric mean{of}", 100.0 * math.expm1(spread / 2.0 * noise), "%", note)
    return Expected(column.name, "mean", half, "", note)


def _together(schema: Schema, design: Design) -> Iterable[Expected]:
    """Return the noise in correlations, in contingency tables, and in means within a category."""
    layout, index, scales = schema.layout, design.features.basis.index, design.scales[: design.features.basis.K]
    numbers = np.isin(np.arange(layout.d), layout.numbers)
    of_numbers, of_indicators = (index[:, part].astype(bool).sum(axis=1) for part in (numbers, ~numbers))
    total = index.sum(axis=1)

    def worst(chosen: Any) -> float | None:
        return float(scales[chosen].max()) if chosen.any() else None

    if len(layout.numbers) > 1:
        noise = worst((of_numbers == 2) & (of_indicators == 0) & (total == 2))
        # Evenly over the bounds, a coordinate has the variance 1/3.
        yield Expected("", "correlation of two columns of numbers", None if noise is None else 3.0 * noise, "",
                       "if both spread evenly over their bounds; more if they fill less of them")
    columns = [group for group in layout.groups if group.value is None]
    if len(columns) > 1:
        noise = worst((of_numbers == 0) & (of_indicators == 2))
        pairs = len({tuple(layout.owner[row.nonzero()[0]]) for row in index[(of_numbers == 0) & (of_indicators == 2)]})
        yield Expected("", "cell of a table of two columns of categories, at worst",
                       None if noise is None else 100.0 * noise, "percentage points",
                       f"{pairs} of {math.comb(len(layout.groups), 2)} are measured, with those of missing values")
    if layout.groups and layout.numbers:
        noise = worst((of_numbers == 1) & (of_indicators == 1) & (total == 2))
        yield Expected("", "mean of a number over the rows of a category that holds a tenth of all",
                       None if noise is None else 50.0 * noise / TYPICAL_SHARE, "% of the distance of its bounds")


def _state(ledger: str | Path | LedgerFile, charges: list[Charge]) -> dict[str, Any]:
    file = ledger if isinstance(ledger, LedgerFile) else LedgerFile.open(Path(ledger))
    limit = file.budget
    counted = [entry.charge for entry in file.entries if not entry.simulated]
    after = filtered_epsilon([*counted, *charges], limit.delta, file.reserve_delta)
    try:
        file.check(charges)
        accepted = True
    except TrigmechError:
        accepted = False
    return {"file": str(file.path), "data_set": file.data_set, "budget": limit.to_dict(), "total": file.total,
            "total_after": after if math.isfinite(after) else None, "accepted": accepted}
