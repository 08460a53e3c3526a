"""Tables of a report, and its statement of privacy, from the ledger alone."""

import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from trigmech.privacy.budget import shown_up
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_lock import version
from trigmech.report.figures import number

Row = tuple[Any, ...]
# The heads of some columns of a table, and the columns.
Side = tuple[Sequence[str], Sequence[Sequence[Any]]]

FALSE_ALARMS = 0.05
LIBRARIES = ("trigmech", "numpy", "scipy", "opendp", "dp-accounting", "matplotlib")
LAWS = {"laplace": "Laplace", "gaussian": "Gaussian", "linf": "l∞ (linf)",
        "exponential": "a choice by exponential noise"}


@dataclass(frozen=True)
class Table:
    """A table of a page; numbers become text: counts in full, others by :func:`number`.

    ``numeric`` says which columns hold numbers, by default all but the first; ``links`` are the places on the page that
    the rows' first cells point to; ``lights`` are columns whose cells are good, care or poor.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    numeric: Sequence[int] | None = None
    links: Sequence[str] = ()
    lights: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", [[_cell(value) for value in row] for row in self.rows])
        if self.numeric is None:
            object.__setattr__(self, "numeric", range(1, len(self.head)))


def table_of_lights(caption: str, first: str, names: Sequence[str], sides: Iterable[Side],
                    links: Sequence[str] = ()) -> Table:
    """Return a table whose rows have a name, and of each side several columns, of which the first has the lights."""
    head, columns, lights = [first], list[Sequence[Any]]([names]), list[int]()
    for heads, entries in sides:
        lights.append(len(head))
        head += heads
        columns += entries
    return Table(caption, head, list(zip(*columns, strict=True)),
                 [at for at in range(1, len(head)) if at not in lights], links, lights)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, Integral) else number(value)


NO_TABLE = Table("", (), ())


def guarantee(ledger: Ledger, n: int, person: str | None = None) -> dict[str, Any]:
    """Return the facts that the page shows about the proof and its meaning for one person.

    ``person`` is the column that identifies the person of each row, if the schema has one.
    """
    epsilon, delta = ledger.proved_epsilon, ledger.budget.delta
    claim = ledger.claim
    said: dict[str, Any] = {"n": f"{n:,}", "person": person, "finite": math.isfinite(epsilon),
                            "delta": upward(delta, 6), "claim": None if claim is None else str(claim),
                            "comparison": "", "warning": ""}
    if not said["finite"]:
        return said | {"proved": "no differential privacy at all"}
    shown = upward(epsilon)
    said["proved"] = f"({shown}, {said['delta']})-differential privacy"
    if claim is not None:
        more = "stronger than the proof" if claim.epsilon < epsilon else "not stronger than the proof"
        said["comparison"] = f": the claim is {more}"
    if delta >= 1.0 / n:
        said["warning"] = (f"δ is not below 1/n = {number(1.0 / n)}: a program that publishes one random row would "
                           "also satisfy such a δ.")
    factor = math.exp(min(epsilon, 700.0))
    probabilities = ((factor + delta) / (1.0 + factor),
                     min(factor * FALSE_ALARMS + delta, 1.0 - (1.0 - FALSE_ALARMS - delta) / factor, 1.0))
    # Rounded up, as all that is proved.
    guess, power = (f"{math.ceil(1000.0 * share - 1e-9) / 10.0:.1f} %" for share in probabilities)
    return said | {"epsilon": shown, "guess": guess, "power": power, "odds": upward(factor, 3),
                   "delta_is_zero": delta == 0.0, "is_one": shown == "1"}


def upward(value: float, digits: int = 4) -> str:
    """Return a number as text, rounded up, so that the printed number is not less than the proved one."""
    return number(float(shown_up(value, digits)), digits)


def ledger_table(ledger: Ledger) -> Table:
    return Table("Charges", ("Purpose", "Noise", "Scale", "Sensitivity", "Norm", "Times", "Proof"),
                 [(c.purpose, LAWS.get(c.law, c.law), *(("—", "—") if c.norm == "none" else
                                                          (number(c.scale, 4), number(c.sensitivity, 4))),
                   "each number" if c.norm == "each" else c.norm, f"{c.count:,}", c.proof) for c in ledger.charges],
                 (2, 3, 5))


def versions_table(made: dict[str, str]) -> Table:
    """Return the programs that made the release, as far as they are known, and that write the page."""
    here = {"python": platform.python_version(), **{name: version(name, "not installed") for name in LIBRARIES}}
    if not made:
        return Table("Versions", ("Program", "Wrote this page"), list(here.items()), ())
    rows = [(name, str(made.get(name, "—")), here.get(name, "—")) for name in dict.fromkeys([*made, *here])]
    return Table("Versions", ("Program", "Made the release", "Wrote this page"), rows, ())
