"""Signs of a number's first cosines: their sensitivity, the plan that asks for them, and what is made of them."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.evaluation import plausible
from trigmech.functions.contrasts import contrasts, decoding, signs
from trigmech.functions.partition import Partition, columns_of, even_edges
from trigmech.measurement.exact import exact_sums
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import PublicFacts
from trigmech.mechanisms.table import TableMechanism
from trigmech.planning import contrasted
from trigmech.planning.contrasted import looks_of
from trigmech.planning.shares import Shares
from trigmech.planning.tables import plan_tables
from trigmech.privacy.budget import deviation_of
from trigmech.queries.base import Measurement, moved
from trigmech.queries.one_way import Contrasts, Histogram, HistogramWithEnds
from trigmech.queries.signs import Signs
from trigmech.reconstruction import bases as library_of_bases
from trigmech.reconstruction import densities
from trigmech.reconstruction.columns import released_column
from trigmech.reconstruction.densities import density_of_signs
from trigmech.report import expected
from trigmech.report import page as report
from trigmech.report.preview import preview

# Two continuous numbers, one of 40 levels beside two indicators, three categories, and a binary number.
DOMAIN = Domain(9, (OneHotGroup((3, 4), False, 2), OneHotGroup((5, 6, 7), True)),
                ((2, tuple(np.linspace(-1.0, 1.0, 40).tolist())), (8, (-1.0, 1.0))))
SCHEMA = tm.Schema([
    tm.Column("size", -3, 3), tm.Column("age", 18, 99, "integer"), tm.Column("gain", 0, 1e4, special=(0,)),
    tm.Column("pay", 0, 200, missing="keep"), tm.Column("day", "2020-01-01", "2021-12-31", kind="datetime"),
    tm.Column("region", kind="categorical", categories=("north", "south", "west"))])


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "size": rng.normal(0.0, 1.0, n).clip(-3, 3), "age": rng.integers(18, 80, n),
        "gain": np.where(rng.random(n) < 0.8, 0.0, rng.uniform(1.0, 1e4, n)),
        "pay": np.where(rng.random(n) < 0.2, np.nan, rng.gamma(2.0, 20.0, n).clip(0, 200)),
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, n), unit="D"),
        "region": rng.choice(["north", "south", "west"], n)})


def of_signs(count=4, intervals=64, special=0):
    return Signs(0, Partition(tuple(range(1, special + 1)), 0, np.linspace(-1.0, 1.0, intervals + 1)), count)


def rows_of(codes, rng):
    """Rows with a position (n, 5) in each column of DOMAIN."""
    rows = np.zeros((len(codes), DOMAIN.d))
    for own, code in zip(columns_of(DOMAIN), codes.T, strict=True):
        cut = own if own.value is None else own.cut(even_edges(own.levels, 64))
        cut.place(code % cut.size, rng.random(len(codes)), rows)
    return rows


@pytest.mark.parametrize(("special", "intervals", "count"), [
    (0, 64, 4), (1, 64, 6), (3, 17, 16), (0, 2, 1), (2, 40, 8)])
def test_signs_are_those_of_the_first_cosines_beside_special_values(special, intervals, count):
    found = signs(special, intervals, count)
    assert found.shape == (special + intervals, special + count)
    for i, a in itertools.product(range(intervals), range(1, count + 1)):
        wave = np.cos(np.pi * a * (i + 0.5) / intervals)
        assert found[special + i, special + a - 1] == (0 if abs(wave) < 1e-9 else np.sign(wave))
    assert not found[:special, special:].any()
    for i, j in itertools.product(range(special + intervals), range(special)):
        assert found[i, j] == (1 if i == j else -1)


@pytest.mark.parametrize("special", [0, 1, 3])
@pytest.mark.parametrize("norm", ["L1", "L2", "Linf"])
def test_no_two_positions_are_further_apart_than_the_diameter(special, norm):
    query = of_signs(5, 64, special)
    order = {"L1": 1, "L2": 2, "Linf": np.inf}[norm]
    apart = max(np.linalg.norm(np.array(one) - other, order) for one in query.values.tolist()
                for other in query.values.tolist())
    assert query.diameter(norm) == pytest.approx(apart, rel=1e-12)
    if norm == "Linf":
        assert query.diameter(norm) == 2.0
        # Any number of them move no further together.
        assert moved([Measurement(query, 0.5), Measurement(of_signs(8), 0.5)], norm) == 1.0


def test_no_neighbour_moves_what_is_drawn_further_than_is_charged_for():
    """Random rows, and a climb: each step replaces one position, and keeps the furthest neighbour of all columns."""
    rng, n = np.random.default_rng(5), 25
    design = TableMechanism().plan(PublicFacts(n, DOMAIN, tm.Budget(1.0, 0.0)))
    assert [type(look.query) for look in design.measured.looks] == [Signs, Signs, Signs, Contrasts, Contrasts]
    (drawn,) = design.measured.first
    sizes = np.array([64, 64, 42, 3, 2])
    codes = rng.integers(0, sizes, (n, 5))
    rows = rows_of(codes, rng)

    def distance(codes):
        seen = []
        for held in (rows, np.vstack([rows_of(codes[None], rng), rows[1:]])):
            sums = exact_sums(PrivateRows.of(held, DOMAIN), [each.query for each in drawn.asked])
            seen.append(np.concatenate([each.vector(own, n) for each, own in zip(drawn.asked, sums, strict=True)]))
        return n * np.abs(seen[0] - seen[1]).max()

    furthest, best = 0.0, codes[0]
    for _ in range(60):
        own = best.copy()
        own[rng.integers(5)] = rng.integers(0, 64)
        if (found := distance(own)) >= furthest:
            furthest, best = found, own
    # The search has power: no more noise is drawn than there must be.
    assert furthest == pytest.approx(1.0, abs=1e-9)
    charge = drawn.charge
    assert (charge.law, charge.norm) == ("linf", "Linf")
    assert charge.sensitivity * n >= 1.0
    assert sum(each.pure_epsilon for each in design.charges) <= 1.0


@pytest.mark.parametrize(("special", "intervals", "count"), [(0, 4, 4), (0, 4, 0), (1, 1, 1), (0, 257, 4), (0, 64, -1)])
def test_impossible_counts_are_refused(special, intervals, count):
    with pytest.raises(InputError, match="signs of cosines must be"):
        of_signs(count, intervals, special)


# The plan


def asked(n, epsilon, delta=0.0, domain=DOMAIN):
    return [type(look.query) for look in plan_tables(n, domain, tm.Budget(epsilon, delta)).looks]


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_few_rows_have_signs_and_many_have_counts(epsilon):
    assert asked(200, epsilon)[:3] == [Signs] * 3
    assert asked(200_000_000, epsilon)[:3] == [HistogramWithEnds, HistogramWithEnds, Histogram]
    assert Signs not in asked(200, epsilon, 1e-6)


def test_cosines_get_more_with_less_noise():
    domain = Domain(12)
    counts = [{look.query.count for look in plan_tables(n, domain, tm.Budget(1.0)).looks
               if isinstance(look.query, Signs)}
              for n in (50, 300, 600, 100_000)]
    assert counts == [{3}, {4}, {5}, set()]


def test_the_plan_is_the_best_of_all_that_are_predicted_one_by_one():
    """Against plain loops over the columns: their prior variances, and what noise of the drawn law leaves of them."""

    def column(own, contrasted_, q, linf, laplace, each):
        short = own.value is None or (own.levels is not None and len(own.levels) <= 16)
        if short:
            k = own.size if own.value is None else len(own.levels)
            noise = linf**2 if contrasted_ else k * laplace**2
            prior = [min(10.0 / (k + 2), 1.0)] * (k - 1)
        elif contrasted_:
            noise, prior = 2 * (np.pi / 4 * linf) ** 2, [1 / a**2 for a in range(1, q + 1)]
        else:
            q = max(16, int((min(max(each, 1.0) / 8, 1024)) ** (2 / 3)))
            noise, prior = q * laplace**2, [1 / a**2 for a in range(1, q + 1)]
        left = sum(v * noise / (v + noise) for v in prior)
        return np.sqrt(left if short else left + 1.0 / (q + 0.5))

    columns = columns_of(DOMAIN)
    for strength in (5.0, 60.0, 400.0):
        plan = contrasted._Planned.of(columns, strength)
        own, part = plan.without_signs
        for q, chosen, parts in ((0, own, np.array([part])), (6, own | ~plan.few, np.array([0.3, 0.8]))):
            if q and chosen.all():
                chosen = chosen & (np.arange(5) != 3)
            entries = sum((q + len(each.indicators)) if not few else size - 1 for each, few, size, used in zip(
                columns, plan.few, plan.sizes, chosen, strict=True) if used)
            wanted = []
            for share in parts:
                each = (1 - share) * strength / max((~chosen).sum(), 1)
                linf = 2 * deviation_of("linf", entries) / (share * strength)
                wanted.append(sum(column(one, used, q, linf, 2 * np.sqrt(2) / each, each)
                                  for one, used in zip(columns, chosen, strict=True)))
            np.testing.assert_allclose(plan.errors(chosen, q, parts), wanted, rtol=1e-9)


def test_signs_must_be_clearly_better(monkeypatch):
    columns = columns_of(DOMAIN)
    assert looks_of(columns, 150.0).signs
    monkeypatch.setattr(contrasted, "CLEARLY_BETTER", 10.0)
    assert looks_of(columns, 150.0).signs == 0
    # Where counts tell nothing, signs are measured all the same.
    assert looks_of(columns, 1e-12).signs


# The density


def directly(values, noise, count):
    """Return the posterior mean and covariance by full matrices, model by model."""
    factor = contrasts(count)[:, : len(values)].T.astype(float)
    library, logs, means, covariances = densities._library(count, len(values)), [], [], []
    grids = ((densities.DECAYS_OF_EVEN, densities.VARIANCES_OF_EVEN), (densities.DECAYS, densities.VARIANCES))
    for models, (decays, variances) in zip(library.kinds, grids, strict=True):
        for base, cosines, share in zip(models.bases, models.cosines, np.exp(models.priors.ravel()), strict=True):
            k = np.arange(1.0, cosines.shape[1] + 1.0)
            for decay, variance in itertools.product(decays, variances):
                shape = models.spread @ cosines
                prior = (shape * (variance * k**-decay)) @ shape.T
                seen = factor @ prior @ factor.T + noise**2 * np.eye(len(values))
                residual = values - factor @ models.spread @ base
                logs.append(np.log(share) - 0.5 * (residual @ np.linalg.solve(seen, residual)
                                                   + np.linalg.slogdet(seen)[1]))
                gain = np.linalg.solve(seen, factor @ prior).T
                means.append(models.spread @ base + gain @ residual)
                covariances.append(prior - gain @ factor @ prior)
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    mean = weights @ np.array(means)
    apart = np.array(means) - mean
    return mean, np.einsum("m,mij->ij", weights, np.array(covariances)) + (apart * weights[:, None]).T @ apart


@pytest.fixture
def few_models(monkeypatch):
    monkeypatch.setattr(library_of_bases, "DEVIATIONS", (0.13,))
    monkeypatch.setattr(library_of_bases, "MEDIANS", (0.1,))
    monkeypatch.setattr(library_of_bases, "LOG_DEVIATIONS", (0.6,))
    monkeypatch.setattr(densities, "MOST_LUMPS", 0)
    densities._library.cache_clear()
    library_of_bases.bases.cache_clear()
    yield
    densities._library.cache_clear()
    library_of_bases.bases.cache_clear()


class Told:
    """A generator that draws what it is told: the index of a model, and one unit vector of normal numbers, or 0."""

    def __init__(self, place, unit):
        self.place, self.unit = place, unit

    def choice(self, count, p):
        self.odds = p
        return self.place

    def normal(self, mean=0.0, deviation=None, size=0):
        # With deviations it is asked for the masses of lumps, which have no part in this law.
        if deviation is not None:
            return np.zeros(len(deviation))
        return np.eye(size)[self.unit] if self.unit is not None else np.zeros(size)


def law_of_draws(found):
    """The mean and the covariance of draws: for each model they are linear in normal numbers."""
    even = np.prod(found.weights[0].shape)
    densities._drawn(found, told := Told(0, None))
    # All models but the least likely ones, which are drawn once in a billion times together.
    places = np.argsort(told.odds)[np.cumsum(np.sort(told.odds)) > 1e-9]
    odds, means, within = told.odds[places], [], []
    for place in places.tolist():
        middle = densities._drawn(found, Told(place, None))
        units = found.library.kinds[int(place >= even)].gains.shape[2]
        moved = np.array([densities._drawn(found, Told(place, unit)) - middle for unit in range(units)])
        means.append(middle)
        within.append(moved.T @ moved)
    means = np.array(means)
    mean = odds @ means
    return mean, np.einsum("m,mij->ij", odds, np.array(within)) + (means - mean).T @ ((means - mean) * odds[:, None])


# With more noise more models are likely, and looked at one by one.
@pytest.mark.parametrize("noise", [0.02, pytest.param(0.3, marks=pytest.mark.nightly)])
def test_the_density_is_the_posterior_of_all_models_and_draws_scatter_as_it_does(noise, few_models):
    count, rng = 24, np.random.default_rng(1)
    true = np.diff(np.linspace(0.0, 1.0, count + 1) ** 2.0)
    values = true @ contrasts(count)[:, :4] + noise * rng.normal(size=4)
    mean, covariance = directly(values, noise, count)
    np.testing.assert_allclose(density_of_signs(values, noise, 1.0, count).mean(), mean, atol=1e-5)
    # A part of the whole column has the same shape.
    np.testing.assert_allclose(density_of_signs(0.4 * values, 0.4 * noise, 0.4, count).mean(), 0.4 * mean, atol=1e-5)
    found = densities._best(densities._library(count, 4), values, noise, 0, np.inf)
    drawn_mean, drawn_covariance = law_of_draws(found)
    np.testing.assert_allclose(drawn_mean, mean, atol=1e-5)
    np.testing.assert_allclose(drawn_covariance, covariance, atol=1e-4 * np.abs(covariance).max())


def test_without_noise_the_measured_signs_are_met():
    query = of_signs(6, 64, 1)
    frequencies = np.concatenate([[0.25], 0.75 * np.diff(np.linspace(0.0, 1.0, 65) ** 1.5)])
    column = released_column(Measurement(query, 1.0, frequencies @ query.values, 1e-4))
    assert column.mass.sum() == pytest.approx(1.0)
    below = np.interp(query.partition.edges, column.partition.edges,
                      np.concatenate([[0.0], np.cumsum(column.mass[1:])]))
    found = np.concatenate([column.mass[:1], np.diff(below)])
    np.testing.assert_allclose(found @ query.values, frequencies @ query.values, atol=0.01)
    np.testing.assert_allclose(np.cumsum(found), np.cumsum(frequencies), atol=0.02)


@pytest.mark.daily(6)
@pytest.mark.parametrize("special", [0, 2])
@pytest.mark.parametrize("size", [0.0, 1.0, 1e200, 1e300])
@pytest.mark.parametrize("deviation", [1e-300, 1e-3, 1.0, 1e300])
def test_whatever_is_drawn_a_distribution_is_made(special, size, deviation):
    rng, query = np.random.default_rng(3), of_signs(4, 64, special)
    for values in (size * rng.normal(size=query.size), np.full(query.size, size), np.full(query.size, -size)):
        look = Measurement(query, 1.0, values, deviation)
        for column in (released_column(look),
                       plausible.plausible_column(released_column(look), look, [], np.random.default_rng(0))):
            assert np.isfinite(column.mass).all()
            assert (column.mass >= 0.0).all()
            assert column.mass.sum() == pytest.approx(1.0)


def test_plausible_columns_scatter_as_the_posterior_does():
    """The share below a quarter of the range: its deviation is near that of direct draws of the density."""
    query, rng = of_signs(4, 64), np.random.default_rng(6)
    exact = np.diff(np.linspace(0.0, 1.0, 65) ** 2.0) @ query.values
    look = Measurement(query, 1.0, exact, 0.2)
    column = released_column(look)

    def below(held):
        return np.interp(-0.5, held.partition.edges, np.concatenate([[0.0], np.cumsum(held.mass)]))

    drawn = [below(plausible.plausible_column(column, look, [], rng)) for _ in range(100)]
    density = density_of_signs(exact, 0.2, 1.0, 64)
    wanted = [np.clip(density.drawn(rng)[:16].sum(), 0.0, 1.0) for _ in range(200)]
    assert np.std(drawn) == pytest.approx(np.std(wanted), rel=0.3)


@pytest.mark.nightly
def test_smooth_columns_are_closer_by_signs_than_by_counts_of_the_same_budget():
    """Normal and skewed columns of 300 rows, ten of them, at epsilon 1."""
    rng, n, d, errors = np.random.default_rng(4), 300, 10, {True: [], False: []}
    domain, shares = Domain(d), Shares(0.9, 0.01, 0.0)
    for signed in (True, False):
        for _ in range(3):
            points = np.tanh(rng.normal(0.0, 0.4, (n, d)) + rng.uniform(-0.5, 0.5, d))
            mechanism = TableMechanism(shares=shares)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(contrasted, "CLEARLY_BETTER", 0.03 if signed else 1e9)
                design = mechanism.plan(PublicFacts(n, domain, tm.Budget(1.0)))
            kinds = {type(look.query) for look in design.measured.looks}
            assert kinds == ({Signs} if signed else {HistogramWithEnds})
            for j, look in enumerate(design.measured.looks):
                exact = look.query.encode(look.query.means(points))
                noise = look.deviation * rng.uniform(-np.sqrt(3), np.sqrt(3), look.query.size)
                column = released_column(dataclasses.replace(look, values=exact + noise))
                below = np.interp(np.sort(points[:, j]), column.partition.edges,
                                  np.concatenate([[0.0], np.cumsum(column.mass)]))
                errors[signed].append(np.abs(below - (np.arange(n) + 0.5) / n).max())
    assert np.mean(errors[True]) < 0.75 * np.mean(errors[False])


# Behind the release


@pytest.fixture(scope="module")
def made():
    return tm.synthesize(table(300), SCHEMA, tm.Budget(1.0), rng=np.random.default_rng(1))


@pytest.mark.nightly
def test_all_kinds_of_numbers_are_measured_by_signs_and_come_out(made, tmp_path):
    assert [type(look.query) for look in made.release.looks] == [Signs] * 5 + [Contrasts]
    rows = made.sample(300, rng=np.random.default_rng(0))
    assert rows["pay"].isna().any()
    assert (rows["gain"] == 0).mean() > 0.4
    made.save(tmp_path / "m.tm")
    again = tm.load(tmp_path / "m.tm")
    np.testing.assert_array_equal(again.release.means, made.release.means)
    assert again.release.names(SCHEMA.coordinates) == made.release.names(SCHEMA.coordinates)
    assert "sign cos(1 pi place of age)" in made.names
    # Means and deviations are those of signs.
    frame = made.to_frame("pandas").set_index("name")
    codes = made.release.looks[1].query.evaluate(SCHEMA.to_cube(table(300)))
    assert abs(frame.loc["sign cos(1 pi place of age)", "mean"] - codes[:, 0].mean()) < 4 * frame["deviation"].iloc[0]


@pytest.mark.nightly  # By day test_report.py and test_preview.py have those of other questions.
@pytest.mark.usefixtures("unpainted")
def test_reports_and_previews_tell_signs(made, tmp_path):
    page = report.write(made, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "first: signs of cosines of 5 columns of numbers" in page
    assert "shares on one side of signs" in page
    told = str(preview(300, SCHEMA, tm.Budget(1.0)))
    assert "share of the rows in half of the range" in told
    assert "of 5 numbers by the signs of 5 cosines" in told
    half = {each.column: each.error / made.release.looks[0].deviation
            for each in preview(300, SCHEMA, tm.Budget(1.0)).outlook.columns
            if each.what == "share of the rows in half of the range"}
    beside = 25.0 * 5.0**0.5  # one special or missing value
    assert half == pytest.approx({"size": 50.0, "age": 50.0, "gain": beside, "pay": beside, "day": 50.0})


@pytest.mark.nightly
def test_error_bars_hold_the_truth(made):
    held = table(300)
    for statistic in (lambda rows: rows["size"].mean(), lambda rows: rows["age"].mean()):
        answer = made.error_bars(statistic)
        assert abs(float(answer.values) - statistic(held)) <= float(np.ravel(answer.error.worst)[0])


def test_the_noise_of_functions_is_that_of_their_fit():
    query = of_signs(4, 64, 1)
    functions = np.column_stack([query.values, np.ones(65)]).T.astype(float)
    np.testing.assert_allclose(query.noise_of(functions), [1.0, 1.0, 1.0, 1.0, 1.0, 0.0], atol=1e-9)
    mixed = np.random.default_rng(0).normal(size=65)
    known = np.column_stack([np.ones(65), query.values])
    np.testing.assert_allclose(query.noise_of(mixed), np.linalg.norm(np.linalg.lstsq(known, mixed, rcond=None)[0][1:]))


@pytest.mark.parametrize("special", [0, 1, 2])
def test_the_greatest_noise_is_that_of_half_of_the_ordinary_rows(special):
    query = of_signs(5, 64, special)
    # The share of the rows at which the first cosine is positive, as the signs tell it.
    first = np.pad((signs(0, 64, 1)[:, 0] == 1).astype(float), (special, 0))
    assert query.greatest_noise == pytest.approx(query.noise_of(first[None])[0], rel=1e-9)


@pytest.mark.parametrize("special", [1, 2])
def test_the_noise_in_the_share_of_a_special_value_is_half_of_its_sign_s(special):
    query = of_signs(5, 64, special)
    column = tm.Column("x", 0, 10, special=tuple(range(90, 90 + special)))
    mean, half, share = expected._of_look(Measurement(query, 1.0, None, 0.01), column)
    assert (mean.what, half.what, share.what) == (
        "mean", "share of the rows in half of the range", "share of a special or missing value")
    assert half.error == pytest.approx(0.25 * np.sqrt(4.0 + special), rel=1e-12)
    only = np.zeros(special + 64)
    only[0] = 1.0
    assert share.error == pytest.approx(query.noise_of(only[None])[0], rel=1e-9) == pytest.approx(0.5)


@pytest.mark.parametrize("held", [contrasts(5), signs(1, 6, 2), decoding(4)])
def test_what_caches_give_to_everybody_cannot_be_changed(held):
    with pytest.raises(ValueError, match="read-only"):
        held[0, 0] = 7
