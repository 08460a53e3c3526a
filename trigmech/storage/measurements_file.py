"""The form of measurements in a file: their queries as numbers, and the checks when they are read again.

Indicators and levels of the columns are the schema's domain's, and not repeated. Partitions and maps that several
queries share are written once. Each query is a row of whole numbers and a row of floats, whose meaning its kind knows
(:meth:`trigmech.queries.base.Query.written`).
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array, Integers
from trigmech._validate import Kind, fields
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.functions.partition import Partition, columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.released import Axes, Release
from trigmech.queries.base import Measurement, Query
from trigmech.queries.book import KINDS, Book, Numbers
from trigmech.storage.archive import take

Arrays = dict[str, NDArray]

KIND = "measurements"
AXES = ("directions", "images", "previous")
# The laws of noise, by their numbers in files.
LAWS = ("gaussian", "laplace", "linf", "exponential", "threshold", "other")
# Beyond any plan: a file must not ask for work without bound when its functions are set up.
MOST_DEGREES, MOST_PROFILE, MOST_COEFFICIENTS = 2**22, 2**10, 2**17
# The most positions of a column. No mechanism makes so many.
MOST_POSITIONS = 2**17
# Squares of released numbers, and of the deviations of their noise, must not overflow.
LARGEST = 1e100
# The most numbers of one query, as many as an archive can hold.
MOST_SIZE = 2**27


def parts_of(release: Release, domain: Domain) -> tuple[dict[str, Any], Arrays]:
    """Return the manifest's entry about a release, and its arrays by name; all public.

    The domain is the schema's. That of the release is the same, but for integers whose bounds were found for it: their
    values were not known when it was designed, and their intervals may hold any number of them.

    Raises an InputError if a query has no form in a file.
    """
    unknown = [coordinate for coordinate, _ in domain.levels if release.domain.levels_of(coordinate) is None]
    if without_levels(domain, unknown) != release.domain:
        raise InputError("the domain of the release differs from the schema's")
    book = Book([(j, column.partition) for j, column in enumerate(release.columns)], domain=domain)
    queries: dict[int, Query] = {id(each.query): each.query for each in release.measurements}
    for query in queries.values():
        if KINDS.get(query.name) is not type(query):
            raise InputError(f"queries of the kind {query.name!r} are not registered, so a file cannot hold them; see "
                             "trigmech.queries.book.register")
    written = [query.written(book) for query in queries.values()]
    names = sorted({query.name for query in queries.values()})
    places = {key: i for i, key in enumerate(queries)}
    manifest = {"kind": KIND, "n": int(release.n), "queries": names, "importance": float(release.importance)}
    if unknown:
        manifest["continuous"] = unknown
    more: Arrays = {} if release.mean is None else {"release.mean": release.mean}
    if release.axes is not None:
        more |= {f"release.axes.{name}": getattr(release.axes, name) for name in AXES}
    laws = [LAWS.index(each.law) for each in release.measurements]
    if any(laws):
        more["release.measurements.laws"] = _whole(laws)
    for i, features in enumerate(book.features):
        more |= {f"release.functions.{i}.degrees": features.basis.index,
                 f"release.functions.{i}.profiles": features.profiles}
    return manifest, more | {
        "release.columns.mass": _joined([column.mass for column in release.columns]),
        "release.columns.deviations": np.array([column.deviation for column in release.columns]),
        "release.partitions.columns": _whole([j for j, _ in book.partitions]),
        "release.partitions.intervals": _whole([partition.intervals for _, partition in book.partitions]),
        "release.partitions.edges": _joined([partition.edges for _, partition in book.partitions]),
        "release.maps.partitions": _whole([place for place, _ in book.maps]),
        "release.maps.cells": np.concatenate([_whole([]), *(cells for _, cells in book.maps)]),
        "release.queries.kinds": _whole([names.index(query.name) for query in queries.values()]),
        "release.queries.lengths": _whole([[len(numbers), len(floats)] for numbers, floats in written]).reshape(-1, 2),
        "release.queries.integers": _whole([number for numbers, _ in written for number in numbers]),
        "release.queries.floats": _joined([floats for _, floats in written]),
        "release.measurements.queries": _whole([places[id(each.query)] for each in release.measurements]),
        "release.measurements.weights": np.array([each.weight for each in release.measurements], dtype=np.float64),
        "release.measurements.noise": np.array([each.noise for each in release.measurements], dtype=np.float64),
        "release.measurements.values": _joined([each.known for each in release.measurements])}


def release_of(value: Any, arrays: Arrays, domain: Domain) -> Release:
    """Return the release of :func:`parts_of`, or raise an InputError; its arrays are taken from the dictionary.

    Cost: linear in the size of the arrays, for any content.
    """
    values, domain = entries_of(value, domain, {"kind": object, "n": (int, 2), "queries": list, "importance": float})
    if not 0.0 <= values["importance"] <= LARGEST:
        raise InputError("release: importance must be at least 0")
    whole = columns_of(domain)
    book = _book_in(arrays, whole, domain)
    queries = _queries_in(arrays, values["queries"], book)
    places = take(arrays, "release.measurements.queries", "m", kind="int64")
    weights = positive(arrays, "release.measurements.weights", len(places))
    noise = take(arrays, "release.measurements.noise", len(places))
    if not ((places >= 0) & (places < len(queries))).all():
        raise InputError("release.measurements.queries must be numbers of queries")
    held = [queries[place] for place in places.tolist()]
    drawn = parts_in(arrays, "release.measurements.values", [query.size for query in held])
    fixed = np.array([query.constant for query in held], dtype=bool)
    if noise[fixed].any():
        raise InputError("release.measurements.noise must be 0 for the constant")
    checked_deviations("release.measurements.noise", noise[~fixed])
    # Numbers computed from both must not overflow either.
    checked_deviations("release.measurements", (noise / weights)[~fixed])
    laws = np.zeros(len(places), dtype=np.int64)
    if "release.measurements.laws" in arrays:
        laws = take(arrays, "release.measurements.laws", len(places), kind="int64")
    if not ((laws >= 0) & (laws < len(LAWS))).all():
        raise InputError(f"release.measurements.laws must be numbers of the laws {', '.join(LAWS)}")
    made = tuple(Measurement(query, weight, values, own, LAWS[law]) for query, weight, values, own, law in zip(
        held, weights.tolist(), drawn, noise.tolist(), laws.tolist(), strict=True))
    columns = columns_in(arrays, [partition for _, partition in book.partitions[: len(whole)]])
    mean, axes = axes_in(arrays, domain.d)
    release = Release(values["n"], domain, made, columns, importance=values["importance"], mean=mean, axes=axes)
    if not columns or _are_of(queries, [column.partition for column in columns]):
        return release
    return release.on(columns)


def _book_in(arrays: Arrays, whole: Sequence[Partition], domain: Domain) -> Book:
    columns = take(arrays, "release.partitions.columns", "p", kind="int64")
    # Without any, columns were not measured by positions.
    if not (((columns >= 0) & (columns < len(whole))).all()
            and np.array_equal(columns[: len(whole)], np.arange(len(whole) if len(columns) else 0))):
        raise InputError("release.partitions.columns must be numbers of columns, first of each column one")
    partitions = partitions_in(arrays, "release.partitions", [whole[j] for j in columns.tolist()], MOST_POSITIONS)
    places = take(arrays, "release.maps.partitions", "q", kind="int64")
    if not ((places >= 0) & (places < len(partitions))).all():
        raise InputError("release.maps.partitions must be numbers of partitions")
    maps = maps_in(arrays, "release.maps.cells", [partitions[place].size for place in places.tolist()])
    sets = list[Features]()
    while (name := f"release.functions.{len(sets)}") + ".degrees" in arrays:
        sets.append(features_in(take(arrays, f"{name}.degrees", "K", domain.d, kind="int64"),
                                take(arrays, f"{name}.profiles", "G", "q + 1")))
    return Book(list(zip(columns.tolist(), partitions, strict=True)),
                list(zip(places.tolist(), maps, strict=True)), sets, domain)


def partitions_in(arrays: Arrays, name: str, whole: Sequence[Partition], most: int) -> list[Partition]:
    """Return columns cut by stored edges, in at most so many intervals, with a level in each if there are levels."""
    counts = take(arrays, f"{name}.intervals", len(whole), kind="int64").tolist()
    if not all(count == 0 if column.value is None else 1 <= count <= most
               for column, count in zip(whole, counts, strict=True)):
        raise InputError(f"{name}.intervals must be 1 to {most} for numbers, and 0 for categories")
    edges = parts_in(arrays, f"{name}.edges", [count + (count > 0) for count in counts])
    found = [column.cut(own) for column, own in zip(whole, edges, strict=True)]
    for partition in found:
        if partition.levels is not None and not (np.diff(partition.first_levels) > 0).all():
            raise InputError(f"{name}.edges must leave a value of the schema's in each interval")
    return found


def maps_in(arrays: Arrays, name: str, sizes: Sequence[int]) -> list[Integers]:
    """Return maps from positions to cells, or raise an InputError."""
    maps = parts_in(arrays, name, sizes, "int64")
    if not all(np.array_equal(found := np.unique(cells), np.arange(len(found))) for cells in maps):
        raise InputError("the cells of each column must be numbered from 0, without gaps")
    return maps


def features_in(degrees: Integers, profiles: Array) -> Features:
    """Return the functions of a file, or raise an InputError."""
    if (degrees < 0).any() or (degrees > MOST_DEGREES).any() or degrees.max(axis=0, initial=0).sum() > MOST_DEGREES:
        raise InputError(f"the degrees of all columns must be at least 0, and at most {MOST_DEGREES} together")
    basis = ChebyshevBasis(degrees)
    if profiles.shape[1] > MOST_PROFILE or profiles.size > MOST_COEFFICIENTS:
        raise InputError(f"profiles must have at most {MOST_PROFILE} coefficients, and {MOST_COEFFICIENTS} together")
    return Features.exactly(basis, profiles)


def axes_in(arrays: Arrays, d: int) -> tuple[Array | None, Axes | None]:
    """Return the mean of the rows and the principal axes, as far as a file has them, or raise an InputError."""
    mean = take(arrays, "release.mean", d) if "release.mean" in arrays else None
    if "release.axes.directions" not in arrays:
        return mean, None
    if mean is None:
        raise InputError("principal axes need a mean")
    k = arrays["release.axes.directions"].shape[-1] if arrays["release.axes.directions"].ndim else 0
    axes = Axes(*(take(arrays, f"release.axes.{name}", d, k) for name in AXES))
    if not 1 <= k <= d or not all(np.abs(columns.T @ columns - np.eye(k)).max() < 1e-6
                                  for columns in (axes.directions, axes.previous)):
        raise InputError("principal axes must be 1 to d orthonormal columns")
    return mean, axes


def _queries_in(arrays: Arrays, names: list[Any], book: Book) -> list[Query]:
    strange = [name for name in names if not isinstance(name, str) or name not in KINDS]
    if strange:
        raise InputError(f"the file has queries of the kind {str(strange[0])[:40]!r}, which are not registered; import "
                         "the module that defines it before loading")
    kinds = take(arrays, "release.queries.kinds", "q", kind="int64")
    lengths = take(arrays, "release.queries.lengths", len(kinds), 2, kind="int64")
    if not ((kinds >= 0) & (kinds < len(names))).all() or (lengths < 0).any():
        raise InputError("release.queries.kinds must be numbers of kinds, and lengths at least 0")
    integers = _views_in(arrays, "release.queries.integers", lengths[:, 0].tolist(), "int64")
    floats = _views_in(arrays, "release.queries.floats", lengths[:, 1].tolist())
    found = []
    for kind, numbers, more in zip(kinds.tolist(), map(Numbers, integers), map(Numbers, floats), strict=True):
        query = KINDS[names[kind]].read(numbers, more, book)
        numbers.end()
        more.end()
        # Before anything of this size is made.
        if not 0 <= query.size <= MOST_SIZE:
            raise InputError(f"a query in the file has more than {MOST_SIZE} numbers")
        found.append(query)
    return found


def columns_in(arrays: Arrays, partitions: Sequence[Partition]) -> tuple[ReleasedColumn, ...]:
    """Return the released distribution of each column, or raise an InputError."""
    masses = parts_in(arrays, "release.columns.mass", [partition.size for partition in partitions])
    if not all((mass >= 0.0).all() and abs(mass.sum() - 1.0) < 1e-6 for mass in masses):
        raise InputError("the released distribution of each column must be probabilities, which sum to 1")
    deviations = positive(arrays, "release.columns.deviations", len(partitions)).tolist()
    return tuple(map(ReleasedColumn, partitions, masses, deviations))


def _are_of(queries: Sequence[Query], columns: Sequence[Partition]) -> bool:
    """Return whether tables and products are of the columns' positions; refuse those that do not consist of them."""
    starts = [_starts(partition) for partition in columns]
    known = {id(partition) for partition in columns}
    for query in queries:
        for j, partition in query.held:
            if id(partition) in known:
                continue
            known.add(id(partition))
            own, finer = _starts(partition), starts[j]
            # An interval of theirs may be several of the column's, but it must end where one of these does.
            if not np.array_equal(finer[np.minimum(np.searchsorted(finer, own), len(finer) - 1)], own):
                raise InputError("the positions of tables and products must consist of those of the columns")
    return len(known) == len(columns)


def _starts(partition: Partition) -> NDArray[Any]:
    """Return where intervals begin, of numbers of few values as places among these; a 0 for categories."""
    if partition.value is None:
        return np.zeros(1)
    return partition.edges[:-1] if partition.levels is None else partition.first_levels[:-1]


def entries_of(value: Any, domain: Domain, kinds: dict[str, Kind]) -> tuple[dict[str, Any], Domain]:
    """Return the checked entries of a manifest about a release, and the domain without the levels that it ignores."""
    optional: dict[str, Kind] = {"continuous": list} if isinstance(value, dict) and "continuous" in value else {}
    values = {"continuous": []} | fields(value, "release", {**kinds, **optional})
    unknown, known = values["continuous"], [coordinate for coordinate, _ in domain.levels]
    if unknown != [coordinate for coordinate in known if coordinate in unknown]:
        raise InputError("release: continuous must be coordinates of numbers that have few values, in ascending order")
    return values, without_levels(domain, unknown)


def without_levels(domain: Domain, coordinates: Sequence[int]) -> Domain:
    """Return the domain in which these numbers may have any value."""
    return Domain(domain.d, domain.groups, [(coordinate, values) for coordinate, values in domain.levels
                                            if coordinate not in coordinates])


def parts_in(arrays: Arrays, name: str, lengths: Sequence[int], kind: str = "float64") -> list[NDArray]:
    """Take an array and return its parts, each in memory of its own, as they were before they were joined."""
    return [part.copy() for part in _views_in(arrays, name, lengths, kind)]


def _views_in(arrays: Arrays, name: str, lengths: Sequence[int], kind: str = "float64") -> list[NDArray]:
    whole = take(arrays, name, sum(lengths), kind=kind)
    if (whole > LARGEST).any() or (whole < -LARGEST).any():
        raise InputError(f"{name} must hold numbers up to {LARGEST:g}")
    return [whole[start:stop] for start, stop in pairwise(accumulate(lengths, initial=0))]


def checked_deviations(name: str, found: Array) -> None:
    """Raise an InputError unless all are positive, and neither so large nor so small that squares overflow."""
    if not ((found >= 1.0 / LARGEST) & (found <= LARGEST)).all():
        raise InputError(f"{name} must have deviations and weights from {1.0 / LARGEST:g} to {LARGEST:g}")


def positive(arrays: Arrays, name: str, count: int) -> Array:
    """Take an array of deviations or weights; see :func:`checked_deviations`."""
    found = take(arrays, name, count)
    checked_deviations(name, found)
    return found


def _joined(parts: Sequence[NDArray]) -> Array:
    return np.concatenate([np.empty(0), *parts])


def _whole(values: Sequence[Any]) -> Integers:
    return np.array(values, dtype=np.int64)
