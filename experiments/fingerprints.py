"""Fingerprints of the package's mechanisms. Results of code with other fingerprints are said to be older.

A fingerprint describes behaviour. Small made tables are released with seeded noise, and a few numbers are noted of each
release: of the measured means, of the distribution, of a sample. A comment does not change them. The known fingerprints
of each mechanism are in ``results/fingerprints.json``, the code's own last, each with an identifier;
``results/versions.json`` has for each file of results the identifiers of the code that made it.

Processors round differently, and a rounding error can decide which of two equally good moves a descent makes, or which
of two cuts a plan makes. With libraries' code for seven processors, up to 3 of 12 runs of one kind gave other numbers
(runs of moments never did). So there are several runs of each kind of tables, and two fingerprints are the same if more
than half of the runs of each kind are.
"""

import hashlib
import json
import re
from collections.abc import Callable, Container, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import trigmech as tm
from experiments import Array
from experiments.cells import described
from trigmech._files import write_whole

# For each kind of run: for each run its numbers.
Fingerprint = list[list[list[float]]]

KNOWN, MADE = "fingerprints.json", "versions.json"
# The mark of a row that older code made.
OLDER = " (older code)"
TOLERANCE, SEED, RUNS = 1e-6, 2014, 5
DELTA = 1e-6
DEFAULT, PURE_DEFAULT, EQUAL = "TableMechanism", "TableMechanism (pure)", "default-equal"
SMOOTH, PURE_SMOOTH, MINIMAX = "MomentMechanism", "MomentMechanism (pure)", "minimax"
THESIS, PURE_THESIS = "the thesis's", "the thesis's (pure)"
OWN = (DEFAULT, PURE_DEFAULT, EQUAL, SMOOTH, PURE_SMOOTH, MINIMAX, THESIS, PURE_THESIS)

BOTH = (SMOOTH, PURE_SMOOTH)
# The mechanisms that each file of results shows; a file that is not named here shows no mechanism.
SHOWN: dict[str, tuple[str, ...]] = {stem: tuple(names) for stem, names in described("shown").items()}
# These pages mark rows.
BY_ROWS = ("nist", "aim", "synmeter", "adult", "smooth", "w1", "w2", "w3", "table_3_2", "table_3_3")
START, END = "**Older code.** What follows is not known to be what the code gives now: ", ".\n\n"


@cache
def numbers() -> tuple[Array, tm.Schema]:
    X = np.tanh(np.random.default_rng(SEED).normal(size=(300, 4)) @ (0.6 * np.tri(4)))
    return X, tm.Schema.cube(4)


@cache
def mixed() -> tuple[pd.DataFrame, tm.Schema]:
    rng = np.random.default_rng(SEED + 1)
    n = 400
    age, poor = rng.integers(0, 90, n), rng.random(n) < 0.3
    table = pd.DataFrame({
        "age": age, "pay": np.where(poor, 0.0, rng.lognormal(5.0, 0.5, n).clip(1.0, 999.0)),
        "rent": np.where(age < 15, np.nan, 100.0 * rng.random(n) * (1 + poor)),
        "place": rng.choice(["north", "south", "west"], n, p=[0.6, 0.3, 0.1]),
        "health": np.where(age > 60, "bad", np.where(rng.random(n) < 0.4, "good", "fair")),
        "seen": np.datetime64("2020-01-01") + (11 * age + rng.integers(0, 99, n))})
    return table, tm.Schema([
        tm.Column("age", 0, 99, "integer"), tm.Column("pay", 0, 1000, special=(0,)),
        tm.Column("rent", 0, 200, missing="keep"),
        tm.Column("place", kind="categorical", categories=("north", "south", "west")),
        tm.Column("health", kind="ordinal", categories=("bad", "fair", "good")),
        tm.Column("seen", "2020-01-01", "2024-12-31", "datetime")],
        constraints=["age < 15 implies rent is missing"])


@cache
def many() -> tuple[pd.DataFrame, tm.Schema]:
    """A table with two columns of many categories: most of them rare, and all equally frequent."""
    rng, names = np.random.default_rng(SEED + 2), np.array([f"c{i}" for i in range(30)])
    shares = np.exp(-0.5 * np.arange(30.0))
    table = pd.DataFrame({"rare": names[rng.choice(30, 300, p=shares / shares.sum())],
                          "even": names[rng.integers(0, 30, 300)]})
    return table, tm.Schema([tm.Column(name, kind="categorical", categories=names.tolist()) for name in table])


def of_release(made: tm.Synthesis) -> list[float]:
    """Return a few numbers of a release: of the measured means, of the distribution, and of a larger sample."""
    wave, points = np.cos(np.arange(made.release.K)), made.distribution.points
    sample = made.schema.to_cube(made.sample(2 * len(points), np.random.default_rng(SEED)))
    found = [made.release.K, made.ledger.proved_epsilon, wave @ made.means, wave @ made.deviations]
    for rows, weights in ((points, made.distribution.weights), (sample, np.full(len(sample), 1.0 / len(sample)))):
        second = (rows * weights[:, None]).T @ rows
        found.append((np.cos(np.arange(second.size)).reshape(second.shape) * second).sum())
    return [float(f"{value:.12g}") for value in found]


def _runs(which: Callable[[], tuple[Any, tm.Schema]], budget: tm.Budget, mechanism: Any = None,
          **named: Any) -> Fingerprint:
    table, schema = which()
    return [[of_release(tm.synthesize(table, schema, budget, mechanism, np.random.default_rng([SEED, run]), **named))
             for run in range(RUNS if mechanism is None else 1)]]


def _computed(mechanism: str) -> Fingerprint:
    approximate, pure = tm.Budget(1.0, DELTA), tm.Budget(1.0)
    if mechanism in (DEFAULT, PURE_DEFAULT):
        budget, wide = (approximate, tm.Budget(20.0, DELTA)) if mechanism == DEFAULT else (pure, tm.Budget(20.0))
        # At so much budget tables of three columns are measured and constraints bind, too.
        return _runs(numbers, budget) + _runs(mixed, wide, workload=tm.workload.Marginals(3)) + _runs(many, budget)
    if mechanism == EQUAL:
        from experiments.protocols.boards import equal_epsilon

        return [[[equal_epsilon(1.0, DELTA)]], *computed(DEFAULT)]
    if mechanism in BOTH:
        budget = approximate if mechanism == SMOOTH else pure
        return _runs(numbers, budget, tm.MomentMechanism()) + _runs(mixed, budget, tm.MomentMechanism())
    if mechanism == MINIMAX:
        return _runs(numbers, approximate, tm.minimax(2)) + _runs(numbers, pure, tm.minimax(2))
    budget, improved, plain = (approximate, tm.ImprovedTrigII, tm.TrigII) if mechanism == THESIS else (
        pure, tm.ImprovedTrigI, tm.TrigI)
    return [kind for made in (partial(improved, n_candidates=200), partial(plain, degree=2, grid=4))
            for how in ("rigorous", "published") for kind in _runs(numbers, budget, made(calibration=how))]


@cache
def computed(mechanism: str) -> Fingerprint:
    """Return the fingerprint of a mechanism, one of `OWN`, by the present code. Cost: some tenths of a second."""
    with threadpool_limits(1, user_api="blas"):
        return _computed(mechanism)


def alike(one: Fingerprint, other: Fingerprint) -> bool:
    """Return whether two fingerprints are of the same behaviour: in each kind, more than half of the runs."""
    def same(runs: list[list[float]], others: list[list[float]]) -> bool:
        return 2 * sum(np.shape(run) == np.shape(again) and np.allclose(run, again, rtol=TOLERANCE, atol=TOLERANCE**1.5)
                       for run, again in zip(runs, others, strict=False)) > max(len(runs), len(others))

    return len(one) == len(other) and all(map(same, one, other))


def known(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the fingerprints that are known of each mechanism, the code's own last."""
    return _read(results / KNOWN)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def now(results: Path, mechanisms: Iterable[str] = OWN) -> dict[str, str]:
    """Return the identifiers of these mechanisms' fingerprints by the present code; save new fingerprints."""
    listed, found = known(results), dict[str, str]()
    for mechanism in mechanisms:
        every, own = listed.setdefault(mechanism, []), computed(mechanism)
        same = [each for each in every if alike(each["numbers"], own)]
        entry: dict[str, Any] = same[-1] if same else {"id": hashlib.sha256(json.dumps(own).encode()).hexdigest()[:8],
                                                       "numbers": own}
        # The present fingerprint is last, also if it was known before.
        listed[mechanism] = [each for each in every if each is not entry] + [entry]
        found[mechanism] = entry["id"]
    if listed != known(results):
        results.mkdir(parents=True, exist_ok=True)
        # A line for each run.
        text = re.sub(r"\[[^][]*\]", lambda run: " ".join(run[0].split()), json.dumps(listed, indent=1))
        write_whole(results / KNOWN, (text + "\n").encode())
    return found


def of_code(path: Path, run: Container[str] = OWN) -> dict[str, dict[str, str]]:
    """Return the entry for a file of results: for each mechanism that it shows, the identifier of the code."""
    shown, noted = SHOWN.get(path.stem, ()), _read(path.parent / MADE).get(path.name, {}).get("code", {})
    found = noted | now(path.parent, [name for name in shown if name in run])
    return {"code": {name: found[name] for name in OWN if name in shown and name in found}} if shown else {}


def older(stem: str, results: Path) -> frozenset[str]:
    """Return the mechanisms in results/<stem> that were run by other code than the present, or by unknown code.

    Nothing is computed: the last known fingerprint is taken for the present code's.
    """
    noted = _read(results / MADE)
    made: dict[str, str] = next((noted[name].get("code", {}) for name in (f"{stem}.csv", f"{stem}.md")
                                 if name in noted), {})
    last = {mechanism: every[-1]["id"] for mechanism, every in known(results).items()}
    return frozenset(each for each in SHOWN.get(stem, ()) if each not in last or made.get(each) != last[each])


def marked(text: str, stem: str, results: Path) -> str:
    """Return a page; if it does not mark its rows and some are older, with a sentence about them below its title."""
    start = text.find(START)
    if start >= 0:
        text = text[:start] + text[text.index(END, start) + len(END):]
    found = [] if stem in BY_ROWS else [name for name in OWN if name in older(stem, results)]
    title, _, rest = text.partition("\n\n")
    return text if not found else f"{title}\n\n{START}{', '.join(found)}{END}{rest}"
