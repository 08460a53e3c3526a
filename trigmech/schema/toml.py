"""Schemas in files that people write: TOML, with a table of options for each column.

A table ``[columns."capital-gain"]`` has the options of :class:`trigmech.Column` under their names, without its name;
the order of the tables is the order of the columns. A table ``[file]`` may hold options for reading CSV files, those
of :class:`trigmech.tables.reader.TableFile`: ``delimiter``, ``decimal``, ``encoding``, ``date_format``, ``header`` and
``missing``. Dates are TOML's own or text. Above all tables may stand ``constraints = ["...", "..."]``, the rules that
every synthetic row keeps (:mod:`trigmech.schema.constraint_grammar`), and ``person = "patient_id"``, the column that
says whose each row is.
"""

import datetime
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

import narwhals as nw
import numpy as np
import tomli_w

from trigmech._files import write_whole
from trigmech.errors import InputError
from trigmech.schema.column import CATEGORIES, Column, Kind
from trigmech.schema.schema import Schema
from trigmech.tables.csv_cells import is_number, is_whole_number, seconds_of_text
from trigmech.tables.frames import Columns
from trigmech.tables.reader import TableFile
from trigmech.tables.scalars import is_missing, numbers_of_objects
from trigmech.tables.writer import USUAL, check_options, give

# How many rows a kind is guessed from.
LOOKED_AT = 100
SHOWN = 10

# What `bounds` may be, which is short for private_bounds = true.
PRIVATE = "private"
BOUND = {"lower": "smallest", "upper": "largest"}
FILL_IN = {"lower": "lower and upper: the smallest and the largest value that there can be",
           "categories": "categories: all values that there can be"}

NEW_FILE = """\
# What is public about the table: its columns, in order. Fill in whatever is empty, remove the columns that are not to
# be released, and check the file by `trigmech schema check`.
#
# Write bounds and categories from knowledge of the subject, NEVER from the table: what is read off the data is a leak
# that no later step repairs. Values outside the bounds are clipped.
#
# The names are the table's. The kinds were guessed by looking at the types of its first rows: confirm that they are
# public knowledge, or change them:
#   continuous, integer   numbers between lower and upper
#   binary                two numbers, lower and upper
#   ordinal               categories = ["low", "middle", "high"], in their order
#   categorical           categories = ["yes", "no"], in any order
#   datetime              lower = 2000-01-01 and upper = 2030-12-31, or with a time of day
# Further options of a column:
#   missing = "refuse"    what a missing value is: an error; or "centre", a value in the middle; or "keep", a value of
#                         its own, which synthetic tables have too
#   special = [0]         numbers that many records hold exactly
#   transform = "log"     or "log1p": numbers over several orders of magnitude
#   other = "else"        the category that any other value counts as
#   bounds = "private"    instead of lower and upper: a part of the budget is spent to find them
#   categories = "private"   of a categorical column: the same for those that are frequent; all others become "other"
# Rules that every synthetic row keeps, by knowledge of the subject too, stand here, above all tables:
#   constraints = ["age < 15 implies education is missing"]
# If a person can have several rows, the column that says whose each row is, which is not released, stands here too:
#   person = "patient_id"
"""


class SchemaFile(NamedTuple):
    """The content of a schema file: the schema, and the options of :class:`trigmech.tables.reader.TableFile`."""

    schema: Schema
    file: dict[str, Any]


def load(path: str | os.PathLike[str]) -> SchemaFile:
    """Return the content of a schema file.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or :func:`check` finds a fault in it; the message lists the faults.
    """
    schema, options, faults = _parts(_read(path))
    if schema is None:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise InputError(f"the schema in {str(path)!r} is not complete: {'; '.join(faults[:SHOWN])}{more}")
    return SchemaFile(schema, options)


def load_schema(path: str | os.PathLike[str]) -> Schema:
    """Return the schema of a schema file, without the options for reading the table; see :func:`load`.

    Raises
    ------
    InputError
        If the file cannot be read, or something in it breaks a rule; the message names it.
    """
    return load(path).schema


def check(path: str | os.PathLike[str]) -> list[str]:
    """Return what is missing or wrong in a schema file, each as a sentence that states what to write.

    Raises
    ------
    InputError
        If the file cannot be read, or is no TOML.
    """
    return _parts(_read(path))[2]


def init(table: Any) -> str:
    """Return the text of a schema file for a table, with bounds and categories left empty for its holder to fill in.

    Parameters
    ----------
    table : TableFile or dataframe, private
        Taken from it are the names, and guesses of the kinds from the types of a few first rows.

    Returns
    -------
    str
        Not yet a schema: :func:`check` lists what to write.

    Raises
    ------
    InputError
        If the table is of another type or has no rows, or its first row, taken for a header, holds numbers.

    Notes
    -----
    Privacy: names and kinds are part of what must be public about a table. A guess can show something of the first
    rows (a text among numbers, say), so the text states that guesses were made, and the holder is to confirm them.
    """
    names, options, first = _beginning(table)
    columns = Columns(first, names)
    dtypes = nw.from_native(first, eager_only=True).schema
    text = [NEW_FILE]
    if options:
        if not options.get("header", True):
            text.append("# Without a header columns are found by their position: keep them all, in this order, under "
                        "any names.")
        text.append(_text({"file": options}))
    if len(names) == 1 and isinstance(table, TableFile) and table.separators:
        text.append(f"# There is one column, and {table.separators}; then begin this file anew.\n")
    for j, name in enumerate(names):
        values = [value for value in columns.distinct(j)[0] if not is_missing(value)]
        kind, doubt = _guess(values, dtypes[name], USUAL | options)
        empty: dict[str, Any] = {"categories": []} if kind == "categorical" else {"lower": "", "upper": ""}
        text.append(f"# {FILL_IN[next(iter(empty))]}\n{doubt}" + _text({"columns": {name: {"kind": kind} | empty}}))
    return "\n".join(text)


def to_toml(schema: Schema, file: Mapping[str, Any] | None = None) -> str:
    """Return the text of a schema file.

    Parameters
    ----------
    schema : Schema
    file : mapping, optional
        Options of the table file: delimiter, decimal, encoding, date_format, header, missing.
    """
    check_options(file or {})
    plain = schema.to_dict()
    columns = {options.pop("name"): options for options in plain.pop("columns")}
    return _text(plain | ({"file": file} if file else {}) | {"columns": columns})


def save(path: str | os.PathLike[str], schema: Schema, file: Mapping[str, Any] | None = None) -> None:
    """Write a schema file as by :func:`to_toml`, whole or not at all; comments of a file that it replaces are lost."""
    write_whole(Path(path), to_toml(schema, file).encode())


def _text(tables: Mapping[str, Any]) -> str:
    # A tab, which tomli_w writes in texts alone, would look like spaces.
    return tomli_w.dumps(tables).replace("\t", "\\t")


# Reading


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as problem:
        raise InputError(f"cannot read {str(path)!r}: {problem.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"cannot read {str(path)!r}: its text is not UTF-8, as that of a schema file is, such as "
                         "`trigmech schema init` writes") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InputError(f"{str(path)!r} is no TOML: {problem}") from None
    except RecursionError:
        raise InputError(f"{str(path)!r} is no schema file: it is nested too deeply") from None


def _parts(plain: dict[str, Any]) -> tuple[Schema | None, dict[str, Any], list[str]]:
    """Return the schema if nothing is wrong, the options of the file, and sentences about what is."""
    faults = [f"remove {key!r}; the file has tables [columns.NAME] for the columns and may have [file]"
              for key in plain if key not in ("columns", "file", "constraints", "person")]
    file = plain.get("file", {})
    if not isinstance(file, dict):
        faults.append("write [file] as a table of options")
        file = {}
    try:
        check_options(file)
    except InputError as problem:
        faults.append(f"[file]: {problem}")
    tables = plain.get("columns", {})
    if not (isinstance(tables, dict) and tables):
        faults.append("write a table for each column, such as [columns.age]")
        tables = {}
    columns = []
    for name, options in tables.items():
        if isinstance(options, dict) and options.get("bounds") == PRIVATE:
            options = {key: value for key, value in options.items() if key != "bounds"} | {"private_bounds": True}
        lacking = _lacking(name, options)
        faults += lacking
        if lacking and isinstance(options, dict):
            # What is missing may be there by a misspelt name.
            faults += [f"column {name!r}: there is no option {option!r}; correct or remove it" for option in options
                       if option != "name" and option not in Column.__dataclass_fields__]
        if not lacking:
            try:
                columns.append(Column.from_dict({"name": name} | options))
            except InputError as problem:
                faults.append(str(problem))
    if faults:
        return None, file, faults
    constraints = plain.get("constraints", [])
    # Each by itself first, so that all faults are listed.
    alone = [[each] for each in constraints] if isinstance(constraints, list) else []
    for together in (*alone, constraints):
        try:
            schema = Schema(columns, together, plain.get("person"))
        except InputError as problem:
            faults.append(str(problem))
    return None if faults else schema, file, list(dict.fromkeys(faults))


def _lacking(name: str, options: Any) -> list[str]:
    """Return sentences about what must be written for a column before its options can be looked at."""
    if not isinstance(options, dict):
        return [f"column {name!r}: write its options as a table {_text({'columns': {name: {}}}).strip()}"]
    if "name" in options:
        return [f"column {name!r}: remove the option 'name'; the name is that of the table"]
    kind = options.get("kind", "continuous")
    if kind == "":
        return [f"column {name!r}: kind is empty; write one of {', '.join(get_args(Kind))}"]
    if kind in CATEGORIES and not options.get("private_categories", False):
        if options.get("categories", []) == []:
            return [f"column {name!r}: categories are missing; write all values that there can be, such as "
                    'categories = ["yes", "no"]']
    elif kind not in CATEGORIES and not options.get("private_bounds", False):
        examples = ("2000-01-01", "2030-12-31") if kind == "datetime" else ("0", "100")
        return [f"column {name!r}: {bound} is missing; write the {which} value that there can be by its meaning, such "
                f"as {bound} = {example}"
                for (bound, which), example in zip(BOUND.items(), examples, strict=True)
                if options.get(bound, "") == ""]
    return []


# Guessing


def _beginning(table: Any) -> tuple[tuple[str, ...], dict[str, Any], Any]:
    """Return the names of a table's columns, the options of its file, and its first rows as a dataframe."""
    if isinstance(table, TableFile):
        if table.options.get("header", True) and any(re.fullmatch(r"[+-]?\d+(\.\d*)?", name) for name in table.names):
            raise InputError("the first row of the table holds numbers; if it is no header, say so: --no-header, or "
                             "header=False")
        return table.names, table.options, table.first_rows(LOOKED_AT)
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise InputError(f"a schema is made for a TableFile or a dataframe, not for {type(table).__name__}")
    if not all(isinstance(name, str) for name in frame.columns):
        raise InputError("the names of the dataframe's columns must be strings")
    return tuple(frame.columns), {}, frame.head(LOOKED_AT).to_native()


def _guess(values: list[Any], dtype: Any, options: Mapping[str, Any]) -> tuple[Kind, str]:
    """Return a kind that suits the different values of a few rows, and a comment if it could well be another."""
    if dtype.is_integer():
        return "integer", ""
    if dtype.is_numeric():
        return "continuous", ""
    if dtype in (nw.Datetime, nw.Date):
        return "datetime", ""
    if dtype == nw.Boolean or not values:
        return "categorical", ""
    if all(isinstance(value, str) for value in values):
        return _guess_of_text(values, options)
    if all(isinstance(value, datetime.date | np.datetime64) for value in values):
        return "datetime", ""
    if not any(isinstance(value, bool) for value in values) and numbers_of_objects(values) is not None:
        return "integer" if all(isinstance(value, int) for value in values) else "continuous", ""
    return "categorical", ""


def _guess_of_text(values: list[str], options: Mapping[str, Any]) -> tuple[Kind, str]:
    date_format, decimal = options["date_format"], options["decimal"]
    dates = all(seconds_of_text(value, date_format) is not None for value in values)
    # A format that is given may be of digits alone; in ISO form digits alone are rather numbers.
    if dates and date_format is not None:
        return "datetime", ""
    if all(map(is_whole_number, values)):
        if any(re.match(r"[+-]?0\d", value.strip()) for value in values):
            return "categorical", "# Leading zeros, as codes have; numbers lose them.\n"
        return "integer", ""
    if all(is_number(value, decimal) for value in values):
        return "continuous", ""
    if dates:
        return "datetime", ""
    if decimal == "." and all(is_number(value, ",") for value in values):
        return "categorical", f"# or numbers? then begin anew and {give('decimal', ',')}\n"
    if all(re.fullmatch(r"\d{1,2}([./-])\d{1,2}\1\d{2,4}( .*)?", value) for value in values):
        return "categorical", f"# or dates? then begin anew and say their form: {give('date_format', '%d.%m.%Y')}\n"
    return "categorical", ""
