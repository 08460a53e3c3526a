"""One way to declare an experiment: inputs, cells, table, page, checks. Everything else is done here.

A declaration names its data sets (`inputs`, or `numbers` for those of the thesis's kind) and how many releases and
which budgets it usually has. `cells` returns the calls to make, each with the entries that identify its lines. The
calls are computed once, in `jobs` processes, and cached. `lines` makes lines of the result of a cell, `table` sums them
up, and `formats` has the formats of its columns in the CSV file. `page` makes the Markdown of that file alone, so that
all pages can be made again from committed results. `check` returns the project's promises that these lines break.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from experiments import cells as machinery
from experiments import fingerprints, frames
from experiments.asked import Asked, LeftOut
from experiments.cells import Call, call
from experiments.datasets import DatasetMissing
from experiments.protocols.data import Sample

T = TypeVar("T")


def at_hand(inputs: Iterable[T], load: Callable[[T], Any]) -> tuple[T, ...]:
    """Return the inputs whose data can be had, and say of each other one why not."""
    found = []
    for each in inputs:
        try:
            load(each)
            found.append(each)
        except DatasetMissing as missing:
            print(f"left out: {missing}")
    return tuple(found)


def calls_of(function: Callable[..., dict[str, Any]], asked: Asked, /, *more: Any,
             **axes: Iterable[Any]) -> dict[Call, dict[str, Any]]:
    """Return the calls of a function for all combinations of values of its first arguments, by their names, each with
    every seed, which comes next, and `more` after it; lines have the values.

    A sample stands for its source and its number of rows, and in lines for its name. Values of a name such as
    `method_epsilon` are tuples, of as many arguments.
    """
    found = dict[Call, dict[str, Any]]()
    for values in product(*axes.values()):
        arguments, head = list[Any](), dict[str, Any]()
        for names, value in zip(axes, values, strict=True):
            every = value if isinstance(value, tuple) else (value,)
            arguments += [value.source, value.rows] if isinstance(value, Sample) else every
            head |= {names: value.name} if isinstance(value, Sample) else zip(names.split("_"), every, strict=True)
        found |= {call(function, *arguments, seed, *more): head for seed in range(asked.seeds)}
    return found


def with_budgets(free: Iterable[str], methods: Iterable[str], asked: Asked) -> list[tuple[str, float]]:
    """Return every method with every epsilon, after those that need no budget, at epsilon 0."""
    return [*((method, 0.0) for method in free), *product(methods, asked.epsilons)]


def measured(cells: Mapping[Any, dict[str, Any]], asked: Asked, title: str,
             lines: Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]]) -> pd.DataFrame:
    """Run cells, and return their lines, in the order of the cells, whichever was done first."""
    results = dict(machinery.run_cells(cells, asked.jobs, title))
    return pd.DataFrame([line for cell, head in cells.items() for line in lines(head, results[cell])])


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """An experiment; to call it is to run it, and returns the page.

    `seeds`, `epsilons` and `size` have the values of a quick run, then the usual ones; `cells` and `page` take `size`
    for a number of queries, of rows or the like. If `needed`, it cannot be run without any of its data sets. `whole`
    says whether other settings, such as `methods`, leave nothing out. `again` says which lines, by their `keys`, are
    run again where only this package's are asked for; the others stay as they are committed. An experiment that is not
    made of cells has a `run` of its own.
    """

    name: str
    what: str
    cells: Callable[[Asked], Mapping[Any, dict[str, Any]]] = field(default=lambda asked: {})
    lines: Callable[[dict[str, Any], dict[str, Any]], list[dict[str, Any]]] = frames.of_measures
    table: Callable[[pd.DataFrame], pd.DataFrame] = field(default=lambda lines: lines)
    formats: Mapping[str, str] = field(default_factory=dict)
    page: Callable[[pd.DataFrame, Asked], Iterable[str]] = field(default=lambda lines, asked: ())
    numbers: bool = False
    inputs: Sequence[str | Sample] = ()
    quick: Sequence[str | Sample] = ()
    needed: bool = True
    seeds: tuple[int, int] = (1, 1)
    epsilons: tuple[Sequence[float], Sequence[float]] = ((), ())
    size: tuple[Any, Any] = (None, None)
    whole: Callable[[Asked], bool] = lambda asked: True
    keys: Sequence[str] = ()
    again: Callable[[Asked, Any], bool] | None = None
    check: Callable[[pd.DataFrame], list[str]] = field(default=lambda lines: [])
    promised: bool = False
    run: Callable[[Asked], Path] | None = None

    def settled(self, asked: Asked) -> Asked:
        """Return the settings, with the experiment's own values in place of empty ones."""
        usual = 0 if asked.quick else 1
        return replace(asked, seeds=asked.seeds or self.seeds[usual], size=self.size[usual],
                       epsilons=asked.epsilons or tuple(self.epsilons[usual]))

    def with_inputs(self, asked: Asked) -> tuple[Asked, bool]:
        """Return the settings with the inputs at hand, and whether these are all. LeftOut if there is no input, or
        if all committed lines of this package are to be run again and an input is not at hand."""
        own = self.settled(asked)
        as_usual = own.epsilons == self.settled(replace(asked, epsilons=())).epsilons
        if self.numbers:
            return own, asked.of_thesis and as_usual
        known, few = ([Sample(each) if isinstance(each, str) else each for each in which]
                      for which in (self.inputs, self.quick))
        usual = few or known if asked.quick else known
        wanted = [each for each in known if each.source in asked.sets] if asked.sets else usual
        own = replace(own, inputs=at_hand(wanted, lambda sample: sample.load(0)))
        if self.inputs and self.needed and not own.inputs:
            raise LeftOut("it needs a table of the protocols")
        if asked.ours and len(own.inputs) < len(wanted):
            raise LeftOut("its results have lines of tables that are not at hand; nothing was run again")
        return own, set(own.inputs) == set(usual) and as_usual

    def __call__(self, asked: Asked) -> Path:
        """Run it and write results/<stem>.csv and .md."""
        if self.run:
            return self.run(asked)
        asked, whole = self.with_inputs(asked)
        whole = whole and self.whole(asked)
        cells = self.cells(asked)
        lines = measured(cells, asked, self.name, self.lines)
        made, stem, run = frames.formatted(self.table(lines), **self.formats), asked.stem(self.name, whole), None
        if asked.ours and self.again:
            stem, run = self.name, asked.methods or None
            committed = frames.as_texts(machinery.RESULTS / f"{stem}.csv")
            made = frames.with_new(committed, frames.as_texts(made), list(self.keys), partial(self.again, asked))
        written = frames.read_csv(machinery.write_csv(stem, made, run=run))
        if asked.ours:
            asked = replace(asked, older=fingerprints.older(stem, machinery.RESULTS))
        return machinery.write_markdown(stem, self.page(written, asked), run)

    def committed(self, results: Path, older: frozenset[str] = frozenset()) -> str:
        """Return the page of a folder's CSV file; a page that marks rows marks those of the mechanisms in `older`."""
        asked = replace(self.settled(Asked()), older=older)
        return "\n".join(self.page(frames.read_csv(results / f"{self.name}.csv"), asked)) + "\n"

    def broken(self, results: Path) -> list[str]:
        """Return the project's promises that a folder's CSV file breaks; a missing file breaks a promise only if the
        experiment is `promised`."""
        path = results / f"{self.name}.csv"
        if path.exists():
            return self.check(frames.read_csv(path))
        return [f"{self.name}: {path.name} is missing; run it"] * self.promised
