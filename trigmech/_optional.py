"""The libraries that extras of the package install, and the error for one that is missing."""

from importlib.util import find_spec

from trigmech.errors import MissingLibraryError

# As in pyproject.toml, by the names that are imported.
TABLES = ("pyarrow",)
REPORT = ("jinja2", "matplotlib", "sklearn")
EXTRAS = {"tables": TABLES, "report": REPORT, "estimator": ("sklearn",), "cli": (*TABLES, *REPORT, "rich", "typer"),
          "answers": (*TABLES, "duckdb", "formulaic", "statsmodels"),
          "postgres": ("psycopg",), "dask": (*TABLES, "dask", "distributed"), "spark": (*TABLES, "pyspark")}


def need(extra: str, purpose: str) -> None:
    """Raise a MissingLibraryError if a library of an extra is not installed; if none is missing, all can be imported.

    The message begins with the purpose that the libraries are needed for, and names them and the extra.
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingLibraryError(f"{purpose} needs {', '.join(missing)}; install trigmech[{extra}]")
