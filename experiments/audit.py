"""Lower bounds of epsilon by experiment: two neighbouring tables, and whether their releases can be told apart.

Two tables differ in one row and attain the sensitivities where these can be attained. The door releases each of them
many times. Half of the runs choose an event: a threshold on the log-likelihood ratio of all that was drawn, or
that a number comes up again. The other half count it. For the Clopper-Pearson bounds p on its probability from below
and q on the neighbour's from above, epsilon is at least log((p - delta) / q), with the stated confidence. A bound above
the epsilon that the ledger proves refutes the mechanism. Faults that were planted must be refuted, and nothing else.
The fit comes after the door and is left out.
"""

import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import islice, product
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from scipy import stats

import trigmech as tm
from experiments import Array
from experiments.asked import Asked
from experiments.cells import Call, call, described
from experiments.declare import Experiment
from experiments.frames import markdown, of_cells, worded
from trigmech.domain import Domain, OneHotGroup
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.functions.features import Features
from trigmech.measurement.moments import measure
from trigmech.measurement.private_bounds import histogram_charge
from trigmech.measurement.release import Session
from trigmech.measurement.rows import PrivateRows
from trigmech.mechanisms.base import PublicFacts
from trigmech.planning.design import UPWARD, MomentDesign
from trigmech.planning.one_hot import plan_mixed
from trigmech.planning.shares import Shares
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.budget import Charge, Law, Norm
from trigmech.privacy.ledger import Ledger
from trigmech.privacy.noise import Noise, SimulatedNoise, SystemNoise, lattice_step
from trigmech.thesis.calibration import Calibration, NoiseScales, noise_scales, published_rho
from trigmech.thesis.release import release

Runs = tuple[Array, Array]
Statistic = Callable[[int, np.random.Generator], float]

CONFIDENCE = 0.999
SEED = 2014
DELTA = 1e-3
# Coordinates of the row that is replaced. From 1, T_1 and T_2 together move most at -1/4.
PLACES = {1: (-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0), 2: (-1.0, -0.25, 0.0, 1.0)}
BATCH = 10_000


class Step(NamedTuple):
    """One call for noise: the values to which it was added, and the noisy output; both flat."""

    law: str
    values: Array
    scale: float
    output: Array


class Calls:
    """A noise whose calls, `laplace` and the others, are one function of the law, the values and the scale."""

    def __init__(self, call: Callable[[str, Array, float], Array], simulated: bool = True,
                 loss: Callable[[str, float, float], float] = lambda *_: math.inf) -> None:
        self.simulated, self.loss = simulated, loss
        self.laplace, self.gaussian, self.linf, self.exponential = (
            partial(call, law) for law in ("laplace", "gaussian", "linf", "exponential"))


def same(offset: float) -> Calls:
    """Return the same pattern in every call, of a size that may be 0."""
    return Calls(lambda _, values, scale: values + offset * np.cos(2.0 * np.arange(values.size)).reshape(values.shape))


def replay(outputs: Array) -> Calls:
    """Return the outputs of another run, whatever the values."""
    rest = iter(outputs.tolist())
    return Calls(lambda law, values, scale: np.array([*islice(rest, values.size)]).reshape(values.shape))


def scaled(noise: Noise, factor: float) -> Calls:
    """Return the planted fault of noise that is too small."""
    return Calls(lambda law, values, scale: cast(Array, getattr(noise, law)(values, factor * scale)))


def listener(noise: Noise) -> tuple[Calls, list[Step]]:
    """Return a noise that draws as another one does, and the list to which it adds the step of each call."""
    steps = list[Step]()

    def hear(law: str, values: Array, scale: float) -> Array:
        output = cast(Array, getattr(noise, law)(values, scale))
        # Copies, as the door goes on to calculate in the same array.
        steps.append(Step(law, values.flatten(), scale, output.flatten()))
        return output

    return Calls(hear, noise.simulated, noise.loss), steps


def batches(noise: Noise, size: int = BATCH) -> Calls:
    """Return another noise, called for many runs at once where its entries are independent (Laplace, Gaussian).

    Values that come a second time are noised as so many copies of them in one call, and handed out run by run: the same
    code as for one vector, without its cost of some 200 microseconds a call.
    """
    rows = dict[Hashable, list[Array]]()

    def hand_out(law: str, values: Array, scale: float) -> Array:
        draw, key = getattr(noise, law), (law, scale, values.tobytes())
        if law == "linf" or key not in rows:
            rows[key] = []
            return cast(Array, draw(values, scale))
        if not rows[key]:
            rows[key] = list(draw(np.tile(values, (size,) + (1,) * values.ndim), scale))
        return rows[key].pop()

    return Calls(hand_out, noise.simulated, cache(noise.loss))


@dataclass(frozen=True, eq=False)
class Subject:
    """A mechanism to audit, and the two neighbouring inputs that it releases.

    `draw` passes an input once through the door, with a noise and a ledger. `budget` is the mechanism's own; with
    "published" scales, the thesis's claim. `fault` names the planted fault and is "" if there is no fault; `spoil`
    makes a noise faulty, for each run.
    """

    mechanism: str
    calibration: Calibration
    n: int
    d: int
    budget: tm.Budget
    inputs: Sequence[Any]
    draw: Callable[[Any, Noise, Ledger], object]
    fault: str = ""
    spoil: Callable[[Noise], Noise] | None = None

    def ledger(self) -> Ledger:
        ledger = Ledger(self.budget, enforced=self.calibration == "rigorous")
        self.draw(self.inputs[0], same(0.0), ledger)
        return ledger

    def heard(self, which: int, noise: Noise) -> list[Step]:
        """Return the steps of one run, of the first (0) or second (1) input."""
        heard, steps = listener(noise)
        self.draw(self.inputs[which], heard, Ledger(self.budget, enforced=False))
        return steps


# Telling two inputs apart


def runs_of(subject: Subject, which: int, noise: Noise, count: int) -> Runs:
    """Return for each run of one of the inputs the log-likelihood ratio of the first input to the second, and the first
    number that was drawn.

    The ratio is of all outputs of the noise, by the law and scale that the door asked for. The other input's values are
    those that the door asks noise for when it is given the same outputs.
    """
    follows, ratio, first = adaptive(subject), np.zeros(count), np.empty(count)
    others = [] if follows else subject.heard(1 - which, same(0.0))
    for i in range(count):
        found = subject.heard(which, subject.spoil(noise) if subject.spoil else noise)
        outputs = np.concatenate([step.output for step in found])
        first[i] = outputs[0]
        if follows:
            # The number of draws may depend on earlier draws, too.
            others = subject.heard(1 - which, replay(outputs))
        for own, other in zip(found, others, strict=True):
            near, far = (_exponent(own.law, own.output - step.values, own.scale) for step in (own, other))
            ratio[i] += far - near
    # Ratios that differ by rounding errors alone are one.
    return np.round(ratio if which == 0 else -ratio, 9), first


def adaptive(subject: Subject) -> bool:
    """Return whether the values that are noised depend on earlier draws."""
    def values(which: int, offset: float) -> Array:
        return np.concatenate([step.values for step in subject.heard(which, same(offset))])

    return any(not np.array_equal(values(which, 0.0), values(which, offset))
               for which in (0, 1) for offset in (-3.3, 0.7))


def _exponent(law: str, away: Array, scale: float) -> float:
    """Return minus the logarithm of the density, up to a constant."""
    if law == "gaussian":
        return float(away @ away) / (2.0 * scale**2)
    size = np.abs(away)
    return float(size.max(initial=0.0) if law == "linf" else size.sum()) / scale


@dataclass(frozen=True)
class Bound:
    """A lower bound of epsilon, and how often its event came up in the halves that did not choose it: `share` for the
    input that it favours, `other` for its neighbour."""

    epsilon: float
    share: float
    other: float


def lower_bound(first: Runs, second: Runs, delta: float, confidence: float = CONFIDENCE) -> Bound:
    """Return a lower bound of epsilon at delta from as many runs of two inputs, each a ratio and a number."""
    half = len(first[0]) // 2
    best, chosen = -math.inf, (np.empty(0), np.empty(0), 0.0)
    for (ratio, number), (other_ratio, other_number), sign in ((first, second, 1.0), (second, first, -1.0)):
        values, counts = np.unique(number[:half], return_counts=True)
        again = values[counts.argmax()]
        for a, b in ((sign * ratio, sign * other_ratio), (1.0 * (number == again), 1.0 * (other_number == again))):
            levels = np.geomspace(20.0 / half, 0.5, 60).clip(max=1.0)
            thresholds = np.unique(np.quantile(np.concatenate([a[:half], b[:half]]), [*levels, *(1.0 - levels)]))
            hits, others = (half - np.searchsorted(np.sort(part[:half]), thresholds) for part in (a, b))
            bounds = _bounds(hits, others, half, delta, confidence)
            if bounds.max() > best:
                best, chosen = bounds.max(), (a, b, thresholds[bounds.argmax()])
    a, b = (part[half:] >= chosen[2] for part in chosen[:2])
    bound = _bounds(a.sum(), b.sum(), len(a), delta, confidence)
    return Bound(max(0.0, float(bound)), float(a.mean()), float(b.mean()))


def _bounds(hits: Any, others: Any, count: int, delta: float, confidence: float) -> Array:
    """Return log((p - delta) / q) by Clopper and Pearson, p and q each with half of the error; at least -1."""
    error = (1.0 - confidence) / 2.0
    p = np.where(hits > 0, stats.beta.ppf(error, np.maximum(hits, 1), count - hits + 1), 0.0)
    q = _upper(others, count, error)
    return np.asarray(np.log(np.maximum((p - delta) / q, math.exp(-1.0))))


def _upper(hits: Any, count: int, error: float) -> Any:
    return np.where(hits < count, stats.beta.isf(error, hits + 1, np.maximum(count - hits, 1)), 1.0)


def false_alarm(other: float, count: int, epsilon: float, delta: float, confidence: float = CONFIDENCE) -> float:
    """Return the probability that an event is counted as a refutation of (epsilon, delta) that just attains it.

    `other` is the neighbour's probability of the event; the event's own is then exp(epsilon) other + delta. By the
    binomial laws of both counts, of `count` runs each: far below 1 - confidence, because both bounds have to fail.
    """
    error = (1.0 - confidence) / 2.0
    law = stats.binom(count, other)
    counts = np.arange(int(law.ppf(1e-15)), int(law.isf(1e-15)) + 1)
    needed = np.minimum(1.0, delta + math.exp(epsilon) * _upper(counts, count, error))
    # The lower bound of a count is above `needed` if there as much or more has a probability below `error`.
    alarms = stats.binom.sf(stats.binom.isf(error, count, needed), count, min(1.0, math.exp(epsilon) * other + delta))
    return float(law.pmf(counts) @ alarms)


# The audited mechanisms


def worst(subject: Callable[[Array], Subject], n: int, d: int) -> Subject:
    """Return a subject at the two tables, of rows at a corner and one row that is replaced, that differ most."""
    def score(found: Subject) -> tuple[float, int]:
        loss, moving = 0.0, 0
        ones = found.heard(0, same(0.0))
        outputs = np.concatenate([step.output for step in ones])
        for one, two in zip(ones, found.heard(1, replay(outputs)), strict=True):
            moved = np.abs(one.values - two.values) / one.scale
            pure = moved.max(initial=0.0) if one.law == "linf" else moved.sum()
            loss += float(pure if found.budget.delta == 0 else np.square(moved).sum())
            moving += int((moved > 1e-9).sum()) * (1 if one.law == "linf" else -1)
        # If losses are equal, the one that more runs show.
        return round(loss, 9), moving

    pairs = []
    for x, y in product(product(PLACES[d], repeat=d), repeat=2):
        if x != y:
            tables = np.ones((2, n, d))
            tables[:, 0] = x, y
            pairs.append(subject(tables))
    return max(pairs, key=score)


class _Believing(Session):
    """A session that believes its charges, so that a planted fault gets as far as the noise."""

    def _check_moves(self, asked: Any, charge: Any, n: int) -> None:
        """Allow all."""


def thesis(mechanism: str, calibration: Calibration, n: int, d: int, size: int, rank: int = 0, iterations: int = 0,
           alter: Callable[[NoiseScales], NoiseScales] | None = None) -> Subject:
    """Return one of the thesis's mechanisms at epsilon = 1: `size` is t, or R with axes; `alter` spoils its scales."""
    approximate = mechanism.endswith("II")
    budget = tm.Budget(1.0, DELTA if approximate else 0.0)
    basis = ChebyshevBasis.graded(d, size) if rank else ChebyshevBasis.tensor(d, size)
    features = Features(basis)
    charges = noise_scales(basis, n, budget, calibration, approximate, rank, iterations)
    charges = alter(charges) if alter else charges
    rng = np.random.default_rng(SEED)
    beginning = rng.bit_generator.state

    def draw(moments: Any, noise: Noise, ledger: Ledger) -> object:
        # One public start of the iteration, as if its seed were known.
        rng.bit_generator.state = beginning
        return release(moments, charges, calibration, _Believing(ledger, noise), rng, rank, iterations)

    name = f"{mechanism}, R = {size}, k = {rank}, L = {iterations}" if rank else f"{mechanism}, t = {size}"
    return worst(lambda tables: Subject(name, calibration, n, d, budget, [
        measure(table, features, covariance=rank > 0) for table in tables], draw), n, d)


def own(name: str, n: int, d: int, delta: float, options: Mapping[str, Any] | None = None) -> Subject:
    """Return the package's mechanism, or its minimax one, with options; `second_moments` is a workload's columns."""
    budget, given = tm.Budget(1.0, delta), dict(options or {})
    if columns := given.pop("second_moments", 0):
        given["workload"] = tm.workload.SecondMoments(columns)
    design = (tm.minimax(1) if name.startswith("minimax") else tm.MomentMechanism(**given)).design(n, d, budget)
    return worst(lambda tables: Subject(name, "rigorous", n, d, budget, [
        measure(table, design.features) for table in tables], partial(_drawn, design)), n, d)


def _drawn(design: MomentDesign, moments: Any, noise: Noise, ledger: Ledger) -> object:
    """Release sums that were made before, as a run does by its session."""
    sums = [moments.basis_sum[each.asked[0].query.members] for each in design.rounds]
    return Session(ledger, noise).released(design.rounds, sums, moments.n)


def categories(n: int, delta: float) -> Subject:
    """Return the package's mechanism on two columns of categories, of which a row changes both."""
    budget, domain = tm.Budget(1.0, delta), Domain(5, [OneHotGroup((0, 1), True), OneHotGroup((2, 3, 4), True)])
    design = plan_mixed(n, domain, budget, None)
    tables = np.zeros((2, n, 5))
    tables[:, :, [0, 2]] = 1.0
    tables[1, 0] = 0.0, 1.0, 0.0, 1.0, 0.0
    return Subject(f"MomentMechanism, categories, {design.rounds[-1].charge.law}", "rigorous", n, 2, budget, [
        measure(PrivateRows.of(table, domain), design.features) for table in tables], partial(_drawn, design))


def rounds(name: str, domain: Domain, n: int, rows: Array, delta: float) -> Subject:
    """Return all rounds of the mechanism for tables, on as many of one row as of another, and with one more of it."""
    # Tables alone: a row that moves directions most does not move the look most.
    shares = Shares(0.35, 0.03, 0.0) if delta else None
    design = tm.TableMechanism(shares=shares).plan(PublicFacts(n, domain, tm.Budget(1.0, delta)))
    tables = np.tile(rows, (2, n // 2, 1))
    tables[1, 0] = rows[1]

    def draw(table: Any, noise: Noise, ledger: Ledger) -> object:
        return design.mechanism.run(table, design, Session(ledger, noise), np.random.default_rng(SEED))

    return Subject(f"TableMechanism, {name}, {design.charges[0].law}", "rigorous", n, rows.shape[1], design.budget,
                   [PrivateRows.of(table, domain) for table in tables], draw)


def tables(delta: float) -> Subject:
    """Two columns of two categories: in both rounds a changed row moves them by all that is charged.

    It changes both columns, but where delta is 0 and contrasts are multiplied only one: the product of both stays.
    """
    domain = Domain(4, [OneHotGroup((0, 1), True), OneHotGroup((2, 3), True)])
    other = [0.0, 1.0, 0.0, 1.0] if delta else [0.0, 1.0, 1.0, 0.0]
    return replace(rounds("categories", domain, 40, np.array([[1.0, 0.0, 1.0, 0.0], other]), delta), d=2)


def closer(delta: float) -> Subject:
    """Two numbers: two intervals of each are found to be heavy and looked at closer, and ranks are multiplied."""
    values = np.linspace(-1.0, 1.0, 64)
    domain = Domain(2, levels=[(j, tuple(values.tolist())) for j in range(2)])
    return rounds("numbers", domain, 800 if delta else 8_000, np.array([[1.0, 1.0], [values[1], values[1]]]), delta)


def histogram(columns: int, delta: float) -> Subject:
    """Return the counts that find private bounds, of which a row moves two in each column."""
    budget = tm.Budget(1.0, delta)
    charge = histogram_charge("bounds", budget, 1.0, columns)
    counts = np.tile([[1.0, 0.0, 3.0]], columns)[0]

    def draw(values: Any, noise: Noise, ledger: Ledger) -> object:
        session = Session(ledger, noise)
        session.charge(charge)
        return session.draw(values, charge)

    return Subject(f"private bounds, {charge.law}", "rigorous", 4, columns, budget,
                   (counts, counts + np.tile([-1.0, 1.0, 0.0], columns)), draw)


def alone(law: Law, norm: Norm, size: int) -> Subject:
    """Return a sampler alone, on a vector that moves as much as is charged: in one entry, or for linf in all."""
    budget = tm.Budget(1.0, DELTA if law == "gaussian" else 0.0)
    moved = np.full(size, 0.3) if law == "linf" else 0.3 * np.eye(1, size)[0]
    scale = 0.3 * UPWARD / (gaussian_mu(budget) if law == "gaussian" else 1.0 - 2.0**-39)
    charge = Charge("sampler", law, scale, 0.3 + (lattice_step(scale) if law == "linf" else 0.0), norm, 1, "here")

    def draw(values: Any, noise: Noise, ledger: Ledger) -> object:
        ledger.charge(charge)
        return getattr(noise, law)(values, scale)

    return Subject(f"{law} sampler, K = {size}", "rigorous", 1, size, budget, (np.zeros(size), moved), draw)


def local_sensitivity(n: int, share: float) -> Callable[[NoiseScales], NoiseScales]:
    """Plant the fault of algorithms 6 and 7, for d = 1: noise for the variance as if it moved by no more than the
    thesis's rho at the *noisy* mean; without the factors by which the printed scale is too large.

    The mean has the given share of epsilon, the variance the rest.
    """
    def axes(norm: float) -> Charge:
        moved = published_rho(1, n, norm)
        return Charge("axes", "laplace", moved / (1.0 - share), moved, "L1", 1, "none")

    mean = Charge("mean", "laplace", 2.0 / n / share, 2.0 / n, "L1", 1, "here")
    return lambda charges: replace(charges, mean=mean, axes=axes)


MAKERS: dict[str, Callable[..., Subject]] = {
    "alone": alone, "thesis": thesis, "own": own, "categories": categories, "tables": tables, "closer": closer,
    "histogram": histogram}
SUBJECTS: dict[str, Callable[[], Subject]] = {
    name: partial(MAKERS[maker], *arguments) for name, (maker, *arguments) in described("audit").items()}
# For each fault: the subject, the words for the fault, and the function that spoils the noise of a run.
FAULTS: dict[str, tuple[Callable[[], Subject], str, Callable[[Noise], Noise] | None]] = {
    "halved, laplace": (SUBJECTS["TrigI"], "noise halved", partial(scaled, factor=0.5)),
    "halved, gaussian": (SUBJECTS["TrigII"], "noise halved", partial(scaled, factor=0.5)),
    "halved, linf": (SUBJECTS["own, linf"], "noise halved", partial(scaled, factor=0.5)),
    # The fault of the thesis's proofs: that a mean of numbers in [-1, 1] moves by 1/n.
    "sensitivity": (lambda: thesis("TrigI", "rigorous", 2, 1, 2, alter=lambda charges: replace(charges, means=replace(
        charges.means, scale=charges.means.scale / 2.0, sensitivity=charges.means.sensitivity / 2.0))),
                    "sensitivity halved", None),
    "seed": (SUBJECTS["TrigI"], "constant seed", lambda _: SimulatedNoise(np.random.default_rng(SEED))),
    "sqrt 2, laplace": (SUBJECTS["TrigI"], "scale / √2", partial(scaled, factor=0.5**0.5)),
    "sqrt 2, linf": (SUBJECTS["own, linf"], "scale / √2", partial(scaled, factor=0.5**0.5)),
    "tables, gaussian": (SUBJECTS["tables, both rounds, gaussian"], "noise quartered", partial(scaled, factor=0.25)),
    "tables, linf": (SUBJECTS["tables, both rounds, linf"], "noise quartered", partial(scaled, factor=0.25)),
    **{f"noisy mean, n = {n}": (
        partial(thesis, "ImprovedTrigI", "published", n, 1, 1, 1, 1, local_sensitivity(n, share)),
        "variance noised by its movement at the noisy mean", None) for n, share in ((5, 0.2), (20, 0.1))},
}


def subject_of(name: str) -> Subject:
    if name in SUBJECTS:
        return SUBJECTS[name]()
    made, fault, spoil = FAULTS[name]
    return replace(made(), fault=fault, spoil=spoil)


# The experiment

# Runs of each of the two tables. The axes and the hardened noise, above all linf's, take longer.
SIMULATED, WITH_AXES, HARDENED, HARDENED_SLOW, PLANTED = 200_000, 100_000, 50_000, 20_000, 100_000
# Runs of rounds that are planned anew in each run; and with a planted fault.
WITH_ROUNDS, ROUNDS_PLANTED = 6_000, 20_000
# As many as it takes to tell the 1.04 of the thesis's scale at t = 3 from the 1 that it claims.
MORE = {"TrigI, t = 3, published": 1_000_000}


def audited(name: str, sampler: str, count: int, confidence: float = CONFIDENCE) -> dict[str, Any]:
    """Return a line of the table, from so many runs of each of the two inputs."""
    started = time.process_time()
    subject = subject_of(name)
    ledger, delta, found = subject.ledger(), subject.budget.delta, []
    for which in (0, 1):
        rng = np.random.default_rng([SEED, which, *name.encode()])
        noise = batches(SystemNoise(), min(BATCH, count)) if sampler == "OpenDP" else SimulatedNoise(rng)
        found.append(runs_of(subject, which, noise, count))
    bound, proved = lower_bound(found[0], found[1], delta, confidence), ledger.proved_epsilon
    alarm = false_alarm(max(bound.other, 1.0 / count), count - count // 2, proved, delta, confidence)
    return {"mechanism": subject.mechanism, "calibration": subject.calibration, "fault": subject.fault,
            "sampler": sampler, "n": subject.n, "d": subject.d, "delta": delta, "claimed": subject.budget.epsilon,
            "proved": proved, "bound": bound.epsilon, "share": bound.share, "other": bound.other, "runs": count,
            "seconds": time.process_time() - started, "refuted": bound.epsilon > proved, "false_alarm": alarm}


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    part, found = 10 if asked.quick else 1, list[Call]()
    for name in SUBJECTS:
        axes, linf = name.startswith("Improved"), "linf" in name or "blocks" in name
        many = MORE.get(name, WITH_AXES if axes else SIMULATED), HARDENED_SLOW if axes or linf else HARDENED
        found += [call(audited, name, sampler, (WITH_ROUNDS if name.startswith("tables") else count) // part)
                  for sampler, count in zip(("simulated", "OpenDP"), many, strict=True)]
    found += [call(audited, name, "simulated", (ROUNDS_PLANTED if name.startswith("tables") else PLANTED) // part)
              for name in FAULTS]
    return {cell: {} for cell in found}


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    correct, faults = lines[lines["fault"] == ""], lines[lines["fault"] != ""]
    return worded("audit", confidence=CONFIDENCE, refuted=correct["refuted"].sum(), correct=len(correct),
                  found=faults["refuted"].sum(), faults=len(faults), each=1.0 - CONFIDENCE,
                  all=len(correct) * (1.0 - CONFIDENCE), alarm=correct["false_alarm"].sum(),
                  seconds=lines["seconds"].sum(), table=markdown(
        ["mechanism", "calibration", "noise", "n × d", "δ", "claimed", *OUTCOME], [
            [row.mechanism, row.calibration, row.sampler, f"{row.n} × {row.d}", f"{row.delta:g}",
             f"{row.claimed:g}{' ✗' if row.bound > row.claimed else ''}" if row.calibration == "published" else "",
             *_outcome(row)] for row in correct.itertuples()]), planted=markdown(
        ["fault", "mechanism", "n × d", "δ", *OUTCOME], [
            [row.fault, row.mechanism, f"{row.n} × {row.d}", f"{row.delta:g}", *_outcome(row)]
            for row in faults.itertuples()]))


OUTCOME = ("proved", "bound", "shares", "runs", "seconds")


def _outcome(row: Any) -> list[str]:
    return [f"{row.proved:.4g}", f"{row.bound:.3f}{' **refuted**' if row.refuted else ''}",
            f"{row.share:.3g}, {row.other:.3g}", f"{row.runs:,}", f"{row.seconds:.1f}"]


def check(lines: pd.DataFrame) -> list[str]:
    """Return a failure for each line that breaks the promise: planted faults are refuted, and nothing else is."""
    return [f"audit: {row.mechanism}, {row.calibration}, {row.sampler}"
            + (f": the planted fault ({row.fault}) is not refuted" if row.fault else
               f": at least {row.bound} instead of {row.proved}")
            for row in lines[lines["refuted"] != (lines["fault"] != "")].itertuples()]


audit = Experiment(
    name="audit", what="lower bounds of epsilon, and planted faults that must exceed it (ten minutes; no data)",
    cells=cells, lines=of_cells, page=page, check=check,
    formats=dict.fromkeys(("delta", "claimed", "proved", "bound", "share", "other", "seconds", "false_alarm"), ".6g"))
