"""What the rounds of a design measure never moves further than was charged for, at any number of rows."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.functions.released_column import ReleasedColumn
from trigmech.mechanisms.table import design_dependence
from trigmech.planning.closer import closer_looks
from trigmech.planning.tables import plan_tables
from trigmech.queries.base import UNIT, Measurement, sensitivity_of
from trigmech.queries.one_way import Detail


def categories(name, count):
    return tm.Column(name, kind="categorical", categories=[str(i) for i in range(count)])


NUMBERS = [tm.Column(f"x{i}", -3, 5) for i in range(12)]
SCHEMAS = {
    "one": [tm.Column("x", 0, 1)],
    "numbers": NUMBERS,
    "categories": [categories(f"c{i}", 2 + i) for i in range(6)],
    "mixed": [categories("a", 3), categories("b", 12), *NUMBERS[:3], tm.Column("i", 0, 500, kind="integer")],
}


def paid(charge, asked, n):
    """Whether a charge pays for what is asked, as the session judges it."""
    return sensitivity_of(asked, "Linf" if charge.norm == "each" else charge.norm, n, 1.0) <= charge.sensitivity


@pytest.mark.daily(7)
@pytest.mark.parametrize("n", [300, 10**5, 3 * 10**5, 10**7, 10**9, 10**11])
@pytest.mark.parametrize("budget", [tm.Budget(0.1), tm.Budget(30.0), tm.Budget(0.1, 1e-12), tm.Budget(30.0, 1e-12)],
                         ids=str)
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_round_is_paid_for(schema, budget, n):
    """Before, at delta 0, details of many heavy intervals ended a release of 300,000 rows after its charge."""
    design = plan_tables(n, tm.Schema(SCHEMAS[schema]).domain, budget)
    rng = np.random.default_rng(0)
    for mass in (lambda size: np.full(size, 1.0 / size), lambda size: rng.dirichlet(np.ones(size)),
                 lambda size: rng.dirichlet(np.full(size, 0.1))):
        columns = [ReleasedColumn(own, mass(own.size), look.deviation)
                   for own, look in zip(design.partitions, design.looks, strict=True)]
        for one in design.first:
            assert paid(one.charge, one.asked, n)
        if design.closer is not None and (asked := closer_looks(design, columns)):
            assert paid(design.closer, asked, n)
        if design.dependence is not None:
            assert paid(design.dependence, design_dependence(design, columns), n)


def test_a_large_table_of_one_number_is_released_without_delta():
    x = np.random.default_rng(0).normal(size=(300_000, 1)).clip(-4.0, 4.0)
    made = tm.synthesize(x, tm.Schema([tm.Column("x", -4, 4)]), tm.Budget(1.0), tm.TableMechanism(points=64),
                         np.random.default_rng(0))
    assert len(made.release.closer) > 20


@pytest.mark.nightly
@pytest.mark.parametrize(("strength", "delta"), [(3e3, 0.0), (1e4, 0.0), (3e3, 1e-6)])
def test_whole_numbers_of_any_range_are_released(strength, delta):
    """Most rows hold a bound. Before, a number of 48 levels ended a release after its charge."""
    rng, counts = np.random.default_rng(0), [*range(15, 71, 3), 96, 128, 257]
    for some in np.array_split(counts, 6):
        rows = {f"x{count}": rng.choice([0, count - 1, -1], 500, p=[0.4, 0.3, 0.3]) for count in some.tolist()}
        rows = {name: np.where(own < 0, rng.integers(0, int(name[1:]), 500), own) for name, own in rows.items()}
        schema = tm.Schema([tm.Column(name, 0, int(name[1:]) - 1, kind="integer") for name in rows])
        budget = tm.Budget(strength / 500.0, delta)
        made = tm.measure(pd.DataFrame(rows), schema, tm.design(500, schema, budget), rng)
        assert all(np.isfinite(column.mass).all() for column in made.release.columns)


def details(count, intervals=8):
    """Details of so many intervals of one column."""
    partition = plan_tables(10**6, tm.Schema([tm.Column("x", -1, 1)]).domain, tm.Budget(1.0)).partitions[0]
    edges = partition.edges
    return [Detail(0, partition, i, np.linspace(edges[i], edges[i + 1], intervals + 1)) for i in range(count)]


def test_rounding_moves_disjoint_queries_together_by_no_more_than_one_alone():
    rng, weight = np.random.default_rng(0), 1.0 / 7.0
    asked = [Measurement(query, weight) for query in details(20)]
    for n in (3, 999_999_937, 10**15 + 37):
        for _ in range(20):
            share = rng.dirichlet(np.full(20 * 8, rng.choice([0.05, 1.0])))
            sums = np.floor(share * n).reshape(20, 8)
            exact = [[Fraction(int(each)) / n / 7 for each in own] for own in sums]
            vectors = [each.vector(own, n) for each, own in zip(asked, sums, strict=True)]
            off = [abs(Fraction(float(value)) - wanted) for own, row in zip(vectors, exact, strict=True)
                   for value, wanted in zip(own, row, strict=True)]
            assert sum(off) <= Fraction(weight * asked[0].query.rounding("L1", n))
    one, all_of_them = (sensitivity_of(some, "L1", 10**6, 1.0) for some in (asked[:1], asked))
    assert one == all_of_them == pytest.approx(2.0 * weight / 10**6 + 8.0 * UNIT * weight, rel=1e-15)
    # Those of two columns add up.
    other = [Measurement(Detail(1, own.partition, own.interval, own.edges), weight) for own in
             (each.query for each in asked)]
    assert sensitivity_of([*asked, *other], "L1", 10**6, 1.0) == pytest.approx(2.0 * one, rel=1e-15)
    # So do those of different intervals, though one partition serves both columns.
    assert sensitivity_of([asked[0], other[1]], "L1", 10**6, 1.0) == pytest.approx(2.0 * one, rel=1e-15)
