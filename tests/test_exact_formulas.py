"""Formulas of regressions mean what they mean in R: against formulaic's own reading of the text that was written."""

import numpy as np
import pytest
from formulaic import Formula

from trigmech.inference.formula import parsed_formula

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
    "x + z - z", "(x + z + w) ** 2", "(x + z) ** 2 - x:z", "x * z - x", "x + (z - 1)", "C(x) + log(z)",
    "x * z:w", "x / z:w", "(x * z):w", "x:z * w", "x * z * w", "x * z:w * z", "(x) * z:w", "((x) * z):w", "w:(x * z:w)",
    "x + z * w:x"])
def test_parentheses_and_intercepts_are_kept(text):
    assert read_terms(text) == own_terms(text)
