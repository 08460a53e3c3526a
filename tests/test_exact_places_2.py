"""Laws of further lines that were drawn at random from the whole package, and of their siblings."""

import math
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from test_exact_advice import SCHEMA, step
from test_queries import queries

from trigmech.cli import decision, progress
from trigmech.inference.drawing import _Fits
from trigmech.inference.estimate import SAME, Estimate
from trigmech.planning import search
from trigmech.reconstruction import densities, density_models
from trigmech.reconstruction.columns import PRICE, _joined
from trigmech.reconstruction.mixing import _Asked
from trigmech.report import advised
from trigmech.report.statement import Table
from trigmech.tables.writer import _cells_of

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


@pytest.mark.parametrize("size", [-1e200, -3.0, -1e-200, 1e-200, 3.0, 1e200])
def test_intervals_about_values_of_either_sign_are_flat_if_their_deviation_is_that_of_rounding(size):
    values = np.full(4, size)
    deviations = abs(size) * np.array([0.0, 0.99 * SAME, 1.01 * SAME, 1.0])
    estimate = Estimate(values, deviations, values, values, np.zeros(4), 0.95, True)
    assert estimate.flat.tolist() == [True, True, False, False]


@pytest.mark.parametrize("deviation", [1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("share", [0.5, 0.2])
def test_two_intervals_are_parted_if_that_explains_more_than_the_price_of_a_piece(deviation, share):
    # One piece leaves half of the squared difference, in variances of the noise.
    least = math.sqrt(2.0 * PRICE) * deviation
    for factor, parted in ((0.0, False), (0.99, False), (1.01, True)):
        apart = factor * least * np.array([-0.5, 0.5])
        rest = 2.0 * share
        ends, masses = _joined(share + apart, np.eye(2), rest, deviation, False)
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
