"""What is logged: each step, in public facts, to whoever listens and to nobody else."""

import logging
import subprocess
import sys

import numpy as np
import pytest

import trigmech as tm

# Of the table, and nowhere else: rows, categories and cells that no record may show.
MARKED_TEXT, MARKED_NUMBER, ROWS = "ZEBRA-4711", 86753.125, 260
KEPT = ("red", "blue")


def marked_table():
    rng = np.random.default_rng(2)
    rows = np.empty((ROWS, 3), dtype=object)
    rows[:, 0] = rng.uniform(0.0, 1e4, ROWS)
    rows[:, 1] = np.where(np.arange(ROWS) % 37 == 0, None, rng.uniform(0.0, 100.0, ROWS))
    rows[:, 2] = rng.choice(np.array(KEPT, dtype=object), ROWS)
    rows[5, 0], rows[7, 1], rows[9, 2] = MARKED_NUMBER, MARKED_NUMBER, MARKED_TEXT
    return rows


SCHEMA = tm.Schema([tm.Column("income", private_bounds=True), tm.Column("age", 0, 100, missing="keep"),
                    tm.Column("colour", kind="categorical", categories=KEPT, other="blue")])
FAST = tm.MomentMechanism(points=64, iterations=2)
TABLES = tm.TableMechanism(points=64)
THESIS = tm.ImprovedTrigII(n_candidates=100, rank=1)


def logged(caplog, table, schema, mechanism, level=logging.DEBUG):
    caplog.clear()
    with caplog.at_level(level, "trigmech"):
        tm.synthesize(table, schema, tm.Budget(1.0, 1e-4), mechanism, np.random.default_rng(1))
    return [record for record in caplog.records if record.name.startswith("trigmech")]


def test_the_steps_of_a_release_are_told_in_order(caplog):
    said = [record.getMessage() for record in logged(caplog, marked_table(), SCHEMA, FAST)]
    begins = (f"design chosen: n = {ROWS}", "charged (simulated): bounds, coarse", "charged (simulated): bounds, fine",
              "charged (simulated): moments", "charged (simulated): indicators",
              "found private bounds of 1", f"releasing {ROWS} rows of 3 columns by MomentMechanism",
              "drawn: gaussian noise of", "fitted 64 points")
    assert [line.startswith(begin) for line, begin in zip(said, begins, strict=True)] == [True] * len(begins)


def content(record):
    return " ".join([record.getMessage(), *(repr(argument) for argument in (record.args or ())),
                     str(record.exc_text or "")])


@pytest.mark.parametrize("mechanism", [FAST, TABLES, THESIS])
def test_no_record_holds_a_value_of_the_table_or_anything_that_depends_on_one(caplog, mechanism):
    rows = marked_table()
    if mechanism is THESIS:
        rows, schema = rows[:, :1].astype(float), tm.Schema([tm.Column("income", 0, 1e5)])
    else:
        schema = SCHEMA
    said = [content(record) for record in logged(caplog, rows, schema, mechanism)]
    assert len(said) >= 3
    for marked in (MARKED_TEXT, "86753", "8.675e+04", *KEPT, *(f"{value:.6g}" for value in rows[:20, 0])):
        assert not [line for line in said if marked in line], marked
    # With the same noise, what was said before it was drawn is the same of any other table of as many rows.
    other = rows[::-1].copy()
    other[:, 0] = 1.0
    told = ("fitted", "charged", "released")
    before = [line for line in said if not line.startswith(told)]
    again = [content(record) for record in logged(caplog, other, schema, mechanism)]
    assert [line for line in again if not line.startswith(told)] == before


def test_a_planted_value_is_found(caplog, monkeypatch):
    def leaking(rows, *others, run=tm.MomentMechanism.run):
        logging.getLogger("trigmech.planted").info("rows: %s", next(iter(rows.chunks())).points().max())
        return run(FAST, rows, *others)

    monkeypatch.setattr(tm.MomentMechanism, "run", lambda self, *arguments: leaking(*arguments))
    table = np.full((ROWS, 1), 0.125)
    said = [content(record) for record in logged(caplog, table, tm.Schema.cube(1), FAST)]
    assert [line for line in said if "0.125" in line]


def test_nothing_is_printed_to_those_who_do_not_listen():
    """Without a handler of the package, Python would print warnings; with one of its own, everything twice."""
    program = ("import logging, trigmech as tm\n"
               "assert [type(h).__name__ for h in logging.getLogger('trigmech').handlers] == ['NullHandler']\n"
               "tm.Ledger(tm.Budget(1.0)).charge(tm.Charge('x', 'laplace', 2.0, 1.0, 'L1', 1, 'here'))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
