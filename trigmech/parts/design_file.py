"""Design files, for the parties that measure parts: public JSON, which is never executed.

A file has the facts that determine the design: schema, number of persons, budget, mechanism with its options; and,
after the first round, the released numbers. Each reader makes the design anew, with the same version of the package.
"""

import json
from pathlib import Path
from typing import Any

from trigmech._files import reading, write_whole
from trigmech._validate import fields
from trigmech.errors import InputError
from trigmech.mechanisms.base import Design, History
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger_lock import version
from trigmech.schema.schema import Schema
from trigmech.storage import mechanism_file
from trigmech.storage.rounds_file import array_in, fingerprint
from trigmech.synthesis import design as design_of

FORMAT = "trigmech design 1"
LARGEST_FILE = 2**28


def save(path: str | Path, design: Design) -> None:
    """Write a design to a file, whole or not at all.

    Raises an InputError if its mechanism is not one of the package's, or the file cannot be written.
    """
    history = design.history
    content = {"format": FORMAT, "version": version(), "n": design.n, "schema": design.schema_given.to_dict(),
               "budget": design.budget.to_dict(), "bounds_share": design.bounds_share,
               "mechanism": mechanism_file.plain(design.mechanism), "design": _fingerprint(design), "history": None}
    if history is not None:
        content["history"] = {"run": history.run, "seed": f"{history.seed:032x}", "round": history.round, "draws": [
            {"charge": charge.to_dict(), "shape": list(released.shape), "released": released.ravel().tolist()}
            for charge, released in history.draws]}
    write_whole(Path(path), json.dumps(content, allow_nan=False, indent=1).encode() + b"\n")


def load(path: str | Path) -> Design:
    """Return the design of a file.

    Raises an InputError if it is no such file, of another version, or its entries do not fit together.
    """
    path = Path(path)
    with reading(path, "it is not a design file, or is damaged", ValueError, RecursionError):
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE)
        return _design(json.loads(text.decode("utf-8")))


def _design(content: Any) -> Design:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(f"it is not a design file: its format is not {FORMAT!r}")
    if content.get("version") != version():
        raise InputError("it was made by another version of trigmech; all parties must use the same version")
    values = fields(content, "the design", {
        "format": str, "version": str, "n": (int, 2), "schema": object, "budget": object, "bounds_share": float,
        "mechanism": object, "design": str, "history": object})
    mechanism = mechanism_file.made(values["mechanism"], "the mechanism")
    made = design_of(values["n"], Schema.from_dict(values["schema"]), Budget.from_dict(values["budget"], "the budget"),
                     mechanism, bounds_share=values["bounds_share"])
    if _fingerprint(made) != values["design"]:
        raise InputError("its options give a different design on this machine")
    return made if values["history"] is None else made.after(_history(values["history"]))


def _history(plain: Any) -> History:
    values = fields(plain, "the history", {"run": str, "seed": str, "round": (int, 0), "draws": list})
    draws = []
    for k, draw in enumerate(values["draws"], 1):
        where = f"draw {k}"
        found = fields(draw, where, {"charge": object, "shape": list, "released": list})
        draws.append((Charge.from_dict(found["charge"], f"{where}: charge"),
                      array_in(where, found["shape"], found["released"])))
    return History(values["run"], int(values["seed"], 16), values["round"], tuple(draws))


def _fingerprint(design: Design) -> str:
    return fingerprint(design.measured, design.all_charges)
