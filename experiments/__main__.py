"""Reproduce the thesis, and compare with it and with other tools: ``python -m experiments list | run NAME | check``."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.markdown import Markdown

from experiments import (
    ablations,
    audit,
    comparison,
    consistent,
    coverage,
    curves,
    designs,
    figures,
    parties,
    rates,
    rivals,
    search,
    table_coverage,
    tables,
)
from experiments.cells import HERE, RESULTS, available, save
from experiments.companions import composition, linear_noise, marginals, net, tutorial
from experiments.datasets import DatasetMissing
from experiments.protocols import SETS, boards, find, pages

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
of_rivals = typer.Typer(help="Other tools, each in an environment of its own.", no_args_is_help=True)
app.add_typer(of_rivals, name="rivals")
console = Console()
PAGES = (HERE.parent / "README.md", HERE.parent / "docs" / "comparison.md")
Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Asked:
    """What the command line asks of an experiment.

    Parameters
    ----------
    names : list of str
        Data sets of numbers that are at hand: the thesis's, or those asked for.
    sets : list of str
        Data sets of the protocols, or paths; all if empty.
    """

    names: list[str]
    sets: list[str]
    methods: list[str]
    epsilons: list[float]
    seeds: int
    minutes: float
    quick: bool
    jobs: int
    cells: list[int]
    finished: bool

    @property
    def usual(self) -> tuple[list[str], int, bool]:
        """What most experiments take."""
        return self.names, self.jobs, self.quick


class LeftOut(Exception):  # noqa: N818 - it says what happened
    """An experiment cannot be run with the data sets at hand; the message says why."""


@dataclass(frozen=True)
class Experiment:
    """An experiment: what it does, and a function that writes its results and returns what to show of them.

    These functions take names of data sets, a number of processes (`jobs`), and whether to be `quick`; those of
    scoreboards' data sets also `seeds` and epsilons.
    """

    what: str
    run: Callable[[Asked], list[Path] | Path]
    numbers: bool = True  # whether it needs data sets of numbers


def _search(asked: Asked) -> list[Path]:
    known = [name for name in asked.names if name in tables.THESIS_SETS]
    if not known:
        raise LeftOut("it needs a data set of the thesis")
    return [search.search(table, known, asked.jobs, asked.quick) for table in ("table_3_2", "table_3_3")]


def _figure(name: str, asked: Asked) -> Path:
    if figures.FIGURES[name]["dataset"] not in asked.names:
        raise LeftOut(f"it needs {figures.FIGURES[name]['dataset']}")
    return figures.figure(name, asked.jobs, asked.quick)


def _error_table(name: str, asked: Asked) -> Path:
    return tables.error_table(name, *asked.usual)


def _comparison(name: str, asked: Asked) -> Path:
    return comparison.comparison(name, *asked.usual)


def _companion(companion: Callable[[int, bool], list[Path]], asked: Asked) -> list[Path]:
    return companion(asked.jobs, asked.quick)


def _board(name: str, asked: Asked) -> list[Path]:
    return boards.board(boards.PROTOCOLS[name], asked.sets, asked.methods, asked.epsilons or [1.0], asked.seeds,
                        asked.quick, asked.minutes, asked.jobs, asked.cells, asked.finished)


# Functions are looked up when an experiment is run.
EXPERIMENTS = {
    "table_3_1": Experiment("sizes of the data sets (seconds)", lambda asked: tables.table_3_1(asked.names)),
    **{name: Experiment(what, partial(_error_table, name)) for name, what in (
        ("table_3_2", "worst errors of ImprovedTrigI at epsilon = 1 (minutes)"),
        ("table_3_3", "worst errors of ImprovedTrigII at epsilon = 1, delta = 1e-3 (minutes)"))},
    **{name: Experiment(what, partial(_figure, name)) for name, what in (
        ("figure_3_1", "worst error on CSN against kappa (minutes)"),
        ("figure_3_2", "worst error on CRM against the rank k (minutes)"))},
    **{name: Experiment(what, partial(_comparison, name)) for name, what in (
        ("w1", "all methods on the thesis's queries, against the goals (an hour; w2 and w3 share its runs)"),
        ("w2", "the same on kernels of pairs of columns"), ("w3", "the same on second moments"))},
    "curves": Experiment("errors against epsilon, for three sizes of each table (an hour)",
                         lambda asked: curves.curves(*asked.usual)),
    "ablations": Experiment("what each part of the package's mechanism is worth (an hour)",
                            lambda asked: ablations.ablations(*asked.usual)),
    "coverage": Experiment("error bars against the truth (half an hour)",
                           lambda asked: coverage.coverage(*asked.usual)),
    "coverage_tables": Experiment(
        "error bars of columns and tables against the truth (half an hour; a part needs no data)",
        lambda asked: table_coverage.coverage_tables(asked.sets, asked.jobs, asked.quick, asked.seeds, asked.epsilons),
        numbers=False),
    "consistent": Experiment("tables at epsilon from 1 to 1000: more budget should do no harm (an hour)",
                             lambda asked: consistent.consistent(asked.sets, asked.jobs, asked.quick, asked.seeds),
                             numbers=False),
    "designs": Experiment("where a table's budget should go: predicted beside measured errors (an hour)",
                          lambda asked: designs.designs(asked.sets, asked.jobs, asked.quick, asked.seeds),
                          numbers=False),
    "rates": Experiment("errors against the number of rows, for few columns and smooth queries (half an hour; no data)",
                        lambda asked: rates.rates(asked.jobs, asked.quick), numbers=False),
    "parties": Experiment("tables that 1 to 100 parties hold, by parts and each alone (half an hour; needs Adult)",
                          lambda asked: parties.parties(asked.jobs, asked.quick), numbers=False),
    "audit": Experiment("lower bounds of epsilon, and planted faults that must exceed it (ten minutes; no data)",
                        lambda asked: audit.audit(asked.jobs, asked.quick), numbers=False),
    **{name: Experiment(f"scoreboard: {protocol.title} (hours with rivals; minutes with --quick)",
                        partial(_board, name), numbers=False)
       for name, protocol in boards.PROTOCOLS.items()},
    **{name: Experiment(f"companions: {what}", partial(_companion, companion),
                        numbers=False) for name, companion, what in (
        ("net", net.net, "the exponential and the net mechanism (a minute; no data)"),
        ("linear", linear_noise.linear, "near-optimal noise for linear queries, and how near (a minute; no data)"),
        ("composition", composition.composition,
         "theorems of composition against the exact optimum (seconds; no data)"),
        ("tutorial", tutorial.tutorial, "a tutorial's primitives on Adult, printed numbers beside ours (a minute)"),
        ("marginals", marginals.marginals,
         "PrivBayes, JTree and PrivHD on marginals and SVM, their privacy tested (an hour)"))},
    "search": Experiment("which unprinted options come nearest to the thesis's tables (minutes)", _search),
}


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    for name, experiment in EXPERIMENTS.items():
        console.print(f"{name:<15} {experiment.what}")


def words_of(text: str) -> list[str]:
    """Return what an option names, separated by commas."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers_of(option: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    """Return the numbers above 0 of an option, separated by commas."""
    try:
        found = [kind(word) for word in words_of(text)]
    except ValueError:
        found = [kind("0")]
    if not all(number > 0 for number in found):
        raise typer.BadParameter(f"{option} must be numbers above 0, separated by commas, not {text}")
    return found


def check_known(what: str, names: list[str], known: list[str]) -> None:
    """Refuse names that are not known."""
    unknown = [name for name in names if name not in known]
    if unknown:
        raise typer.BadParameter(f"no {what} is called {', '.join(unknown)}; there are {', '.join(known)}")


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(help="Experiments; see 'list'. 'all' for every one.")],
    quick: Annotated[bool, typer.Option(help="Fewer repetitions and queries; results get the suffix _quick.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes; use 1 for times that compare with the thesis's.")] = 1,
    datasets: Annotated[
        str, typer.Option(help="Names, separated by commas, also of sets that are not in the thesis; for scoreboards "
                               "also paths of CSV and Parquet files with a schema file beside them. Results of some "
                               "only get the suffix _partial.")
    ] = "",
    methods: Annotated[str, typer.Option(help="Of scoreboards: methods, separated by commas, such as default, smooth, "
                                              "independent, bootstrap, real, AIM-dpmm (see 'rivals list').")] = "",
    seeds: Annotated[int, typer.Option(help="Of scoreboards and coverage_tables: releases at each budget.",
                                       min=1)] = boards.SEEDS,
    eps: Annotated[str, typer.Option(help="Of the same: budgets, separated by commas, not those of the "
                                          "protocols.")] = "",
    minutes: Annotated[float, typer.Option(help="Of scoreboards: the time limit of each table.",
                                           min=0.01)] = boards.MINUTES,
    cells: Annotated[str, typer.Option(help="Of scoreboards: into how many public cells numbers are cut for rivals "
                                            "that want categories; of several the best is shown.")] = "",
    finished: Annotated[bool, typer.Option(help="Of scoreboards: run nothing, write what has been finished.")] = False,
) -> None:
    """Run experiments; finished cells are cached, so an interrupted run goes on where it was."""
    chosen = list(EXPERIMENTS) if names == ["all"] else names
    check_known("experiment", chosen, list(EXPERIMENTS))
    try:
        described = {name.lower() if name.lower() in SETS else name: find(name) for name in words_of(datasets)}
    except DatasetMissing as missing:
        raise typer.BadParameter(str(missing)) from None
    asked_methods = words_of(methods)
    check_known("method", asked_methods, [*boards.OWN, *boards.NOT_PRIVATE, *boards.rival_methods()])
    budgets, sizes = numbers_of("eps", eps, float), numbers_of("cells", cells, int) or list(boards.CELLS)
    if not 1 <= jobs <= (os.cpu_count() or 1) * 2:
        raise typer.BadParameter(f"jobs must be between 1 and twice the number of cores, not {jobs}")
    found: list[str] = []
    if any(EXPERIMENTS[name].numbers for name in chosen):
        found = available([each.numbers for each in described.values() if each.numbers] if described
                          else tables.THESIS_SETS)
        if not found:
            console.print("no data set is available")
            raise typer.Exit(3)
    asked = Asked(found, list(described), asked_methods, budgets, seeds, minutes, quick, jobs, sizes, finished)
    for name in chosen:
        try:
            written = EXPERIMENTS[name].run(asked)
        except LeftOut as why:
            console.print(f"{name} left out: {why}")
            continue
        except DatasetMissing as missing:
            console.print(f"{name}: {missing}", markup=False)
            raise typer.Exit(3) from None
        for path in [written] if isinstance(written, Path) else written:
            text = path.read_text(encoding="utf-8")
            console.print(Markdown(text) if path.suffix == ".md" else text)
            console.print(f"written: {os.path.relpath(path)}")


@app.command()
def check() -> None:
    """Check committed results against what the project promises of them; exit status 1 if one fails."""
    failures = [failure for module in (tables, comparison, coverage, table_coverage, audit, boards)
                for failure in module.check(RESULTS)]
    for failure in failures:
        console.print(f"FAILED {failure}")
    if failures:
        raise typer.Exit(1)
    console.print("all checks hold")


@app.command("pages")
def write_pages() -> None:
    """Write the scoreboards' committed results into the tables of README.md and docs/comparison.md."""
    for path in PAGES:
        save(path, pages.filled(path.read_text(encoding="utf-8"), RESULTS))
        for failure in pages.broken_claims(path.read_text(encoding="utf-8"), RESULTS):
            console.print(f"{path.name}: {failure}", markup=False)


@of_rivals.command("list")
def list_rivals() -> None:
    """List the rivals: their methods, what is pinned, and whether they are installed."""
    for rival in rivals.rivals().values():
        methods = ", ".join(f"{method}-{rival.name}" for method in rival.methods)
        if rival.name != rivals.OWN:
            console.print(f"{rival.name:<12} {methods}; {' '.join(rival.requirements)}"
                          f"{'' if rival.installed else ' (not installed)'}", markup=False)


@of_rivals.command("install")
def install(
    names: Annotated[list[str], typer.Argument(help="Rivals; see 'rivals list'. 'all' for every one.")],
) -> None:
    """Make the rivals' environments, in the user's cache or below TRIGMECH_CACHE; exit status 1 if one fails."""
    known = {name: rival for name, rival in rivals.rivals().items() if name != rivals.OWN}
    chosen = list(known) if names == ["all"] else names
    check_known("rival", chosen, list(known))
    failed = False
    for name in chosen:
        console.print(f"installing {name}")
        try:
            rivals.install(known[name])
        except rivals.RivalError as error:
            failed = True
            console.print(str(error), markup=False)
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    app()
