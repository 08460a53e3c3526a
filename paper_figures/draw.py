"""Figures 3.1 and 3.2, the thesis's points under ours, errors against epsilon and the number of rows, and scoreboards.

``python -m paper_figures.draw`` writes figure_3_1.png, figure_3_2.png, curves.png, rates.png, boards_time.png and
boards_budget.png beside this file, from experiments/results alone; all but the first two only if there are results.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from experiments.protocols import boards, pages

HERE = Path(__file__).parent
RESULTS = HERE.parent / "experiments" / "results"
# Of a logarithmic axis: from here on the largest over the least.
LONG_AXIS = 500.0
# Of each scoreboard a measure, and its name as an error.
MEASURES = {"nist": ("k_marginal", "1000 − k-marginal score"), "aim": ("all_3way_l1", "mean L1 error, 3 columns"),
            "synmeter": ("w1_mean", "mean distance of columns"),
            "adult": ("tv2_mean", "mean total variation, 2 columns"),
            "smooth": ("w1_4", "worst error of kernels, σ = 4"),
            "few": ("pairs", "mean total variation, 2 columns")}
LEAST_BUDGETS = 3

# Axis, label, title, and the sigma whose published points come nearest to the thesis's (it does not print it).
FIGURES = {
    "figure_3_1": ("kappa", "κ, semi-axes in standard deviations", "CSN, ε = 1, C = 10⁴, R = 50, L = 10, k = 2", "2"),
    "figure_3_2": ("k", "k, rank of the principal component analysis",
                   "CRM, ε = 1, δ = 10⁻³, C = 10⁴, R = 102, L = 10, κ = 7", "4"),
}


def draw(name: str) -> Path:
    """Draw one figure from results/<name>.csv."""
    axis, label, title, shown = FIGURES[name]
    lines = pd.read_csv(RESULTS / f"{name}.csv", dtype={"sigma": str})
    thesis = lines.groupby(axis)["thesis"].first()
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, variant, words in ((left, "published", "the thesis's noise scales and draws"),
                                 (right, "rigorous", "scales that satisfy the budget, uniform draws")):
        axes.plot(thesis.index, thesis, "x", color="0.45", markersize=5, label="thesis")
        own = lines[lines["variant"] == variant].sort_values(axis)
        for sigma, series in own.groupby("sigma", sort=False):
            where, value, error = (series[each] for each in (axis, "worst_absolute_error", "standard_error"))
            style = {"2": ":", "4": "--", "6": "-.", "8": (0, (6, 1, 1, 1, 1, 1)), "10": "-"}[sigma]
            axes.plot(where, value, linewidth=1.8 if sigma == shown else 0.8, color="C0", linestyle=style,
                      alpha=1.0 if sigma == shown else 0.6, label=f"ours, σ = {sigma}")
            if sigma == shown:
                axes.fill_between(where, value - error, value + error, color="C0", alpha=0.2, linewidth=0)
        axes.set(xlabel=label, yscale="log", title=words)
        axes.grid(alpha=0.3)
    left.set_ylabel("worst absolute error")
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize="small")
    figure.suptitle(f"Figure {name[7:].replace('_', '.')}: {title}; mean of 10 runs, thick: ± 1 standard error")
    path = HERE / f"{name}.png"
    figure.savefig(path, dpi=110)
    return path


def draw_curves(results: Path, path: Path) -> Path:
    """Draw results/curves.csv: a row of axes for each data set, a column for each workload.

    Styles tell deltas and markers tell sizes, so that the figure can be read in black and white.
    """
    lines = pd.read_csv(results / "curves.csv").sort_values("epsilon")
    keys = ["dataset", "workload", "percent", "delta"]
    names, workloads, percents, deltas = (sorted(lines[key].unique()) for key in keys)
    figure = Figure(figsize=(3.4 * len(workloads), 0.8 + 2.3 * len(names)), layout="constrained")
    grid = figure.subplots(len(names), len(workloads), sharex=True, squeeze=False)
    markers = dict(zip(percents, ("^", "s", "o"), strict=False))
    styles = dict(zip(deltas, ("--", "-"), strict=False))
    for (name, workload, percent, delta), series in lines.groupby(keys):
        axes = grid[names.index(name), workloads.index(workload)]
        epsilon, median, least, most = (series[each] for each in ("epsilon", "median", "least", "most"))
        axes.plot(epsilon, median, color="black", linewidth=0.9, linestyle=styles[delta], marker=markers[percent],
                  markersize=4.5, markerfacecolor="black" if delta else "white", label=f"{percent} %, δ = {delta:g}")
        axes.fill_between(epsilon, least, most, color="0.5", alpha=0.12, linewidth=0)
    for i, name in enumerate(names):
        for j, workload in enumerate(workloads):
            grid[i, j].set(xscale="log", yscale="log", title=f"{name}, {workload.upper()}")
            grid[i, j].grid(alpha=0.3, which="both")
        grid[i, 0].set_ylabel("worst error")
    for axes in grid[-1]:
        axes.set_xlabel("ε")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(percents) * len(deltas), fontsize="small")
    figure.suptitle("Worst errors against ε, for a part of the rows; medians, grey: all repetitions")
    figure.savefig(path, dpi=110)
    return path


def draw_rates(results: Path, path: Path) -> Path:
    """Draw results/rates.csv: a row of axes for each number of columns, a column for each smoothness.

    Markers tell mechanisms; filled and solid is delta > 0, open and dashed delta = 0. Grey: the slope of the minimax
    rate, through the minimax mechanism's first point.
    """
    lines = pd.read_csv(results / "rates.csv").sort_values("n", kind="stable")
    columns, orders = sorted(lines["d"].unique()), sorted(lines["smoothness"].unique())
    mechanisms = list(dict.fromkeys(lines["mechanism"]))
    figure = Figure(figsize=(3.6 * len(orders), 1.0 + 2.8 * len(columns)), layout="constrained")
    grid = figure.subplots(len(columns), len(orders), sharex=True, sharey="row", squeeze=False)
    markers = dict(zip(mechanisms, ("o", "s", "D", "^"), strict=False))
    for (d, k, mechanism, delta), series in lines.groupby(["d", "smoothness", "mechanism", "delta"], sort=False):
        axes = grid[columns.index(d), orders.index(k)]
        n, error, spread = series[["n", "error", "standard_error"]].to_numpy().T
        axes.errorbar(n, error, yerr=spread, color="black", linewidth=0.9, linestyle="-" if delta else "--",
                      marker=markers[mechanism], markersize=4.5, markerfacecolor="black" if delta else "white",
                      elinewidth=0.6, label=f"{mechanism}, δ = {delta:g}")
        if mechanism == "minimax" and delta:
            axes.plot(n, error[0] * (n / n[0]) ** -min(1.0, k / d), color="0.6", linewidth=2.5, zorder=0,
                      label="slope −min(1, k/d)")
    for i, d in enumerate(columns):
        for j, k in enumerate(orders):
            if not grid[i, j].has_data():
                grid[i, j].set_axis_off()
                # The axes above are now the last of their column.
                grid[i - 1, j].tick_params(labelbottom=True)
                continue
            grid[i, j].set(xscale="log", yscale="log", title=f"d = {d}, k = {k}")
            grid[i, j].grid(alpha=0.3)
            if i == len(columns) - 1 or not grid[i + 1, j].has_data():
                grid[i, j].set_xlabel("n")
        grid[i, 0].set_ylabel("supremum of the error")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
    figure.suptitle("Largest error over k-smooth functions of d columns, ε = 1; means ± 1 standard error")
    figure.savefig(path, dpi=110)
    return path


def first_errors(results: Path, protocol: str, dataset: str = "") -> pd.DataFrame:
    """Return the first measure of a protocol on a data set, by default that with the most methods, as an error.

    Returns
    -------
    DataFrame
        For each "method" and "epsilon" the "error", its "deviation" over seeds, and "seconds" of the processor.
    """
    lines, measure = pages.best_of(results, protocol), MEASURES[protocol][0]
    mine = lines[lines["measure"] == measure]
    mine = mine[mine["dataset"] == (dataset or mine.groupby("dataset")["method"].nunique().idxmax())]
    most = 1000.0 if measure == "k_marginal" else 0.0
    seconds = lines[lines["measure"] == "cpu_seconds"].set_index(["dataset", "method", "epsilon"])["mean"]
    return mine.assign(error=(mine["mean"] - most).abs()).join(
        seconds.rename("seconds"), on=["dataset", "method", "epsilon"])


def styles_of(methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return how each private method is drawn: ours filled and in colours of their own, rivals open."""
    own = dict(zip(boards.OWN, ("C0", "C9", "C2"), strict=True))
    rivals = sorted(set(methods) - {*own, *boards.NOT_PRIVATE})
    return {**{name: {"color": color, "marker": marker} for (name, color), marker in zip(own.items(), "osD",
                                                                                       strict=True)},
            **{name: {"color": f"C{(1, 3, 4, 5, 6, 7)[k % 6]}", "marker": "^vP*X<>p"[k % 8], "markerfacecolor": "white"}
               for k, name in enumerate(rivals)}}


def finish(axes: Axes, lines: pd.DataFrame, protocol: str) -> None:
    """Draw what is not private as levels, and write on the axes."""
    for k, (name, own) in enumerate(lines[lines["epsilon"] == 0].groupby("method", sort=False)):
        level = own["error"].iloc[0]
        if level > 0:
            axes.axhline(level, color="0.6", linewidth=0.9, linestyle=":", zorder=0)
            axes.annotate(name, (float(k % 2), level), xycoords=("axes fraction", "data"), fontsize=7, color="0.35",
                          xytext=(3 - 6 * (k % 2), 2), textcoords="offset points", ha=("left", "right")[k % 2])
    axes.set(xscale="log", yscale="log", title=lines["dataset"].iloc[0], ylabel=MEASURES[protocol][1])
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        # Numbers of a long axis would stand in each other.
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < LONG_AXIS * low else (1.0,)))
        axis.set_major_formatter(FormatStrFormatter("%g"))
        axis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.25)


def panels(count: int, title: str) -> tuple[Figure, list[Axes], Axes]:
    """Return a figure with so many panels, and one more for the legend."""
    columns = min(3, count + 1)
    rows = -(-(count + 1) // columns)
    figure = Figure(figsize=(4.1 * columns, 0.5 + 3.5 * rows), layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.set_axis_off()
    figure.suptitle(title)
    return figure, grid[:count], grid[count]


def add_legend(drawn: list[Axes], place: Axes, styles: dict[str, dict[str, Any]]) -> None:
    """Write what is what where no panel is, in the order of the styles."""
    handles = {label: handle for axes in drawn for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    found = {label: handles[label] for label in styles if label in handles}
    place.legend(found.values(), found.keys(), loc="center", frameon=False, title="filled: this package\nopen: rivals\n"
                 "dotted: not private")


def made_boards(results: Path) -> list[str]:
    """Return the scoreboards that have results."""
    return [name for name in boards.PROTOCOLS if (results / f"{name}.csv").exists()]


def draw_time(results: Path, path: Path) -> Path:
    """Draw the first measure of each scoreboard against processor seconds, at epsilon = 1."""
    found = {name: first_errors(results, name) for name in made_boards(results)}
    styles = styles_of(method for lines in found.values() for method in lines["method"])
    figure, grid, rest = panels(len(found), "Errors against time, ε = 1; bars: standard deviations over seeds")
    for axes, (protocol, lines) in zip(grid, found.items(), strict=True):
        there = lines[(lines["epsilon"] == 1.0) & lines["error"].notna()].set_index("method")
        for method, style in styles.items():
            if method in there.index:
                line = there.loc[method]
                axes.errorbar(line["seconds"], line["error"], yerr=line["deviation"] if line["deviation"] > 0 else None,
                              linestyle="", markersize=7, elinewidth=0.9, label=method, **style)
        finish(axes, lines, protocol)
        axes.set_xlabel("processor seconds")
        axes.margins(0.12)
    add_legend(grid, rest, styles)
    figure.savefig(path, dpi=110)
    return path


def draw_budgets(results: Path, path: Path) -> Path:
    """Draw the first measure of each scoreboard against epsilon, of data sets with results at three or more."""
    found = []
    for protocol in made_boards(results):
        lines = pages.best_of(results, protocol)
        budgets = lines[lines["epsilon"] > 0].groupby("dataset")["epsilon"].nunique()
        found += [(protocol, first_errors(results, protocol, name)) for name in budgets.index[budgets >= LEAST_BUDGETS]]
    styles = styles_of(method for _, lines in found for method in lines["method"])
    figure, grid, rest = panels(len(found), "Errors against ε; shaded: ± 1 standard deviation over seeds")
    for axes, (protocol, lines) in zip(grid, found, strict=True):
        for method, style in styles.items():
            own = lines[(lines["method"] == method) & lines["error"].notna()].sort_values("epsilon")
            if len(own):
                axes.plot(own["epsilon"], own["error"], linewidth=1.2, markersize=6, label=method, **style)
                spread = own["deviation"].fillna(0.0)
                axes.fill_between(own["epsilon"], (own["error"] - spread).clip(lower=own["error"] / 10.0),
                                  own["error"] + spread, color=style["color"], alpha=0.12, linewidth=0)
        finish(axes, lines, protocol)
        axes.set_xlabel("ε")
        axes.set_xticks(sorted(set(lines["epsilon"]) - {0.0}))
    add_legend(grid, rest, styles)
    figure.savefig(path, dpi=110)
    return path


if __name__ == "__main__":
    for each in FIGURES:
        print(draw(each).name)
    if (RESULTS / "curves.csv").exists():
        print(draw_curves(RESULTS, HERE / "curves.png").name)
    if (RESULTS / "rates.csv").exists():
        print(draw_rates(RESULTS, HERE / "rates.png").name)
    if made_boards(RESULTS):
        print(draw_time(RESULTS, HERE / "boards_time.png").name)
        print(draw_budgets(RESULTS, HERE / "boards_budget.png").name)
