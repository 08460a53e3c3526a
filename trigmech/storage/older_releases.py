"""Releases by version 0.1: read, and never written.

In releases of columns and tables, the arrays of the columns stand one after the other, in the domain's order, and so
do those of the closer looks and of the tables. For a table that was measured twice, the file has only the mean by the
precisions.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Integers
from trigmech._validate import Kind, fields
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.functions.partition import Partition, columns_of
from trigmech.measurement.released import Release
from trigmech.planning.contrasted import MOST_IN_LOOK, MOST_INTERVALS
from trigmech.privacy.ledger import Ledger
from trigmech.queries.base import Measurement
from trigmech.queries.joint import SCORE_BITS, Marginal, Products
from trigmech.queries.one_way import Contrasts, Detail, Histogram, PrefixSums
from trigmech.storage.archive import take
from trigmech.storage.measurements_file import (
    LARGEST,
    MOST_POSITIONS,
    axes_in,
    checked_deviations,
    columns_in,
    entries_of,
    features_in,
    maps_in,
    partitions_in,
    parts_in,
    positive,
)

Arrays = dict[str, NDArray]

TABLES = "tables"
# Releases by the thesis's mechanisms had one noise scale, and a kind of their own.
MOMENTS = ("moments", "thesis")


def of_moments(ledger: Ledger, value: Any, arrays: Arrays, domain: Domain) -> Release:
    """Return a release of means of functions, or raise an InputError; its arrays are taken from the dictionary."""
    thesis = value.get("kind") == "thesis"
    more: dict[str, Kind] = {"scale": float} if thesis else {}
    values = fields(value, "release", {"kind": object, "n": (int, 2), **more})
    index = take(arrays, "release.index", "K", domain.d, kind="int64")
    profiles = np.empty((0, 2)) if thesis else take(arrays, "release.profiles", "G", "q + 1")
    features, moving = features_in(index, profiles), np.asarray(index.any(axis=1))
    if thesis:
        if not values["scale"] > 0.0:
            raise InputError("scale must be a number above 0")
        laplace = any(charge.purpose == "basis means" and charge.law == "laplace" for charge in ledger.charges)
        deviations = np.where(moving, values["scale"] * (math.sqrt(2.0) if laplace else 1.0), 0.0)
    else:
        deviations = take(arrays, "release.scales", features.K)
        if not (np.delete(deviations, np.flatnonzero(~moving)) > 0).all() or deviations[: len(index)][~moving].any():
            raise InputError("the scales of the noise must be positive, and 0 for the constant")
    return Release.of_moments(values["n"], features, take(arrays, "release.means", features.K), deviations, domain,
                              *axes_in(arrays, domain.d))


def of_tables(value: Any, arrays: Arrays, domain: Domain) -> Release:
    """Return a release of columns and tables, or raise an InputError; its arrays are taken from the dictionary.

    Cost: linear in the size of the arrays, for any content.
    """
    values, domain = entries_of(value, domain, {"kind": object, "n": (int, 2), "cumulative": bool, "dependence": object,
                                                "selected": object})
    whole = columns_of(domain)
    looked = partitions_in(arrays, "release.looks", whole, MOST_INTERVALS)
    contrasted = take(arrays, "release.looks.contrasted", len(looked), kind="int64")
    if not np.isin(contrasted, (0, 1)).all() or (contrasted.any() and values["cumulative"]):
        raise InputError("release.looks.contrasted must be 0 or 1, and 0 where intervals are cumulative")
    # A column of one position has no contrasts, and nothing of it is drawn.
    if any(own and partition.size > MOST_IN_LOOK for own, partition in zip(contrasted, looked, strict=True)):
        raise InputError(f"columns that are looked at by contrasts must have at most {MOST_IN_LOOK} positions")
    noisy = parts_in(arrays, "release.looks.values", [partition.size - int(own) for partition, own
                                                    in zip(looked, contrasted, strict=True)])
    deviations = positive(arrays, "release.looks.deviations", len(looked)).tolist()
    kind = PrefixSums if values["cumulative"] else Histogram
    looks = tuple(Measurement((Contrasts if each else kind)(j, partition), 1.0, own, deviation)
                  for j, (partition, own, deviation, each) in enumerate(zip(
                      looked, noisy, deviations, contrasted.tolist(), strict=True)))
    columns = columns_in(arrays, partitions_in(arrays, "release.columns", whole, MOST_POSITIONS))
    release = Release(values["n"], domain, (*looks, *_closer_in(arrays, looked)), columns)
    if values["dependence"] is not None:
        release = _with_dependence(release, values["dependence"], arrays)
    return release if values["selected"] is None else _with_selected(release, values["selected"], arrays)


def _closer_in(arrays: Arrays, looked: Sequence[Partition]) -> tuple[Measurement[Detail], ...]:
    index = take(arrays, "release.closer.index", "k", 3, kind="int64").tolist()
    if not (all(0 <= j < len(looked) and 0 <= i < looked[j].intervals and 1 <= count <= MOST_POSITIONS
                for j, i, count in index) and len({(j, i) for j, i, _ in index}) == len(index)):
        raise InputError("the closer looks must be of intervals of the columns, each once")
    edges = parts_in(arrays, "release.closer.edges", [count + 1 for _, _, count in index])
    frequencies = parts_in(arrays, "release.closer.frequencies", [count for _, _, count in index])
    deviations = positive(arrays, "release.closer.deviations", len(index)).tolist()
    if not all((np.diff(own) > 0).all() and np.isin(own[[0, -1]], looked[j].edges).all()
               for (j, _, _), own in zip(index, edges, strict=True)):
        raise InputError("the edges of a closer look must ascend, from one of the first look's to another")
    found = []
    for (j, _, _), own, noisy, deviation in zip(index, edges, frequencies, deviations, strict=True):
        # The partition that it was of is not in the file: of this one it is an interval too.
        around = looked[j].cut(np.unique([-1.0, own[0], own[-1], 1.0]))
        interval = int(np.searchsorted(around.edges, own[0]))
        found.append(Measurement(Detail(j, around, interval, own), 1.0, noisy, deviation))
    return tuple(found)


def _with_dependence(release: Release, value: Any, arrays: Arrays) -> Release:
    """Return the release with its second round."""
    single = fields(value, "release: dependence", {"deviation": float, "product_weight": float})
    checked_deviations("the second round", np.array([single["deviation"]]))
    columns = [column.partition for column in release.columns]
    sizes = [partition.size for partition in columns]
    maps = maps_in(arrays, "release.dependence.maps", sizes)
    tables = _sets(arrays, "release.dependence.tables", range(len(columns)))
    weights = positive(arrays, "release.dependence.weights", len(tables))
    degrees = take(arrays, "release.dependence.degrees", len(columns), kind="int64")
    if ((degrees < 0) | (degrees > MOST_IN_LOOK)).any():
        raise InputError(f"columns must have 0 to {MOST_IN_LOOK} scores")
    scores = parts_in(arrays, "release.dependence.scores",
                    [size * own for size, own in zip(sizes, degrees.tolist(), strict=True)], kind="int64")
    if any((each > 2**SCORE_BITS).any() or (each < -(2**SCORE_BITS)).any() for each in scores):
        raise InputError(f"scores must lie between -2^{SCORE_BITS} and 2^{SCORE_BITS}")
    pairs = _sets(arrays, "release.dependence.pairs",
                   [j for j, partition in enumerate(columns) if partition.value is not None or not len(tables)])
    weight = single["product_weight"]
    if not (1.0 / LARGEST <= weight <= LARGEST if len(pairs) else weight == 0.0):
        raise InputError("the weight of products must be positive, or 0 without products")
    own = [Marginal((j, h), (columns[j], columns[h]), (maps[j], maps[h])) for j, h in tables.tolist()]
    noisy = parts_in(arrays, "release.tables", [query.size for query in own])
    made: list[Measurement[Any]] = [Measurement(query, weight, values, single["deviation"])
            for query, weight, values in zip(own, weights.tolist(), noisy, strict=True)]
    products = Products(tuple(columns), tuple(
        each.reshape(size, -1) if q else each.reshape(size, 0)
        for each, size, q in zip(scores, sizes, degrees.tolist(), strict=True)), pairs, not len(tables),
        () if len(tables) else tuple(maps))
    (values,) = parts_in(arrays, "release.products", [products.size])
    if len(pairs):
        made.append(Measurement(products, weight, values, single["deviation"]))
    checked_deviations("the second round", np.array([each.deviation for each in made if each.query.size]))
    return replace(release, measurements=(*release.measurements, *made))


def _with_selected(release: Release, value: Any, arrays: Arrays) -> Release:
    """Return the release with its last round."""
    single = fields(value, "release: selected", {"deviation": float, "importance": float})
    if len(release.measurements) == len(release.looks) + len(release.closer) or not (
            0.0 <= single["importance"] <= LARGEST):
        raise InputError("the last round must follow the second, and its importance must be at least 0")
    checked_deviations("the last round", np.array([single["deviation"]]))
    partitions, pairs = [column.partition for column in release.columns], release.tables
    weights = take(arrays, "release.selected.weights", len(pairs))
    checked_deviations("release.selected.weights", weights[weights != 0.0])
    maps = maps_in(arrays, "release.selected.maps", [partition.size for partition in partitions])
    triples = _sets(arrays, "release.selected.triples", range(len(partitions)), 3)
    own = [Marginal(tuple(held), tuple(partitions[j] for j in held), tuple(maps[j] for j in held))
           for held in triples.tolist()]
    noisy = parts_in(arrays, "release.triples", [query.size for query in own])
    # The file has the mean of both measurements, which each of them then stands for.
    again = [replace(each, weight=weight, noise=single["deviation"])
             for each, weight in zip(pairs, weights.tolist(), strict=True) if weight]
    more = [Measurement(query, weight, values, single["deviation"]) for query, weight, values in zip(
        own, positive(arrays, "release.selected.triple_weights", len(triples)).tolist(), noisy, strict=True)]
    made = replace(release, measurements=(*release.measurements, *again, *more), importance=single["importance"])
    checked_deviations("the last round", np.array([each.deviation for each in (*made.tables, *made.triples)]))
    return made


def _sets(arrays: Arrays, name: str, allowed: Sequence[int], width: int = 2) -> Integers:
    found = take(arrays, name, "t", width, kind="int64")
    if not ((found[:, :-1] < found[:, 1:]).all() and np.isin(found, np.array(allowed, dtype=np.int64)).all()
            and len(np.unique(found, axis=0)) == len(found)):
        raise InputError(f"{name} must be different sets of {width} columns that exist")
    return found
