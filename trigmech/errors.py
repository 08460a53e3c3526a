"""Every exception and warning a user can meet.

Messages name the thing, the rule and the given value. They contain public facts only (a name, a bound, a
shape), never a record's value, because an exception can be published like any other output.
"""


import datetime
from decimal import Decimal
from numbers import Number
from typing import Any

PLAIN = (str, bytes, Number, Decimal, datetime.date, datetime.time, datetime.timedelta, type(None))


def shown(value: Any) -> str:
    """Return the text for an option's value in a message: the value if it is a single one, else its type.

    A message must not quote a table that was given in the wrong place: its cells are private.
    """
    return repr(value) if isinstance(value, PLAIN) else f"an object of type {type(value).__name__}"


class TrigmechError(Exception):
    """Base class of all errors raised on purpose by this package."""


class InputError(TrigmechError, ValueError):
    """An argument, a table or a schema breaks a stated rule."""


class BudgetError(TrigmechError, ValueError):
    """A privacy budget is not usable, or a charge would exceed it."""


class UncertainChargeError(InputError):
    """The connection to a ledger's server broke. Nobody knows whether the charge was written: count it as spent."""


class PaidError(InputError):
    """The budget is spent, but an output is missing; the message says why, and what was saved, and where.

    Attributes
    ----------
    moments : NoisyMoments or None
        The released numbers, if the points could not be fitted to them.
    """

    moments: Any = None


class MissingLibraryError(TrigmechError, ImportError):
    """A required library is missing; an extra of this package installs it."""


class WorkerError(TrigmechError, RuntimeError):
    """A process that measured the table ended or failed; questions that it did not answer are not charged."""


class SolverError(TrigmechError, RuntimeError):
    """The linear program could not be solved; the subclasses state why."""


class InfeasibleError(SolverError):
    """No distribution satisfies the constraints, such as a weight cap below 1/m."""


class UnboundedError(SolverError):
    """The objective has no lower bound; the program was not an L1 fit."""


class SolverTimeoutError(SolverError):
    """The time limit passed before any feasible weights were found."""


class FitWarning(UserWarning):
    """The fitted points do not agree with the released numbers, or do not use them at all.

    This warning is never raised as an error, even if a filter turns warnings into errors: the release is paid for.
    """


class NumericalError(SolverError):
    """The solver stopped without an answer that its certificate confirms."""
