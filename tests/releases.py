"""The release by a session of its own, for tests of one step."""

from trigmech.measurement.release import Session


def release_moments(moments, features, blocks, ledger, noise):
    return Session(ledger, noise).release_moments(moments, features, blocks)


def release_counts(counts, charge, ledger, noise):
    session = Session(ledger, noise)
    session.charge(charge)
    return session.draw(counts, charge)
