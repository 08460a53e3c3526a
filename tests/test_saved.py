"""Saved releases: everything comes back bit for bit, nothing private goes in, and what does not fit is refused."""

import copy
import dataclasses
import datetime
import math
import struct
import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import polars as pl
import pytest

from trigmech import run as run_module
from trigmech.distribution import Distribution
from trigmech.errors import InputError, TrigmechError
from trigmech.mechanisms.moment import MomentMechanism, minimax
from trigmech.mechanisms.table import TableMechanism
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger, LedgerFile
from trigmech.results import NoisyMoments, Synthesis
from trigmech.results import load as load_release
from trigmech.schema.schema import Column, Schema
from trigmech.storage import archive
from trigmech.storage import release_file as saved
from trigmech.synthesis import design, generate, measure, reconstruct, synthesize
from trigmech.thesis.mechanisms import ImprovedTrigI, ImprovedTrigII, TrigI, TrigII
from trigmech.workload import GaussianKernels

FAST = MomentMechanism(points=64, iterations=10, degree=3, pair_degree=1, triples=False, whole_row=False)
TABLES = TableMechanism(points=64)
# The defaults of what only rows have.
STILL = {"points": None, "iterations": 80}
PURE, APPROXIMATE = Budget(1.0), Budget(1.0, 1e-3)
DATA = Path(__file__).parent / "data"
MIXED = Schema([
    Column("age", 0, 120, "integer", missing="keep"), Column("gain", 0.0, 1e5, special=(0.0,)),
    Column("sex", kind="categorical", categories=("f", "m", "ü")), Column("smokes", 0, 1, "binary"),
    Column("grade", kind="ordinal", categories=("low", "middle", "high"), other="low"),
    Column("income", 1.0, 1e6, transform="log"),
    Column("seen", datetime.date(2020, 1, 1), datetime.date(2024, 12, 31), "datetime"),
])
FEW = Schema(MIXED.columns[2:5])


def cube_table(n=300, d=3):
    rng = np.random.default_rng(1)
    z = rng.standard_normal((n, d))
    z[:, 1:] = 0.5 * z[:, :1] + 0.8 * z[:, 1:]
    return np.clip(0.4 * z, -1.0, 1.0)


def mixed_table(n=300):
    rng = np.random.default_rng(2)
    return pd.DataFrame({
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 99, n)),
        "gain": np.where(rng.random(n) < 0.7, 0.0, rng.uniform(0, 1e5, n)), "sex": rng.choice(["f", "m", "ü"], n),
        "smokes": rng.integers(0, 2, n), "grade": rng.choice(["low", "middle", "high"], n),
        "income": np.exp(rng.uniform(0, 13, n)),
        "seen": np.datetime64("2020-01-01") + rng.integers(0, 1800, n).astype("timedelta64[D]"),
    })


def simulated(mechanism, budget, table=None, schema=None):
    table = cube_table() if table is None else table
    return synthesize(table, schema or Schema.cube(table.shape[1]), budget, mechanism, np.random.default_rng(3))


CASES = {
    "algorithm 4": lambda: simulated(TrigI(degree=2, grid=4), PURE),
    "algorithm 4, published": lambda: simulated(TrigI(degree=2, grid=3, calibration="published"), PURE),
    "algorithm 5": lambda: simulated(TrigII(degree=2, grid=4, levels=None), APPROXIMATE),
    "algorithm 5, published": lambda: simulated(TrigII(degree=2, grid=3, calibration="published"), APPROXIMATE),
    "algorithm 9": lambda: simulated(ImprovedTrigI(n_candidates=200), PURE),
    "algorithm 9, published": lambda: simulated(ImprovedTrigI(n_candidates=200, calibration="published"), PURE),
    "algorithm 10": lambda: simulated(ImprovedTrigII(n_candidates=200, rank=2), APPROXIMATE),
    "algorithm 10, published": lambda: simulated(ImprovedTrigII(n_candidates=200, calibration="published",
                                                                eigenvalues="norm"), APPROXIMATE),
    "moments, pure": lambda: simulated(FAST, PURE),
    "moments": lambda: simulated(FAST, APPROXIMATE),
    "moments of whole rows": lambda: simulated(dataclasses.replace(
        FAST, whole_row=True, workload=GaussianKernels(3, seed=0, widths=(1.0, 2.0))), APPROXIMATE),
    "moments, a cloud": lambda: simulated(dataclasses.replace(FAST, fit="cloud", **STILL), APPROXIMATE),
    "moments, atoms": lambda: simulated(dataclasses.replace(FAST, fit="atoms", pair_degree=0, degree=2, **STILL),
                                        APPROXIMATE),
    "algorithm 9, not solved": lambda: simulated(ImprovedTrigI(n_candidates=200, time_limit=1e-9), PURE),
    "minimax": lambda: simulated(minimax(1.0, max_functions=30, points=64, iterations=10), APPROXIMATE),
    "one column": lambda: simulated(dataclasses.replace(FAST, pair_degree=0), PURE, cube_table(d=1)),
    "a dataframe": lambda: simulated(FAST, APPROXIMATE, pl.DataFrame(cube_table(), schema=["b", "a", "ü"]), Schema(
        Column(name, -1.0, 1.5) for name in ("a", "b", "ü"))),
    "categories": lambda: simulated(dataclasses.replace(FAST, degree=2), APPROXIMATE, mixed_table(), MIXED),
    "categories, pure": lambda: simulated(dataclasses.replace(FAST, degree=2), PURE, mixed_table(), MIXED),
    "categories, algorithm 9": lambda: simulated(ImprovedTrigI(n_candidates=200, rank=2), PURE, mixed_table(), MIXED),
    "tables": lambda: simulated(TABLES, APPROXIMATE, mixed_table(), MIXED),
    "tables, pure": lambda: simulated(TABLES, PURE, mixed_table(), MIXED),
    "tables, contrasts": lambda: simulated(TABLES, PURE, mixed_table()[list(FEW.names)], FEW),
    "tables, looked at closer": lambda: simulated(TABLES, Budget(1e3, 1e-6), mixed_table(), MIXED),
    "tables, one column": lambda: simulated(TABLES, APPROXIMATE, cube_table(d=1)),
    "not simulated": lambda: synthesize(cube_table(), Schema.cube(3), APPROXIMATE, FAST),
}
each_case = pytest.mark.parametrize("case", CASES)


@cache
def made(case):
    return CASES[case]()


def save(path, synthesis):
    saved.write(path, **synthesis._parts())
    return path


def load(path):
    return Synthesis(**saved.read(path))


def differences(left, right, where="release"):
    """Where two objects differ in type, in a bit, or in the order of an array in memory."""
    if type(left) is not type(right):
        return [f"{where}: {type(left).__name__} and {type(right).__name__}"]
    if dataclasses.is_dataclass(left):
        # What was planned is not part of a file.
        return [each for field in dataclasses.fields(left) if field.name != "design"
                for each in differences(getattr(left, field.name), getattr(right, field.name), f"{where}.{field.name}")]
    if isinstance(left, list | tuple):
        pairs = zip(left, right, strict=False)
        return ([] if len(left) == len(right) else [where]) + [
            each for k, (a, b) in enumerate(pairs) for each in differences(a, b, f"{where}[{k}]")]
    if isinstance(left, np.ndarray):
        alike = (left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
                 and left.flags.c_contiguous == right.flags.c_contiguous)
        return [] if alike else [where]
    return [] if left == right and (not isinstance(left, float) or left.hex() == right.hex()) else [where]


# What comes back


def test_planted_differences_are_found():
    synthesis = made("moments")
    fit, release = synthesis.fit, synthesis.release
    turned = Distribution(np.asfortranarray(fit.points), fit.weights)
    for change in ({"fit": dataclasses.replace(fit, rows=301)}, {"library": "pandas"},
                   {"fit": dataclasses.replace(fit, seconds=0.5)},
                   {"release": dataclasses.replace(release, means=-release.means)},
                   {"fit": dataclasses.replace(fit, distribution=turned)}):
        assert len(differences(synthesis, dataclasses.replace(synthesis, **change))) == 1


def test_profiles_would_change_in_their_last_bits_without_care(tmp_path):
    features = made("moments of whole rows").release.features
    assert len(features.profiles) == 1
    # The planted fault: the constructor scales once more.
    assert type(features)(features.basis, features.profiles).profiles.tobytes() != features.profiles.tobytes()
    again = load(save(tmp_path / "a.tm", made("moments of whole rows"))).release.features
    points = cube_table()
    assert again.profiles.tobytes() == features.profiles.tobytes()
    assert again.evaluate(points).tobytes() == features.evaluate(points).tobytes()
    assert again.means(points).tobytes() == features.means(points).tobytes()
    assert again.floors.tobytes() == features.floors.tobytes()


@pytest.mark.parametrize("name", ["older-algorithm-5", "older-algorithm-10", "older-moments"])
def test_files_of_the_format_before_are_read(name, tmp_path):
    """Of when releases of the thesis had a kind of their own, and fits repeated points or held all candidates."""
    older = load_release(DATA / f"{name}.tm")
    expected = np.loadtxt(DATA / f"{name}.csv", delimiter=",")
    np.testing.assert_allclose(older.expect(lambda x: np.hstack([x, x**2])), expected, rtol=0, atol=1e-15)
    assert older.ledger.simulated
    assert (older.fit.objective is None) == (name == "older-moments")
    moving = older.release.index.degrees.any(axis=1)
    assert (older.release.deviations > 0).tolist() == moving.tolist()
    # The noise is what was charged, as a standard deviation.
    charge = older.ledger.charges[0]
    if name != "older-moments":
        factor = {"laplace": math.sqrt(2.0), "gaussian": 1.0}[charge.law]
        np.testing.assert_allclose(older.release.deviations[moving], factor * charge.scale, rtol=1e-12)
    older.save(tmp_path / "a.tm")
    assert differences(older, load_release(tmp_path / "a.tm")) == []


def test_noisy_moments_are_saved_without_points(tmp_path):
    made_of = made("categories")
    moments = NoisyMoments(**{name: part for name, part in made_of._parts().items() if name != "fit"})
    moments.save(tmp_path / "a.tm")
    again = NoisyMoments.load(tmp_path / "a.tm")
    assert differences(moments, again) == []
    with pytest.raises(InputError, match="noisy moments alone"):
        load_release(tmp_path / "a.tm")
    save(tmp_path / "b.tm", made_of)
    assert differences(moments, NoisyMoments.load(tmp_path / "b.tm")) == []
    rng = np.random.default_rng(1)
    assert len(reconstruct(again, rng, mechanism=MomentMechanism()).sample(10, rng)) == 10


def test_a_release_keeps_the_versions_that_made_it_however_often_it_is_saved(tmp_path):
    old = {"trigmech": "0.0.7", "numpy": "1.0", "opendp": "0.1", "python": "3.11.0"}
    path = save(tmp_path / "a.tm", dataclasses.replace(made("moments"), versions=old))
    again = load_release(path)
    assert again.versions == old != made("moments").versions
    again.save(tmp_path / "b.tm")
    assert archive.read(tmp_path / "b.tm")[0]["versions"] == old
    assert (tmp_path / "b.tm").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("budget", [PURE, APPROXIMATE, Budget(1e3, 1e-6)], ids=str)
def test_rows_are_made_of_saved_tables_as_of_those_in_memory(budget, tmp_path):
    planned = design(300, MIXED, budget, TableMechanism())
    moments = measure(mixed_table(), MIXED, planned, np.random.default_rng(3))
    moments.save(tmp_path / "a.tm")
    again = NoisyMoments.load(tmp_path / "a.tm")
    assert differences(moments, again) == []
    assert (again.names, again.release.kinds.tolist()) == (moments.names, moments.release.kinds.tolist())
    first, second = (generate(each, 50, np.random.default_rng(4), mechanism=TableMechanism())
                     for each in (moments, again))
    pd.testing.assert_frame_equal(first, second, check_exact=True)


class Far:
    """Noise that is the same huge number everywhere, as no draw ever is."""

    def __init__(self, rng):
        self.simulated, self.offset = True, 10.0 ** rng.integers(50)

    def laplace(self, values, scale):
        return values + self.offset * np.where(np.arange(values.size) % 3 == 0, -1.0, 1.0)

    gaussian = linf = laplace


@pytest.mark.parametrize("budget", [PURE, APPROXIMATE, Budget(1e3, 1e-6), Budget(1e-3, 1e-9)], ids=str)
def test_tables_are_saved_whatever_was_drawn(budget, tmp_path, monkeypatch):
    monkeypatch.setattr(run_module, "SimulatedNoise", Far)
    for seed in range(4):
        moments = measure(mixed_table(), MIXED, design(300, MIXED, budget, TABLES), np.random.default_rng(seed))
        moments.save(tmp_path / "a.tm")
        assert differences(moments, NoisyMoments.load(tmp_path / "a.tm")) == []


@each_case
def test_loading_and_saving_by_the_public_functions_loses_nothing(tmp_path, case):
    made(case).save(tmp_path / "a.tm")
    again = load_release(tmp_path / "a.tm")
    assert differences(made(case), again) == []
    assert (str(again.ledger), repr(again)) == (str(made(case).ledger), repr(made(case)))
    again.save(tmp_path / "b.tm")
    assert (tmp_path / "b.tm").read_bytes() == (tmp_path / "a.tm").read_bytes()
    # What is computed of the fields is public too.
    for name in dir(Synthesis):
        if isinstance(getattr(Synthesis, name, None), property):
            assert differences(getattr(made(case), name), getattr(again, name)) == []


def test_the_manifest_says_what_is_private_and_who_wrote_it(tmp_path):
    for case, words in (("moments", "simulated, not private"), ("not simulated", "as the ledger proves")):
        content, _ = archive.read(save(tmp_path / "a.tm", made(case)))
        assert content["privacy"] == words
        assert set(content["versions"]) == {"trigmech", "numpy", "opendp", "python"}
    versions = saved.read(tmp_path / "a.tm")["versions"]
    assert versions["numpy"] == np.__version__
    assert sys.version.startswith(versions["python"])


# Nothing private

MARKERS = np.array([0.18273645546372819, -0.90817263544536271])
SEED = 91827364554637281


def secrets_in(path, schema):
    """Which of the table's values, of the seed, of the generators' states and of the paths a file holds."""
    rng = np.random.default_rng(SEED)
    children = rng.spawn(2)
    states = [each.bit_generator.state["state"][key] for each in (rng, *children, np.random.default_rng(SEED))
              for key in ("state", "inc")]
    wanted = {}
    for value in MARKERS:
        for number in (value, float(schema.to_cube(np.full((1, schema.d), value))[0, 0])):
            wanted |= {struct.pack("<d", number): "a value", repr(number).encode(): "a value",
                       f"{number:.9f}".encode(): "a value"}
    for number, name in [(SEED, "the seed"), *((state, "a state") for state in states)]:
        length = (number.bit_length() + 7) // 8
        wanted |= {str(number).encode(): name, number.to_bytes(length, "little"): name, f"{number:x}".encode(): name,
                   number.to_bytes(length, "big"): name}
    wanted |= {str(path).encode(): "a path", path.name.encode(): "a path"}
    with zipfile.ZipFile(path) as file:
        held = [path.read_bytes(), *(file.read(name) for name in file.namelist())]
    return {name for text, name in wanted.items() for each in held if text in each}


@pytest.mark.parametrize("mechanism", [FAST, TrigI(degree=2, grid=4), ImprovedTrigII(n_candidates=100), TABLES],
                         ids=type)
def test_a_file_holds_neither_values_of_the_table_nor_the_seed_nor_a_path(tmp_path, mechanism):
    table = np.tile(MARKERS, (100, 1))
    schema = Schema([Column("a", -1.25, 1.5), Column("b", -1.25, 1.5)])
    synthesis = synthesize(table, schema, APPROXIMATE, mechanism, np.random.default_rng(SEED))
    path = save(tmp_path / "marked-name.tm", synthesis)
    assert secrets_in(path, schema) == set()
    # The planted faults: a row of the table among the points, and the seed and a path in a text.
    points = synthesis.distribution.points.copy()
    points[0] = schema.to_cube(table[:1])
    any_status = isinstance(mechanism, MomentMechanism | TableMechanism)
    save(path, dataclasses.replace(synthesis, fit=dataclasses.replace(
        synthesis.fit, distribution=Distribution(points, synthesis.fit.weights),
        status=f"{SEED}" if any_status else synthesis.fit.status)))
    assert secrets_in(path, schema) == {"a value"} | ({"the seed"} if any_status else set())


def test_a_ledger_is_saved_without_its_file(tmp_path):
    ledger = made("moments").ledger
    file = LedgerFile.create(tmp_path / "marked-ledger.json", Budget(5.0, 1e-3), data_set="marked-data")
    kept = Ledger(ledger.budget, simulated=True, file=file)
    kept.charge(*ledger.charges)
    path = save(tmp_path / "a.tm", dataclasses.replace(made("moments"), ledger=kept))
    with zipfile.ZipFile(path) as opened:
        assert b"marked" not in b"".join(opened.read(name) for name in opened.namelist())
    again = load(path).ledger
    assert again.file is None
    assert (again.charges, again.run) == (ledger.charges, kept.run)


NO_PICKLE = """
import sys
import numpy as np
import trigmech
from trigmech.storage import release_file as saved
import pickle, _pickle

class Refused:
    def __init__(self, *_, **__):
        raise SystemExit("pickle was used")

for module in (pickle, _pickle):
    for name in ("load", "loads", "Unpickler"):
        setattr(module, name, Refused)
np.lib.format.pickle = None
for path in sys.argv[1:]:
    found = saved.read(path)
    print(found["fit"].distribution.sample(3, np.random.default_rng(1)).shape)
print({"opendp", "highspy", "pandas", "polars", "pyarrow", "matplotlib"} & set(sys.modules))
"""


def test_loading_never_unpickles_and_loads_no_heavy_library(tmp_path):
    cases = ["moments of whole rows", "algorithm 10", "categories", "tables"]
    paths = [save(tmp_path / f"{k}.tm", made(case)) for k, case in enumerate(cases)]
    done = subprocess.run([sys.executable, "-W", "error", "-c", NO_PICKLE, *paths], capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "(3, 3)\n(3, 3)\n(3, 11)\n(3, 11)\nset()\n"


# What is refused


def taken_apart(case):
    """Content and arrays of a file, to be spoilt."""
    with TemporaryDirectory() as folder:
        return archive.read(save(Path(folder) / "a.tm", made(case)))


def put(*keys, value):
    def spoil(content, arrays):
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value
    return spoil


def drop(*keys):
    def spoil(content, arrays):
        for key in keys[:-1]:
            content = content[key]
        del content[keys[-1]]
    return spoil


def array(name, change):
    def spoil(content, arrays):
        new = change(arrays.get(name))
        arrays.pop(name, None)
        if new is not None:
            arrays[name] = new
    return spoil


def entry(value):
    def change(old):
        new = old.copy()
        new.flat[0] = value
        return new
    return change


def both(*spoils):
    return lambda content, arrays: [spoil(content, arrays) for spoil in spoils] and None


def scaled(name, factor):
    return array(name, lambda old: old * factor)


MOMENTS, THESIS, TABLE = "moments of whole rows", "algorithm 10", "tables, looked at closer"
CONTRASTS = "tables, contrasts"
UNFIT = {
    "no schema": (MOMENTS, drop("schema"), "keys"),
    "no versions": (MOMENTS, put("versions", value=None), "versions must be"),
    "a simulation that says it is private": (MOMENTS, put("privacy", value="as the ledger proves"), "not private"),
    "bounds that are not found yet": (MOMENTS, put("schema", "columns", 0, value={
        "name": "x1", "kind": "continuous", "private_bounds": True}), "bounds must be complete"),
    "categories that are not found yet": (MOMENTS, put("schema", "columns", 0, value={
        "name": "x1", "kind": "categorical", "categories": "private"}), "its categories, as they are"),
    "another library": (MOMENTS, put("library", value="os"), "library must be"),
    "types of categories that are no names": (MOMENTS, put("categorical", value=[["x1"]]), "categorical must be"),
    "no rows": (MOMENTS, put("rows", value=0), "rows must be an integer"),
    "a release of no kind": (MOMENTS, put("release", "kind", value="other"), '"moments", "tables" or "thesis"'),
    "a status that there is not": (THESIS, put("fit", "status", value="stalled"), '"time limit" or "not solved"'),
    "a release of the older kind without its scale": (THESIS, put("release", "kind", value="thesis"),
                                                      "release must be an object"),
    "a fit of no kind": (MOMENTS, put("fit", "kind", value="other"), "kind of a fit"),
    "points without a fit": (MOMENTS, put("fit", value=None), "no part"),
    "no points": (MOMENTS, array("distribution.points", lambda old: None), "'distribution.points' is missing"),
    "points outside the cube": (MOMENTS, array("distribution.points", entry(1.5)), "in the cube"),
    "points of another type": (MOMENTS, array("distribution.points", lambda old: old.astype(np.uint8)), "float64"),
    "a negative weight": (MOMENTS, array("distribution.weights", entry(-0.1)), "at least 0"),
    "means of other functions": (MOMENTS, array("release.means", lambda old: old[1:]), "release.means"),
    "weights of another sum": (MOMENTS, array("distribution.weights", lambda old: old / 2), "sum to 1"),
    "an infinite mean": (MOMENTS, array("release.means", entry(np.inf)), "release.means"),
    "noise in the constant": (THESIS, array("release.scales", entry(1.0)), "scales"),
    "degrees whose sum overflows": (MOMENTS, array("release.index", lambda old: np.full_like(old, 2**62)), "degrees"),
    "no noise": (MOMENTS, array("release.scales", entry(0.0)), "scales"),
    "functions given twice": (MOMENTS, array("release.index", lambda old: old[[0, *range(len(old) - 1)]]), "distinct"),
    "a negative degree": (MOMENTS, array("release.index", entry(-1)), "at least 0"),
    "a profile of another scale": (MOMENTS, array("release.profiles", lambda old: 2 * old), "maximum of 1"),
    "a profile of endless length": (MOMENTS, array("release.profiles", lambda old: np.ones((1, 2**11))), "1024"),
    "profiles without end": (MOMENTS, array("release.profiles", lambda old: np.ones((2**12, 2**6))), "131072 together"),
    "profiles of another width": (MOMENTS, array("release.profiles", lambda old: np.empty((0, 9))), "scaled"),
    "a target of other functions": (MOMENTS, array("fit.target", lambda old: old[1:]), "fit.target"),
    "another array": (MOMENTS, array("seed", lambda old: np.ones(1)), "'seed' is no part"),
    "axes of too many columns": (THESIS, array("release.axes.directions", lambda old: np.ones((3, 9))), "axes"),
    "axes that are not orthonormal": (THESIS, array("release.axes.directions", lambda old: 2 * old), "orthonormal"),
    "axes without their images": (THESIS, array("release.axes.images", lambda old: None), "missing"),
    "tables of no manner of looking": (TABLE, put("release", "cumulative", value=None), "true or false"),
    "tables of more columns": (TABLE, put("schema", value=Schema.cube(8).to_dict()), "looks.intervals"),
    "too many intervals": (TABLE, array("release.looks.intervals", entry(2**11)), "1 to 1024"),
    "fewer than no intervals": (TABLE, array("release.looks.intervals", entry(-(2**63))), "1 to 1024"),
    "intervals of categories": (TABLE, array("release.looks.intervals", lambda old: old + 1), "0 for categories"),
    "edges beyond the range": (TABLE, array("release.looks.edges", entry(-1.5)), "ascend from -1 to 1"),
    "edges without a value between": (TABLE, array("release.columns.edges", lambda old: np.concatenate(
        [[-1.0, np.nextafter(-1.0, 0), np.nextafter(np.nextafter(-1.0, 0), 0)], old[3:]])), "leave a value"),
    "a frequency that overflows": (TABLE, array("release.looks.values", entry(1e101)), "up to 1e+100"),
    "noise of no size": (TABLE, array("release.looks.deviations", entry(0.0)), "deviations"),
    "noise of a closer look of no size": (TABLE, array("release.closer.deviations", entry(0.0)), "deviations"),
    "a negative probability": (TABLE, array("release.columns.mass", entry(-0.1)), "probabilities"),
    "probabilities of another sum": (TABLE, scaled("release.columns.mass", 0.5), "probabilities"),
    "a closer look at no column": (TABLE, array("release.closer.index", entry(7)), "closer looks"),
    "a closer look at no interval": (TABLE, array("release.closer.index", lambda old: np.add(old, [0, 2000, 0])),
                                     "closer looks"),
    "a closer look twice": (TABLE, array("release.closer.index", lambda old: old[[0, *range(len(old))]]),
                            "closer looks"),
    "a closer look of endless length": (TABLE, array("release.closer.index", lambda old: np.add(old, [0, 0, 2**62])),
                                        "closer looks"),
    "a closer look elsewhere": (TABLE, scaled("release.closer.edges", 0.999), "of a closer look must ascend"),
    "a closer look from right to left": (TABLE, scaled("release.closer.edges", -1.0), "must ascend"),
    "a second round without noise": (TABLE, put("release", "dependence", "deviation", value=0.0), "second round"),
    "noise that overflows": (TABLE, put("release", "dependence", "deviation", value=1e300), "second round"),
    "noise of a table that overflows": (TABLE, both(put("release", "dependence", "deviation", value=1e50), scaled(
        "release.dependence.weights", 1e-98)), "the second round"),
    "products that weigh nothing": (TABLE, put("release", "dependence", "product_weight", value=0.0), "weight of"),
    "products of huge noise": (TABLE, both(put("release", "dependence", "deviation", value=1e50), put(
        "release", "dependence", "product_weight", value=1e-99)), "the second round"),
    "cells with gaps": (TABLE, array("release.dependence.maps", lambda old: 2 * old), "without gaps"),
    "a table of a column with itself": (TABLE, array("release.dependence.tables", lambda old: old * 0), "different"),
    "a table of no column": (TABLE, array("release.dependence.tables", lambda old: old + 1), "columns that there are"),
    "a table twice": (TABLE, array("release.dependence.tables", lambda old: old[[0, *range(len(old) - 1)]]),
                      "different sets of 2 columns"),
    "a last round of no second": (TABLE, put("release", "dependence", value=None), "must follow the second"),
    "a last round without noise": (TABLE, put("release", "selected", "deviation", value=0.0), "the last round"),
    "three columns that matter less than nothing": (TABLE, put("release", "selected", "importance", value=-1.0),
                                                    "importance"),
    "a table that weighs less than nothing": (TABLE, array("release.selected.weights", entry(-1.0)), "selected"),
    "three columns of which one is none": (TABLE, array("release.selected.triples", lambda old: old + 9), "sets of 3"),
    "three columns of which two are one": (TABLE, array("release.selected.triples", lambda old: old * 0), "sets of 3"),
    "three columns that weigh nothing": (TABLE, array("release.selected.triple_weights", entry(0.0)), "selected"),
    "noise of three columns that overflows": (TABLE, both(put("release", "selected", "deviation", value=1e50), scaled(
        "release.selected.triple_weights", 1e-90)), "the last round must have deviations"),
    "noise of both rounds that vanishes": (TABLE, both(put("release", "selected", "deviation", value=1e-90), scaled(
        "release.selected.weights", 1e50)), "the last round must have deviations"),
    "cells of three columns with gaps": (TABLE, array("release.selected.maps", lambda old: 2 * old), "without gaps"),
    "tables of three columns of other cells": (TABLE, array("release.triples", lambda old: old[1:]),
                                               "'release.triples'"),
    "products of categories": (TABLE, array("release.dependence.pairs", lambda old: old * 0 + [0, 2]), "pairs"),
    "a score above 1": (TABLE, array("release.dependence.scores", entry(2**15 + 1)), "scores"),
    "a score that overflows": (TABLE, array("release.dependence.scores", entry(-(2**63))), "scores"),
    "tables of other cells": (TABLE, array("release.tables", lambda old: old[1:]), "'release.tables'"),
    "products of other scores": (TABLE, array("release.products", lambda old: old[1:]), "'release.products'"),
    "scores of no number": (TABLE, array("release.dependence.degrees", entry(-1)), "0 to 256 scores"),
    "contrasts of intervals": (TABLE, array("release.looks.contrasted", entry(1)), "0 where intervals are cumulative"),
    "contrasts of no kind": (CONTRASTS, array("release.looks.contrasted", entry(2)), "must be 0 or 1"),
    "contrasts of all positions": (CONTRASTS, array("release.looks.contrasted", lambda old: old * 0), "looks.values"),
    "products of no pair": (CONTRASTS, array("release.dependence.pairs", lambda old: old[1:]), "release.products"),
    "tables of nothing": (TABLE, both(put("release", "dependence", value=None), put(
        "release", "selected", value=None), put("fit", value=None), put("rows", value=None)), "no part"),
    "a target of other tables": (TABLE, array("fit.target", lambda old: old[1:]), "fit.target"),
    "axes without a mean": (THESIS, array("release.mean", lambda old: None), "need a mean"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_files_whose_parts_do_not_fit_are_refused(tmp_path, case):
    of, spoil, words = UNFIT[case]
    content, arrays = taken_apart(of)
    spoil(content, arrays)
    path = tmp_path / "a.tm"
    archive.write(path, content, arrays)
    with pytest.raises(InputError) as refused:
        saved.read(path)
    message = str(refused.value)
    assert message.startswith(f"cannot read {str(path)!r}: ")
    assert any(each in message for each in words.split("|")), message


HOSTILE = [None, True, -1, 0, 2**80, -1e300, 5e-324, "", "x\0", [], [[]], {}, {"a": 1}, [None], 1000 * "x"]


def places(value, where=()):
    """The keys to every value inside a value."""
    for key in (value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()):
        yield (*where, key)
        yield from places(value[key], (*where, key))


@pytest.mark.parametrize("case", [MOMENTS, THESIS, "categories", TABLE])
def test_any_value_anywhere_is_refused_or_makes_a_release(case):
    content, arrays = taken_apart(case)
    refused = 0
    for where in list(places(content)):
        for spoil in (drop(*where), *(put(*where, value=value) for value in HOSTILE)):
            changed = copy.deepcopy(content)
            spoil(changed, {})
            try:
                found = saved._together(changed, dict(arrays))
            except TrigmechError:
                refused += 1
            else:
                assert math.isfinite(found["fit"].distribution.expect(lambda x: x[:, 0]))
    assert refused > 200


CHANGES = [lambda old: old[:0], lambda old: old[..., None], lambda old: old.reshape(-1)[:1], lambda old: old * 0 + 2,
           lambda old: -old, lambda old: old.astype(np.uint8), lambda old: np.array(1.0), lambda old: old.T,
           lambda old: old.astype(float) * np.nan, lambda old: np.full_like(old, np.iinfo(np.int64).min)]


@pytest.mark.parametrize("case", [MOMENTS, THESIS, "categories", TABLE])
def test_any_array_is_refused_or_makes_a_release(case):
    content, arrays = taken_apart(case)
    refused = 0
    for name in arrays:
        for change in CHANGES:
            try:
                saved._together(copy.deepcopy(content), {**arrays, name: change(arrays[name])})
            except InputError:
                refused += 1
    assert refused > 5 * len(arrays)


@pytest.mark.parametrize(("change", "words"), [
    ({"target": np.ones(1)}, "shape"), ({"rows": 1.5}, "rows must be"), ({"library": "other"}, "library must be"),
    ({"distribution": Distribution(np.zeros((1, 2)), np.ones(1))}, "shape"),
    ({"distribution": Distribution(np.zeros((1, 3), dtype=np.float32), np.ones(1))}, "float64"),
    ({"schema": Schema.cube(2)}, "shape"),
])
def test_parts_that_do_not_belong_together_are_not_saved(tmp_path, change, words):
    change = dict(change)
    path = tmp_path / "a.tm"
    path.write_text("old")
    synthesis, of_fit = made("moments"), {name: change.pop(name) for name in ("target", "distribution", "rows")
                                          if name in change}
    changed = dataclasses.replace(synthesis, **change, fit=dataclasses.replace(synthesis.fit, **of_fit))
    with pytest.raises(InputError, match=words):
        save(path, changed)
    assert path.read_text() == "old"
