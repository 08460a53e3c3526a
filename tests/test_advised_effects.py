"""Figures of advice and previews, each from its own source; and the share of the first look by the noise."""

import pytest

import trigmech as tm
from trigmech.functions.partition import columns_of
from trigmech.planning import shares
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
def test_the_first_look_of_pure_noise_grows_from_quiet_to_noisy_tables(count):
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
