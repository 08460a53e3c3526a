"""Laws that hold of every kind of query: encoding, noise, diameters, exact sums, names, files, finer positions."""

import itertools
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import trigmech as tm
from trigmech.functions.contrasts import contrasts
from trigmech.functions.partition import Partition, all_codes, columns_of, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.exact import QueryStatistic, exact_sums
from trigmech.measurement.released import Release
from trigmech.measurement.rows import PrivateRows
from trigmech.measurement.sums import Chunk
from trigmech.planning.dependence import _scores
from trigmech.queries.base import Measurement, Query, moved, scaled, sensitivity_of
from trigmech.queries.book import KINDS
from trigmech.queries.directions import Directions
from trigmech.queries.functions import Functions
from trigmech.queries.joint import SCORE_BITS, Marginal, Products
from trigmech.queries.one_way import (
    Contrasts,
    Detail,
    Histogram,
    HistogramWithEnds,
    PrefixSums,
    PrefixSumsWithEnds,
)
from trigmech.storage import measurements_file

SCHEMA = tm.Schema([
    tm.Column("number", -2, 2), tm.Column("count", 0, 9, "integer"), tm.Column("gain", 0, 100, special=(0,)),
    tm.Column("region", kind="categorical", categories=("north", "south", "west")),
    tm.Column("pay", 0, 50, missing="keep"), tm.Column("grade", kind="ordinal", categories=("low", "middle", "high"))])
NORMS = ("L1", "L2", "Linf")


def table(n, seed):
    rng = np.random.default_rng(seed)
    return {"number": rng.uniform(-2, 2, n), "count": rng.integers(0, 10, n),
            "gain": np.where(rng.random(n) < 0.3, 0.0, rng.uniform(0, 100, n)),
            "region": rng.choice(["north", "south", "west"], n),
            "pay": np.where(rng.random(n) < 0.2, np.nan, rng.uniform(0, 50, n)),
            "grade": rng.choice(["low", "middle", "high"], n)}


def points(n=400, seed=0):
    import pandas as pd

    return SCHEMA.to_cube(pd.DataFrame(table(n, seed)))


@cache
def partitions():
    return tuple(whole if whole.value is None else whole.cut(even_edges(whole.levels, 7))
                 for whole in columns_of(SCHEMA.domain))


@cache
def queries():
    """One of each kind at least, by what is said of it."""
    parts, rng = partitions(), np.random.default_rng(3)
    columns = [ReleasedColumn(part, np.full(part.size, 1.0 / part.size), 0.01) for part in parts]
    maps = [np.unique(rng.integers(0, 3, part.size), return_inverse=True)[1].astype(np.int64) for part in parts]
    numbers = [j for j, part in enumerate(parts) if part.value is not None]
    pairs = np.array([(a, b) for a in numbers for b in numbers if a < b], dtype=np.int64)
    scores = tuple(_scores(column, 2) for column in columns)
    signs = tuple(contrasts(int(cells.max()) + 1)[cells] << SCORE_BITS for cells in maps)
    every = np.array([(a, b) for a in range(6) for b in range(a + 1, 6)], dtype=np.int64)
    fine = np.linspace(*parts[2].edges[2:4], 6)
    domain, degrees = SCHEMA.domain, np.zeros((8, SCHEMA.domain.d), dtype=np.int64)
    for row, factors in zip(degrees, ({0: 1}, {0: 2}, {1: 1}, {3: 1}, {0: 1, 1: 3}, {3: 1, 0: 2}, {3: 1, 5: 1}, {1: 4}),
                            strict=True):
        row[list(factors)] = list(factors.values())
    features = tm.Features(tm.ChebyshevBasis(degrees), [[1.0, 0.3, 0.2], [2.0, 0.0, 0.5]])
    found = {
        "histogram of a number": Histogram(0, parts[0]), "histogram of categories": Histogram(3, parts[3]),
        "histogram with special values": Histogram(2, parts[2]),
        "ranges of a number": PrefixSums(0, parts[0]), "ranges with missing values": PrefixSums(4, parts[4]),
        "ranges of categories": PrefixSums(3, parts[3]), "ranges of levels": PrefixSums(1, parts[1]),
        "ranges and ends": PrefixSumsWithEnds(0, parts[0]), "histogram and ends": HistogramWithEnds(0, parts[0]),
        "ranges and ends with special values": PrefixSumsWithEnds(2, parts[2]),
        "contrasts": Contrasts(5, parts[5]), "contrasts with special values": Contrasts(2, parts[2]),
        "detail": Detail(2, parts[2], 2, fine),
        "table of one column": Marginal((0,), (parts[0],), (maps[0],)),
        "table of two": Marginal((2, 3), (parts[2], parts[3]), (maps[2], maps[3])),
        "table of three": Marginal((0, 1, 4), (parts[0], parts[1], parts[4]), (maps[0], maps[1], maps[4])),
        "products of ranks": Products(parts, scores, pairs),
        "products of contrasts": Products(parts, signs, every, True, tuple(maps)),
        "directions": Directions(parts, tuple(np.rint(column.normal_scores * 1024).astype(np.int64)
                                              for column in columns)),
        "directions and presence": Directions(parts, tuple(
            np.rint(own * 1024).astype(np.int64) for own in (
                *(column.normal_scores for column in columns), *(columns[j].presence_scores for j in (2, 4)))), (2, 4)),
        "functions": Functions.of(features, domain, weights=rng.uniform(0.5, 2.0, features.K)),
        "functions of whole rows": Functions.of(features, domain, slice(7, None)),
        "some functions": Functions.of(features, domain, slice(2, 6), np.array([1.0, 0.5, 3.0, 0.1])),
        "functions alike": Functions.of(tm.ChebyshevBasis.graded(domain.d, 9, 1), domain)}
    own = [kind for kind in KINDS.values() if kind.__module__.startswith("trigmech.")]
    found |= {f"{kind.name} {k}": query for kind in own for k, query in enumerate(kind.examples(domain))}
    # A kind without examples above has examples of its own.
    assert {type(query) for query in found.values()} == set(own)
    return found


def kinds(test):
    return pytest.mark.parametrize("query", queries().values(), ids=queries().keys())(test)


@kinds
def test_exact_sums_are_those_of_a_plain_loop(query):
    held = points()
    (sums,) = exact_sums(PrivateRows.of(held, SCHEMA.domain), [query])
    plain = sum(query.evaluate(row[None])[0] for row in held).reshape(query.shape)
    np.testing.assert_allclose(sums, plain, rtol=0, atol=1e-9)
    np.testing.assert_allclose(query.means(held), plain / len(held), rtol=0, atol=1e-12)


def test_exact_sums_of_all_kinds_in_one_pass_are_those_of_each_alone():
    rows, held = PrivateRows.of(points(), SCHEMA.domain), [*queries().values(), *list(queries().values())[::-1]]
    for query, sums in zip(held, exact_sums(rows, held), strict=True):
        np.testing.assert_array_equal(sums, exact_sums(rows, [query])[0])


def test_sums_over_parts_and_persons_are_those_of_the_whole():
    held, asked = points(), QueryStatistic(tuple(queries().values()))
    from trigmech.measurement.sums import Total

    whole, parts = Total(asked.statistic.size), Total(asked.statistic.size)
    asked.statistic.add(Chunk(held, SCHEMA.domain), whole)
    for part in np.array_split(held, 7):
        asked.statistic.add(Chunk(part, SCHEMA.domain), parts)
    np.testing.assert_array_equal(whole.limbs, parts.limbs)
    assert whole.n == parts.n == len(held)
    asked.statistic.check(whole)
    # A person with equal rows counts as one row.
    persons = Total(asked.statistic.size)
    asked.statistic.add(Chunk(np.repeat(held, 3, axis=0), SCHEMA.domain, starts=np.arange(0, 1200, 3)), persons)
    assert persons.n == len(held)
    for one, other in zip(asked.parted(persons), asked.parted(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@kinds
def test_decoding_inverts_encoding_of_frequencies_and_means(query):
    means = query.means(points())
    vector = query.encode(means)
    assert vector.shape == (query.size,)
    np.testing.assert_allclose(query.decode(vector), means, rtol=0, atol=1e-12)
    np.testing.assert_allclose(query.encoded(means * 400, 400), vector, rtol=0, atol=1e-12)


@kinds
def test_the_noise_of_what_is_decoded_is_what_is_said(query):
    """The covariance by the very map, entry by entry: it is linear, so unit vectors tell it."""
    zero = query.decode(np.zeros(query.size))
    matrix = np.column_stack([(query.decode(unit) - zero).ravel() for unit in np.eye(query.size)])
    measured = Measurement(query, 2.0, np.zeros(query.size), 0.6)
    assert measured.deviation == 0.3
    np.testing.assert_allclose(measured.covariance, 0.09 * matrix @ matrix.T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(measured.deviations, 0.3 * np.linalg.norm(matrix, axis=1), rtol=1e-9)
    if isinstance(query, Histogram):
        functions = np.random.default_rng(0).normal(size=(5, query.partition.size))
        np.testing.assert_allclose(query.noise_of(functions), np.linalg.norm(functions @ matrix, axis=1), rtol=1e-9)
        k = len(query.partition.indicators)
        below = np.cumsum(matrix[k:], axis=0)
        wanted = np.linalg.norm(below if len(below) else matrix, axis=1).max()
        np.testing.assert_allclose(query.greatest_noise, wanted, rtol=1e-9)


@kinds
@pytest.mark.parametrize("norm", NORMS)
def test_no_replaced_row_moves_a_vector_further_than_its_diameter(query, norm):
    """All pairs of some rows, of which each position of the query's columns has one at least."""
    held = points(300, seed=5)
    vectors = np.unique(np.array([query.encode(row.reshape(query.shape)) for row in query.evaluate(held)]), axis=0)
    apart = np.abs(vectors[:, None] - vectors[None])
    largest = {"L1": apart.sum(axis=2), "Linf": apart.max(axis=2),
               "L2": np.sqrt((apart**2).sum(axis=2))}[norm].max()
    assert largest <= query.diameter(norm) * (1.0 + 1e-12)
    # And not by far less, or all noise is larger than it must be: the bound for products is one for any scores.
    near = 0.2 if isinstance(query, Products | Functions) else (
            0.6 if query.presence else 0.69) if isinstance(query, Directions) else 1.0 - 1e-6
    assert largest >= query.diameter(norm) * near


def products_of_signs(sizes):
    """Products of all pairs of columns with two positions, whose one score is plus or minus a size."""
    parts = tuple(Partition((2 * j, 2 * j + 1), None, np.empty(0)) for j in range(len(sizes)))
    pairs = np.array(list(itertools.combinations(range(len(sizes)), 2)), dtype=np.int64)
    return Products(parts, tuple(np.array([[size], [-size]]) for size in sizes), pairs)


@pytest.mark.parametrize(("sizes", "reached"), [
    ((200, 200), 1.0), ((300, 400, 500), 1.0), ((100, 100, 300, 300, 400, 400), 1.0), ((400, 100, 100, 100), 0.5),
    ((32768, 16384, 8192, 4096, 2048), 0.8), ((7, 32768, 32768), 1.0)])
def test_products_of_columns_with_unlike_scores_move_as_far_as_said_and_no_further(sizes, reached):
    """All pairs of rows. The bound is reached if some columns have the same sum of squares as all others."""
    query = products_of_signs(sizes)
    rows = np.zeros((2 ** len(sizes), 2 * len(sizes)))
    for row, codes in zip(rows, itertools.product((0, 1), repeat=len(sizes)), strict=True):
        row[2 * np.arange(len(sizes)) + codes] = 1.0
    vectors = query.evaluate(rows)
    apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=2).max()
    said = query.diameter("L2")
    assert said == pytest.approx(sum(size**2 for size in sizes) / 4.0**SCORE_BITS, rel=1e-12)
    assert reached * said * (1.0 - 1e-6) <= apart <= said * (1.0 + 1e-12)
    # Columns in no pair do not count.
    alone = replace(query, pairs=query.pairs[:1])
    assert alone.diameter("L2") == pytest.approx((sizes[0] ** 2 + sizes[1] ** 2) / 4.0**SCORE_BITS, rel=1e-12)


@pytest.mark.parametrize("weight", [-1.0, 0.0, math.nan, math.inf, "1", None, True])
def test_a_weight_that_would_hide_what_a_query_moves_is_refused(weight):
    """The moves of disjoint queries are joined by their maximum, which a negative one would never be."""
    query = next(each for each in queries().values() if each.disjoint is not None)
    with pytest.raises(tm.InputError, match="weight must be positive and finite"):
        Measurement(query, weight)


def test_moves_add_up_as_norms_do_and_disjoint_looks_count_once():
    held = list(queries().values())
    measured = [Measurement(query, 0.5 + i) for i, query in enumerate(held)]
    for norm, order in (("L1", 1), ("L2", 2), ("Linf", np.inf)):
        parts = [(0.5 + i) * query.diameter(norm) for i, query in enumerate(held)]
        np.testing.assert_allclose(moved(measured, norm), np.linalg.norm(parts, order), rtol=1e-12)
        even = scaled(measured, norm, 1_000)
        np.testing.assert_allclose(sensitivity_of(even, norm, 1_000, 1.0), 1e-3, rtol=1e-12)
        ratio = [one.weight / other.weight for one, other in zip(even, measured, strict=True)]
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)
    part = partitions()[0]
    looks = [Measurement(Detail(0, part, i, np.linspace(*part.edges[i : i + 2], 9)), 0.7)
             for i in range(part.intervals)]
    assert math.isclose(moved(looks, "L2"), 0.7 * math.sqrt(2.0))
    # Attacked: rows anywhere.
    held = points(300, seed=8)
    vectors = np.array([np.concatenate([0.7 * look.query.evaluate(row[None])[0] for look in looks]) for row in held])
    assert np.sqrt(((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)).max() <= moved(looks, "L2") * (1 + 1e-12)


@pytest.mark.parametrize("key", ["ab", ("detail", 0), 7])
def test_only_a_place_keeps_queries_from_adding_up(key, monkeypatch):
    """Queries of one key were once told by any key: such a pair would join what moves together."""
    monkeypatch.setattr(Detail, "disjoint", key)
    part = partitions()[0]
    looks = [Measurement(Detail(0, part, i, np.linspace(*part.edges[i : i + 2], 9)), 0.7) for i in range(2)]
    with pytest.raises(tm.InputError, match=f"a query's disjoint must be a Place or None, not {type(key).__name__}"):
        moved(looks, "L1")


@pytest.mark.parametrize("norm", ["L1", "L2", "Linf"])
@pytest.mark.parametrize("seed", range(3))
def test_looks_at_one_interval_add_up_and_those_of_others_do_not(norm, seed):
    """Attacked: one, two or three looks at each of three intervals, with any weights, and rows at all places."""
    rng, (part, other) = np.random.default_rng(seed), (partitions()[0], partitions()[2])
    looks = [Measurement(Detail(0, part, i, np.linspace(*part.edges[i : i + 2], size + 1)), rng.uniform(0.1, 1.0))
             for i in range(min(3, part.intervals)) for size in rng.permutation([2, 5, 8])[: rng.integers(1, 4)]]
    looks.append(Measurement(Detail(2, other, 1, np.linspace(*other.edges[1:3], 4)), 0.3))
    held = points(4_000, seed=8)
    held[:, part.value] = rng.uniform(-1.0, 1.0, len(held))
    held[:, other.value] = rng.uniform(-1.0, 1.0, len(held))
    vectors = np.unique(np.hstack([each.weight * each.query.evaluate(held) for each in looks]), axis=0)
    order = {"L1": 1, "L2": 2, "Linf": np.inf}[norm]
    furthest = max(float(np.linalg.norm(vectors - each, order, axis=1).max()) for each in vectors)
    assert furthest == pytest.approx(moved(looks, norm), rel=1e-12)


@kinds
def test_each_mean_has_a_name_and_the_kind_is_one(query):
    names = query.names(SCHEMA.coordinates)
    assert len(names) == int(np.prod(query.shape))
    assert len(set(names)) == len(names)
    assert isinstance(query.kind, str)
    assert set(query.columns) <= set(range(SCHEMA.d))


def test_functions_of_whole_rows_have_their_places_in_the_whole_set_as_names():
    whole = queries()["functions"]
    names = whole.names(SCHEMA.coordinates)
    for members in (slice(0, 3), slice(5, 9), slice(8, 9), slice(9, 10)):
        some = replace(whole, members=members, weights=whole.weights[members])
        assert some.names(SCHEMA.coordinates) == names[members]
        assert some.kinds.tolist() == whole.kinds[members].tolist()
    assert names[-2:] == ["whole row 1", "whole row 2"]


def release_of(query, weight=0.25, noise=0.01):
    values = np.random.default_rng(1).normal(size=query.size)
    columns = tuple(ReleasedColumn(part, np.full(part.size, 1.0 / part.size), 0.02) for part in partitions())
    return Release(50, SCHEMA.domain, (Measurement(query, weight, values, noise),
                                            Measurement(query, 3.0, values + 0.1, noise)), columns)


@kinds
def test_a_file_gives_back_the_same_query(query):
    release = release_of(query)
    again = measurements_file.release_of(*measurements_file.parts_of(release, SCHEMA.domain), SCHEMA.domain)
    assert [type(each.query) for each in again.measurements] == [type(query)] * 2
    # One query, measured twice.
    assert again.measurements[0].query is again.measurements[1].query
    np.testing.assert_array_equal(again.means, release.means)
    np.testing.assert_array_equal(again.deviations, release.deviations)
    assert again.names(SCHEMA.coordinates) == release.names(SCHEMA.coordinates)
    held = points(60, seed=4)
    np.testing.assert_array_equal(again.measurements[0].query.evaluate(held), query.evaluate(held))
    for norm in NORMS:
        assert again.measurements[0].query.diameter(norm) == query.diameter(norm)


@pytest.mark.daily(32)
@kinds
def test_a_query_is_the_same_at_finer_positions(query):
    finer = [part if part.value is None else part.cut(np.unique(np.concatenate([
        part.edges, 0.5 * (part.edges[1:] + part.edges[:-1])]) if part.levels is None else part.edges))
        for part in partitions()]
    again, held = query.on(finer), points()
    np.testing.assert_array_equal(again.evaluate(held), query.evaluate(held))
    assert (again.shape, again.size) == (query.shape, query.size)


def test_what_was_measured_twice_is_known_as_both_together_tell():
    query = queries()["table of two"]
    known = release_of(query).known
    assert len(known) == 1
    first, second = release_of(query).measurements
    precisions = np.array([first.deviation, second.deviation]) ** -2.0
    np.testing.assert_allclose(known[0].means.ravel(), precisions @ [first.known, second.known] / precisions.sum())
    np.testing.assert_allclose(known[0].deviation, precisions.sum() ** -0.5)


@pytest.mark.parametrize("beside", [(), ("table of three",)])
def test_what_was_measured_three_times_is_known_as_all_together_tell(beside):
    """Also beside a table of three columns, where those of two that were measured again are joined first."""
    query, rng = queries()["table of two"], np.random.default_rng(0)
    held = [Measurement(query, weight, rng.normal(size=query.size), noise)
            for weight, noise in ((0.5, 0.1), (2.0, 0.3), (1.5, 0.05))]
    more = [Measurement(queries()[name], 1.0, rng.normal(size=queries()[name].size), 0.1) for name in beside]
    (known,) = Release(50, SCHEMA.domain, (*held, *more)).tables
    precisions = np.array([each.deviation for each in held]) ** -2.0
    np.testing.assert_allclose(known.known, precisions @ [each.known for each in held] / precisions.sum(), rtol=1e-9)
    np.testing.assert_allclose(known.deviation, precisions.sum() ** -0.5, rtol=1e-12)


def test_least_squares_with_the_covariance_is_unbiased_and_as_sharp_as_said():
    """A user's fit of a line to the frequencies of prefix sums: by the covariance, and, wrongly, without it."""
    query, rng = queries()["ranges of a number"], np.random.default_rng(0)
    truth = 1.0 / 7.0 + np.linspace(-0.06, 0.06, 7)
    design = np.column_stack([np.ones(7), np.linspace(-1, 1, 7)])
    noise = 0.01
    inverse = np.linalg.inv(Measurement(query, 1.0, np.zeros(7), noise).covariance)
    said = np.linalg.inv(design.T @ inverse @ design)
    fits = np.array([said @ design.T @ inverse @ query.decode(query.encode(truth) + rng.normal(0, noise, 7))
                     for _ in range(4_000)])
    apart = fits.mean(axis=0) - [1.0 / 7.0, 0.06]
    assert (np.abs(apart) < 5.0 * np.sqrt(np.diag(said) / 4_000)).all()
    np.testing.assert_allclose(np.cov(fits.T), said, rtol=0.12, atol=0.12 * said[1, 1] ** 0.5 * said[0, 0] ** 0.5)
    # Independent noise of the same deviations would be said to leave another error.
    wrong = np.linalg.inv(design.T @ np.diag(np.diag(np.linalg.inv(inverse)) ** -1.0) @ design)
    assert not np.allclose(np.diag(wrong), np.diag(said), rtol=0.3)


def test_a_query_that_nobody_registered_is_not_written():
    class Strange(Histogram):
        name = "strange"

    with pytest.raises(tm.InputError, match="'strange' are not registered"):
        measurements_file.parts_of(release_of(Strange(0, partitions()[0])), SCHEMA.domain)
    assert issubclass(Strange, Query)


def test_codes_of_a_table_are_counted_with_weights():
    query, held = queries()["table of three"], points()
    weights = np.random.default_rng(2).random(len(held))
    found = query.counted(all_codes(query.partitions, held), weights)
    np.testing.assert_allclose(found.ravel(), weights @ query.evaluate(held))


def test_what_was_not_drawn_yet_is_not_known_at_all():
    (partition,) = columns_of(tm.Schema.cube(1).domain)
    asked = Measurement(Histogram(0, partition), 0.5)
    assert (asked.values, asked.noise, asked.deviation) == (None, math.inf, math.inf)
    drawn = asked.drawn(np.full(asked.query.size, 3.0), 2.0, "gaussian")
    assert (drawn.deviation, drawn.values[0], drawn.weight) == (4.0, 6.0, 0.5)


def test_two_tables_of_a_column_s_other_cells_keep_each_their_own_on_finer_positions():
    partition = columns_of(tm.Schema.cube(1).domain)[0].cut(np.linspace(-1.0, 1.0, 5))
    finer = [partition.cut(np.linspace(-1.0, 1.0, 9))] * 2
    coarse, fine = np.array([0, 0, 1, 1]), np.array([0, 1, 2, 3])
    known = {}
    for first, second in ((coarse, fine), (fine, coarse), (coarse, fine)):
        table = Marginal((0, 1), (partition, partition), (first, second)).on(finer, known)
        assert [cells.tolist() for cells in table.maps] == [np.repeat(own, 2).tolist() for own in (first, second)]
