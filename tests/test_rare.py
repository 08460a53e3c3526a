"""Rare values that a fit has lost: rows that are added, and intervals that hold what noise hides."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.evaluation.plausible import PlausibleTables
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference.lost import FEW_AT_END, _hidden, _nearest, _placed, _possible_ends, with_rare
from trigmech.inference.projection import projections
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import HistogramWithEnds
from trigmech.reconstruction import ends
from trigmech.reconstruction.columns import drawn_column
from trigmech.reconstruction.ends import _with_ends, with_ends

SCHEMA = tm.Schema([tm.Column("ill", 0, 1, "binary"), tm.Column("age", 0, 100), tm.Column("sex", kind="categorical",
                    categories=("f", "m")), tm.Column("town", kind="categorical", categories=tuple("abcd"))])


def table_of(n, seed):
    rng = np.random.default_rng(seed)
    ill, age = rng.random(n) < 0.012, rng.normal(50, 12, n).clip(0, 100)
    return pd.DataFrame({"ill": ill.astype(float), "age": age, "sex": np.where(rng.random(n) < 0.5, "f", "m"),
                         "town": rng.choice(list("abcd"), n, p=[0.6, 0.3, 0.095, 0.005])})


@pytest.mark.daily("0")
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
    np.testing.assert_allclose(_hidden(categories, points, ()), [0.0, 0.0, 0.005])
    noisy = ReleasedColumn(categories.partition, categories.mass, 0.3)
    # At most a tenth of the rows, however much noise there is.
    np.testing.assert_allclose(_hidden(noisy, points, ()), [0.0, 0.05, 0.05])
    rng = np.random.default_rng(0)
    made = _placed(categories.partition, np.array([2, 2, 1]), points[rng.integers(len(points), size=3)], rng)
    np.testing.assert_array_equal(made[:, 1:], [[0, 0, 1], [0, 0, 1], [0, 1, 0]])
    ages = ReleasedColumn(Partition((), 0, np.linspace(-1.0, 1.0, 6)), np.full(5, 0.2), 0.3)
    assert not _hidden(ages, points, ()).any()


def wide_table(n, seed):
    """Return five numbers, some of them often missing, and six columns of categories with rare ones; all related."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    table = {}
    for k in range(5):
        values = 50.0 + 10.0 * (0.6 * common + 0.8 * rng.normal(size=n))
        table[f"x{k}"] = np.where(rng.random(n) < (0.02, 0.06, 0.1, 0.0, 0.0)[k], np.nan, values.clip(0, 100))
    for k in range(6):
        score = 0.5 * common + rng.normal(size=n)
        cuts = np.quantile(score, ([0.55, 0.97], [0.5, 0.8, 0.97], [0.4, 0.7, 0.9, 0.98])[k % 3])
        table[f"c{k}"] = np.array(list("pqrst"))[np.searchsorted(cuts, score)]
    return pd.DataFrame(table)


WIDE = tm.Schema([*(tm.Column(f"x{k}", 0, 100, missing="keep") for k in range(5)),
                  *(tm.Column(f"c{k}", kind="categorical", categories=tuple("pqrst"[: 3 + k % 3])) for k in range(6))])


def counted(values, level):
    """Return which values (m,) are a level, or are missing if it is None."""
    values = np.ma.masked_array(values)
    return np.ma.getmaskarray(values) if level is None else np.ma.filled(values == level, False)


def test_imputed_tables_of_many_columns_have_each_value_as_often_as_the_release_says():
    # Strong drawn relations of a rare value, which few rows cannot have, must not bring more rows of it.
    made = tm.synthesize(wide_table(2_000, 0), WIDE, tm.Budget(1.0, 1e-6), rng=np.random.default_rng(0))
    held, told = made.imputations(20, rng=np.random.default_rng(0)), made.weighted()
    tables, off, rare = [held.columns(i) for i in range(len(held))], [], []
    for column in WIDE.columns:
        for level in column.categories or [None]:
            share = float(told.weights @ counted(told.columns[column.name], level))
            each = np.array([counted(table[column.name], level).mean() for table in tables])
            # A draw below 0 is 0 rows, so a mean near 0 is larger than the release says.
            if share > 2.0 * each.std():
                off.append((each.mean() - share) / each.std())
                rare.append(share < 0.15)
    off, rare = np.array(off), np.array(rare)
    assert len(off) > 20
    assert rare.sum() > 6
    assert abs(off[rare].mean()) < 0.25, off.round(2)
    assert np.abs(off).mean() < 0.4, off.round(2)


def test_rare_ones_of_many_categories_vary_over_imputed_tables_as_much_as_the_release_leaves_open():
    names = tuple("abcdefghijkl")
    shares = np.array([0.3, 0.2, 0.15, 0.1, 0.08, 0.06, 0.05, 0.04, 0.0191, 0.0003, 0.0003, 0.0003])
    schema = tm.Schema([tm.Column("kind", kind="categorical", categories=names), tm.Column("x", 0, 1)])
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": rng.choice(names, 60_000, p=shares), "x": rng.random(60_000)})
    made = tm.synthesize(table, schema, tm.Budget(1.0, 1e-6), rng=rng)
    held, told = made.imputations(20, population=False), made.weighted()
    ratios = []
    for name in names[9:]:
        each = np.array([(held.columns(i)["kind"] == name).mean() for i in range(len(held))])
        own = (told.columns["kind"] == name).astype(float)
        ratios.append(each.std() / np.sqrt(sum(told.variances((own - told.weights @ own)[:, None]))[0]))
    assert np.mean(ratios) > 0.6, ratios


INCOMES = tm.Schema([tm.Column("gain", 0, 99_999, "integer"), tm.Column("age", 17, 90, "integer"),
                     tm.Column("sex", kind="categorical", categories=("f", "m"))])


def with_a_cut(n, seed):
    """Most gains are 0, some are a few thousand, and 1 % of the rows had more than the bound at which they were cut."""
    rng = np.random.default_rng(seed)
    age, man = rng.integers(17, 91, n), rng.random(n) < 0.5
    gain = np.where(rng.random(n) < 0.02 + 0.12 * man + 0.001 * (age - 17), np.round(rng.gamma(2.0, 3_500.0, n)), 0.0)
    gain = np.where(rng.random(n) < 0.006 * (1 + man), 99_999.0, np.minimum(gain, 99_999.0))
    return pd.DataFrame({"gain": gain.astype(int), "age": age, "sex": np.where(man, "m", "f")})


def test_intervals_hold_the_mean_of_a_column_whose_rows_at_a_bound_noise_hides():
    """The fit has no row at the bound, which has half of the mean, but the count there is above its noise."""
    held = np.zeros(2)
    for seed in (1, 2, 4, 6):
        table = with_a_cut(3_000, seed)
        made = tm.synthesize(table, INCOMES, tm.Budget(0.8, 1e-6), rng=np.random.default_rng(seed))
        assert made.release.look_at(0).deviation > 0.5 * (table["gain"] == 99_999).mean()
        found = made.imputations(10, population=False).estimate(lambda rows: np.mean(rows["gain"]))
        rows = made.weighted()
        mean = rows.weights @ rows.columns["gain"]
        closed = rows.interval([mean], (rows.columns["gain"] - mean)[:, None])
        held += [low <= table["gain"].mean() <= high
                 for low, high in ((found.low, found.high), (closed.low[0], closed.high[0]))]
        # They tell something all the same.
        assert found.high - found.low < 4_500.0
    assert held.min() == 4


def test_ends_become_positions_of_their_own_and_nothing_else_changes():
    partition = Partition((2,), 0, np.array([-1.0, -0.5, 0.0, 1.0]))
    column = ReleasedColumn(partition, np.array([0.1, 0.2, 0.3, 0.4]), 0.01)
    made = _with_ends(column)
    assert made.partition.intervals == 5
    assert made.mass.sum() == pytest.approx(1.0)
    # Without levels an end has hardly any length, and so hardly any rows.
    assert made.mass[[1, -1]].max() < 1e-5
    assert made.mass[[0, 2, 3, 4]] == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=1e-5)
    levels = np.linspace(-1.0, 1.0, 11)
    made = _with_ends(ReleasedColumn(Partition((), 0, np.array([-1.0, 0.1, 1.0]), levels), np.array([0.6, 0.4]), 0.01))
    # Six and five levels, of which one each is an end.
    assert made.mass == pytest.approx([0.1, 0.5, 0.32, 0.08])
    apart = ReleasedColumn(Partition((), 0, np.array([-1.0, -0.9, 0.9, 1.0]), levels), np.array([0.2, 0.5, 0.3]), 0.01)
    assert _with_ends(apart) is apart


def test_only_columns_whose_ends_were_measured_alone_get_them():
    made = tm.synthesize(with_a_cut(3_000, 0), INCOMES, tm.Budget(0.8, 1e-6), rng=np.random.default_rng(0)).release
    looked = [look.query.ends > 0 for look in made.looks]
    assert True in looked
    found = with_ends(made)
    for own, given, measured in zip(found.columns, made.columns, looked, strict=True):
        assert (own is given) or measured
    # Tables are on the new positions.
    for each in found.tables:
        assert [len(cells) for cells in each.query.maps] == [len(found.columns[j].mass) for j in each.query.columns]
    assert with_ends(found) is found


def test_rows_at_an_end_are_added_only_where_the_fit_has_few_of_them():
    partition = Partition((), 0, np.array([-1.0, -0.999, 0.0, 0.999, 1.0]))
    column = ReleasedColumn(partition, np.array([0.1, 0.5, 0.4, 0.0]), 0.02)
    points = np.full((2_000, 1), -0.5)
    points[:200] = -1.0
    assert _hidden(column, points, {0: 0, 3: -1}).tolist() == [0.0, 0.0, 0.0, FEW_AT_END / 2_000]
    assert not _hidden(column, points, {}).any()
    assert _hidden(ReleasedColumn(partition, column.mass, 0.001), points, {3: -1})[3] == 0.0005
    assert _hidden(column, np.tile(points, (20, 1)), {3: -1})[3] == 0.0005
    numbers = np.linspace(-1.0, 1.0, 10_000)[::-1]
    assert sorted(_nearest(numbers, 0).tolist()) == list(range(9_900, 10_000))
    assert sorted(_nearest(numbers, -1).tolist()) == list(range(100))
    assert len(_nearest(numbers[:10], 0)) == 10


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_counts_of_likely_ends_are_among_the_sums_that_weights_are_fitted_to(delta, monkeypatch):
    """No power of a number tells how many rows hold its bound."""
    monkeypatch.setattr(ends, "POSSIBLE", 0.0)
    made = tm.synthesize(with_a_cut(3_000, 0), INCOMES, tm.Budget(0.8, delta), rng=np.random.default_rng(0)).release
    taken = [each for each in projections(made) if getattr(each.query, "ends", 0)]
    assert taken
    monkeypatch.setattr(ends, "POSSIBLE", 1.1)
    fewer = [each for each in projections(made) if getattr(each.query, "ends", 0)]
    assert sum(len(each.values) for each in fewer) < sum(len(each.values) for each in taken)
    for each in taken:
        k, size = len(each.query.partition.indicators), each.query.partition.size
        sums = each.sums.toarray()
        for end in (k, size - 1):
            wanted = np.eye(size)[end]
            left = wanted - np.linalg.lstsq(sums.T, wanted, rcond=None)[0] @ sums
            assert np.abs(left).max() < 1e-6
        inner = np.eye(size)[k + 3]
        assert np.abs(inner - np.linalg.lstsq(sums.T, inner, rcond=None)[0] @ sums).max() > 1e-3


def test_error_bars_count_rows_at_a_bound_that_noise_hides():
    """They held in one of these three releases. A part of the plausible tables has rows at the bound itself."""
    held, far = 0, []
    for seed in range(3):
        table = with_a_cut(3_000, seed)
        made = tm.synthesize(table, INCOMES, tm.Budget(0.8, 1e-6), rng=np.random.default_rng(seed))
        found = made.error_bars(lambda rows: np.mean(rows["gain"]))
        held += abs(found.values - table["gain"].mean()) <= found.error.bound
        plausible = PlausibleTables(made.release, np.random.default_rng(seed))
        drawn = plausible.draw(3_000, np.random.default_rng(seed), np.full((3, 2), 0.9))
        far.append(float(np.mean(drawn[:, 0] >= 1.0 - 1e-4)))
    assert held == 3
    assert max(far) > 0.002


@pytest.mark.parametrize(("shares", "sides"), [((0.03, -0.02), [0]), ((-0.02, 0.03), [-1]), ((0.03, 0.03), [0, -1]),
                                               ((-0.03, -0.03), [])])
@pytest.mark.parametrize("indicators", [(), (3, 4)])
def test_each_end_is_judged_by_its_own_count(shares, sides, indicators):
    partition = Partition(indicators, 0, np.array([-1.0, -0.999, 0.0, 0.999, 1.0]))
    values = np.concatenate([np.full(len(indicators), 0.1), [shares[0], 0.5, 0.3, shares[1]]])
    look = Measurement(HistogramWithEnds(0, partition), 1.0, values, 0.01)
    assert ends.likely_ends(look) == sides
    column = ReleasedColumn(partition, np.full(partition.size, 1.0 / partition.size), 0.01)
    release = SimpleNamespace(look_at=lambda j: look, columns=[column])
    first, last = len(indicators), partition.size - 1
    assert _possible_ends(release, 0) == {{0: first, -1: last}[side]: side for side in sides}


def test_rows_that_are_added_at_an_end_are_copies_of_those_next_to_it(monkeypatch):
    monkeypatch.setattr(ends, "POSSIBLE", 0.0)
    made = tm.synthesize(with_a_cut(3_000, 1), INCOMES, tm.Budget(0.8, 1e-6), rng=np.random.default_rng(1))
    release, points = with_ends(made.release), made.distribution.points
    added = with_rare(INCOMES, release, points, np.random.default_rng(2))[1][len(points) :]
    at_end = added[added[:, 0] >= 1.0 - 1e-6]
    assert len(at_end) >= FEW_AT_END
    near = {tuple(row) for row in points[_nearest(points[:, 0], -1)][:, 1:].tolist()}
    # Their own columns may have been changed for an end of another one.
    copies = [tuple(row) in near for row in at_end[:, 1:].tolist()]
    assert np.mean(copies) == 1.0


def test_a_hidden_atom_takes_no_rows_of_the_level_beside_it_a_second_time():
    """If an end is no atom, it has about as many rows as other levels; if it is one, these rows are the atom."""
    levels = np.linspace(-1.0, 1.0, 6)
    edges = np.concatenate([[-1.0], 0.5 * (levels[1:] + levels[:-1]), [1.0]])
    query = HistogramWithEnds(0, Partition((), 0, edges, levels))
    look = Measurement(query, 1.0, np.array([0.14, 0.18, 0.18, 0.18, 0.17, 0.15]), 0.1)
    rng = np.random.default_rng(3)
    made = [drawn_column(look, None, rng, np.array([0.0, 0.9])) for _ in range(300)]
    kept = [column for column in made if column.partition.edges[-2] == edges[-2]]
    assert len(kept) == 300
    beside, own = np.mean([[column.mass[-2], column.mass[-1]] for column in kept], axis=0)
    assert 0.01 < own < 0.06
    assert beside == pytest.approx(0.2, abs=0.03)
