"""The release by a session of its own, for tests of one step."""

from dataclasses import dataclass

import numpy as np

from trigmech.measurement.counts import NO_PRODUCTS, JointCounts
from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.planning.design import Round, round_of
from trigmech.privacy.budget import Charge
from trigmech.queries.directions import Directions
from trigmech.queries.functions import Functions
from trigmech.queries.joint import Marginal, Products


@dataclass
class Block:
    """Functions that are released by one draw, whatever they move by."""

    members: slice
    weights: np.ndarray
    charge: Charge

    @property
    def deviation(self):
        return self.charge.deviation(len(self.weights))

    def round(self, features):
        query = Functions.of(features, members=self.members, weights=self.weights, proved={self.charge.norm: 0.0})
        return round_of(query, self.charge)


def blocks(design):
    """The rounds of a design, each of one query about consecutive functions."""
    return blocks_of(design.rounds)


def blocks_of(rounds):
    return [Block(each.asked[0].query.members, each.asked[0].query.weights, each.charge) for each in rounds]


def release_moments(moments, features, rounds, ledger, noise):
    """Release sums of functions by the rounds of a design, or by blocks."""
    rounds = [each if isinstance(each, Round) else each.round(features) for each in getattr(rounds, "rounds", rounds)]
    sums = [moments.basis_sum[each.asked[0].query.members] for each in rounds]
    made = Session(ledger, noise).released(rounds, sums, moments.n)
    return Release(moments.n, made[0].query.domain, made)


def release_counts(counts, charge, ledger, noise):
    session = Session(ledger, noise)
    session.charge(charge)
    return session.draw(counts, charge)


def first_and_again(release):
    """What the round of the dependence measured, and what the last one did: tables once more and tables of three."""
    seen, first, again = set(), [], []
    for each in release.measurements:
        if isinstance(each.query, Marginal | Products | Directions):
            # Finer tables of two columns are of the last round, too.
            last = isinstance(each.query, Marginal) and (each.query.columns in seen or len(each.query.columns) > 2)
            (again if last else first).append(each)
            seen.add(each.query.columns if isinstance(each.query, Marginal) else None)
    return first, again


def joint_counts(rows, partitions, tables, scores=(), places=NO_PRODUCTS):
    """Contingency tables, and sums of products of two scores, of private rows."""
    asked = JointCounts(tuple(partitions), tuple((tuple(columns), tuple(maps)) for columns, maps in tables),
                        tuple(scores), places)
    return asked.parted(rows.sums(asked))
