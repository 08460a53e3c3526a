"""Releases of means of functions by version 0.1, as they are read: they are not written any more."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import Kind, fields
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.measurement.released import Release
from trigmech.privacy.ledger import Ledger
from trigmech.storage.archive import take
from trigmech.storage.measurements_file import axes_in, features_in

# Releases by the thesis's mechanisms had one noise scale, and a kind of their own.
KINDS = ("moments", "thesis")


def release_of(ledger: Ledger, value: Any, arrays: dict[str, NDArray], domain: Domain) -> Release:
    """Return the release, or raise an InputError; its arrays are taken from the dictionary."""
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
