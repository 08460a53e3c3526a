"""Laws of further lines that were drawn at random from the whole package, and of their siblings."""

import math
from dataclasses import replace
from itertools import combinations, permutations, product
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.polynomial.chebyshev import chebval
from test_exact_advice import SCHEMA, step
from test_queries import queries

import trigmech as tm
from trigmech import workload
from trigmech._arrays import SAME
from trigmech.cli import decision, progress
from trigmech.domain import Domain
from trigmech.errors import BudgetError
from trigmech.evaluation import statistics
from trigmech.evaluation.features import _of_column
from trigmech.functions.coordinate_ascent import _best_abscissa
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.inference.drawing import _Fits
from trigmech.inference.estimate import around
from trigmech.mechanisms.base import PublicFacts
from trigmech.parts.answers import nothing
from trigmech.parts.steps import repeated
from trigmech.planning import search
from trigmech.privacy.budget import Charge
from trigmech.reconstruction import densities, density_models
from trigmech.reconstruction.frequencies import share_of_one
from trigmech.reconstruction.mixing import _Asked
from trigmech.reconstruction.pieces import PRICE, joined_to_pieces
from trigmech.report import advised
from trigmech.report.statement import Table
from trigmech.tables.writer import _cells_of
from trigmech.workload.family import is_symmetric

# Each of several, and not the first alone


@pytest.mark.parametrize("good", [0, 1, 2, 3])
def test_the_first_sentences_count_all_pairs(good):
    pairs = ("a and b", "a and c", "b and c")
    smallest = {"a": 0.5, "b": 3.0} | {name: 2.0 if k < good else None for k, name in enumerate(pairs)}
    said = advised._sentences([step(1.0, pairs=pairs), step(5.0, pairs=pairs)], SCHEMA, smallest)
    assert said[1] == ("All pairs of columns are expected to be good from ε = 2 on." if good == 3 else
                       f"{good} of 3 pairs of columns are expected to be good at ε = 5; the others would need more.")


@pytest.mark.parametrize("unclear", [(), (0,), (2,), (0, 1, 2)])
def test_further_rows_ask_for_each_pair_s_table_and_again_for_those_in_noise(unclear):
    cells = np.arange(3)
    tables = [SimpleNamespace(query=SimpleNamespace(columns=pair, maps=[cells, cells], size=9),
                              deviation=1.0 if k in unclear else 1e-6)
              for k, pair in enumerate(combinations(range(3), 2))]
    columns = [SimpleNamespace(mass=np.full(3, 1.0 / 3.0))] * 3
    release = SimpleNamespace(columns=columns, tables=tables, triples=(), products=None, n=1_000)
    rows = np.random.default_rng(0).integers(0, 3, (50, 3)).astype(np.int32)
    asked = _Asked(release, SimpleNamespace(ask=lambda objective: None), rows, np.full(50, 0.02), 1.0)
    assert len(asked.deviations) == 3 + len(unclear)


@pytest.mark.parametrize("kept", [[], [0], [1, 2], [0, 1, 2]])
def test_drawn_rows_are_asked_for_each_mean_and_each_kept_product(kept):
    rng, least = np.random.default_rng(0), 1e-3
    single, products = [rng.random((2, 5)), rng.random((3, 5))], rng.random((3, 5))
    single[1][2] = 0.5  # It does not vary.
    factors = np.array([[0, 1, 0, 0], [0, 1, 1, 2], [0, 1, 0, 2]])
    drawing = SimpleNamespace(_single=single, _products=products, _kept=np.isin(np.arange(3), kept),
                              _smooth=SimpleNamespace(factors=factors))
    asked = {}

    def ask(columns, features, targets, weights):
        for own in zip(columns.tolist(), features.tolist(), targets, weights, strict=True):
            assert (*own[0], *own[1]) not in asked
            asked[(*own[0], *own[1])] = own[2:]

    _Fits._ask_smooth(drawing, SimpleNamespace(products=ask), 3, least)
    expected = {(j, a): own for j, moments in enumerate(single) for a, own in enumerate(moments)}
    expected |= {tuple(factors[k].tolist()): products[k] for k in kept}
    assert asked.keys() == expected.keys()
    for key, own in expected.items():
        assert asked[key] == (own[3], pytest.approx(1.0 / max(own.std(), least) ** 2, rel=1e-12))


# Numbers


@pytest.mark.parametrize("size", [-1e150, -3.0, -1e-140, 1e-140, 3.0, 1e150])
def test_values_of_either_sign_have_no_interval_if_their_deviation_is_that_of_rounding(size):
    values = np.full(4, size)
    deviations = abs(size) * np.array([0.0, 0.99 * SAME, 1.01 * SAME, 1.0])
    estimate = around(values, deviations**2, 2.0, np.zeros(4), 0.95, True)
    assert estimate.flat.tolist() == [True, True, False, False]
    for each in (estimate.deviation, estimate.low, estimate.high):
        assert np.isnan(each).tolist() == [True, True, False, False]
    np.testing.assert_allclose(estimate.high[2:] - estimate.low[2:], 4.0 * deviations[2:])


@pytest.mark.parametrize("deviation", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_two_intervals_are_parted_if_that_explains_more_than_the_price_of_a_piece(deviation, share):
    # One piece leaves half of the squared difference, in variances of the noise.
    least = math.sqrt(2.0 * PRICE) * deviation
    for factor, parted in ((0.0, False), (0.99, False), (1.01, True)):
        apart = factor * least * np.array([-0.5, 0.5])
        rest = 2.0 * share
        ends, masses = joined_to_pieces(share + apart, np.eye(2), rest, deviation, False)
        assert ends.tolist() == ([0, 1, 2] if parted else [0, 2])
        assert masses.sum() == pytest.approx(rest, rel=1e-12)


@pytest.mark.parametrize("target", [(100.0, 0.01, 1.0), (1.0, 1.0, 1.0), (3.0, 1e6, 0.2)])
@pytest.mark.parametrize("greedy", [True, False])
def test_refined_weights_are_those_that_no_change_improves(target, greedy):
    allocation = SimpleNamespace(GREEDY=greedy, normal=lambda weights: weights, changes=lambda step: [
        np.where(np.arange(3) == j, factor, 1.0) for j in range(3) for factor in (step, 1.0 / step)])

    def trial(_, weights):
        return SimpleNamespace(allocation=allocation, weights=weights,
                               score=float((np.log(weights / np.array(target)) ** 2).sum()))

    found = search._Search.refined(SimpleNamespace(weighted=True, _trial=trial), trial(allocation, np.ones(3)))
    # The last step is the first one below 1.5 by roots that is above 1.1.
    last = 1.5**0.25
    for factors in allocation.changes(last):
        assert trial(allocation, found.weights * factors).score >= found.score - search.LEAST_REFINEMENT
    alone = trial(allocation, np.ones(3))
    assert search._Search.refined(SimpleNamespace(weighted=False, _trial=trial), alone) is alone


def test_the_noise_of_correlations_of_ranks_is_that_of_products_over_their_mean():
    """The first score of ranks is a cosine, whose square has the mean 1/2; contrasts tell no correlation."""
    assert queries()["products of ranks"].correlation_noise == 2.0
    assert queries()["products of contrasts"].correlation_noise == math.inf
    assert math.isfinite(queries()["directions"].correlation_noise)


class Library:
    """What effects of lumps need: models and shapes."""

    def __init__(self, models, shapes):
        self.kinds, self.lumps = [models], SimpleNamespace(shapes=shapes)


@pytest.mark.parametrize("bases", [1, 3])
def test_effects_of_lumps_are_products_of_what_they_move_with_what_is_measured(bases):
    rng = np.random.default_rng(bases)
    factor, spread, shapes = rng.normal(size=(7, 5)), rng.random((5, 4)), rng.random((6, 5))
    base, cosines = rng.random((bases, 4)), rng.normal(size=(bases, 4, 3))
    models = density_models.Models.of((base, cosines, np.full(bases, 1.0 / bases)), factor, spread,
                                      (np.array([1.0, 2.0]), np.array([0.5])))
    library = Library(models, shapes)
    for b in range(bases):
        for r in range(2):
            moved, of_base, between, effects = densities._effects.__wrapped__(library, 0, b, r)
            seen = factor @ spread @ base[b]
            np.testing.assert_allclose(moved, (factor @ shapes.T).T @ seen, rtol=1e-10)
            np.testing.assert_allclose(of_base, (factor @ spread).T @ seen, rtol=1e-10)
            assert between == pytest.approx(seen @ seen, rel=1e-10)
            # A lump takes its mass from the base.
            alone = (factor @ shapes.T).T - seen
            np.testing.assert_allclose(effects, alone @ (factor @ spread @ cosines[b]) @ models.loadings[b, r].T,
                                       rtol=1e-9, atol=1e-9)


# Output


@pytest.mark.parametrize("numeric", [None, (), (1,), (0, 2)])
def test_printed_numbers_stand_right_and_texts_left(numeric, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    rows = [["name", "1", "x"], ["other", "1,000,000", "longer"]]
    heads = ["a heading", "a longer heading", "a third one"]
    table = Table("Caption", heads, rows, numeric)
    decision._print(table, "")
    lines = capsys.readouterr().out.splitlines()
    head, own = (next(line for line in lines if text in line) for text in ("a longer heading", "1,000,000"))
    for at, text in enumerate(heads):
        start = head.index(text)
        cell = rows[1][at].rjust(len(text)) if at in table.numeric else rows[1][at].ljust(len(text))
        assert own.ljust(200)[start : start + len(text)] == cell


class Bar:
    """A bar that notes what it is told."""

    def __init__(self, *columns, **options):
        self.told = []
        Bar.last = self

    def __enter__(self):
        return self

    def __exit__(self, *problem):
        """End."""

    def add_task(self, *_, **options):
        return 7

    def update(self, task, **options):
        self.told.append((task, options))


def test_a_bar_is_told_the_step_how_much_is_done_and_the_total_if_it_is_known(monkeypatch):
    import rich.progress

    monkeypatch.setattr(rich.progress, "Progress", Bar)
    with progress.progress_bar(False) as report:
        report("measuring", 3, 10)
        report("fitting", 5, 0)
    assert Bar.last.told == [(7, {"description": "measuring", "completed": 3, "total": 10}),
                             (7, {"description": "fitting", "completed": 5, "total": None})]


@pytest.mark.parametrize("values", [
    np.array([0.5, -0.0, 0.0, 0.5] * 5), np.array([1, 2, 1, 10**12] * 5), np.array([1, 2, 1, 7] * 5),
    np.array(["2020-01-01", "2021-05-05"] * 10, dtype="datetime64[us]"), np.array(["a", None] * 10, dtype=object)])
def test_cells_of_few_values_are_made_once_each(values):
    cells, codes = _cells_of(values)
    assert len(cells) == len({repr(value) for value in values.tolist()})
    assert sorted(set(codes.tolist())) == list(range(len(cells)))
    missing = np.arange(len(values)) == 3
    again, codes = _cells_of(np.ma.array(values, mask=missing))
    assert again[-1] is None
    assert (codes == len(again) - 1).tolist() == missing.tolist()


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-3, 0.1, 1.0, 1e6])
@pytest.mark.parametrize("measured", [-1.0, 0.0, 0.3, 0.5, 0.7, 1.0, 2.0])
def test_the_shares_of_two_values_sum_to_1(measured, noise):
    share = share_of_one(measured, noise)
    assert 0.0 <= share <= 1.0
    assert share + share_of_one(1.0 - measured, noise) == pytest.approx(1.0, rel=1e-12)
    if measured == 0.5:
        assert share == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("side", [-1.0, 1.0])
@pytest.mark.parametrize("shape", [(1.0, -0.5, 0.1), (0.4, 0.1, -0.2), (0.9, -0.3, 0.03), (0.0, 0.0, 1.0),
                                   (8.923, 0.0, -1.0), (8.99, 0.0, -1.0)])
def test_the_best_place_of_a_column_is_found_near_both_ends_and_in_any_units(shape, side, size):
    """The mirrored series has its mirrored best place."""
    c = size * np.array([0.0, *shape]) * side ** np.arange(4)
    grid = np.cos(np.pi * np.arange(17) / 16)
    found = _best_abscissa(c, 3, grid, np.empty(17))
    every = np.cos(np.linspace(0.0, np.pi, 100_001))
    assert chebval(found, c) >= chebval(every, c).max() - 1e-12 * size
    assert -1.0 <= found <= 1.0


@pytest.mark.parametrize("kind", ["integer", "continuous"])
def test_a_number_is_divided_into_16_cells_by_default(kind):
    schema = tm.Schema([tm.Column("x", 0, 160, kind), tm.Column("y", 0, 160, kind)])
    table = schema.decode(np.random.default_rng(0).uniform(-1.0, 1.0, (50, schema.width)))
    for made, asked, shape in ((statistics.frequencies, "x", (16,)), (statistics.marginal, ["x", "y"], (16, 16))):
        found = np.asarray(made(schema, asked)(table))
        assert found.shape == shape
        np.testing.assert_array_equal(found, made(schema, asked, 16)(table))


# Mechanisms


FACTS = PublicFacts(1_000, Domain(2), tm.Budget(1.0, 1e-6), ("a", "b"))


@pytest.mark.parametrize("calibration", ["rigorous", "published"])
@pytest.mark.parametrize(("mechanism", "approximate"), [
    (tm.TrigI, False), (tm.TrigII, True), (tm.ImprovedTrigI, False), (tm.ImprovedTrigII, True)])
def test_the_second_of_each_two_mechanisms_needs_delta_and_has_its_noise(mechanism, approximate, calibration):
    """The published ones draw Laplace noise always, with scales by advanced composition where there is a delta."""
    made = mechanism(calibration=calibration)
    without = replace(FACTS, budget=tm.Budget(1.0))
    if approximate:
        with pytest.raises(BudgetError, match="this mechanism needs delta > 0"):
            made.plan(without)
        first = made.plan(FACTS).charges[0]
        assert first.law == ("gaussian" if calibration == "rigorous" else "laplace")
    else:
        first = made.plan(without).charges[0]
        assert (first.law, first.norm) == ("laplace", "L1")
        assert made.plan(FACTS).charges[0].scale == first.scale
    # A claim that the proof does not hold for is that of a published mechanism alone.
    assert (first.claim is None) == (calibration == "rigorous")


@pytest.mark.parametrize("calibration", ["rigorous", "published"])
def test_the_run_of_a_published_mechanism_is_repeated_though_its_proved_cost_is_above_the_budget(calibration):
    design = tm.design(1_000, tm.Schema.cube(1), tm.Budget(1.0), tm.TrigI(calibration=calibration))
    proved = sum(charge.count * charge.sensitivity / charge.scale for charge in design.charges)
    assert (proved > 1.0 + 1e-9) == (calibration == "published")
    recorder, question = repeated(design)
    assert question is not None
    assert not recorder.draws
    recorder, question = repeated(design, lambda asked, _: nothing(asked, design.n))
    assert question is None
    assert len(recorder.draws) == len(design.charges) == 1


@pytest.mark.parametrize("described", [True, False])
def test_a_column_without_a_schema_has_the_error_of_its_shares_alone(described):
    column = ReleasedColumn(Partition((), 0, np.array([-1.0, 0.0, 1.0])), np.array([0.5, 0.5]), 0.01)
    schema = SimpleNamespace(columns=[SimpleNamespace(categories=("a", "b"))]) if described else None
    release = SimpleNamespace(columns=[column], closer=(), schema=schema, look_at=lambda j: None)
    found = _of_column(release, 0, None, np.random.default_rng(0))
    assert found[1:] == (0.0, 0.0, 0.0)
    assert 0.0 < found[0] < 0.05


@pytest.mark.parametrize(("sensitivity", "scale", "paid"), [
    (1.0, 2.0, True), (2.0, 4.0, True), (0.5, 1.0, True), (0.49, 1.0, False), (0.0, 2.0, False), (0.0, 1e300, False),
    (5e-324, 1.0, False)])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_charge_pays_for_noise_of_the_same_ratio_and_without_a_sensitivity_for_none(law, sensitivity, scale, paid):
    norm = {"laplace": "L1", "gaussian": "L2"}[law]
    own = Charge("it", law, 2.0, 1.0, norm, 1, "proof")
    declared = Charge("it", law, scale, sensitivity, norm, 1, "proof")
    assert own.scale_paid_by(declared) == (2.0 if paid else None)
    # By rounding alone the scale becomes a little larger.
    nearly = replace(declared, sensitivity=sensitivity * (1.0 - 1e-13))
    found = own.scale_paid_by(nearly)
    assert (found is not None and 2.0 < found < 2.0 * (1.0 + 2e-13)) if paid else found is None


FAMILIES = {
    "kernels": workload.GaussianKernels(3, 0, n_queries=10), "pairs": workload.PairKernels(3, 0, 2),
    "second moments": workload.SecondMoments(3), "polynomials": workload.Polynomials(3, 3, 2, seed=0),
    "smooth": workload.Smooth(3, 2.0, 3)}


@pytest.mark.parametrize("name", FAMILIES)
def test_families_that_say_so_treat_all_columns_alike_and_a_class_of_one_s_own_must_say_it_again(name):
    family = FAMILIES[name]
    index = np.array(list(product(range(3), repeat=3)))
    # So importance is asked for the first columns alone.
    assert is_symmetric(family)
    for order in permutations(range(3)):
        np.testing.assert_allclose(family.importance(index[:, order]), family.importance(index), rtol=1e-12, atol=0.0)
    assert not is_symmetric(object.__new__(type("Own", (type(family),), {})))
