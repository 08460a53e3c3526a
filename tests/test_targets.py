"""What rows are asked for, of a release of tables: each number with its weight, computed anew entry by entry."""

import dataclasses
from functools import cache

import numpy as np
import pytest

import trigmech as tm
from trigmech.functions.contrasts import decoding
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
    design = tm.design(n, schema, tm.Budget(1.0, delta))
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
    noise = [max(float(deviation), least) for deviation in targets.deviations]
    assert len(asked._tables) == len(targets.pairs) == 6
    for (maps, target, weight), pair, table, deviation in zip(asked._tables, targets.pairs.tolist(), targets.tables,
                                                              noise, strict=True):
        assert [asked._maps[number][0] for number in maps] == pair
        assert target is table
        assert weight == pytest.approx(1.0 / deviation**2)
    start = 0
    for j, column in enumerate(release.columns):
        own = [deviation for pair, deviation in zip(targets.pairs.tolist(), noise, strict=True) if j in pair]
        assert len(own) == 3
        finest = max(column.deviation, least)
        # A column is held by three of its tables' weights at most, and by less where a row is more than their noise.
        firm = sum(min(3.0, 0.5 * count * deviation) / min(deviation, finest) ** 2 for deviation in own)
        assert asked._frequency_weights[j] == pytest.approx(firm, rel=1e-12)
        stop = start + len(column.mass)
        assert np.array_equal(asked._frequencies[start:stop], column.mass)
        start = stop
    if delta:
        (columns, features, wanted, weights), = asked._products
        chosen = release.dependence
        assert np.array_equal(np.column_stack([columns, features]), chosen.factors)
        assert wanted is targets.products
        assert weights == pytest.approx(1.0 / max(release.product_deviation, least) ** 2)
    else:
        assert asked._products == []


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_without_dependence_tables_are_products_of_frequencies_and_products_of_means(delta):
    release = released(delta)
    chosen, (tables, products) = release.dependence, independent(release)
    cells = []
    for maps, column in zip(chosen.maps, release.columns, strict=True):
        held = [0.0] * (int(maps.max()) + 1)
        for cell, mass in zip(maps.tolist(), column.mass.tolist(), strict=True):
            held[cell] += mass
        cells.append(held)
    assert len(tables) == len(chosen.tables)
    for (j, h), table in zip(chosen.tables.tolist(), tables, strict=True):
        np.testing.assert_allclose(table, [[a * b for b in cells[h]] for a in cells[j]], rtol=1e-12)
    for (j, h, a, b), product in zip(chosen.factors.tolist(), products.tolist(), strict=True):
        means = [float(chosen.scores[c][:, s] @ release.columns[c].mass) / 2.0**15 for c, s in ((j, a), (h, b))]
        assert product == pytest.approx(means[0] * means[1], rel=1e-9, abs=1e-15)


def test_products_of_contrasts_are_decoded_to_tables_and_their_noise():
    release = released(0.0)
    assert release.dependence.contrasted
    targets, start = Targets(release, shrunk=False), 0
    products = release.products - independent(release)[1]
    for (j, h), table, deviation in zip(targets.pairs.tolist(), targets.tables, targets.deviations, strict=True):
        cells = [np.bincount(release.dependence.maps[c], weights=release.columns[c].mass) for c in (j, h)]
        left, right = (decoding(len(own)) for own in cells)
        # Each entry is linear in the pair's products, so its noise is theirs by the root of its squared coefficients.
        matrix = np.einsum("ia,jb->ijab", left, right).reshape(table.size, -1)
        own = products[start : start + matrix.shape[1]]
        start += matrix.shape[1]
        np.testing.assert_allclose(table.ravel(), np.outer(*cells).ravel() + matrix @ own, atol=1e-12)
        squares = release.product_deviation**2 * (matrix**2).sum(axis=1)
        assert deviation == pytest.approx(np.sqrt(squares.mean()), rel=1e-9)
    assert start == len(products)


def test_a_part_of_the_rows_has_no_products_and_more_noise():
    release = released(1e-6)
    targets = Targets(release)
    part = targets.of(release.columns, targets.tables, 0.25)
    np.testing.assert_allclose(part.deviations, 4.0 * targets.deviations)
    assert len(part.products) == len(part.release.dependence.factors) == 0
    assert part.objective(100)._products == []


def test_strengths_are_half_the_absolute_deviations_that_are_left():
    release = released(1e-6)
    kept = Targets(release)
    for strength, table, expected in zip(strengths_of(release), kept.tables, independent(release)[0], strict=True):
        assert strength == pytest.approx(0.5 * float(np.abs(table - expected).sum()), rel=1e-12)
    assert dataclasses.replace(release, dependence=None, tables=()).table_deviations.size == 0
