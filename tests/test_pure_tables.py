"""Tables at delta = 0: contrasts under l-infinity noise, their sensitivities, and what is made of them."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import BudgetError
from trigmech.evaluation import statistics
from trigmech.functions.contrasts import contrasts, decoded, decoding
from trigmech.functions.partition import columns_of
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import PublicFacts
from trigmech.mechanisms.table import TableMechanism
from trigmech.planning.contrasted import deviation_of
from trigmech.planning.dependence import design_dependence
from trigmech.planning.shares import Shares, planned_shares
from trigmech.planning.tables import plan_tables
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import SimulatedNoise, lattice_step
from trigmech.queries.base import moved
from trigmech.queries.one_way import Contrasts
from trigmech.reconstruction.dependence import shrunk_contrasts, shrunk_products
from trigmech.report import page as report
from trigmech.report import sections as report_sections
from trigmech.report.dependences import dependences_of
from trigmech.report.preview import preview

# Two binary columns, three and five categories, a number of three levels beside an indicator, a continuous number.
LEVELS = ((0, (-1.0, 1.0)), (1, (-1.0, 1.0)), (11, (-1.0, 0.0, 1.0)))
MIXED = Domain(13, (OneHotGroup((2, 3, 4), True), OneHotGroup((5, 6, 7, 8, 9), True), OneHotGroup((10,), False, 11)),
               LEVELS)


def random_rows(n, rng, domain=MIXED):
    rows = rng.uniform(-1.0, 1.0, (n, domain.d))
    for coordinate, levels in domain.levels:
        rows[:, coordinate] = rng.choice(levels, n)
    for group in domain.groups:
        k = len(group.coordinates)
        chosen = rng.integers(0, k + (not group.complete), n)
        rows[:, list(group.coordinates)] = np.eye(k + 1)[chosen][:, :k]
        if group.value is not None:
            rows[chosen < k, group.value] = 0.0
    return rows


class Noted(Session):
    """A session that notes what is to be drawn, and answers as it did the first time: the rounds after see the same."""

    def __init__(self):
        self.answers, self.seen = [], []

    def charge(self, *charges):
        self.seen = []

    def draw(self, values, charge):
        self.seen.append((charge, values))
        if len(self.answers) < len(self.seen):
            self.answers.append(values)
        return self.answers[len(self.seen) - 1]


def distances(mechanism, design, session, rows, other):
    """How far each vector moves between two tables, in the norm of its charge, in units of what is charged for."""
    found = []
    for table in (rows, other):
        mechanism.run(PrivateRows.of(table, MIXED), design, session, np.random.default_rng(0))
        found.append(session.seen)
    norms = {"L1": lambda moves: np.abs(moves).sum(), "Linf": lambda moves: np.abs(moves).max(initial=0.0)}
    return {charge.purpose: norms[charge.norm](first - second) * design.n
            for (charge, first), (_, second) in zip(*found, strict=True)}


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 7, 12, 16, 33, 64])
def test_contrasts_are_bounded_and_determine_frequencies(cells):
    values, rng = contrasts(cells), np.random.default_rng(cells)
    assert values.shape == (cells, cells - 1)
    assert set(values.ravel().tolist()) <= {-1, 0, 1}
    frequencies = rng.dirichlet(np.ones(cells))
    np.testing.assert_allclose(decoded(frequencies @ values), frequencies, atol=1e-12)
    # Hadamard's (cells - 1) / cells is the least there is.
    assert (decoding(cells) ** 2).sum() <= 1.6
    if cells in (2, 4):
        assert (decoding(cells) ** 2).sum() == pytest.approx((cells - 1) / cells)


@pytest.mark.parametrize(("epsilon", "law"), [(0.5, "linf"), (500.0, "laplace")])
def test_no_neighbour_moves_what_is_drawn_further_than_is_charged_for(epsilon, law):
    rng, n = np.random.default_rng(5), 30
    mechanism = TableMechanism()
    design = mechanism.plan(PublicFacts(n, MIXED, tm.Budget(epsilon, 0.0)))
    assert design.measured.dependence.law == law
    session, rows = Noted(), random_rows(n, rng)
    furthest = dict.fromkeys((charge.purpose for charge in design.charges), 0.0)
    for attempt in range(30):
        other = rows.copy()
        other[0] = random_rows(1, rng)[0]
        if attempt % 3 == 0:
            # All columns of one row at their opposite ends.
            other[0, [0, 1, 12]] = -rows[0, [0, 1, 12]]
        for purpose, distance in distances(mechanism, design, session, rows, other).items():
            furthest[purpose] = max(furthest[purpose], distance)
    assert max(furthest.values()) <= 1.0 + 1e-9
    # The search has power: no more noise is drawn than there must be, where contrasts are measured.
    assert furthest["columns, contrasts"] == pytest.approx(1.0)
    # With much noise the number has signs, which are drawn with the contrasts, and with little noise counts.
    assert ("columns" in furthest) == (law == "laplace")
    assert furthest.get("columns", 1.0) == pytest.approx(1.0)
    if law == "linf":
        assert furthest["dependence"] == pytest.approx(1.0)


def test_charges_are_for_these_distances_and_keep_to_epsilon():
    for n, epsilon in itertools.product((2, 50, 10**6), (1e-3, 0.2, 1.0, 30.0)):
        for domain in (MIXED, Domain(3, (), ((0, (-1.0, 1.0)), (1, (-1.0, 1.0)), (2, (-1.0, 1.0))))):
            design = plan_tables(n, domain, tm.Budget(epsilon, 0.0))
            for charge in design.charges:
                step = lattice_step(charge.scale) if charge.law == "linf" else 0.0
                assert charge.sensitivity >= 1.0 / n + step
                assert charge.norm == {"linf": "Linf", "laplace": "L1"}[charge.law]
            spent = sum(charge.pure_epsilon for charge in design.charges)
            assert epsilon * (1.0 - 1e-6) <= spent <= epsilon


def test_what_noise_is_too_small_for_is_refused_before_the_charge():
    with pytest.raises(BudgetError, match="too small"):
        plan_tables(100, MIXED, tm.Budget(1e-9, 0.0), Shares(1e-6, 0.0, 0.0))


@pytest.mark.daily(4)
@pytest.mark.parametrize(("law", "entries"), [("linf", 1), ("linf", 17), ("laplace", 17), ("gaussian", 17)])
def test_deviations_are_those_of_the_noise(law, entries):
    noise = SimulatedNoise(np.random.default_rng(3))
    drawn = np.array([getattr(noise, law)(np.zeros(entries), 2.0) for _ in range(20_000)])
    assert drawn.std() == pytest.approx(2.0 * deviation_of(law, entries), rel=0.03)


def by_contrasts(design):
    """Which columns the first round measures by contrasts."""
    return [isinstance(look.query, Contrasts) for look in design.looks]


@pytest.mark.parametrize(("columns", "n", "epsilon", "contrasted", "law"), [
    ([2] * 16, 20_000, 0.2, 16, "linf"), ([2] * 16, 20_000, 50.0, 16, "linf"), ([40] * 8, 20_000, 20.0, 0, "laplace"),
    ([2, 2, 2, 40, 40], 20_000, 20.0, 3, "laplace"), ([2, 9, 16, 40] * 4, 20_000, 0.5, 8, "linf"),
])
def test_few_categories_are_measured_by_contrasts_and_many_by_counts(columns, n, epsilon, contrasted, law):
    ends = np.cumsum([0, *columns])
    groups = [OneHotGroup(tuple(range(a, b)), True) for a, b in itertools.pairwise(ends.tolist())]
    domain = Domain(int(ends[-1]), groups)
    design = plan_tables(n, domain, tm.Budget(epsilon, 0.0))
    assert (sum(by_contrasts(design)), design.dependence.law) == (contrasted, law)
    assert not any(by_contrasts(plan_tables(n, domain, tm.Budget(epsilon, 1e-6))))


class Thrown:
    """Noise of any size: what comes after the charge must live with it."""

    simulated = True

    def __init__(self, size, rng):
        self.size, self.rng = size, rng

    def linf(self, values, scale):
        return values * 0.0 + self.size * self.rng.choice([-1.0, 0.0, 1.0], np.shape(values))

    laplace = gaussian = linf


@pytest.mark.daily(3)
@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 1e9, 1e300])
@pytest.mark.parametrize("epsilon", [0.5, 1e3])
def test_whatever_is_drawn_a_table_comes_out(size, epsilon):
    rng, mechanism, budget = np.random.default_rng(2), TableMechanism(points=64), tm.Budget(epsilon, 0.0)
    # With a column of a single category.
    domain = Domain(14, (*MIXED.groups, OneHotGroup((13,), True)), LEVELS)
    design = mechanism.plan(PublicFacts(40, domain, budget))
    session = Session(Ledger(budget), Thrown(size, rng))
    release = mechanism.run(PrivateRows.of(random_rows(40, rng, domain), domain), design, session, rng)
    made = mechanism.reconstruct(release, design, rng)
    domain.check(made.distribution.points)
    assert (np.abs(made.distribution.points) <= 1.0).all()
    assert len(release.means) == len(release.deviations) == len(made.target)


def binary_table(n, d, rng):
    """Columns that depend on one hidden number."""
    hidden = rng.normal(size=(n, 1))
    return (hidden + rng.normal(size=(n, d)) > np.linspace(-0.5, 1.0, d)).astype(int)


def test_tables_of_binary_columns_are_close_in_pairs_and_names_say_what_was_measured():
    rng = np.random.default_rng(8)
    table = binary_table(6_000, 8, rng)
    schema = tm.Schema([tm.Column(f"c{j}", 0, 1, "binary") for j in range(8)])
    made = tm.synthesize(table, schema, tm.Budget(0.5, 0.0), tm.TableMechanism(), rng)
    sampled = np.asarray(made.sample(6_000)).astype(int)

    def variation(rows):
        pairs = itertools.combinations(range(8), 2)
        return np.mean([0.5 * np.abs(np.subtract(*(np.bincount(2 * t[:, j] + t[:, h], minlength=4) / len(t)
                                                   for t in (table, rows)))).sum() for j, h in pairs])

    shuffled = np.column_stack([rng.permutation(column) for column in table.T])
    assert variation(sampled) < 0.02 < 0.08 < variation(shuffled)
    assert len(made.names) == len(made.means) == len(made.deviations) == made.release.K == 16 + 28
    assert "sign cos(1 pi cell of c0) * sign cos(1 pi cell of c7)" in made.names
    assert set(made.release.kinds) == {"column", "product of contrasts"}
    # The noisy values themselves are kept, beside the frequencies that they imply.
    look = made.release.looks[0]
    np.testing.assert_allclose(look.means @ contrasts(2), look.values, atol=1e-12)
    np.testing.assert_allclose(look.deviations, 0.5 * look.deviation)


def test_a_real_release_is_certified_and_kept_to_its_epsilon():
    schema = tm.Schema([*(tm.Column(f"c{j}", 0, 1, "binary") for j in range(3)), tm.Column("x", 0, 1)])
    rng = np.random.default_rng(1)
    table = np.column_stack([binary_table(60, 3, rng), rng.random(60)])
    made = tm.synthesize(table, schema, tm.Budget(1.0, 0.0), tm.TableMechanism(points=64))
    assert 0.99 < made.ledger.proved_epsilon <= 1.0
    assert {charge.law for charge in made.ledger.charges} >= {"linf", "laplace"}


def test_cells_of_contrasts_are_few_where_the_noise_is_large_whatever_the_look_released():
    many = Domain(180, [OneHotGroup(tuple(range(45 * j, 45 * j + 45)), True) for j in range(4)])
    design = plan_tables(100, many, tm.Budget(0.1, 0.0))
    assert design.dependence.law == "linf"
    for mass in (np.full(45, 1.0 / 45.0), np.eye(45)[3]):
        columns = [ReleasedColumn(p, mass, 0.1) for p in design.partitions]
        chosen = design_dependence(design, columns)
        assert sum(each.query.size for each in chosen) <= 6
        assert moved(chosen, "Linf") <= 1.0


def test_shrinkage_uses_that_few_factors_explain_many_products():
    rng, size = np.random.default_rng(4), 20
    loading = rng.uniform(0.2, 0.7, size)
    places = np.array(list(itertools.combinations(range(size), 2)))
    true = loading[places[:, 0]] * loading[places[:, 1]]
    noisy = true + 0.1 * rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), len(true))

    def error(found):
        return np.sqrt(np.mean((found - true) ** 2))

    assert error(shrunk_products(noisy, 0.1, places)) < 0.65 * error(noisy)
    # Of nothing but noise little is left, and exact products stay.
    assert np.sqrt(np.mean(shrunk_products(noisy - true, 0.1, places) ** 2)) < 0.08
    np.testing.assert_allclose(shrunk_products(true, 1e-9, places), true, atol=1e-8)


@pytest.mark.daily(5)
@pytest.mark.parametrize("noise", [0.2, 1.0, 30.0, 1e9, 1e200])
def test_no_noise_of_contrasts_is_taken_for_dependence(noise):
    """A factor for each product would leave about half of the noise, however impossible such products are."""
    rng, size = np.random.default_rng(5), 20
    places = np.array(list(itertools.combinations(range(size), 2)))
    scales = rng.uniform(0.3, 1.0, len(places))
    left = [shrunk_contrasts(noise * rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), len(places)), noise, places, scales)
            for _ in range(60)]
    assert np.sqrt(np.mean(np.square(left))) < 0.1 * min(noise, 1.0)
    assert (np.abs(left) <= scales).all()


def test_a_matrix_of_noise_that_no_dependence_reaches_is_not_taken_for_one():
    size = 12
    places = np.array(list(itertools.combinations(range(size), 2)))
    # All products of one sign: the largest eigenvalue is 4.8 times that of the noise, whose deviation is 10 times the
    # largest true product.
    values, scales, noise = np.full(len(places), 3.0), np.full(len(places), 0.1), 1.0
    assert np.abs(shrunk_contrasts(values * noise, noise, places, scales)).max() < 0.2 * scales.max()
    # Where dependence can be as large as that, it is found.
    found = shrunk_contrasts(values * 0.01, 0.01, places, scales)
    np.testing.assert_allclose(found, 0.03, rtol=0.1)



def test_dependence_that_is_clear_of_the_noise_of_contrasts_is_kept():
    rng, size = np.random.default_rng(6), 20
    places = np.array(list(itertools.combinations(range(size), 2)))
    scales = np.ones(len(places))
    loading = rng.uniform(0.2, 0.9, size)
    factor, few = loading[places[:, 0]] * loading[places[:, 1]], np.zeros(len(places))
    few[[3, 40, 77]] = 0.6, -0.7, 0.5
    for true in (factor, few):
        errors = {shrunk_contrasts: [], shrunk_products: []}
        for _ in range(40):
            noisy = true + 0.1 * rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), len(true))
            errors[shrunk_contrasts].append(np.sum((shrunk_contrasts(noisy, 0.1, places, scales) - true) ** 2))
            errors[shrunk_products].append(np.sum((shrunk_products(noisy, 0.1, places) - true) ** 2))
        assert np.mean(errors[shrunk_contrasts]) < 0.8 * np.mean(errors[shrunk_products])
        for noise in (1e-6, 1e-40):
            np.testing.assert_allclose(shrunk_contrasts(true, noise, places, scales), true, rtol=1e-4, atol=1e-4)
    # Columns that hardly vary can hardly depend on others: a constant one not at all.
    assert not shrunk_contrasts(few, 0.1, places, np.zeros(len(places))).any()


def test_columns_of_much_pure_noise_stay_independent():
    """The released columns decide then, so pairs are about as good as those of independent columns."""
    rng = np.random.default_rng(3)
    rows = (rng.random((600, 8)) < np.linspace(0.3, 0.7, 8)).astype(int)
    schema = tm.Schema([tm.Column(f"c{j}", kind="categorical", categories=(0, 1)) for j in range(8)])
    correlations = []
    for seed in range(6):
        made = tm.synthesize(rows, schema, tm.Budget(1.0), tm.TableMechanism(shares=Shares(0.97, 0.0, 0.0)),
                             np.random.default_rng(seed)).sample(600, np.random.default_rng(seed))
        correlations.append(np.corrcoef(made.T)[np.triu_indices(8, 1)])
    # Chance alone makes .041 of 600 rows; factors for single products make .24 of noise.
    assert np.sqrt(np.mean(np.square(correlations))) < 0.1


# Behind the release: whatever is made of tables is made of contrasts too


@pytest.fixture(scope="module")
def contrasted():
    """Four columns of few values at delta = 0: region follows band, smokes is alone."""
    rng, n = np.random.default_rng(6), 3_000
    band = rng.integers(0, 3, n)
    frame = pd.DataFrame({"band": np.array(["low", "middle", "high"])[band], "smokes": rng.integers(0, 2, n),
                          "region": np.where(band == 2, "south", rng.choice(["north", "east"], n)),
                          "rooms": rng.integers(1, 5, n)})
    schema = tm.Schema([tm.Column("band", kind="ordinal", categories=("low", "middle", "high")),
                        tm.Column("smokes", 0, 1, "binary"),
                        tm.Column("region", kind="categorical", categories=("north", "east", "south")),
                        tm.Column("rooms", 1, 4, "integer")])
    made = tm.synthesize(frame, schema, tm.Budget(2.0), TableMechanism(), np.random.default_rng(0))
    assert made.release.products.query.contrasted
    assert any(isinstance(look.query, Contrasts) for look in made.release.looks)
    return frame, made


@pytest.mark.nightly
@pytest.mark.usefixtures("unpainted")
def test_reports_and_previews_tell_contrasts(contrasted, tmp_path, monkeypatch):
    monkeypatch.setattr(report_sections, "MOST_QUERIES", 60)
    _, made = contrasted
    page = report.write(made, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "products of contrasts of the cells of 6 pairs" in page
    strongest = dependences_of(made.release, made.fit)[0]
    assert {made.schema.names[strongest.first], made.schema.names[strongest.second]} == {"band", "region"}
    told = preview(3_000, made.schema, tm.Budget(2.0), mechanism=TableMechanism())
    assert "product of contrasts of the cells of two columns" in str(told)
    # What is expected of the noise is what it is.
    expected = {look.query.partition.size: look.deviation * look.query.greatest_noise for look in made.release.looks}
    found = [each.error / 100.0 for each in told.outlook.columns if each.what.startswith(("frequency", "share"))]
    assert any(np.isclose(one, other) for one in found for other in expected.values())


def test_rehearsals_of_contrasts_have_their_plan_and_noise(contrasted):
    _, made = contrasted
    design = dataclasses.replace(made, design=None).planned.measured
    of_design, of_release = ([look.deviation for look in one.looks] for one in (design, made.release))
    np.testing.assert_allclose(of_design, of_release)
    (again,), was = design_dependence(design, made.release.columns), made.release.products
    assert again.query.contrasted
    assert again.weight == was.weight
    assert all(map(np.array_equal, again.query.maps, was.query.maps))
    assert design.deviation(design.dependence, again.query.size) == pytest.approx(was.noise)


@pytest.mark.nightly
def test_error_bars_of_contrasts_hold_and_are_not_much_wider(contrasted):
    frame, made = contrasted
    statistic = statistics.marginal(made.schema, ("band", "region"), 3)
    answers = made.error_bars(statistic)
    truth = statistic(made.schema.decode(made.schema.to_cube(frame)))
    assert (np.abs(answers.values - truth) <= answers.error.bound).mean() >= 0.75
    assert answers.error.bound.max() < 0.15


def test_rows_of_contrasts_follow_what_is_given(contrasted):
    frame, made = contrasted
    rows = made.sample(500, np.random.default_rng(1), given={"region": "south"})
    assert (rows.region == "south").all()
    assert (rows.band == "high").mean() > (frame.band == "high").mean() + 0.3


def test_deviations_are_those_of_the_noise_of_contrasts(contrasted):
    _, made = contrasted
    rng = np.random.default_rng(2)
    look = next(look for look in made.release.looks
                if isinstance(look.query, Contrasts) and look.query.partition.intervals > 2)
    drawn = [dataclasses.replace(look, values=look.deviation * rng.normal(size=len(look.values))).means
             for _ in range(4_000)]
    k = len(look.query.partition.indicators)
    np.testing.assert_allclose(np.std(drawn, axis=0), look.deviations, rtol=0.06)
    below = np.cumsum(np.array(drawn)[:, k:], axis=1)[:, :-1]
    assert np.std(below, axis=0).max() == pytest.approx(look.deviation * look.query.greatest_noise, rel=0.06)
    places = np.arange(look.query.partition.size)
    spread = np.array(drawn) @ places
    assert np.std(spread) == pytest.approx(look.deviation * float(look.query.noise_of(places)), rel=0.06)


def test_each_column_is_that_of_its_own_look_whether_measured_by_contrasts_or_not():
    schema = tm.Schema([tm.Column("a", kind="categorical", categories=list("uvw")), tm.Column("x", 0, 1),
                        tm.Column("b", kind="categorical", categories=list("pq")), tm.Column("y", 0, 5)])
    rng, n = np.random.default_rng(0), 500
    table = pd.DataFrame({"a": rng.choice(list("uvw"), n, p=[0.1, 0.2, 0.7]), "x": rng.random(n) ** 3,
                          "b": rng.choice(list("pq"), n, p=[0.9, 0.1]), "y": 5.0 * rng.random(n) ** 0.3})
    made = tm.synthesize(table, schema, tm.Budget(100.0), TableMechanism(points=50), rng)
    assert by_contrasts(made.design.measured) == [True, False, True, False]
    looks = made.release.measurements[:4]
    assert [look.query.column for look in looks] == [0, 1, 2, 3]
    np.testing.assert_allclose(made.release.columns[0].mass, [(table.a == each).mean() for each in "uvw"], atol=0.1)
    np.testing.assert_allclose(made.release.columns[2].mass, [(table.b == each).mean() for each in "pq"], atol=0.1)


def test_columns_of_two_positions_leave_the_budget_to_their_pairs():
    def look(categories, epsilon=0.05, count=16):
        schema = tm.Schema([tm.Column(f"c{j}", kind="categorical", categories=tuple(range(categories)))
                            for j in range(count)])
        return planned_shares(20_000, columns_of(schema.domain), epsilon, False).look

    assert 0.32 <= look(2) <= 0.42
    assert look(2) < look(3) < look(4) == look(9) == pytest.approx(0.97)
    # With little noise all are alike.
    assert look(2, 5.0) == look(9, 5.0)
    number = [tm.Column("x", 0, 1), tm.Column("y", 0, 1)]
    assert planned_shares(200, columns_of(tm.Schema(number).domain), 0.05, False).look == pytest.approx(0.97, abs=0.05)


def test_pairs_of_binary_columns_are_better_so():
    rng = np.random.default_rng(0)
    common = rng.random((6_000, 1)) < 0.4
    rows = np.where(rng.random((6_000, 12)) < 0.75, common, rng.random((6_000, 12)) < 0.3).astype(int)
    schema = tm.Schema([tm.Column(f"c{j}", kind="categorical", categories=(0, 1)) for j in range(12)])
    errors = []
    for shares in (None, Shares(0.9, 0.0, 0.0)):
        made = [tm.synthesize(rows, schema, tm.Budget(0.15), tm.TableMechanism(shares=shares), np.random.default_rng(
            seed)).sample(6_000, np.random.default_rng(seed)) for seed in range(3)]
        errors.append(np.mean([np.abs((rows.T @ rows - sample.T @ sample) / 6_000).mean() for sample in made]))
    assert errors[0] < 0.8 * errors[1]
