"""The libraries that extras of the package install, and the error for one that is missing."""

from importlib.util import find_spec

from trigmech.errors import MissingLibraryError

# As in pyproject.toml, by the names that are imported.
TABLES = ("pyarrow",)
REPORT = ("jinja2", "matplotlib", "sklearn")
EXTRAS = {"tables": TABLES, "report": REPORT, "estimator": ("sklearn",), "cli": (*TABLES, *REPORT, "rich", "typer")}


def need(extra: str, purpose: str) -> None:
    """Raise an error if a library of an extra is not installed: whoever calls this may import all of them afterwards.

    Parameters
    ----------
    extra : {"tables", "report", "estimator", "cli"}
    purpose : str
        What the libraries are needed for; the message begins with it.

    Raises
    ------
    MissingLibraryError
        If one is missing; the message names them and the extra.
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingLibraryError(f"{purpose} needs {', '.join(missing)}; install trigmech[{extra}]")
