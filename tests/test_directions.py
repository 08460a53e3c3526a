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


@pytest.mark.daily(4)
@pytest.mark.parametrize("d", [2, 3, 6, 12])
@pytest.mark.parametrize(("norm", "order"), [("L2", 2), ("L1", 1), ("Linf", np.inf)])
def test_no_pair_of_rows_moves_the_products_further_than_is_charged(d, norm, order):
    """The search climbs from random pairs of rows, one entry at a time; it comes near to the bound in L2."""
    rng = np.random.default_rng([d, len(norm)])
    scores = np.unique(np.concatenate([[0], np.rint(np.linspace(-3.0, 3.0, 24) * 1024)])).astype(np.int64)
    query, largest = query_of(d, scores), 0.0
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
    assert largest >= bound * {"L2": 0.69, "L1": 0.5, "Linf": 0.99}[norm]


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
