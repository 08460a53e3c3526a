"""Faults in somebody's own mechanism, functions or queries: no budget is lost, and no message quotes a row."""

import traceback
from dataclasses import dataclass

import numpy as np
import pytest

import trigmech as tm
from trigmech.errors import InputError, PaidError

ROWS = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 2))
PLAIN = tm.Schema([tm.Column("a", -1, 1), tm.Column("b", -1, 1)])
PRIVATE = tm.Schema([tm.Column("a", -1, 1), tm.Column("b", private_bounds=True)])
SECRET = 0.123456


class Functions:
    """The numbers of a row. They fail as they are told to."""

    d, K = 2, 2

    def __init__(self, fault):
        self.fault = fault

    def evaluate(self, X):
        X = np.asarray(X)
        if self.fault == "row" and (np.abs(X - SECRET) < 1e-9).any():
            raise ValueError(f"the value {SECRET} is not allowed")
        if self.fault == "fit" and len(X) not in (1, 2, 300):
            raise ZeroDivisionError("in the fit")
        return 0.5 * X

    def means(self, X):
        return self.evaluate(X).mean(axis=0)

    def gradient(self, X, coefficients):
        if self.fault == "gradient" and len(X) > 5:
            raise ZeroDivisionError("in the fit")
        return np.broadcast_to(0.5 * np.asarray(coefficients), np.shape(X))


@dataclass(frozen=True)
class OfFunctions(tm.Mechanism):
    fault: str

    def plan(self, facts):
        return self.equip(facts, Functions(self.fault), 2.0 * 2.0**0.5, evaluation_error=1e-12)


@dataclass(frozen=True)
class Refitted(tm.MomentMechanism):
    made: object = None

    def reconstruct(self, release, design, rng):
        fit = super().reconstruct(release, design, rng)
        if self.made is ValueError:
            raise ValueError("singular")
        return tm.Distribution(fit.points, fit.weights) if self.made is tm.Distribution else self.made


def charged(tmp_path, table, schema, mechanism):
    """The error of a run and the charges that the ledger has after it."""
    path = tmp_path / "ledger.json"
    tm.LedgerFile.create(path, tm.Budget(3.0, 1e-5))
    with pytest.raises(InputError) as caught:
        tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), mechanism, ledger=path)
    return caught.value, len(tm.LedgerFile.open(path).entries)


@pytest.mark.parametrize("mechanism", [
    OfFunctions("fit"), OfFunctions("gradient"), Refitted(points=50, made=ValueError), Refitted(points=50),
    Refitted(points=50, made=tm.Distribution)], ids=["fit", "gradient", "raises", "None", "another type"])
def test_a_fit_that_fails_keeps_the_released_numbers(tmp_path, mechanism):
    problem, entries = charged(tmp_path, ROWS, PLAIN, mechanism)
    assert isinstance(problem, PaidError)
    assert entries > 0
    if isinstance(mechanism, Refitted) and mechanism.made is not ValueError:
        assert "Refitted.reconstruct must return a Reconstruction with points of 2 coordinates, not" in str(problem)
    assert "The charge stays spent, but the released numbers are not lost" in str(problem)
    assert np.abs(problem.moments.means - 0.5 * ROWS.mean(axis=0)).max() < 0.2 if isinstance(
        mechanism, OfFunctions) else len(problem.moments.means) > 2
    if isinstance(mechanism, Refitted):
        # The budget has bought numbers that another mechanism can use.
        made = tm.reconstruct(problem.moments, np.random.default_rng(1), mechanism=tm.MomentMechanism(points=50))
        assert np.isfinite(np.asarray(made.sample(10), dtype=float)).all()


@pytest.mark.parametrize("schema", [PLAIN, PRIVATE], ids=["public", "private bounds"])
def test_functions_that_fail_at_a_row_do_not_quote_it(tmp_path, schema):
    rows = ROWS.copy()
    rows[7, 0] = SECRET
    problem, entries = charged(tmp_path, rows, schema, OfFunctions("row"))
    assert "the functions, of type Functions, cannot be evaluated at rows of the table (ValueError)" in str(problem)
    assert isinstance(problem, PaidError) == (entries > 0) == (schema is PRIVATE)
    assert str(SECRET) not in "".join(traceback.format_exception(problem))


class Once(tm.AdaptiveMechanism):
    """Its first question can be asked once."""

    rounds = (tm.Measure(1.0),)

    def __init__(self):
        self.left = [["a", "b"]]

    def ask(self, so_far):
        return [so_far.histogram(name) for name in self.left.pop()]


@pytest.mark.parametrize("schema", [PLAIN, PRIVATE], ids=["public", "private bounds"])
def test_the_first_round_is_asked_for_once(tmp_path, schema):
    path = tmp_path / "ledger.json"
    tm.LedgerFile.create(path, tm.Budget(3.0, 1e-5))
    made = tm.synthesize(ROWS, schema, tm.Budget(1.0, 1e-6), Once(), ledger=path)
    assert len(made.means) > 10


@dataclass(frozen=True)
class Lost(tm.MomentMechanism):
    def run(self, rows, design, session, rng):
        raise KeyError(float(ROWS[0, 0]))


@pytest.mark.parametrize("schema", [PLAIN, PRIVATE], ids=["public", "private bounds"])
def test_a_mechanism_that_fails_after_a_charge_says_that_it_is_spent(tmp_path, schema):
    path = tmp_path / "ledger.json"
    tm.LedgerFile.create(path, tm.Budget(3.0, 1e-5))
    with pytest.raises((KeyError, PaidError)) as caught:
        tm.synthesize(ROWS, schema, tm.Budget(1.0, 1e-6), Lost(), ledger=path)
    spent = len(tm.LedgerFile.open(path).entries) > 0
    assert spent == (schema is PRIVATE)
    if spent:
        assert str(caught.value) == "the mechanism failed with KeyError. A charge was made before, and stays spent"
        assert str(ROWS[0, 0]) not in "".join(traceback.format_exception(caught.value))
    else:
        assert isinstance(caught.value, KeyError)
