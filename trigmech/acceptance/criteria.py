"""The criteria of an acceptance test, and the file that lists them. Public."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

from trigmech._files import read_toml
from trigmech._validate import check_choice, is_integer, is_number
from trigmech.errors import InputError, shown

Measure = Literal["worst one-way", "mean two-way", "ks", "correlation", "broken rules"]
# How many columns each measure names: (least, most), None for any number.
NAMED: dict[str, tuple[int, int | None]] = {"worst one-way": (0, None), "mean two-way": (0, None), "ks": (1, 1),
                                            "correlation": (2, 2), "broken rules": (0, 0)}
# Parts of a column of numbers, by default.
BINS = {"worst one-way": 10, "mean two-way": 5, "ks": 128, "correlation": 20}
MOST_BINS, MOST_CLIP, MOST_SHARE, MOST_CRITERIA = 1_024, 10.0, 1e6, 1_000
LEAST_CONFIDENCE, MOST_CONFIDENCE = 0.5, 1.0 - 1e-9


@dataclass(frozen=True)
class Criterion:
    """One question of an acceptance test: is a distance between the private table and a release below a limit?

    Parameters
    ----------
    measure : {"worst one-way", "mean two-way", "ks", "correlation", "broken rules"}
        "worst one-way": the largest total variation distance of a column. "mean two-way": the mean total variation
        distance of the tables of two columns. "ks": the Kolmogorov-Smirnov distance of one column of numbers.
        "correlation": the difference of the correlations of two columns of numbers, in size. "broken rules": the share
        of the private table's rows that break a constraint of the schema.
    limit : float
        From 0 to 1. The criterion is met if the distance is surely at most this.
    confidence : float
        From 0.5 to below 1: a distance beyond the limit is refused with at least this probability.
    columns : sequence of str
        "ks" needs one column, "correlation" two. The one-way and two-way distances are of these columns, by default of
        all. "broken rules" has no columns.
    bins : int, optional
        From 2 to 1,024. Columns of numbers are cut into at most so many parts, at quantiles of the release. Default: 10
        one-way, 5 two-way, 128 for "ks", 20 for "correlation".
    clip : float
        For "correlation": numbers count as at most so many standard deviations from their mean, both of the release.
        Above 0, at most 10.
    share : float
        The criterion's part of the budget, relative to that of the other criteria. Above 0, at most 10^6.

    Raises
    ------
    InputError
        If an argument breaks one of these rules.
    """

    measure: Measure
    limit: float
    confidence: float = 0.95
    columns: tuple[str, ...] = ()
    bins: int | None = None
    clip: float = 2.0
    share: float = 1.0

    def __post_init__(self) -> None:
        check_choice("measure", self.measure, Measure)
        _within("limit", self.limit, "from 0 to 1", lambda value: 0.0 <= value <= 1.0)
        _within("confidence", self.confidence, "at least 0.5 and below 1",
                lambda value: LEAST_CONFIDENCE <= value <= MOST_CONFIDENCE)
        _within("clip", self.clip, f"above 0 and at most {MOST_CLIP:g}", lambda value: 0.0 < value <= MOST_CLIP)
        _within("share", self.share, f"above 0 and at most {MOST_SHARE:g}", lambda value: 0.0 < value <= MOST_SHARE)
        if isinstance(self.columns, str) or not isinstance(self.columns, Sequence) or not all(
                isinstance(name, str) for name in self.columns):
            raise InputError(f"columns must be a list of names, not {shown(self.columns)}")
        object.__setattr__(self, "columns", tuple(self.columns))
        least, most = NAMED[self.measure]
        if len(set(self.columns)) < len(self.columns):
            raise InputError(f"columns must be different, not {', '.join(map(repr, self.columns))}")
        if not least <= len(self.columns) <= (len(self.columns) if most is None else most):
            wanted = {0: "no columns", 1: "the name of one column", 2: "the names of two columns"}[least]
            raise InputError(f"{self.measure!r} needs {wanted}, not {len(self.columns)}")
        if self.measure == "mean two-way" and len(self.columns) == 1:
            raise InputError("'mean two-way' needs two columns or more, not 1; to compare all pairs, leave the option "
                             "columns out")
        if self.bins is None:
            object.__setattr__(self, "bins", BINS.get(self.measure))
        elif self.measure == "broken rules":
            raise InputError("'broken rules' does not use bins")
        elif not is_integer(self.bins, 2) or self.bins > MOST_BINS:
            raise InputError(f"bins must be a whole number from 2 to {MOST_BINS:,}, not {shown(self.bins)}")

    @property
    def words(self) -> str:
        """The criterion as a phrase."""
        named = ", ".join(map(repr, self.columns))
        return {"worst one-way": f"worst one-way distance of {named or 'all columns'}",
                "mean two-way": f"mean two-way distance of {named or 'all columns'}",
                "ks": f"Kolmogorov-Smirnov distance of {named}",
                "correlation": f"difference of the correlation of {' and '.join(map(repr, self.columns))}",
                "broken rules": "share of rows that break a constraint"}[self.measure]


def load_criteria(path: str | os.PathLike[str]) -> tuple[Criterion, ...]:
    """Return the criteria of a TOML file: a table ``[[criteria]]`` for each, with the options of :class:`Criterion`.

    Raises
    ------
    InputError
        If the file cannot be read, is not TOML, or something in it breaks a rule; the message names it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "criteria.toml"
    ...     _ = path.write_text('[[criteria]]\\nmeasure = "worst one-way"\\nlimit = 0.1\\n')
    ...     load_criteria(path)[0].bins
    10
    """
    name, plain = repr(str(path)), read_toml(path, "a file of criteria")
    strange = next((key for key in plain if key != "criteria"), None)
    if strange is not None:
        raise InputError(f"{name}: remove {strange!r}; the file has one table [[criteria]] for each criterion, and "
                         "nothing else")
    listed = plain.get("criteria")
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{name} does not have criteria; write a table [[criteria]] with measure and limit for each")
    return checked([_of_file(f"{name}, criterion {k}", each) for k, each in enumerate(listed, 1)])


def checked(criteria: Any) -> tuple[Criterion, ...]:
    """Return criteria, at least one and all different, or raise an InputError."""
    if isinstance(criteria, str) or not isinstance(criteria, Sequence) or not criteria or not all(
            isinstance(each, Criterion) for each in criteria):
        raise InputError("criteria must be a list of at least one trigmech.Criterion, or the path of a file, not "
                         f"{shown(criteria)}")
    if len(criteria) > MOST_CRITERIA:
        raise InputError(f"criteria must be at most {MOST_CRITERIA:,}, not {len(criteria):,}")
    for k, each in enumerate(criteria):
        twin = next((i for i, other in enumerate(criteria[:k], 1) if _question(other) == _question(each)), None)
        if twin is not None:
            raise InputError(f"criteria {twin} and {k + 1} ask the same, the {each.words}; remove one of them")
    return tuple(criteria)


def _question(criterion: Criterion) -> tuple[Any, ...]:
    """Return a criterion without its limit and its part of the budget: two that are equal would be paid twice."""
    return criterion.measure, frozenset(criterion.columns), criterion.bins, criterion.clip


def _of_file(where: str, options: Any) -> Criterion:
    if not isinstance(options, Mapping):
        raise InputError(f"{where} must be a table with measure and limit")
    known = [each.name for each in fields(Criterion)]
    strange = next((key for key in options if key not in known), None)
    if strange is not None:
        raise InputError(f"{where}: there is no option {strange!r}; the options are {', '.join(known)}")
    absent = next((key for key in ("measure", "limit") if key not in options), None)
    if absent is not None:
        raise InputError(f"{where}: {absent} is missing" + (
            f"; it is one of {', '.join(map(repr, get_args(Measure)))}" if absent == "measure" else ""))
    try:
        return Criterion(**options)
    except InputError as problem:
        raise InputError(f"{where}: {problem}") from None


def _within(name: str, value: Any, rule: str, fits: Any) -> None:
    if not (is_number(value) and fits(value)):
        raise InputError(f"{name} must be a number {rule}, not {shown(value)}")
