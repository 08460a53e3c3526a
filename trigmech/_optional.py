"""The libraries that extras of the package install, and the error for one that is missing."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from trigmech.errors import MissingLibraryError

# As in pyproject.toml, by the names that are imported.
TABLES = ("pyarrow",)
REPORT = ("jinja2", "matplotlib", "sklearn")
EXTRAS = {"tables": TABLES, "report": REPORT, "estimator": ("sklearn",), "cli": (*TABLES, *REPORT, "rich", "typer"),
          "answers": (*TABLES, "duckdb", "formulaic", "statsmodels"),
          "postgres": ("psycopg",), "dask": (*TABLES, "dask", "distributed"), "spark": (*TABLES, "pyspark")}


class Later:
    """A library that is imported when something of it is first used, because many commands never use it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found


def need(extra: str, purpose: str) -> None:
    """Raise a MissingLibraryError if a library of an extra is not installed; otherwise all can be imported.

    The message begins with the purpose that the libraries are needed for, and names them and the extra.
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingLibraryError(f"{purpose} needs {', '.join(missing)}; install trigmech[{extra}]")
