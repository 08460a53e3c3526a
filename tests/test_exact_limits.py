"""What may be asked or given at most: the documented number passes, and one more does not.

The numbers are written here again, as users read them: a limit that moves changes what releases are possible.
"""

import tracemalloc

import numpy as np
import pytest

import trigmech as tm
from trigmech.acceptance.criteria import Criterion, checked
from trigmech.errors import BudgetError, InputError
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.grid import Grid
from trigmech.functions.partition import Partition
from trigmech.inference import sql_question
from trigmech.inference.formula import parsed_formula
from trigmech.queries.one_way import Contrasts, PrefixSums
from trigmech.schema.formula import Range, parse
from trigmech.schema.lookup import Lookup
from trigmech.tables.different import DifferentRows
from trigmech.workload import Polynomials, Smooth

X = {"x": Range("numbers", 0.0, 1.0)}


def derived(text):
    return parse("new", text, X, {})


def number_of(intervals):
    return Partition((), 0, np.linspace(-1.0, 1.0, intervals + 1))


def terms(text):
    return parsed_formula(text, ["x", "y"])


def query(letters):
    """A question of so many letters, which is looked at before any database is."""
    return sql_question._parsed(None, "x" * letters, [])


def criteria(count):
    return checked([Criterion("ks", k / 10_000.0, columns=(f"c{k}",)) for k in range(count)])


# What takes a number, the greatest that passes, and what is raised beyond.
LIMITS = {
    "letters of a model's formula": (lambda k: terms("y ~ " + "x" + " " * (k - 5)), 1_000, "1 to 1,000 printable"),
    "powers of terms": (lambda k: terms(f"y ~ (x + y) ** {k}"), 3, "from 1 to 3"),
    "numbers in a model": (lambda k: terms(f"y ~ I(x * {k})"), 10**15, "formula"),
    "letters of a derived column": (lambda k: derived("x" + " + 1" * 10 + " " * (k - 41)), 1_000, "at most 1,000 "),
    "exponents of a derived column": (lambda k: derived(f"x ** {k}"), 9, "from 0 to 9"),
    "digits of a derived column": (lambda k: derived(f"round(x, {k})"), 12, "from 0 to 12"),
    "decimals of a column": (lambda k: tm.Column("x", 0.0, 1.0, decimals=k), 12, "decimals"),
    "rows of a table to look up": (lambda k: Lookup("t", [(j, 1) for j in range(k)]), 100_000, "1 to 100,000 rows"),
    "intervals of prefix sums": (lambda k: PrefixSums(0, number_of(k)), 1_024, "at most 1024 intervals"),
    "positions of contrasts": (lambda k: Contrasts(0, number_of(k)), 256, "at most 256 positions"),
    "functions of a basis": (lambda k: ChebyshevBasis.graded(1, k) if k > 2**22 else None, 2**22, "than the 4194304"),
    "columns of a full set": (lambda k: ChebyshevBasis.tensor(k, 4) if k > 11 else None, 11, "more than 4194304"),
    "points of a grid": (lambda k: Grid(1, k), 20_000_000, "more than 20000000"),
    "polynomials of a workload": (lambda k: Polynomials(k, 1, seed=0), 20_000, "20000"),
    "smooth functions of a column": (lambda k: Smooth(1, 2.0, k), 10**6 - 1, "more than 1000000"),
    "columns of smooth functions": (lambda k: Smooth(k, 2.0, 1), 19, "use a smaller degree"),
    "criteria": (criteria, 1_000, "at most 1,000"),
}


@pytest.mark.parametrize("case", LIMITS)
def test_the_greatest_that_is_documented_passes_and_one_more_does_not(case):
    call, most, said = LIMITS[case]
    call(most)
    with pytest.raises(InputError) as refused:
        call(most + 1)
    assert said in str(refused.value)


def test_a_question_has_at_most_ten_thousand_letters():
    with pytest.raises(InputError, match="1 to 10,000 letters"):
        query(10_001)
    # Up to there it is given to the database, which is not there.
    with pytest.raises(InputError, match="cannot be read: 'NoneType'"):
        query(10_000)


@pytest.mark.parametrize("more", [0, 1])
def test_different_rows_are_counted_up_to_ten_million(more):
    count = DifferentRows()
    count.rows = 10**7 - 3 + more
    count.add([np.array([1.0, 2.0, 1.0])])
    assert count.different == (None if more else 2)


def test_counting_different_rows_takes_no_more_than_a_copy_of_their_numbers():
    count, n = DifferentRows(), 10**5
    for k in range(4):
        count.add([np.arange(n) + k * n // 2])
    tracemalloc.start()
    try:
        assert count.different == 5 * n // 2
        assert tracemalloc.get_traced_memory()[1] < 1.3 * 8 * 4 * n
    finally:
        tracemalloc.stop()
    assert count.different == 5 * n // 2


@pytest.mark.parametrize(("epsilon", "good"), [(1e-9, True), (9.99e-10, False), (1e12, True), (1.001e12, False)])
def test_ledgers_have_an_epsilon_from_a_billionth_to_a_million_millions(epsilon, good):
    if good:
        tm.Ledger(tm.Budget(epsilon))
    else:
        with pytest.raises(BudgetError, match="between 1e-09 and 1e"):
            tm.Ledger(tm.Budget(epsilon))


def test_a_ledger_shows_its_budget_and_charges_and_no_bookkeeping():
    assert "written" not in repr(tm.Ledger(tm.Budget(1.0)))
    assert "file" not in repr(tm.Ledger(tm.Budget(1.0)))


@pytest.mark.parametrize(("text", "terms_of"), [
    ("y ~ I(-x)", "I(-x)"), ("y ~ I(+x)", "I(x)"), ("y ~ I(x - 2)", "I(x - 2)"), ("y ~ x + y", "x + y")])
def test_signs_of_arithmetic_in_a_formula_stay(text, terms_of):
    made = terms(text)
    plain = made.label(made.right).replace("(", "").replace(")", "").replace(" ", "")
    assert plain == terms_of.replace("(", "").replace(")", "").replace(" ", "").replace("2", "2")
