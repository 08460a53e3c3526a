"""Errors by the number of parties: ``python -m paper_figures.parties`` writes docs/images/parties.svg.

From experiments/results/parties.csv alone.
"""

from pathlib import Path

import pandas as pd
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from paper_figures.ideas import IMAGES, INK, STYLE

RESULTS = Path(__file__).parent.parent / "experiments" / "results"
# Markers tell the ways, so that the figure can be read in black and white.
LOOKS = {"parts": (INK, "o", "parts, released once"), "alone": ("#c1440e", "^", "each alone, whole budget"),
         "split": ("0.45", "s", "each alone, divided budget")}


def draw(results: Path = RESULTS, folder: Path = IMAGES) -> Path:
    """Draw results/parties.csv, axes for each mechanism, the same bytes in every run."""
    lines = pd.read_csv(results / "parties.csv").sort_values("parties").set_index(["mechanism", "way"]).sort_index(
        kind="stable")
    mechanisms = lines.index.unique(0)
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2 * len(mechanisms), 3.6), layout="constrained")
        FigureCanvasSVG(figure)
        grid = figure.subplots(1, len(mechanisms), sharey=True, squeeze=False)[0]
        for axes, mechanism in zip(grid, mechanisms, strict=True):
            for way, (colour, marker, words) in LOOKS.items():
                parties, error, deviation = lines.loc[(mechanism, way)].to_numpy(float).T
                axes.errorbar(parties, error, deviation, color=colour, marker=marker, markersize=5, label=words)
            axes.set(xscale="log", yscale="log", xlabel="parties", title=mechanism, xticks=sorted(set(parties)))
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(ScalarFormatter())
                axis.set_minor_formatter(NullFormatter())
            axes.set_yticks([0.03, 0.1, 0.3])
            axes.grid(alpha=0.3)
        grid[0].set_ylabel("total variation, tables of two columns")
        grid[0].legend(fontsize=8, frameon=False, loc="upper left")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "parties.svg"
        figure.savefig(path, metadata={"Date": None})
    return path


if __name__ == "__main__":
    print(draw())
