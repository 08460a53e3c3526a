"""Files of a version, kept for the versions after it: releases, moments, designs, parts and a ledger.

    python -m tests.old_releases FOLDER

writes them with the present version, and beside them expected.json, which has the numbers that reading them must give.
tests/data/releases-0.1 was made so by version 0.1. All tables are those of tests/golden_cases.py, which are made up.
"""

import json
import sys
import warnings
from importlib import metadata
from pathlib import Path

import numpy as np

import trigmech as tm
from tests import golden
from tests.golden_cases import (
    CASES,
    CHECKED,
    CUBE,
    FEW,
    FEW_NAMES,
    HIGH,
    HUGE,
    MIXED,
    ONE,
    PRIVATE_LOG,
    PURE,
    SMALL,
    Case,
    FirstMoments,
    checked,
    cube,
    kernels,
    mixed,
    moments,
    narrowed,
    of_cube,
    of_few,
    of_mixed,
    of_persons,
    people,
    tables,
    visits,
    wide,
)

TINY = tables(points=40)
AGE_AND_SEX = narrowed(MIXED, ("age", "sex"))
FOUND = tm.Schema([tm.Column("count", kind="integer", private_bounds=True), FEW.columns[0]])
TOWNS = tm.Schema([tm.Column("town", kind="categorical", categories="private"), FEW.columns[1]])



class FewPoints(FirstMoments):
    """A mechanism of one's own that makes small files."""

    def most_points(self, n, d):
        return 40


RELEASES = {
    "tables": lambda: of_mixed(ONE, TINY),
    "tables-pure": lambda: of_mixed(PURE, TINY),
    "tables-contrasts": lambda: of_few(PURE, TINY),
    "tables-threes": lambda: Case(wide(), CASES["*tables, threes"]().schema, HIGH, TINY),
    "tables-closer": lambda: Case(mixed(200)[["age", "sex"]], AGE_AND_SEX, HUGE, TINY),
    "tables-persons": lambda: Case(visits()[["age", "job", "who"]], of_persons(tm.Schema([
        tm.Column("age", 0, 120, "integer"), PRIVATE_LOG.columns[1]])), ONE, TINY),
    "tables-constraints": lambda: Case(checked(), CHECKED, ONE, TINY),
    "tables-private-categories": lambda: Case(people().assign(smokes=np.arange(800) % 2), TOWNS, HIGH, TINY),
    "tables-private-bounds": lambda: Case(mixed(150).assign(count=range(150))[["count", "sex"]], FOUND, ONE, TINY),
    "moments": lambda: of_cube(moments(points=40, **SMALL)),
    "moments-pure": lambda: of_mixed(PURE, moments(points=40, **SMALL)),
    "moments-triples": lambda: of_cube(moments(points=40, degree=2, pair_degree=1, triples=True), HIGH, d=4),
    "moments-whole-rows": lambda: of_cube(moments(points=40, whole_row=True,
                                                   workload=kernels(3, 0, widths=(1.0, 2.0)))),
    "moments-atoms": lambda: of_cube(tm.MomentMechanism(fit="atoms", degree=2, pair_degree=0), d=2),
    "moments-minimax": lambda: of_cube(tm.minimax(1.0, max_functions=30, points=40, iterations=10)),
    "moments-persons": lambda: Case(mixed(600).assign(who=visits()["who"]), of_persons(MIXED), ONE,
                                    moments(points=40, **SMALL)),
    "own-moments": lambda: of_cube(FewPoints(3)),
    "algorithm-4": lambda: of_cube(tm.TrigI(degree=2, grid=3), PURE),
    "algorithm-5-published": lambda: of_cube(tm.TrigII(degree=2, grid=3, calibration="published")),
    "algorithm-9": lambda: of_mixed(PURE, tm.ImprovedTrigI(n_candidates=100, rank=2)),
    "algorithm-9-not-solved": lambda: of_cube(tm.ImprovedTrigI(n_candidates=30, time_limit=1e-9), PURE),
    "algorithm-10": lambda: of_cube(tm.ImprovedTrigII(n_candidates=100, rank=2)),
}
# Noisy moments without a fit, of these.
ALONE = ("tables", "tables-threes", "moments-pure", "algorithm-10")


def expected(read):
    """Return the numbers that a file gives, as JSON has them."""
    kept = golden.Kept()
    found = {"n": read.n, "names": golden.texts(read.names), "kinds": golden.texts(read.to_frame("pandas")["kind"]),
             "means": kept.digest("means", read.means), "deviations": kept.digest("deviations", read.deviations),
             "charges": [golden.charge(each) for each in read.ledger.charges],
             "schema": golden.texts(read.schema.columns), "constraints": len(read.schema.constraints),
             "person": read.schema.person, "library": read.library, "versions": read.versions,
             "simulated": read.ledger.simulated}
    if isinstance(read, tm.Synthesis):
        rows = read.columns(6, np.random.default_rng(1))
        found |= {"points": kept.digest("points", read.distribution.points), "rows": read.rows,
                  "weights": kept.digest("weights", read.distribution.weights), "misfit": read.fit.misfit,
                  "objective": read.fit.objective, "warnings": len(read.warnings), "sample": golden.rows_hash(rows),
                  "first row": [str(np.ma.asarray(values)[0]) for values in rows.values()]}
    return json.loads(json.dumps(found))


def designs():
    """Return a design of each kind of file by name: at the beginning, after a round, for shares."""
    table, planned = mixed(500)[list(FEW_NAMES)], tm.design(500, FEW, ONE, TINY)
    after = tm.release_parts([tm.measure_part(table, planned)], planned, np.random.default_rng(1))
    return {"design": planned, "design-after-a-round": after,
            "design-of-shares": tm.design(400, CUBE, ONE, moments(**SMALL)).for_shares()}


def load_design(path):
    """The package exports no name for this; the commands on parts read designs so."""
    from trigmech.parts import design_file

    return design_file.load(path)


def save_design(path, design):
    """Nor for this."""
    from trigmech.parts import design_file

    design_file.save(path, design)


def version():
    """Return the version that designs and parts are marked with: the installed one."""
    return metadata.version("trigmech")


def described(design):
    return {"n": design.n, "passes": design.passes, "charges": [golden.charge(each) for each in design.all_charges]}


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    said = {"version": version(), "tag": golden.tag(), "releases": {}, "moments": {}, "designs": {}, "parts": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tm.FitWarning)
        for name, case in RELEASES.items():
            made = golden.released(case())
            made.save(folder / f"{name}.tm")
            said["releases"][name] = expected(tm.load(folder / f"{name}.tm"))
            if name in ALONE:
                tm.NoisyMoments.load(folder / f"{name}.tm").save(folder / f"{name}-alone.tm")
                said["moments"][f"{name}-alone"] = expected(tm.NoisyMoments.load(folder / f"{name}-alone.tm"))
    for name, design in designs().items():
        save_design(folder / f"{name}.json", design)
        said["designs"][name] = described(load_design(folder / f"{name}.json"))
    planned = load_design(folder / "design.json")
    halves = [mixed(500)[list(FEW_NAMES)].iloc[rows] for rows in (slice(0, 200), slice(200, 500))]
    for k, half in enumerate(halves, 1):
        part = tm.measure_part(half, planned)
        part.save(folder / f"{k}.part")
        said["parts"][f"{k}.part"] = part.n
    shared = load_design(folder / "design-of-shares.json")
    for k, half in enumerate(np.split(cube(400), [150]), 1):
        share = tm.share_part(half, shared, party=k, parties=2)
        share.save(folder / f"{k}.share")
        said["parts"][f"{k}.share"] = share.n
    book = tm.LedgerFile.create(folder / "ledger.json", tm.Budget(9.0, 1e-5))
    for budget, mechanism in ((ONE, moments(points=40, **SMALL)), (PURE, tm.TrigI(degree=2, grid=3))):
        tm.synthesize(cube(400), CUBE, budget, mechanism, ledger=book)
    again = tm.LedgerFile.open(folder / "ledger.json")
    said["ledger"] = {"total": again.total, "charges": [golden.charge(each.charge) for each in again.entries]}
    (folder / "ledger.json.lock").unlink(missing_ok=True)
    (folder / "expected.json").write_text(json.dumps(said, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:8,}  {path.name}")
    print(f"{sum(path.stat().st_size for path in folder.iterdir()):8,}  in all")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
