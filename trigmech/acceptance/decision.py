"""A private decision whether a release is close enough to its private table; the verdict may be published."""

import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from trigmech._html import html_table
from trigmech.acceptance.criteria import Criterion, checked, load_criteria
from trigmech.acceptance.questions import Questions
from trigmech.engines.choice import opened
from trigmech.errors import InputError, shown
from trigmech.measurement.release import Session
from trigmech.measurement.rows import Progress
from trigmech.mechanisms.base import Measured
from trigmech.planning.design import Regime, Round
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_file import LedgerFile
from trigmech.queries.base import ROUNDED_UP, Measurement, scaled
from trigmech.results import Synthesis
from trigmech.run import generators, opened_ledger
from trigmech.schema.schema import counted

logger = logging.getLogger(__name__)

PROOF = "acceptance-tests"
PUBLIC = "These numbers and verdicts are differentially private, and may be published."


@dataclass(frozen=True)
class Verdict:
    """The answer to one criterion. Public.

    Parameters
    ----------
    criterion : Criterion
    value : float or None
        The distance with noise, which can be below 0; None before it is measured.
    deviation : float
        The standard deviation of that noise.
    margin : float
        The noise is above minus this with the criterion's confidence.
    """

    criterion: Criterion
    value: float | None
    deviation: float
    margin: float

    @property
    def met(self) -> bool:
        """Whether the distance is surely at most the limit; False before it is measured."""
        return self.value is not None and abs(self.value) * self._signed + self.value * (
            1 - self._signed) + self.margin <= self.criterion.limit

    @property
    def surely_met(self) -> float:
        """A distance of at most this is accepted with the criterion's confidence too; below 0 if no distance is."""
        return self.criterion.limit - 2.0 * self.margin

    @property
    def _signed(self) -> int:
        return int(self.criterion.measure == "correlation")

    def to_dict(self) -> dict[str, Any]:
        """Return all of it with names, of the types that JSON has."""
        return {**asdict(self.criterion), "columns": list(self.criterion.columns), "value": self.value,
                "deviation": self.deviation, "margin": self.margin, "surely_met": self.surely_met,
                "met": None if self.value is None else self.met}


@dataclass(frozen=True, eq=False)
class Acceptance:
    """The result of :func:`trigmech.accept`. Public: the verdicts are differentially private and may be published.

    Parameters
    ----------
    verdicts : tuple of Verdict
        One for each criterion, in order.
    n : int
        Rows of the table, or persons.
    budget : Budget
        The budget that was spent, or would be spent.
    ledger : Ledger or None
        The charge and the proved guarantee; None before anything is charged.
    """

    verdicts: tuple[Verdict, ...]
    n: int
    budget: Budget
    ledger: Ledger | None

    @property
    def accepted(self) -> bool:
        """Whether all criteria are met."""
        return all(each.met for each in self.verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Return all of it with names, of the types that JSON has."""
        return {"accepted": self.accepted if self.ledger else None, "n": self.n, "budget": self.budget.to_dict(),
                "simulated": bool(self.ledger and self.ledger.simulated),
                "criteria": [each.to_dict() for each in self.verdicts],
                "ledger": self.ledger.to_dict() if self.ledger else None}

    def __str__(self) -> str:
        lines = [f"{_said(each)}" for each in self.verdicts]
        if self.ledger is None:
            return "\n".join([f"An acceptance test of {self.n:,} rows would spend {self.budget}:", *lines])
        counted = sum(each.met for each in self.verdicts)
        private = "SIMULATED, NOT PRIVATE: do not publish." if self.ledger.simulated else PUBLIC
        return "\n".join([f"{'ACCEPTED' if self.accepted else 'NOT ACCEPTED'}: {counted} of {len(self.verdicts)} "
                          f"criteria are met", *lines, f"It cost {self.budget}. {private}"])

    def __repr__(self) -> str:
        verdict = "planned" if self.ledger is None else "accepted" if self.accepted else "not accepted"
        return f"Acceptance({verdict}, {len(self.verdicts)} criteria)"

    def _repr_html_(self) -> str:
        rows = [(each.criterion.words, "" if each.value is None else f"{each.value:.4g}", f"{each.deviation:.2g}",
                 f"{each.criterion.limit:g}", "" if each.value is None else "met" if each.met else "not met")
                for each in self.verdicts]
        return html_table(str(self).splitlines()[0], rows, ("criterion", "value", "deviation of the noise", "limit",
                                                            "verdict"))


def plan_acceptance(release: Synthesis, criteria: Sequence[Criterion] | str | Path, budget: Budget) -> Acceptance:
    """Return an acceptance test without values: the noise that a budget would leave. Nothing private is read.

    Parameters and errors are those of :func:`trigmech.accept`.
    """
    asked, planned, charge = _planned(release, criteria, budget)
    return _decided(asked, planned, charge, release.n, budget, None)


def accept(release: Synthesis, table: Any, criteria: Sequence[Criterion] | str | Path, budget: Budget,
           rng: np.random.Generator | None = None, *, ledger: str | Path | LedgerFile | None = None,
           progress: Progress | None = None) -> Acceptance:
    """Decide privately whether a release is near enough to the table that it was made from; costs budget.

    Parameters
    ----------
    release : Synthesis
    table : dataframe, array_like (n, d), path or TableFile, private
        The table of the release, as :func:`trigmech.synthesize` takes it.
    criteria : sequence of Criterion, or path
        The criteria, or a file of them (:func:`trigmech.acceptance.criteria.load_criteria`).
    budget : Budget
        The budget of the test, in addition to that of the release. Laplace noise if delta is 0, else Gaussian noise.
    rng : numpy.random.Generator, optional
        Makes the test a repeatable *simulation*, which is not private.
    ledger : path, address or LedgerFile, optional
        The data set's ledger, as for :func:`trigmech.synthesize`.
    progress : callable, optional
        Called with the name of a step, the finished amount and the total (0: not known); all public.

    Returns
    -------
    Acceptance
        For each criterion the distance with noise, the noise's standard deviation, and whether the criterion is met.

    Raises
    ------
    InputError
        If an argument breaks a rule, a criterion does not suit the release, the table does not fit the schema or has
        another number of rows than the release says; or if the noise's margin is as large as a limit, so that even a
        perfect release would rarely be accepted. Nothing is charged then.
    BudgetError
        If the ledger has not enough budget left; likewise.

    Notes
    -----
    Privacy: each distance moves by at most a proved amount when a row is replaced, or all rows of one person
    (:mod:`trigmech.queries.distances`). The distances are one vector with one charge, recorded before the noise is
    drawn. A criterion is met if the noisy distance plus a margin is at most the limit; the margin is the confidence's
    quantile of the noise, so a distance beyond the limit passes with probability 1 - confidence at most. All of
    this is post-processing of the noisy vector. Cost: one pass over the table.

    Examples
    --------
    >>> import numpy as np, trigmech as tm
    >>> schema = tm.Schema([tm.Column("age", 0, 120, "integer")])
    >>> table = np.random.default_rng(0).normal(40.0, 9.0, (2_000, 1)).round()
    >>> made = tm.synthesize(table, schema, tm.Budget(2.0, 1e-6), rng=np.random.default_rng(0))
    >>> criteria = [tm.Criterion("worst one-way", limit=0.1)]
    >>> tm.accept(made, table, criteria, tm.Budget(0.2), np.random.default_rng(1)).accepted
    True
    """
    asked, planned, charge = _planned(release, criteria, budget)
    noise, _ = generators(rng)
    account = Ledger(budget, simulated=noise.simulated, file=opened_ledger(ledger))
    session = Session(account, noise)
    with opened(table, release.schema, progress) as private:
        if private.n != release.n:
            raise InputError(f"the release was made from {release.n:,} {counted(release.schema)}, but the table has "
                             f"{private.n:,}; give the table that was released")
        rows = private.rows(release.schema)
        found = session.release(rows, Measured((Round(planned, charge),)), release.schema.domain)
    logger.info("measured %d criteria", len(asked))
    return _decided(asked, found.measurements, charge, release.n, budget, account)


def _planned(release: Any, criteria: Any, budget: Any) -> tuple[tuple[Criterion, ...], tuple[Measurement[Any], ...],
                                                                Charge]:
    """Return the criteria, a weighted query for each, and the charge; refuse all that can be refused without data."""
    if not isinstance(release, Synthesis):
        raise InputError(f"release must be a release from trigmech.synthesize or trigmech.load, not {shown(release)}")
    if not isinstance(budget, Budget):
        raise InputError(f"budget must be a Budget such as Budget(0.1), not {shown(budget)}")
    asked = load_criteria(criteria) if isinstance(criteria, str | Path) else checked(criteria)
    questions, regime = Questions(release.schema, release.distribution), Regime.of(budget)
    queries = [questions.query(each) for each in asked]
    even = [Measurement(query, each.share / query.diameter(regime.norm))
            for each, query in zip(asked, queries, strict=True)]
    planned = scaled(even, regime.norm, release.n)
    charge = regime.charge("acceptance test", ROUNDED_UP / release.n, PROOF)
    for each in _decided(asked, planned, charge, release.n, budget, None).verdicts:
        if not each.margin < each.criterion.limit:
            raise InputError(
                f"{each.criterion.words}: with this budget and {release.n:,} rows the noise's margin is "
                f"{each.margin:.3g}, not below the limit {each.criterion.limit:g}, so even a perfect release would "
                "rarely be accepted; give a larger epsilon, a larger limit or a lower confidence. Nothing is charged")
    return asked, planned, charge


def _decided(asked: Sequence[Criterion], measured: Sequence[Measurement[Any]], charge: Charge, n: int, budget: Budget,
             ledger: Ledger | None) -> Acceptance:
    noise = charge.deviation(len(measured))
    found = []
    for criterion, own in zip(asked, measured, strict=True):
        known = replace(own, noise=noise)
        quantile = (float(ndtri(criterion.confidence)) if charge.law == "gaussian" else
                    -math.log(2.0 * (1.0 - criterion.confidence)) / math.sqrt(2.0))
        found.append(Verdict(criterion, None if known.values is None else float(known.values[0]), known.deviation,
                             max(quantile, 0.0) * known.deviation))
    return Acceptance(tuple(found), n, budget, ledger)


def _said(each: Verdict) -> str:
    limit = f"limit {each.criterion.limit:g}, confidence {each.criterion.confidence:g}"
    if each.value is None:
        beyond = (f"a distance of at most {each.surely_met:.3g} would be accepted with this confidence"
                  if each.surely_met > 0.0
                  else "even a perfect release would be accepted with a lower probability")
        return (f"  {each.criterion.words}: noise {each.deviation:.3g}, margin {each.margin:.3g} ({limit}); {beyond}")
    return (f"  {'met' if each.met else 'NOT MET'}: {each.criterion.words} is {each.value:.4f}, with noise of standard "
            f"deviation {each.deviation:.3g}; needed: at most {each.criterion.limit - each.margin:.4f} ({limit})")
