"""Facts of a saved release that do not need its numbers, and therefore not its mechanism."""

import os
from typing import Any

from trigmech.errors import InputError
from trigmech.schema.schema import Schema
from trigmech.storage import archive


def facts_of(path: str | os.PathLike[str]) -> tuple[Schema, int]:
    """Return the schema and the number of rows of the private table, of a saved release.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged, or is not a release of this kind.

    Notes
    -----
    Privacy: public. Nothing that the file holds is executed. Of the rest of the file only the checksums are looked at.
    """
    content, _ = archive.read(path)
    released: Any = content.get("release")
    n = released.get("n") if isinstance(released, dict) else None
    if type(n) is not int or "schema" not in content:
        raise InputError(f"{os.fspath(path)!r} is not a release with a number of rows and a schema")
    return Schema.from_dict(content["schema"]), n
