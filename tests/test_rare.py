"""Rare values that a fit has lost: rows that are added, and intervals that hold what noise hides."""

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference.lost import _hidden, _placed

SCHEMA = tm.Schema([tm.Column("ill", 0, 1, "binary"), tm.Column("age", 0, 100), tm.Column("sex", kind="categorical",
                    categories=("f", "m")), tm.Column("town", kind="categorical", categories=tuple("abcd"))])


def table_of(n, seed):
    rng = np.random.default_rng(seed)
    ill, age = rng.random(n) < 0.012, rng.normal(50, 12, n).clip(0, 100)
    return pd.DataFrame({"ill": ill.astype(float), "age": age, "sex": np.where(rng.random(n) < 0.5, "f", "m"),
                         "town": rng.choice(list("abcd"), n, p=[0.6, 0.3, 0.095, 0.005])})


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_means_of_groups_of_a_rare_binary_column_have_true_widths(seed):
    table = table_of(2_000, seed)
    made = tm.synthesize(table, SCHEMA, tm.Budget(0.5, 1e-6), rng=np.random.default_rng(seed))
    held = made.imputations(20, population=False)
    for by in ("sex", "town"):
        found = made.sql(f"select {by}, avg(ill) as ill, count(*) as n from release group by {by}", imputations=held)
        real = table.groupby(by)["ill"].mean()
        for group, value, low, high in zip(found.keys[by], found.values["ill"], found.low["ill"], found.high["ill"],
                                           strict=True):
            # Wide as what is known of 0 to 1 in its few rows, or refused, but never certain.
            assert np.isnan(low) or (high - low > 1e-3 and low - 0.01 <= real[group] <= high + 0.01), (group, value)
    whole = made.sql("select avg(ill) as ill from release", imputations=held)
    assert whole.low["ill"][0] <= table["ill"].mean() <= whole.high["ill"][0]
    fitted = made.regression("age ~ ill", imputations=held)
    assert fitted.high[1] - fitted.low[1] > 1.0 or np.isnan(fitted.low[1])


def test_rows_are_added_where_noise_may_hide_a_value_and_nowhere_else():
    categories = ReleasedColumn(Partition((1, 2, 3), None, np.empty(0)), np.array([0.9, 0.1, 0.0]), 0.01)
    points = np.zeros((1_000, 4))
    points[:900, 1] = points[900:, 2] = 1.0
    np.testing.assert_allclose(_hidden(categories, points), [0.0, 0.0, 0.005])
    noisy = ReleasedColumn(categories.partition, categories.mass, 0.3)
    # At most a tenth of the rows, however much noise there is.
    np.testing.assert_allclose(_hidden(noisy, points), [0.0, 0.05, 0.05])
    rng = np.random.default_rng(0)
    made = _placed(categories.partition, np.array([2, 2, 1]), points[rng.integers(len(points), size=3)], rng)
    np.testing.assert_array_equal(made[:, 1:], [[0, 0, 1], [0, 0, 1], [0, 1, 0]])
    ages = ReleasedColumn(Partition((), 0, np.linspace(-1.0, 1.0, 6)), np.full(5, 0.2), 0.3)
    assert not _hidden(ages, points).any()
