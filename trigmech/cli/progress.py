"""Progress with the time left, and the log of each step, on standard error."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import progress as shown
from rich.console import Console
from rich.text import Text


class RowsPerSecond(shown.ProgressColumn):
    """How fast a table is measured; empty in other steps."""

    def render(self, task: shown.Task) -> Text:
        known = task.description == "measuring" and task.speed
        return Text(f"{task.speed:,.0f} rows/s" if known else "")


Report = Callable[[str, int, int], None]


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Report]:
    """Yield a function that shows a step's name, how much of it is done, and its total (0: unknown).

    Nothing is shown if ``quiet`` is True or standard error is no terminal.
    """
    console = Console(stderr=True)
    columns = (shown.SpinnerColumn(), shown.TextColumn("{task.description}"), shown.BarColumn(),
               shown.TaskProgressColumn(), shown.TimeRemainingColumn(), RowsPerSecond())
    with shown.Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def report(step: str, done: int, total: int) -> None:
            bar.update(task, description=step, completed=done, total=total or None)

        yield report


def tell_steps() -> Callable[[], None]:
    """Show the log of the package, and return a function that ends this."""
    logger, handler = logging.getLogger("trigmech"), logging.StreamHandler()
    # Without times: how long the measuring took may depend on the table.
    handler.setFormatter(logging.Formatter("trigmech: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)

    def end() -> None:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)

    return end
