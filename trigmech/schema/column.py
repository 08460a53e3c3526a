"""The public description of one column: its name, kind, bounds or categories, and how its values are encoded."""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Real
from typing import Any, Literal, cast, get_args

from trigmech.errors import InputError, shown
from trigmech.schema import times
from trigmech.schema.times import Resolution, Unit, is_date, number_of, with_resolution
from trigmech.schema.values import float_of, is_unicode, listed, plain_category, plain_number, text_of

Kind = Literal["continuous", "integer", "binary", "ordinal", "categorical", "datetime"]
Missing = Literal["refuse", "centre", "keep"]
Transform = Literal["log", "log1p"]
Category = str | int | float | bool

# The kinds that an option makes sense for.
CATEGORIES = ("ordinal", "categorical")
SPECIAL = ("continuous", "integer", "datetime")
TRANSFORM = PRIVATE_BOUNDS = ("continuous", "integer")

LARGEST_INT = 2**63
# Python writes no integer of some thousand digits.
LARGEST_CATEGORY = 10**1000
MOST_DECIMALS, LARGEST_EXACT = 12, 2.0**52


@dataclass(frozen=True)
class Column:
    """One column: its name, kind, and public bounds or categories. All of it is public.

    Bounds, categories and special values must come from knowledge of the subject, never from the table: no later step
    repairs the leak of a value that was read off the data.

    Parameters
    ----------
    name : str
        Not empty.
    lower, upper : float, or datetime.datetime, datetime.date or ISO text for kind "datetime", optional
        Public bounds, finite, lower < upper; values outside are clipped. Columns with categories have no bounds.
    kind : {"continuous", "integer", "binary", "ordinal", "categorical", "datetime"}
        Synthetic values of an integer column are rounded to integers, those of a binary column to the nearer bound. An
        ordinal column has ordered categories, which become equally spaced numbers of one coordinate; a categorical
        column has one indicator coordinate for each category. A datetime column returns whole units of its resolution
        without a time zone: values with a zone are converted to UTC.
    categories : sequence of str, or of int, or of bool, or (ordinal only) of float, or "private", optional
        At least two, distinct; an ordinal column's in their order. White space around text, also Unicode's, is ignored
        here and in the tables that are read, and kept in synthetic values. "private" sets ``private_categories``.
    missing : {"refuse", "centre", "keep"}
        A missing value is an error; or the centre 0 of the cube (not for kind "categorical"), never restored; or an
        indicator coordinate of its own, which is decoded as missing. If no value of the column is in the middle of its
        range, as with kind "binary", tables count a missing one as the nearest value, or the upper one of two.
    special : sequence of float (or of dates), optional
        Values of a continuous, integer or datetime column that many records share exactly, such as capital gains of 0;
        they may lie outside the bounds. Each has an indicator coordinate; where that is 1, the number is 0.
    transform : {"log", "log1p"}, optional
        Continuous and integer columns only: log(x), with lower > 0, or log(1 + x - lower) is mapped affinely.
    decimals : int, optional
        Continuous columns with public bounds only: the number of digits after the point, 0 to 12, such as 2 for prices;
        synthetic values are rounded to it. By default they have as many digits as 1/10,000 of the range (see
        :mod:`trigmech.schema.rounding`), except values that many rows share; from -1 to 1 they are not rounded.
    resolution : {"day", "hour", "minute", "second"}, optional
        Datetime columns only: how fine values are. Finer parts are cut off, so 9:59 is the hour 9:00. The default
        follows from the bounds: a day for dates; for times an hour if both are whole hours at least a day apart, a
        minute if they are whole minutes at least an hour apart, and otherwise a second, also if both are midnight. If
        it is finer than a day and both bounds are dates, ``upper`` is the end of its day.
    other : one of the categories, optional
        The category of any other value, which is otherwise an error. For private categories, any text ("other").
    private_bounds : bool
        Continuous and integer columns only: a private step will find the bounds, and
        :meth:`trigmech.Schema.with_bounds` completes them; ``lower`` and ``upper`` are left out.
    private_categories : bool
        Categorical columns only: the same for frequent categories; see :meth:`trigmech.Schema.with_categories`.

    Raises
    ------
    InputError
        If a rule above is broken.
    """

    name: str
    lower: Any = None
    upper: Any = None
    kind: Kind = "continuous"
    categories: tuple[Category, ...] | Literal["private"] | None = field(default=None, kw_only=True)
    missing: Missing = field(default="refuse", kw_only=True)
    special: tuple[Any, ...] = field(default=(), kw_only=True)
    transform: Transform | None = field(default=None, kw_only=True)
    decimals: int | None = field(default=None, kw_only=True)
    resolution: Resolution | None = field(default=None, kw_only=True)
    other: Category | None = field(default=None, kw_only=True)
    private_bounds: bool = field(default=False, kw_only=True)
    private_categories: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name and is_unicode(self.name)):
            raise InputError(f"a column's name must be a non-empty string, not {shown(self.name)}")
        for option, known in (("kind", Kind), ("missing", Missing), ("transform", Transform),
                              ("resolution", Resolution)):
            value, may_be_absent = getattr(self, option), option in ("transform", "resolution")
            if value not in get_args(known) and not (may_be_absent and value is None):
                raise self._error(f"{option} must be one of {', '.join(get_args(known))}, not {shown(value)}")
        if self.missing == "centre" and self.kind == "categorical":
            raise self._error("categories have no centre; missing must be 'refuse' or 'keep'")
        for option in ("private_bounds", "private_categories"):
            if not isinstance(getattr(self, option), bool):
                raise self._error(f"{option} must be True or False, not {shown(getattr(self, option))}")
        if isinstance(self.categories, str) and self.categories == "private":
            self._set("categories", None)
            self._set("private_categories", True)
        self._set("special", self._sequence("special", self.special))
        for option, given, kinds in (("categories", self.categories is not None, CATEGORIES),
                                     ("other", self.other is not None, CATEGORIES),
                                     ("special", bool(self.special), SPECIAL),
                                     ("transform", self.transform is not None, TRANSFORM),
                                     ("decimals", self.decimals is not None, ("continuous",)),
                                     ("resolution", self.resolution is not None, ("datetime",)),
                                     ("private_bounds", self.private_bounds, PRIVATE_BOUNDS),
                                     ("private_categories", self.private_categories, ("categorical",))):
            if given and self.kind not in kinds:
                usual = ", which a column is unless you name its kind" if self.kind == "continuous" else ""
                named = f"kind{'s' * (len(kinds) > 1)} {' and '.join(kinds)}"
                raise self._error(f"{option} is for the {named}, not for {self.kind}{usual}")
        if self.decimals is not None and not (type(self.decimals) is int and 0 <= self.decimals <= MOST_DECIMALS):
            raise self._error(f"decimals must be an integer from 0 to {MOST_DECIMALS}, not {shown(self.decimals)}")
        if self.decimals is not None and self.private_bounds:
            raise self._error("a column with private bounds cannot have decimals")
        if self.kind in CATEGORIES or self.private_bounds:
            if self.lower is not None or self.upper is not None:
                reason = "private bounds" if self.private_bounds else "categories"
                raise self._error(f"a column with {reason} must not have lower and upper")
        elif self.kind == "datetime":
            self._check_dates()
        else:
            self._check_numbers()
        self._check_special()
        if self.private_categories:
            self._check_private_categories()
        elif self.kind in CATEGORIES:
            self._check_categories()

    def __repr__(self) -> str:
        options = {option.name: getattr(self, option.name) for option in fields(self)[1:]
                   if getattr(self, option.name) != option.default}
        bounds = (self.lower, self.upper) if "lower" in options else ()
        shown_first = [repr(self.name), *(repr(plain_number(bound)) for bound in bounds),
                       *([repr(self.kind)] if "lower" in options and "kind" in options else ())]
        named = [f"{option}={value!r}" for option, value in options.items()
                 if not ("lower" in options and option in ("lower", "upper", "kind"))]
        return f"Column({', '.join([*shown_first, *named])})"

    def _error(self, rule: str) -> InputError:
        return InputError(f"column {self.name!r}: {rule}")

    def _set(self, option: str, value: Any) -> None:
        object.__setattr__(self, option, value)

    def _sequence(self, option: str, values: Any) -> tuple[Any, ...]:
        if isinstance(values, str | bytes | Mapping | set | frozenset) or not isinstance(values, Iterable):
            raise self._error(f"{option} must be a list, not {type(values).__name__}")
        return tuple(values)

    def _check_numbers(self) -> None:
        if not (isinstance(self.lower, Real) and isinstance(self.upper, Real)):
            raise self._error(f"bounds must be numbers, not {shown(self.lower)} and {shown(self.upper)}")
        lower, upper = float_of(self.lower), float_of(self.upper)
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            alone = "; leave out a column that has the same value for everybody" if lower == upper else ""
            raise self._error(f"bounds must be finite with lower < upper; given lower={lower} and upper={upper}{alone}")
        if not sys.float_info.min <= upper - lower < math.inf:
            raise self._error(f"the range from {lower} to {upper} is too wide or too narrow for a float")
        if self.kind == "integer" and math.ceil(lower) > math.floor(upper):
            raise self._error(f"no integer lies between lower={lower} and upper={upper}")
        if self.decimals is not None:
            first, last = self.in_steps(lower), self.in_steps(upper)
            if max(abs(first), abs(last)) > LARGEST_EXACT:
                raise self._error(f"floats are not exact enough for {self.decimals} decimals between lower={lower} and "
                                  f"upper={upper}")
            if math.ceil(first) > math.floor(last):
                raise self._error(f"no number with {self.decimals} decimals lies between lower={lower} and "
                                  f"upper={upper}")
        if self.transform == "log" and not (lower > 0.0 and math.log(upper) > math.log(lower)):
            other = "; 'log1p', the logarithm of 1 + x, takes them" if -1.0 <= lower <= 0.0 < upper else ""
            raise self._error(f"transform 'log' needs bounds above 0 whose logarithms differ; given lower={lower} and "
                              f"upper={upper}{other}")
        self._set("lower", lower)
        self._set("upper", upper)

    def _check_dates(self) -> None:
        lower, upper = self.date("lower", self.lower), self.date("upper", self.upper)
        for option, value in zip(("lower", "upper", "resolution"), with_resolution(
                lower, upper, self.resolution, self.special), strict=True):
            self._set(option, value)
        first, last = self.bounds
        if not math.ceil(first) < math.floor(last):
            raise self._error(f"lower must be at least {'an' if self.unit == 'h' else 'a'} {self.resolution} before "
                              f"upper; given lower={lower} and upper={upper}")

    def _check_special(self) -> None:
        if self.kind == "datetime":
            values = tuple(self.date("special", value) for value in self.special)
            if not all(is_date(value) == (self.unit == "D") for value in values):
                raise self._error("special values must be dates if the resolution is a day, and times otherwise")
            if self.unit in ("h", "m") and not all(self.number(value).is_integer() for value in values):
                raise self._error(f"special values must be whole {self.resolution}s, because that is the resolution")
        else:
            if not all(isinstance(value, Real) and math.isfinite(float_of(value)) for value in self.special):
                raise self._error(f"special values must be finite numbers, not {listed(self.special)}")
            values = tuple(float_of(value) for value in self.special)
            if self.kind == "integer" and not all(value.is_integer() for value in values):
                raise self._error(f"special values of an integer column must be integers, not {listed(self.special)}")
        if len(set(values)) < len(values):
            raise self._error(f"special values must be distinct, not {listed(self.special)}")
        self._set("special", values)

    def _check_private_categories(self) -> None:
        if self.categories is not None:
            raise self._error("a column with private categories must not list categories")
        other = "other" if self.other is None else plain_category(self.other)
        if not (isinstance(other, str) and is_unicode(other)):
            raise self._error(f"other must be text if the categories are private, not {shown(self.other)}")
        self._set("other", other)

    def _check_categories(self) -> None:
        values = () if self.categories is None else tuple(map(plain_category, self._sequence(
            "categories", self.categories)))
        if len(values) < 2:
            alone = "; leave out a column that has the same value for everybody" if values else ""
            raise self._error(f"kind {self.kind!r} needs at least two categories; given {len(values)}{alone}")
        types = {type(value) for value in values}
        if not (types in ({str}, {int}, {bool}) or (self.kind == "ordinal" and types <= {int, float}
                                                    and all(map(math.isfinite, cast(tuple[float, ...], values))))):
            more = ", or all finite numbers" if self.kind == "ordinal" else ""
            raise self._error(f"categories must be all strings, all integers or all booleans{more}")
        if any(isinstance(value, int) and abs(value) >= LARGEST_CATEGORY for value in values):
            raise self._error("categories must be numbers of at most 1000 digits")
        if types == {str} and not all(map(is_unicode, cast(tuple[str, ...], values))):
            raise self._error("categories must be valid Unicode")
        counts = Counter(value.strip() if isinstance(value, str) else value for value in values)
        twice = [value for value, count in counts.items() if count > 1]
        if twice:
            raise self._error(f"categories must be distinct; given twice: {', '.join(map(repr, twice[:10]))} (white "
                              "space around them does not count)")
        self._set("categories", values)
        if self.other is not None:
            other = plain_category(self.other)
            if type(other) not in types or other not in values:
                raise self._error(f"other must be one of the categories, not {shown(self.other)}")
            self._set("other", other)

    def date(self, option: str, value: Any) -> Any:
        """Return a date, or a time without a zone, from a user's value."""
        found = times.read(value)
        if found is None:
            form = "in ISO form " if isinstance(value, str) else ""
            raise self._error(f"{option} must be a date or time {form}such as 2020-12-31, not {shown(value)}")
        return found

    # Properties that follow from the options

    @property
    def unit(self) -> Unit | None:
        """The unit of a datetime column's numbers, which count from 1970 on: NumPy's name of the resolution."""
        return None if self.resolution is None else times.UNITS[self.resolution][0]

    @property
    def seconds(self) -> int:
        """How many seconds the unit of a datetime column's numbers has; 1 for other kinds."""
        return 1 if self.resolution is None else times.UNITS[self.resolution][1]

    @property
    def bounds(self) -> tuple[float, float]:
        """The numbers between which the column's one coordinate lies, before any transform."""
        if self.private_bounds:
            raise self._error("its bounds are private and not found yet; complete the schema with Schema.with_bounds")
        if self.categories is not None:
            return 0.0, len(self.categories) - 1.0
        return self.number(self.lower), self.number(self.upper)

    def number(self, value: Any) -> float:
        """Return a bound or special value as the number that it is: itself, or units of the resolution since 1970."""
        return float(value) if self.resolution is None else number_of(value, self.resolution)

    @property
    def steps(self) -> int:
        """How many steps of the column's numbers lie between two whole numbers, if it has steps."""
        return 10 ** (self.decimals or 0)

    def in_steps(self, value: float) -> float:
        """Return a number in steps: a whole number if it is the float nearest to one of the column's."""
        scaled = value * self.steps
        whole = round(scaled) if abs(scaled) < LARGEST_EXACT else scaled
        return float(whole) if whole / self.steps == value else scaled

    @property
    def complete(self) -> bool:
        """Whether the column has only indicators, one of which is 1."""
        return self.kind == "categorical"

    @cached_property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the column's coordinates: its number, if it has one, and its indicators."""
        marked = (cast(tuple[Any, ...], self.categories or self.none_found) if self.complete else self.special)
        indicators = tuple(f"{self.name}={text_of(value)}" for value in marked)
        kept = (f"{self.name} is missing",) if self.missing == "keep" else ()
        return (*(() if self.complete else (self.name,)), *indicators, *kept)

    @property
    def none_found(self) -> tuple[Category, ...]:
        """The two categories of a column with private ones if no frequent one is found; no row has the second."""
        return (cast(str, self.other), f"not {self.other}")

    @property
    def is_text(self) -> bool:
        """Whether the column's values are strings."""
        return self.private_categories or (self.categories is not None and isinstance(self.categories[0], str))

    @property
    def fits_int64(self) -> bool:
        """Whether every value of an integer or binary column is a 64-bit integer."""
        ends = [*self.bounds, *self.special]
        return ((self.kind == "integer" or all(end.is_integer() for end in ends))
                and all(-LARGEST_INT <= end < LARGEST_INT for end in ends))

    # Plain data

    def to_dict(self) -> dict[str, Any]:
        """Return the column as text, numbers, booleans and lists, without default options; dates are ISO text."""
        plain: dict[str, Any] = {"name": self.name, "kind": self.kind}
        for option in ("lower", "upper"):
            if getattr(self, option) is not None:
                plain[option] = plain_number(getattr(self, option))
        if self.categories is not None:
            plain["categories"] = list(self.categories)
        elif self.private_categories:
            plain["categories"] = "private"
        if self.special:
            plain["special"] = [plain_number(value) for value in self.special]
        for option, default in (("missing", "refuse"), ("transform", None), ("decimals", None),
                                ("resolution", None), ("other", None), ("private_bounds", False)):
            if getattr(self, option) != default or type(getattr(self, option)) is not type(default):
                plain[option] = getattr(self, option)
        return plain

    @classmethod
    def from_dict(cls, plain: Any) -> "Column":
        """Return the column of :meth:`to_dict`, or raise an InputError if an option is unknown or breaks a rule."""
        if not isinstance(plain, Mapping):
            raise InputError(f"a column must be a table of options, not {type(plain).__name__}")
        if "name" not in plain:
            raise InputError("a column needs a name")
        options = [option.name for option in fields(cls)]
        strange = [key for key in plain if key not in options]
        if strange:
            raise InputError(f"column {plain['name']!r}: there is no option {strange[0]!r}; the options are "
                             f"{', '.join(options[1:])}")
        for option in ("special",) if plain.get("categories") == "private" else ("categories", "special"):
            if option in plain and not isinstance(plain[option], list | tuple):
                raise InputError(f"column {plain['name']!r}: {option} must be a list, not {shown(plain[option])}")
        for option in ("lower", "upper", "special"):
            given = plain.get(option)
            if any(isinstance(value, bool) for value in (given if isinstance(given, list | tuple) else [given])):
                raise InputError(f"column {plain['name']!r}: {option} must be a number or a date, not {shown(given)}")
        return cls(**plain)
