"""The names of proofs that ledgers hold: each has its place in the documentation, and stays what it is."""

import re
from pathlib import Path

import numpy as np
import pytest

import trigmech as tm

PAGE = (Path(__file__).parent.parent / "docs" / "proofs.md").read_text(encoding="utf-8")
ANCHORS = re.findall(r"^## .* \{#([a-z-]+)\}$", PAGE, re.MULTILINE)
# What files have been written with.
STABLE = {"planned-moments", "one-hot-moments", "look-and-tables", "minimax-moments", "chebyshev-means",
          "mean-and-axes", "private-bounds", "private-categories", "its-mechanism", "rounds-of-queries"}
# Those of charges that no mechanism makes.
BESIDE = {"acceptance-tests"}
MIXED = tm.Schema([tm.Column("a", private_bounds=True), tm.Column("b", kind="categorical", categories=("x", "y"))])
FOUND = tm.Schema([tm.Column("b", kind="categorical", categories="private")])


class Own(tm.Mechanism):
    """Means of the columns."""

    def plan(self, facts):
        functions = tm.Features(tm.ChebyshevBasis(np.eye(facts.domain.d, dtype=int)))
        return self.equip(facts, functions, 2.0 * functions.K)


class Rounds(tm.AdaptiveMechanism):
    """Columns, then a choice of tables."""

    rounds = (tm.Measure(0.5), tm.Select(0.5))

    def ask(self, so_far):
        return [so_far.histogram(0)] if so_far.round == 0 else [so_far.marginal(0, 1)]


def test_every_name_has_its_anchor_and_none_is_given_twice():
    assert sorted(ANCHORS) == sorted(STABLE | BESIDE)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_charge_of_every_mechanism_names_a_proof(delta):
    budget, named = tm.Budget(1.0, delta), set()
    cube = tm.Schema.cube(2)
    mechanisms = [tm.MomentMechanism(), tm.TableMechanism(), tm.minimax(2.0), Own(), Rounds()]
    mechanisms += [kind(calibration=how) for how in ("rigorous", "published")
                   for kind in ((tm.TrigI, tm.ImprovedTrigI, tm.TrigII, tm.ImprovedTrigII) if delta else
                                (tm.TrigI, tm.ImprovedTrigI))]
    mixed = [(schema, tm.MomentMechanism()) for schema in ([MIXED, FOUND] if delta else [MIXED])]
    for schema, chosen in [(cube, each) for each in mechanisms] + mixed:
        design = tm.design(500, schema, budget, chosen)
        named |= {charge.proof for charge in design.all_charges}
    # Without a delta categories cannot be found.
    assert named == (STABLE if delta else STABLE - {"private-categories"})
