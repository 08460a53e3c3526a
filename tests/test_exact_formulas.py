"""Formulas of regressions mean what they mean in R: against formulaic's own reading of the text that was written."""

import numpy as np
import pytest
from formulaic import Formula

import trigmech as tm
from trigmech.errors import InputError
from trigmech.inference.formula import parsed_formula
from trigmech.inference.regression import check_formula

NAMES = ["x", "z", "w"]


def own_terms(text):
    """The terms of a right side as it was written, each as the set of its factors."""
    return sorted(tuple(sorted(map(str, term.factors))) for term in Formula(text))


def read_terms(text):
    found = parsed_formula(f"y ~ {text}", ["y", *NAMES])
    return sorted(tuple(sorted(found.label(str(factor)) for factor in term.factors)) for term in Formula(found.right))


def some_formula(rng, depth=0):
    kind = rng.random()
    if depth > 2 or kind < 0.3:
        return str(rng.choice(NAMES))
    if kind < 0.4:
        return f"({some_formula(rng, depth + 1)}) ** {rng.integers(1, 4)}"
    sign = rng.choice([" + ", " + ", " - ", ":", " * ", " / "])
    left, right = (f"({each})" if rng.random() < 0.5 else each for each in (
        some_formula(rng, depth + 1), some_formula(rng, depth + 1)))
    return f"{left}{sign}{right}"


def test_random_formulas_have_the_terms_that_were_written():
    rng, different = np.random.default_rng(2014), set()
    for _ in range(60):
        text = some_formula(rng)
        terms = own_terms(text)
        assert read_terms(text) == terms, text
        different.add(tuple(terms))
    assert len(different) > 20


@pytest.mark.parametrize("text", [
    "(x + z) * w", "(x + z):w", "w * (x + z)", "x + z:w", "(x + z) / w", "x - 1", "x + z - 1", "0 + x", "x + 1",
    "x + z - z", "(x + z + w) ** 2", "(x + z) ** 2 - x:z", "x * z - x", "C(x) + log(z)",
    "x * z:w", "x / z:w", "(x * z):w", "x:z * w", "x * z * w", "x * z:w * z", "(x) * z:w", "((x) * z):w", "w:(x * z:w)",
    "x + z * w:x"])
def test_parentheses_and_intercepts_are_kept(text):
    assert read_terms(text) == own_terms(text)


@pytest.mark.parametrize("text", [
    "-1 + x", "- 1 + x + z", "+1 + x", "1 - 1 + x", "0 + x", "0 + x + 1", "x - 1 + z", "x - 0", "x + 0", "-1 + x * z",
    "-1 + x - 1", "1 + x", "-1 + (x + z):w", "x", "1"])
def test_an_intercept_is_there_as_in_the_formula_that_was_written(text):
    assert read_terms(text) == own_terms(text)


@pytest.mark.parametrize(("text", "kept"), [
    ("x + -1", False), ("x - -1", True), ("x + +1", True), ("-0 + x", True), ("+0 + x", False), ("x - +1", False),
    ("x + -0", True), ("--1 + x", True), ("-1 + x + 1", True), ("-1", False)])
def test_a_sign_belongs_to_the_intercept_as_in_r(text, kept):
    assert (("1",) in read_terms(text)) == kept


@pytest.mark.parametrize("text", [
    "x + (z - 1)", "x/0", "x / 1", "x*0", "x:1", "(x - 1) * z", "(1 + x) ** 2", "1 * x", "0 / x", "1 ** 2",
    "-1 * x", "x:-1", "x + (0 + z)", "x - (1 + z)", "w:(x - 1)"])
def test_an_intercept_within_parentheses_or_products_is_refused(text):
    with pytest.raises(InputError, match="0 and 1 stand for the intercept, so they may be added"):
        read_terms(text)


@pytest.mark.parametrize("text", ["1 ~ x", "0 ~ x", "-1 ~ x", "1 ~ 1"])
def test_a_left_side_without_a_column_is_refused(text):
    with pytest.raises(InputError, match="the left side of a formula must have a column"):
        parsed_formula(text, NAMES)


@pytest.mark.parametrize("text", ["y ~ 0", "y ~ -1", "y ~ 1 - 1", "y ~ x - x - 1"])
def test_a_right_side_without_a_term_is_refused(text):
    schema = tm.Schema([tm.Column("x", 0, 1), tm.Column("y", 0, 1)])
    with pytest.raises(InputError, match="the right side of the formula has no term"):
        check_formula(schema, text, "gaussian")
