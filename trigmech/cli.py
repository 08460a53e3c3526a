"""The command line."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import trigmech as tm
from trigmech import demo as demonstration
from trigmech.errors import SolverError, TrigmechError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Differentially private synthetic data that answers smooth queries accurately.")

@app.callback()
def _trigmech() -> None:
    """Keep `demo` a command of its own while it is the only one."""


@app.command()
def info() -> None:
    """Print the versions of the package and of what it stands on."""
    from importlib.metadata import version

    for name in ("trigmech", "numpy", "numba", "highspy", "opendp", "dp-accounting"):
        typer.echo(f"{name} {tm.__version__ if name == 'trigmech' else version(name)}")


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where synthetic.csv and demo.png go.")] = Path("trigmech-demo"),
    epsilon: Annotated[float, typer.Option(help="Privacy budget: epsilon, above 0.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Privacy budget: delta, at least 0 and below 1.")] = 1e-3,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the synthetic table.")] = 569,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat a run; its noise is then not private.")] = None,
) -> None:
    """Release WDBC (569 patients, 30 measurements) and show how well the release answers smooth queries.

    Example: trigmech demo --epsilon 2 --folder out
    """
    console = Console()
    with console.status("starting") as status:
        made = demonstration.run(folder, tm.Budget(epsilon, delta), rows, seed, status.update)
    table = Table(title="Worst error of 10,000 Gaussian kernel queries (W1)")
    table.add_column("σ", justify="right")
    for name in ("this release", "uniform cube, no data", "thesis, table 3.3", "predicted bound, 95 %"):
        table.add_column(name, justify="right")
    for i, width in enumerate(made.widths):
        table.add_row(f"{width:g}", f"{made.evaluation.worst_absolute[i]:.4f}",
                      f"{made.uniform.worst_absolute[i]:.4f}", f"{demonstration.THESIS[i]:.3f}",
                      f"{made.predicted.worst[i]:.4f}")
    console.print(table)
    console.print("What was spent:", style="bold")
    typer.echo(made.synthesis.ledger)
    typer.echo("Bounds are each column's own minimum and maximum, as in the thesis. For private data they must come\n"
               "from elsewhere: bounds that are read off the table are not covered by the guarantee.")
    typer.echo(f"written: {made.table} and {made.picture}")


def main() -> None:
    """Run the command line; errors of this package end it with one line, status 5 if a solver failed and else 2."""
    try:
        app()
    except TrigmechError as error:
        typer.echo(f"trigmech: {error}", err=True)
        sys.exit(5 if isinstance(error, SolverError) else 2)
