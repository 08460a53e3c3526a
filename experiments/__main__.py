"""Reproduce the thesis, and compare with it: ``python -m experiments list | run NAME | check``."""

import os
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from experiments import (
    ablations,
    adult,
    audit,
    comparison,
    coverage,
    curves,
    figures,
    rates,
    table_coverage,
    tables,
)
from experiments.cells import RESULTS, available
from experiments.companions import composition, linear_noise, marginals, net, tutorial
from experiments.datasets import DATASETS, DatasetMissing
from experiments.protocols import NAMES, experiment
from experiments.search import search

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
console = Console()

EXPERIMENTS = {
    "table_3_1": "sizes of the data sets (seconds)",
    "table_3_2": "worst errors of ImprovedTrigI at epsilon = 1 (minutes)",
    "table_3_3": "worst errors of ImprovedTrigII at epsilon = 1, delta = 1e-3 (minutes)",
    "figure_3_1": "worst error on CSN against kappa (minutes)",
    "figure_3_2": "worst error on CRM against the rank k (minutes)",
    "w1": "all methods on the thesis's queries, against the goals (an hour; w2 and w3 share its runs)",
    "w2": "the same on kernels of pairs of columns",
    "w3": "the same on second moments",
    "curves": "errors against epsilon, for three sizes of each table (an hour)",
    "ablations": "what each part of the package's mechanism is worth (an hour)",
    "coverage": "error bars against the truth (half an hour)",
    "coverage_tables": "error bars of columns and tables against the truth (half an hour; a part needs no data)",
    "rates": "errors against the number of rows, for few columns and smooth queries (half an hour; needs no data)",
    "audit": "lower bounds of epsilon, and planted faults that must exceed it (ten minutes; needs no data)",
    "adult": "a table with categories: distances of columns and of pairs of columns (minutes)",
    "tables": "tables by the default release on the protocols of NIST, AIM and SynMeter, and Adult (an hour)",
    "consistent": "the same at epsilon from 1 to 1000: more budget should do no harm (hours)",
    "net": "companions: the exponential and the net mechanism (a minute; needs no data)",
    "linear": "companions: near-optimal noise for linear queries, and how near (a minute; needs no data)",
    "composition": "companions: theorems of composition against the exact optimum (seconds; needs no data)",
    "tutorial": "companions: a tutorial's primitives on Adult, printed numbers beside ours (a minute)",
    "marginals": "companions: PrivBayes, JTree and PrivHD on marginals and SVM, their privacy tested (an hour)",
    "search": "which unprinted options come nearest to the thesis's tables (minutes)",
}


# Modules with a function of their own name: which take the data sets of the thesis, and which need none of them.
OF_DATA_SETS = {"curves": curves, "ablations": ablations, "coverage": coverage}
OF_THEIR_OWN = {"rates": rates, "audit": audit, "adult": adult}
# Those that take the data sets of the protocols.
OF_PROTOCOLS = {"tables": experiment.tables, "consistent": experiment.consistent,
                "coverage_tables": table_coverage.coverage_tables}
# The systems of other sources.
COMPANIONS = {"net": net.net, "linear": linear_noise.linear, "composition": composition.composition,
              "tutorial": tutorial.tutorial, "marginals": marginals.marginals}
WITHOUT_DATASETS = {*OF_PROTOCOLS, *COMPANIONS}


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    for name, what in EXPERIMENTS.items():
        console.print(f"{name:<12} {what}")


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(help="Experiments; see 'list'. 'all' for every one.")],
    quick: Annotated[bool, typer.Option(help="Fewer repetitions and queries; results get the suffix _quick.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes; use 1 for times that compare with the thesis's.")] = 1,
    datasets: Annotated[
        str, typer.Option(help="Names, separated by commas, also of sets that are not in the thesis; results of some "
                               "only get the suffix _partial.")
    ] = ",".join(tables.THESIS_SETS),
    seeds: Annotated[int, typer.Option(help="Of tables, consistent and coverage_tables: releases at each budget.",
                                       min=1)] = 5,
    eps: Annotated[str, typer.Option(help="Of the same: budgets, separated by commas, not those of the "
                                          "protocols.")] = "",
) -> None:
    """Run experiments; finished cells are cached, so an interrupted run goes on where it was."""
    chosen = list(EXPERIMENTS) if names == ["all"] else names
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    if unknown:
        raise typer.BadParameter(f"no experiment named {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}")
    wanted = list(dict.fromkeys(name.strip().upper() for name in datasets.split(",")))
    of_protocols = [name.lower() for name in wanted if name.lower() in NAMES]
    strange = [name for name in wanted if name not in DATASETS and name.lower() not in NAMES]
    if strange:
        raise typer.BadParameter(f"no data set is called {', '.join(strange)}; there are {', '.join(DATASETS)}, and "
                                 f"for tables and consistent {', '.join(NAMES)}")
    try:
        budgets = [float(epsilon) for epsilon in eps.split(",") if epsilon]
    except ValueError as error:
        raise typer.BadParameter(f"eps must be numbers, separated by commas, not {eps}") from error
    if not 1 <= jobs <= (os.cpu_count() or 1) * 2:
        raise typer.BadParameter(f"jobs must be between 1 and twice the number of cores, not {jobs}")
    found = [] if set(chosen) <= WITHOUT_DATASETS else available(name for name in wanted if name in DATASETS)
    if not found and not set(chosen) <= WITHOUT_DATASETS:
        console.print("no data set is available")
        raise typer.Exit(3)
    for name in chosen:
        if name == "table_3_1":
            paths = [tables.table_3_1(found)]
        elif name in ("table_3_2", "table_3_3"):
            paths = [tables.error_table(name, found, jobs, quick)]
        elif name in comparison.SIGMAS:
            paths = [comparison.comparison(name, found, jobs, quick)]
        elif name in OF_DATA_SETS:
            paths = [getattr(OF_DATA_SETS[name], name)(found, jobs, quick)]
        elif name in OF_THEIR_OWN:
            paths = [getattr(OF_THEIR_OWN[name], name)(jobs, quick)]
        elif name in OF_PROTOCOLS:
            paths = OF_PROTOCOLS[name](of_protocols, jobs, quick, seeds, budgets)
        elif name in COMPANIONS:
            try:
                paths = COMPANIONS[name](jobs, quick)
            except DatasetMissing as missing:
                console.print(f"{name} left out: {missing}")
                if len(chosen) > 1:
                    continue
                raise typer.Exit(3) from None
        elif name == "search":
            in_thesis = [each for each in found if each in tables.THESIS_SETS]
            if not in_thesis:
                console.print("search left out: it needs a data set of the thesis")
                continue
            paths = [search(table, in_thesis, jobs, quick) for table in ("table_3_2", "table_3_3")]
        elif figures.FIGURES[name]["dataset"] in found:
            paths = [figures.figure(name, jobs, quick)]
        else:
            console.print(f"{name} left out: it needs {figures.FIGURES[name]['dataset']}")
            continue
        for path in paths:
            console.print(Markdown(path.read_text(encoding="utf-8")) if path.suffix == ".md"
                          else path.read_text(encoding="utf-8"))
            console.print(f"written: {os.path.relpath(path)}")


@app.command()
def check() -> None:
    """Check committed results against what the project promises of them; exit status 1 if one fails."""
    failures = [*tables.check(RESULTS), *comparison.check(RESULTS), *coverage.check(RESULTS),
                *table_coverage.check(RESULTS), *audit.check(RESULTS), *adult.check(RESULTS)]
    for failure in failures:
        console.print(f"FAILED {failure}")
    if failures:
        raise typer.Exit(1)
    console.print("all checks hold")


if __name__ == "__main__":
    app()
