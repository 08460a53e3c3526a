"""Running subjects, with progress on the terminal."""

import os
import time
from collections.abc import Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks import report
from benchmarks.core import Row, Settings, Subject
from benchmarks.registry import SUBJECTS

PATIENCE = 2.0


def run(names: Sequence[str], quick: bool, console: Console) -> report.Record:
    """Run subjects and return their rows; a thorough run also writes each subject's result file and the summary.

    A quick run has other sizes and too few rounds, so it never replaces results.
    """
    record = report.Record(machine=report.machine(), quick=quick, subjects={})
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > 0.5:
        console.print(f"[yellow]The machine is busy (load {os.getloadavg()[0]:.1f}): trust only large ratios.[/yellow]")
    started = time.perf_counter()
    with console.status("") as status:
        status.stop()  # until something takes longer than the patience

        def progress(name: str, what: str) -> None:
            elapsed = time.perf_counter() - started
            status.update(f"{elapsed:.0f} s  {name}, {what}")
            if elapsed > PATIENCE:
                status.start()

        for name in names:
            rows = list(SUBJECTS[name].rows(Settings(quick, partial(progress, name))))
            record["subjects"][name] = rows
            show(console, SUBJECTS[name], rows)
            if not quick:
                report.write(report.RESULTS / f"{name}.json",
                             report.Record(machine=record["machine"], quick=False, subjects={name: rows}))
                report.write_summary()
    console.print(f"{time.perf_counter() - started:.0f} s in all")
    return record


def show(console: Console, subject: Subject, rows: list[Row]) -> None:
    """Print a subject's table."""
    columns = report.cells(rows, subject.rate)
    printed = Table(*columns, title=subject.title)
    for line in zip(*columns.values(), strict=True):
        printed.add_row(*line)
    console.print(printed)
