"""Checks name the thing and the rule, and of what was given only what is public."""

from numbers import Real
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest

from trigmech import _validate as validate
from trigmech.errors import InputError

OPTIONS = SimpleNamespace(a=1, b=True, c=None, d="formula", e=2**53 + 1, f=np.int64(3), g=np.True_)
SECRET = 7.7131


@pytest.mark.parametrize(("check", "rule"), [
    (lambda: validate.numbers("X", [[SECRET], [1, SECRET]], "n", 2), "X must be a numeric array of shape (n, 2); its "),
    (lambda: validate.numbers("X", [str(SECRET)], 1), "X must be a numeric array of shape (1,); its type is "),
    (lambda: validate.numbers("X", np.ma.array([SECRET], mask=[True]), 1), "X is a masked array; "),
    (lambda: validate.finite("X", [SECRET, np.inf], "n"), "X must hold finite numbers; an entry is not finite"),
    (lambda: validate.check_integers(1, n=2, d=0), "d must be a positive integer, not 0"),
    (lambda: validate.check_integers(0, n=True), "n must be an integer that is at least 0, not True"),
    (lambda: validate.check_integers(0, n=[SECRET]), "n must be an integer that is at least 0, not an object of type"),
    (lambda: validate.check_positive(k=np.nan), "k must be positive and finite, not nan"),
    (lambda: validate.check_positive(k="1"), "k must be positive and finite, not '1'"),
    (lambda: validate.check_counts(OPTIONS, (), "a", "b"), "b must be a positive integer up to 2^53, not True"),
    (lambda: validate.check_counts(OPTIONS, (None,), "c", "e"), "e must be a positive integer up to 2^53 or None, "),
    (lambda: validate.check_flags(OPTIONS, (), "b", "c"), "c must be True or False, not None"),
    (lambda: validate.check_flags(OPTIONS, (None,), "c", "a"), "a must be True or False or None, not 1"),
    (lambda: validate.check_choice("fit", "x", Literal["a", "b"]), "fit must be one of 'a', 'b', not 'x'"),
])
def test_what_breaks_a_rule_is_refused(check, rule):
    with pytest.raises(InputError) as refused:
        check()
    assert str(refused.value).startswith(rule)
    assert str(SECRET) not in str(refused.value)


def test_what_keeps_to_the_rules_passes():
    validate.check_integers(0, n=0, m=np.int64(2**60))
    validate.check_positive(k=np.float32(1), n=1)
    validate.check_counts(OPTIONS, ("formula", None), "a", "c", "d", "f")
    validate.check_flags(OPTIONS, (None,), "b", "c")
    validate.check_choice("fit", "a", Literal["a", "b"])
    assert validate.finite("X", [1, 2], 2).dtype.kind == "i"
    assert not validate.is_number(np.True_)


@pytest.mark.parametrize(("kind", "good", "bad", "rule"), [
    (str, ["", "é", "x" * 10_000], [1, None, "\x1b[2J", "x" * 10_001], "a text of at most 10000 printable letters"),
    ((str, 2), ["", "xy"], ["xyz"], "a text of at most 2 printable letters"),
    (bool, [True, False], [0, "true", None], "true or false"),
    (int, [0, -10**400], [True, 1.0, "1"], "an integer"),
    ((int, 2), [2, 10**400], [1, True], "an integer that is at least 2"),
    (float, [0.5, -1.0], [1, np.nan, np.inf, "1.0", True], "a number with a decimal point"),
    (Real, [0.5, 1, 2**53], [2**53 + 1, 10**400, np.nan, -np.inf, "1", False], "a finite number"),
    ((Real, 0), [0, 1.5], [-1, -1e-300], "a finite number that is at least 0"),
    (list, [[], [1]], [(), {}, "x"], "a list"),
    (object, [None, {}, SECRET], [], ""),
], ids=str)
def test_a_value_of_a_file_is_of_its_kind(kind, good, bad, rule):
    for value in good:
        assert validate.of_kind("the file: x", value, kind) == value
    for value in bad:
        with pytest.raises(InputError) as refused:
            validate.of_kind("the file: x", value, kind)
        assert str(refused.value) == f"the file: x must be {rule}"


@pytest.mark.parametrize(("data", "rule"), [
    ([], "the file must be an object with the keys a, b"),
    ({"a": 1}, "the file must be an object with the keys a, b: 'b' is missing"),
    ({"a": 1, "b": "x", "c" * 99: 1}, f"the file must be an object with the keys a, b: {'c' * 40!r} is not known"),
    ({"a": "7.7131", "b": "x"}, "the file: a must be an integer"),
])
def test_an_object_of_a_file_has_its_keys_and_no_others(data, rule):
    with pytest.raises(InputError) as refused:
        validate.fields(data, "the file", {"a": int, "b": str})
    assert str(refused.value) == rule


def test_the_values_of_an_object_keep_its_order_and_integers_for_numbers_become_floats():
    found = validate.fields({"b": "x", "a": 1}, "the file", {"a": Real, "b": str})
    assert (list(found), repr(found["a"])) == (["b", "a"], "1.0")
