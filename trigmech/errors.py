"""Every exception and warning a user can meet.

Messages name the thing, the rule and what was given. They speak of public facts only (a name, a bound, a
shape), never of a record's value, because an exception can leave the house like any other output.
"""


import datetime
from decimal import Decimal
from numbers import Number
from typing import Any

PLAIN = (str, bytes, Number, Decimal, datetime.date, datetime.time, datetime.timedelta, type(None))


def shown(value: Any) -> str:
    """Return what a message may show of a value given for an option: itself if it is a single one, else its type.

    A table that is given in the wrong place must not be quoted: its cells are private.
    """
    return repr(value) if isinstance(value, PLAIN) else f"an object of type {type(value).__name__}"


class TrigmechError(Exception):
    """Base class of all errors raised on purpose by this package."""


class InputError(TrigmechError, ValueError):
    """An argument, a table or a schema breaks a stated rule."""


class BudgetError(TrigmechError, ValueError):
    """A privacy budget is not usable, or a charge would exceed it."""


class UncertainChargeError(InputError):
    """The connection to a ledger's server broke, and whether a charge is there is not known: it counts as spent."""


class MissingLibraryError(TrigmechError, ImportError):
    """A library is needed that only an extra of this package installs."""


class WorkerError(TrigmechError, RuntimeError):
    """Processes that measure a table for this one ended or failed; nothing is charged for what they did not answer."""


class SolverError(TrigmechError, RuntimeError):
    """The linear program could not be solved; the subclasses state why."""


class InfeasibleError(SolverError):
    """No distribution satisfies the constraints, such as a weight cap below 1/m."""


class UnboundedError(SolverError):
    """The objective has no lower bound; the program was not an L1 fit."""


class SolverTimeoutError(SolverError):
    """The time limit passed before any feasible weights were found."""


class FitWarning(UserWarning):
    """A distribution was made, but it misses what was released, or has nothing of it.

    Never raised: where a filter makes errors of warnings it is shown all the same, for the release is paid for.
    """


class NumericalError(SolverError):
    """The solver stopped without an answer that its certificate confirms."""
