"""Questions in SQL to imputations: each aggregate with an interval. Public.

The statement that runs is written anew from the parsed question (:mod:`trigmech.inference.sql_question`). It runs in a
database in memory that cannot open files, connect to anything or load extensions.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import SAME, Array
from trigmech._html import html_lines, html_table
from trigmech._optional import need
from trigmech._validate import check_level
from trigmech.errors import InputError
from trigmech.inference.estimate import LARGE, why_untold
from trigmech.inference.imputations import Imputations, truth_of
from trigmech.inference.sql_question import ENDS, GROWING, MARK, PLACES, Question, first_line, parsed, statement_of
from trigmech.inference.sql_ranges import range_of
from trigmech.schema.schema import Schema, counted
from trigmech.tables.frames import like

MOST_GROUPS = 10_000
CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false", "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false", "allow_community_extensions": "false",
    "python_enable_replacements": "false", "max_memory": "2GB"}


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer to a question in SQL: a row for each group, an interval for each aggregate. Public.

    Parameters
    ----------
    keys : dict of str to list
        The values of each expression that rows are grouped by.
    values, low, high, untold : dict of str to ndarray
        For each aggregate: the estimate, its interval, and the share of its variance that comes from relations that
        the release did not measure. NaN where fewer than two tables have a value. An interval is NaN if more than the
        fraction 1 - level of the tables have no value.
    tables : dict of str to ndarray of int
        How many tables each estimate comes from.
    count : int
        How many tables there are.
    level : float
        The probability with which each interval holds the true value.
    covers : str
        A sentence that says whose true values the intervals hold: the private table's, or its population's.
    notes : tuple of str
        Remarks for the reader, one sentence each.
    """

    keys: dict[str, list[Any]]
    values: dict[str, Array]
    low: dict[str, Array]
    high: dict[str, Array]
    untold: dict[str, Array]
    tables: dict[str, NDArray[np.int64]]
    count: int
    level: float
    covers: str
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The columns of the answer: keys, then for each aggregate the estimate and the ends of its interval."""
        found: dict[str, list[Any]] = dict(self.keys)
        for name in self.values:
            for suffix, held in zip(("", *ENDS), (self.values, self.low, self.high), strict=True):
                found[f"{name}{suffix}"] = [None if math.isnan(each) else each for each in held[name].tolist()]
        return found

    @property
    def arrays(self) -> dict[str, Any]:
        """The columns as arrays of numbers or of texts; missing numbers are masked."""
        found: dict[str, Any] = {}
        for name, each in self.columns.items():
            absent = np.array([value is None for value in each], dtype=np.bool_)
            numbers = all(value is None or (isinstance(value, int | float) and not isinstance(value, bool))
                          for value in each)
            held = [0.0 if value is None else float(value) for value in each] if numbers else list(map(str, each))
            found[name] = np.ma.MaskedArray(np.array(held, dtype=np.float64 if numbers else object), absent)
        return found

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the columns as a dataframe of "pandas", "polars" or "pyarrow"."""
        return like(library, tuple(self.arrays), list(self.arrays.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return all of it with names, of the types that JSON has."""
        columns = self.columns
        rows = [dict(zip(columns, map(_plain, row), strict=True)) for row in zip(*columns.values(), strict=True)]
        return {"covers": self.covers, "level": self.level, "imputations": self.count, "rows": rows,
                "untold": {name: [None if math.isnan(each) else each for each in found.tolist()]
                           for name, found in self.untold.items()},
                "tables": {name: found.tolist() for name, found in self.tables.items()}, "notes": list(self.notes)}

    def __repr__(self) -> str:
        return f"Answer({', '.join(map(repr, [*self.keys, *self.values]))}; {self.level:.0%} intervals)"

    @property
    def _texts(self) -> dict[str, list[str]]:
        return {name: ["(missing)" if value is None and name in self.keys else _shown(value) for value in values]
                for name, values in self.columns.items()}

    def _repr_html_(self) -> str:
        rows = zip(*self._texts.values(), strict=True)
        return html_table("Answer", rows, tuple(self.columns)) + html_lines(self.covers, self.notes)

    def __str__(self) -> str:
        columns = self._texts
        widths = {name: max(1, *map(len, [name, *values])) for name, values in columns.items()}
        lines = ["  ".join(value.ljust(widths[name]) if name in self.keys else value.rjust(widths[name])
                           for name, value in zip(columns, row, strict=True))
                 for row in (tuple(columns), *zip(*columns.values(), strict=True))]
        return "\n".join([*lines, self.covers, *self.notes])


def ask(imputations: Imputations, query: str, level: float = 0.95) -> Answer:
    """Return the answer of imputations to a SELECT statement about the table ``release``.

    Parameters
    ----------
    imputations : Imputations
    query : str
        One SELECT statement with at least one aggregate. Every expression that it groups by must be selected.
    level : float
        The probability, between 0 and 1, with which each interval is to hold the true value.

    Raises
    ------
    InputError
        If the query is not of that form, uses anything else than the release's columns and the allowed functions, or
        cannot be computed.
    MissingLibraryError
        If DuckDB or pyarrow is not installed.

    Notes
    -----
    Counts and sums are scaled to the number of rows of the private table, or of its persons: each row of an imputed
    table stands for n / rows of them. Privacy: post-processing. Cost: the query on every table and on its halves.
    """
    need("answers", "a question in SQL")
    check_level(level)
    with _database(imputations.schema) as connection:
        question = parsed(connection.cursor(), query, imputations.schema)
        # A question that names no column counts rows.
        used = question.used or imputations.schema.names[:1]
        for i in range(len(imputations)):
            _fill(connection, i, imputations.halves(i, used), used)
        whole, parts = _results(connection, question, imputations)
        again = _rehearsed(connection, question, imputations, used)
    groups = list(dict.fromkeys(key for found in whole for key in found))
    if len(groups) > MOST_GROUPS:
        raise InputError(f"the query has more than {MOST_GROUPS:,} groups; group by something coarser, such as "
                         "age // 10")
    return _answer(imputations, question, groups, whole, parts, again, level)


def check_query(schema: Schema, query: str) -> None:
    """Raise the errors with which :func:`ask` refuses a query, before there are imputations."""
    need("answers", "a question in SQL")
    one = schema.completed(schema.decode(np.zeros((1, schema.domain.d))))
    with _database(schema) as connection:
        question = parsed(connection.cursor(), query, schema)
        _fill(connection, 0, (one, one), question.used or schema.names[:1])
        _found(connection, statement_of(connection, question, 1.0).replace(MARK, "t0"), question)


@contextmanager
def _database(schema: Schema) -> Iterator[Any]:
    """Yield a closed database in memory, without tables."""
    import duckdb

    names = schema.table_names
    if len({name.lower() for name in names}) < len(names):
        raise InputError("two columns have names that differ by capital letters alone, which SQL does not distinguish")
    connection = duckdb.connect(":memory:", config=dict(CLOSED))
    try:
        connection.execute("set threads = 1")
        connection.execute("set lock_configuration = true")
        yield connection
    finally:
        connection.close()


def _fill(connection: Any, i: int, halves: tuple[dict[str, Any], dict[str, Any]], names: Sequence[str]) -> None:
    """Add the columns with these names of the halves of a table, as tables that only this module names."""
    for half, held in enumerate(halves):
        _table(connection, f"t{i}_{half}", held, names)
    connection.execute(f"create view t{i} as select * from t{i}_0 union all select * from t{i}_1")


def _table(connection: Any, own: str, held: dict[str, Any], names: Sequence[str]) -> None:
    connection.register("arrow", like("pyarrow", tuple(names), [held[name] for name in names]))
    connection.execute(f"create table {own} as select * from arrow")
    connection.unregister("arrow")


Found = dict[tuple[Any, ...], tuple[Any, ...]]


def _results(connection: Any, question: Question, imputations: Imputations) -> tuple[list[Found], list[list[Found]]]:
    """Return the values of each group, of every table and of its halves."""
    whole, halves = list[Found](), list[list[Found]]()
    scale = imputations.n / imputations.rows
    statements = [statement_of(connection, question, factor) for factor in (scale, 2.0 * scale)]
    for i in range(len(imputations)):
        whole.append(_found(connection, statements[0].replace(MARK, f"t{i}"), question))
        halves.append([_found(connection, statements[1].replace(MARK, f"t{i}_{half}"), question) for half in (0, 1)])
    return whole, halves


def _rehearsed(connection: Any, question: Question, imputations: Imputations, names: Sequence[str]
               ) -> list[list[Found]]:
    """Return the values of each group of the tables of each rehearsal."""
    found = []
    # Another cursor, because a table cannot be registered beside an unfinished result.
    statement = statement_of(connection.cursor(), question, imputations.n / max(imputations.rehearsed.shape[2], 1))
    for k in range(len(imputations.rehearsed)):
        for place, table in enumerate(imputations.rehearsals(k, names)):
            _table(connection, f"r{k}_{place}", table, names)
        found.append([_found(connection, statement.replace(MARK, f"r{k}_{place}"), question) for place in range(3)])
    return found


def _found(connection: Any, statement: str, question: Question) -> Found:
    try:
        rows = connection.execute(statement).fetchall()
    except Exception as problem:
        texts = "; of its columns, these hold texts, which stand in single quotes: " + ", ".join(question.texts)
        why = first_line(problem).rstrip(".") + (texts if question.texts else "")
        raise InputError(f"the query cannot be computed: {why}") from None
    found: Found = {}
    for row in rows:
        # No number is equal to NaN, but this object is the key of all tables.
        key = tuple(math.nan if value != value else value
                    for value, is_key in zip(row, question.keys, strict=True) if is_key)
        values = tuple(value for value, is_key in zip(row, question.keys, strict=True) if not is_key)
        if key in found:
            raise InputError("each expression of GROUP BY must be selected as it is written there")
        found[key] = values
    return found


def _answer(imputations: Imputations, question: Question, groups: list[tuple[Any, ...]], whole: list[Found],
            halves: list[list[Found]], again: list[list[Found]], level: float) -> Answer:
    columns = {column.name.lower(): column for column in imputations.schema.columns}
    own = [(name, growing, PUBLIC if question.of_all(item) else function, range_of(item, columns, float(imputations.n)))
           for name, growing, function, item, key in zip(question.names, question.growing, question.functions,
                                                         question.items, question.keys, strict=True) if not key]
    held: dict[str, dict[str, Any]] = {part: {name: np.full(len(groups), np.nan) for name, *_ in own}
                                       for part in ("values", "low", "high", "untold")}
    tables = {name: np.zeros(len(groups), dtype=np.int64) for name, *_ in own}
    flat = set[tuple[str, str]]()
    for place, (name, growing, function, (least, most)) in enumerate(own):
        for g, group in enumerate(groups):
            values = np.array([_number(name, found.get(group), place, growing) for found in whole])
            parts = np.array([[_number(name, found.get(group), place, growing) for found in pair] for pair in halves])
            there = np.isfinite(values) & np.isfinite(parts).all(axis=1)
            tables[name][g] = there.sum()
            if there.sum() >= 2:
                rehearsed = [[_number(name, found.get(group), place, growing) for found in each] for each in again]
                estimate = imputations.combined(values[there], parts[there], level, rehearsed)
                low, high = float(estimate.low), float(estimate.high)
                if estimate.flat.all():
                    (low, high), why = _of_flat(imputations, function, float(estimate.value), level)
                    flat.add((name, why))
                for part, number in zip(held, (float(estimate.value), low, high, float(estimate.untold)), strict=True):
                    held[part][name][g] = number
                if not mostly_there(values, level):
                    held["low"][name][g] = held["high"][name][g] = math.nan
                # NaN stays NaN.
                held["low"][name][g] = np.maximum(held["low"][name][g], least)
                held["high"][name][g] = np.minimum(held["high"][name][g], most)
    kept = _sorted(question, groups, held["values"])
    names = [name for name, key in zip(question.names, question.keys, strict=True) if key]
    keys = {name: [groups[g][k] for g in kept] for k, name in enumerate(names)}
    covers = f"Each interval holds the value of {truth_of(imputations)} with probability {level:g}"
    if question.scaled:
        covers += f"; counts and sums are scaled to {imputations.n:,} {counted(imputations.schema)}"
    chosen = {part: {name: found[kept] for name, found in each.items()} for part, each in held.items()}
    made = Answer(keys, chosen["values"], chosen["low"], chosen["high"], chosen["untold"],
                  {name: found[kept] for name, found in tables.items()}, len(imputations), level, f"{covers}.")
    return replace(made, notes=(*_notes(made, question, imputations), *_of_flats(flat)))


# In place of the function of an aggregate that the number of all rows decides, which is public.
PUBLIC = "the number of rows"
FLAT = {"counted": "as rare rows may be missing from the tables, the interval reaches as far as such rows may be",
        "place": "they are quantiles that many rows share, so the interval is this value alone",
        "unknown": "there is no interval, because the tables do not tell how far the true value may be from theirs"}


def _of_flat(imputations: Imputations, function: str, value: float, level: float) -> tuple[tuple[float, float], str]:
    """Return the interval of an aggregate that is the same in all tables, and which sentence of `FLAT` says why.

    The private table can have rows that no imputed table has. A count of them has the bound of `Imputations.unseen`. A
    quantile is one of few values if many rows have the same one. If m draws of such a value agree, another draw differs
    with probability 1 / (m + 2), by Laplace's rule of succession. Else nothing is known.
    """
    everybody = float(imputations.n)
    if function in PLACES and 1.0 / (len(imputations) + 2) <= 1.0 - level + SAME:
        return (value, value), "place"
    if function == PUBLIC:
        return (value, value), ""
    unseen = everybody * imputations.unseen(level)
    if function in GROWING - {"sum"} and value == 0.0:
        return (0.0, unseen), "counted"
    if function in GROWING - {"sum"} and abs(value - everybody) <= SAME * everybody:
        return (max(everybody - unseen, 0.0), everybody), "counted"
    return (math.nan, math.nan), "unknown"


def _of_flats(flat: set[tuple[str, str]]) -> Iterator[str]:
    for why, sentence in FLAT.items():
        names = sorted(name for name, own in flat if own == why)
        if names:
            yield f"{', '.join(names)}: some values are the same in all imputed tables; {sentence}."


def mostly_there(values: Array, level: float) -> bool:
    """Return whether so many tables have a finite value (m,) that the private table surely has one.

    If not, the few rows that the fit happens to have there say nothing of the private table's.
    """
    return float((~np.isfinite(values)).mean()) <= 1.0 - level + SAME


def _number(name: str, values: tuple[Any, ...] | None, place: int, growing: bool) -> float:
    """Return a group's aggregate as a number; NaN if the group or its value is absent, but 0 for counts and sums."""
    value = None if values is None else values[place]
    if value is None:
        return 0.0 if growing else math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{name!r} is not a number, so it has no interval; cast it to a number") from None


def _sorted(question: Question, groups: list[tuple[Any, ...]], values: dict[str, Array]) -> list[int]:
    """Return the places of the groups in the order that was asked for, by default that of the keys."""
    places = list(range(len(groups)))
    of_key = np.cumsum(question.keys) - 1

    def key(place: int, g: int) -> tuple[bool, Any]:
        held = groups[g][of_key[place]] if question.keys[place] else float(values[question.names[place]][g])
        absent = held is None or held != held
        return absent, 0 if absent else held

    asked = question.order or tuple((k, False) for k, is_key in enumerate(question.keys) if is_key)
    for place, descending in reversed(asked):
        missing = [g for g in places if key(place, g)[0]]
        there = [g for g in places if not key(place, g)[0]]
        there.sort(key=lambda g, place=place: key(place, g)[1], reverse=descending)  # type: ignore[misc]
        places = there + missing
    return places[: question.limit]


def _notes(made: Answer, question: Question, imputations: Imputations) -> Iterator[str]:
    which = "some groups have" if any(question.keys) else "the answer has"
    absent = [name for name, found in made.tables.items() if (found < 2).any()]
    if absent:
        yield (f"{', '.join(absent)}: {which} no estimate, because fewer than two imputed tables have a finite value; "
               "perhaps hardly a row fits the conditions, or the query divides by 0 or takes the logarithm of 0.")
    some = {name: (found >= 2) & (found < made.count) for name, found in made.tables.items()}
    few = [name for name, there in some.items() if there.any()]
    if few:
        yield (f"{', '.join(few)}: {which} no value in some of the {made.count} imputed tables; estimates come from "
               "the other tables.")
    bare = [name for name, there in some.items() if (np.isnan(made.low[name]) & there).any()]
    if bare:
        yield (f"{', '.join(bare)}: {which} no interval, because the release does not tell whether the private table "
               "has a value there.")
    wide = [name for name, found in made.untold.items()
            if ((found > LARGE) & (made.high[name] - made.low[name] > SAME * np.abs(made.values[name]))).any()]
    uses = dict(zip(question.names, question.uses, strict=True)) if question.uses else {}
    reasons = dict[str, list[str]]()
    for name in wide:
        sources = imputations.schema.completion.sources(uses.get(name, question.used))
        reasons.setdefault(why_untold(sources, imputations.measured), []).append(name)
    for reason, names in reasons.items():
        yield f"{', '.join(names)}: some intervals are wide because {reason}."


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1e3 else (
        f"{value:,.0f}" if isinstance(value, float) else str(value))
