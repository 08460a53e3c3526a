"""The release by a session of its own, for tests of one step."""

from trigmech.measurement.release import Session
from trigmech.queries.joint import Marginal, Products


def release_moments(moments, features, blocks, ledger, noise):
    return Session(ledger, noise).release_moments(moments, features, blocks)


def release_counts(counts, charge, ledger, noise):
    session = Session(ledger, noise)
    session.charge(charge)
    return session.draw(counts, charge)


def first_and_again(release):
    """What the round of the dependence measured, and what the last one did: tables once more and tables of three."""
    seen, first, again = set(), [], []
    for each in release.measurements:
        if isinstance(each.query, Marginal | Products):
            last = isinstance(each.query, Marginal) and (id(each.query) in seen or len(each.query.columns) > 2)
            (again if last else first).append(each)
            seen.add(id(each.query))
    return first, again
