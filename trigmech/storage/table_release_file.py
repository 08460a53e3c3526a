"""What a release of columns and tables is as a file: its parts as flat arrays, and what is checked when they come back.

Indicators and levels of the columns are the schema's domain's, and not repeated. The arrays of the columns stand one
after the other, in the domain's order, and so do those of the closer looks and of the tables.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import Kind, fields
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.partition import Partition, columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.table_release import CloserLook, NoisyHistogram, TableRelease
from trigmech.planning.contrasted import MOST_IN_LOOK
from trigmech.planning.dependence import DependenceDesign
from trigmech.planning.selection import SelectedTables
from trigmech.planning.tables import MOST_INTERVALS, SCORE_BITS
from trigmech.storage.archive import take

Array = NDArray[np.float64]
Integers = NDArray[np.int64]
Arrays = dict[str, NDArray]

KIND = "tables"
# Of a column's released distribution, or of one closer look: beyond what the mechanism makes. The intervals of a first
# look are at most as many as are planned, for what they cost is quadratic.
MOST_POSITIONS = 2**17
# Squares of released numbers and of what noise they have must not overflow.
LARGEST = 1e100


def parts_of(release: TableRelease, domain: Domain) -> tuple[dict[str, Any], Arrays]:
    """Return what the manifest holds of a release, and its arrays by name; all public.

    The domain is the schema's. That of the release is the same, but for integers whose bounds were found for it: their
    values were not known when it was designed, and their intervals may hold any number of them.
    """
    looks, columns, closer, chosen = release.looks, release.columns, release.closer, release.dependence
    unknown = [coordinate for coordinate, _ in domain.levels if release.domain.levels_of(coordinate) is None]
    if _without_levels(domain, unknown) != release.domain:
        raise InputError("the release is of another domain than the schema's")
    if len({look.cumulative for look in looks}) != 1:
        raise InputError("the columns must all have been looked at in the same way")
    arrays = {
        **_partitions_out("release.looks", [look.partition for look in looks]),
        "release.looks.values": _joined([look.values for look in looks]),
        "release.looks.deviations": np.array([look.deviation for look in looks]),
        "release.looks.contrasted": np.array([look.contrasted for look in looks], dtype=np.int64),
        **_partitions_out("release.columns", [column.partition for column in columns]),
        "release.columns.mass": _joined([column.mass for column in columns]),
        "release.columns.deviations": np.array([column.deviation for column in columns]),
        "release.closer.index": np.array([[look.column, look.interval, len(look.frequencies)] for look in closer],
                                         dtype=np.int64).reshape(-1, 3),
        "release.closer.edges": _joined([look.edges for look in closer]),
        "release.closer.frequencies": _joined([look.frequencies for look in closer]),
        "release.closer.deviations": np.array([look.deviation for look in closer], dtype=np.float64),
    }
    manifest = {"kind": KIND, "n": int(release.n), "cumulative": bool(looks[0].cumulative), "dependence": None,
                "selected": None}
    if unknown:
        # Only then: a version that does not know of them reads all other files.
        manifest["continuous"] = unknown
    if chosen is not None:
        manifest["dependence"] = {"deviation": float(release.deviation), "product_weight": float(chosen.product_weight)}
        arrays |= {"release.dependence.maps": np.concatenate(chosen.maps), "release.dependence.tables": chosen.tables,
                   "release.dependence.weights": chosen.weights,
                   "release.dependence.degrees": np.array([each.shape[1] for each in chosen.scores], dtype=np.int64),
                   "release.dependence.scores": np.concatenate([each.ravel() for each in chosen.scores]),
                   "release.dependence.pairs": chosen.pairs,
                   "release.tables": _joined([table.ravel() for table in release.tables]),
                   "release.products": release.products}
    if release.selected is not None:
        last = release.selected
        manifest["selected"] = {"deviation": float(release.selected_deviation), "importance": float(last.importance)}
        arrays |= {"release.selected.weights": last.weights, "release.selected.maps": np.concatenate(last.maps),
                   "release.selected.triples": last.triples, "release.selected.triple_weights": last.triple_weights,
                   "release.triples": _joined([table.ravel() for table in release.triples])}
    return manifest, arrays


def release_of(value: Any, arrays: Arrays, domain: Domain) -> TableRelease:
    """Return the release of :func:`parts_of`, or raise an InputError; its arrays are taken from the dictionary.

    Parameters
    ----------
    value : object
        What the manifest holds of it.
    arrays : dict of str to ndarray
    domain : Domain
        Of the schema.

    Notes
    -----
    Cost: linear in the size of the arrays, whatever they hold.
    """
    optional: dict[str, Kind] = {"continuous": list} if isinstance(value, dict) and "continuous" in value else {}
    values = {"continuous": []} | fields(value, "release", {
        "kind": object, "n": (int, 2), "cumulative": bool, "dependence": object, "selected": object, **optional})
    unknown, known = values["continuous"], [coordinate for coordinate, _ in domain.levels]
    if unknown != [coordinate for coordinate in known if coordinate in unknown]:
        raise InputError("release: continuous must be coordinates of numbers that have few values, in ascending order")
    domain = _without_levels(domain, unknown)
    whole = columns_of(domain)
    looked = _partitions_in("release.looks", arrays, whole, MOST_INTERVALS)
    contrasted = take(arrays, "release.looks.contrasted", len(looked), kind="int64")
    if not np.isin(contrasted, (0, 1)).all() or (contrasted.any() and values["cumulative"]):
        raise InputError("release.looks.contrasted must be 0 or 1, and 0 where intervals are cumulative")
    # A column of one position has no contrasts, and nothing of it is drawn.
    if any(own and partition.size > MOST_IN_LOOK for own, partition in zip(contrasted, looked, strict=True)):
        raise InputError(f"columns that are looked at by contrasts must have at most {MOST_IN_LOOK} positions")
    noisy = _parts(arrays, "release.looks.values", [partition.size - int(own) for partition, own
                                                    in zip(looked, contrasted, strict=True)])
    deviations = _deviations(arrays, "release.looks.deviations", len(looked)).tolist()
    looks = tuple(NoisyHistogram(partition, own, deviation, values["cumulative"], bool(each)) for partition, own,
                  deviation, each in zip(looked, noisy, deviations, contrasted.tolist(), strict=True))
    columns = _columns_in(arrays, whole)
    release = TableRelease(values["n"], domain, looks, _closer_in(arrays, looked), columns)
    if values["dependence"] is not None:
        release = _with_dependence(release, values["dependence"], arrays)
    return release if values["selected"] is None else _with_selected(release, values["selected"], arrays)


def _columns_in(arrays: Arrays, whole: Sequence[Partition]) -> tuple[ReleasedColumn, ...]:
    partitions = _partitions_in("release.columns", arrays, whole, MOST_POSITIONS)
    masses = _parts(arrays, "release.columns.mass", [partition.size for partition in partitions])
    if not all((mass >= 0.0).all() and abs(mass.sum() - 1.0) < 1e-6 for mass in masses):
        raise InputError("the released distribution of each column must be probabilities, which sum to 1")
    deviations = _deviations(arrays, "release.columns.deviations", len(partitions)).tolist()
    return tuple(map(ReleasedColumn, partitions, masses, deviations))


def _closer_in(arrays: Arrays, looked: Sequence[Partition]) -> tuple[CloserLook, ...]:
    index = take(arrays, "release.closer.index", "k", 3, kind="int64").tolist()
    if not (all(0 <= j < len(looked) and 0 <= i < looked[j].intervals and 1 <= count <= MOST_POSITIONS
                for j, i, count in index) and len({(j, i) for j, i, _ in index}) == len(index)):
        raise InputError("the closer looks must be of intervals of the columns, each once")
    edges = _parts(arrays, "release.closer.edges", [count + 1 for _, _, count in index])
    frequencies = _parts(arrays, "release.closer.frequencies", [count for _, _, count in index])
    deviations = _deviations(arrays, "release.closer.deviations", len(index)).tolist()
    if not all((np.diff(own) > 0).all() and np.isin(own[[0, -1]], looked[j].edges).all()
               for (j, _, _), own in zip(index, edges, strict=True)):
        raise InputError("the edges of a closer look must ascend, from one of the first look's to another")
    return tuple(CloserLook(j, i, own, noisy, deviation) for (j, i, _), own, noisy, deviation
                 in zip(index, edges, frequencies, deviations, strict=True))


def _with_dependence(release: TableRelease, value: Any, arrays: Arrays) -> TableRelease:
    """Return the release with its second round."""
    single = fields(value, "release: dependence", {"deviation": float, "product_weight": float})
    _check_deviations("the second round", np.array([single["deviation"]]))
    columns = [column.partition for column in release.columns]
    sizes = [partition.size for partition in columns]
    maps = _maps(arrays, "release.dependence.maps", sizes)
    tables = _sets(arrays, "release.dependence.tables", range(len(columns)))
    weights = _deviations(arrays, "release.dependence.weights", len(tables))
    degrees = take(arrays, "release.dependence.degrees", len(columns), kind="int64")
    if ((degrees < 0) | (degrees > MOST_IN_LOOK)).any():
        raise InputError(f"columns must have 0 to {MOST_IN_LOOK} scores")
    scores = _parts(arrays, "release.dependence.scores",
                    [size * own for size, own in zip(sizes, degrees.tolist(), strict=True)], kind="int64")
    if any((each > 2**SCORE_BITS).any() or (each < -(2**SCORE_BITS)).any() for each in scores):
        raise InputError(f"scores must lie between -2^{SCORE_BITS} and 2^{SCORE_BITS}")
    pairs = _sets(arrays, "release.dependence.pairs",
                   [j for j, partition in enumerate(columns) if partition.value is not None or not len(tables)])
    weight = single["product_weight"]
    if not (1.0 / LARGEST <= weight <= LARGEST if len(pairs) else weight == 0.0):
        raise InputError("the weight of products must be positive, and 0 if there are none")
    chosen = DependenceDesign(maps, tables, weights, tuple(
        each.reshape(size, -1) if own else each.reshape(size, 0)
        for each, size, own in zip(scores, sizes, degrees.tolist(), strict=True)), pairs, weight)
    noisy = _parts(arrays, "release.tables", [a * b for a, b in chosen.shapes])
    products = _bounded("release.products", take(arrays, "release.products", len(chosen.factors)))
    made = replace(release, dependence=chosen, products=products, deviation=single["deviation"],
                   tables=tuple(table.reshape(shape) for table, shape in zip(noisy, chosen.shapes, strict=True)))
    # Of pairs of columns with one cell each there are no products.
    own = [made.product_deviation] if products.size else []
    _check_deviations("the second round", np.append(made.table_deviations, own))
    return made


def _with_selected(release: TableRelease, value: Any, arrays: Arrays) -> TableRelease:
    """Return the release with its last round."""
    single = fields(value, "release: selected", {"deviation": float, "importance": float})
    if release.dependence is None or not 0.0 <= single["importance"] <= LARGEST:
        raise InputError("the last round must follow the second, and its importance must be at least 0")
    _check_deviations("the last round", np.array([single["deviation"]]))
    count, sizes = len(release.tables), [column.partition.size for column in release.columns]
    weights = take(arrays, "release.selected.weights", count)
    _check_deviations("release.selected.weights", weights[weights != 0.0])
    maps = _maps(arrays, "release.selected.maps", sizes)
    triples = _sets(arrays, "release.selected.triples", range(len(sizes)), 3)
    chosen = SelectedTables(weights, maps, triples, _deviations(arrays, "release.selected.triple_weights",
                                                                len(triples)), single["importance"])
    noisy = _parts(arrays, "release.triples", [a * b * c for a, b, c in chosen.shapes])
    made = replace(release, selected=chosen, selected_deviation=single["deviation"],
                   triples=tuple(table.reshape(shape) for table, shape in zip(noisy, chosen.shapes, strict=True)))
    _check_deviations("the last round", np.append(made.table_deviations, made.triple_deviations))
    return made


def _without_levels(domain: Domain, coordinates: Sequence[int]) -> Domain:
    """Return the domain in which these numbers may have any value."""
    return Domain(domain.d, domain.groups, [(coordinate, values) for coordinate, values in domain.levels
                                            if coordinate not in coordinates])


# Arrays of several columns, one after the other.


def _joined(parts: Sequence[NDArray]) -> Array:
    return np.concatenate([np.empty(0), *parts])


def _parts(arrays: Arrays, name: str, lengths: Sequence[int], kind: str = "float64") -> list[NDArray]:
    """Take an array and return its parts, each in memory of its own, as they were before they were joined."""
    whole = _bounded(name, take(arrays, name, sum(lengths), kind=kind))
    return [whole[start:stop].copy() for start, stop in pairwise(np.cumsum([0, *lengths]).tolist())]


def _partitions_out(name: str, partitions: Sequence[Partition]) -> Arrays:
    return {f"{name}.intervals": np.array([partition.intervals for partition in partitions], dtype=np.int64),
            f"{name}.edges": _joined([partition.edges for partition in partitions])}


def _partitions_in(name: str, arrays: Arrays, whole: Sequence[Partition], most: int) -> list[Partition]:
    counts = take(arrays, f"{name}.intervals", len(whole), kind="int64").tolist()
    if not all(count == 0 if column.value is None else 1 <= count <= most
               for column, count in zip(whole, counts, strict=True)):
        raise InputError(f"{name}.intervals must be 1 to {most} for numbers, and 0 for categories")
    edges = _parts(arrays, f"{name}.edges", [count + (count > 0) for count in counts])
    found = [column.cut(own) for column, own in zip(whole, edges, strict=True)]
    for partition in found:
        levels = partition.levels
        if levels is not None and not (np.diff(np.append(np.searchsorted(levels, partition.edges[:-1]), len(levels)))
                                       > 0).all():
            raise InputError(f"{name}.edges must leave a value of the schema's in each interval")
    return found


def _maps(arrays: Arrays, name: str, sizes: Sequence[int]) -> tuple[Integers, ...]:
    maps = _parts(arrays, name, sizes, kind="int64")
    if not all(np.array_equal(found := np.unique(cells), np.arange(len(found))) for cells in maps):
        raise InputError("the cells of each column must be numbered from 0, without gaps")
    return tuple(maps)


def _sets(arrays: Arrays, name: str, allowed: Sequence[int], width: int = 2) -> Integers:
    found = take(arrays, name, "t", width, kind="int64")
    if not ((found[:, :-1] < found[:, 1:]).all() and np.isin(found, np.array(allowed, dtype=np.int64)).all()
            and len(np.unique(found, axis=0)) == len(found)):
        raise InputError(f"{name} must be different sets of {width} columns that there are")
    return found


def _deviations(arrays: Arrays, name: str, count: int) -> Array:
    found = take(arrays, name, count)
    _check_deviations(name, found)
    return found


def _check_deviations(name: str, found: Array) -> None:
    if not ((found >= 1.0 / LARGEST) & (found <= LARGEST)).all():
        raise InputError(f"{name} must have deviations and weights from {1.0 / LARGEST:g} to {LARGEST:g}")


def _bounded(name: str, found: NDArray) -> NDArray:
    if (found > LARGEST).any() or (found < -LARGEST).any():
        raise InputError(f"{name} must hold numbers up to {LARGEST:g}")
    return found
