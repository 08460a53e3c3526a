import csv
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import trigmech as tm
from experiments import audit as audit_module
from experiments.asked import Asked
from experiments.audit import (
    FAULTS,
    SUBJECTS,
    adaptive,
    audited,
    batches,
    false_alarm,
    listener,
    lower_bound,
    page,
    runs_of,
    same,
)
from trigmech.errors import BudgetError
from trigmech.privacy.noise import SimulatedNoise, SystemNoise

# Runs of each table: enough for the planted faults, and few enough to be done in seconds. The seeds are fixed.
RUNS = {"halved, gaussian": 12_000, "tables, gaussian": 600, "tables, linf": 600}
# Subjects whose bound is not far below epsilon.
NEAR = ("laplace", "linf", "TrigI", "own, linf")
# Hardened noise knows no seed: with this confidence a false alarm has a probability below 1e-9.
HARDENED_CONFIDENCE = 1.0 - 1e-9


@cache
def subject_of(name):
    """Each has been searched for its worst pair of tables."""
    return SUBJECTS[name]()


# Bounds


def answers(epsilon, runs, rng):
    """Randomised response, which attains epsilon at delta = 0, as ratios and numbers without repeats."""
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return tuple((np.where(rng.random(runs) < p, epsilon, -epsilon), rng.random(runs)) for p in (truth, 1.0 - truth))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_the_bound_of_randomised_response_is_near_its_epsilon_and_not_above(epsilon):
    rng = np.random.default_rng(1)
    bounds = [lower_bound(*answers(epsilon, 20_000, rng), 0.0).epsilon for _ in range(8)]
    assert max(bounds) <= epsilon
    # The rarer answer comes up 20000 / (1 + e^epsilon) / 2 times, and 3.3 deviations below p and above q are lost.
    assert np.mean(bounds) >= epsilon - 0.02 - 9.0 / math.sqrt(20_000 / (1.0 + math.exp(epsilon)))


@pytest.mark.nightly  # By day bounds of randomised response and laws of ratios.
@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_the_computed_false_alarm_is_that_of_drawn_counts(delta):
    rng, runs, other, epsilon, confidence = np.random.default_rng(3), 500, 0.1, 0.7, 0.7
    share = math.exp(epsilon) * other + delta
    hits, others = rng.binomial(runs, share, 4_000), rng.binomial(runs, other, 4_000)
    # scipy's own interval, which no formula of the audit's is in.
    exact = {int(k): stats.binomtest(int(k), runs).proportion_ci(confidence, "exact") for k in {*hits, *others}}
    alarms = [math.log(max(exact[int(a)].low - delta, 1e-9) / exact[int(b)].high) > epsilon
              for a, b in zip(hits, others, strict=True)]
    computed = false_alarm(other, runs, epsilon, delta, confidence)
    assert 0.005 < computed < 1.0 - confidence
    assert abs(np.mean(alarms) - computed) <= 5.5 * math.sqrt(computed * (1.0 - computed) / 4_000)


def test_an_event_is_never_counted_in_the_half_that_chose_it():
    # Numbers without any difference, but for the half that chooses: all of it on the one side, none on the other.
    rng, runs = np.random.default_rng(4), 4_000
    first, second = rng.normal(size=(2, runs))
    first[: runs // 2] += 100.0
    bound = lower_bound((first, rng.random(runs)), (second, rng.random(runs)), 0.0)
    assert bound.epsilon == 0.0


def test_a_number_that_comes_up_again_is_an_event():
    rng, runs = np.random.default_rng(5), 2_000
    ratios = np.zeros(runs)
    bound = lower_bound((ratios, np.full(runs, 0.25)), (ratios, rng.random(runs)), 0.0)
    assert (bound.share, bound.other) == (1.0, 0.0)
    # Of 1000 runs all, and none.
    assert bound.epsilon == pytest.approx(math.log(0.0005 ** (1 / 1000) / (1.0 - 0.0005 ** (1 / 1000))), rel=1e-9)


# Ratios


@pytest.mark.nightly
def test_ratios_of_gaussian_and_laplace_noise_have_their_laws():
    subject = subject_of("gaussian")
    mu = subject.ledger().charges[0].mu
    ratio, numbers = runs_of(subject, 0, SimulatedNoise(np.random.default_rng(6)), 4_000)
    assert stats.kstest(ratio, stats.norm(mu**2 / 2, mu).cdf).pvalue > 1e-9
    assert len(np.unique(numbers)) == 4_000
    ratio, _ = runs_of(subject_of("laplace"), 1, SimulatedNoise(np.random.default_rng(7)), 4_000)
    # Half of the neighbour's draws lie beyond its own value, and weigh against it by all of epsilon.
    assert abs((ratio <= -1.0 + 1e-8).mean() - 0.5) <= 6.0 * 0.5 / math.sqrt(4_000)
    assert np.abs(ratio).max() <= 1.0


@pytest.mark.daily(4)  # Each law, and releases of one round and of several.
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_ratio_is_one_function_of_what_was_drawn(name):
    # Given the outputs of a run, both tables ask noise for values that do not depend on whose run it was.
    subject = subject_of(name)
    steps = subject.heard(0, SimulatedNoise(np.random.default_rng(8)))
    outputs = np.concatenate([step.output for step in steps])
    kept = outputs.copy()
    again = subject.heard(0, audit_module.replay(outputs))
    other = subject.heard(1, audit_module.replay(outputs))
    np.testing.assert_array_equal(outputs, kept)
    for step, one, two in zip(steps, again, other, strict=True):
        np.testing.assert_array_equal(step.values, one.values)
        np.testing.assert_array_equal(step.output, two.output)
        assert step.scale == one.scale == two.scale
    assert adaptive(subject) == (name == "ImprovedTrigI, L = 2" or name.startswith("tables"))


@pytest.mark.nightly
def test_pure_ratios_are_at_most_what_the_ledger_proves():
    for name in ("TrigI, d = 2", "TrigI, t = 3, published", "ImprovedTrigI, published", "ImprovedTrigI, L = 2",
                 "own, blocks", "minimax, pure", "tables, both rounds, linf",
                 "tables, closer look, laplace"):
        subject = subject_of(name)
        for which in (0, 1):
            runs = 4 if "tables" in name else 12
            ratio, _ = runs_of(subject, which, SimulatedNoise(np.random.default_rng(9)), runs)
            assert np.abs(ratio).max() <= subject.ledger().proved_epsilon + 1e-8


def test_batches_hand_out_noise_of_single_calls():
    noise = batches(SystemNoise(), 50)
    values = np.array([3.0, -1.0])
    drawn = np.array([noise.laplace(values, 0.1) for _ in range(120)])
    assert drawn.shape == (120, 2)
    assert len(np.unique(drawn)) == 240
    assert stats.kstest(((drawn - values) / 0.1).ravel(), stats.laplace.cdf).pvalue > 1e-9
    # linf noise is of all entries together: 120 vectors at once would be one vector of 240.
    norms = [np.abs(noise.linf(values, 0.1) - values).max() / 0.1 for _ in range(60)]
    assert stats.kstest(norms, stats.gamma(2).cdf).pvalue > 1e-9
    assert not noise.simulated
    assert noise.loss("laplace", 0.1, 0.1) == SystemNoise().loss("laplace", 0.1, 0.1)


# What is audited is what the mechanisms do


@pytest.mark.daily(6)
@pytest.mark.parametrize(("name", "mechanism", "delta"), [
    ("TrigI, t = 3, published", tm.TrigI(degree=3, grid=4, calibration="published"), 0.0),
    ("TrigII", tm.TrigII(degree=2, grid=4), 1e-3),
    ("ImprovedTrigI, L = 2", tm.ImprovedTrigI(n_basis=2, rank=1, iterations=2, n_candidates=20), 0.0),
    ("ImprovedTrigII", tm.ImprovedTrigII(n_basis=5, rank=2, iterations=1, n_candidates=20), 1e-3),
    ("own, linf", tm.MomentMechanism(iterations=1), 0.0),
    ("minimax", tm.minimax(1), 1e-3),
])
def test_a_run_of_the_mechanism_charges_what_is_audited(name, mechanism, delta):
    subject = subject_of(name)
    rows = np.random.default_rng(10).uniform(-1.0, 1.0, (subject.n, subject.d))
    ledger = tm.synthesize(rows, tm.Schema.cube(subject.d), tm.Budget(1.0, delta), mechanism,
                           np.random.default_rng(11)).ledger
    assert ledger.charges == subject.ledger().charges


@pytest.mark.parametrize("name", ["laplace", "linf of 3", "TrigI", "TrigI, t = 3", "TrigII", "own, gaussian",
                                  "own, laplace", "own, linf", "minimax", "tables, both rounds, gaussian",
                                  "tables, both rounds, linf"])
def test_the_pair_attains_the_sensitivity_where_a_fault_of_sqrt_2_must_show(name):
    subject = subject_of(name)
    orders = {"laplace": 1, "gaussian": 2, "linf": np.inf}
    steps = [subject.heard(which, same(0.0)) for which in (0, 1)]
    for charge, one, two in zip(subject.ledger().charges, *steps, strict=True):
        moved = np.linalg.norm(one.values - two.values, orders[charge.law])
        # The certificate of weighted moments in L1 is 2.7% above the supremum, that of L2 norms 0.2%.
        assert 0.97 * charge.sensitivity <= moved <= charge.sensitivity


# Verdicts


# Of releases by several rounds the audits take seconds; each law of noise is audited by day, too.
BY_NIGHT = {"tables, closer look, laplace", "tables, closer look, gaussian", "tables, both rounds, gaussian",
            "tables, linf", "tables, gaussian", "halved, gaussian", "noisy mean, n = 20",
            # The other of the two laws, and the other reading of an algorithm, are audited by day.
            "ImprovedTrigII", "ImprovedTrigI, published", "TrigI, d = 2", "TrigI, t = 3", "own, blocks",
            "ImprovedTrigI, L = 2", "TrigI, t = 3, published", "TrigI, published", "TrigII", "own, gaussian, d = 2",
            "own, laplace", "minimax, pure", "categories, laplace", "bounds, laplace",
            "sqrt 2, linf", "halved, linf", "halved, laplace"}


def by_day(names):
    return [pytest.param(name, marks=[pytest.mark.nightly] * (name in BY_NIGHT)) for name in names]


@pytest.mark.daily(14)
@pytest.mark.parametrize("name", by_day(SUBJECTS))
def test_no_correct_mechanism_is_refuted(name):
    runs = (1_200 if name in NEAR else 600) if not adaptive(subject_of(name)) else 60 if "closer" in name else 100
    line = audited(name, "simulated", runs)
    assert not line["refuted"]
    assert line["bound"] <= line["proved"]
    assert line["false_alarm"] < 1e-4
    if name in NEAR:
        assert line["bound"] > 0.4


# Real noise has the same law for all; the mechanisms are audited above.
@pytest.mark.daily("laplace", "gaussian")
@pytest.mark.parametrize("name", ["laplace", "gaussian", "linf of 3", "TrigI", "TrigII, published", "own, linf",
                                  "ImprovedTrigI, L = 2", "tables, both rounds, linf"])
def test_no_correct_mechanism_is_refuted_with_real_noise(name):
    line = audited(name, "OpenDP", 150, HARDENED_CONFIDENCE)
    assert not line["refuted"]
    assert line["fault"] == ""


@pytest.mark.daily(3)
@pytest.mark.parametrize("name", by_day(name for name in FAULTS if name != "noisy mean, n = 5"))
def test_every_planted_fault_is_refuted(name):
    line = audited(name, "simulated", RUNS.get(name, 2_000))
    assert line["refuted"]
    assert line["bound"] > line["proved"]
    # The ledger does not see these faults: it would have let them through.
    assert line["proved"] == pytest.approx(1.0, abs=2e-6)


def test_real_releases_that_are_audited_are_certified_first(monkeypatch):
    monkeypatch.setattr(SystemNoise, "loss", lambda *_: math.inf)
    with pytest.raises(BudgetError, match="by its own proof"):
        subject_of("TrigI").heard(0, batches(SystemNoise()))
    assert listener(same(0.0))[0].simulated


@pytest.mark.nightly
def test_the_report_and_the_check_tell_faults_from_correct_mechanisms(tmp_path):
    rows = [audited("TrigI", "simulated", 200), audited("seed", "simulated", 200)]
    text = "\n".join(page(pd.DataFrame(rows), Asked()))
    assert "0 of 1 audits" in text
    assert "1 of 1 planted faults" in text

    def failures():
        with (tmp_path / "audit.csv").open("w", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return audit_module.audit.broken(tmp_path)

    assert audit_module.audit.broken(tmp_path) == []
    assert failures() == []
    for row in rows:
        row["refuted"] = not row["refuted"]
    assert len(failures()) == 2
