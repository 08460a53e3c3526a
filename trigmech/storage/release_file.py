"""The form of a release in a file: where its parts are in an archive, and the checks when they are read again.

All of it is public. The table, seeds, the state of generators and the paths of files are not among the parts, so they
cannot be saved.
"""

import os
import platform
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from trigmech._files import reading
from trigmech._validate import Kind, fields, of_kind
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.measurement.released import Release
from trigmech.mechanisms.base import Mechanism, check_points
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.ledger_lock import version
from trigmech.reconstruction.result import NOT_SOLVED, Reconstruction
from trigmech.schema.schema import Schema
from trigmech.storage import archive, measurements_file, mechanism_file, older_releases
from trigmech.storage.archive import take

PRIVACY = {True: "simulated, not private", False: "as the ledger proves"}
LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")
TEXT = (str, 200)


def write(path: str | os.PathLike[str], *, release: Release, ledger: Ledger, schema: Schema,
          library: str | None, versions: dict[str, str], categorical: tuple[str, ...] = (),
          fit: Reconstruction | None = None, mechanism: Mechanism | None = None, made_by: str | None = None,
          budget: Budget | None = None) -> None:
    """Save the parts of a release in the format of :mod:`trigmech.storage.archive`, whole or not at all.

    Parameters
    ----------
    path : path, public
        An older file of this name is replaced.
    release, ledger, schema, library, versions, categorical, fit, mechanism, made_by, budget
        As :class:`trigmech.Synthesis` has them; all public. Without a fit the file holds noisy moments alone.

    Raises
    ------
    InputError
        If the file cannot be written there, or :func:`read` would refuse it, for instance because the parts do not
        belong together.

    Notes
    -----
    Privacy: public parts alone, as their classes say. A simulated release says in the manifest that it is not private.
    """
    released, arrays = measurements_file.parts_of(release, schema.domain)
    content: dict[str, Any] = {"privacy": PRIVACY[ledger.simulated], "versions": dict(versions),
                               "schema": schema.to_dict(), "ledger": ledger.to_dict(), "release": released, "fit": None,
                               "rows": None if fit is None else fit.rows, "library": library}
    if fit is not None:
        content["fit"], more = _fit_out(fit)
        arrays |= more
    if categorical:
        # Only then: a version that does not know of them reads all other files.
        content["categorical"] = list(categorical)
    if mechanism is not None:
        # One of somebody's own by its name alone: it is given again when the release is loaded.
        content["mechanism"] = (mechanism_file.plain(mechanism) if mechanism_file.is_known(mechanism) else
                                mechanism_file.name_of(mechanism))
    elif made_by is not None:
        content["mechanism"] = made_by
    if budget is not None and budget != ledger.budget:
        content["budget"] = budget.to_dict()
    # Whether a file can be read must be known before the only other copy of its parts is gone.
    _together(content, dict(arrays))
    archive.write(path, content, arrays)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the parts of a saved release, by the names that :func:`write` has for them.

    Parameters
    ----------
    path : path
        A file from :func:`write` of this version or an older one; the reader does not have to trust it.

    Returns
    -------
    dict
        The parts. A result that is computed from them equals, bit for bit, the result from the saved parts.

    Raises
    ------
    InputError
        If the file is not a saved release, is damaged, or its parts do not belong together; the message names the file
        and the rule.

    Notes
    -----
    Privacy: all public. Nothing that the file holds is executed; see :func:`trigmech.storage.archive.read`. That a file
    is sound does not prove who made it: its ledger is a claim of the person who wrote it.
    """
    content, arrays = archive.read(path)
    with reading(path):
        return _together(content, arrays)


def _together(content: dict[str, Any], arrays: dict[str, NDArray]) -> dict[str, Any]:
    """Return the parts of a release from a file's content; ``arrays`` is emptied."""
    kinds: dict[str, Kind] = dict.fromkeys(("privacy", "versions", "schema", "ledger", "release", "fit", "library"),
                                           object)
    optional: dict[str, Kind] = {key: object for key in ("categorical", "mechanism", "budget") if key in content}
    # Noisy moments alone have no default size of a sample.
    rows: Kind = object if content.get("fit") is None else (int, 1)
    values = {"categorical": [], "mechanism": None, "budget": None} | fields(content, "the manifest",
                                                             {**kinds, "rows": rows, **optional})
    versions = fields(values["versions"], "versions", dict.fromkeys(("trigmech", "numpy", "opendp", "python"), TEXT))
    schema = Schema.from_dict(values["schema"])
    ledger = Ledger.from_dict(values["ledger"])
    if values["privacy"] != PRIVACY[ledger.simulated]:
        raise InputError(f"privacy must be {PRIVACY[ledger.simulated]!r}, as the ledger says")
    if values["library"] is not None and values["library"] not in LIBRARIES:
        raise InputError(f"library must be null or one of {', '.join(LIBRARIES)}")
    categorical = values["categorical"]
    names = [column.name for column in schema.columns if column.categories is not None]
    if not isinstance(categorical, list) or categorical != [name for name in names if name in categorical]:
        raise InputError("categorical must be names of columns of categories, in the schema's order")
    if schema.private_bounds or schema.private_categories:
        raise InputError("the schema's bounds must be complete, and its categories, as they are when a release is made")
    released = values["release"]
    kind = released.get("kind") if isinstance(released, dict) else None
    readers: dict[str, Callable[..., Release]] = {
        measurements_file.KIND: measurements_file.release_of, older_releases.TABLES: older_releases.of_tables,
        **dict.fromkeys(older_releases.MOMENTS, partial(older_releases.of_moments, ledger))}
    if not isinstance(kind, str) or kind not in readers:
        raise InputError(f"the kind of a release must be one of {', '.join(readers)}")
    release = readers[kind](released, arrays, schema.domain)
    parts: dict[str, Any] = {"release": release, "ledger": ledger, "schema": schema, "library": values["library"],
                             "categorical": tuple(categorical), "versions": versions,
                             "mechanism": None, "made_by": None, "budget": None}
    if values["budget"] is not None:
        parts["budget"] = Budget.from_dict(values["budget"], "the mechanism's budget")
    if isinstance(values["mechanism"], str):
        parts["made_by"] = of_kind("the mechanism", values["mechanism"], TEXT)
    elif values["mechanism"] is not None:
        parts["mechanism"] = made = mechanism_file.made(values["mechanism"], "the mechanism")
        # As when it was planned: a file must not ask for points without bound.
        check_points(made.most_points(release.n, schema.domain.d), schema.domain.d)
    if values["fit"] is not None:
        parts["fit"] = replace(_fit_in(values["fit"], arrays, release, schema.domain.d),
                               rows=values["rows"])
    if arrays:
        raise InputError(f"the array {min(arrays)!r} does not belong to such a release")
    return parts


def versions_now() -> dict[str, str]:
    """Return the versions of trigmech, numpy, opendp and python that run."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("trigmech", "numpy", "opendp")}}


# The fit as plain values and arrays, and back.


def _fit_out(fit: Reconstruction) -> tuple[dict[str, Any], dict[str, NDArray]]:
    common = {"status": fit.status, "iterations": int(fit.iterations), "seconds": float(fit.seconds)}
    arrays = {"fit.target": fit.target, "distribution.points": fit.points, "distribution.weights": fit.weights}
    if fit.misfit is None:
        return common | {"kind": "linear program", "objective": float(fit.objective or 0.0),
                         "gap": float(fit.gap or 0.0)}, arrays
    return common | {"kind": "reconstruction", "misfit": float(fit.misfit), "shrunk": bool(fit.shrunk),
                     "dependent": bool(fit.dependent)}, arrays


def _fit_in(value: Any, arrays: dict[str, NDArray], release: Release, d: int) -> Reconstruction:
    kind = value.get("kind") if isinstance(value, dict) else None
    own: dict[str, dict[str, Kind]] = {"reconstruction": {"misfit": float, "shrunk": bool, "dependent": bool},
                                       "linear program": {"objective": float, "gap": float}}
    if not isinstance(kind, str) or kind not in own:
        raise InputError('the kind of a fit must be "reconstruction" or "linear program"')
    values = fields(value, "fit", {"kind": object, "status": TEXT, "seconds": float, "iterations": (int, 0),
                                   **own[kind]})
    distribution = Distribution(take(arrays, "distribution.points", "m", d),
                                take(arrays, "distribution.weights", "m"))
    # Older files repeat points and weights, and those of linear programs have the weights of all candidates.
    for name, shape in (("fit.points", ("m", d)), ("fit.weights", ("m",))):
        if name in arrays:
            take(arrays, name, *shape)
    older = kind == "linear program" and "fit.target" not in arrays
    target = release.means if older else take(arrays, "fit.target", release.K)
    if kind == "linear program" and values["status"] not in ("optimal", "time limit", NOT_SOLVED):
        raise InputError('the status of a linear program must be "optimal", "time limit" or "not solved"')
    del values["kind"]
    return Reconstruction(distribution, target, **values)
