"""The package's own mechanism from end to end."""

import dataclasses
import itertools

import numpy as np
import oracles
import pytest

import trigmech
from trigmech._parallel import THREADS_VARIABLE
from trigmech.domain import Domain
from trigmech.errors import InputError
from trigmech.mechanisms import moment as moment_mechanism
from trigmech.mechanisms.base import FEWEST_POINTS, MOST_POINTS, Mechanism
from trigmech.mechanisms.moment import MomentMechanism, default_workload, minimax
from trigmech.privacy.budget import Budget
from trigmech.privacy.ledger import Ledger
from trigmech.schema.schema import Column, Schema
from trigmech.synthesis import synthesize
from trigmech.workload import GaussianKernels, Mixture, SecondMoments

BUDGETS = [Budget(1.0), Budget(1.0, 1e-6)]
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=str)
FAST = {"points": 64, "iterations": 10}


def table(n=200, d=3, seed=0):
    return np.random.default_rng(seed).beta(2.0, 4.0, (n, d)) * 2.0 - 1.0


def run(X, budget=BUDGETS[1], seed=1, **options):
    return synthesize(X, Schema.cube(X.shape[1]), budget, MomentMechanism(**{**FAST, **options}),
                      np.random.default_rng(seed))


BAD = {
    "workload": ["kernels", GaussianKernels, 3], "degree": [0, -1, 1.5, "all", True], "pair_degree": [-1, 0.5, "x"],
    "triples": ["yes", 2, 0.5], "whole_row": ["no", 2], "weighted": ["no", None, 2], "smoothness": [0, -1.0, np.nan,
                                                                                                  np.inf, "1", True],
    "max_functions": [0, -1, 2.5], "fit": ["best", None], "points": [0, 1.5, "n"], "iterations": [0, None, 1.0],
    "denoise": ["no", None], "copula": [3], "weigh": ["no"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values],
                         ids=lambda part: getattr(part, "__name__", repr(part)))
def test_a_bad_option_is_refused_by_its_name(name, value):
    with pytest.raises(InputError, match=name):
        MomentMechanism(**{name: value})


IDLE = [("smoothness", {"smoothness": 1.0}, {
    "workload": SecondMoments(2), "degree": 2, "pair_degree": 0, "triples": False, "whole_row": False,
    "weighted": False, "denoise": False}), ("fit='cloud'", {"fit": "cloud"}, {"points": 9, "iterations": 9}),
    ("fit='atoms'", {"fit": "atoms"}, {"points": 9, "iterations": 9, "weigh": False, "whole_row": True}),
    ("fit='rows'", {}, {"weigh": False})]


@pytest.mark.parametrize(("reason", "given", "name", "value"), [
    (reason, given, name, value) for reason, given, idle in IDLE for name, value in idle.items()])
def test_an_option_without_effect_is_refused_with_what_takes_its_effect(reason, given, name, value):
    with pytest.raises(InputError, match=f"{name} has no effect together with {reason}"):
        MomentMechanism(**given, **{name: value})
    if "smoothness" in given:
        with pytest.raises(InputError, match=f"{name} has no effect"):
            minimax(1.0, **{name: value})
    # Defaults may be given, for they are what happens; and each alone is an option like any other.
    default = MomentMechanism.__dataclass_fields__[name].default
    assert MomentMechanism(**given, **{name: default}) == MomentMechanism(**given)
    MomentMechanism(**({"fit": "cloud"} if name == "weigh" else {}), **{name: value})


def test_every_option_is_tried_above_and_can_be_given():
    options = {field.name: field.default for field in dataclasses.fields(MomentMechanism)}
    assert set(options) == set(BAD)
    assert MomentMechanism(**options) == MomentMechanism()


def test_it_is_a_frozen_mechanism_that_shows_its_options():
    mechanism = MomentMechanism(degree=3)
    assert isinstance(mechanism, Mechanism)
    assert not mechanism.published
    assert "degree=3" in repr(mechanism)
    assert dataclasses.replace(mechanism, degree=None) == MomentMechanism()
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.degree = 4
    with pytest.raises(TypeError):
        MomentMechanism(SecondMoments(2))


@pytest.mark.parametrize(("options", "d", "words"), [
    ({"workload": SecondMoments(4)}, 3, "has 4 columns, but the"), ({"max_functions": 2}, 3, "max_functions = 2"),
    ({"degree": 9, "max_functions": 20}, 3, "needs 27"), ({"smoothness": 1.0, "max_functions": 6}, 3, "at least 7"),
    ({"workload": SecondMoments(3), "whole_row": True}, 3, "whole_row")])
@each_budget
def test_nothing_is_charged_when_the_design_is_refused(options, d, words, budget, monkeypatch):
    charged = []
    monkeypatch.setattr(Ledger, "charge", lambda _, charge: charged.append(charge))
    with pytest.raises(InputError, match=words):
        run(table(d=d), budget, **options)
    assert charged == []


@pytest.mark.daily(3)  # Each shape, each number of columns and both budgets.
@each_budget
@pytest.mark.parametrize(("n", "d"), [(2, 1), (2, 2), (2, 9), (300, 1), (300, 2), (300, 3), (40, 12)])
def test_tables_of_every_shape_are_released_within_the_budget(n, d, budget):
    synthesis = run(table(n, d), budget)
    ledger = synthesis.ledger
    assert ledger.enforced
    assert ledger.claim is None
    assert 0.999 * budget.epsilon <= ledger.guarantee.epsilon <= budget.epsilon
    assert {charge.law for charge in ledger.charges} <= ({"gaussian"} if budget.delta else {"laplace", "linf"})
    if budget.delta:
        assert len(ledger.charges) == 1
    assert synthesis.rows == n
    assert synthesis.distribution.points.shape == (64, d)
    assert synthesis.sample(7, np.random.default_rng(0)).shape == (7, d)


@pytest.mark.daily("(1, 0)")
@each_budget
def test_awkward_tables_are_no_obstacle(budget):
    for X in (np.zeros((30, 2)), np.ones((30, 2)), np.tile([1.0, -1.0], (30, 1)),
              np.where(table(60, 7) > -0.3, 1.0, -1.0)):
        synthesis = run(X, budget)
        assert np.isfinite(synthesis.distribution.points).all()


def test_hardened_noise_is_not_repeatable_and_says_so():
    X = table(50, 2)
    for budget in BUDGETS:
        first, second = (synthesize(X, Schema.cube(2), budget, MomentMechanism(**FAST)) for _ in range(2))
        assert not np.isin(first.release.means, second.release.means).any()
        assert not first.ledger.simulated
        assert first.ledger.guarantee.epsilon <= budget.epsilon


# Rows are fitted on any number of threads by day in test_table_mechanism.py.
@pytest.mark.nightly  # By day that of tables does, in test_table_mechanism.py.
@pytest.mark.parametrize("fit", [pytest.param("rows", marks=pytest.mark.nightly), "cloud"])
def test_a_seed_repeats_a_run_on_any_number_of_threads(fit, monkeypatch):
    X, runs = table(3000, 4), []
    for threads, seed in (("1", 1), ("2", 1), ("2", 2)):
        monkeypatch.setenv(THREADS_VARIABLE, threads)
        options = {"points": 3000} if fit == "rows" else {"points": None, "iterations": 80}
        runs.append(run(X, seed=seed, fit=fit, **options))
    first, second, other = ((r.release.means.tobytes(), r.distribution.points.tobytes(),
                             r.distribution.weights.tobytes()) for r in runs)
    assert first == second
    assert first[0] != other[0]
    assert first[1] != other[1]


@pytest.mark.nightly  # test_synthesis.py has a mixed table with missing values.
def test_columns_of_every_kind_come_back_in_kind():
    rng = np.random.default_rng(2)
    schema = Schema([Column("height", 0.0, 10.0), Column("count", 0, 5, "integer"), Column("flag", 0, 1, "binary")])
    rows = np.column_stack([rng.uniform(2, 4, 400), rng.integers(0, 3, 400), rng.random(400) < 0.2])
    release = synthesize(rows, schema, Budget(20.0, 1e-6), MomentMechanism(points=512), np.random.default_rng(1))
    sample = release.sample(400, np.random.default_rng(1))
    assert (sample >= 0).all()
    assert (sample <= [10, 5, 1]).all()
    np.testing.assert_array_equal(sample[:, 1:], np.rint(sample[:, 1:]))
    np.testing.assert_allclose(sample.mean(axis=0), rows.mean(axis=0), atol=0.25)


@pytest.mark.nightly
@each_budget
def test_a_better_budget_gives_a_better_answer(budget):
    X, workload = table(400, 3), SecondMoments(3)
    options = {"workload": workload, "points": 256, "iterations": 40}
    errors = [np.median([workload.errors(X, run(X, Budget(epsilon, budget.delta), seed, **options).distribution).max()
                         for seed in range(5)]) for epsilon in (0.1, 1.0, 10.0)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


@pytest.mark.nightly
def test_points_are_as_many_as_rows_within_limits():
    assert len(run(table(5, 1), points=None).distribution.points) == FEWEST_POINTS
    assert len(run(table(1500, 1), points=None).distribution.points) == 1500
    many = run(table(60_000, 1), points=None, degree=2, iterations=2, workload=SecondMoments(1))
    assert len(many.distribution.points) == MOST_POINTS
    assert many.rows == 60_000


@pytest.mark.nightly
def test_a_workload_decides_what_is_measured():
    second = run(table(), Budget(20.0, 1e-6), workload=SecondMoments(3)).release.features
    kernels = run(table(), Budget(20.0, 1e-6), workload=GaussianKernels(3, seed=0, widths=(0.3,))).release.features
    assert second.degree == 2
    assert kernels.degree > 4


def test_the_default_workload_is_of_kernels_pairs_and_second_moments():
    for d in (1, 5):
        workload = default_workload(d)
        assert isinstance(workload, Mixture)
        assert [type(member).__name__ for member in workload.members] == [
            "GaussianKernels", *(["PairKernels"] if d > 1 else []), "SecondMoments"]
    assert default_workload(5).labels == default_workload(5).labels


def test_a_plan_is_made_once_of_the_same_public_facts_and_anew_for_any_other():
    mixed = Schema([Column("x", 0, 1), Column("y", kind="categorical", categories=("a", "b"))])
    for domain in (Domain(2), mixed.domain):
        made = MomentMechanism().design(90, domain, Budget(1.0))
        again = MomentMechanism(points=64).design(90, Domain(domain.d, domain.groups), Budget(1.0))
        assert again.rounds is made.rounds
        # Who holds a design may change its dictionaries, and nobody else's.
        predicted, baseline = dict(made.predicted), dict(made.baseline)
        again.predicted["own"] = again.baseline["own"] = 1.0
        other = MomentMechanism().design(90, domain, Budget(1.0))
        for one in (made, other):
            assert (one.predicted, one.baseline) == (predicted, baseline)
        others = [(MomentMechanism(), 91, Budget(1.0)), (MomentMechanism(), 90, Budget(2.0)),
                  (MomentMechanism(), 90, Budget(1.0, 1e-6)), (MomentMechanism(degree=1), 90, Budget(1.0)),
                  (MomentMechanism(pair_degree=0), 90, Budget(1.0)), (MomentMechanism(weighted=False), 90, Budget(1.0))]
        for mechanism, n, budget in others:
            assert mechanism.design(n, domain, budget).rounds is not made.rounds
        with pytest.raises(InputError, match="n must be an integer"):
            MomentMechanism().design(90.0, domain, Budget(1.0))
    # Nobody knows whether a workload of one's own is the same as before.
    own = MomentMechanism(workload=SecondMoments(2))
    assert own.design(90, 2, Budget(1.0)).rounds is not own.design(90, 2, Budget(1.0)).rounds


def test_minimax_is_the_mechanism_with_its_design():
    assert minimax(2.0) == MomentMechanism(smoothness=2.0, max_functions=moment_mechanism.MINIMAX_FUNCTIONS)
    assert minimax(1, max_functions=9, fit="cloud").max_functions == 9
    assert trigmech.minimax is minimax
    released = run(table(300, 2), smoothness=1.0, max_functions=48).release
    assert released.features.K == 48


SECRET = 7.0 + float("0." + oracles.SECRET_DIGITS)


@each_budget
def test_nothing_that_is_returned_shows_a_record(budget):
    schema = Schema([Column("a", 0.0, 10.0), Column("b", 0.0, 10.0)])
    synthesis = synthesize(np.full((4, 2), SECRET), schema, budget, MomentMechanism(**FAST), np.random.default_rng(0))
    bars = synthesis.predicted_error(SecondMoments(2))
    shown = " ".join(f(thing) for f, thing in itertools.product(
        (repr, str), (synthesis, synthesis.ledger, synthesis.release, synthesis.fit, synthesis.distribution, bars,
                      synthesis.release.features)))
    assert oracles.SECRET_DIGITS not in shown


@pytest.mark.parametrize("rows", [np.array([[SECRET, 1.0], [0.5, np.nan]]), np.full((1, 2), SECRET),
                                  np.full((5, 3), SECRET), np.array([[str(SECRET), "1"], ["0", "0"]])])
def test_no_message_quotes_a_value(rows):
    schema = Schema([Column("a", 0.0, 10.0), Column("b", 0.0, 10.0)])
    with pytest.raises(InputError) as caught:
        synthesize(rows, schema, BUDGETS[0], None, np.random.default_rng(0))
    assert oracles.SECRET_DIGITS not in oracles.whole_message(caught.value)
