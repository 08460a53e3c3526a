"""Figures of advice and previews, each from its own source; and the share of the first look by the noise."""

import math

import pytest

import trigmech as tm
from trigmech.functions.partition import columns_of
from trigmech.planning import contrasted, few_rows, shares
from trigmech.planning.shares import planned_shares
from trigmech.queries.joint import Products
from trigmech.report.advised import _effect


def test_correlations_and_differences_of_means_have_a_column_each():
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1)])
    found = tm.advise(schema, 2_000, epsilons=[0.3, 3.0])
    (part,) = [part for part in found.parts if part.title == "The smallest effects that could be seen"]
    facts = found.facts["epsilons"]
    assert [list(row[1:]) for row in part.table.rows] == [
        [_effect(each["smallest_correlation"], 1.0), _effect(each["smallest_difference"], 10.0)] for each in facts]
    assert all(row[1] != row[2] for row in part.table.rows)


@pytest.mark.parametrize("count", [2, 4])
def test_the_first_look_of_pure_noise_grows_from_quiet_to_noisy_tables(count, monkeypatch):
    monkeypatch.setattr(shares, "contrasts_are_sharper", lambda columns, strength: False)
    columns = columns_of(tm.Schema.cube(count).domain)
    pairs = count * (count - 1) // 2

    def look(noise):
        return planned_shares(1_000, columns, pairs / (1_000 * noise), False).look

    assert look(shares.PURE_QUIET) == pytest.approx(shares.PURE_LOOK, rel=1e-9)
    assert look(0.5 * shares.PURE_QUIET) == shares.PURE_LOOK
    assert look(shares.PURE_NOISY) == look(2.0 * shares.PURE_NOISY) == pytest.approx(shares.MOST_PURE_LOOK, rel=1e-9)
    middle = (shares.PURE_QUIET * shares.PURE_NOISY) ** 0.5
    assert look(middle) == pytest.approx(0.5 * (shares.PURE_LOOK + shares.MOST_PURE_LOOK), rel=1e-9)


def test_a_preview_s_correlation_of_ranks_has_twice_the_noise_of_its_product():
    mechanism = tm.TableMechanism(shares=shares.Shares(0.3, 0.05, 0.3, 3))
    expected = tm.preview(3_000, tm.Schema.cube(3), tm.Budget(20.0, 1e-6), mechanism=mechanism)
    planned = mechanism.agenda(tm.design(3_000, tm.Schema.cube(3), tm.Budget(20.0, 1e-6), mechanism))
    (products,) = [each for each in planned.measurements if isinstance(each.query, Products)]
    (charge,) = [charge for charge in expected.charges if charge.purpose == "dependence"]
    (said,) = [each for each in expected.together if each.what.startswith("correlation of the ranks of two columns of")]
    # The product of the first scores has a mean of 1/2 where two columns have the same ranks.
    assert said.error == pytest.approx(2.0 * charge.scale / products.weight, rel=1e-9)


@pytest.mark.parametrize("count", [3, 12])
def test_the_look_beside_contrasts_is_that_of_the_least_predicted_error(count, monkeypatch):
    monkeypatch.setattr(shares, "contrasts_are_sharper", lambda columns, strength: True)
    columns = columns_of(tm.Schema.cube(count).domain)

    def predicted(planned, strength):
        rest = strength * (1.0 - planned.look - planned.closer)
        return few_rows.of_pairs(few_rows.VARIATION * contrasted.mean_error(columns, strength * planned.look),
                                 contrasted.planned_cells(columns, rest)[2])

    looks = []
    for strength in (30.0, 1_000.0, 30_000.0):
        found = planned_shares(10, columns, strength / 10, False)
        least = predicted(found, strength)
        for look in (0.32, 0.42, 0.57, 0.72, 0.87, 0.97):
            closer = 0.1 * min(1.0, (1.0 - look) / 0.68)
            assert least <= predicted(shares.Shares(look, closer, 0.0), strength) * (1.0 + 1e-12)
        looks.append(found.look)
    # Where noise hides the dependence, nearly all of the budget is for columns.
    assert looks[0] == shares.MOST_PURE_LOOK
    assert looks[0] > looks[-1]


@pytest.mark.parametrize(("numbers", "strength", "wanted"), [
    (0, 100.0, (0.0, 1)), (1, 100.0, (0.0, 1)), (5, 2e5, (0.15, 3)), (5, 1e5, (0.15, 2)),
    (5, 6e4, (0.15, 2)), (5, 3e4, (0.15, 1)),
    (5, 1e3, (0.3, 1))])
def test_products_of_ranks_at_pure_noise_have_more_cosines_where_these_have_little_noise(numbers, strength, wanted):
    part, cosines = shares._pure_products(numbers, strength)
    assert (pytest.approx(part), cosines) == wanted
    if numbers > 1:
        # Of Laplace noise: the L1 diameter over what the products get of n epsilon.
        length = [sum(1.0 / a**2 for a in range(1, q + 1)) * numbers * math.sqrt(numbers * (numbers - 1) / 2) * q
                  for q in (1, 2, 3)]
        noise = [math.sqrt(2.0) * each / (strength * part) for each in length]
        assert cosines == (3 if noise[2] <= 0.004 else 2 if noise[1] <= 0.008 else 1)
