"""What a release is as a file: which of its parts go where in an archive, and what is checked when they come back.

All of it is public. The table, seeds, the state of generators and the paths of files are not among the parts, so they
cannot be saved.
"""

import os
import platform
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from trigmech._validate import numbers
from trigmech.distribution import Distribution
from trigmech.errors import InputError, TrigmechError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.measurement.released import Axes, MomentRelease, Release
from trigmech.privacy.ledger import Ledger
from trigmech.reconstruction.l1 import Fit
from trigmech.reconstruction.pipeline import Reconstruction
from trigmech.schema.schema import Schema
from trigmech.storage import archive

Array = NDArray[np.float64]

PRIVACY = {True: "simulated, not private", False: "as the ledger proves"}
LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
MAX_TEXT = 200
# Beyond any plan; a file must not ask for work without bound when its functions are set up.
MAX_DEGREES = 2**22
MAX_PROFILE, MAX_COEFFICIENTS = 2**10, 2**17


@dataclass(frozen=True, eq=False)
class Saved:
    """The parts of a release, as :class:`trigmech.Synthesis` has them.

    Parameters
    ----------
    distribution : Distribution
    ledger : Ledger
        Without a file of its own.
    schema : Schema
    release : Release or MomentRelease
    fit : Fit or Reconstruction
    rows : int
    library : str, optional
    categorical : tuple of str
    versions : dict of str to str
        Of trigmech, numpy, opendp and python when the release was made; files keep them however often they are saved.
    """

    distribution: Distribution
    ledger: Ledger
    schema: Schema
    release: Release | MomentRelease
    fit: Fit | Reconstruction
    rows: int
    library: str | None
    categorical: tuple[str, ...]
    versions: dict[str, str]


def write(path: str | os.PathLike[str], *, distribution: Distribution, ledger: Ledger, schema: Schema,
          release: Release | MomentRelease, fit: Fit | Reconstruction, rows: int, library: str | None,
          versions: dict[str, str], categorical: tuple[str, ...] = ()) -> None:
    """Save the parts of a release in the format of :mod:`trigmech.storage.archive`, whole or not at all.

    Parameters
    ----------
    path : path, public
        An older file of this name is replaced.
    distribution, ledger, schema, release, fit, rows, library, versions, categorical
        See :class:`Saved`; all public. A release by the thesis's mechanisms comes with a Fit, a MomentRelease with
        a Reconstruction.

    Raises
    ------
    InputError
        If the file cannot be written there, or :func:`read` would refuse it, for instance because the parts do not
        belong together.

    Notes
    -----
    Privacy: public parts alone, as their classes say. A simulated release says in the manifest that it is not private.
    """
    released, arrays = _release_out(release)
    fitted, more = _fit_out(fit, distribution)
    arrays |= more | {"distribution.points": distribution.points, "distribution.weights": distribution.weights}
    content = {"privacy": PRIVACY[ledger.simulated], "versions": dict(versions), "schema": schema.to_dict(),
               "ledger": ledger.to_dict(), "release": released, "fit": fitted, "rows": int(rows), "library": library}
    if categorical:
        # Only then: a version that does not know of them reads all other files.
        content["categorical"] = list(categorical)
    # Whether a file can be read must be known before the only other copy of its parts is gone.
    _together(content, dict(arrays))
    archive.write(path, content, arrays)


def read(path: str | os.PathLike[str]) -> Saved:
    """Return the parts of a saved release.

    Parameters
    ----------
    path : path
        Of a file by :func:`write`, which nobody needs to trust.

    Returns
    -------
    Saved
        Whatever is computed of these parts equals, bit for bit, what those that were saved would give.

    Raises
    ------
    InputError
        If the file is not a saved release, is damaged, or its parts do not belong together; the message names the file
        and the rule.

    Notes
    -----
    Privacy: all public. Nothing that the file holds is executed; see :func:`trigmech.storage.archive.read`. That a file
    is sound does not say who made it: its ledger is a claim by whoever wrote it.
    """
    content, arrays = archive.read(path)
    try:
        return _together(content, arrays)
    except TrigmechError as broken:
        raise InputError(f"cannot read {os.fspath(path)!r}: {broken}") from None


def _together(content: dict[str, Any], arrays: dict[str, NDArray]) -> Saved:
    """Make the parts of what a file holds; ``arrays`` is emptied."""
    keys = ("privacy", "versions", "schema", "ledger", "release", "fit", "rows", "library")
    fields = {"categorical": []} | _fields(content, "the manifest", *keys, *{"categorical"}.intersection(content))
    versions = _fields(fields["versions"], "versions", "trigmech", "numpy", "opendp", "python")
    schema = Schema.from_dict(fields["schema"])
    ledger = Ledger.from_dict(fields["ledger"])
    if fields["privacy"] != PRIVACY[ledger.simulated]:
        raise InputError(f"privacy must be {PRIVACY[ledger.simulated]!r}, as the ledger says")
    if fields["library"] is not None and fields["library"] not in LIBRARIES:
        raise InputError(f"library must be null or one of {', '.join(LIBRARIES)}")
    categorical = fields["categorical"]
    names = [column.name for column in schema.columns if column.categories is not None]
    if not isinstance(categorical, list) or categorical != [name for name in names if name in categorical]:
        raise InputError("categorical must be names of columns of categories, in the schema's order")
    if schema.private_bounds:
        raise InputError("the schema's bounds must be complete, as they are when a release is made")
    d = schema.domain.d
    distribution = Distribution(_take(arrays, "distribution.points", "m", d),
                                _take(arrays, "distribution.weights", "m"))
    release = _release_in(fields["release"], arrays, d)
    fit = _fit_in(fields["fit"], arrays, distribution, release)
    if arrays:
        raise InputError(f"the array {min(arrays)!r} is no part of such a release")
    return Saved(distribution, ledger, schema, release, fit, _integer(fields, "rows", 1), fields["library"],
                 tuple(categorical), {name: _text(versions, name) for name in versions})


def versions_now() -> dict[str, str]:
    """Return the versions of trigmech, numpy, opendp and python that run."""
    found = {"python": platform.python_version()}
    for name in ("trigmech", "numpy", "opendp"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            # As where the source was put on the path without being installed.
            found[name] = "unknown"
    return found


# Each release and each fit as plain values and arrays, and back.


def _release_out(release: Release | MomentRelease) -> tuple[dict[str, Any], dict[str, NDArray]]:
    if isinstance(release, MomentRelease):
        return {"kind": "moments", "n": int(release.n)}, {
            "release.index": release.features.basis.index, "release.profiles": release.features.profiles,
            "release.means": release.means, "release.scales": release.scales}
    arrays = {"release.index": release.basis.index, "release.means": release.means}
    if release.mean is not None:
        arrays["release.mean"] = release.mean
    if release.axes is not None:
        arrays |= {"release.axes.directions": release.axes.directions, "release.axes.images": release.axes.images,
                   "release.axes.previous": release.axes.previous}
    return {"kind": "thesis", "n": int(release.n), "scale": float(release.scale)}, arrays


def _release_in(value: Any, arrays: dict[str, NDArray], d: int) -> Release | MomentRelease:
    kind = value.get("kind") if isinstance(value, dict) else None
    fields = _fields(value, "release", "kind", "n", *(["scale"] if kind == "thesis" else []))
    n = _integer(fields, "n", 2)
    index = _take(arrays, "release.index", "K", d, kind="int64")
    if (index > MAX_DEGREES).any() or index.max(axis=0, initial=0).sum() > MAX_DEGREES:
        raise InputError(f"the degrees of all columns must be at most {MAX_DEGREES} together")
    basis = ChebyshevBasis(index)
    if kind == "moments":
        features = _features(basis, _take(arrays, "release.profiles", "G", "q + 1"))
        scales = _take(arrays, "release.scales", features.K)
        if not (scales > 0).all():
            raise InputError("the scales of the noise must be positive")
        return MomentRelease(n, features, _take(arrays, "release.means", features.K), scales)
    if kind != "thesis":
        raise InputError('the kind of a release must be "moments" or "thesis"')
    means = _take(arrays, "release.means", basis.K)
    mean = _take(arrays, "release.mean", d) if "release.mean" in arrays else None
    axes = None
    if "release.axes.directions" in arrays:
        k = arrays["release.axes.directions"].shape[-1] if arrays["release.axes.directions"].ndim else 0
        axes = Axes(*(_take(arrays, f"release.axes.{name}", d, k) for name in ("directions", "images", "previous")))
        if mean is None or not 1 <= k <= d or not _orthonormal(axes.directions) or not _orthonormal(axes.previous):
            raise InputError(f"principal axes need a mean, and must be 1 to {d} orthonormal columns")
    return Release(n, basis, means, _number(fields, "scale", above=0.0), mean, axes)


def _fit_out(fit: Fit | Reconstruction, distribution: Distribution) -> tuple[dict[str, Any], dict[str, NDArray]]:
    if isinstance(fit, Fit):
        return {"kind": "linear program", "objective": float(fit.objective), "gap": float(fit.gap),
                "status": fit.status, "seconds": float(fit.seconds), "iterations": int(fit.iterations)}, {
            "fit.weights": fit.weights}
    arrays = {"fit.target": fit.target}
    # Most often these are the distribution's own arrays, of which one copy will do.
    if fit.points is not distribution.points or fit.weights is not distribution.weights:
        arrays |= {"fit.points": fit.points, "fit.weights": fit.weights}
    return {"kind": "reconstruction", "misfit": float(fit.misfit), "shrunk": bool(fit.shrunk),
            "dependent": bool(fit.dependent), "status": fit.status, "iterations": int(fit.iterations),
            "seconds": float(fit.seconds)}, arrays


def _fit_in(value: Any, arrays: dict[str, NDArray], distribution: Distribution,
            release: Release | MomentRelease) -> Fit | Reconstruction:
    moments = isinstance(release, MomentRelease)
    own = ("misfit", "shrunk", "dependent") if moments else ("objective", "gap")
    fields = _fields(value, "fit", "kind", "status", "seconds", "iterations", *own)
    status, seconds = _text(fields, "status"), _number(fields, "seconds")
    iterations = _integer(fields, "iterations", 0)
    if fields["kind"] != ("reconstruction" if moments else "linear program"):
        raise InputError('the kind of a fit must be "reconstruction" with a release of moments, else "linear program"')
    if isinstance(release, MomentRelease):
        made, d = distribution, distribution.points.shape[1]
        if "fit.points" in arrays:
            made = Distribution(_take(arrays, "fit.points", "m", d), _take(arrays, "fit.weights", "m"))
        return Reconstruction(made.points, made.weights, _take(arrays, "fit.target", release.features.K),
                              _number(fields, "misfit"), _flag(fields, "shrunk"), _flag(fields, "dependent"), status,
                              iterations, seconds)
    if status not in ("optimal", "time limit", "not solved"):
        raise InputError('the status of a linear program must be "optimal", "time limit" or "not solved"')
    weights = _take(arrays, "fit.weights", "m")
    # The rules for weights are those of a distribution, on whatever points.
    Distribution(np.zeros((len(weights), 1)), weights)
    return Fit(weights, _number(fields, "objective"), _number(fields, "gap"),
               cast(Literal["optimal", "time limit", "not solved"], status), seconds, iterations)


def _features(basis: ChebyshevBasis, profiles: Array) -> Features:
    """Return the features with exactly these profiles, which Features has scaled before they were saved.

    Its constructor checks them, and scales them once more, by 1 but for rounding. What was released are means of the
    functions as they were, and fits depend on all bits of these.
    """
    if profiles.shape[1] > MAX_PROFILE or profiles.size > MAX_COEFFICIENTS:
        raise InputError(f"profiles must have at most {MAX_PROFILE} coefficients, and {MAX_COEFFICIENTS} together")
    features = Features(basis, profiles)
    if features.profiles.shape != profiles.shape or not np.allclose(features.profiles, profiles, rtol=1e-6, atol=0.0):
        raise InputError("the profiles must be scaled to a maximum of 1")
    object.__setattr__(features, "profiles", profiles)
    return features


def _orthonormal(columns: Array) -> bool:
    return bool(np.abs(columns.T @ columns - np.eye(columns.shape[1])).max() < 1e-6)


# Values, each by its rule. Messages name the field alone: a hostile text is not worth quoting.


def _fields(value: Any, name: str, *keys: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(keys):
        raise InputError(f"{name} must be an object with the keys {', '.join(keys)}")
    return value


def _integer(fields: dict[str, Any], name: str, least: int) -> int:
    value = fields[name]
    if type(value) is not int or value < least:
        raise InputError(f"{name} must be an integer that is at least {least}")
    return value


def _number(fields: dict[str, Any], name: str, above: float | None = None) -> float:
    value = fields[name]
    if type(value) is not float or (above is not None and not value > above):
        raise InputError(f"{name} must be a number with a decimal point{'' if above is None else f' above {above:g}'}")
    return value


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields[name]
    if not isinstance(value, bool):
        raise InputError(f"{name} must be true or false")
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str) or len(value) > MAX_TEXT or not value.isprintable():
        raise InputError(f"{name} must be a text of at most {MAX_TEXT} printable letters")
    return value


def _take(arrays: dict[str, NDArray], name: str, *shape: int | str, kind: str = "float64") -> NDArray[Any]:
    """Remove an array from the dictionary and return it, if it is finite and has the type and the shape."""
    if name not in arrays:
        raise InputError(f"the array {name!r} is missing")
    array = numbers(f"the array {name!r}", arrays.pop(name), *shape)
    if array.dtype.name != kind or not np.isfinite(array).all():
        raise InputError(f"the array {name!r} must hold finite numbers of type {kind}")
    return array
