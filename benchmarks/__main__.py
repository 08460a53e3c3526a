"""`python -m benchmarks run | list | compare`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.compare import differences, warnings
from benchmarks.registry import SUBJECTS
from benchmarks.run import run as run_subjects

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Measure trigmech against the alternatives.")
# A pipe or a file has no width of its own; 80 columns would break every cell.
console = Console(width=None if sys.stdout.isatty() else 160)


@app.command()
def run(names: Annotated[list[str] | None, typer.Argument(help="Subjects; by default all.")] = None,
        quick: Annotated[bool, typer.Option("--quick", help="Small sizes; results are left alone.")] = False,
        out: Annotated[Path | None, typer.Option(help="Also write everything to this JSON file.")] = None) -> None:
    """Run subjects; a thorough run also writes benchmarks/results."""
    unknown = sorted(set(names or ()) - SUBJECTS.keys())
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; known: {', '.join(SUBJECTS)}")
    record = run_subjects(names or list(SUBJECTS), quick, console)
    if out is not None:
        report.write(out, record)


@app.command("list")
def list_subjects() -> None:
    """List the subjects."""
    for name, subject in SUBJECTS.items():
        console.print(f"[bold]{name:8}[/bold] {subject.title}")


@app.command()
def compare(old: Annotated[Path, typer.Argument(exists=True)],
            new: Annotated[Path, typer.Argument(exists=True)]) -> None:
    """Compare two result files."""
    before, after = report.read(old), report.read(new)
    for warning in warnings(before, after):
        console.print(f"[yellow]{warning}[/yellow]")
    table = Table("subject", "case", "alternative", "old ratio", "new ratio", "old / new time")
    for cells in differences(before, after):
        table.add_row(*cells)
    console.print(table)


if __name__ == "__main__":
    app()
