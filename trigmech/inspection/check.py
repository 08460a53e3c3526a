"""PRIVATE. A check of a whole table before its release: every fault at once, for its holder alone."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trigmech._arrays import Array
from trigmech.errors import InputError
from trigmech.inspection.categories import CategoryLook
from trigmech.inspection.files import absent, fault, opened, places_of, ragged
from trigmech.inspection.findings import FEWEST, MEANINGS, Finding, Findings, times
from trigmech.inspection.numbers import NumberLook
from trigmech.inspection.tallies import Lines, MarkedRows, Mask
from trigmech.inspection.words import finding
from trigmech.measurement.persons import identity, is_nobody, read_by
from trigmech.measurement.rows import Progress
from trigmech.schema.column import Column
from trigmech.schema.constraints import Constraint
from trigmech.schema.encoding import ABSENT, UNKNOWN, Values, categories_of
from trigmech.schema.schema import Schema
from trigmech.schema.times import times_of
from trigmech.tables.frames import Columns, collected, column_names
from trigmech.tables.lenient import LenientFile
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import TableFile
from trigmech.tables.scalars import is_missing, numbers_of_objects, seconds_of

# Bounds that clip no number.
WIDEST = 1e300
# Values of a column in the form of `Schema.decode`, and where they cannot be judged.
Judged = tuple[Values, Mask]


def check(table: Any, schema: Schema, *, file: Mapping[str, Any] | None = None,
          progress: Progress | None = None) -> Findings:
    """Return everything in a table that a release would refuse, or that its holder should know before a release.

    Parameters
    ----------
    table : dataframe, array_like (n, d), path, TableFile or ParquetFiles, private
        As for :func:`trigmech.synthesize`.
    schema : Schema
        It may have private bounds and categories.
    file : mapping, optional
        How a file is read: options of :class:`trigmech.tables.reader.TableFile`, such as those that
        :func:`trigmech.schema.toml.load` returns.
    progress : callable, optional
        Called with the step, the rows that are read and their number.

    Returns
    -------
    Findings, private
        ``refused`` says whether a release would be refused. The counts are exact. No value of a row is in it.

    Raises
    ------
    InputError
        If the file cannot be opened at all, an option of it breaks a rule, or the table is of no known type.

    Notes
    -----
    Privacy: NONE. These are exact facts about the table, for its holder alone: do not publish or log them. Nothing is
    charged, and no ledger is touched. Hints are to be confirmed from knowledge of the subject: a bound, a category or a
    special value that is copied from the table is a leak.

    Cost: one pass over the rows in chunks, after the pass that counts them; memory does not grow with the rows. A wrong
    encoding costs two more passes.

    References
    ----------
    The frequent values are found by Misra and Gries's algorithm (:class:`trigmech.inspection.tallies.Frequent`).
    """
    look = TableLook(schema, _names_of(table, file or {}) if schema.derived else ())
    if isinstance(table, ParquetFiles):
        return _of_parquet_files(look, table, progress)
    if isinstance(table, TableFile):
        path = table.path
        if path is None:
            raise InputError("a table from a pipe can be read once: give its path, or a dataframe")
        table, file = path, {**table.options, **(file or {})}
    if isinstance(table, str | Path):
        return _of_file(look, table, file or {}, progress)
    return _of_frame(look, collected(table))


class PersonLook:
    """The counts of the column that identifies persons."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nobody, self._type = MarkedRows(), MarkedRows()
        self._few: set[Any] = set()
        self.read = False

    def add(self, table: Columns, j: int, lines: Lines) -> None:
        self.read = True
        try:
            values, codes = table.distinct(j)
            nobody = np.array([*map(is_nobody, values), True])[codes]
            self._nobody.add(nobody, lines)
            held = iter(np.unique(codes[~nobody]).tolist())
            while len(self._few) < FEWEST and (code := next(held, None)) is not None:
                self._few.add(identity(values[code]))
        except Exception:  # Those of other classes than Python's own can raise any, which may quote the value.
            self._type.add(np.ones(len(lines), dtype=np.bool_), lines)

    @property
    def persons(self) -> int:
        """How many persons there are, at most :data:`FEWEST`."""
        return len(self._few)

    def findings(self) -> list[Finding]:
        return [*finding(self._name, "type", self._type), *finding(self._name, "nobody", self._nobody)]


class Rule(NamedTuple):
    """A constraint, and the rows that break it."""

    constraint: Constraint
    broken: MarkedRows


class TableLook:
    """The counts of all columns of a table, of its constraints and persons, while its rows pass."""

    def __init__(self, schema: Schema, names: Iterable[str] = ()) -> None:
        # Derived numbers that the table has are read too, and compared with the results of their formulas.
        held = schema.completion.numbers.keys() & set(names)
        self._derived = {each.name: (MarkedRows(), each.formula) for each in schema.derived if each.name in held}
        self._declared, self.rows = schema, 0
        self.schema = schema = schema if not self._derived else Schema(
            [*schema.columns, *(Column(name, -WIDEST, WIDEST, missing="keep") for name in self._derived)],
            schema.constraints, schema.person)
        self._looks = {column.name: CategoryLook(column) if column.is_text or column.categories is not None
                       else NumberLook(column) for column in schema.columns}
        self._types: dict[str, tuple[MarkedRows, str]] = {}
        self._person = None if schema.person is None else PersonLook(schema.person)
        self._rules = [Rule(constraint, MarkedRows()) for constraint in schema.constraints]

    def add(self, table: Any, names: tuple[str, ...], bad: Mapping[str, Mapping[str, Mask]], lines: Lines) -> None:
        """Count rows of some columns, in which the cells that masks mark as bad are missing."""
        self.rows += len(lines)
        if not names:
            return
        columns, read = Columns(table, names), dict[str, Judged]()
        for j, name in enumerate(names):
            look = self._looks.get(name)
            if look is None:
                if self._person is not None:
                    self._person.add(columns, j, lines)
                continue
            column = next(each for each in self.schema.columns if each.name == name)
            try:
                read[name] = self._counted(look, column, columns, j, bad.get(name, {}), lines)
            except InputError as problem:
                self._types.setdefault(name, (MarkedRows(), str(problem)))[0].add(np.ones(len(lines), np.bool_), lines)
        self._compare(read, lines)
        for rule in self._rules:
            if all(name in read for name in rule.constraint.columns):
                values = {name: read[name][0] for name in rule.constraint.columns}
                strange = np.logical_or.reduce([read[name][1] for name in rule.constraint.columns])
                rule.broken.add(~rule.constraint.holds(values) & ~strange, lines)

    def _compare(self, read: Mapping[str, Judged], lines: Lines) -> None:
        """Count the rows whose derived column differs from its formula by more than rounding."""
        if not self._derived:
            return
        wanted = self._declared.completion.known({name: values for name, (values, _) in read.items()
                                                  if name not in self._derived})
        of_others = np.logical_or.reduce([np.zeros(len(lines), np.bool_), *(
            unread for name, (_, unread) in read.items() if name not in self._derived)])
        for name, (broken, _) in self._derived.items():
            if name in read and name in wanted:
                (given, strange), due = read[name], wanted[name]
                lacks, none_due = np.ma.getmaskarray(given), np.ma.getmaskarray(due)
                # Within one unit of the last digit that the formula's range warrants.
                step = 10.0 ** -(self._declared.completion.numbers[name] or 0) if due.dtype.kind == "f" else 0.0
                apart = np.abs(np.ma.getdata(given) - np.ma.getdata(due))
                far = apart > step + 1e-9 * (1.0 + np.abs(np.ma.getdata(due)))
                broken.add((far & ~lacks & ~none_due | (lacks != none_due)) & ~strange & ~of_others, lines)

    def _counted(self, look: CategoryLook | NumberLook, column: Column, columns: Columns, j: int,
                 bad: Mapping[str, Mask], lines: Lines) -> Judged:
        """Count a column, and return its values for constraints, masked where missing."""
        if isinstance(look, CategoryLook):
            codes = look.add(columns, j, bad, lines)
            missing, unknown = codes == ABSENT, codes == UNKNOWN
            if column.private_categories:
                return np.ma.MaskedArray(np.zeros(len(codes)), True), np.ones(len(codes), np.bool_)
            values = categories_of(column)[np.maximum(codes, 0)]
            return np.ma.MaskedArray(values, missing | unknown), _strange(column, missing) | unknown
        seconds, types = _numbers(column, columns, j)
        masks = {**bad, **({"type": types} if types is not None else {})}
        units = look.add(seconds, masks, lines)
        missing = np.isnan(units)
        unreadable = np.logical_or.reduce([*masks.values(), np.zeros(len(lines), np.bool_)])
        held: Any = np.where(missing, 0.0, units)
        if column.resolution is not None:
            held = times_of(held, column.resolution)
        return np.ma.MaskedArray(held, missing), _strange(column, missing) | unreadable

    def findings(self, of_table: Iterable[Finding], places: Any) -> Findings:
        """Return all findings, the gravest first."""
        found = [*of_table, *self._of_size()]
        if self._person is not None:
            found += self._person.findings()
        for name, look in self._looks.items():
            if name in self._derived:
                continue
            if name in self._types:
                counted, message = self._types[name]
                found.append(fault("type", counted.count, message, "convert the column to a type that suits its kind",
                                   name, counted.first))
            else:
                found += look.findings()
        found += [Finding(None, "broken", "constraint", broken.count, broken.first, (
            f"{times(broken.count, 'row')} against the constraint {rule.text}"), (
            "correct the rows or the constraint: synthetic rows keep it, so they cannot match the numbers that are "
            "measured on such rows")) for rule, broken in self._rules if broken.count]
        found += [Finding(name, "broken", "derived", broken.count, broken.first, (
            f"{times(broken.count, 'row')} in which it is not {formula}"), (
            "correct the formula, or measure the column: synthetic rows have the result of the formula"))
            for name, (broken, formula) in self._derived.items() if broken.count]
        ranks = {severity: rank for rank, severity in enumerate(MEANINGS)}
        return Findings(tuple(sorted(found, key=lambda each: ranks[each.severity])), self.rows, places)

    def _of_size(self) -> list[Finding]:
        person = self._person
        if not self.rows or (person is not None and not person.read):
            return []
        n, whose = (self.rows, "row") if person is None else (min(person.persons, self.rows), "person")
        if n >= FEWEST:
            return []
        least = "at least 2 are needed" if n < 2 else f"with fewer than {FEWEST} most of a release is noise"
        return [fault("too few", n, f"{times(n, whose)} in all; {least}", "release more rows together" + (
            "" if n < 2 else "; `trigmech release --force` releases them anyway"))]


def _names_of(table: Any, options: Mapping[str, Any]) -> Sequence[str]:
    """Return the names of a table's columns, as far as they can be read."""
    try:
        if isinstance(table, ParquetFiles):
            return table.files[0].names
        if isinstance(table, TableFile):
            return table.names
        if isinstance(table, str | Path):
            return TableFile(table, **options).names
        return column_names(collected(table)) or ()
    except InputError:
        return ()


def _strange(column: Column, missing: Mask) -> Mask:
    """Return where a missing value is refused, so that no constraint can be judged."""
    return missing & (column.missing == "refuse")


def _numbers(column: Column, columns: Columns, j: int) -> tuple[Array, Mask | None]:
    """Return a column's numbers, or times in seconds, NaN where missing; and where a value is of another type."""
    try:
        return (columns.times(j) if column.unit else columns.numbers(j)), None
    except InputError:
        values, codes = columns.distinct(j)
        read = [math.nan if is_missing(value) else seconds_of(value) if column.unit else _number(value)
                for value in values]
        found = np.array([math.nan if value is None else value for value in read] + [math.nan])[codes]
        return found, np.array([value is None for value in read] + [False])[codes]


def _number(value: Any) -> float | None:
    found = numbers_of_objects([value])
    return None if found is None else float(found[0])


def _rows_of(file: TableFile) -> int:
    try:
        return file.n
    except InputError:
        return 0


def _of_file(look: TableLook, path: str | Path, options: Mapping[str, Any], progress: Progress | None) -> Findings:
    held, found = opened(path, options, look.schema)
    if held is None:
        return look.findings(found, "line")
    places, faults = places_of(held, look.schema)
    found += [*faults, *_read(look, held, places, progress, _rows_of(held))]
    return look.findings([*found, *ragged(held)], "line" if held.is_text else "row")


def _read(look: TableLook, file: LenientFile, places: Mapping[str, int], progress: Progress | None,
          known: int) -> list[Finding]:
    """Look at the rows of a file; return the fault that ended it, if there was one."""
    done = look.rows if not file.is_text else 0
    columns = [column for column in read_by(look.schema).columns if column.name in places]
    try:
        for part in file.parts(columns, places):
            look.add(part.table, tuple(part.table.column_names), part.bad, part.lines + done)
            if progress is not None:
                progress("checking", look.rows, known)
    except InputError as problem:
        return [fault("file", 1, str(problem), "correct the file as the message says")]
    return []


def _of_parquet_files(look: TableLook, files: ParquetFiles, progress: Progress | None) -> Findings:
    found = []
    lacking: dict[str, Finding] = {}
    for file in files.files:
        held, faults = opened(str(file.path), {}, look.schema)
        if held is None:
            found += faults
            continue
        places, names = places_of(held, look.schema)
        lacking |= {str(each.column): each for each in names}
        found += [each for each in faults if "no rows" not in each.sentence]
        found += _read(look, held, places, progress, 0)
    if look.schema.person is not None and not lacking:
        try:
            files.check(read_by(look.schema), alike=True)
        except InputError as problem:
            found.append(fault("type", 1, str(problem), "write the column with the same type to all files"))
    return look.findings([*found, *lacking.values()], "row")


def _of_frame(look: TableLook, table: Any) -> Findings:
    schema, names = look.schema, column_names(table)
    wanted = read_by(schema).names
    if names is None and schema.person is not None:
        return look.findings([absent(schema.person, whose=True)], "row")
    found = [] if names is None else [absent(name, whose=name == schema.person) for name in wanted if name not in names]
    held = tuple(name for name in wanted if names is None or name in names)
    try:
        n = Columns(table, held).n
        look.add(table, held, {}, np.arange(1, n + 1))
    except InputError as problem:
        found.append(fault("table", 1, str(problem), "give the table as the message says"))
    return look.findings(found, "row")

