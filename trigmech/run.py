"""One run: the measurements of a design are charged, drawn and released. Only this module and mechanisms use a session.

:mod:`trigmech.synthesis` gives it a table, :mod:`trigmech.parts` the sums of several.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from trigmech._validate import generator
from trigmech.errors import BudgetError, InputError, PaidError, TrigmechError
from trigmech.measurement.private_bounds import with_private_bounds
from trigmech.measurement.private_categories import MOST_FOUND, found_categories
from trigmech.measurement.release import Session
from trigmech.measurement.rows import TableSource
from trigmech.mechanisms.base import Design
from trigmech.noisy_moments import NoisyMoments
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.privacy.noise import Noise, SimulatedNoise, SystemNoise
from trigmech.reconstruction.common import positioned
from trigmech.schema.schema import Schema
from trigmech.storage import rounds_file
from trigmech.storage.room import check_room

logger = logging.getLogger(__name__)


def measured(private: TableSource, schema: Schema, planned: Design, rng: np.random.Generator | None,
              ledger: str | Path | LedgerFile | None, rounds: str | Path | None
              ) -> tuple[NoisyMoments, np.random.Generator]:
    """Return the noisy moments, and the generator for the fit."""
    noise, public_rng = generators(rng)
    account = Ledger(planned.budget, enforced=not planned.mechanism.published, simulated=noise.simulated,
                     file=opened_ledger(ledger))
    if rounds is not None and noise.simulated:
        raise InputError("a simulation (rng) can be repeated, so it must not have a rounds file")
    with nullcontext() if rounds is None else rounds_file.opened(
            rounds, **identity(schema, planned, account.file)) as kept:
        if kept is not None:
            public_rng = taken_up(account, kept)
            if kept.resumed:
                logger.info("continuing an interrupted run")
        with _charges_told(account):
            return run(private, schema, planned, public_rng, account, Session(account, noise, kept)), public_rng


def taken_up(account: Ledger, kept: rounds_file.RoundsFile) -> np.random.Generator:
    """Give a ledger the run of a rounds file, with the charges of another process; return its public random numbers."""
    account.run = kept.run
    if kept.resumed:
        account.written = [entry.charge for entry in (account.file.entries if account.file else ())
                           if entry.run == kept.run]
    return np.random.default_rng(kept.seed)


@contextmanager
def _charges_told(account: Ledger) -> Iterator[None]:
    """Turn an error that comes after a charge into a PaidError: a table or a ledger can change between two rounds."""
    try:
        yield
    except (InputError, BudgetError) as problem:
        if not account.charges or isinstance(problem, PaidError):
            raise
        raise PaidError(f"{problem}. A charge was made before, and stays spent") from problem
    except Exception as problem:
        if not account.charges or isinstance(problem, TrigmechError | OSError | MemoryError):
            raise
        # The text of an error in somebody's own mechanism may quote a row.
        raise PaidError(f"the mechanism failed with {type(problem).__name__}. A charge was made before, and stays "
                        "spent") from None


def identity(schema: Schema, planned: Design, file: LedgerFile | None) -> dict[str, Any]:
    """Return the facts that must be the same for a run to go on; public."""
    mechanism = f"{type(planned.mechanism).__module__}.{type(planned.mechanism).__qualname__}"
    return {"n": planned.n, "ledger": file.identity if file else None,
            "schema": rounds_file.fingerprint(schema.to_dict()),
            "design": rounds_file.fingerprint(mechanism, planned.measured, planned.all_charges, planned.budget)}


def run(private: TableSource, schema: Schema, planned: Design, public_rng: np.random.Generator, account: Ledger,
        session: Session) -> NoisyMoments:
    """Find the private parts of the schema, then let the mechanism release the rest."""
    mechanism, incomplete = planned.mechanism, schema
    if len(planned.rounds) > 1:
        _check_room(session, account, planned.all_charges)
    if not mechanism.published:
        # The thesis's scales depend on released numbers.
        session.declare(*planned.charges)
        session.check_declared(*(each.charge for each in getattr(planned.measured, "rounds", ())))
        session.declare(*planned.all_charges)
    if planned.bounds and not planned.categories and not mechanism.published:
        # Charges after private categories depend on the number of categories.
        session.charge_together(*planned.all_charges)
    if planned.bounds:
        private.say("finding bounds", 0, 0)
        schema = with_private_bounds(private.raw(incomplete), incomplete, planned.bounds, session)
        logger.info("found private bounds of %d columns", len(incomplete.private_bounds))
    if planned.categories:
        private.say("finding categories", 0, 0)
        found = found_categories(private.raw(incomplete), incomplete, planned.categories, session)
        schema, planned = _with_categories(schema, planned, found, session, account)
        if not mechanism.published:
            session.declare(*planned.charges)
        logger.info("found private categories of %d columns", len(found))
    rows = private.rows(schema, found=schema is not incomplete)
    logger.info("releasing %d rows of %d columns by %s, %s noise", rows.n, schema.d, type(mechanism).__name__,
                "simulated" if account.simulated else "hardened")
    released = positioned(mechanism.run(rows, replace(planned, schema=schema), session, public_rng))
    if released.columns:
        logger.info("released %d columns, %d intervals closer", len(released.columns), len(released.closer))
        logger.info("drawn: %d tables of two columns, %d of more", len(released.tables), len(released.triples))
    return NoisyMoments(released, account, schema, private.library, private.categorical, design=planned)


def _with_categories(schema: Schema, planned: Design, found: dict[str, tuple[str, ...]], session: Session,
                     account: Ledger) -> tuple[Schema, Design]:
    """Return the schema with the categories that were found, and the design for it.

    If a mechanism cannot measure so many, or has another kind of noise for them, half as many of each column are tried.
    In the end no category is left; the design for this was checked before anything was charged.
    """
    kept = max(map(len, found.values()))
    while kept:
        complete = schema.with_categories({name: keys[:kept] for name, keys in found.items()})
        try:
            again = planned.mechanism.plan(replace(planned.facts, domain=complete.domain))
            check_selection(schema, planned.budget, is_gaussian(again.charges))
            _check_room(session, account, again.charges)
            with_room(replace(again, schema=complete))
            return complete, replace(planned, facts=again.facts, measured=again.measured, charges=again.charges)
        except Exception:  # A mechanism of somebody's own can raise any, and the categories are paid for.
            logger.info("no design is possible with %d categories of a column", kept)
            kept //= 2
    return schema.with_categories(dict.fromkeys(found, ())), planned


def with_room(planned: Design) -> Design:
    """Return a design if a file can surely hold the release of its run; raise an InputError otherwise."""
    schema = planned.schema_given
    check_room(schema, planned.all_charges, planned.measured,
               planned.mechanism.most_points(planned.n, schema.domain.d), MOST_FOUND * len(schema.private_categories))
    return planned


def is_gaussian(charges: Sequence[Charge]) -> bool:
    return all(charge.law == "gaussian" for charge in charges)


def check_selection(schema: Schema, budget: Budget, gaussian: bool) -> None:
    """Raise a BudgetError if private categories cannot be found with a budget, or by a mechanism of such noise."""
    names = ", ".join(map(repr, schema.private_categories))
    if not budget.delta > 0:
        raise BudgetError(f"the categories of column(s) {names} are private, and finding them needs delta > 0: a "
                          "category with a single row stays hidden only with a probability below 1")
    if not gaussian:
        raise BudgetError(f"the categories of column(s) {names} are private; later measurements must then have "
                          "Gaussian noise with calibrated scales, as with MomentMechanism")


def _check_room(session: Session, account: Ledger, charges: Sequence[Charge]) -> None:
    """Raise the errors of the ledger and the ledger file for further charges."""
    session.check(*charges)
    try:
        account.check(*charges)
    except BudgetError as error:
        if len({charge.law == "gaussian" for charge in charges if charge.law != "threshold"}) == 1:
            raise
        raise BudgetError(f"{error}; together with private bounds, a mechanism with pure noise must have the attribute "
                          "approximate = False") from None
    account.check_file(*charges)


def generators(rng: np.random.Generator | None) -> tuple[Noise, np.random.Generator]:
    """Return the noise of a run, a simulation's if a generator is given, and a generator of public random numbers."""
    if rng is None:
        return SystemNoise(), generator(rng)
    noise_rng, public_rng = generator(rng).spawn(2)
    return SimulatedNoise(noise_rng), public_rng


def opened_ledger(ledger: Any) -> LedgerFile | None:
    """Return the data set's ledger, opened if its path or address is given."""
    if isinstance(ledger, str | Path):
        return LedgerFile.open(ledger)
    if ledger is not None and not isinstance(ledger, LedgerFile):
        raise InputError("ledger must be the path or the address of a ledger, or a LedgerFile, not "
                         f"{type(ledger).__name__}")
    return ledger
