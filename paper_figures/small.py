"""Scatter plots of small tables beside synthetic ones: ``python -m paper_figures.small`` writes docs/images/small.png.

The tables are scikit-learn's wine, diabetes and breast cancer sets, of 178, 442 and 569 rows; two columns of each are
drawn, of a release of all columns at epsilon .5, 1, 3 and 10, delta = 1e-5, by a seeded generator.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import trigmech as tm
from experiments.small import DELTA, Sample

FILE = Path(__file__).parent.parent / "docs" / "images" / "small.png"
EPSILONS = (0.5, 1.0, 3.0, 10.0)
PAIRS = {"sklearn wine": ("alcohol", "flavanoids"), "sklearn diabetes": ("bmi", "s5"),
         "wdbc": ("mean radius", "mean concavity")}
NAMES = {"sklearn wine": "wine", "sklearn diabetes": "diabetes", "wdbc": "breast cancer"}


def draw(file: Path = FILE, seed: int = 2014) -> Path:
    """Draw the figure; return its file."""
    figure = Figure(figsize=(3.0 * (1 + len(EPSILONS)), 3.0 * len(PAIRS)), layout="constrained")
    grid = figure.subplots(len(PAIRS), 1 + len(EPSILONS), sharex="row", sharey="row", squeeze=False)
    for line, (source, (first, second)) in zip(grid, PAIRS.items(), strict=True):
        table, schema = Sample(source).load(seed)
        made = [tm.synthesize(table, schema, tm.Budget(epsilon, DELTA), rng=np.random.default_rng(seed)).sample(
            len(table), rng=np.random.default_rng(seed)) for epsilon in EPSILONS]
        words = [f"{NAMES[source]}, {len(table)} rows", *(f"ε = {each:g}" for each in EPSILONS)]
        for axes, rows, title in zip(line, [table, *made], words, strict=True):
            axes.scatter(rows[first], rows[second], s=6, alpha=0.6, linewidth=0,
                         color="0.25" if rows is table else "C0")
            axes.set(title=title, xlabel=first)
        line[0].set_ylabel(second)
    figure.savefig(file, dpi=90)
    return file


if __name__ == "__main__":
    print(draw())
