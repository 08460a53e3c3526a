"""Predicted errors where rows are few, by plain sums; and the look that they choose."""

import math

import numpy as np
import pytest

import trigmech as tm
from trigmech.functions.partition import columns_of
from trigmech.functions.prefix_sums import diameter
from trigmech.planning import few_rows, shares
from trigmech.planning.shares import look_parts, planned_shares

NUMBERS = columns_of(tm.Schema.cube(12).domain)
MIXED = columns_of(tm.Schema([
    tm.Column("a", 0, 1), tm.Column("b", 0, 4, "integer"), tm.Column("c", kind="binary", lower=0, upper=1),
    *(tm.Column(f"k{i}", kind="categorical", categories=tuple(range(2 + i))) for i in range(9))]).domain)
EACH = pytest.mark.parametrize("columns", [NUMBERS, MIXED], ids=["numbers", "mixed"])


def left(variance, noise):
    return variance * noise / (variance + noise)


@EACH
@pytest.mark.parametrize("strength", [3.0, 60.0, 4_000.0])
def test_what_is_predicted_of_columns_is_the_sum_over_their_coefficients(columns, strength):
    parts, errors = look_parts(columns, True), []
    parts /= np.linalg.norm(parts)
    for column, part in zip(columns, parts, strict=True):
        k = len(column.indicators)
        if column.value is None:
            noise = (diameter(k, 0) / (part * strength)) ** 2
            squares = [left(min(2.5 / (k + 2), 1.0), k * noise)] * (k - 1)
        else:
            count = 64 if column.levels is None else len(column.levels)
            noise = (diameter(0, count) / (part * strength)) ** 2
            squares = [left(0.73 / a**2.4, math.pi * a * noise) for a in range(1, min(count, 32))]
        errors.append(math.sqrt(sum(squares)))
    assert few_rows.columns_error(columns, parts, strength) == pytest.approx(0.32 * np.mean(errors))


@EACH
def test_pairs_lose_their_dependence_in_noise_and_keep_a_part_without_it(columns):
    d, m = 12, sum(column.value is not None for column in columns)
    pairs = [0.22 if j < m and h < m else 0.1 for j in range(d) for h in range(j)]
    alone = math.sqrt(np.mean(np.square(pairs)))
    assert few_rows.pairs_error(columns, 0.0, 0.0) == pytest.approx(alone)
    assert few_rows.pairs_error(columns, 0.1, 0.0) == pytest.approx(math.hypot(math.sqrt(2.2) * 0.1, alone))
    assert few_rows.pairs_error(columns, 0.0, 1e9) == pytest.approx(alone * math.sqrt(0.35))
    # Where the factors' eigenvalue is 6.7 times the noise's, half of what can be found is found.
    strength = 6.7 * d * math.sqrt(d) / (0.35 * m + 0.05 * (d - m))
    assert few_rows.pairs_error(columns, 0.0, strength) == pytest.approx(alone * math.sqrt(1.0 - 0.65 / 2.0))


@EACH
def test_the_look_is_the_smallest_one_that_is_predicted_to_be_nearly_the_best(columns):
    parts = look_parts(columns, True)
    parts /= np.linalg.norm(parts)

    def error(look, strength):
        return few_rows.pairs_error(columns, few_rows.columns_error(columns, parts, math.sqrt(look) * strength),
                                    math.sqrt(0.9 * (0.97 - look)) * strength)

    chosen = {}
    for strength in (20.0, 40.0, 80.0, 160.0, 320.0):
        found = planned_shares(1, columns, strength, True)
        assert (found.closer, found.products, found.scores, found.selected) == (0.03, 0.9, 0, 0.0)
        best = min(error(look, strength) for look in (0.7, 0.75, 0.8, 0.85, 0.9, 0.95))
        assert error(found.look, strength) <= 1.04 * best
        assert found.look == pytest.approx(0.7) or error(found.look - 0.05, strength) > 1.04 * best
        chosen[strength] = round(found.look, 2)
    # Numbers are assumed to have common factors. Other columns hardly have them, so the look gets more.
    assert chosen[80.0] == (0.7 if columns is NUMBERS else 0.85)
    assert chosen[320.0] == 0.7


def test_with_little_noise_the_prediction_changes_no_share(monkeypatch):
    strength = math.sqrt(12 * 11) / shares.QUIET * 1.01
    before = planned_shares(1, NUMBERS, strength, True)
    monkeypatch.setattr(shares, "pairs_error", None)
    assert planned_shares(1, NUMBERS, strength, True) == before


@EACH
def test_the_look_does_not_jump_where_the_prediction_begins(columns):
    strength = math.sqrt(12 * 11) / shares.QUIET
    below, above = (planned_shares(1, columns, factor * strength, True).look for factor in (1.0001, 0.9999))
    assert above == pytest.approx(below, rel=1e-3)
