"""Directions of rows: their bits, their length, and how far their products move at most, attacked by search."""

from fractions import Fraction

import numpy as np
import pytest

from trigmech.errors import InputError
from trigmech.functions.partition import Partition, even_edges
from trigmech.measurement.exact import _Evaluated, exact_sums
from trigmech.measurement.moments import FunctionSums
from trigmech.measurement.rows import PrivateRows
from trigmech.queries.book import Book, Numbers
from trigmech.queries.directions import LARGEST_SCORE, Directions


def query_of(d, scores):
    partitions = tuple(Partition((), j, even_edges(None, len(scores))) for j in range(d))
    return Directions(partitions, tuple(np.array(scores, dtype=np.int64) for _ in range(d)))


def with_presence(d, scores, presence):
    """Of d numbers with a special value; some have a second score, which tells it from the numbers."""
    partitions = tuple(Partition((d + j,), j, even_edges(None, len(scores))) for j in range(d))
    own = [np.array([0, *scores], dtype=np.int64)] * d + [np.array([-900] + [600] * len(scores))] * len(presence)
    return Directions(partitions, tuple(own), tuple(presence))


def products(query, codes):
    entries = query.entries(np.atleast_2d(codes))
    return entries[:, query.pairs[:, 0]] * entries[:, query.pairs[:, 1]]


def test_entries_are_exact_and_no_row_is_longer_than_one():
    rng = np.random.default_rng(0)
    for d in (2, 3, 17, 60):
        scores = rng.integers(-LARGEST_SCORE, LARGEST_SCORE + 1, 50)
        query = query_of(d, scores)
        codes = rng.integers(0, 50, (200, d))
        for row, entries in zip(scores[codes], query.entries(codes), strict=True):
            units = [Fraction(float(entry)) * 2**15 for entry in entries]
            assert all(unit.denominator == 1 for unit in units)
            assert sum(unit**2 for unit in units) <= 2**30
            square = sum(int(z) ** 2 for z in row)
            for z, unit in zip(row.tolist(), units, strict=True):
                # Towards 0, by less than a unit and what the slack takes.
                exact = abs(z) * 2.0**15 / square**0.5
                assert 0 <= exact - abs(int(unit)) < 1.0 + 1e-9 or abs(exact - abs(int(unit))) < 1e-9
                assert unit == 0 or (unit > 0) == (z > 0)
    assert (query_of(3, [0, 0]).entries(np.zeros((4, 3), dtype=int)) == 0.0).all()


def test_values_are_products_and_means_are_their_means():
    rng = np.random.default_rng(1)
    query = query_of(5, rng.integers(-2000, 2000, 9))
    points, weights = rng.uniform(-1.0, 1.0, (30, 5)), rng.random(30)
    weights /= weights.sum()
    values = query.evaluate(points)
    assert values.shape == (30, query.size) == (30, 10)
    np.testing.assert_allclose(query.means(points), values.mean(axis=0))
    np.testing.assert_allclose(query.means(points, weights), weights @ values)
    assert np.abs(values).max() <= 0.5


def test_entries_of_presence_are_after_the_columns_and_products_are_of_different_columns():
    query = with_presence(3, [-1024, 1024], (0, 2))
    assert query.owners.tolist() == [0, 1, 2, 0, 2]
    assert query.pairs.tolist() == [[0, 1], [0, 2], [0, 4], [1, 2], [1, 3], [1, 4], [2, 3], [3, 4]]
    assert query.size == len(query.pairs) == len(query.names([f"x{j}" for j in range(6)]))
    assert query.names([f"x{j}" for j in range(6)])[-1].count("presence") == 2
    assert (query.correlation_noise, query.diameter("L1"), query.diameter("L2")) == (5.0, 4.0, 1.0)
    assert query.columns == (0, 1, 2)
    rows = np.array([[0, 1, 2], [2, 0, 0]])
    scores = np.array([[0, -1024, 1024, -900, 600], [1024, 0, 0, 600, -900]])
    np.testing.assert_allclose(query.entries(rows), scores / np.linalg.norm(scores, axis=1, keepdims=True), atol=2**-15)
    finer = [Partition(cut.indicators, cut.value, even_edges(None, 4)) for cut in query.partitions]
    again = query.on(finer)
    assert again.presence == (0, 2)
    assert [score.tolist() for score in again.scores] == [[0, -1024, -1024, 1024, 1024]] * 3 + [[-900] + [600] * 4] * 2


@pytest.mark.daily(4)
@pytest.mark.parametrize(("d", "second"), [(2, 0), (3, 0), (6, 0), (12, 0), (2, 1), (2, 2), (3, 2), (6, 6)])
@pytest.mark.parametrize(("norm", "order"), [("L2", 2), ("L1", 1), ("Linf", np.inf)])
def test_no_pair_of_rows_moves_the_products_further_than_is_charged(d, second, norm, order):
    """The search climbs from random pairs of rows, one entry at a time; it comes near to the bound in L2."""
    rng = np.random.default_rng([d, len(norm), *[second] * bool(second)])
    scores = np.unique(np.concatenate([[0], np.rint(np.linspace(-3.0, 3.0, 24) * 1024)])).astype(np.int64)
    query, largest = with_presence(d, scores, range(second)) if second else query_of(d, scores), 0.0
    scores = query.scores[0]
    bound = query.diameter(norm)

    def distances(pairs):
        made = products(query, pairs.reshape(-1, d)).reshape(len(pairs), 2, -1)
        return np.linalg.norm(made[:, 0] - made[:, 1], order, axis=1)

    for _ in range(30):
        pair = rng.integers(0, len(scores), (2, d))
        best = distances(pair[None])[0]
        for _ in range(3):
            for one in range(2):
                for j in rng.permutation(d):
                    tried = np.repeat(pair[None], len(scores), axis=0)
                    tried[:, one, j] = np.arange(len(scores))
                    found = distances(tried)
                    if found.max() > best:
                        best, pair = found.max(), tried[int(found.argmax())]
        largest = max(largest, best)
    assert largest <= bound
    # Entries of presence have two values each.
    assert largest >= bound * {"L2": 0.69, "L1": 0.5, "Linf": 0.99}[norm] * (0.7 if second else 1.0)


def test_files_have_the_query_and_hostile_numbers_are_refused():
    query = query_of(4, [-1024, 0, 1024])
    book = Book([(j, partition) for j, partition in enumerate(query.partitions)])
    integers, floats = query.written(book)
    read = Directions.read(Numbers(np.array(integers)), Numbers(floats), book)
    assert [score.tolist() for score in read.scores] == [[-1024, 0, 1024]] * 4
    for place, value in ((0, 3), (0, 5), (1, 1), (2, LARGEST_SCORE + 1), (3, -(2**63))):
        wrong = np.array(integers)
        wrong[place] = value
        with pytest.raises(InputError):
            Directions.read(Numbers(wrong), Numbers(floats), book)


def test_files_have_the_entries_of_presence_and_hostile_ones_are_refused():
    query = with_presence(4, [-1024, 1024], (1, 3))
    query = Directions((*query.partitions[:2], Partition((), 2, even_edges(None, 3)), query.partitions[3]),
                       query.scores, query.presence)
    book = Book([(j, partition) for j, partition in enumerate(query.partitions)])
    integers, floats = query.written(book)
    # The form of older files, followed by the second scores.
    plain = Directions(query.partitions, query.scores[:4])
    assert integers == [*plain.written(book)[0], 1, -900, 600, 600, 3, -900, 600, 600]
    for each in (plain, query):
        numbers = Numbers(np.array(each.written(book)[0]))
        read = Directions.read(numbers, Numbers(floats), book)
        numbers.end()
        assert read.presence == each.presence
        assert [score.tolist() for score in read.scores] == [score.tolist() for score in each.scores]
    # Too late, twice, in another order, of no column, without special values, too large, and too few numbers.
    for place, value in ((-8, 3), (-4, 1), (-4, 0), (-8, -1), (-8, 2), (-4, 4), (-4, 2**40), (-1, LARGEST_SCORE + 1)):
        wrong = np.array(integers)
        wrong[place] = value
        with pytest.raises(InputError):
            Directions.read(Numbers(wrong), Numbers(floats), book)
    with pytest.raises(InputError):
        Directions.read(Numbers(np.array(integers[:-1])), Numbers(floats), book)
    categories = Directions((Partition((0, 1), None, np.empty(0)), query.partitions[3]),
                            (np.array([0, 1]), query.scores[3]))
    book = Book([(j, partition) for j, partition in enumerate(categories.partitions)])
    with pytest.raises(InputError):
        Directions.read(Numbers(np.array([*categories.written(book)[0], 0, 1, -1])), Numbers(floats), book)


def test_sums_of_many_pairs_take_little_memory_and_are_the_same_in_any_pieces(monkeypatch):
    rng = np.random.default_rng(2)
    query = query_of(40, rng.integers(-2000, 2000, 9))
    points = rng.uniform(-1.0, 1.0, (3000, 40))
    looked = []
    evaluate = Directions.evaluate
    monkeypatch.setattr(Directions, "evaluate", lambda self, part: looked.append(len(part)) or evaluate(self, part))
    rows, values = PrivateRows.of(points), FunctionSums(_Evaluated(query))
    whole = values.parted(rows.sums(values)).basis_sum
    monkeypatch.setattr("trigmech.measurement.exact.MOST_VALUES", 100 * query.size)
    looked.clear()
    np.testing.assert_array_equal(values.parted(rows.sums(values)).basis_sum, whole)
    assert max(looked) == 100
    # By matrices no values are held.
    looked.clear()
    np.testing.assert_array_equal(exact_sums(rows, [query])[0], whole)
    assert looked == []
    np.testing.assert_allclose(whole, evaluate(query, points).sum(axis=0), atol=1e-9)
