"""A tutorial's primitives as a gallery on Adult: printed numbers beside ours, and the text's errors.

The gallery is docs/gallery.md, which runs as a notebook: each section has a block of Python, which yields our numbers,
and a table, which is written here. The printed numbers are in experiments/expected/tutorial.csv, in the order of
ours. Noise is OpenDP's, drawn from the operating system's entropy: a gallery should show it drawn. These are not
releases: the exact numbers stand beside them. Neighbours are add/remove, as the text has them.
"""

import csv
import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.progress import track

from experiments import Array, datasets
from experiments.asked import Asked
from experiments.cells import HERE, save, write_csv, write_markdown
from experiments.declare import Experiment
from experiments.frames import grid, worded
from experiments.protocols.data import adult_rows

PAGE = HERE.parent / "docs" / "gallery.md"
BLOCK = re.compile(r"^```python\n((?:.*\n)+?)```\n", re.MULTILINE)
# Title, guarantee, code and table.
SECTION = re.compile(r"^## (.+)\n\n(.+)\n\n(<!--.+\n```python\n((?:.*\n)+?)```)\n\n((?:\|.*\n)+)", re.MULTILINE)


@dataclass(frozen=True)
class Found:
    """One of our numbers beside the text's (None: not printed), and the true values of both, exact if `spread` is 0.

    `what` begins with "false" if the printed number is a claim that does not hold; `says` goes into it. `spread` is one
    standard error of ours, from the law of the noise. `printed_truth` is not `truth` where the text has ages, which are
    invented there. The file of printed numbers has the fields that a block does not give.
    """

    ours: Any
    truth: Any = None
    spread: Any = None
    printed_truth: Any = None
    says: Any = None
    what: Any = None
    printed: Any = None

    @property
    def passed(self) -> bool:
        """Whether the numbers are as they should be within four standard errors; false claims must not be."""
        right = self.near(self.ours, self.truth) and self.near(self.printed, self.printed_truth)
        return right and not (self.what.startswith("false") and self.near(self.printed, self.ours))

    def near(self, value: Any, truth: Any, errors: float = 4.0) -> bool:
        """Return whether a number is within so many standard errors of another, if both are known; text is compared."""
        if value is None or truth is None or isinstance(value, str):
            return value is None or truth is None or bool(value == truth)
        return bool(abs(value - truth) <= errors * self.spread + 1e-9 * abs(truth))


def value_of(text: str) -> Any:
    """Return a cell of a CSV file: a number, text, or None if it is empty."""
    number = pd.to_numeric(text, errors="coerce")
    return (text or None) if pd.isna(number) else number.item()


class Primitive(NamedTuple):
    """A section of the gallery: its title, its guarantee and means, its code."""

    title: str
    guarantee: str
    code: str

    def rows(self) -> Iterator[Found]:
        """Run the code, after the gallery's first block, and yield our numbers with the printed ones."""
        names = notebook()
        exec(f"def numbers():\n{indent(self.code, '    ')}", names)
        with (HERE / "expected" / "tutorial.csv").open(encoding="utf-8") as file:
            lines = [line for line in csv.DictReader(file) if line.pop("primitive") == self.title]
        for line, each in zip(lines, names["numbers"](), strict=True):
            found = vars(each if isinstance(each, Found) else Found(each))
            given = {"spread": 0.0} | {name: value_of(text) for name, text in line.items() if text}
            given |= {name: value for name, value in found.items() if value is not None}
            yield Found(**{"ours": None} | given | {"what": line["what"].format(found["says"])})


@cache
def notebook() -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(BLOCK.findall(PAGE.read_text(encoding="utf-8"))[0], names)
    return names


GALLERY = [Primitive(title, guarantee, code)
           for title, guarantee, _, code, _ in SECTION.findall(PAGE.read_text(encoding="utf-8"))]


@cache
def table() -> pd.DataFrame:
    """Return Adult's train part and the text's two invented records."""
    invented = (HERE / "expected" / "tutorial_rows.csv").read_bytes()
    return adult_rows(datasets.raw("ADULT")[0] + b"\n" + invented)


def chunk_answers(ages: Array, groups: Any, k: int) -> Array:
    """Return the clipped mean of each group, 20 of an empty one."""
    sums, counts = (np.bincount(groups, weights, minlength=k) for weights in (ages, None))
    return np.clip(np.divide(sums, counts, out=np.full(len(sums), 20.0), where=counts > 0), 20.0, 80.0)


def keyed_groups(n: int, k: int) -> Any:
    """Return a group for each row by a keyed hash of its own identity, which here is its number."""
    return np.array([int.from_bytes(hashlib.blake2b(str(i).encode(), key=b"of this release", digest_size=8).digest())
                     % k for i in range(n)])


def noisy_max_law(gap: float, scale: float) -> float:
    """Return the probability that the lower of two scores wins under Laplace noise."""
    return 0.5 * math.exp(-gap / scale) * (1 + gap / (2 * scale))


def tutorial(asked: Asked) -> Path:
    """Write results/tutorial.csv and .md, and the tables of docs/gallery.md."""
    slow = ("Randomised response", "Unary encoding") if asked.quick else ()
    rows, tables = list[dict[str, Any]](), dict[str, str]()
    for each in track([each for each in GALLERY if each.title not in slow], "tutorial"):
        found = list(each.rows())
        rows += [{"primitive": each.title, "what": row.what, "printed": row.printed, "ours": row.ours,
                  "should_be": row.truth, "standard_error": row.spread, "passed": row.passed} for row in found]
        tables[each.title] = "\n".join(grid(("what", "printed", "ours", "should be", "standard error", ""), [
            (row.what, *(f"{x:.6g}" if isinstance(x, float) else x
                         for x in (row.printed, row.ours, row.truth, row.spread or None)),
             "✓" if row.passed else "✗") for row in found]))
    if not asked.quick:
        save(PAGE, SECTION.sub(lambda m: f"## {m[1]}\n\n{m[2]}\n\n{m[3]}\n\n{tables[m[1]]}\n",
                               PAGE.read_text(encoding="utf-8")))
    write_csv(asked.stem("tutorial"), pd.DataFrame(
        [{key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows],
        dtype=object))
    shown = [each for each in GALLERY if each.title in tables]
    text = [f"## {each.title}\n\n{each.guarantee}\n\n{tables[each.title]}\n" for each in shown]
    return write_markdown(asked.stem("tutorial"), worded(
        "tutorial", simulated=worded("simulated"), sections="\n".join(text).rstrip("\n")))


declared = [Experiment(
    name="tutorial", run=tutorial,
    what="companions: a tutorial's primitives on Adult, printed numbers beside ours (a minute)")]
