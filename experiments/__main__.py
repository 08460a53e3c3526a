"""Reproduce the thesis, and compare with it and with other tools: ``python -m experiments list | run NAME | check``."""

import os
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.markdown import Markdown

from experiments import fingerprints, prose, rivals, search
from experiments.asked import Asked, LeftOut
from experiments.cells import RESULTS, save
from experiments.datasets import DatasetMissing
from experiments.every import EXPERIMENTS
from experiments.protocols import boards, pages
from experiments.protocols.data import every_set, find

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
of_rivals = typer.Typer(help="Other tools, each in an environment of its own.", no_args_is_help=True)
app.add_typer(of_rivals, name="rivals")
console = Console()
Number = TypeVar("Number", int, float)


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    for name, experiment in EXPERIMENTS.items():
        console.print(f"{name:<15} {experiment.what}")


def words_of(text: str) -> list[str]:
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


def check_known(what: str, names: list[str], known: Sequence[str]) -> None:
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
    methods: Annotated[str, typer.Option(help="For scoreboards: methods, separated by commas, such as default, smooth, "
                                              "independent, bootstrap, real, AIM-dpmm (see 'rivals list').")] = "",
    seeds: Annotated[int, typer.Option(help="For experiments on tables: releases at each budget; 0: the usual number "
                                            "of the experiment.", min=0)] = 0,
    eps: Annotated[str, typer.Option(help="For experiments on tables: budgets, separated by commas, in place of the "
                                          "usual ones of the experiment.")] = "",
    minutes: Annotated[float, typer.Option(help="For scoreboards: the time limit of each table.",
                                           min=0.01)] = Asked.minutes,
    cells: Annotated[str, typer.Option(help="For scoreboards: the number of public cells into which numbers are cut, "
                                            "for rivals that want categories. Separate several such numbers by "
                                            "commas; the best result is shown.")] = "",
    finished: Annotated[bool, typer.Option(help="For scoreboards: run nothing, and write the results of the tables "
                                                "that earlier runs finished.")] = False,
    ours: Annotated[bool, typer.Option(help="For scoreboards, marginals, w1, w2 and w3: run this package's methods in "
                                            "the committed results again; other lines stay. For w1, w2 and w3, "
                                            "--methods may name some mechanisms, as 'fingerprints' does.")] = False,
) -> None:
    """Run experiments; finished cells are cached, so an interrupted run goes on where it was."""
    chosen = list(EXPERIMENTS) if names == ["all"] else names
    check_known("experiment", chosen, list(EXPERIMENTS))
    try:
        described = {name.lower() if name.lower() in every_set() else name: find(name) for name in words_of(datasets)}
    except DatasetMissing as missing:
        raise typer.BadParameter(str(missing)) from None
    comparisons = set(chosen) <= {"w1", "w2", "w3"}
    if ours and (described or seeds or words_of(eps) or words_of(cells) or quick or finished or not (
            comparisons or (set(chosen) <= {*boards.PROTOCOLS, "marginals"} and not words_of(methods)))):
        raise typer.BadParameter("--ours runs committed results again; use it with --jobs and --minutes, and with the "
                                 f"experiments {', '.join(boards.PROTOCOLS)}, marginals; or with w1, w2, w3 and "
                                 "--methods")
    check_known("method", words_of(methods), fingerprints.OWN if ours else [
        *boards.OWN, *boards.NOT_PRIVATE, *boards.rival_methods()])
    budgets, sizes = numbers_of("eps", eps, float), numbers_of("cells", cells, int) or list(boards.CELLS)
    if not 1 <= jobs <= (os.cpu_count() or 1) * 2:
        raise typer.BadParameter(f"jobs must be between 1 and twice the number of cores, not {jobs}")
    names_of_numbers: list[str] = []
    if any(EXPERIMENTS[name].numbers for name in chosen):
        wanted = [each for each in described.values() if each.numbers] if described else [
            every_set()[name.lower()] for name in search.THESIS_SETS]
        names_of_numbers = [each.numbers for each in wanted if boards.available([each.name])]
        if not names_of_numbers:
            console.print("no data set is available")
            raise typer.Exit(3)
    asked = Asked(tuple(names_of_numbers), tuple(described), tuple(words_of(methods)), tuple(budgets), seeds, minutes,
                  quick, jobs, tuple(sizes), finished, ours)
    for name in chosen:
        try:
            path = EXPERIMENTS[name](asked)
        except LeftOut as why:
            console.print(f"{name} left out: {why}")
            continue
        except DatasetMissing as missing:
            console.print(f"{name}: {missing}", markup=False)
            raise typer.Exit(3) from None
        console.print(Markdown(path.read_text(encoding="utf-8")))
        console.print(f"written: {os.path.relpath(path)}")


@app.command()
def check() -> None:
    """Check committed results against the promises of the project; exit status 1 if a check fails."""
    failures = [failure for each in EXPERIMENTS.values() for failure in each.broken(RESULTS)]
    for failure in failures:
        console.print(f"FAILED {failure}")
    if failures:
        raise typer.Exit(1)
    console.print("all checks hold")


@app.command("fingerprints")
def note_fingerprints() -> None:
    """Note the fingerprints of this code, by a few seeded runs, and list the committed results that other code made."""
    now = fingerprints.now(RESULTS)
    for mechanism, identifier in now.items():
        console.print(f"{mechanism:<24} {identifier}", highlight=False)
    for stem in fingerprints.SHOWN:
        found = fingerprints.older(stem, RESULTS)
        if found:
            console.print(f"{stem}: older code of {', '.join(sorted(found))}", highlight=False)


@app.command("pages")
def write_pages() -> None:
    """Write committed results into the tables and sentences of pages; exit status 1 if they contradict a sentence.

    Results by code with other numbers than the present code (see ``fingerprints``) are marked, on these pages and on
    those in experiments/results.
    """
    failed = False
    for stem in fingerprints.SHOWN:
        if (RESULTS / f"{stem}.md").exists():
            save(RESULTS / f"{stem}.md", pages.rewritten(stem, RESULTS))
    for path in prose.pages_of():
        old = path.read_text(encoding="utf-8")
        text = prose.filled(pages.filled(old, RESULTS), RESULTS)
        if text != old:
            save(path, text)
            console.print(f"written: {os.path.relpath(path)}", markup=False)
        for failure in pages.broken_claims(text, RESULTS) + prose.broken(text, RESULTS):
            failed = True
            console.print(f"{path.name}: {failure}", markup=False)
    raise typer.Exit(1 if failed else 0)


@of_rivals.command("list")
def list_rivals() -> None:
    """List the rivals: their methods, their pinned requirements, and whether they are installed."""
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
