"""A check before the charge that files have room for everything that a run can release.

The size of a release depends on the numbers that its first rounds release. So this check uses upper bounds. Only
designs with some thousand columns, megabytes of text, or a hundred million points come near the limits.
"""

import json
from collections.abc import Sequence
from typing import Any

from trigmech.errors import InputError
from trigmech.functions.features import Features
from trigmech.planning.tables import Largest
from trigmech.privacy.budget import Charge
from trigmech.schema.column import Column
from trigmech.schema.encoding import LONGEST_KEY
from trigmech.schema.schema import Schema
from trigmech.storage import archive, measurements_file, rounds_file

NUMBER = 8
# The bytes of a number in a rounds file, with the separator; and the bytes of a category in a manifest, where one byte
# can become an escape of six letters.
NUMBER_IN_WORDS, CATEGORY_IN_WORDS = 26, 6 * LONGEST_KEY + 4
# A bound on the rest of a manifest.
BESIDE = 2**16
# The number of arrays with one number for each position: edges, values, masses and cells of each round.
OF_POSITIONS = 9


def check_room(schema: Schema, charges: Sequence[Charge], measured: Any, points: int, found: int = 0) -> None:
    """Raise an InputError if a file might not hold a run's release, or could not be read again.

    measured: Its property ``largest`` bounds the release, if it has one. The functions that it names are counted too.
    points, found: The largest number of points, and of categories that a private step finds.

    Privacy: public facts only. Cost: that of writing the schema.
    """
    manifest = _manifest(schema, charges) + found * CATEGORY_IN_WORDS + BESIDE
    if manifest > archive.MAX_MANIFEST:
        raise InputError(f"the schema is too long for the file of a release: in JSON it may take {manifest} bytes, and "
                         f"there is room for {archive.MAX_MANIFEST}. Give shorter or fewer categories, or smaller "
                         "tables for lookup")
    D = schema.domain.d
    largest: Largest = getattr(measured, "largest", Largest(0, 0, 0, 0))
    released, size = largest.released, bytes_of(largest)
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
                         "fewer columns or fewer categories, or in Python fewer points (the mechanism's option "
                         "points)")


def _manifest(schema: Schema, charges: Sequence[Charge]) -> int:
    """Return the bytes of schema and charges in a manifest. Raise an InputError if they cannot be read again."""
    plain = schema.to_dict()
    try:
        text = json.dumps([plain, [charge.to_dict() for charge in charges]], allow_nan=False)
        again = json.loads(text)
    except ValueError:
        # An integer has thousands of digits.
        raise InputError("the schema holds a number that cannot be written into a file") from None
    for column, read in zip(schema.columns, again[0]["columns"], strict=True):
        if Column.from_dict(read) != column:
            raise InputError(f"column {column.name!r} cannot be written to a file and read again without a change")
    return len(text)


def _functions(measured: Any) -> list[Features]:
    """Return the package's own functions that a design measures, each set once."""
    asked = [each.query for one in getattr(measured, "rounds", ()) for each in getattr(one, "asked", ())]
    sets = [getattr(measured, "features", None), *(query.of_set[0] for query in asked if query.of_set)]
    return list({id(each): each for each in sets if isinstance(each, Features)}.values())


def bytes_of(largest: Largest) -> int:
    """Return the bytes of the arrays that describe the positions, cells and scores of a release."""
    return NUMBER * (largest.positions * (OF_POSITIONS + largest.scores) + largest.places)
