"""Nothing is charged but what a design declares, each charge once, and noise costs no more than what is recorded."""

import dataclasses
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trigmech as tm
from trigmech.errors import BudgetError, PaidError
from trigmech.functions.features import Features
from trigmech.measurement.release import Session
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import SimulatedNoise

PUBLIC = tm.Schema([tm.Column("a", 0, 1)])
PRIVATE = tm.Schema([tm.Column("a", private_bounds=True)])
BUDGETS = [tm.Budget(1.0), tm.Budget(1.0, 1e-6)]
X = np.linspace(0.0, 1.0, 50)[:, None]


def charge(sensitivity=1.0, scale=2.0, purpose="moments", law="gaussian", norm="L2", **more):
    return tm.Charge(purpose, law, scale, sensitivity, norm, **{"count": 1, "proof": "here", **more})


@dataclass(frozen=True)
class Adaptive(tm.Mechanism):
    """One moment, then as many as are found to be worth it, at a part of epsilon that need not be the declared one."""

    found: int
    part: float = 0.5
    declared: int = 3

    def features(self, count):
        return Features(tm.ChebyshevBasis(np.arange(1, count + 1)[:, None]))

    def equipped(self, facts, count, part):
        share = dataclasses.replace(facts, budget=tm.Budget(facts.budget.epsilon * part, facts.budget.delta / 2.0))
        return self.equip(share, self.features(count), 2.0 * self.declared)

    def plan(self, facts):
        first, second = (self.equipped(facts, count, 0.5) for count in (1, self.declared))
        return dataclasses.replace(first, facts=facts, charges=first.charges + second.charges)

    def run(self, rows, design, session, rng):
        session.release(rows, design.measured)
        return session.release(rows, self.equipped(design.facts, self.found, self.part).measured)


@pytest.mark.parametrize("schema", [PUBLIC, PRIVATE], ids=["public", "private"])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("found", [1, 2, 3, 40])
def test_what_a_round_measures_may_depend_on_the_one_before_and_is_charged_once(found, budget, schema, tmp_path):
    mechanism, book = Adaptive(found), tm.LedgerFile.create(tmp_path / "ledger.json", budget)
    declared = tm.design(50, schema, budget, mechanism).all_charges
    made = tm.measure(X, schema, tm.design(50, schema, budget, mechanism), np.random.default_rng(1), ledger=book)
    assert tuple(made.ledger.charges) == declared
    assert tuple(entry.charge for entry in book.entries) == declared
    assert found == made.release.K


@pytest.mark.parametrize("schema", [PUBLIC, PRIVATE], ids=["public", "private"])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_a_round_that_costs_more_than_was_declared_is_refused_and_not_charged(budget, schema, tmp_path):
    book = tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(100.0, 1e-3))
    declared = tm.design(50, schema, budget, Adaptive(3)).all_charges
    with pytest.raises(PaidError, match="no remaining charge of the design pays for"):
        tm.synthesize(X, schema, budget, Adaptive(3, 0.5 + 1e-9), np.random.default_rng(1), ledger=book)
    # With private bounds all was charged ahead.
    entries = [entry.charge for entry in book.entries]
    assert entries == list(declared if schema is PRIVATE else declared[:1])
    # What costs less is paid for.
    assert len(tm.measure(X, schema, tm.design(50, schema, budget, Adaptive(3, 0.3))).ledger.charges) == len(declared)


@dataclass(frozen=True)
class Silent(Adaptive):
    """The same, which declares its second charge alone."""

    def plan(self, facts):
        design = super().plan(facts)
        return dataclasses.replace(design, charges=(dataclasses.replace(design.charges[1], scale=9e9),))


@pytest.mark.parametrize("schema", [PUBLIC, PRIVATE], ids=["public", "private"])
def test_a_design_whose_own_blocks_are_not_declared_is_refused_before_anything_is_charged(schema, tmp_path):
    book = tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(100.0, 1e-3))
    with pytest.raises(BudgetError, match=r"remaining: moments \(gaussian noise of scale 9e\+09\)"):
        tm.synthesize(X, schema, BUDGETS[1], Silent(3), np.random.default_rng(1), ledger=book)
    assert book.entries == ()


class Tape(SimulatedNoise):
    """Noise that remembers its scales."""

    def __init__(self):
        super().__init__(np.random.default_rng(0))
        self.scales = []

    def gaussian(self, values, scale):
        self.scales.append(scale)
        return super().gaussian(values, scale)


def opened(*declared):
    tape, ledger = Tape(), Ledger(tm.Budget(50.0, 1e-3))
    session = Session(ledger, tape)
    session.declare(*declared)
    return session, tape, ledger


def test_each_declared_charge_pays_once_and_the_cheapest_that_is_enough():
    dear, cheap, other = charge(1.0, 2.0), charge(1.0, 4.0), charge(1.0, 4.0, law="laplace", norm="L1")
    session, tape, ledger = opened(dear, cheap, other)
    less = charge(0.5, 2.5, "less")
    session.charge(less)
    session.charge(charge(1.0, 2.0))
    assert ledger.charges == [cheap, dear]
    for unpaid in (less, charge(1e-6, 9.0), cheap, charge(1.0, 3.999, law="laplace", norm="L1")):
        with pytest.raises(BudgetError, match="of the design pays"):
            session.charge(unpaid)
    assert ledger.charges == [cheap, dear]
    session.draw(np.zeros(2), less)
    assert tape.scales == [2.5]
    with pytest.raises(BudgetError, match="not charged before"):
        session.draw(np.zeros(2), cheap)


def test_of_charges_that_come_together_equal_ones_are_paid_by_their_own():
    session, _, ledger = opened(charge(1.0, 2.0), charge(1.0, 3.0))
    with pytest.raises(BudgetError, match="of the design pays"):
        session.charge(charge(1.0, 2.5), charge(1.0, 2.0))
    assert ledger.charges == []
    session.charge(charge(1.0, 3.5), charge(1.0, 2.0))
    assert ledger.charges == [charge(1.0, 3.0), charge(1.0, 2.0)]


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.floats(1e-9, 1e9), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6), st.integers(-6, 6))
def test_noise_that_a_declared_charge_pays_for_costs_no_more_by_exact_arithmetic(law, strength, first, second, steps):
    norm = "L2" if law == "gaussian" else "L1"
    declared = charge(first, first / strength, law=law, norm=norm)
    scale = second / strength
    for _ in range(abs(steps)):
        scale = math.nextafter(scale, math.inf if steps > 0 else 0.0)
    asked = charge(second, scale, law=law, norm=norm)
    found = asked.scale_paid_by(declared)
    assert found is not None
    assert scale <= found <= scale * (1.0 + 1e-12)
    assert Fraction(second) / Fraction(found) <= Fraction(first) / Fraction(declared.scale)
    # The least one, and none at all if it costs more than by rounding.
    assert found == scale or Fraction(second) / Fraction(math.nextafter(found, 0.0)) > (
        Fraction(first) / Fraction(declared.scale))
    assert dataclasses.replace(asked, scale=scale * (1.0 - 1e-11)).scale_paid_by(declared) is None


def test_noise_is_drawn_at_the_scale_that_is_paid_for():
    declared = charge(1.0, 3.0)
    asked = charge(0.1, 0.1 * 3.0 * (1.0 - 1e-15))
    scale = asked.scale_paid_by(declared)
    assert scale > asked.scale
    session, tape, ledger = opened(declared)
    session.charge(asked)
    session.draw(np.zeros(3), asked)
    assert tape.scales == [scale]
    assert ledger.charges == [declared]


@pytest.mark.parametrize("asked", [
    charge(law="laplace", norm="L1"), charge(count=2), charge(floor=1.0),
    charge(claim=tm.Budget(9.0)), tm.Charge("t", "threshold", 1e-9, 0.0, "none", 1, "here"),
    charge(law="linf", norm="Linf", sensitivity=0.5)])
def test_other_kinds_of_noise_are_paid_for_by_their_equals_alone(asked):
    assert asked.scale_paid_by(charge(1.0, 0.1)) is None
    assert asked.scale_paid_by(asked) == asked.scale
