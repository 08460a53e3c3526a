"""Columns of two categories have products of ranks with numbers, as binary columns of numbers have."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import trigmech as tm
from trigmech.functions.partition import Partition, scored_columns
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.dependence import design_dependence
from trigmech.queries.joint import Products
from trigmech.report.dependences import dependences_of

NUMBERS = 6


def two_kinds(rng, n=600, share=0.5):
    """Return a table with a column of 0 and 1 on which numbers of nine values depend, and the schemas of both kinds."""
    group = (rng.random(n) < share) * 1
    numbers = {f"x{i}": np.clip(np.round(rng.normal(4.0 + 0.8 * group, 2.0)), 0, 8) for i in range(NUMBERS)}
    table = pd.DataFrame({"group": group, **numbers})
    columns = [tm.Column(name, 0, 8, "integer") for name in numbers]
    named = table.assign(group=np.where(group, "yes", "no"))
    return (table, tm.Schema([tm.Column("group", 0, 1, "binary"), *columns])), (
        named, tm.Schema([tm.Column("group", kind="categorical", categories=("no", "yes")), *columns]))


def correlations(made):
    rows = made.sample(8_000, np.random.default_rng(0))
    group = (rows["group"].isin(["yes", 1])).astype(float)
    return [np.corrcoef(group, rows[f"x{i}"])[0, 1] for i in range(NUMBERS)]


@pytest.mark.daily("0.2")
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_two_categories_depend_on_numbers_as_the_same_column_of_numbers_does(share):
    found, true = {0: [], 1: []}, []
    for seed in range(3):
        for kind, (table, schema) in enumerate(two_kinds(np.random.default_rng(seed), share=share)):
            made = tm.synthesize(table, schema, tm.Budget(10.0, 1e-6), rng=np.random.default_rng(seed))
            found[kind] += correlations(made)
            true += [] if kind else [np.corrcoef(table["group"], table[f"x{i}"])[0, 1] for i in range(NUMBERS)]
    of_numbers, of_categories = (float(np.mean(np.array(each) - true)) for each in found.values())
    assert abs(of_categories) < 0.03
    assert abs(of_categories - of_numbers) < 0.02


kinds = st.lists(st.sampled_from(["number", "marked", "one", "two", "three"]), max_size=8)


def partition(kind, j):
    if kind in ("number", "marked"):
        return Partition((100 + j, 200 + j) if kind == "marked" else (), j, np.linspace(-1.0, 1.0, 5))
    count = ["one", "two", "three"].index(kind) + 1
    return Partition(tuple(range(10 * j, 10 * j + count)), None, np.empty(0))


@given(kinds, st.booleans())
def test_columns_with_an_order_are_numbers_and_beside_these_two_categories(held, gaussian):
    ordered = {"number", "marked", *({"two"} if gaussian and {"number", "marked"} & set(held) else ())}
    assert scored_columns([partition(kind, j) for j, kind in enumerate(held)], gaussian) == [
        j for j, kind in enumerate(held) if kind in ordered]


@pytest.mark.parametrize(("delta", "ordered"), [(1e-6, [0, 1, 3, 4]), (0.0, [0, 3])])
def test_products_are_those_of_all_pairs_with_an_order_and_two_categories_have_one_score(delta, ordered):
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", kind="categorical", categories=("x", "y")),
                        tm.Column("c", kind="categorical", categories=("x", "y", "z")),
                        tm.Column("d", 0, 50, "integer", missing="keep"),
                        tm.Column("e", kind="categorical", categories=("x", "y"))])
    design = tm.design(100_000, schema, tm.Budget(30.0, delta)).measured
    rng = np.random.default_rng(0)
    columns = [ReleasedColumn(each, rng.dirichlet(np.ones(each.size)), 1e-4) for each in design.partitions]
    (products,) = [each.query for each in design_dependence(design, columns) if isinstance(each.query, Products)]
    assert products.pairs.tolist() == [list(pair) for pair in combinations(ordered, 2)]
    of_two = int(delta > 0.0)
    assert [each.shape[1] for each in products.scores] == [design.scores, of_two, 0, design.scores, of_two]
    assert ("products of ranks of 6 pairs of numbers or of two categories" in str(design)) == bool(of_two)
    # The product of the first scores tells the table of two categories: they differ.
    assert all(len(np.unique(products.scores[j])) == 2 * of_two for j in (1, 4))


def test_the_strength_of_a_pair_with_two_categories_is_that_of_its_table():
    (_, _), (table, schema) = two_kinds(np.random.default_rng(0), 20_000)
    made = tm.synthesize(table, schema, tm.Budget(10.0, 1e-6), rng=np.random.default_rng(0))
    for pair in dependences_of(made.release, made.fit):
        if pair.first == 0:
            name = f"x{pair.second - 1}"
            counts = pd.crosstab(table["group"], table[name], normalize=True).to_numpy()
            true = 0.5 * np.abs(counts - np.outer(counts.sum(axis=1), counts.sum(axis=0))).sum()
            assert pair.strength == pytest.approx(true, abs=0.03)
