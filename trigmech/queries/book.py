"""The partitions, maps and functions that queries share, with numbers for files; and the kinds of queries."""

from collections.abc import Sequence
from typing import Any, TypeVar

from numpy.typing import NDArray

from trigmech._arrays import Integers
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.features import Features, FunctionSet
from trigmech.functions.partition import Partition
from trigmech.queries.base import Query

Kind = TypeVar("Kind", bound=type[Query])

# The kinds by their names in files. `register` adds a custom query.
KINDS: dict[str, type[Query]] = {}


def register(kind: Kind) -> Kind:
    """Let files hold a kind of query, which must define `written` and `read`. Usable as a decorator."""
    if KINDS.get(kind.name, kind).__qualname__ != kind.__qualname__:
        raise InputError(f"a query with the name {kind.name!r} is already registered")
    KINDS[kind.name] = kind
    return kind


class Book:
    """Partitions of columns, maps from their positions to cells, and sets of functions, each with a number.

    partitions: Columns and their partitions; ``columns`` is their number at the start.
    maps: The number of each map's partition, and the cells (size,).
    domain: That of the functions.
    """

    def __init__(self, partitions: Sequence[tuple[int, Partition]] = (), maps: Sequence[tuple[int, Integers]] = (),
                 features: Sequence[Features] = (), domain: Domain | None = None) -> None:
        self.partitions, self.maps, self.features = list(partitions), list(maps), list(features)
        self.domain, self._sets = domain, list[FunctionSet](features)
        self._partitions = {(j, id(partition)): i for i, (j, partition) in enumerate(self.partitions)}
        self._maps = {(p, id(cells)): i for i, (p, cells) in enumerate(self.maps)}
        # A cache of the maps that were read, because a release can have many tables.
        self._found: dict[int, tuple[int, Partition, Integers]] = {}
        self._counts: dict[int, int] = {}
        self.columns = len({column for column, _ in self.partitions})

    def partition(self, column: int, partition: Partition) -> int:
        key = column, id(partition)
        if key not in self._partitions:
            self._partitions[key] = len(self.partitions)
            self.partitions.append((column, partition))
        return self._partitions[key]

    def map(self, column: int, partition: Partition, cells: Integers) -> int:
        key = self.partition(column, partition), id(cells)
        if key not in self._maps:
            self._maps[key] = len(self.maps)
            self.maps.append((key[0], cells))
        return self._maps[key]

    def functions(self, features: FunctionSet) -> int:
        """Return the number of a set of functions. Raise an InputError for custom functions."""
        place = next((i for i, known in enumerate(self._sets) if known is features), len(self._sets))
        if place == len(self._sets):
            self.features.append(Features.of(features))
            self._sets.append(features)
        return place

    def functions_at(self, number: int) -> Features:
        return self.features[_within(number, len(self.features), "set of functions")]

    def partition_at(self, number: int) -> tuple[int, Partition]:
        return self.partitions[_within(number, len(self.partitions), "partition")]

    def map_at(self, number: int) -> tuple[int, Partition, Integers]:
        """Return the column, the partition and the cells of the map with this number."""
        if number not in self._found:
            place, cells = self.maps[_within(number, len(self.maps), "map")]
            self._found[number] = *self.partition_at(place), cells
        return self._found[number]

    def count_at(self, number: int) -> int:
        """Return the number of cells of the map with this number."""
        if number not in self._counts:
            self._counts[number] = int(self.map_at(number)[2].max()) + 1
        return self._counts[number]


class Numbers:
    """Takes numbers one after the other from an array of a file."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values, self._next = values, 0

    def one(self) -> int:
        return int(self.some(1)[0])

    def some(self, count: int) -> NDArray[Any]:
        """Return a copy of the next numbers (count,)."""
        first, self._next = self._next, self._next + count
        if not 0 <= first <= self._next <= len(self._values):
            raise InputError("a query in the file has too few numbers")
        return self._values[first : self._next].copy()

    def rest(self) -> NDArray[Any]:
        return self.some(len(self._values) - self._next)

    @property
    def left(self) -> int:
        """How many numbers remain."""
        return len(self._values) - self._next

    def end(self) -> None:
        """Raise an InputError if numbers remain."""
        if self._next != len(self._values):
            raise InputError("a query in the file has too many numbers")


def _within(number: int, count: int, what: str) -> int:
    if not 0 <= number < count:
        raise InputError(f"a query in the file names the {what} {number}; there are {count}")
    return number
