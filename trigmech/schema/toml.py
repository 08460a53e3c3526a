"""Schemas in files that people write: TOML, with a table of options for each column.

A table ``[columns."capital-gain"]`` has the options of :class:`trigmech.Column` under their names, without its name;
the order of the tables is the order of the columns. A table ``[file]`` may hold options for reading CSV files, those
of :class:`trigmech.tables.reader.TableFile`: ``delimiter``, ``decimal``, ``encoding``, ``date_format``, ``header`` and
``missing``. Dates are TOML's own or text. Above all tables may stand ``constraints = ["...", "..."]``, the rules that
every synthetic row keeps (:mod:`trigmech.schema.constraint_grammar`), and ``person = "patient_id"``, the column that
says whose each row is.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

import tomli_w

from trigmech._files import read_toml, write_whole
from trigmech.errors import InputError
from trigmech.schema.column import CATEGORIES, Column, Kind
from trigmech.schema.derived import OPTIONS as DERIVED
from trigmech.schema.derived import Derived
from trigmech.schema.formula import tables_read
from trigmech.schema.guessing import Beginning
from trigmech.schema.lookup import read_lookup
from trigmech.schema.schema import Schema
from trigmech.tables.reader import TableFile
from trigmech.tables.writer import check_options

SHOWN = 10

# The value of `bounds` that is short for private_bounds = true.
PRIVATE = "private"
BOUND = {"lower": "smallest", "upper": "largest"}
FILL_IN = {"lower": "lower and upper: the smallest and the largest possible value",
           "categories": "categories: all possible values"}

# Below a column of a kind, until its holder says more.
OPTIONAL = {"continuous": ["decimals = 2          # digits after the point; default: those of 1/10,000 of the range"],
            "datetime": ['resolution = "hour"   # day, hour, minute or second; default: as fine as the bounds']}

NEW_FILE = """\
# The public description of the table: its columns, in order. Fill in everything that is empty, remove the columns that
# you do not want to release, and check the file with `trigmech schema check`.
#
# Write bounds and categories from knowledge of the subject, NEVER from the table: a value that you read off the data
# is a leak, and no later step repairs it. Values outside the bounds are clipped.
#
# The names are the table's. The kinds were guessed from the types of its first rows: confirm that they are public
# knowledge, or change them:
#   continuous, integer   numbers between lower and upper
#   binary                two numbers, lower and upper
#   ordinal               categories = ["low", "middle", "high"], in their order
#   categorical           categories = ["yes", "no"], in any order
#   datetime              lower = 2000-01-01 and upper = 2030-12-31, or with a time of day
# Further options of a column:
#   missing = "refuse"    a missing value is an error; or "centre": it counts as the middle of the bounds; or "keep":
#                         it is a value of its own, and synthetic tables have missing values too
#   special = [0]         numbers that many records hold exactly
#   transform = "log"     or "log1p": for numbers over several orders of magnitude
#   decimals = 2          for a continuous column: the number of digits after the point
#   resolution = "hour"   for a datetime column: "day", "hour", "minute" or "second"; finer parts are cut off
#   other = "else"        the category for all values that are not listed
#   bounds = "private"    instead of lower and upper: a part of the budget is spent to find them
#   categories = "private"   for a categorical column: a part of the budget is spent to find the frequent categories;
#                         all other values become "other"
#   derived = "time // 100"   alone, or with decimals: the column follows from others by a rule that is public
#                         knowledge; it is computed, not measured, and costs nothing
# Write rules that every row satisfies here, above all tables, also from knowledge of the subject:
#   constraints = ["age < 15 implies education is missing"]
# If a person can have several rows, write here the column that identifies the person; it is not released:
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
        If the file cannot be read, is not TOML, or :func:`check` finds a fault in it; the message lists the faults.
    """
    schema, options, faults = _parts(_read(path), Path(path).parent)
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
    """Return a sentence for each fault in a schema file that states what to write.

    Raises
    ------
    InputError
        If the file cannot be read, or is not TOML.
    """
    return _parts(_read(path), Path(path).parent)[2]


def init(table: Any) -> str:
    """Return the text of a schema file for a table, with bounds and categories left empty for its holder to fill in.

    Parameters
    ----------
    table : TableFile or dataframe, private
        It gives the names, and guesses of the kinds from the types of a few first rows.

    Returns
    -------
    str
        Not yet a schema: :func:`check` lists the entries to fill in.

    Raises
    ------
    InputError
        If the table is of another type or has no rows, or its first row, taken for a header, holds numbers.

    Notes
    -----
    Privacy: names and kinds of columns must be public. A guess can show something of the first
    rows (a text among numbers, say), so the text states that guesses were made, and the holder is to confirm them.
    """
    first = Beginning(table)
    text = [NEW_FILE]
    if first.options:
        if not first.options.get("header", True):
            text.append("# The table has no header, so columns are found by their position: keep all of them in this "
                        "order; you can change their names.")
        text.append(_text({"file": first.options}))
    if len(first.names) == 1 and isinstance(table, TableFile) and table.separators:
        text.append(f"# There is one column, and {table.separators}; then make this file again.\n")
    for name in first.names:
        kind, doubts = first.guess(name)
        empty: dict[str, Any] = {} if not kind else {"categories": []} if kind == "categorical" else {
            "lower": "", "upper": ""}
        fill_in = [FILL_IN[next(iter(empty))]] if empty else []
        text.append("".join(f"# {line}\n" for line in (*fill_in, *doubts))
                    + _text({"columns": {name: {"kind": kind} | empty}})
                    + "".join(f"# {line}\n" for line in OPTIONAL.get(kind, ())))
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
    for options in plain.pop("derived", ()):
        columns[options.pop("name")] = {"derived": options["formula"]} | {
            option: options[option] for option in ("decimals", "tables") if option in options}
    ordered = {name: columns[name] for name in schema.table_names}
    return _text(plain | ({"file": file} if file else {}) | {"columns": ordered})


def save(path: str | os.PathLike[str], schema: Schema, file: Mapping[str, Any] | None = None) -> None:
    """Write a schema file as by :func:`to_toml`, whole or not at all; comments of a file that it replaces are lost."""
    write_whole(Path(path), to_toml(schema, file).encode())


def _text(tables: Mapping[str, Any]) -> str:
    # A tab, which tomli_w writes in texts alone, would look like spaces.
    return tomli_w.dumps(tables).replace("\t", "\\t")


# Reading


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    return read_toml(path, "a schema file as `trigmech schema init` writes it", ". Write numbers as 1000 or 1_000, "
                     "dates as 2000-01-31, texts in quotes, and each name once")


def _parts(plain: dict[str, Any], folder: Path) -> tuple[Schema | None, dict[str, Any], list[str]]:
    """Return the schema if it has no faults, the options of the file, and sentences about the faults.

    Public tables that derived columns look values up in are files of the folder.
    """
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
    columns, derived = [], list[Derived]()
    measured = [name for name, options in tables.items() if not (isinstance(options, dict) and "derived" in options)]
    for before, (name, options) in zip([None, *tables], tables.items(), strict=False):
        if name not in measured:
            # Behind the last measured column they stand in their order anyhow.
            inside = bool(measured) and list(tables).index(name) < list(tables).index(measured[-1])
            try:
                derived.append(_derived(name, options, before if inside else None, folder))
            except InputError as problem:
                faults.append(str(problem))
            continue
        if isinstance(options, dict) and options.get("bounds") == PRIVATE:
            options = {key: value for key, value in options.items() if key != "bounds"} | {"private_bounds": True}
        lacking = _lacking(name, options)
        faults += lacking
        if lacking and isinstance(options, dict):
            # An option may be missing because its name is misspelt.
            faults += [f"column {name!r}: there is no option {option!r}; correct or remove it" for option in options
                       if option != "name" and option not in Column.__dataclass_fields__]
        if not lacking:
            try:
                columns.append(Column.from_dict({"name": name} | options))
            except InputError as problem:
                faults.append(str(problem))
    if not measured and tables:
        faults.append("write a column that is not derived")
    if faults:
        return None, file, faults
    constraints = plain.get("constraints", [])
    # Each by itself first, so that all faults are listed.
    alone = [[each] for each in constraints] if isinstance(constraints, list) else []
    for together in (*alone, constraints):
        try:
            schema = Schema(columns, together, plain.get("person"), derived)
        except InputError as problem:
            faults.append(str(problem))
    return None if faults else schema, file, list(dict.fromkeys(faults))


def _derived(name: str, options: dict[str, Any], after: str | None, folder: Path) -> Derived:
    """Return a derived column of a file, with the public tables that its formula looks up."""
    strange = [option for option in options if option not in DERIVED]
    if strange:
        raise InputError(f"derived column {name!r}: remove the option {strange[0]!r}; it has only the options "
                         f"{', '.join(DERIVED)}, because it follows from other columns")
    tables = options.get("tables", {})
    if isinstance(tables, dict):
        # Given ones need no file.
        tables = {table: read_lookup(table, folder) for table in tables_read(name, options["derived"])
                  if table not in tables} | tables
    return Derived(name, options["derived"], options.get("decimals"), after, tables)


def _lacking(name: str, options: Any) -> list[str]:
    """Return a sentence for each missing entry of a column. Its other options are checked after these are written."""
    if not isinstance(options, dict):
        return [f"column {name!r}: write its options below {_text({'columns': {name: {}}}).strip()}"]
    if "name" in options:
        return [f"column {name!r}: remove the option 'name'; [columns.NAME] already gives the name"]
    kind = options.get("kind", "continuous")
    if "kind" not in options and "categories" in options:
        return [f"column {name!r} has categories, so its kind is missing; write kind = \"categorical\", or kind = "
                '"ordinal" if they are in order from the lowest to the highest']
    if kind == "":
        return [f"column {name!r}: kind is empty; write one of {', '.join(get_args(Kind))}, or remove the column"]
    if kind in CATEGORIES and not options.get("private_categories", False):
        if options.get("categories", []) == []:
            return [f"column {name!r}: categories are missing; write all possible values, such as "
                    'categories = ["yes", "no"]']
    elif kind not in CATEGORIES and not options.get("private_bounds", False):
        examples = ("2000-01-01", "2030-12-31") if kind == "datetime" else ("0", "100")
        return [f"column {name!r}: {bound} is missing; write the {which} possible value from knowledge of the subject, "
                f"such as {bound} = {example}"
                for (bound, which), example in zip(BOUND.items(), examples, strict=True)
                if options.get(bound, "") == ""]
    return []
