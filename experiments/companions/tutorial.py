"""A tutorial's primitives as a gallery on Adult: printed numbers beside ours, and what is wrong in the text.

Noise is OpenDP's, drawn from the operating system's entropy: a gallery should show it drawn. These are not releases:
the exact numbers stand beside them. Neighbours are add/remove, as the text has them.
"""

import hashlib
import inspect
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import trigmech as tm
from experiments import datasets
from experiments.cells import HERE, save
from experiments.companions import composition, pages
from experiments.companions.discrete import Array
from experiments.companions.selection import above_threshold, exponents, noisy_max, sparse
from experiments.protocols.data import ADULT_NUMBERS, CATEGORIES, ORDER
from trigmech.privacy.accounting import gaussian_mu
from trigmech.privacy.noise import SystemNoise
from trigmech.privacy.privacy_loss import gaussian_epsilon

SD = 4.0  # standard errors within which a random number has to be
OPTIONS = ("Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed", "Married-spouse-absent",
           "Married-AF-spouse")
PII = "adult_with_pii.csv"
PAGE = HERE.parent / "docs" / "gallery.md"


@dataclass(frozen=True)
class Row:
    """A number of the text beside ours.

    Parameters
    ----------
    what : str
        "false: ..." if the printed number is a claim that does not hold.
    printed, ours : float or str or None
        None: not printed.
    truth : float or str or None
        What ours should be: exactly if `spread` is 0.
    spread : float
        One standard error of ours, computed from the law of the noise.
    printed_truth : float or None
        What the printed number should be, where the text has it; ages there are invented.
    """

    what: str
    printed: float | str | None
    ours: float | str | None
    truth: float | str | None = None
    spread: float = 0.0
    printed_truth: float | None = None

    @property
    def passed(self) -> bool:
        """Whether the numbers are as they should be within four standard errors; false claims must not be."""
        claims = [(self.ours, self.truth, True), (self.printed, self.printed_truth, True)]
        if self.what.startswith("false"):
            claims.append((self.printed, self.ours, False))
        return all(self.near(value, truth) == wanted for value, truth, wanted in claims
                   if value is not None and truth is not None)

    def near(self, value: Any, truth: Any, errors: float = SD) -> bool:
        """Return whether a number is within so many standard errors of another; text is compared as it is."""
        if isinstance(value, str):
            return bool(value == truth)
        return bool(abs(value - truth) <= errors * self.spread + 1e-9 * abs(truth))


@dataclass(frozen=True)
class Primitive:
    """A section of the gallery."""

    title: str
    guarantee: str
    by: str
    rows: Callable[[], Iterator[Row]]


GALLERY: list[Primitive] = []


def primitive(title: str, guarantee: str, by: str) -> Callable[[Callable[[], Iterator[Row]]], Any]:
    """Add a function that yields rows to the gallery."""
    def add(rows: Callable[[], Iterator[Row]]) -> Callable[[], Iterator[Row]]:
        GALLERY.append(Primitive(title, guarantee, by, rows))
        return rows
    return add


@cache
def table() -> pd.DataFrame:
    """Return Adult's train part and the text's two invented records, by the names of UCI."""
    lines = [line.split(", ") for line in datasets.raw("ADULT")[0].decode().splitlines() if line]
    invented = ["93, State-gov, 0, Assoc-voc, 11, Married-civ-spouse, Craft-repair, Husband, White, Male, 0, 0, 40, "
                "United-States, <=50K", "1, State-gov, 0, Kinder, 1, Never-married, Baby, Baby, White, Female, 0, 0, "
                "0, United-States, <=50K"]
    frame = pd.DataFrame([*lines, *(line.split(", ") for line in invented)], columns=list(ORDER))
    return frame.astype(dict.fromkeys(ADULT_NUMBERS, int))


@cache
def text_ages() -> Array | None:
    """Return the text's own invented ages if TRIGMECH_DATA has its file, which is not shipped."""
    place = Path(os.environ.get(datasets.VARIABLE, "")).expanduser() / PII
    return pd.read_csv(place)["Age"].to_numpy(float) if place.is_file() else None


@cache
def processed() -> tuple[Array, Array, Array, Array]:
    """Return complete rows of both parts but the first of each, encoded as in the text: train, labels, test, labels."""
    parts = []
    for content in datasets.raw("ADULT"):
        rows = [line.rstrip(".").split(", ") for line in content.decode().splitlines() if line and line[0] != "|"]
        parts += [row for row in rows if "?" not in row][1:]
    frame = pd.DataFrame(parts, columns=list(ORDER))
    numbers = frame[list(ADULT_NUMBERS)].astype(float)
    X = np.column_stack([pd.get_dummies(frame[[c for c in CATEGORIES if c != "income"]]).to_numpy(float),
                         (numbers / numbers.max()).to_numpy()])
    y = np.where(frame["income"] == ">50K", 1.0, -1.0)
    order = np.random.default_rng([2021, len(y)]).permutation(len(y))
    train, test = order[: int(0.8 * len(y))], order[int(0.8 * len(y)):]
    return X[train], y[train], X[test], y[test]


def laplace(value: float, scale: float) -> float:
    """Return a number with OpenDP's Laplace noise."""
    return float(SystemNoise().laplace(np.array([value]), scale)[0])


@cache
def opendp() -> Any:
    """Return OpenDP's prelude."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


@primitive("Linkage and differencing attacks", "No guarantee", "pandas")
def attacks() -> Iterator[Row]:
    rng, ages = np.random.default_rng([17, len(table())]), table()["age"]
    born = pd.DataFrame({"day": rng.integers(29_220, size=len(ages)), "zip": rng.integers(100_000, size=len(ages))})
    yield Row("difference of two sums of ages: one age", 56, int(ages.sum() - ages[1:].sum()), int(ages[0]))
    yield Row("share of rows that invented birthday and zip code make unique", None,
              float((~born.duplicated(keep=False)).mean()), 1.0, 0.01)


@primitive("k-anonymity", "No guarantee", "`DataFrame.value_counts().min()`")
def anonymity() -> Iterator[Row]:
    pair = table()[["age", "education-num"]]
    smallest = [int(pair.head(100).value_counts().min()), int((pair.head(100) // 10).value_counts().min())]
    capped = pair.head(500).assign(age=pair.age.clip(10, 60), **{"education-num": pair["education-num"].clip(lower=3)})
    yield Row("head(100) is 1-anonymous", "true", "true" if smallest[0] >= 1 else "false", "true")
    yield Row("head(100) is 2-anonymous", "false", "true" if smallest[0] >= 2 else "false", "false")
    yield Row("generalised by 10 it is", "false", "true" if smallest[1] >= 2 else "false", "false")
    yield Row("head(500), clipped and generalised: k", 7, int((capped // 10).value_counts().min()), 7)


@primitive("Laplace mechanism", "ε; f + Lap(s/ε)", "`make_laplace`")
def laplace_count() -> Iterator[Row]:
    exact = int((table()["age"] >= 40).sum())
    yield Row("ages of at least 40", 17450, exact, 14_238)
    yield Row("the same at ε = 0.1", 17432.4, laplace(exact, 10.0), exact, 10.0 * 2**0.5, 17450)


@primitive("Parallel composition: histogram and crosstab", "ε of add/remove, 2ε of replace-one",
           "`make_count_by_categories`, `make_laplace`")
def histograms() -> Iterator[Row]:
    dp, text = opendp(), {"HS-grad": 10501, "Some-college": 7291, "Bachelors": 5355, "Masters": 1723, "Assoc-voc": 1383}
    count = dp.t.make_count_by_categories(dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance(),
                                          categories=CATEGORIES["education"].split(", "),
                                          MO=dp.L1Distance[int])
    found = dict(zip(CATEGORIES["education"].split(", "), count(table()["education"].tolist()), strict=False))
    for name, printed in text.items():
        yield Row(f"education {name}", printed, found[name], printed)
    yield Row("the same histogram moves, add/remove", None, float(count.map(1)), 1.0)
    yield Row("and replace-one", None, float(count.map(2)), 2.0)
    cross = pd.crosstab(table()["education"], table()["sex"])
    for name, both in {"10th": (295, 638), "11th": (432, 743), "12th": (144, 289), "1st-4th": (46, 122),
                       "5th-6th": (84, 249)}.items():
        yield Row(f"{name}, female and male", str(both), str(tuple(cross.loc[name].tolist())), str(both))


@primitive("Sensitivities", "count 1; sum max(|l|, |u|), replace-one u − l; mean as sum over count",
           "`make_clamp`, `make_sum`")
def sensitivities() -> Iterator[Row]:
    dp, data, ages = opendp(), table(), text_ages()
    above = data["education-num"] > 10
    yield Row("rows", 32_563, len(data), 32_563)
    yield Row("education-num above 10", 10_517, int(above.sum()), 10_517)
    yield Row("and not", 22_046, int((~above).sum()), 22_046)
    bounds = dp.t.make_clamp(dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance(), (0, 125))
    total = bounds >> dp.t.make_sum(dp.vector_domain(dp.atom_domain(T=int, bounds=(0, 125))), dp.symmetric_distance())
    yield Row("sum of ages, education-num above 10", 441_431, total(data.loc[above, "age"].tolist()), 422_969)
    yield Row("mean of these", 41.973, float(data.loc[above, "age"].mean()), 422_969 / 10_517)
    yield Row("sum of ages", 1_360_238, total(data["age"].tolist()), 1_256_351)
    yield Row("the text's sum of its own ages", 1_360_238, None if ages is None else float(ages.sum()), 1_360_238)
    yield Row("the sum moves, add/remove and replace-one", None, f"{total.map(1)}, {total.map(2)}", "125, 250")


@primitive("Gaussian mechanism", "(ε, δ): σ² = 2 s² ln(1.25/δ)/ε², for ε ≤ 1 only", "`make_gaussian`, "
           "`trigmech.privacy.accounting.gaussian_mu`")
def gauss() -> Iterator[Row]:
    for epsilon in (1.0, 10.0):
        classic, exact = math.sqrt(2 * math.log(1.25e5)) / epsilon, 1.0 / gaussian_mu(tm.Budget(epsilon, 1e-5))
        yield Row(f"σ at ε = {epsilon:g}, δ = 1e-5, by the formula; enough: {exact:.4f}", None,
                  "enough" if classic >= exact else "too small", "enough" if epsilon == 1 else "too small")
    noisy = SystemNoise().gaussian(np.zeros(1000), 1.0)
    yield Row("L2 and L1 of 1000 unit moves", None, f"{1000**0.5:.4g}, {1000}", "31.62, 1000")
    yield Row("variance of 1000 draws of σ = 1", None, float(noisy.var()), 1.0, (2 / 1000) ** 0.5)


@primitive("Rényi and zero-concentrated privacy", "ε = ε̄ + ln(1/δ)/(α − 1); ε = ρ + 2√(ρ ln(1/δ))",
           "`dp_accounting.rdp`, `make_zCDP_to_approxDP`")
def renyi() -> Iterator[Row]:
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    dp = opendp()
    measured = dp.m.make_gaussian(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0)
    yield Row("ρ = 1/2, δ = 1e-5: ε by the formula", None, 0.5 + 2 * math.sqrt(0.5 * math.log(1e5)), 5.298526, 1e-6)
    yield Row("by OpenDP's map", None, dp.c.make_zCDP_to_approxDP(measured).map(1.0).epsilon(1e-5), 4.728387, 1e-6)
    printed = min(a / 2 + math.log(1e5) / (a - 1) for a in np.linspace(1.01, 64, 10_000))
    by_library = RdpAccountant().compose(GaussianDpEvent(1.0)).get_epsilon(1e-5)
    yield Row(f"Rényi: {printed:.4f} by the formula; dp_accounting's is less", None,
              "less" if by_library < printed else "more", "less")


def distance_to(bound: float, upper: float, n: int) -> int:
    """Return how many rows must go until a mean's local sensitivity upper/(n - k) exceeds the bound."""
    return next(k for k in range(n) if upper / (n - k) > bound)


@primitive("Propose-test-release", "printed ε, truly (2ε, δ) with T = ln(1/(2δ))/ε",
           "15 lines, noise by `make_laplace`")
def propose_test_release() -> Iterator[Row]:
    ages, bound, upper, epsilon = table()["age"].clip(0, 100), 0.005, 100.0, 1.0
    n = len(ages)
    delta, distance = n**-2.0, distance_to(bound, upper, n)
    printed_threshold, threshold = math.log(2 / delta) / (2 * epsilon), math.log(1 / (2 * delta)) / epsilon
    noisy = laplace(distance, 1 / epsilon)
    yield Row("steps D to a local sensitivity above b", 12_563.3, distance, 12_564, 2**0.5, 12_564)
    yield Row("threshold T as printed", 10.7375, printed_threshold, 10.7375, 1e-5)
    yield Row("released mean", 41.792, laplace(float(ages.mean()), bound / epsilon) if noisy >= threshold else None,
              float(ages.mean()), 2**0.5 * bound / epsilon)
    failure = [0.5 * math.exp(-epsilon * t) / delta for t in (printed_threshold, threshold)]
    yield Row("false: probability that D = 0 passes, over δ, with the printed T", 1.0, failure[0])
    yield Row("corrected T", None, failure[1], 1.0, 1e-9)


def chunk_answers(ages: Array, groups: Any, k: int) -> Array:
    """Return the clipped mean of each group, 20 of an empty one."""
    sums, counts = (np.bincount(groups, weights, minlength=k) for weights in (ages, None))
    return np.clip(np.divide(sums, counts, out=np.full(len(sums), 20.0), where=counts > 0), 20.0, 80.0)


def keyed_groups(n: int, k: int) -> Any:
    """Return a group for each row by a keyed hash of its own identity, which here is its number."""
    return np.array([int.from_bytes(hashlib.blake2b(str(i).encode(), key=b"of this release", digest_size=8).digest())
                     % k for i in range(n)])


@primitive("Sample and aggregate", "ε, if rows do not change groups", "8 lines, noise by `make_laplace`")
def sample_and_aggregate() -> Iterator[Row]:
    ages, k = table()["age"].to_numpy(float), 600
    size = math.ceil(len(ages) / k)
    groups, hashed = np.arange(len(ages)) // size, keyed_groups(len(ages), k)
    answers = chunk_answers(ages, groups, groups.max() + 1)
    yield Row("rows of a chunk", 55, size, 55)
    yield Row("false: chunks, noise is for k = 600", 600, len(answers), 593)
    yield Row("mean of chunks' clipped means at ε = 1", 41.742, laplace(answers.mean(), 60 / k), answers.mean(),
              2**0.5 * 60 / k)
    moved = int((chunk_answers(ages[1:], groups[:-1], len(answers)) != answers).sum())
    yield Row("false: chunks that change when the first row goes, by position", 1, moved)
    kept = int((chunk_answers(ages[1:], hashed[1:], k) != chunk_answers(ages, hashed, k)).sum())
    yield Row("by a keyed hash", None, kept, 1)


def statuses() -> Array:
    """Return the counts of a public list of marital statuses."""
    return table()["marital-status"].value_counts()[list(OPTIONS)].to_numpy(float)


@primitive("Exponential mechanism", "ε; P ∝ exp(εu/(2Δ))", "`make_noisy_max` with `zero_concentrated_divergence()`")
def exponential_mechanism() -> Iterator[Row]:
    dp, scores = opendp(), statuses() / 1000
    law = np.exp(exponents(scores, 1.0, 1.0))
    law /= law.sum()
    choose = dp.m.make_noisy_max(dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float),
                                 dp.zero_concentrated_divergence(), scale=2.0)
    drawn = np.bincount([choose(scores.tolist()) for _ in range(200)], minlength=len(scores))
    yield Row("best score, ours of UCI's table", 10.684, float(np.sort(scores)[-2]), 10.684, 1e-6, 10.684)
    for i, printed in enumerate((181, 18, 1)):
        yield Row(f"of 200: {OPTIONS[i]}", printed, int(drawn[i]), float(200 * law[i]),
                  max(0.6, math.sqrt(200 * law[i] * (1 - law[i]))), float(200 * law[i]))
    yield Row("false: \"ε = 1\" with sensitivity 1 declared, .001 true: the ε spent", 1.0, 0.001)


def noisy_max_law(gap: float, scale: float) -> float:
    """Return the probability that the lower of two scores wins under Laplace noise."""
    return 0.5 * math.exp(-gap / scale) * (1 + gap / (2 * scale))


@primitive("Report noisy max", "ε of add/remove with Lap(Δ/ε); replace-one needs Lap(2Δ/ε)", "`make_noisy_max`, which "
           "draws permute-and-flip; here Laplace as in the text")
def report_noisy_max() -> Iterator[Row]:
    two = statuses()[:2] / 1000
    drawn = [noisy_max(two, 1.0, 1.0, laplace, monotone=True) for _ in range(200)]
    lower = noisy_max_law(float(two[0] - two[1]), 1.0)
    for i, printed in enumerate((197, 3)):
        share = lower if i else 1 - lower
        yield Row(f"of 200: {OPTIONS[i]}, at 1", printed, drawn.count(i), 200 * share,
                  math.sqrt(200 * lower * (1 - lower)), 200 * share)
    loss = [math.log(noisy_max_law(3.0, s) / noisy_max_law(5.0, s)) for s in (1.0, 2.0)]
    yield Row("false: loss of a replaced row, counts 5 apart, Lap(1/ε) at ε = 1", 1.0, loss[0])
    yield Row("corrected, Lap(2/ε): at most ε", None, "yes" if loss[1] <= 1 else f"{loss[1]:.3f}", "yes")


@primitive("Above threshold and sparse vector", "ε; T + Lap(2/ε), answers + Lap(4/ε); c times at ε/c",
           "not in OpenDP 0.16: 15 lines on its Laplace")
def sparse_vector() -> Iterator[Row]:
    ages = table()["age"].to_numpy()
    gains = [float(-(ages > b).sum()) for b in range(1, 150, 5)]
    yield Row("rows above 76, 81, 86, 91, the invented one of 93 among them", None,
              ", ".join(str(int(-gains[i])) for i in (15, 16, 17, 18)), "196, 80, 48, 1")
    found = list(sparse(gains, 0.0, 1.0, 3, laplace))
    # From 18 on about every second one is above.
    yield Row(f"places by sparse at ε = 1; printed [15, 17, 18], here {found}; the first", 15, found[0], 19, 1.5)


@primitive("Clipping by above threshold", "ε, a third each for the bound, the sum and the count", "with it")
def clipping() -> Iterator[Row]:
    for name, step, printed in (("age", 1, 41.774), ("capital-gain", 10_000, 1113.8)):
        values, bounds = table()[name].to_numpy(float), range(1, 150 * step, step)
        place = above_threshold([-float((values > b).sum()) for b in bounds], 0.0, 1 / 3, laplace)
        bound = bounds[place if place is not None else -1]
        total, count = laplace(np.clip(values, 0, bound).sum(), 3.0 * bound), laplace(len(values), 3.0)
        yield Row(f"mean of {name}, clipped at {bound}", printed, total / count,
                  float(np.clip(values, 0, bound).mean()), 2**0.5 * 3 * math.hypot(bound, values.mean()) / len(values))


@primitive("Range queries by sparse", "half of ε chooses, half answers", "with it")
def range_queries() -> Iterator[Row]:
    rng, ages = np.random.default_rng([5, len(table())]), table()["age"].to_numpy()
    low = rng.integers(0, 80, 10)
    exact = [float(((ages >= a) & (ages < a + 20)).sum()) for a in low]
    chosen = list(sparse(exact, 1_000.0, 0.5, 5, laplace))
    answers = [laplace(exact[i], 5 / 0.5) for i in chosen]
    worst = max((abs(a - exact[i]) for a, i in zip(answers, chosen, strict=True)), default=0.0)
    yield Row(f"{len(exact)} counts of 20 years, {len(answers)} answers, the worst error", 11.0,
              worst, 0.0, 21.0, 0.0)


def gradients(theta: Array, X: Array, y: Array) -> Array:
    """Return the logistic loss's gradient at each row."""
    return np.asarray(-(y / (1.0 + np.exp(y * (X @ theta))))[:, None] * X)


def descent(steps: int, noise: Callable[[Array, int], Array]) -> Array:
    """Return logistic regression's weights after steps of length 1 along the mean of `noise(sum of gradients, n)`."""
    X, y, _, _ = processed()
    theta = np.zeros(X.shape[1])
    for _ in range(steps):
        theta = theta - noise(gradients(theta, X, y).sum(axis=0), len(X))
    return theta


@primitive("Logistic regression by noisy gradient descent", "((T+1)ε, Tδ) of sums, less by Gaussian privacy",
           "scikit-learn, noise by `make_gaussian` and `make_laplace`")
def gradient_descent() -> Iterator[Row]:
    from sklearn.linear_model import LogisticRegression

    X, y, Z, truth = processed()

    def right(theta: Array) -> float:
        return float((np.where(Z @ theta > 0, 1.0, -1.0) == truth).mean())

    se = math.sqrt(0.75 * 0.25 / len(Z))
    yield Row("rows and columns", "45220, 104", f"{len(X) + len(Z)}, {X.shape[1]}", "45220, 104")
    yield Row("scikit-learn, first 1000 rows", 0.8243, float(LogisticRegression(max_iter=1000).fit(
        X[:1000], y[:1000]).score(Z, truth)), 0.829, 2 * se, 0.829)
    yield Row("loss at 0", math.log(2), float(np.log1p(np.exp(-y * 0)).mean()), math.log(2))
    plain = [descent(steps, lambda g, n: g / n) for steps in (1, 10)]
    majority = float((truth < 0).mean())
    yield Row("one step: exactly the share of the majority label, nothing is learned", 0.7585, right(plain[0]),
              majority, 2 * se, majority)
    yield Row("ten steps", 0.7787, right(plain[1]), 0.777, 2 * se, 0.777)
    norm = float(np.linalg.norm(X, axis=1).max())
    yield Row("false: clipping at b = 5 clips rows, whose largest norm is at most √14", 5.0, norm)
    for name, bound, printed in (("noisy, b = 5", 5.0, 0.7793), ("clipped rows, b = √14", 14**0.5, 0.7826)):
        scale, count = bound * math.sqrt(2 * math.log(1.25e5)) / 0.1, laplace(len(X), 10.0)
        made = right(descent(10, lambda g, n, s=scale, c=count: SystemNoise().gaussian(g, s) / c))  # type: ignore[misc]
        yield Row(f"ten steps, {name}, ε = .1 and δ = 1e-5 each", printed, made, 0.779, 0.004, 0.779)
    mu = math.sqrt(10) * 0.1 / math.sqrt(2 * math.log(1.25e5))
    total = gaussian_epsilon(mu, 1e-5) + 0.1
    yield Row("\"1.1 in all\" is no more than a sum; at δ = 1e-5 by Gaussian privacy", 1.1, total, 0.31, 0.0025)


@primitive("Randomised response", "two coins: ε = ln 3; estimate 2(yes − n/4)", "`make_randomized_response_bool(.75)`")
def randomised_response() -> Iterator[Row]:
    answer, sales = opendp().m.make_randomized_response_bool(prob=0.75), (table()["occupation"] == "Sales").tolist()
    spread = 2 * math.sqrt(len(sales) * 3 / 16)
    yield Row("ε", "ln 3", float(answer.map(1)), math.log(3), 1e-9)
    yield Row("of 200 truthful yes: yes", 148, sum(answer(True) for _ in range(200)), 150, math.sqrt(200 * 3 / 16), 150)
    yield Row("sales persons", 3606.5, 2 * (sum(map(answer, sales)) - len(sales) / 4), 3650, spread, 3650)


@primitive("Unary encoding", "ε = ln(p(1−q)/((1−p)q)); estimate (Σ − nq)/(p − q)",
           "`make_randomized_response_bitvec(max_weight=1, f=2q)`")
def unary_encoding() -> Iterator[Row]:
    dp, names = opendp(), (*CATEGORIES["occupation"].split(", "), "Baby", "?")
    answer = dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=0.5)
    jobs = table()["occupation"].map({name: i for i, name in enumerate(names)}).to_numpy()
    bits = [int(1 << i).to_bytes(2, "little") for i in range(16)]
    sums = np.zeros(16)
    for job in jobs:
        sums += np.unpackbits(np.frombuffer(answer(bits[job]), dtype=np.uint8), bitorder="little")
    yield Row("ε", 2.197, float(answer.map(1)), math.log(9), 2.5e-4, math.log(9))
    for name, printed in (("Sales", 3630.5), ("Baby", -217.5)):
        place = names.index(name)
        yield Row(name, printed, float((sums[place] - len(jobs) / 4) * 2), int((jobs == place).sum()),
                  math.sqrt(len(jobs) * 3 / 16) * 2, int((jobs == place).sum()))


@primitive("Synthetic data from marginals", "ε of the histogram and 1.0 more for n, which the text leaves out",
           "numpy; beside it `trigmech.synthesize`")
def synthetic() -> Iterator[Row]:
    rng, data = np.random.default_rng(), table()
    ages, jobs = data["age"].to_numpy(), data["occupation"]
    labels = (*CATEGORIES["occupation"].split(", "), "Baby", "?")
    codes = jobs.map({name: i for i, name in enumerate(labels)}).to_numpy()
    counts = np.bincount(ages * 16 + codes, minlength=101 * 16).astype(float)
    noisy = np.clip(SystemNoise().laplace(counts.reshape(101, 16).sum(axis=1), 1.0), 0, None)
    n = round(laplace(len(ages), 1.0))
    drawn = rng.choice(101, n, p=noisy / noisy.sum())

    def within(low: int, high: int, values: Any) -> int:
        return int(((values >= low) & (values < high)).sum())

    for low, high, truth, printed in ((21, 33, 9_878, 6243.1), (20, 65, 29_568, 23_574)):
        share = truth / n
        yield Row(f"ages {low} to {high - 1}", printed, within(low, high, drawn), truth,
                  math.sqrt(n * share * (1 - share)) + 15)
    pair = np.clip(SystemNoise().laplace(counts, 1.0), 0, None)
    cells = rng.choice(pair.size, n, p=pair / pair.sum()) // 16
    yield Row("age × occupation: ages 20 to 29; noise of empty cells stays", None, within(20, 30, cells), 8_054, 300.0)
    schema = tm.Schema([tm.Column("age", 0, 100, "integer"), tm.Column("job", kind="categorical", categories=labels)])
    made = tm.synthesize(pd.DataFrame({"age": ages, "job": jobs}), schema, tm.Budget(1.0)).sample(len(ages))
    yield Row("the same by `trigmech.synthesize` at ε = 1, replace-one", None, within(20, 30, made["age"].to_numpy()),
              8_054, 150.0)
    yield Row("false: ε stated 1.0 of a histogram and n̂ together", 1.0, 2.0)


@primitive("Advanced composition", "printed ε′ = 2ε√(2k ln(1/δ′)), false for large ε√k",
           "`trigmech.privacy.accounting.epsilon_of`")
def advanced_composition() -> Iterator[Row]:
    for k, least in ((200, 141.846), (1000, 577.833)):
        yield Row(f"false: k = {k} of ε = 1 at 1e-5; least possible", composition.published(1.0, k),
                  composition.ours(1.0, k), least, 1e-3)
    yield Row("k = 100 of ε = .1", 9.597, composition.ours(0.1, 100), 4.30679, 1e-5)


@primitive("Slips of the text", "each as printed, and what holds", "")
def slips() -> Iterator[Row]:
    yield Row("false: a sum moves by upper − lower, of [5, 6], if a row is added; max(abs(l), abs(u))", 1, max(5, 6))
    yield Row("false: categories by `unique()` are public: \"Baby\", in the public list", "yes",
              "yes" if "Baby" in CATEGORIES["occupation"] else "no", "no")
    two_lap = 2 * np.var(stats.laplace.rvs(size=200_000, random_state=np.random.default_rng(3))) / 4
    yield Row("false: the mean of two Lap(1) is as good as one Lap(1/2): variance", 0.5, float(two_lap), 1.0, 0.01)
    yield Row("a mean over 5 sampled rows: standard error of a mean age", None,
              float(table()["age"].std() / 5**0.5), 6.1, 0.05)


def tutorial(jobs: int, quick: bool) -> list[Path]:
    """Write results/tutorial.csv and .md, and the same with its code as a page of the documentation.

    quick leaves out what draws for each row of the table, and the page.
    """
    from rich.progress import track

    chosen = [each for each in GALLERY if not quick or each.title not in ("Randomised response", "Unary encoding")]
    sections = [(each, list(each.rows())) for each in track(chosen, "tutorial")]
    rows = [{"primitive": each.title, "what": row.what, "printed": row.printed, "ours": row.ours,
             "should_be": row.truth, "standard_error": row.spread, "passed": row.passed}
            for each, found in sections for row in found]
    if not quick:
        save(PAGE, "\n".join(page(sections, code=True)) + "\n")
    return pages.publish("tutorial", quick, rows, page(sections))


def page(sections: list[tuple[Primitive, list[Row]]], code: bool = False) -> list[str]:
    """Return the Markdown; `code`: with the source of each section, as in a notebook."""
    lines = ["# A tutorial's primitives on Adult", "",
             "Noise is OpenDP's own, drawn anew in every run. These are not releases: exact numbers stand beside them. "
             "Neighbours are add/remove, as in the text, where nothing else is said. Data: UCI's train part and the "
             "text's two invented records; its ages, names and birthdays are invented, so numbers of ages differ. "
             f"A number passes within {SD:g} standard errors, computed from the law; what begins with *false* fails as "
             "printed and holds as ours.", ""]
    if code:
        lines += ["Written by `python -m experiments run tutorial`. What is false, and why, is in the "
                  "[errata](errata.md#the-other-sources).", "",
                  "![Counts of education with and without noise; the error of a clipped mean against its bound]"
                  "(images/companions_tutorial.png)", ""]
    for each, found in sections:
        lines += [f"## {each.title}", "", f"{each.guarantee}." + (f" By {each.by}." if each.by else ""), ""]
        if code:
            body = "".join(inspect.getsourcelines(each.rows)[0]).partition("-> Iterator[Row]:\n")[2]
            lines += ["<!-- not run: it needs Adult and draws anew -->", "```python", *dedent(body).splitlines(), "```",
                      ""]
        lines += pages.grid(("what", "printed", "ours", "should be", "standard error", ""),
                            [(row.what, *map(number, (row.printed, row.ours, row.truth, row.spread or None)),
                              "✓" if row.passed else "✗") for row in found])
    return lines


def number(value: Any) -> str:
    """Return a number with six digits."""
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
