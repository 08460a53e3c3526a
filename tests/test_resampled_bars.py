"""Error bars of any statistic, by resampling: against the errors that they are about, on simulated tables."""

import dataclasses
import datetime
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from releases import first_and_again
from scipy import stats

import trigmech as tm
from trigmech.distribution import Distribution
from trigmech.errors import InputError
from trigmech.evaluation import plausible, resampling, statistics
from trigmech.evaluation.plausible import PlausibleTables
from trigmech.functions.partition import Partition, all_codes, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.mechanisms.base import PublicFacts
from trigmech.mechanisms.rehearsal import rehearsed, rehearsed_release
from trigmech.planning.dependence import design_dependence
from trigmech.planning.shares import Shares
from trigmech.queries.base import Measurement, moved
from trigmech.queries.directions import Directions
from trigmech.queries.joint import Marginal, Products
from trigmech.queries.one_way import Detail, Histogram, PrefixSums
from trigmech.reconstruction.tables import Targets, independent
from trigmech.workload import GaussianKernels, Mixture, PairKernels, SecondMoments

# Fewer would tell little: the ratio of bounds and errors would differ by a sixth from run to run.
RUNS = 12
SCHEMA = tm.Schema([tm.Column("age", 0, 90, "integer"), tm.Column("income", 0.0, 60.0),
                    tm.Column("region", kind="categorical", categories=("north", "east", "south", "west")),
                    tm.Column("hours", 0, 60, "integer", missing="keep", special=(0,))])


def table(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 4))
    z[:, 1:] = 0.7 * z[:, :1] + 0.7 * z[:, 1:]
    hours = pd.Series(np.clip(np.round(30.0 + 12.0 * z[:, 3]), 1, 60))
    hours[rng.random(n) < 0.3] = 0.0
    hours[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame({"age": np.clip(np.round(40.0 + 13.0 * z[:, 0]), 0, 90), "income": np.clip(np.exp(
        2.5 + 0.5 * z[:, 1]), 0.0, 60.0), "region": np.array(SCHEMA.columns[2].categories)[np.digitize(
            z[:, 2], (-1.0, 0.0, 1.0))], "hours": hours})


@cache
def released(seed=0, n=700, delta=1e-6, epsilon=2.0, schema=SCHEMA):
    frame = table(n, seed)[list(schema.names)]
    return frame, tm.synthesize(frame, schema, tm.Budget(epsilon, delta), tm.TableMechanism(),
                                np.random.default_rng([seed, 7]))


def every(schema=SCHEMA):
    return {"frequencies": statistics.frequencies(schema, "hours", 8),
            "pair": statistics.marginal(schema, ("age", "region"), 6),
            "triple": statistics.marginal(schema, ("age", "income", "region"), 3),
            "range": statistics.ranges(schema, "income", np.linspace(4.0, 40.0, 12)),
            "means": statistics.means(schema), "correlations": statistics.correlations(schema, "spearman")}


def errors_and_bounds(frame, made, statistic):
    found = made.error_bars(statistic)
    truth = statistic(made.schema.decode(made.schema.to_cube(frame)))
    counted = found.error.bound > 0.0
    return np.abs(found.values - truth)[counted], found.error.bound[counted]


@cache
def simulated(runs):
    """True errors and bounds of each kind of statistic, over releases with and without a delta."""
    found = {name: [] for name in every()}
    for seed in range(runs):
        frame, made = released(seed, delta=(1e-6, 0.0)[seed % 2])
        for name, statistic in every().items():
            found[name].append(errors_and_bounds(frame, made, statistic))
    return {name: [np.concatenate(each) for each in zip(*pairs, strict=True)] for name, pairs in found.items()}


# By day as many as tell bounds that are much too narrow from right ones; frequencies' are the widest, and need more.
@pytest.mark.daily("pair-4")
@pytest.mark.parametrize("runs", [4, RUNS])
@pytest.mark.parametrize("name", every())
def test_bounds_hold_about_as_often_as_they_state_and_are_not_much_wider_than_that_needs(name, runs):
    errors, bounds = simulated(runs)[name]
    # Few releases: correlations of one err together.
    assert (errors <= bounds).mean() >= 0.8
    # For normal errors 1, times the factor of the bounds.
    assert 0.6 < bounds.mean() / errors.mean() / 2.46 < 2.5


def injected(made, tables):
    """Resamples of a release whose plausible tables, and the fits of their own releases, are these."""
    found = resampling.Resamples(made.release, np.zeros((1, 2)), made.planned)
    found._made = tables
    return found


# By `python -m experiments run coverage_tables`: who changes the factors runs it again, for the committed results are
# of these.
@pytest.mark.parametrize(("parts", "factor"), [(False, 1.25), (True, 1.3)])
@pytest.mark.parametrize("larger", ["errors", "off"])
def test_bars_are_the_larger_root_mean_square_times_the_factor(parts, factor, larger):
    _, made = released()
    rng, level, shape = np.random.default_rng(1), 0.9, (3, 2)
    off, errors = {"errors": (0.1, 3.0), "off": (2.0, 0.3)}[larger]
    truths = off * rng.normal(size=(6, *shape))
    fits = truths[:, None] + errors * rng.normal(size=(6, 3, *shape))
    values = np.full(shape, 0.25)
    found = injected(made, [(truth, list(own)) for truth, own in zip(truths + values, fits + values, strict=True)])
    found._points = values
    same, bars = found.bars(lambda points: points, level, parts)
    # In plain words: each table from the fit, and each fit of a table's own release from that table.
    for place in np.ndindex(shape):
        from_fit = sum(truths[t][place] ** 2 for t in range(6)) / 6
        from_table = sum((fits[t, r][place] - truths[t][place]) ** 2 for t in range(6) for r in range(3)) / 18
        assert (from_table > from_fit) == (larger == "errors")
        deviation = factor * max(from_fit, from_table) ** 0.5
        assert bars.deviation[place] == pytest.approx(deviation, rel=1e-12)
        assert bars.bound[place] == pytest.approx(deviation * stats.norm.ppf(0.95), rel=1e-12)
    assert np.array_equal(same, values)
    # All values together, or the three of each part, have the probability of an error outside between them.
    largest = bars.deviation.max(axis=0) if parts else bars.deviation.max(keepdims=True)[0, :1]
    assert bars.worst == pytest.approx(largest * stats.norm.ppf(1.0 - 0.05 / (3 if parts else 6)), rel=1e-12)


def test_each_plausible_table_is_released_and_fitted_once(monkeypatch):
    _, made = released()
    asked, places = [], []

    class Drawn:
        def __init__(self, release, rng):
            assert release is made.release

        def draw(self, count, rng, at):
            places.append(at)
            return np.full((count, 1), rng.random())

    def fitted(design, table, rng):
        asked.append(design is made.planned)
        return table + rng.random()

    monkeypatch.setattr(resampling, "PlausibleTables", Drawn)
    monkeypatch.setattr(resampling, "rehearsed", fitted)
    points = np.zeros((700, 5))
    tables = resampling.Resamples(made.release, points, made.planned)._tables(None)
    assert len(tables) == 6
    assert [len(fits) for _, fits in tables] == [1] * 6
    assert asked == [True] * 6
    # Hidden atoms are drawn as evenly as possible: one table in each sixth of their distribution.
    assert np.array(places).shape == (6, len(made.release.columns), 2)
    assert (np.sort((np.array(places) * 6).astype(int), axis=0) == np.arange(6)[:, None, None]).all()
    # As many rows as the fit has, where it has few; each of noise of its own.
    assert {each.shape for table, fits in tables for each in (table, *fits)} == {(700, 1)}
    assert len({float(fit[0, 0] - table[0, 0]) for table, fits in tables for fit in fits}) == 6
    assert len({float(table[0, 0]) for table, _ in tables}) == 6


@pytest.mark.parametrize(("noise", "points", "rows"), [
    (1e-2, 10_000, 3_000), (1e-4, 10**6, 20_000), (1e-4, 15_000, 15_000), (1e-9, 10**7, 2**20 // 4), (1e-2, 50, 50)])
def test_rows_of_plausible_tables_are_so_many_that_rounding_to_rows_is_below_the_noise(noise, points, rows):
    _, made = released()
    assert len(made.release.columns) == 4
    # Of the tables' noise and that of products the smaller counts.
    least = max(each.weight for each in first_and_again(made.release)[0] if not isinstance(each.query, Directions))
    # Without the last round, and with other noise in the one before.
    joint, last = first_and_again(made.release)
    one = dataclasses.replace(made.release, domain=tm.Schema.cube(4).domain, measurements=tuple(
        dataclasses.replace(each, noise=noise * least) if each in joint else each
        for each in made.release.measurements if each not in last))
    products = [] if one.products is None else [one.products]
    assert min(each.deviation for each in (*one.tables, *products)) == pytest.approx(noise)
    found = resampling.Resamples(one, np.broadcast_to(0.0, (points, 4)), made.planned)._rows
    assert abs(found - rows) <= 1


@pytest.mark.nightly
def test_the_worst_bound_is_for_all_values_together():
    _, made = released()
    found = made.error_bars(every()["pair"])
    assert found.error.worst.shape == (1,)
    assert found.error.worst[0] > found.error.bound.max()
    assert np.allclose(found.error.bound, found.error.deviation * stats.norm.ppf(0.975))


def test_a_fit_that_missed_has_wider_bounds_that_hold():
    frame, made = released()
    rng = np.random.default_rng(5)
    elsewhere = made.distribution.points[:200].copy()
    elsewhere[:, 0] = rng.uniform(0.5, 1.0, 200)
    away = dataclasses.replace(made, fit=dataclasses.replace(made.fit, distribution=Distribution(
        elsewhere, np.full(200, 1.0 / 200))))
    errors, bounds = errors_and_bounds(frame, away, statistics.ranges(SCHEMA, "age", [20.0, 30.0, 40.0, 50.0]))
    assert (errors > 0.2).any()
    assert (errors <= bounds).all()
    assert bounds.max() > 3.0 * made.error_bars(statistics.ranges(SCHEMA, "age", [20.0, 30.0, 40.0])).error.bound.max()


@pytest.mark.nightly  # By day with private bounds, above.
@pytest.mark.usefixtures("few_resamples")
def test_loaded_releases_have_the_same_bars(tmp_path):
    made = dataclasses.replace(released()[1])
    made.save(tmp_path / "release.tm")
    again = tm.load(tmp_path / "release.tm")
    for statistic in every().values():
        first, second = made.error_bars(statistic), again.error_bars(statistic)
        assert np.array_equal(first.values, second.values)
        assert np.array_equal(first.error.bound, second.error.bound)


@pytest.mark.usefixtures("few_resamples")
def test_nothing_is_charged_or_logged_as_if_it_were_a_release(caplog):
    _, made = released(1)
    before = list(made.ledger.charges)
    with caplog.at_level("DEBUG", "trigmech"):
        dataclasses.replace(made).error_bars(every()["means"])
    assert made.ledger.charges == before
    assert [record for record in caplog.records if record.name.startswith("trigmech")] == []


@pytest.mark.usefixtures("few_resamples")
def test_tables_are_made_once_and_progress_is_shown():
    _, made = released(2)
    made, seen = dataclasses.replace(made), []
    made.error_bars(every()["means"], progress=lambda *step: seen.append(step))
    assert seen == [("error bars", k + 1, resampling.TABLES) for k in range(resampling.TABLES)]
    made.error_bars(every()["range"], progress=lambda *step: seen.append(step))
    assert len(seen) == resampling.TABLES


def test_smooth_queries_have_bars_in_the_shape_of_their_answers():
    frame, made = released()
    points = SCHEMA.to_cube(frame)[:, list(SCHEMA.domain.numbers)]
    kernels = GaussianKernels(3, seed=1, n_queries=30, widths=(1.0, 2.0))
    mixture = Mixture((kernels, PairKernels(3, seed=1, n_queries=30), SecondMoments(3)))
    for family in (kernels, mixture):
        answers = made.query(family)
        errors = np.abs(answers.values - family.answers(points))
        assert answers.error.bound.shape == errors.shape
        assert (errors <= answers.error.bound).mean() > 0.8
    assert made.predicted_error(kernels).worst.shape == (2,)
    assert made.predicted_error(mixture).worst.shape == (len(mixture.labels),)
    with pytest.raises(InputError, match="has 2 columns, but the release has 3"):
        made.predicted_error(SecondMoments(2))


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_workloads_ask_the_numbers_alone_wherever_they_stand(level):
    _, made = released()
    numbers = list(SCHEMA.domain.numbers)
    # An indicator stands between them.
    assert numbers != [0, 1, 2]
    members = GaussianKernels(3, seed=1, n_queries=30, widths=(1.0, 2.0)), SecondMoments(3)
    wanted = [made._resamples.bars(lambda points, own=own: own.answers(points[:, numbers]), level, parts=True)[1]
              for own in members]
    for member, own in zip(members, wanted, strict=True):
        np.testing.assert_array_equal(made.predicted_error(member, level).worst, own.worst)
        np.testing.assert_array_equal(made.predicted_error(member, level).bound, own.bound)
        np.testing.assert_array_equal(made.query(member, level).values, member.answers(
            made.distribution.points[:, numbers], made.distribution.weights))
    together = made.predicted_error(Mixture(members), level)
    np.testing.assert_array_equal(together.worst, np.concatenate([own.worst for own in wanted]))


@pytest.mark.daily("1e-06-None")
@pytest.mark.parametrize(("delta", "crossed"), [(1e-6, None), (0.0, None), (1e-6, "age")])
def test_a_rehearsal_has_the_noise_and_the_plan_of_the_release(delta, crossed):
    frame = table(12_000, 3)
    schema = tm.Schema([*SCHEMA.columns[:3], tm.Column("other", 0.0, 60.0)])
    frame["other"] = np.where(np.arange(12_000) % 3, 7.0, frame["income"])
    workload = None if crossed is None else tm.workload.Marginals(2, crossed=crossed)
    made = tm.synthesize(frame[list(schema.names)], schema, tm.Budget(2.0, delta), tm.TableMechanism(workload=workload),
                         np.random.default_rng(3))
    release, design = made.release, dataclasses.replace(made, design=None).planned.measured
    np.testing.assert_array_equal([look.deviation for look in design.looks], [look.deviation for look in release.looks])
    assert release.closer
    # Noise is shared by the columns that were looked at closer.
    looked = len({each.query.column for each in release.closer})
    assert 1 <= looked < design.numbers
    assert design.closer_deviation(looked) == release.closer[0].deviation
    assert design.crossed == (() if crossed is None else (0,))
    again, first = design_dependence(design, release.columns), first_and_again(release)[0]
    assert moved(again, design.dependence.norm) <= 1.0 + 1e-9
    assert np.allclose([each.weight for each in again], [each.weight for each in first])
    assert [each.query.columns for each in again] == [each.query.columns for each in first]
    assert {type(each.query) for each in first} == ({Products} if release.products.query.contrasted else
                                                    {Marginal, Products})
    for one, other in zip(again, first, strict=True):
        assert type(one.query) is type(other.query)
        assert len(one.query.maps) == len(other.query.maps)
        assert all(map(np.array_equal, one.query.maps, other.query.maps))


@pytest.mark.nightly
def test_a_rehearsal_errs_as_the_noise_says():
    _, made = released(0, 3_000)
    points = np.repeat(made.distribution.points[:1], 2_000, axis=0)
    # All rows are the same, so the exact frequencies of the first column's look are those of one cell.
    seen = rehearsed_release(made.planned, points, np.random.default_rng(0))
    again, look = seen.looks[2], made.release.looks[2]
    exact = np.bincount(look.query.partition.codes(points[:1]), minlength=look.query.partition.size)
    assert again.deviation == look.deviation
    assert 0.2 < np.std(again.values - exact) / look.deviation < 3.0
    assert not np.array_equal(again.values, exact)
    opposite = rehearsed_release(made.planned, points, np.random.default_rng(0), turned=True).looks[2]
    middle = 0.5 * (again.means + opposite.means)
    np.testing.assert_allclose(middle, again.query.means(points), atol=1e-9)


class Weighted(tm.TableMechanism):
    """A fit of one's own, whose points have weights: nearly all of them are the last one."""

    def reconstruct(self, release, design, rng):
        fit = super().reconstruct(release, design, rng)
        weights = np.full(len(fit.points), 1e-6)
        weights[-1] = 1.0 - weights[:-1].sum()
        return dataclasses.replace(fit, distribution=Distribution(fit.points, weights))


def test_the_points_of_a_rehearsal_have_the_weights_of_their_fit():
    _, made = released()
    points = made.distribution.points
    found = rehearsed(dataclasses.replace(made.planned, mechanism=Weighted()), points, np.random.default_rng(0))
    assert len(found) == len(points)
    assert (found == found[0]).all(axis=1).mean() > 0.9


def test_loaded_releases_with_private_bounds_have_the_same_bars(tmp_path):
    schema = tm.Schema([tm.Column("age", kind="integer", private_bounds=True), *SCHEMA.columns[1:]])
    made = tm.synthesize(released()[0], schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(), np.random.default_rng(1))
    made.save(tmp_path / "release.tm")
    both = made, tm.load(tmp_path / "release.tm")
    bars = [each.error_bars(every(made.schema)["pair"]).error.bound for each in both]
    np.testing.assert_array_equal(*bars)


@pytest.mark.parametrize("own", [tm.TableMechanism(), tm.TableMechanism(shares=Shares(0.5, 0.1, 0.2, 2, 0.6)),
                                 tm.TableMechanism(shares=Shares(0.3, 0.0, 0.0, 2, 0.0))])
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_release_of_another_version_is_rehearsed_with_the_noise_of_its_charges(own, delta):
    facts = PublicFacts(700, SCHEMA.domain, tm.Budget(2.0, delta), SCHEMA.names)
    charges = own.plan(facts).charges
    # Two thirds of the budget were for private bounds; the file does not tell.
    found = tm.TableMechanism().plan_again(dataclasses.replace(facts, budget=tm.Budget(6.0, delta)), charges)
    assert [each.purpose for each in found.charges] == [each.purpose for each in charges]
    assert [each.scale for each in found.charges] == pytest.approx([each.scale for each in charges], rel=1e-5)
    assert tm.MomentMechanism().plan_again(facts, charges) is None


def test_dependence_goes_on_within_cells_and_leaves_columns_and_tables_as_they_are():
    schema = tm.Schema([tm.Column("a", -4.0, 4.0), tm.Column("b", -4.0, 4.0)])
    rng = np.random.default_rng(0)
    z = rng.multivariate_normal((0.0, 0.0), ((1.0, 0.95), (0.95, 1.0)), 4_000)
    made = tm.synthesize(z, schema, tm.Budget(3.0, 1e-6), tm.TableMechanism(), rng)
    points = made.distribution.points.copy()
    partitions = [column.partition for column in made.release.columns]
    maps = made.release.tables[0].query.maps
    codes = all_codes(partitions, points)
    plausible._go_on_within_cells(points, codes, made.release, rng)
    assert not np.array_equal(points, made.distribution.points)
    assert np.array_equal(np.sort(points, axis=0), np.sort(made.distribution.points, axis=0))
    now = all_codes(partitions, points)
    assert all(np.array_equal(cells[now[:, j]], cells[codes[:, j]]) for j, cells in enumerate(maps))
    assert np.corrcoef(points.T)[0, 1] > np.corrcoef(made.distribution.points.T)[0, 1]


def test_plausible_tables_keep_to_the_domain_and_to_the_constraints():
    schema = tm.Schema(SCHEMA.columns[:2], ["income <= age"])
    frame = table(800, 4)[["age", "income"]]
    frame = frame[frame["income"] <= frame["age"]]
    made = tm.synthesize(frame, schema, tm.Budget(2.0, 1e-6), tm.TableMechanism(), np.random.default_rng(4))
    rng = np.random.default_rng(1)
    points = PlausibleTables(made.release.described(schema), rng).draw(1_000, rng)
    schema.domain.check(points)
    values = schema.decode(points)
    assert (values["income"] <= values["age"]).all()


class OneDeviation:
    """In the place of a generator: every normal number is one deviation above its mean, and no even one is below 1."""

    def normal(self, mean=0.0, deviation=1.0, size=None):
        return np.full(size, mean + deviation)

    def random(self, size=None):
        return np.ones(() if size is None else size)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_a_plausible_table_has_the_released_noise_once_more(delta, monkeypatch):
    _, made = released(0, 3_000, delta)
    release, drawn = made.release, []
    if delta:
        # With one table of three columns, whatever was found worth it.
        maps = tuple(np.arange(len(column.mass)) % size for column, size in zip(release.columns, (2, 3, 4),
                                                                                strict=False))
        query = Marginal((0, 1, 2), tuple(column.partition for column in release.columns[:3]), maps)
        release = dataclasses.replace(release, measurements=(
            *(each for each in release.measurements if len(each.query.columns) < 3 or isinstance(each.query, Products)),
            Measurement(query, 0.4, np.full(24, 0.01), 0.002)))
        assert [table.deviation for table in release.triples] == [pytest.approx(0.005)]
    tables = PlausibleTables(release, np.random.default_rng(0))

    def stop(release, count, rng, shrunk):
        drawn.append((release, count, shrunk))
        raise InterruptedError

    monkeypatch.setattr(plausible, "reconstruct_table", stop)
    with pytest.raises(InterruptedError):
        tables.draw(500, OneDeviation())
    (found, count, shrunk), = drawn
    assert (count, shrunk) == (500, False)
    # Of three columns: a deviation more in each entry, as it was released, for that is shrunk later.
    assert len(found.triples) == len(release.triples)
    assert bool(release.triples) == (delta > 0)
    for made_anew, was in zip(found.triples, release.triples, strict=True):
        np.testing.assert_allclose(made_anew.means - was.means, was.deviation, rtol=1e-9)
    # Of two columns: what was fitted, and what shrinkage leaves open, of which nothing is in the columns' own sums.
    assert len(found.tables) == len(release.tables) == 6
    for made_anew, kept in zip(found.tables, tables._kept, strict=False):
        cells = [np.bincount(own, weights=found.columns[j].mass)
                 for j, own in zip(made_anew.query.columns, made_anew.query.maps, strict=True)]
        np.testing.assert_allclose(made_anew.means, np.clip(np.outer(*cells) + kept, 0.0, 1.0), atol=1e-12)
    # Categories: the nearest frequencies to the released ones and a deviation more, which is the same for all.
    region = release.looks[2]
    again = dataclasses.replace(region, values=region.values + region.deviation).means
    np.testing.assert_allclose(found.columns[2].mass, plausible.nearest_probabilities(again), atol=1e-12)


class Stripes:
    """In the place of a generator: normal numbers are a deviation above and below their mean in turn, as on a board."""

    def normal(self, mean=0.0, deviation=1.0, size=()):
        return mean + deviation * np.where(np.indices(np.atleast_1d(size)).sum(axis=0) % 2, -1.0, 1.0)

    def random(self, size=None):
        return np.ones(() if size is None else size)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_tables_and_products_have_as_much_noise_again_as_shrinkage_leaves_open(delta, monkeypatch):
    _, made = released(0, 3_000, delta)
    release, drawn = made.release, []
    tables = PlausibleTables(release, np.random.default_rng(0))
    assert len(tables._deviations) == len(release.tables)
    # Other numbers than those of the release, and other ones for each table.
    tables._deviations = [1e-3 * (1.0 + t) for t in range(len(release.tables))]
    tables._product_deviation *= 0.5

    def stop(release, count, rng, shrunk):
        drawn.append(release)
        raise InterruptedError

    monkeypatch.setattr(plausible, "reconstruct_table", stop)
    with pytest.raises(InterruptedError):
        tables.draw(500, Stripes())
    (found,) = drawn
    assert len(found.tables) == len(release.tables) > 0
    own, products = independent(found)
    for was, made_anew, kept, left in zip(own, found.tables, tables._kept, tables._deviations, strict=False):
        noise = Stripes().normal(0.0, left, was.shape)
        noise = noise - noise.mean(axis=0) - noise.mean(axis=1, keepdims=True) + noise.mean()
        assert np.ptp(noise) > left
        np.testing.assert_allclose(made_anew.means, np.clip(was + kept + noise, 0.0, 1.0), atol=1e-12)
    left = tables._product_deviation
    assert left > 0.0
    assert len(products) > 0
    np.testing.assert_allclose(found.products.means, np.clip(
        products + tables._kept_products + Stripes().normal(0.0, left, products.shape), -1.0, 1.0), atol=1e-12)


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("kind", [PrefixSums, Histogram])
@pytest.mark.parametrize("k", [0, 2])
def test_a_closer_look_divides_what_the_look_has_in_its_interval_and_changes_nothing_else(kind, k, smooth):
    rng, c, f, noise = np.random.default_rng(k), 8, 5, 0.003
    partition = Partition(tuple(range(1, k + 1)), 0, even_edges(None, c))
    query = kind(0, partition)
    look = Measurement(query, 1.0, query.encode(rng.dirichlet(np.ones(k + c))), noise)
    finer = partition.finer(3, f)
    column = ReleasedColumn(partition.cut(np.concatenate([partition.edges[:3], finer, partition.edges[5:]])),
                            np.zeros(k + c + f - 1), noise)
    inside = Measurement(Detail(0, partition, 3, finer), 1.0, rng.dirichlet(np.ones(f)) * 0.2 - 0.01, 0.002)
    column_alone = ReleasedColumn(partition, np.zeros(k + c), noise)
    coarse = plausible.plausible_column(column_alone, look, [], OneDeviation(), smooth=smooth).mass
    found = plausible.plausible_column(column, look, [inside], OneDeviation(), smooth=smooth).mass
    assert coarse.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found[: k + 3], coarse[: k + 3], atol=1e-12)
    np.testing.assert_allclose(found[k + 3 + f :], coarse[k + 4 :], atol=1e-12)
    # With a deviation more in each, and as much together as the interval has by the look.
    shares = plausible.nearest_probabilities(inside.means + inside.deviation, coarse[k + 3])
    np.testing.assert_allclose(found[k + 3 : k + 3 + f], shares, atol=1e-12)


def test_more_than_all_rows_on_special_values_is_brought_to_all_of_them():
    partition = Partition((1, 2), 0, even_edges(None, 4))
    look = Measurement(PrefixSums(0, partition), 1.0, np.array([0.9, 0.5, 0.0, 0.0, 0.0, 0.0]), 0.1)
    found = plausible.plausible_column(ReleasedColumn(partition, np.zeros(6), 0.1), look, [], OneDeviation(),
                                       smooth=False).mass
    # One deviation more are 1 and .6, of which 1 is cut.
    np.testing.assert_allclose(found, [1.0 / 1.6, 0.6 / 1.6, 0.0, 0.0, 0.0, 0.0], atol=1e-12)


def test_numbers_that_are_in_no_table_stay_where_they_are():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1.0, 1.0, (200, 3))
    partitions, maps = [Partition((), j, even_edges(None, 20)) for j in range(3)], (np.arange(20) // 5,) * 2
    release = SimpleNamespace(tables=[SimpleNamespace(query=Marginal((0, 2), (partitions[0], partitions[2]), maps))],
                              products=None, columns=[SimpleNamespace(partition=own) for own in partitions])
    codes, was = all_codes(partitions, points), points.copy()
    plausible._go_on_within_cells(points, codes, release, rng)
    assert [bool((points[:, j] == was[:, j]).all()) for j in range(3)] == [False, True, False]


def test_numbers_within_cells_are_in_the_order_of_their_regression_and_its_residual():
    rng, n = np.random.default_rng(0), 300
    values = rng.multivariate_normal((0.0, 0.0, 0.0), ((1.0, 0.7, 0.2), (0.7, 1.0, 0.1), (0.2, 0.1, 1.0)), n)
    points = np.clip(values / 4.0, -1.0, 1.0)
    partitions = [Partition((), j, even_edges(None, 20)) for j in range(3)]
    maps = tuple(np.arange(20) // 5 for _ in range(3))
    # The coarser cells of another table are not those that count.
    coarse = [np.arange(20) // 10] * 3
    tables = [SimpleNamespace(query=Marginal((j, h), (partitions[j], partitions[h]), (own[j], own[h])))
              for j, h, own in ((0, 1, coarse), (0, 1, maps), (1, 2, maps), (0, 2, coarse))]
    release = SimpleNamespace(tables=tables, products=None,
                              columns=[SimpleNamespace(partition=partition) for partition in partitions])
    codes, asked, was = all_codes(partitions, points), [], points.copy()

    class Told:
        def permutation(self, count):
            return np.array([1])

        def normal(self, mean, deviation, size):
            asked.append((mean, deviation))
            return deviation * residuals[:size]

    residuals = rng.normal(size=n)
    plausible._go_on_within_cells(points, codes, release, Told())
    scores = stats.norm.ppf((stats.rankdata(was, axis=0) - 0.5) / n)
    others = scores[:, [0, 2]]
    slope = np.linalg.inv(others.T @ others + 1e-3 * n * np.eye(2)) @ others.T @ scores[:, 1]
    # What the others do not tell of it is drawn with the deviation that it has.
    assert asked == [(0.0, pytest.approx(np.std(scores[:, 1] - others @ slope), rel=1e-9))]
    keys = others @ slope + asked[0][1] * residuals
    assert np.array_equal(points[:, [0, 2]], was[:, [0, 2]])
    for cell in range(4):
        own = np.flatnonzero(maps[1][codes[:, 1]] == cell)
        assert np.array_equal(points[own[np.argsort(keys[own])], 1], np.sort(was[own, 1]))


@pytest.mark.parametrize("noise", [1e-3, 0.2])
@pytest.mark.parametrize("slope", [0.0, 0.25, 1.0])
def test_what_shrinkage_leaves_open_is_the_noise_by_the_root_of_its_slope(noise, slope):
    # Of a shrinkage that is linear, Tweedie's posterior variance is exactly the noise's times the slope.
    rng, deviation = np.random.default_rng(2), np.random.default_rng(3).normal(size=(40, 50))
    found = plausible._left_open(lambda values: slope * values, deviation, noise, lambda values: values, rng)
    # And what may hide: half a standard deviation of a mean of 4 x 2,000 squares.
    hidden = 0.5 * np.sqrt(2.0 / deviation.size)
    assert found == pytest.approx(noise * np.sqrt(min(slope + hidden, 1.0)), rel=1e-3)


@pytest.mark.daily("0.0")
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_whatever_the_noise_bars_are_finite(delta):
    _, made = released(0, 50, delta, 1e-4)
    for statistic in every().values():
        assert np.isfinite(made.error_bars(statistic).error.bound).all()


def test_single_columns_have_bars():
    frame, made = released(0, schema=tm.Schema(SCHEMA.columns[:1]))
    errors, bounds = errors_and_bounds(frame, made, statistics.ranges(made.schema, "age", [20.0, 30.0, 40.0, 50.0]))
    assert (errors <= bounds).all()
    assert bounds.max() < 0.2


def test_what_is_no_statistic_is_refused():
    _, made = released()
    for level in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="level"):
            made.error_bars(every()["means"], level)
    with pytest.raises(InputError, match="the same number of values"):
        made.error_bars(lambda table: np.unique(table["age"]))
    with pytest.raises(InputError, match="finite"):
        made.error_bars(lambda table: np.nan)
    moments = tm.synthesize(np.zeros((50, 2)), tm.Schema.cube(2), tm.Budget(1.0), tm.MomentMechanism(
        points=128, degree=2, pair_degree=1, triples=False, whole_row=False), np.random.default_rng(0))
    with pytest.raises(InputError, match="TableMechanism"):
        moments.error_bars(lambda table: table["x1"].mean())


def test_frequencies_are_those_of_a_plain_count():
    frame = table(400, 1)
    columns = SCHEMA.decode(SCHEMA.to_cube(frame))
    found = statistics.marginal(SCHEMA, ("region", "hours"), 6)(columns)
    assert found.shape == (4, 7)
    assert found.sum() == pytest.approx(1.0)
    cell = np.where(frame["hours"].isna(), 6, np.minimum(frame["hours"].fillna(0) // 10, 5))
    for i, region in enumerate(SCHEMA.columns[2].categories):
        for k in range(7):
            assert found[i, k] == pytest.approx(((frame["region"] == region) & (cell == k)).mean())
    below = statistics.ranges(SCHEMA, "hours", [0.0, 30.0, 60.0])(columns)
    assert np.allclose(below, [(frame["hours"] <= t).mean() for t in (0.0, 30.0, 60.0)])


def test_means_and_correlations_leave_missing_values_out():
    frame = table(400, 1)
    columns = SCHEMA.decode(SCHEMA.to_cube(frame))
    numbers = frame[["age", "income", "hours"]]
    assert np.allclose(statistics.means(SCHEMA)(columns), numbers.mean())
    # Ranks are those of rounded numbers.
    rounded = pd.DataFrame({name: np.ma.filled(columns[name].astype(float), np.nan) for name in numbers})
    assert np.nanmax(np.abs(rounded - numbers).to_numpy()) < 0.01
    for kind in ("pearson", "spearman"):
        assert np.allclose(statistics.correlations(SCHEMA, kind)(columns), rounded.corr(kind))


def test_constants_are_not_correlated_and_categories_in_an_order_have_places():
    schema = tm.Schema([tm.Column("grade", kind="ordinal", categories=("low", "middle", "high")),
                        tm.Column("day", datetime.date(2020, 1, 1), datetime.date(2020, 12, 31), "datetime"),
                        tm.Column("flat", 0, 10)])
    frame = pd.DataFrame({"grade": ["low", "high", "middle", "high"], "flat": [3.0] * 4,
                          "day": pd.to_datetime(["2020-01-01", "2020-03-01", "2020-02-01", "2020-03-01"])})
    columns = schema.decode(schema.to_cube(frame))
    assert statistics.means(schema)(columns)[[0, 2]] == pytest.approx([1.25, 3.0])
    found = statistics.correlations(schema, "spearman")(columns)
    assert found[0] == pytest.approx([1.0, 1.0, 0.0])
    with pytest.raises(InputError, match="kind"):
        statistics.correlations(schema, "kendall")
    with pytest.raises(InputError, match="no column"):
        statistics.frequencies(schema, "grades")
    with pytest.raises(InputError, match="without an order"):
        statistics.ranges(SCHEMA, "region", [0.0])


def test_plausible_tables_of_few_contrasts_differ_in_finer_cells_and_keep_what_contrasts_tell():
    _, made = released(0, delta=0.0, epsilon=1.0)
    release = made.release
    assert release.products.query.contrasted
    drawn = [plausible.in_finer_cells(release, np.random.default_rng(seed)) for seed in range(40)]
    assert all(each.products is None for each in drawn)
    for t, pair in enumerate(Targets(release, shrunk=False).pairs):
        queries = [each.tables[t].query for each in drawn]
        assert queries[0].columns == pair.columns
        assert min(queries[0].shape) > min(pair.table.shape)
        tables = np.array([each.tables[t].means for each in drawn])
        fine = [np.bincount(own, release.columns[j].mass) for j, own in zip(pair.columns, queries[0].maps, strict=True)]
        # All tables have the columns' frequencies, as far as no cell is below 0.
        for table in tables:
            assert [np.abs(table.sum(axis=1 - axis) - each).max() for axis, each in enumerate(fine)] == pytest.approx(
                [0.0, 0.0], abs=0.06)
        wide = np.zeros((len(tables), *pair.table.shape))
        within = []
        for own, broad in zip(queries[0].maps, pair.maps, strict=True):
            at = np.zeros(own.max() + 1, dtype=int)
            at[own] = broad
            assert np.array_equal(at[own], broad)
            within.append(at)
        for i, j in np.ndindex(tables.shape[1:]):
            wide[:, within[0][i], within[1][j]] += tables[:, i, j]
        assert wide.mean(axis=0) == pytest.approx(np.maximum(pair.table, 0.0), abs=0.06)
        alone = np.outer(*fine)
        broad = [np.bincount(at, each) for each, at in zip(fine, within, strict=True)]
        told = ((pair.table - np.outer(*broad)) ** 2 / np.outer(*broad)).sum()
        # The sums of rows and columns take one dimension from each side, and the contrasts show all of wide cells.
        (a, b), (wide_a, wide_b) = tables.shape[1:], pair.table.shape
        hidden = plausible.UNSEEN**2 * ((a - 1) * (b - 1) - (wide_a - 1) * (wide_b - 1)) / (a * b)
        contingency = ((tables - alone) ** 2 / alone).sum(axis=(1, 2)).mean()
        assert contingency == pytest.approx(told + hidden, rel=0.35)


@pytest.mark.parametrize("size", [1.0, 1e6, 1e100])
def test_plausible_tables_of_contrasts_are_finite_where_cells_are_empty_and_products_impossible(size):
    _, made = released(0, delta=0.0, epsilon=1.0)
    release = made.release
    # All rows are at one position, so that a cell of the contrasts is empty.
    columns = tuple(dataclasses.replace(column, mass=np.eye(len(column.mass))[-1]) for column in release.columns)
    products = dataclasses.replace(release.products, values=np.full(release.products.query.size, size))
    measured = tuple(products if each is release.products else each for each in release.measurements)
    hostile = dataclasses.replace(release, columns=columns, measurements=measured)
    for table in plausible.in_finer_cells(hostile, np.random.default_rng(0)).tables:
        assert np.isfinite(table.means).all()
        assert table.means.min() >= 0.0
        assert table.means.max() <= 1.0
