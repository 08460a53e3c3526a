"""Figures 3.1 and 3.2, the thesis's points under ours, errors against epsilon and the number of rows, and scoreboards.

``python -m paper_figures.draw`` writes figure_3_1.png, figure_3_2.png, curves.png, rates.png and boards.png beside this
file, from experiments/results alone; the last three only if there are results.
"""

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from experiments.protocols import boards, pages

HERE = Path(__file__).parent
RESULTS = HERE.parent / "experiments" / "results"
MARKERS = "osD^vPX*<>"

# Axis, label, title, and the sigma whose published points come nearest to the thesis's (it does not print it).
FIGURES = {
    "figure_3_1": ("kappa", "κ, semi-axes in standard deviations", "CSN, ε = 1, C = 10⁴, R = 50, L = 10, k = 2", "2"),
    "figure_3_2": ("k", "k, rank of the principal component analysis",
                   "CRM, ε = 1, δ = 10⁻³, C = 10⁴, R = 102, L = 10, κ = 7", "4"),
}


def draw(name: str) -> Path:
    """Draw one figure from results/<name>.csv."""
    axis, label, title, shown = FIGURES[name]
    points: dict[tuple[str, str], list[tuple[float, float, float]]] = defaultdict(list)
    thesis: dict[float, float] = {}
    with (RESULTS / f"{name}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            at = float(row[axis])
            points[row["variant"], row["sigma"]].append(
                (at, float(row["worst_absolute_error"]), float(row["standard_error"])))
            thesis[at] = float(row["thesis"])
    figure = Figure(figsize=(11, 5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, variant, words in ((left, "published", "the thesis's noise scales and draws"),
                                 (right, "rigorous", "scales that satisfy the budget, uniform draws")):
        axes.plot(list(thesis), list(thesis.values()), "x", color="0.45", markersize=5, label="thesis")
        for (kind, sigma), series in sorted(points.items(), key=lambda item: float(item[0][1])):
            if kind != variant:
                continue
            where, value, error = zip(*sorted(series), strict=True)
            style = {"2": ":", "4": "--", "6": "-.", "8": (0, (6, 1, 1, 1, 1, 1)), "10": "-"}[sigma]
            axes.plot(where, value, linewidth=1.8 if sigma == shown else 0.8, color="C0", linestyle=style,
                      alpha=1.0 if sigma == shown else 0.6, label=f"ours, σ = {sigma}")
            if sigma == shown:
                low, high = np.subtract(value, error), np.add(value, error)
                axes.fill_between(where, low, high, color="C0", alpha=0.2, linewidth=0)
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
    lines: dict[tuple[str, str, int, float], list[tuple[float, ...]]] = defaultdict(list)
    with (results / "curves.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (row["dataset"], row["workload"], int(row["percent"]), float(row["delta"]))
            lines[key].append(tuple(float(row[name]) for name in ("epsilon", "median", "least", "most")))
    names, workloads = sorted({key[0] for key in lines}), sorted({key[1] for key in lines})
    percents, deltas = sorted({key[2] for key in lines}), sorted({key[3] for key in lines})
    figure = Figure(figsize=(3.4 * len(workloads), 0.8 + 2.3 * len(names)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(names), len(workloads), sharex=True, squeeze=False)
    markers = dict(zip(percents, ("^", "s", "o"), strict=False))
    styles = dict(zip(deltas, ("--", "-"), strict=False))
    for (name, workload, percent, delta), series in sorted(lines.items()):
        axes = grid[names.index(name), workloads.index(workload)]
        epsilon, median, least, most = zip(*sorted(series), strict=True)
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
    lines: dict[tuple[int, int, str, float], list[tuple[float, float, float]]] = defaultdict(list)
    with (results / "rates.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            key = (int(row["d"]), int(row["smoothness"]), row["mechanism"], float(row["delta"]))
            lines[key].append((float(row["n"]), float(row["error"]), float(row["standard_error"])))
    columns, orders = sorted({key[0] for key in lines}), sorted({key[1] for key in lines})
    mechanisms = list(dict.fromkeys(key[2] for key in lines))
    figure = Figure(figsize=(3.6 * len(orders), 1.0 + 2.8 * len(columns)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(columns), len(orders), sharex=True, sharey="row", squeeze=False)
    markers = dict(zip(mechanisms, ("o", "s", "^"), strict=False))
    for (d, k, mechanism, delta), series in lines.items():
        axes = grid[columns.index(d), orders.index(k)]
        n, error, spread = np.array(sorted(series)).T
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
            if i == len(columns) - 1 or not any((columns[i + 1], k) == key[:2] for key in lines):
                grid[i, j].set_xlabel("n")
        grid[i, 0].set_ylabel("supremum of the error")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
    figure.suptitle("Largest error over k-smooth functions of d columns, ε = 1; means ± 1 standard error")
    figure.savefig(path, dpi=110)
    return path


def draw_boards(results: Path, path: Path) -> Path:
    """Draw the scoreboards' first measures: above against seconds, at epsilon = 1; below against epsilon.

    A panel for each protocol, of the data set with the most methods.
    """
    figure = Figure(figsize=(17.0, 7.5), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(boards.PROTOCOLS), squeeze=False)
    found = {name: pages.best_of(results, name) for name in boards.PROTOCOLS}
    methods = list(dict.fromkeys(method for best in found.values() for method in best["method"]
                                 if method not in boards.NOT_PRIVATE))
    for (name, protocol), (above, below) in zip(boards.PROTOCOLS.items(), grid.T, strict=True):
        measure = "tv2_mean" if name == "adult" else protocol.shown[0]
        of_measure = found[name][found[name]["measure"] == measure]
        dataset = of_measure.groupby("dataset")["method"].nunique().idxmax()
        there = found[name][found[name]["dataset"] == dataset]
        most = 1000.0 if measure == "k_marginal" else 0.0
        for method, own in there.groupby("method", sort=False):
            errors = own[own["measure"] == measure].set_index("epsilon")["mean"].sub(most).abs().sort_index()
            seconds = own[own["measure"] == "cpu_seconds"].set_index("epsilon")["mean"]
            if method in methods:
                k = methods.index(method)
                style = {"color": f"C{k % 10}", "marker": MARKERS[k % len(MARKERS)], "label": method}
                above.plot(seconds.reindex(errors.index)[errors.index == 1.0], errors[errors.index == 1.0],
                           linestyle="", **style)
                below.plot(errors.index, errors.to_numpy(), linewidth=1.0, **style)
                continue
            for axes in (above, below) if errors.iloc[0] > 0 else ():
                axes.axhline(errors.iloc[0], color="0.6", linewidth=0.9, linestyle=":")
                axes.annotate(method, (0.0, errors.iloc[0]), xycoords=("axes fraction", "data"), fontsize=7,
                              xytext=(2, 2), textcoords="offset points", color="0.4")
        shown = f"{most:g} - {measure}" if most else measure
        above.set(xscale="log", yscale="log", xlabel="processor seconds", title=f"{dataset}, ε = 1", ylabel=shown)
        below.set(xscale="log", yscale="log", xlabel="ε", title=dataset, ylabel=shown)
    handles = {label: handle for axes in grid.flat for handle, label in zip(*axes.get_legend_handles_labels(),
                                                                            strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=9, fontsize="small")
    figure.suptitle("Scoreboards: errors against time and against ε; dotted: not private")
    figure.savefig(path, dpi=100)
    return path


if __name__ == "__main__":
    for each in FIGURES:
        print(draw(each).name)
    if (RESULTS / "curves.csv").exists():
        print(draw_curves(RESULTS, HERE / "curves.png").name)
    if (RESULTS / "rates.csv").exists():
        print(draw_rates(RESULTS, HERE / "rates.png").name)
    if all((RESULTS / f"{name}.csv").exists() for name in boards.PROTOCOLS):
        print(draw_boards(RESULTS, HERE / "boards.png").name)
