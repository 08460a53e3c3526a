"""Whether files have room for all that a design lets a run release: asked before the charge, for later it is too late.

The size of a release depends on the numbers that its first rounds release, so bounds are taken here, not sizes. Only
designs of some thousand columns, of texts by the megabyte, or of points by the hundred million come near them.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

from trigmech.errors import InputError
from trigmech.functions.features import Features
from trigmech.planning.contrasted import MOST_CONTRASTED, MOST_PRODUCTS
from trigmech.planning.dependence import MOST_ENTRIES
from trigmech.planning.selection import MOST_FINE_ENTRIES, MOST_PLACES, MOST_TRIPLES
from trigmech.planning.tables import MOST_FINER, TableDesign
from trigmech.privacy.budget import Charge
from trigmech.queries.functions import Functions
from trigmech.schema.column import Column
from trigmech.schema.encoding import LONGEST_KEY
from trigmech.schema.schema import Schema
from trigmech.storage import archive, measurements_file, rounds_file

NUMBER = 8
# Bytes of a number in a rounds file, with the separator; and of a category in a manifest, where a byte can become an
# escape of six letters.
NUMBER_IN_WORDS, CATEGORY_IN_WORDS = 26, 6 * LONGEST_KEY + 4
# All the rest of a manifest is far shorter.
BESIDE = 2**16
# Arrays of a number for each position: edges, values, masses, cells; of the look, of the closer one, of the columns.
OF_POSITIONS = 9


def check_room(schema: Schema, charges: Sequence[Charge], measured: Any, points: int, found: int = 0) -> None:
    """Raise an InputError if a file might not hold what a run releases, or could not be read again.

    Parameters
    ----------
    schema : Schema
    charges : sequence of Charge
    measured : TableDesign, or another design
        For another design, the functions that it names are counted.
    points : int
        How many are made at most.
    found : int
        How many categories are found at most.

    Notes
    -----
    Privacy: public facts only. Cost: that of writing the schema.
    """
    manifest = _manifest(schema, charges) + found * CATEGORY_IN_WORDS + BESIDE
    if manifest > archive.MAX_MANIFEST:
        raise InputError(f"the schema is too long for the file of a release: in JSON it may take {manifest} bytes, and "
                         f"there is room for {archive.MAX_MANIFEST}. Give shorter or fewer categories, or smaller "
                         "tables for lookup")
    D = schema.domain.d
    released, size = 0, 0
    if isinstance(measured, TableDesign):
        released, size = _of_tables(measured)
    for features in _functions(measured):
        degrees = int(features.basis.index.max(axis=0, initial=0).sum())
        if degrees > measurements_file.MOST_DEGREES:
            raise InputError(f"the degrees of all columns are {degrees} together, and the file of a release can hold "
                             f"{measurements_file.MOST_DEGREES}; take lower ones")
        released += features.K
        size += NUMBER * (features.basis.index.size + features.profiles.size)
    size += NUMBER * (3 * released + points * (D + 1)) + archive.HEADER * (1 + archive.MAX_ARRAYS) + manifest
    if size > archive.MAX_BYTES or released * NUMBER_IN_WORDS + manifest > rounds_file.LARGEST_FILE:
        raise InputError(f"a release of {schema.d} columns, of up to {released} numbers and {points} points of {D} "
                         f"coordinates, may take more than the {archive.MAX_BYTES} bytes that a file can hold; take "
                         "fewer columns, or fewer points")


def _manifest(schema: Schema, charges: Sequence[Charge]) -> int:
    """Return how many bytes the schema and the charges are in a manifest, once it is sure that they can be read."""
    plain = schema.to_dict()
    try:
        text = json.dumps([plain, [charge.to_dict() for charge in charges]], allow_nan=False)
        again = json.loads(text)
    except ValueError:
        # An integer has thousands of digits.
        raise InputError("the schema holds a number that cannot be written into a file") from None
    for column, read in zip(schema.columns, again[0]["columns"], strict=True):
        if Column.from_dict(read) != column:
            raise InputError(f"column {column.name!r} cannot be written into a file so that it is read as it is")
    return len(text)


def _functions(measured: Any) -> list[Features]:
    """Return the package's own functions that a design measures, each set once."""
    asked = [each.query for one in getattr(measured, "rounds", ()) for each in getattr(one, "asked", ())]
    sets = [getattr(measured, "features", None), *(query.features for query in asked if isinstance(query, Functions))]
    return list({id(each): each for each in sets if isinstance(each, Features)}.values())


def _of_tables(design: TableDesign) -> tuple[int, int]:
    """Return how many numbers a table's design releases at most, and how many bytes they take with what they are of."""
    d = len(design.partitions)
    numbers = sum(partition.value is not None for partition in design.partitions)
    positions = sum(partition.size for partition in design.partitions) + (MOST_FINER if design.closer else 0)
    released, scores, sets = positions, 0, 0
    if design.dependence is not None and design.dependence.law == "linf":
        released += max(MOST_PRODUCTS, math.comb(d, 2))
        scores, sets = MOST_CONTRASTED - 1, 2 * math.comb(d, 2)
    elif design.dependence is not None:
        # Directions are products for all pairs, of a score of each column.
        pairs = math.comb(numbers if design.scores else d, 2) if design.products else 0
        # Where all entries would be too many, tables have two cells a column.
        released += max(MOST_ENTRIES, 4 * math.comb(d, 2)) + pairs * max(design.scores, 1) ** 2
        scores, sets = max(design.scores, 1) if pairs else 0, 2 * pairs + 4 * math.comb(d, 2)
    if design.selected is not None:
        # Tables of three columns have up to three cells for each column if they would be too many.
        released += max(MOST_ENTRIES, 27 * MOST_TRIPLES) + MOST_FINE_ENTRIES
        # Beside one map of each column: others for tables of three, and those of finer tables of two.
        sets += 4 * MOST_TRIPLES + MOST_PLACES + 2 * MOST_FINE_ENTRIES
    return released, NUMBER * (positions * (OF_POSITIONS + scores) + sets)
