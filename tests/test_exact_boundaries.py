"""What just fits into a limit is taken, and the same is refused with the limit one lower: of limits too large to reach.

Here a limit is set to what a small example needs. So a comparison that is turned, or looks at another number, is seen.
"""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import typer
from test_answers import SCHEMA as ASKED
from test_answers import imputations
from test_parts import BUDGET, CUBE, cube, smooth

import trigmech as tm
from trigmech import results
from trigmech.acceptance import questions
from trigmech.acceptance.criteria import Criterion
from trigmech.cli import options
from trigmech.errors import InputError
from trigmech.functions.partition import Partition
from trigmech.inference import regression, sql
from trigmech.measurement import sums
from trigmech.parts import part, shares
from trigmech.privacy import ledger
from trigmech.queries import joint, one_way, signs
from trigmech.queries.book import Book, Numbers
from trigmech.reconstruction import constrained, l1
from trigmech.schema import constraints, lookup
from trigmech.storage import measurements_file, rounds_file
from trigmech.thesis import mechanisms as thesis

# 3 x 4 combinations of values.
TWO = tm.Schema([tm.Column("a", kind="categorical", categories=("x", "y", "z")),
                 tm.Column("b", kind="categorical", categories=("p", "q", "r", "s"))],
                constraints=["a = 'x' or b = 'p'"])
RULE = TWO.constraints[0]
FIVE = Partition((), 0, np.linspace(-1.0, 1.0, 6))


def ledger_of(charges):
    made = tm.Ledger(tm.Budget(1.0), charges=[])
    charge = tm.Charge("values", "laplace", 100.0, 1.0, "L1", 1, "given")
    return made.to_dict() | {"charges": [charge.to_dict()] * charges}


def lookup_file(folder):
    path = folder / "rates.csv"
    path.write_bytes(b"key,value\n1,2\n")
    return lookup.read_lookup("rates.csv", folder)


def part_of_three():
    design = tm.design(30, CUBE, BUDGET, smooth)
    return sum(tm.measure_part(own, design) for own in np.split(cube(30), 3))


def saved_part(folder, made):
    made.save(folder / "a.part")
    return part.Part.load(folder / "a.part")


def table_of_12_cells():
    partitions = [Partition((), j, np.linspace(-1.0, 1.0, cells + 1)) for j, cells in enumerate((3, 4))]
    book, held = Book(), joint.Marginal((0, 1), tuple(partitions), (np.arange(3), np.arange(4)))
    integers, _ = held.written(book)
    return joint.Marginal.read(Numbers(np.array(integers)), Numbers(np.empty(0)), book)


def synthesis(rows=50):
    made = tm.synthesize(cube(rows), CUBE, BUDGET, smooth, np.random.default_rng(0))
    return replace(made, fit=replace(made.fit, rows=rows))


def profiles(count):
    basis = tm.ChebyshevBasis(np.array([[0], [1]]))
    scaled = tm.Features(basis, np.array([[2.0, 0.5, 0.25], [2.0, 0.25, 0.5]])[:count]).profiles
    return measurements_file.features_in(basis.index, scaled)


def criterion():
    free = tm.Schema(TWO.columns)
    points = free.to_cube(pd.DataFrame({"a": list("xyz") * 4, "b": list("pqrs") * 3}))
    asked = questions.Questions(free, tm.Distribution(points, np.full(12, 1.0 / 12.0)))
    return asked.query(Criterion("worst one-way", 0.5))


# Of each limit: its module and name, what an example needs, the call, and words of the refusal beside the limit.
LIMITS = {
    "charges of a ledger": (ledger, "MOST_CHARGES", 3, lambda folder: tm.Ledger.from_dict(ledger_of(3)),
                            "more than {} entries"),
    "combinations of a constraint": (constraints, "MOST_COMBINATIONS", 12, lambda folder: constraints.allowed(
        RULE, {"a": np.array(["x", "y", "z"]), "b": np.array(list("pqrs"))}), "12 combinations of values, more "
        "than {}"),
    "combinations of constraints": (constrained, "MOST_COMBINATIONS", 12, lambda folder: constrained.witness(TWO),
                                    "more than {} combinations"),
    "bytes of a table to look up": (lookup, "MOST_BYTES", 14, lookup_file, "more than {} bytes"),
    "groups of a question": (sql, "MOST_GROUPS", 3, lambda folder: sql.ask(
        imputations(2), "select region, count(*) from release group by region"), "more than {} groups"),
    # An intercept, a number, and three of four regions; the check counts all four.
    "coefficients of a formula": (regression, "MOST_COLUMNS", 6, lambda folder: regression.check_formula(
        ASKED, "pay ~ age + region", "gaussian"), "about 6 coefficients, more than {}"),
    "rows of a sample by default": (results, "MAX_ROWS", 50, lambda folder: synthesis().sample(
        rng=np.random.default_rng(0)), "50 rows, more than {}"),
    "numbers of a query in a file": (measurements_file, "MOST_DEGREES", 5, lambda folder: measurements_file.features_in(
        np.array([[2, 0], [0, 3]]), np.empty((0, 2))), "at most {} together"),
    "coefficients of a profile": (measurements_file, "MOST_PROFILE", 3, lambda folder: profiles(1),
                                  "at most {} coefficients"),
    "coefficients of profiles": (measurements_file, "MOST_COEFFICIENTS", 6, lambda folder: profiles(2),
                                 "and {} together"),
    "dimensions of a draw": (rounds_file, "MOST_DIMENSIONS", 2, lambda folder: rounds_file.array_in(
        "a draw", [1, 2], [0.5, 1.5]), "at most {} lengths"),
    "parts of a sum": (part, "MOST_PARTS", 3, lambda folder: saved_part(folder, part_of_three()),
                       "1 to {} identities"),
    "parties of shares": (shares, "MOST_PARTS", 4, lambda folder: tm.share_part(
        cube(10), tm.design(40, CUBE, BUDGET, smooth).for_shares(), party=1, parties=4), "at most {} and more than"),
    "rows of a person": (sums, "MOST_ROWS_OF_A_PERSON", 4, lambda folder: sums._ends(9, np.array([0, 2, 6])),
                         "more than {} rows"),
    "intervals of prefix sums": (one_way, "MOST_RANGES", 5, lambda folder: one_way.PrefixSums(0, FIVE), "at most {}"),
    "positions of contrasts": (one_way, "MOST_CONTRASTS", 5, lambda folder: one_way.Contrasts(0, FIVE), "at most {}"),
    "intervals of signs": (signs, "MOST_CONTRASTS", 5, lambda folder: signs.Signs(0, FIVE, 4), "most {}"),
    "cells of a table in a file": (joint, "MOST_CELLS", 12, lambda folder: table_of_12_cells(), "more than {} cells"),
    "entries of the thesis's program": (thesis, "MOST_ENTRIES", 30, lambda folder: tm.ImprovedTrigII(
        n_candidates=3)._check_sizes(3, 30), "30 entries, more than {}"),
    "entries of a whole matrix": (l1, "WHOLE_LIMIT", 12, lambda folder: l1.fit_l1(
        tm.ChebyshevBasis(np.array([[1], [2], [3]])), np.linspace(-1.0, 1.0, 4)[:, None], np.zeros(3),
        method="whole"), "4 candidates and 3 functions has more than {} entries"),
    "cells of a criterion": (questions, "MOST_CELLS", 7, lambda folder: criterion(), "7 cells, more than {}"),
}


@pytest.mark.parametrize("case", LIMITS)
def test_what_just_fits_is_taken_and_is_refused_with_a_limit_one_lower(case, monkeypatch, tmp_path):
    module, name, needed, call, said = LIMITS[case]
    monkeypatch.setattr(module, name, needed)
    call(tmp_path)
    monkeypatch.setattr(module, name, needed - 1)
    with pytest.raises(InputError, match=re.escape(said.format(needed - 1))):
        call(tmp_path)


def test_a_command_writes_at_most_so_many_rows(monkeypatch):
    monkeypatch.setattr(options, "MOST_ROWS", 7)
    assert options.writable_rows(7) == 7
    assert options.writable_rows(None) is None
    with pytest.raises(typer.BadParameter, match="at most 7, not 8"):
        options.writable_rows(8)
