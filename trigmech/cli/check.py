"""The command that checks a private table before its release, for its holder alone."""

from __future__ import annotations

from typing import Any

import typer

import trigmech as tm
from trigmech.cli.options import Json, SchemaFile, TableData, Written, files_given, grouped, tell
from trigmech.cli.progress import progress_bar
from trigmech.errors import InputError

PRIVATE = ("NOT PRIVATE, for you alone: this output was computed from the private table. Do not publish it, and do not "
           "log it.")


@grouped
def check(
    data: TableData,
    schema: SchemaFile,
    written: Written,
    as_json: Json = False,
) -> None:
    """List everything in a table that a release would refuse, with counts, lines and remedies. NOT PRIVATE.

    It also lists values that a release would clip, constraints that rows break, and suspicious choices of the schema.
    It does not charge a ledger. The exit status is 3 if a release would be refused.

    Example: `trigmech check data.csv --schema schema.toml`
    """
    from trigmech.schema import toml as schema_file

    loaded = schema_file.load(schema)
    with progress_bar(quiet=as_json) as progress:
        found = found_in(data, loaded, written, progress)
    typer.echo(PRIVATE, err=True)
    tell({"data": data, "schema": str(schema), **found.to_dict()}, found, as_json)
    raise typer.Exit(3 if found.refused else 0)


def found_in(data: str, loaded: Any, written: Written, progress: Any = None) -> Any:
    """Return the findings of a table in a file, or in the files of a pattern, by the content of a schema file."""
    files = files_given(data)
    found = (tm.check(files[0], loaded.schema, file=loaded.file | written.options, progress=progress)
             if len(files) == 1 else tm.check(written.table(files), loaded.schema, progress=progress))
    # Without a row that could be read, nothing was checked.
    if not found.rows and [each.kind for each in found.found] == ["file"]:
        raise InputError(found.found[0].sentence)
    return found
