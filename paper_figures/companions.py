"""The companions' figures, ``python -m paper_figures.companions``: from experiments/results, the linear noise computed.

Each is left out if its results are not there.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.companions.linear_noise import FIGURES, Layered, LayersInSpace, neighbours, staircase
from experiments.companions.marginals import FALSE, INDEPENDENT, METHODS

HERE = Path(__file__).parent
RESULTS = HERE.parent / "experiments" / "results"
MARKERS = "os^vD<>*Pph8X"


def lines_of(name: str) -> pd.DataFrame:
    """Return the lines of a CSV file of results."""
    return pd.read_csv(RESULTS / f"{name}.csv")


def canvas(width: float, height: float) -> Figure:
    """Return an empty figure."""
    return Figure(figsize=(width, height), layout="constrained")


def curves(axes: Any, wide: pd.DataFrame, order: Sequence[str] = ()) -> None:
    """Draw a line for each column, told apart by its marker, in two logarithmic scales."""
    for name in wide:
        place, own = list(order or wide).index(str(name)), wide[name].dropna()
        axes.plot(own.index, own, marker=MARKERS[place], color=f"C{place}", markersize=4.5, linewidth=0.9, label=name,
                  linestyle="--" if name in FALSE else "-")
    axes.set(xscale="log", yscale="log")
    axes.grid(alpha=0.3)


def net() -> Figure:
    """Worst errors against n."""
    figure, left = canvas(10, 4.6), ("uniform", "net (13, 8)", "best database of (13, 8)", "16 bins", "64 bins",
                                     "TrigI, published", "TrigI, rigorous", "MomentMechanism")
    grid = figure.subplots(1, 2)
    for axes, width in zip(grid, (0.5, 2.0), strict=True):
        lines = lines_of("net")
        lines = lines[(lines["d"] == 1) & (lines["sigma"] == width) & lines["method"].isin(left)]
        curves(axes, lines.pivot(index="n", columns="method", values="error")[lines["method"].unique()])
        axes.set(title=f"σ = {width:g}", xlabel="n", ylabel="worst error")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize="small")
    return figure


def linear() -> Figure:
    """Rates by width and epsilon, as figures 1 and 2, and densities, as figure 3."""
    figure = canvas(13, 6)
    grid = figure.subplots(2, 4).ravel()
    ratios, epsilons = np.linspace(0.0125, 0.75, 60), np.linspace(0.05, 5.0, 40)
    drawn: Any = None
    for axes, (name, (values, _)) in zip(grid, FIGURES.items(), strict=False):
        moves, size = neighbours(values, replace_one=False), values[-1][1]
        rates = np.empty((len(epsilons), len(ratios)))
        for i, epsilon in enumerate(epsilons):
            noise = Layered(moves, float(epsilon), width=size)
            best = staircase(size, float(epsilon))
            rates[i] = [noise.expected(float(ratio * size)) / best for ratio in ratios]
        drawn = axes.pcolormesh(ratios, epsilons, rates, vmin=0.2, vmax=1.8, cmap="RdBu_r")
        axes.contour(ratios, epsilons, rates, levels=[1.0 - 1e-9], colors="black", linewidths=0.8)
        axes.set(title=name + ": " + " ∪ ".join(f"[{a:g}, {b:g}]" for a, b in values), xlabel="δ / Δ", ylabel="ε")
        axes.title.set_fontsize(9)
    figure.colorbar(drawn, ax=list(grid[:6]), label="E|z| over the best staircase's")
    values, z = FIGURES["V5"][0], np.linspace(-350, 350, 7001)
    widths = {"layers": (values, Layered(neighbours(values, False), 1.0).width),
              "staircase": (((0, 101),), 101.0 / (1.0 + np.exp(0.5)))}
    for label, (held, width) in widths.items():
        density = LayersInSpace([neighbours(held, False)], 1.0, width).density(z[:, None])
        grid[6].semilogy(z, density, linewidth=0.7, label=label)
    grid[6].semilogy(z, np.exp(-np.abs(z) / 101) / 202, linewidth=0.7, label="Laplace")
    grid[6].set(title="V5, ε = 1: densities", xlabel="z")
    grid[6].legend(fontsize="small")
    grid[7].set_axis_off()
    return figure


def composition() -> Figure:
    """Epsilon of all against k."""
    figure = canvas(12, 4.2)
    grid = figure.subplots(1, 3)
    for axes, (each, own) in zip(grid, lines_of("composition").groupby("epsilon_0"), strict=True):
        wide = own.set_index("k").iloc[:, 1:-1]
        curves(axes, wide.where(wide > 0))
        axes.set(title=f"each {each:g}-private", xlabel="k", ylabel="ε at δ = 1e-5")
    figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize="small")
    return figure


def marginals() -> Figure:
    """Total variations of 2-way and 3-way marginals against epsilon; dashed: not private as claimed.

    PrivHD at its rivals' neighbours only, and as the source prints it.
    """
    left_out = ("PrivHD, merged, add/remove", "PrivHD, apart, replace-one")
    lines = lines_of("marginals")
    lines = lines[lines["measure"].isin(["2-way", "3-way"]) & ~lines["method"].isin(left_out)]
    names = lines["dataset"].unique()
    figure = canvas(3.4 * len(names), 7)
    grid = figure.subplots(2, len(names), squeeze=False)
    for i, measure in enumerate(("2-way", "3-way")):
        for j, name in enumerate(names):
            own = lines[(lines["dataset"] == name) & (lines["measure"] == measure)]
            wide = own.pivot(index="epsilon", columns="method", values="mean")[own["method"].unique()]
            level = wide.pop(INDEPENDENT).dropna().iloc[0]
            curves(grid[i, j], wide, list(METHODS))
            grid[i, j].axhline(level, color="0.5", linewidth=2, alpha=0.5, label=INDEPENDENT)
            grid[i, j].set(title=f"{name}, {measure}", xlabel="ε", ylabel="mean total variation")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize="small")
    return figure


def tutorial() -> Figure:
    """A histogram with and without noise, and the error of a clipped mean against the bound; simulated noise."""
    from experiments.companions.tutorial import table

    figure, rng = canvas(10, 4), np.random.default_rng(len("tutorial"))
    left, right = figure.subplots(1, 2)
    counts = table()["education"].value_counts()
    left.bar(np.arange(len(counts)) - 0.2, counts, 0.4, label="exact")
    left.bar(np.arange(len(counts)) + 0.2, counts + rng.laplace(0, 10, len(counts)), 0.4, label="ε = 0.1")
    left.set_xticks(np.arange(len(counts)), list(counts.index), rotation=90, fontsize="x-small")
    left.set(yscale="symlog", title="education")
    left.legend()
    gains, bounds = table()["capital-gain"].to_numpy(float), np.geomspace(100, 1e6, 40)
    bias = np.array([gains.mean() - gains.clip(0, b).mean() for b in bounds])
    for epsilon, style in ((1.0, "-"), (0.1, "--"), (0.01, ":")):
        right.loglog(bounds, np.hypot(bias, 2**0.5 * bounds / epsilon / len(gains)), style, color="black",
                     label=f"ε = {epsilon:g}")
    right.set(title="capital-gain: error of a mean clipped at b", xlabel="b", ylabel="root of the mean squared error")
    right.legend()
    return figure


DRAWN: dict[str, Callable[[], Figure]] = {"net": net, "linear": linear, "composition": composition,
                                          "tutorial": tutorial, "marginals": marginals}

# On pages of the documentation too.
SHOWN = ("composition", "tutorial", "marginals")

if __name__ == "__main__":
    for each, draw in DRAWN.items():
        if (RESULTS / f"{each}.csv").exists():
            for folder in (HERE, HERE.parent / "docs" / "images") if each in SHOWN else (HERE,):
                draw().savefig(folder / f"companions_{each}.png", dpi=90)
            print(f"companions_{each}.png")
