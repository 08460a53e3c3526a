"""NON-PRIVATE. Limits for measures, and the verdict in words that follows from them; docs/evaluate.md states them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from trigmech._files import read_toml
from trigmech.errors import InputError, shown

Light = Literal["good", "care", "poor"]
LIGHTS: tuple[Light, ...] = ("good", "care", "poor")

# A measure that is worse than its limit is good all the same if its error is at most so many times the error of the
# true rows drawn again: rows of other people of the same population would err by sqrt(2) times that, for both err.
FRESH_FACTOR = 1.5


@dataclass(frozen=True)
class LightLimits:
    """Up to where a measure is good, up to where it is to be used with care, its best value, and why."""

    good: float
    care: float
    best: float
    reason: str

    def light(self, value: float, fresh: float | None = None) -> Light:
        """Return the light of a value; ``fresh`` is the value of a fresh sample of the true rows, if it is known."""
        error = abs(value - self.best)
        if fresh is not None and error <= FRESH_FACTOR * abs(fresh - self.best):
            return "good"
        return "good" if error <= abs(self.good - self.best) + 1e-12 else (
            "care" if error <= abs(self.care - self.best) + 1e-12 else "poor")


# The name of each measure in JSON, with its limits. By Cohen (1988), "Statistical power analysis", 0.1 and 0.3 are a
# small and a medium correlation, 0.2 and 0.5 such differences of means, 0.02 and 0.13 such R².
LIMITS: dict[str, LightLimits] = {
    "columns_mean": LightLimits(0.95, 0.9, 1.0,
                                "shares of rows are off by 5 (10) percentage points at most, on average"),
    "column_worst": LightLimits(0.9, 0.8, 1.0, "no share of rows is off by more than 10 (20) percentage points"),
    "missing_worst": LightLimits(0.98, 0.95, 1.0,
                                 "no part of missing values is off by more than 2 (5) percentage points"),
    "pairs_mean": LightLimits(0.9, 0.8, 1.0,
                              "shares of rows by two columns are off by 10 (20) percentage points at most"),
    "pair_worst": LightLimits(0.8, 0.6, 1.0, "twice the limits of the mean pair"),
    "correlations_mean": LightLimits(0.05, 0.1, 0.0, "half a small correlation, and a small one (Cohen 1988)"),
    "correlation_worst": LightLimits(0.1, 0.3, 0.0, "a small and a medium correlation (Cohen 1988)"),
    "groups_mean": LightLimits(0.1, 0.2, 0.0,
                               "a negligible difference of means (Austin 2009), and a small one (Cohen 1988)"),
    "groups_worst": LightLimits(0.2, 0.5, 0.0, "a small and a medium difference of means (Cohen 1988)"),
    "regression_loss": LightLimits(0.02, 0.13, 0.0, "a small and a medium R² (Cohen 1988)"),
    "detector": LightLimits(0.7, 0.9, 0.5, "from 0.7 on a classifier is acceptable, from 0.9 on outstanding (Hosmer, "
                                     "Lemeshow and Sturdivant 2013, Applied logistic regression)"),
    "copies": LightLimits(0.01, 0.05, 0.0, "1 (5) in 100 synthetic rows more than chance makes equal to true ones"),
}
# The uses of a table: the measures that decide, and those that lower a use to care at most.
USES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "single columns": (("columns_mean", "column_worst", "missing_worst"), ()),
    "pairs of columns": (("pairs_mean", "correlations_mean"), ("pair_worst", "correlation_worst")),
    "groups of at least 100 rows": (("groups_mean",), ("groups_worst",)),
    "regressions": (("regression_loss",), ()),
    "rows that pass for true ones": (("detector",), ()),
}
SINGLE, MOST_NAMED = "single columns", 6
MORE_COPIES = ("More synthetic rows equal true rows than chance explains: find the reason, because a private "
               "release does not copy rows")


def load_limits(path: str | Path) -> dict[str, LightLimits]:
    """Return the limits of a TOML file; a measure that the file does not name keeps its limits of :data:`LIMITS`.

    Each table of the file has the name of a measure, with ``good``, ``care`` or both, such as ``[pair_worst]`` and
    ``good = 0.85``.

    Raises
    ------
    InputError
        If the file cannot be read, names something else, or ``care`` is nearer to the best value than ``good``.
    """
    return LIMITS | {name: _limit(name, own) for name, own in read_toml(path, "a file of limits").items()}


def _limit(name: str, own: Any) -> LightLimits:
    if name not in LIMITS:
        raise InputError(f"limits: there is no measure {shown(name)}; the measures are {', '.join(LIMITS)}")
    if not isinstance(own, dict) or set(own) - {"good", "care"}:
        raise InputError(f"limits: {name} must be a table with the numbers good and care")
    for key, value in own.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
            raise InputError(f"limits: {key} of {name} must be a number between 0 and 1, not {shown(value)}")
    limit = replace(LIMITS[name], reason="your own limits", **{key: float(value) for key, value in own.items()})
    if abs(limit.care - limit.best) < abs(limit.good - limit.best):
        raise InputError(f"limits: care of {name} ({limit.care:g}) must not be nearer to {limit.best:g} than good "
                         f"({limit.good:g})")
    return limit


def worst(lights: Sequence[Light]) -> Light:
    """Return the worst of some lights; good of an empty sequence."""
    return max(lights, key=LIGHTS.index, default="good")


@dataclass(frozen=True)
class QualityMeasure:
    """One measure of a release against its table; private.

    Parameters
    ----------
    name : str
        A key of :data:`LIMITS`.
    words : str
        The measured thing, in plain words.
    definition : str
        Its name in SDMetrics or in the literature.
    value : float
    fresh : float or None
        The same measure of a fresh sample of the true rows: as many as the synthetic ones, drawn with replacement. For
        copies it is the part of true rows that equal another one.
    light : {"good", "care", "poor"}
    about : str
        The column or the columns that the value is of, if it is of some.
    """

    name: str
    words: str
    definition: str
    value: float
    fresh: float | None
    light: Light
    about: str = ""


def lights_of_uses(measures: Sequence[QualityMeasure]) -> dict[str, Light]:
    """Return the light of each use, of those for which there is a measure."""
    found: dict[str, Light] = {}
    lights = {measure.name: measure.light for measure in measures}
    for use, (deciding, limiting) in USES.items():
        own = [LIGHTS.index(lights[name]) for name in deciding if name in lights]
        more = [min(LIGHTS.index(lights[name]), 1) for name in limiting if name in lights]
        if own:
            found[use] = LIGHTS[max([*own, *more])]
    return found


def verdict_of(measures: Sequence[QualityMeasure], columns: Mapping[str, Light] | None = None) -> str:
    """Return in one line the uses for which a table is good, those that need care, and those it is not fit for.

    If ``columns`` have different lights, the line names those that are not good instead of judging all by the worst.
    """
    uses = lights_of_uses(measures)
    beginnings: Mapping[Light, str] = {"good": "good for", "care": "with care for", "poor": "not for"}
    named: dict[Light, list[str]] = {light: [use for use, own in uses.items() if own == light] for light in LIGHTS}
    if columns is not None and SINGLE in uses and len(set(columns.values())) > 1:
        named[uses[SINGLE]].remove(SINGLE)
        for light in LIGHTS:
            held = [name for name, own in columns.items() if own == light]
            if held and light == "good":
                named[light].insert(0, f"{len(held)} of {len(columns)} single columns")
            elif held:
                named[light].insert(0, f"the column{'s' * (len(held) > 1)} {_named(held)}")
    parts = [f"{beginnings[light]} {english(words)}" for light, words in named.items() if words]
    text = "; ".join(parts) or "nothing could be measured"
    more = [f" {MORE_COPIES}." for measure in measures if measure.name == "copies" and measure.light == "poor"]
    return f"{text[0].upper()}{text[1:]}.{''.join(more)}"


def _named(names: Sequence[str]) -> str:
    """Return the names of columns, but no more than a line has room for."""
    more = len(names) - MOST_NAMED
    return english(names) if more <= 1 else f"{', '.join(names[:MOST_NAMED])} and {more} others"


def english(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
