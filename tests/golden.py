"""Golden runs: what each of many small releases gave, recorded by one version and compared by a later one.

    python -m tests.golden record FILE [--arrays FOLDER] [--only PATTERN]
    python -m tests.golden compare FILE [--arrays FOLDER] [--only PATTERN]

The cases are in tests/golden_cases.py and use public names alone; all noise is of seeded generators. Of each case the
file has the charges, to the bit; the released numbers, the points and the sampled rows, as hashes with some numbers in
clear; error bars and answers; and which calls are refused by which exception. A folder of arrays, which is not part of
the repository, has all of these numbers, so that a comparison says how far apart two versions are at most. The exit
status of a comparison is 1 if anything differs. On another machine, or with another numpy, the last bits of sums and of
noise can differ: the file says where it was made, and charges and released numbers are then compared to 1e-9, and fits
only by how near they are to their targets.
"""

import argparse
import fnmatch
import hashlib
import json
import platform
import re
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy
import threadpoolctl

import trigmech as tm
from tests.golden_cases import (
    CASES,
    CUBE,
    MIXED,
    ONE,
    PURE,
    UNKNOWN,
    FirstMoments,
    OwnFunctions,
    budget_shares,
    cube,
    mixed,
)
from trigmech import workload

RECORDED_BY = "0.1.0"
FILE = Path(__file__).parent / "data" / "golden.json"
SEED = 20
# How far charges and released numbers may be apart on another platform. Searches for charges, and weights of a last
# round that follow singular values, differ by about half of this between two processors. The last is absolute, for
# statistics of rows whose bits differ.
RELATIVE, ABSOLUTE, NEAR = 1e-9, 2e-10, 1e-9
# So many numbers of each array stand in clear.
IN_CLEAR = {"means": 4, "deviations": 1}
# Letters of a hash.
LETTERS = 16


# Where a file was made


def tag():
    """Return what the last bits of a run may depend on."""
    blas = sorted({f"{each['internal_api']} {each.get('version')} {each.get('architecture')}"
                   for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"})
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return {"python": ".".join(platform.python_version_tuple()[:2]), "numpy": np.__version__,
            "scipy": scipy.__version__, "numba": version("numba"), "highspy": version("highspy"),
            "machine": platform.machine(), "blas": blas,
            "simd": sorted([*simd.get("baseline", []), *simd.get("found", [])])}


# What is recorded of numbers


class Kept:
    """The record of one case, and its arrays in full."""

    def __init__(self):
        self.arrays = {}

    def digest(self, name, values):
        """Return an array's hash, shape, a sum that each number moves, that of their sizes, and some of them."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        self.arrays[name] = values
        flat = values.ravel()
        places = np.unique(np.linspace(0, max(flat.size - 1, 0), IN_CLEAR.get(name, 0)).astype(int))[: flat.size]
        finite = np.where(np.isfinite(flat), flat, 0.0)
        # Of exact arithmetic, so that it is the same on every machine whose numbers are.
        weights = 1.0 + (np.arange(flat.size) * 7 % 101) / 128.0
        return {"#": [hashed(values.tobytes()), list(values.shape), float(sum((finite * weights).tolist())),
                      float(sum(np.abs(finite).tolist())), *flat[places].tolist()]}


def hashed(content):
    return hashlib.sha256(content).hexdigest()[:LETTERS]


def texts(values):
    """Return the hash of texts, and how many they are."""
    values = [str(value) for value in values]
    return f"{len(values)}: {hashed(chr(10).join(values).encode())}"


def rows_hash(columns):
    """Return the hash of a synthetic table's columns, by name, with what is missing."""
    found = []
    for name, values in columns.items():
        values = np.ma.getdata(values).astype(object)
        missing = np.ma.getmaskarray(columns[name])
        found.append((name, [None if gone else _plain(value) for value, gone in zip(values, missing, strict=True)]))
    return hashed(repr(found).encode())


def _plain(value):
    if isinstance(value, float | np.floating):
        return float(value).hex()
    return str(value) if isinstance(value, np.datetime64 | pd.Timestamp) else value


def charge(each):
    """Return a charge, its numbers in hexadecimal digits."""
    return [each.purpose, each.law, float(each.scale).hex(), float(each.sensitivity).hex(), each.norm, int(each.count),
            *([] if each.floor is None else [float(each.floor).hex()]),
            *([] if each.claim is None else [str(each.claim)])]


# One case


def outcome(case):
    """Return what a case gives, as JSON has it, and its arrays."""
    kept = Kept()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of points that miss their targets, and of files that have no options.
        warnings.simplefilter("ignore", UserWarning)
        if case.way == "shares":
            return _of_shares(case), kept.arrays
        made = released(case)
        found = {"charges": [charge(each) for each in made.ledger.charges], "n": made.n,
                 "schema": texts((each.name, each.kind, each.lower, each.upper, each.categories)
                                 for each in made.schema.columns),
                 "released": {"names": texts(made.names), "kinds": texts(made.to_frame("pandas")["kind"]),
                              "means": kept.digest("means", made.means),
                              "deviations": kept.digest("deviations", made.deviations)},
                 "rows": _rows(made, kept), "answers": _answers(case, made, kept)}
        with tempfile.TemporaryDirectory() as folder:
            found["saved"] = _tried(lambda: _saved(made, Path(folder)))
            if case.page:
                found["page"] = _page(made, Path(folder), kept)
        return found, kept.arrays


def _rng(k=0):
    return np.random.default_rng(SEED + k)


def _design(case):
    return tm.design(_count(case), case.schema, case.budget, case.mechanism, **case.more)


def _count(case):
    who = case.schema.person
    return len(case.table) if who is None else case.table[who].nunique()


def released(case):
    """Return the release of a case, with its points."""
    if case.way == "synthesize":
        return tm.synthesize(case.table, case.schema, case.budget, case.mechanism, _rng(), **case.more)
    if case.way == "file":
        with tempfile.TemporaryDirectory() as folder:
            case.table.to_csv(Path(folder) / "table.csv", index=False)
            return tm.synthesize(Path(folder) / "table.csv", case.schema, case.budget, case.mechanism, _rng())
    if case.way == "estimator":
        made = tm.Synthesizer(case.schema, epsilon=case.budget.epsilon, delta=case.budget.delta,
                              mechanism=case.mechanism, random_state=SEED)
        return made.fit(case.table).synthesis_
    planned = _design(case)
    if case.way == "parts":
        return tm.reconstruct(_of_parts(case, planned), _rng(1))
    moments = tm.measure(case.table, case.schema, planned, _rng())
    if case.way == "loaded":
        with tempfile.TemporaryDirectory() as folder:
            moments.save(Path(folder) / "moments.tm")
            moments = tm.NoisyMoments.load(Path(folder) / "moments.tm")
    return tm.reconstruct(moments, _rng(1), mechanism=case.mechanism)


def _parts(case):
    """Return a table's rows in parts of different lengths; a person's rows in one."""
    n = len(case.table)
    cuts = [n * (k * k + 1) // (case.parts**2 + 1) for k in range(1, case.parts)]
    if case.schema.person is not None:
        who = case.table[case.schema.person].to_numpy()
        cuts = [next(i for i in range(cut, n) if who[i] != who[i - 1]) for cut in cuts]
    rows = case.table.iloc if isinstance(case.table, pd.DataFrame) else case.table
    return [rows[start:stop] for start, stop in zip([0, *cuts], [*cuts, n], strict=True)]


def _of_parts(case, design):
    while isinstance(design, tm.Design):
        measured = [tm.measure_part(part, design) for part in _parts(case)]
        design = tm.release_parts(measured, design, _rng())
    return design


def _of_shares(case):
    """Return the charges, and the names: the noise of shares is real."""
    design = _design(case).for_shares()
    with tempfile.TemporaryDirectory() as folder:
        while isinstance(design, tm.Design):
            shares = [tm.share_part(part, design, party=k, parties=case.parts)
                      for k, part in enumerate(_parts(case), 1)]
            design = tm.release_shares(shares, design, rounds=Path(folder) / "rounds")
    first = [name for name in design.names if " * " not in name]
    return {"charges": [charge(each) for each in design.ledger.charges], "n": design.n, "names": texts(first)}


def _rows(made, kept):
    points, weights = made.distribution.points, made.distribution.weights
    first = made.columns(50, _rng(2))
    # What a sum's order may change is recorded to 12 digits.
    averages, squares = ([float(f"{mean:.12f}") for mean in weights @ values][:4] for values in (points, points**2))
    return {"points": kept.digest("points", np.column_stack([weights, points])), "averages": averages,
            "squares": squares,
            "misfit": made.fit.misfit, "objective": made.fit.objective, "iterations": made.fit.iterations,
            "warnings": len(made.warnings), "size": made.rows, "sample": rows_hash(first),
            **_conditioned(made, first)}


def _conditioned(made, first):
    """Return the hashes of rows with what is given, and with shares; or by which exception they are refused."""
    column = made.schema.columns[0]
    value = first[column.name][0]
    asked = None if np.ma.is_masked(value) else _given(column, value)
    found = {"given": _tried(lambda: rows_hash(made.columns(20, _rng(3), given={column.name: asked})))}
    groups = [each for each in made.schema.columns if each.categories is not None]
    if groups:
        two = {groups[-1].categories[0]: 0.25, groups[-1].categories[1]: 0.75}
        found["shares"] = _tried(lambda: rows_hash(made.columns(20, _rng(4), shares={groups[-1].name: two})))
    return found


def _given(column, value):
    if column.kind == "datetime":
        return value.astype("datetime64[s]").item() if value.dtype != "datetime64[D]" else value.item()
    value = value.item() if hasattr(value, "item") else value
    return (column.lower, column.upper) if column.kind == "continuous" and value not in column.special else value


def _tried(call):
    try:
        return call()
    except tm.TrigmechError as refused:
        return type(refused).__name__


def _answers(case, made, kept):
    """Return answers to smooth queries with their bounds, and error bars of statistics."""
    found = {}
    numbers = [column for column in made.schema.columns if column.kind != "categorical"]
    of_tables = isinstance(case.mechanism, tm.TableMechanism) or (case.mechanism is None and not case.more)
    queries = workload.SecondMoments(len(numbers)) if numbers else None
    if queries is not None and (case.bars or not of_tables) and not isinstance(case.mechanism, OwnFunctions):
        asked = made.query(queries)
        found["query"] = kept.digest("query", asked.values)
        if asked.error is not None:
            found["query error"] = kept.digest("query error", asked.error.bound)
            found["predicted error"] = kept.digest("predicted error", made.predicted_error(queries, 0.8).deviation)
    if case.bars:
        for name, statistic in _statistics(made.schema).items():
            bars = made.error_bars(statistic)
            found[name] = kept.digest(name, bars.values)
            found[f"{name}, bound"] = kept.digest(f"{name}, bound", bars.error.bound)
            found[f"{name}, worst"] = kept.digest(f"{name}, worst", bars.error.worst)
    names = made.schema.names
    found["expected"] = _tried(lambda: float(made.expect(
        lambda table: np.ma.filled(np.ma.asarray(table[names[0]] == table[names[0]][0]), False).astype(float),
        units="table")))
    if case.way in ("synthesize", "steps") and not isinstance(case.mechanism, tm.ImprovedTrigI | tm.ImprovedTrigII):
        found["preview"] = _previewed(case, kept)
    return found


def _statistics(schema):
    """What users ask error bars of; a documented module, whose names the package does not export."""
    from trigmech.evaluation import statistics

    return {"table": statistics.marginal(schema, schema.names[:2], cells=4),
            "below": lambda table: np.mean(np.ma.getmaskarray(table[schema.names[-1]])
                                           | (np.ma.getdata(table[schema.names[-1]]) == table[schema.names[-1]][0]))}


def _previewed(case, kept):
    def previewed():
        options = {name: value for name, value in case.more.items() if name == "bounds_share"}
        said = tm.preview(_count(case), case.schema, case.budget, mechanism=case.mechanism, **options)
        errors = [each["error"] for each in (*said.to_dict()["columns"], *said.to_dict()["together"])]
        return kept.digest("preview", [*(error for error in errors if error is not None),
                                       *said.to_dict()["predicted"].values(), said.proved_epsilon, len(said.warnings)])

    return _tried(previewed)


def _saved(made, folder):
    """Return whether what is saved comes back as it was: the release with its rows, and the moments alone."""
    made.save(folder / "made.tm")
    again, alone = tm.load(folder / "made.tm"), tm.NoisyMoments.load(folder / "made.tm")
    alone.save(folder / "moments.tm")
    return all([
        all(_same(each, made) for each in (again, alone, tm.NoisyMoments.load(folder / "moments.tm"))),
        again.distribution.points.tobytes() == made.distribution.points.tobytes(),
        again.distribution.weights.tobytes() == made.distribution.weights.tobytes(),
        rows_hash(again.columns(50, _rng(2))) == rows_hash(made.columns(50, _rng(2))),
        again.rows == made.rows, again.warnings == made.warnings, again.fit.misfit == made.fit.misfit])


def _same(again, made):
    return (again.means.tobytes() == made.means.tobytes() and again.deviations.tobytes() == made.deviations.tobytes()
            and again.names == made.names and again.ledger.charges == made.ledger.charges and again.n == made.n
            and again.schema == made.schema)


def _page(made, folder, kept):
    """Return the numbers in the cells of the report's tables. Its words, and its pictures, may change."""
    from trigmech.report import page

    # It says how long the fit took.
    steady = replace(made, fit=replace(made.fit, seconds=1.0))
    text = page.write(steady, folder / "page.html").read_text(encoding="utf-8")
    # The version is one of the cells.
    text = text.replace(made.versions["trigmech"], RECORDED_BY)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", text)
    numbers = [number for cell in cells for number in re.findall(r"-?\d+\.\d+", cell)]
    return kept.digest("page", sorted(map(float, numbers)))


# What is refused


def refusals():
    """Return by which exception calls are refused that break a rule, by name."""
    table, thesis = cube(), tm.ImprovedTrigII(n_candidates=50)
    made = tm.synthesize(table, CUBE, ONE, tm.TableMechanism(points=64), _rng())
    moments = tm.synthesize(table, CUBE, ONE, tm.MomentMechanism(points=64, degree=2, pair_degree=0, triples=False,
                                                                 whole_row=False), _rng())
    planned = tm.design(400, CUBE, ONE)
    part = tm.measure_part(table, planned)
    unknown = tm.Schema([tm.Column("town", kind="categorical", categories="private")])
    towns = pd.DataFrame({"town": ["a"] * 50})
    mechanism = tm.MomentMechanism
    calls = {
        "a schema that is none": lambda: tm.synthesize(table, None, ONE),
        "a budget that is none": lambda: tm.synthesize(table, CUBE, 1.0),
        "a mechanism that is none": lambda: tm.synthesize(table, CUBE, ONE, "tables"),
        "a generator that is none": lambda: tm.synthesize(table, CUBE, ONE, None, 3),
        "epsilon 0": lambda: tm.Budget(0.0), "delta 1": lambda: tm.Budget(1.0, 1.0),
        "epsilon beyond a ledger": lambda: tm.synthesize(table, CUBE, tm.Budget(1e13)),
        "one row": lambda: tm.synthesize(table[:1], CUBE, ONE),
        "a table of other columns": lambda: tm.synthesize(table[:, :2], CUBE, ONE),
        "a value that is missing": lambda: tm.synthesize(np.where(table > 0.5, np.nan, table), CUBE, ONE),
        "a category that is unknown": lambda: tm.synthesize(mixed().assign(sex="?"), MIXED, ONE),
        "n of one": lambda: tm.design(1, CUBE, ONE), "n that is no integer": lambda: tm.design(10.5, CUBE, ONE),
        "a workload beside a mechanism": lambda: tm.design(400, CUBE, ONE, mechanism(),
                                                           workload=workload.SecondMoments(3)),
        "a workload that is none": lambda: tm.design(400, CUBE, ONE, workload="all"),
        "a workload of other columns": lambda: tm.design(400, CUBE, ONE, workload=workload.SecondMoments(2)),
        "crossed with no column": lambda: tm.design(400, CUBE, ONE, workload=workload.Marginals(2, crossed="sex")),
        "marginals of four": lambda: workload.Marginals(4), "ranges of none": lambda: workload.Ranges(0),
        "shares of more than all": lambda: budget_shares(0.9, 0.2, 0.5, 3, 0.0),
        "no points": lambda: tm.TableMechanism(points=0),
        "too many points": lambda: tm.design(400, CUBE, ONE, tm.TableMechanism(points=10**9)),
        "degree of none": lambda: mechanism(degree=0), "a fit that is none": lambda: mechanism(fit="best"),
        "smoothness and degree": lambda: mechanism(smoothness=1.0, degree=2),
        "points of a cloud": lambda: mechanism(fit="cloud", points=10),
        "a cloud of categories": lambda: tm.design(400, MIXED, ONE, mechanism(fit="cloud")),
        "smoothness of categories": lambda: tm.design(400, MIXED, ONE, tm.minimax(1.0)),
        "too few functions": lambda: tm.design(400, CUBE, ONE, mechanism(degree=5, max_functions=3)),
        "algorithm 5 without delta": lambda: tm.design(400, CUBE, PURE, tm.TrigII(degree=2, grid=3)),
        "a grid that is too large": lambda: tm.design(400, tm.Schema.cube(12), PURE, tm.TrigI(degree=3, grid=30)),
        "a background of two": lambda: tm.ImprovedTrigI(background=2.0),
        "private categories, pure": lambda: tm.design(50, unknown, PURE),
        "private categories, Laplace noise": lambda: tm.design(50, unknown, ONE, tm.ImprovedTrigI()),
        "private categories in parts": lambda: tm.measure_part(towns, tm.design(50, unknown, ONE)),
        "a share for bounds of one": lambda: tm.design(400, UNKNOWN, ONE, bounds_share=1.0),
        "a design for another schema": lambda: tm.measure(mixed(400), MIXED, planned),
        "a design for other rows": lambda: tm.measure(table[:300], CUBE, planned),
        "a design that is none": lambda: tm.measure(table, CUBE, ONE),
        "moments that are none": lambda: tm.generate(made.means),
        "rows below 0": lambda: tm.generate(made, -1), "a sample below 0": lambda: made.sample(-1),
        "persons where there are none": lambda: made.sample(rows_per_person=2),
        "given of no column": lambda: made.sample(3, given={"y": 1.0}),
        "given beyond the bounds": lambda: made.sample(3, given={"x1": 7.0}),
        "shares of more than one": lambda: made.sample(3, shares={"x1": {(-1.0, 0.0): 0.9, (0.5, 1.0): 0.9}}),
        "given and shares of one": lambda: made.sample(3, given={"x1": (0.0, 1.0)}, shares={"x1": {(0.0, 1.0): 1.0}}),
        "error bars of moments": lambda: moments.error_bars(lambda table: 1.0),
        "error bars of a text": lambda: made.error_bars(lambda table: "all"),
        "error bars of level 2": lambda: made.error_bars(lambda table: np.mean(table["x1"]), 2.0),
        "queries of other columns": lambda: made.query(workload.SecondMoments(7)),
        "predicted error of algorithm 10": lambda: tm.synthesize(table, CUBE, ONE, thesis, _rng()).predicted_error(
            workload.SecondMoments(3)),
        "a preview of algorithm 10": lambda: tm.preview(400, CUBE, ONE, mechanism=thesis),
        "units that are none": lambda: made.expect(np.mean, units="feet"),
        "a frame of no library": lambda: made.to_frame("excel"),
        "a file that is not there": lambda: tm.load("not there.tm"),
        "the same part twice": lambda: tm.release_parts([part, part], planned, _rng()),
        "parts that are not all": lambda: tm.release_parts([tm.measure_part(table[:9], planned)], planned, _rng()),
        "no parts": lambda: tm.release_parts([], planned, _rng()),
        "several rounds without a file": lambda: tm.release_parts([part], planned),
        "a share of no run": lambda: tm.share_part(table, planned, party=1, parties=2),
        "a party beyond all": lambda: tm.share_part(table, planned.for_shares(), party=3, parties=2),
        "shares of Laplace noise": lambda: tm.share_part(table, tm.design(400, CUBE, PURE).for_shares(), party=1,
                                                         parties=2),
        "shares of an own mechanism": lambda: tm.share_part(table, tm.design(400, CUBE, ONE, FirstMoments()
                                                                             ).for_shares(), party=1, parties=2),
        "a diameter below 0": lambda: tm.design(400, CUBE, ONE, Refused(-1.0)),
        "own functions without an error": lambda: tm.design(400, CUBE, ONE, Refused(1.0)),
        "constraints that no row keeps": lambda: tm.Schema(CUBE.columns, ["x1 > 2"]),
        "a constraint of no column": lambda: tm.Schema(CUBE.columns, ["y = 1"]),
        "bounds the wrong way round": lambda: tm.Column("x", 1, 0),
        "one category": lambda: tm.Column("x", kind="categorical", categories=("a",)),
        "a name twice": lambda: tm.Schema([*CUBE.columns, CUBE.columns[0]]),
        "a rounds file of a simulation": lambda: tm.synthesize(table, CUBE, ONE, None, _rng(), rounds="rounds"),
        "a ledger that is not there": lambda: tm.synthesize(table, CUBE, ONE, ledger="not there.json"),
    }
    return {name: _refused(call) for name, call in calls.items()}


class Refused(tm.Mechanism):
    """What equip refuses."""

    def __init__(self, diameter):
        self.diameter = diameter

    def plan(self, facts):
        own = tm.Features(tm.ChebyshevBasis(np.eye(3, dtype=int)))
        return self.equip(facts, own if self.diameter < 0 else object.__new__(Wrong), self.diameter)


class Wrong:
    K, d = 3, 3


def _refused(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as refused:
            return type(refused).__name__
    return "accepted"


# Comparison


def differences(recorded, found, same_platform=True, arrays=None, others=None):
    """Return what differs between two outcomes of one case, as pairs of what it is and how.

    Parameters
    ----------
    recorded, found : dict
        What :func:`outcome` returned, once and now.
    same_platform : bool
        Whether the bits must be the same.
    arrays, others : mapping of str to ndarray, optional
        All numbers of both, for the largest difference.
    """
    said = []

    def differ(kind, before, after, where, *, relative=0.0, absolute=0.0):
        if isinstance(before, dict) and isinstance(after, dict):
            if "#" in before and "#" in after:
                old, new = before["#"], after["#"]
                if old[:2] != new[:2] and not (max(relative, absolute) and old[1] == new[1]
                                             and _close(old[2:], new[2:], relative, absolute)):
                    said.append((kind, f"{where}: {_how_far(where, old, new, arrays, others)}"))
                return
            for key in sorted({*before, *after}):
                differ(kind, before.get(key), after.get(key), f"{where}.{key}" if where else key, relative=relative,
                       absolute=absolute)
        elif isinstance(before, float) and isinstance(after, float):
            if not (before == after or abs(before - after) <= relative * max(abs(before), abs(after)) + absolute):
                said.append((kind, f"{where}: {before!r} was recorded, and it is {after!r}"))
        elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            for k, (old, new) in enumerate(zip(before, after, strict=True)):
                differ(kind, old, new, f"{where}[{k}]", relative=relative, absolute=absolute)
        elif before != after:
            said.append((kind, f"{where}: {before!r} was recorded, and it is {after!r}"))

    exact, near = (0.0, 0.0) if same_platform else (RELATIVE, ABSOLUTE)
    for key in ("charges", "n", "schema", "names", "released", "saved"):
        kind = "charges" if key == "charges" else "files" if key == "saved" else "released values"
        before, after = recorded.get(key), found.get(key)
        if key == "saved" and after is True:
            # What files once had no form for may have one now.
            continue
        if key == "charges" and not same_platform:
            before, after = _in_decimals(before), _in_decimals(after)
        differ(kind, before, after, key, relative=exact, absolute=near)
    if not same_platform:
        differ("rows", *(_nearness(each.get("rows")) for each in (recorded, found)), "rows", relative=0.2, absolute=0.1)
        return said
    differ("rows", recorded.get("rows"), found.get("rows"), "rows")
    if _rows_are_near(recorded, found):
        # The bits of a fit whose sums are in another order.
        said = [(kind, text) for kind, text in said if kind != "rows"]
    differ("answers", recorded.get("answers"), found.get("answers"), "answers", relative=NEAR, absolute=NEAR)
    differ("page", recorded.get("page"), found.get("page"), "page", relative=NEAR, absolute=NEAR)
    return said


def _close(before, after, relative, absolute):
    """Return whether two sums, each within the sizes of what was added, and some numbers are close."""
    scales = [before[1], before[1], *map(abs, before[2:])]
    return all(abs(old - new) <= relative * scale + absolute
               for old, new, scale in zip(before, after, scales, strict=True))


def _in_decimals(charges):
    return [[float.fromhex(each) if isinstance(each, str) and each.startswith("0x") else each for each in own]
            for own in charges or ()]


def _nearness(rows):
    """Return how near points are to their targets, which hardly depends on the last bits."""
    return None if rows is None else {name: rows[name] for name in ("misfit", "objective", "size")}


def _rows_are_near(recorded, found):
    before, after = recorded.get("rows"), found.get("rows")
    return bool(before and after) and before["points"]["#"][1] == after["points"]["#"][1] and all(
        np.allclose(before[name], after[name], rtol=0, atol=NEAR) for name in ("averages", "squares")) and (
        before["size"], before["warnings"]) == (after["size"], after["warnings"]) and np.allclose(
        *([rows["misfit"] or 0.0, rows["objective"] or 0.0] for rows in (before, after)), rtol=NEAR, atol=NEAR)


def _how_far(where, before, after, arrays, others):
    name = where.split(".")[-1]
    if before[1] != after[1]:
        return f"the shape {before[1]} was recorded, and it is {after[1]}"
    if name in (arrays or {}) and name in (others or {}):
        apart = np.abs(arrays[name] - others[name])
        return f"{np.count_nonzero(apart)} of {apart.size} differ, by {apart.max():.3g} at most"
    apart = [abs(old - new) for old, new in zip(before[4:], after[4:], strict=True)]
    return (f"bits differ; {len(apart)} numbers in clear by {max(apart, default=0.0):.3g} at most, a weighted sum by "
            f"{abs(before[2] - after[2]):.3g}")


# The program


def chosen(pattern):
    return [name for name in CASES if fnmatch.fnmatchcase(name.lstrip("*"), pattern)]


def run(names, folder, tell):
    """Yield the name, the outcome and the arrays of each case; the arrays are kept in the folder, if one is given."""
    for name in names:
        begun = time.process_time()
        # As in tests: the last bits of products of matrices depend on the number of threads.
        with threadpoolctl.threadpool_limits(1):
            found, arrays = outcome(CASES[name]())
        if tell:
            print(f"{time.process_time() - begun:6.2f} s  {name}", file=sys.stderr)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            np.savez_compressed(folder / f"{plain(name)}.npz", **arrays)
        yield plain(name), found, arrays


def plain(name):
    return name.lstrip("*")


def record(path, pattern, folder):
    cases = {name: found for name, found, _ in run(chosen(pattern), folder, True)}
    content = {"format": "trigmech golden runs 1", "tag": tag(), "refusals": refusals(), "cases": cases}
    lines = [f"{json.dumps(name)}:{json.dumps(found, separators=(',', ':'), allow_nan=False)}"
             for name, found in cases.items()]
    head = json.dumps({key: value for key, value in content.items() if key != "cases"}, indent=1)[:-2]
    path.write_text(head + ',\n "cases": {\n' + ",\n".join(lines) + "\n}}\n", encoding="utf-8")
    print(f"{len(cases)} cases, {len(content['refusals'])} refusals, {path.stat().st_size:,} bytes, "
          f"{time.process_time():.0f} s of processor time")
    return 0


def compare(path, pattern, folder):
    content, differing = json.loads(path.read_text(encoding="utf-8")), 0
    same = content["tag"] == tag()
    if not same:
        print(f"recorded elsewhere: {content['tag']}\nhere: {tag()}")
    for name, found, arrays in run(chosen(pattern), None, False):
        others = None
        if folder is not None and (folder / f"{name}.npz").exists():
            with np.load(folder / f"{name}.npz") as kept:
                others = dict(kept)
        if name not in content["cases"]:
            said = [("cases", "it is not in the file")]
        else:
            said = differences(content["cases"][name], json.loads(json.dumps(found)), same, arrays, others)
        differing += bool(said)
        for kind, text in said:
            print(f"{name}: {kind}: {text}")
    said = [(name, was, now) for name, was, now in refusal_differences(content["refusals"], refusals())]
    for name, was, now in said:
        print(f"refusals: {name}: {was} was recorded, and it is {now}")
    print(f"{differing} of {len(chosen(pattern))} cases differ, {len(said)} refusals")
    return int(bool(differing or said))


def refusal_differences(before, after):
    return [(name, before.get(name), after.get(name)) for name in sorted({*before, *after})
            if before.get(name) != after.get(name)]


def main(arguments: list[str] | None = None) -> Any:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path, nargs="?", default=FILE)
    parser.add_argument("--arrays", type=Path, help="a folder with all numbers of each case")
    parser.add_argument("--only", default="*", help="names of cases, as a pattern")
    given = parser.parse_args(arguments)
    return (record if given.what == "record" else compare)(given.file, given.only, given.arrays)


if __name__ == "__main__":
    sys.exit(main())
