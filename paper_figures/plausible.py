"""Real rows beside synthetic ones: ``python -m paper_figures.plausible`` writes plausible.png beside this file.

Six tables of 300 to 99,762 rows, each released once by TableMechanism at (1, 10^-6): marginals of three columns and two
pairs. The data lie below the directory that TRIGMECH_DATA names. Unlike the other figures this one is made from data.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import trigmech as tm
from experiments import datasets, protocols

HERE = Path(__file__).parent
BUDGET, SEED = tm.Budget(1.0, 1e-6), 0
BINS, MOST_POINTS, MOST_VALUES = 60, 2_000, 8
REAL, SYNTHETIC = "0.72", "#1b3a5c"


class Shown(NamedTuple):
    """A data set: its name and title, how many of its rows are used, and the columns and pairs that are drawn."""

    name: str
    title: str
    rows: int | None
    columns: tuple[str, str, str]
    pairs: tuple[tuple[str, str], tuple[str, str]]


SHOWN = (
    Shown("synmeter_insurance", "Insurance", 300, ("age", "bmi", "label"), (("bmi", "label"), ("label", "smoker"))),
    Shown("WDBC", "WDBC", None, ("mean radius", "mean concavity", "worst area"),
          (("mean radius", "worst area"), ("mean compactness", "mean concavity"))),
    Shown("PKS", "Parkinsons", None, ("total_UPDRS", "HNR", "Jitter(%)"),
          (("motor_UPDRS", "total_UPDRS"), ("HNR", "PPE"))),
    Shown("nist_demographic", "NIST, demographic", None, ("AGEP", "EDU", "PINCP_DECILE"),
          (("AGEP", "MSP"), ("AGEP", "EDU"))),
    Shown("adult", "Adult", None, ("age", "hours-per-week", "fnlwgt"),
          (("age", "hours-per-week"), ("age", "relationship"))),
    Shown("CSN", "Census-Income", None, ("age", "weeks worked in year", "wage per hour"),
          (("age", "weeks worked in year"), ("age", "num persons worked for employer"))),
)


def tables(shown: Shown) -> tuple[pd.DataFrame, pd.DataFrame, tm.Schema]:
    """Return real rows, as many synthetic ones, and their schema."""
    if shown.name in protocols.SETS:
        real, schema = protocols.load(shown.name)
    else:
        real = datasets.load(shown.name)
        # Like the experiments: bounds of the data themselves.
        schema = tm.Schema(tm.Column(name, float(own.min()), float(own.max()),
                                     "integer" if (own == own.round()).all() else "continuous")
                           for name, own in real.items())
    if shown.rows is not None:
        real = real.sample(shown.rows, random_state=SEED).reset_index(drop=True)
    rng = np.random.default_rng(SEED)
    made = tm.synthesize(real, schema, BUDGET, tm.TableMechanism(), rng)
    return real, made.sample(len(real), rng), schema


def draw_column(axes: Any, column: tm.Column, real: pd.Series, synthetic: pd.Series) -> None:
    """Draw the real distribution of a column in grey and the synthetic one as a dark line."""
    if column.categories is not None:
        names = real.value_counts().index[: 2 * MOST_VALUES]
        edges = np.arange(len(names) + 1) - 0.5
        shares = [own.value_counts(normalize=True).reindex(names, fill_value=0.0).to_numpy()
                  for own in (real, synthetic)]
        axes.set_xticks(range(len(names)), [str(name)[:9] for name in names], rotation=90)
    else:
        low, high = map(float, column.bounds)
        width = max(1.0, round((high - low) / BINS)) if column.kind == "integer" else (high - low) / BINS
        edges = np.arange(low, high + 1.5 * width, width) - (0.5 if column.kind == "integer" else 0.0)
        shares = [np.histogram(own.dropna().astype(float), edges)[0] / len(own) for own in (real, synthetic)]
    axes.stairs(shares[0], edges, fill=True, color=REAL)
    axes.stairs(shares[1], edges, color=SYNTHETIC, linewidth=1.0)
    axes.set_title(column.name, fontsize="small")
    axes.set_yticks([])


def draw_pair(axes: Any, columns: tuple[tm.Column, tm.Column], table: pd.DataFrame, values: list[Any]) -> None:
    """Draw at most 2,000 rows of a table; categories, of which the first of ``values`` are drawn, are strips."""
    rng = np.random.default_rng(SEED)
    rows = table.sample(min(len(table), MOST_POINTS), random_state=SEED)
    places = []
    for column in columns:
        own = rows[column.name]
        if column.categories is not None:
            at = np.array([values.index(value) if value in values else np.nan for value in own])
            places.append(at + rng.uniform(-0.35, 0.35, len(rows)))
        else:
            spread = 0.35 if column.kind == "integer" else 0.0
            places.append(own.to_numpy(dtype=float) + rng.uniform(-spread, spread, len(rows)))
    axes.scatter(*places, s=2.0, color=SYNTHETIC, alpha=0.4, linewidths=0.0)
    for column, limit in zip(columns, (axes.set_xlim, axes.set_ylim), strict=True):
        low, high = (0, len(values) - 1) if column.categories is not None else map(float, column.bounds)
        spread = 0.5 if column.kind != "continuous" else 0.0
        limit(low - spread, high + spread)
    if columns[1].categories is not None:
        axes.set_yticks(range(len(values)), [str(value)[:9] for value in values])


def draw(shown: tuple[Shown, ...] = SHOWN, path: Path = HERE / "plausible.png") -> Path:
    """Draw a row of panels for each data set."""
    figure = Figure(figsize=(17.0, 0.5 + 2.3 * len(shown)), layout="constrained")
    for axes, each in zip(figure.subplots(len(shown), 7, squeeze=False), shown, strict=True):
        real, synthetic, schema = tables(each)
        columns = {column.name: column for column in schema.columns}
        for panel, name in zip(axes, each.columns, strict=False):
            draw_column(panel, columns[name], real[name], synthetic[name])
        for k, pair in enumerate(each.pairs):
            values = real[pair[1]].value_counts().index[:MOST_VALUES].tolist()
            for panel, table, title in zip(axes[3 + 2 * k :], (real, synthetic), ("real", "synthetic"), strict=False):
                draw_pair(panel, (columns[pair[0]], columns[pair[1]]), table, values)
                panel.set_title(title, fontsize="small")
                panel.set_xlabel(pair[0], fontsize="small")
            axes[3 + 2 * k].set_ylabel(pair[1], fontsize="small")
        axes[0].set_ylabel(f"{each.title}\n{len(real):,} rows", fontsize="medium")
        for panel in axes:
            panel.tick_params(labelsize="x-small")
    figure.suptitle(f"Real rows (grey) and synthetic ones (dark) by TableMechanism at {BUDGET}", fontsize="medium")
    figure.savefig(path, dpi=110)
    return path


if __name__ == "__main__":
    print(draw().name)
