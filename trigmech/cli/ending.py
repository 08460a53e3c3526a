"""How the command line ends: one line on standard error, and an exit status that tells scripts the kind of error."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import typer

from trigmech._memory import shortage
from trigmech.errors import BudgetError, PaidError, SolverError, TrigmechError, UncertainChargeError, WorkerError

# The exit status for each kind of error; the first kind that fits counts. With 2 and 4 nothing was charged.
STATUSES: tuple[tuple[type[TrigmechError], int], ...] = (
    (SolverError, 5), (BudgetError, 4), (PaidError, 8), (UncertainChargeError, 8), (WorkerError, 1), (TrigmechError, 2))
# Set to anything, this shows unexpected errors in full.
DEBUG = "TRIGMECH_DEBUG"
# The user and the password of an address.
USER = re.compile(r"://[^/@\s]*@")


class Ended(SystemExit):
    """A signal ended the command."""

    code: int


def by_signal(number: int, frame: object) -> NoReturn:
    """End the command with the status of the signal."""
    raise Ended(128 + number)


def end(run: Callable[[], Any]) -> NoReturn:
    """Run the command line to its end; an error of this package ends it with one line and the status of its kind."""
    try:
        status = run()
    except TrigmechError as error:
        _stop(str(error), next(status for kind, status in STATUSES if isinstance(error, kind)))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of polars is not an Exception.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            _wrong_usage(error)
        if os.environ.get(DEBUG):
            raise
        little = shortage(error)
        if little is not None:
            _stop(little, 1)
        if isinstance(error, OSError) and error.errno:
            # Such as a full disk. The system's words for an error number quote nothing.
            _stop(os.strerror(error.errno), 1)
        # A library's message may quote the table, so it is not shown unasked.
        _stop(f"an unexpected {type(error).__name__}; its message is hidden because it might quote the table. This is "
              f"a fault of the program. {DEBUG}=1 shows the message and its origin.", 1)
    # A command that ends early returns its status; others return nothing.
    sys.exit(status if isinstance(status, int) else 0)


def _stop(message: str, status: int) -> NoReturn:
    typer.echo(f"trigmech: {message}", err=True)
    sys.exit(status)


def _wrong_usage(error: Any) -> NoReturn:
    """End with Typer's message about the command's words, the given value, and where to read more."""
    context, option = getattr(error, "ctx", None), getattr(error, "param", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        sys.exit(2)
    message = error.format_message().strip().removeprefix("Invalid value: ").removesuffix(".")
    others = [] if context is None else _commands_with(getattr(error, "option_name", None), context.find_root())
    if others:
        # In place of options of this command with a similar name.
        has = "has" if len(others) == 1 else "have"
        message = f"No such option: {error.option_name}; {' and '.join(others)} {has} it"
    given = _given(option.opts if option is not None else ())
    asked = "" if given is None or given in message else f", not {given!r}"
    help_of = "trigmech" if context is None else context.command_path
    rest = " See" if message.endswith("?") else f"{asked}; see"
    # An address in the wrong place may hold a password.
    _stop(USER.sub("://...@", f"{message}{rest} '{help_of} --help'"), 2)


def _commands_with(option: str | None, root: Any) -> list[str]:
    """Return the commands below the program that have an option, as code."""
    def below(command: Any, path: str) -> Iterator[str]:
        for name, each in getattr(command, "commands", {}).items():
            yield from below(each, f"{path} {name}")
        if any(option in parameter.opts for parameter in command.params):
            yield f"`{path}`"

    return [] if option is None else list(below(root.command, root.command_path))


def _given(names: Any) -> str | None:
    """Return the last value that the command line has for an option of these names, as it was written."""
    found = None
    for word, following in zip(sys.argv, [*sys.argv[1:], None], strict=True):
        for name in names:
            if word == name:
                found = following
            elif name.startswith("--") and word.startswith(f"{name}="):
                found = word.removeprefix(f"{name}=")
    return found
