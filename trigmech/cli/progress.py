"""What is shown on standard error while something runs: progress with the time left, and, if asked for, each step."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class RowsPerSecond(ProgressColumn):
    """How fast a table is measured; nothing in other steps."""

    def render(self, task: Task) -> Text:
        """Return the rate as text."""
        known = task.description == "measuring" and task.speed
        return Text(f"{task.speed:,.0f} rows/s" if known else "")


Report = Callable[[str, int, int], None]


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Report]:
    """Yield a function of a step's name, what is done of it and its total (0: not known), that shows them.

    Nothing is shown if ``quiet`` is True, or standard error is no terminal.
    """
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(),
               TimeRemainingColumn(), RowsPerSecond())
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def report(step: str, done: int, total: int) -> None:
            bar.update(task, description=step, completed=done, total=total or None)

        yield report


def tell_steps() -> Callable[[], None]:
    """Show what the package logs, and return a function that ends this."""
    logger, handler = logging.getLogger("trigmech"), logging.StreamHandler()
    # Without times: how long the measuring took may depend on the table.
    handler.setFormatter(logging.Formatter("trigmech: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    def end() -> None:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)

    return end
