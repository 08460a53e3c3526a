"""A run up to its first draw, on rows that are all alike: what would be refused is refused before any charge."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech.domain import Domain
from trigmech.errors import BudgetError
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import Mechanism
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import Noise

ROWS_AT_A_TIME = 2**16


class _NoiseAskedForError(Exception):
    """All that can be refused is checked and charged."""


class _Silence:
    """Noise that is certified, and ends the run when it would be drawn."""

    def __init__(self, noise: Noise) -> None:
        self.simulated, self.loss = noise.simulated, noise.loss

    def laplace(self, values: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
        raise _NoiseAskedForError

    gaussian = linf = laplace


class _Trial(Ledger):
    """A ledger of which nothing is told, for nothing is spent."""

    def _log(self, charges: Sequence[Charge]) -> None:
        pass


def rehearse(n: int, domain: Domain, mechanism: Mechanism, spendable: Budget, before: Sequence[Charge],
             account: Ledger, noise: Noise) -> None:
    """Raise what a mechanism would raise between here and its first draw, or what the ledger file would refuse.

    Parameters
    ----------
    n : int
        Rows of the table.
    domain : Domain
    mechanism : Mechanism
    spendable : Budget
        Of the mechanism.
    before : sequence of Charge
        What comes before the mechanism.
    account : Ledger
        Of the run; nothing is charged to it.
    noise : Noise
        Of the run; nothing is drawn from it.

    Raises
    ------
    InputError, BudgetError
        By the mechanism, or if the charges together exceed the budget of the run or of the ledger file.

    Notes
    -----
    Privacy: no row of the table is seen. Cost: that of measuring n rows.
    """
    rehearsed = _Trial(account.budget, account.enforced)
    rehearsed.charge(*before)
    try:
        # A mechanism charges when it has measured, and draws when it has charged.
        mechanism.run(_alike(n, domain), spendable, rehearsed, _Silence(noise), np.random.default_rng())
    except _NoiseAskedForError:
        pass
    except BudgetError as error:
        if hasattr(mechanism, "approximate"):
            raise
        raise BudgetError(f"{error}; beside private bounds a mechanism whose noise is pure must have the attribute "
                          "approximate = False") from None
    if account.file is None or account.simulated or not account.enforced:
        return
    # The whole budget as one charge, for more may follow the first draw. What a run at published scales costs is not
    # known from its budget.
    law: tuple[Any, float, Any] = (("gaussian", 1.0 / gaussian_mu(account.budget), "L2") if spendable.delta > 0
                                   else ("laplace", 1.0 / account.budget.epsilon, "L1"))
    whole = Charge("the whole release", law[0], law[1], 1.0, law[2], 1, "trigmech.mechanisms.rehearsal")
    for charges in ([whole], rehearsed.charges):
        account.file.check(charges)


def _alike(n: int, domain: Domain) -> PrivateRows:
    """Return as many rows as a table has, all alike and none of it."""
    row = np.zeros((min(n, ROWS_AT_A_TIME), domain.d))
    row[:, [group.coordinates[0] for group in domain.groups if group.complete]] = 1.0
    return PrivateRows(n, domain, lambda: (row[: n - at] for at in range(0, n, ROWS_AT_A_TIME)))
