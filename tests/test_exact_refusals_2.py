"""Refusals that other tests do not name: each call breaks one rule, and the message says which."""

import json
import os
import re
from contextlib import ExitStack
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_answers import imputations
from test_parts import BUDGET, CUBE, cube, smooth

import trigmech as tm
from trigmech.domain import Domain
from trigmech.engines import choice, spread
from trigmech.errors import BudgetError, InputError, NumericalError
from trigmech.functions.grid import Grid
from trigmech.functions.partition import Partition
from trigmech.inference import sql
from trigmech.inference.formula import parsed_formula
from trigmech.measurement.release import Session
from trigmech.measurement.released import Release
from trigmech.mechanisms.adaptive import SoFar
from trigmech.mechanisms.base import Design
from trigmech.parts import part, shares
from trigmech.planning import minimax
from trigmech.privacy import ledger_format, ledger_lock, noise
from trigmech.queries import one_way
from trigmech.queries.book import Book, Numbers
from trigmech.queries.functions import Functions
from trigmech.reconstruction import linear_program
from trigmech.report import advised
from trigmech.storage import archive, facts, rounds_file
from trigmech.tables.frames import _plain_array
from trigmech.tables.parquet_files import ParquetFiles
from trigmech.tables.reader import TableFile

BASIS = tm.ChebyshevBasis(np.array([[1], [2]]))
TEXT = tm.Schema([tm.Column("x", 0, 1), tm.Column("k", kind="categorical", categories=("a", "b")),
                  tm.Column("t", "2020-01-01", "2020-12-31", "datetime")])
LEDGER = {"format": ledger_format.FORMAT, "chain": ledger_format.FORMAT, "adjacency": ledger_format.ADJACENCY,
          "data_set": "clinic", "budget": {}, "created": "2026-01-01T00:00:00Z", "entries": [], "total": 0.0}


def ledger_text(**changed):
    return ledger_format.parsed(json.dumps(LEDGER | changed).encode(), "the ledger")


def raised_to(epsilon):
    old, new = (ledger_format.Limit(tm.Budget(each)).to_dict() for each in (1.0, epsilon))
    return ledger_format.Raised.from_dict({"sequence": 1, "time": "2026-01-01T00:00:00Z", "version": "1", "hash": "0",
                                           "raised": {"old": old, "new": new}}, "entry 1")


def read_functions(first, weights):
    book = Book(features=[tm.Features(BASIS)], domain=Domain(1))
    return Functions.read(Numbers(np.array([0, first])), Numbers(np.array(weights)), book)


def too_noisy():
    session = SimpleNamespace(check=lambda *_: None)
    return Session.released(session, [SimpleNamespace(charge=SimpleNamespace(law="gaussian", purpose="means"),
                                                      deviations=np.array([0.1, np.inf]))], (), 9)


def part_with(**arrays):
    identity = {"identities": ["a"], "n": 3}
    return part._total_and_identities(identity, arrays)


def thesis_after_the_constant():
    from trigmech.thesis import release

    features = tm.Features(tm.ChebyshevBasis(np.array([[1], [0]])))
    return release.release(SimpleNamespace(functions=features), None, None, None, Domain(1))


def looked_at_twice(folder):
    made = tm.synthesize(cube(50), CUBE, BUDGET, smooth, np.random.default_rng(0))
    made.save(folder / "a.tm")
    return tm.load(folder / "a.tm", tm.MomentMechanism(degree=2))


def parquet(folder, rows):
    pq.write_table(pa.table({"x": pa.array(rows, pa.float64())}), folder / "a.parquet")
    return folder / "a.parquet"


def csv_file(folder, text):
    (folder / "a.csv").write_text(text)
    return TableFile(folder / "a.csv")


def failing(error):
    with TableFile._row_free(SimpleNamespace(_error=lambda rule: InputError(f"cannot read it: {rule}"),
                                             _reason=lambda problem: "in other words")):
        raise error


def archived(folder, content):
    archive.write(folder / "a.tm", content, {})
    return facts.facts_of(folder / "a.tm")


CALLS = {
    "processes of standard input": (lambda folder: choice._workers("processes", Unnamed(), None, None, None),
                                    "engine='processes' needs a file that several processes can open, not standard"),
    "rows of workers": (lambda folder: next(iter(spread._nowhere())), "the rows stay with the workers"),
    "categories of clusters": (lambda folder: spread.ClusterWorkers.tables(None, None),
                               "Dask and Spark cannot find private categories"),
    "a name twice for workers": (lambda folder: spread.check_columns(["a", "b", "a"], ["a"]), "names must be distinct"),
    "a basis of other columns": (lambda folder: Grid(2, 3).combine(BASIS, [0.5, 0.5]),
                                 "the grid has 2 column(s), the basis 1"),
    "a formula of constants": (lambda folder: parsed_formula("1 ~ 1", ["x"]), "a formula must have a column"),
    "answers of other lengths": (lambda folder: imputations(3).estimate(varying()),
                                 "the same number of values for every table"),
    "names that differ by capitals": (lambda folder: ExitStack().enter_context(sql._database(
        tm.Schema([tm.Column("age", 0, 1), tm.Column("Age", 0, 1)]))), "differ by capital letters alone"),
    "a mean under endless noise": (lambda folder: too_noisy(), "means: noise with a standard deviation above"),
    "functions of no set": (lambda folder: Release.features.func(SimpleNamespace(of_one_set=False)),
                            "the means of a single set of functions"),
    "a prediction of no table": (lambda folder: SoFar.predicted(None, SimpleNamespace(ways=0, kind="means")),
                                 "a Select round can choose tables of columns (marginal) only, not means"),
    "a design without a schema": (lambda folder: Design.schema_given.fget(SimpleNamespace(schema=None)),
                                  "the design has no schema; make a design with trigmech.design"),
    "a workload of smooth queries": (lambda folder: tm.TableMechanism(workload=tm.workload.SecondMoments(2)),
                                     "workload must be Marginals or Ranges, not"),
    "sums in one limb": (lambda folder: part_with(sums=np.zeros((1, 4), dtype=np.int64)), "sums in two limbs"),
    "sums as floats": (lambda folder: part_with(sums=np.zeros((2, 4))), "sums in two limbs"),
    "sums beside others": (lambda folder: part_with(sums=np.zeros((2, 4), dtype=np.int64), more=np.zeros(1)),
                           "sums in two limbs"),
    "no sums": (lambda folder: part_with(), "sums in two limbs"),
    "a low limb below 0": (lambda folder: part_with(sums=np.array([[0, 0], [0, -1]])), "sums in two limbs"),
    "a low limb of 33 bits": (lambda folder: part_with(sums=np.array([[0, 0], [2**32, 0]])), "sums in two limbs"),
    "smoothness without end": (lambda folder: minimax.plan_smooth(1_000, 1, tm.Budget(1.0), 1e4, 64),
                               "smoothness = 10000 is too large for moments up to degree"),
    "another adjacency": (lambda folder: ledger_text(adjacency="add-remove"), "the field 'adjacency' must be"),
    "a budget raised to itself": (lambda folder: raised_to(1.0), "entry 1: raised: the field 'new' must be above"),
    "a budget raised to less": (lambda folder: raised_to(0.5), "entry 1: raised: the field 'new' must be above"),
    "a lock that cannot be read": (lambda folder: ledger_lock.check_names(SimpleNamespace(
        stat=raising(PermissionError(13, "Permission denied")))), "cannot be read: Permission denied"),
    "noise that nobody knows": (lambda folder: noise.drawn(None, "cauchy", np.zeros(1), 1.0),
                                "noise of law 'cauchy' cannot be drawn"),
    "noise that a library does not know": (lambda folder: noise._measurement("linf", 1.0),
                                           "OpenDP has no measurement that draws linf noise"),
    "functions beyond their set": (lambda folder: read_functions(1, [1.0, 1.0]), "functions that it does not contain"),
    "functions before their set": (lambda folder: read_functions(-1, [1.0]), "functions that it does not contain"),
    "no function": (lambda folder: read_functions(0, []), "functions that it does not contain"),
    "a weight of 0": (lambda folder: read_functions(0, [0.0, 1.0]), "the weights of functions must be positive"),
    "a weight without end": (lambda folder: read_functions(0, [1e101, 1.0]), "weights of functions must be positive"),
    "two intervals with ends": (lambda folder: one_way._at_least_three(Partition((), 0, np.array([-1.0, 0.0, 1.0]))),
                                "a query with ends needs at least three intervals, not 2"),
    "advice without a schema": (lambda folder: advised._checked("schema", 50, None, [1.0]),
                                "schema must be a Schema, not str"),
    "another mechanism": (looked_at_twice,
                          "MomentMechanism did not make this release: with its options the charges would"),
    "a special value twice": (lambda folder: tm.Column("x", 0, 1, special=(-1, -2, -1)),
                              "special values must be distinct, not"),
    "text as numbers": (lambda folder: TEXT.from_cube(np.zeros((2, TEXT.domain.d))),
                        "column(s) 'k', 't' hold text or times, but an array of numbers"),
    "facts of no release": (lambda folder: archived(folder, {"schema": CUBE.to_dict()}),
                            "is not a release with a number of rows and a schema"),
    "facts without a schema": (lambda folder: archived(folder, {"release": {"n": 5}}), "a number of rows and a schema"),
    "facts of half a row": (lambda folder: archived(folder, {"release": {"n": 5.5}, "schema": CUBE.to_dict()}),
                            "a number of rows and a schema"),
    "a masked array": (lambda folder: _plain_array(np.ma.zeros((2, 3)), 3), "the table is a masked array"),
    "an array of complex numbers": (lambda folder: _plain_array(np.zeros((2, 3), complex), 3), "type is complex128"),
    "an array of another width": (lambda folder: _plain_array(np.zeros((2, 4)), 3), "(n, 3); its shape is (2, 4)"),
    "no files": (lambda folder: ParquetFiles([]), "the list of files is empty"),
    "a file twice": (lambda folder: ParquetFiles([parquet(folder, [1.0]), folder / "." / "a.parquet"]),
                     "the list names a file twice; its rows would count twice"),
    "files without rows": (lambda folder: ParquetFiles([parquet(folder, [])]).n, "the files have no rows"),
    "an empty file": (lambda folder: csv_file(folder, ""), "a.csv': it is empty"),
    "a file without permission": (lambda folder: failing(PermissionError(13, "4242")), "you do not have permission"),
    "a file that is gone": (lambda folder: failing(FileNotFoundError(2, "4242")), "it was deleted or renamed while"),
    "a disk that fails": (lambda folder: failing(OSError(5, "4242")), f"cannot read it: {os.strerror(5)}"),
    "a library that fails": (lambda folder: failing(ValueError("4242")), "cannot read it: in other words"),
    "a constant after others": (lambda folder: thesis_after_the_constant(), "the constant must be the first"),
    "tables of four columns": (lambda folder: tm.workload.Marginals(4), "k must be at most 3, not 4"),
    "ranges of four columns": (lambda folder: tm.workload.Ranges(4), "k must be at most 3, not 4"),
    "tables of no column": (lambda folder: tm.workload.Marginals(0), "k must be"),
    "crossed with nothing": (lambda folder: tm.workload.Marginals(2, ""), "must be the name of a column, not ''"),
    "crossed with a place": (lambda folder: tm.workload.Marginals(2, 1), "crossed must be the name of a column, not 1"),
    "a draw of numbers for texts": (lambda folder: rounds_file._draw({"charge": charge(), "shape": None, "released": {
        "job": ["a", 1]}}), "the result of a selection must be lists of texts"),
    "a draw of one text for texts": (lambda folder: rounds_file._draw({"charge": charge(), "shape": None, "released": {
        "job": "a"}}), "the result of a selection must be lists of texts"),
    "a draw of a list for texts": (lambda folder: rounds_file._draw({"charge": charge(), "shape": None,
                                                                     "released": ["a"]}), "must be lists of texts"),
    "a ledger that is a number": (lambda folder: ledger_format.parsed(b"3", "the ledger"), "the ledger"),
    "a ledger that is a list": (lambda folder: ledger_format.parsed(b'["format"]', "the ledger"), "the ledger"),
    "a ledger that is a text": (lambda folder: ledger_format.parsed(b'"format"', "the ledger"), "the ledger"),
    "a column of no kind": (lambda folder: tm.Column("x", 0, 1, None), "kind must be one of"),
    "a column that misses nothing": (lambda folder: tm.Column("x", 0, 1, missing=None), "missing must be one of"),
}


def charge():
    return tm.Charge("values", "laplace", 1.0, 1.0, "L1", 1, "given").to_dict()


def raising(error):
    def call(*_, **__):
        raise error
    return call


def varying():
    lengths = iter([2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3])
    return lambda table: np.arange(next(lengths), dtype=float) + float(np.mean(table["age"]))


class Unnamed(TableFile):
    """A file without a path, as standard input is."""

    def __init__(self):
        self._path = None

    @property
    def path(self):
        return None


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_breaks_a_rule_is_refused_with_its_words(case, tmp_path):
    call, said = CALLS[case]
    with pytest.raises((InputError, BudgetError), match=re.escape(said)) as refused:
        call(tmp_path)
    assert "4242" not in str(refused.value)


def test_shares_take_gaussian_noise_alone():
    for law in ("linf", "exponential", "laplace"):
        with pytest.raises(BudgetError, match="shares can have Gaussian noise only"):
            getattr(shares._SharedNoise, law)(None, np.zeros(1), 1.0)


def test_a_model_that_the_solver_does_not_take_is_an_error():
    from highspy import HighsStatus

    linear_program._accepted(HighsStatus.kOk, "the model")
    linear_program._accepted(HighsStatus.kWarning, "the model")
    with pytest.raises(NumericalError, match="HiGHS did not accept the model"):
        linear_program._accepted(HighsStatus.kError, "the model")
