"""Which queries a replaced row moves together."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from trigmech.errors import InputError


class Place(NamedTuple):
    """The rows that a query counts: each row is at one of the places of a key, or at no place.

    Queries of the same place may count the same rows. All of them must be indicators of cells.
    """

    key: Hashable
    place: Hashable


def length(places: Sequence[Place | None], parts: Sequence[float], norm: str) -> float:
    """Return the length of the parts of some queries, in "L1", "L2" or "Linf". Places are None for most queries.

    Only the place with the largest parts counts of a key. Proof: in L1 or L2 a row that leaves a place moves its
    queries' entries by half of their parts, or of their squares. So does a row that comes. A row that stays in its
    place moves them by at most their parts. In Linf each entry moves by at most its query's part.

    Raises an InputError if one is neither a place nor None.
    """
    alone, held = list[float](), dict[Place, list[float]]()
    for place, part in zip(places, parts, strict=True):
        if place is None:
            alone.append(part)
        elif isinstance(place, Place):
            held.setdefault(place, []).append(part)
        else:
            # Another pair could join queries that move together, and less noise would be drawn than they need.
            raise InputError(f"a query's disjoint must be a Place or None, not {type(place).__name__}")
    largest = dict[Hashable, float]()
    for place, own in held.items():
        largest[place.key] = max(largest.get(place.key, 0.0), _length(own, norm))
    return _length([*alone, *largest.values()], norm)


def _length(parts: Sequence[float], norm: str) -> float:
    if norm == "Linf":
        return max(parts, default=0.0)
    return float(np.linalg.norm(parts, 1 if norm == "L1" else 2)) if parts else 0.0
