"""What rows are asked for, of a release of tables: each number with its weight, computed anew entry by entry."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import trigmech as tm
from trigmech.functions.contrasts import decoding
from trigmech.functions.partition import Partition
from trigmech.queries.base import Measurement
from trigmech.queries.joint import Marginal
from trigmech.queries.one_way import Histogram
from trigmech.reconstruction.estimates import estimate_at, estimate_of, estimates_of
from trigmech.reconstruction.tables import Targets, independent, strengths_of

SCHEMA = tm.Schema([tm.Column("age", 0, 90, "integer"), tm.Column("size", 0.0, 1.0),
                    tm.Column("ward", kind="categorical", categories=tuple("abc")), tm.Column("ill", 0, 1, "binary")])


@cache
def released(delta, n=2_000, columns=4):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 91, n)
    rows = {"age": age, "size": np.clip(age / 100.0 + rng.normal(0.0, 0.1, n), 0.0, 1.0),
            "ward": np.array(list("abc"))[np.minimum(age // 31, 2)], "ill": (rng.random(n) < age / 100.0).astype(int)}
    schema = tm.Schema(SCHEMA.columns[:columns])
    # Without delta, a part of it leaves so much noise that contrasts are measured in place of tables.
    design = tm.design(n, schema, tm.Budget(1.0 if delta else 0.25, delta))
    return tm.measure([list(row) for row in zip(*(rows[name] for name in schema.names), strict=True)], schema, design,
                      np.random.default_rng(1)).release


@pytest.mark.parametrize("count", [20, 500, 10**6])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_each_number_has_the_weight_of_its_noise_and_columns_that_of_all_their_tables(delta, count):
    release = released(delta)
    targets = Targets(release)
    asked = targets.objective(count)
    # No deviation is finer than half a row.
    least = 0.5 / count
    noise = [max(float(np.max(pair.deviation)), least) for pair in targets.pairs]
    assert len(asked._tables) == len(targets.pairs) == 6
    for (maps, target, weight), pair, deviation in zip(asked._tables, targets.pairs, noise, strict=True):
        assert tuple(asked._maps[number][0] for number in maps) == pair.columns
        assert target is pair.table
        assert not pair.sparse
        assert weight == pytest.approx(np.full(target.shape, 1.0 / deviation**2))
    start = 0
    for j, column in enumerate(release.columns):
        own = [deviation for pair, deviation in zip(targets.pairs, noise, strict=True) if j in pair.columns]
        assert len(own) == 3
        finest = max(column.deviation, least)
        # A column is held by three of its tables' weights at most, and by less where a row is more than their noise.
        firm = sum(min(3.0, 0.5 * count * deviation) / min(deviation, finest) ** 2 for deviation in own)
        assert asked._frequency_weights[j] == pytest.approx(firm, rel=1e-12)
        stop = start + len(column.mass)
        assert np.array_equal(asked._frequencies[start:stop], column.mass)
        start = stop
    if delta:
        (columns, features, wanted, weights), *singles = asked._products
        assert np.array_equal(np.column_stack([columns, features]), release.products.query.factors)
        # Cells of tables do not show what lies within them.
        assert np.abs(wanted - targets.products).max() < 0.02
        weight = 1.0 / max(release.products.deviation, least) ** 2
        assert weights == pytest.approx(weight)
        numbers = [j for j, score in enumerate(release.products.query.features) if score.any()]
        held = [(own[:, 0].tolist(), each) for own, _, _, each in singles if len(own)]
        assert [set(own) for own, _ in held] == [{j} for j in numbers]
        assert all(each == pytest.approx(weight) for _, each in held)
    else:
        assert asked._products == []


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_without_dependence_tables_are_products_of_frequencies_and_products_of_means(delta):
    release = released(delta)
    tables, products = independent(release)

    def sums(column, maps):
        held = [0.0] * (int(maps.max()) + 1)
        for cell, mass in zip(maps.tolist(), release.columns[column].mass.tolist(), strict=True):
            held[cell] += mass
        return held

    assert len(tables) == len(release.tables) == (6 if delta else 0)
    for measured, table in zip(release.tables, tables, strict=True):
        cells = [sums(*each) for each in zip(measured.query.columns, measured.query.maps, strict=True)]
        np.testing.assert_allclose(table, [[a * b for b in cells[1]] for a in cells[0]], rtol=1e-12)
    scores = release.products.query.scores
    for (j, h, a, b), product in zip(release.products.query.factors.tolist(), products.tolist(), strict=True):
        means = [float(scores[c][:, s] @ release.columns[c].mass) / 2.0**15 for c, s in ((j, a), (h, b))]
        assert product == pytest.approx(means[0] * means[1], rel=1e-9, abs=1e-15)


def test_products_of_contrasts_are_decoded_to_tables_and_their_noise():
    release = released(0.0)
    query = release.products.query
    assert query.contrasted
    targets, start = Targets(release, shrunk=False), 0
    products = release.products.means - independent(release)[1]
    assert [pair.columns for pair in targets.pairs] == [tuple(pair) for pair in query.pairs.tolist()]
    for pair in targets.pairs:
        table = pair.table
        cells = [np.bincount(query.maps[c], weights=release.columns[c].mass) for c in pair.columns]
        left, right = (decoding(len(own)) for own in cells)
        # Each entry is linear in the pair's products, so its noise is theirs by the root of its squared coefficients.
        matrix = np.einsum("ia,jb->ijab", left, right).reshape(table.size, -1)
        own = products[start : start + matrix.shape[1]]
        start += matrix.shape[1]
        np.testing.assert_allclose(table.ravel(), np.outer(*cells).ravel() + matrix @ own, atol=1e-12)
        squares = release.products.deviation**2 * (matrix**2).sum(axis=1)
        assert pair.deviation == pytest.approx(np.sqrt(squares.mean()), rel=1e-9)
    assert start == len(products)


def test_other_targets_of_the_same_positions_have_no_products():
    release = released(1e-6)
    targets = Targets(release)
    part = targets.beside(release.columns, [2.0 * pair.table for pair in targets.pairs],
                          [4.0 * pair.deviation for pair in targets.pairs])
    for own, whole in zip(part.pairs, targets.pairs, strict=True):
        assert own.deviation == pytest.approx(4.0 * whole.deviation)
        assert np.array_equal(own.table, 2.0 * whole.table)
        assert own.columns == whole.columns
    assert len(part.products) == 0
    assert part.release.products is None
    assert part.objective(100)._products == []


def test_strengths_are_half_the_absolute_deviations_that_are_left():
    release = released(1e-6)
    kept = Targets(release)
    for strength, pair, expected in zip(strengths_of(release)[0], kept.pairs, independent(release)[0], strict=True):
        assert strength == pytest.approx(0.5 * float(np.abs(pair.table - expected).sum()), rel=1e-12)
    columns = tuple(each for each in release.measurements if isinstance(each.query, Histogram))
    assert all(each.size == 0 for each in strengths_of(dataclasses.replace(release, measurements=columns)))


def test_estimates_are_kept_with_their_measurement_while_the_prediction_is_the_same():
    release = released(1e-6)
    for measured, expected in zip(release.tables, independent(release)[0], strict=True):
        first, again = estimate_of(measured, expected), estimate_of(measured, expected.copy())
        assert again is first
        for prediction in (expected, np.full(expected.shape, 1.0 / expected.size)):
            anew = estimate_at(measured.query, measured.means, prediction, measured.deviation)
            np.testing.assert_array_equal(estimate_of(measured, prediction).table, anew.table)
        with pytest.raises(ValueError, match="read-only"):
            first.table[0, 0] = 1.0


def test_a_description_of_a_release_keeps_its_measurements():
    release = released(1e-6)
    before = release.known
    described = release.described(tm.Schema.cube(3))
    assert all(one is other for one, other in zip(described.known, before, strict=True))
    assert described.schema is not release.schema


def test_estimates_of_many_tables_are_those_of_each():
    rng, partition = np.random.default_rng(7), Partition(tuple(range(9)), None, np.empty(0))
    measured, expected = list[Measurement[Marginal]](), list[np.ndarray]()
    for shape in [(2, 2), (2, 3), (8, 9), (2, 2), (3, 2), (7, 9), (8, 8), (2, 2)]:
        maps = tuple(np.minimum(np.arange(9), side - 1) for side in shape)
        alone = rng.dirichlet(np.ones(shape[0]))[:, None] * rng.dirichlet(np.ones(shape[1]))
        noise = float(rng.uniform(0.001, 0.1))
        measured.append(Measurement(Marginal((0, 1), (partition, partition), maps), 1.0,
                                    alone + rng.normal(0.0, 0.1, shape), noise))
        expected.append(alone)
    for again in range(2):
        for each, own, found in zip(measured, expected, estimates_of(measured, expected), strict=True):
            wanted = estimate_at(each.query, each.means, own, each.deviation)
            np.testing.assert_array_equal(found.table, wanted.table)
            np.testing.assert_array_equal(found.deviation, wanted.deviation)
            assert found.sparse == wanted.sparse
        expected[again] = np.full(expected[again].shape, 1.0 / expected[again].size)
