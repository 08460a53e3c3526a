"""Facts about a saved release that need neither its numbers nor the mechanism that made them."""

import os
from typing import Any

from trigmech.errors import InputError
from trigmech.schema.schema import Schema
from trigmech.storage import archive


def facts_of(path: str | os.PathLike[str]) -> tuple[Schema, int]:
    """Return the schema and the number of rows of the private table, of a saved release.

    Raises an InputError if the file cannot be read, is damaged, or is not a release of this kind.

    Privacy: public. Nothing in the file is executed. The rest of the file is only compared with its checksums.
    """
    content, _ = archive.read(path)
    released: Any = content.get("release")
    n = released.get("n") if isinstance(released, dict) else None
    if type(n) is not int or "schema" not in content:
        raise InputError(f"{os.fspath(path)!r} is not a release with a number of rows and a schema")
    return Schema.from_dict(content["schema"]), n
