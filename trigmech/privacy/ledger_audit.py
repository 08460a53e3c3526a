"""Checks that the content of a ledger is consistent, and the budget that its entries leave."""

import math

from trigmech.privacy.accounting import NextCharge, cost, filtered_epsilon, next_charge
from trigmech.privacy.budget import shown_up
from trigmech.privacy.ledger_format import Entry, Raised, State

# How closely the results of two machines must agree.
AGREEMENT = 1e-6


def problems(state: State, own: bool = False) -> list[str]:
    """Return a sentence for each fault; ``own``: also check the costs of the entries."""
    found = []
    before = state.genesis
    limit = state.made
    seen: dict[tuple[object, ...], tuple[float, float]] = {}
    for place, entry in enumerate(state.entries, 1):
        if entry.sequence != place:
            found.append(f"entry {place} has the number {entry.sequence}")
        if entry.hash != entry.digest(before):
            found.append(f"entry {place} was changed, or the text before it was changed")
        before = entry.hash
        if isinstance(entry, Raised):
            if entry.old != limit:
                found.append(f"entry {place} states that the budget was {entry.old}, but it was {limit}")
            limit = entry.new
        elif own and isinstance(entry, Entry):
            # The cost was computed at the delta of its time.
            charge, delta = entry.charge, limit.budget.delta
            key = (charge.pure_epsilon, charge.mu, charge.claim, charge.claimed_delta, charge.count, delta)
            if key not in seen:
                seen[key] = cost(charge, delta)
            if seen[key][1] != entry.delta or not _agree(seen[key][0], entry.epsilon):
                found.append(f"entry {place} states epsilon = {shown_up(entry.epsilon)} at delta = "
                             f"{shown_up(entry.delta)}, but it is {shown_up(seen[key][0])} at {shown_up(seen[key][1])}")
    total = spent(state)
    if not _agree(total, state.total):
        found.append(f"the ledger states the total {shown_up(state.total)}, but it is {shown_up(total)}")
    if not total <= limit.budget.epsilon * (1.0 + AGREEMENT):
        found.append(f"the total {shown_up(total)} exceeds the budget {limit}")
    return found


def backwards(state: State, seen: tuple[str, int, str]) -> list[str]:
    """Return a fault if the state does not continue an earlier one, of this genesis, number of entries and hash."""
    genesis, count, head = seen
    if state.genesis != genesis:
        return ["it is not the ledger that was opened: its name, budget or time of creation is different"]
    if len(state.entries) < count or (count and state.entries[count - 1].hash != head):
        return [f"it no longer begins with the {count} entries that were read before"]
    return []


def spent(state: State) -> float:
    """Return the total of all entries that count."""
    return filtered_epsilon(state.counted, state.limit.budget.delta, state.limit.reserve_delta)


def remaining(state: State) -> NextCharge:
    """Return the largest next charge of each kind."""
    return next_charge(state.counted, state.limit.budget, state.limit.reserve_delta)


def _agree(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=AGREEMENT, abs_tol=1e-9)
