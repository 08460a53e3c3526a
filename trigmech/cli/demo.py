"""The demonstration: a private synthetic version of scikit-learn's WDBC, its errors, and a picture of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trigmech._files import check_writable, made_folder, replacing
from trigmech.evaluation.distances import Evaluation, evaluate
from trigmech.evaluation.error_bars import PredictedError
from trigmech.privacy.budget import Budget, shown_up
from trigmech.results import Synthesis
from trigmech.schema.schema import Column, Schema
from trigmech.synthesis import synthesize
from trigmech.tables.writer import write_table
from trigmech.workload import GaussianKernels

# Huang 2014, table 3.3, WDBC: worst absolute error at sigma = 2, 4, 6, 8, 10.
THESIS = (0.063, 0.213, 0.089, 0.069, 0.042)
SHOWN_COLUMNS = 6


@dataclass(frozen=True, eq=False)
class Demonstration:
    """The result of `run`: errors on W1 of the release and of the uniform distribution, predicted ones, and files."""

    synthesis: Synthesis
    evaluation: Evaluation
    uniform: Evaluation
    predicted: PredictedError
    widths: tuple[float, ...]
    table: Path
    picture: Path


def run(folder: Path, budget: Budget, rows: int, seed: int | None, say: Callable[[str], None]) -> Demonstration:
    """Release WDBC, and write synthetic.csv and demo.png to a folder, which is made if it does not exist.

    A seed makes the run a simulation; ``say`` is called with each step. An InputError is raised before anything is
    released if the folder cannot be written to. Bounds are each column's minimum and maximum, as in the thesis, because
    the data set is public.
    """
    made_folder(folder)
    files = folder / "synthetic.csv", folder / "demo.png"
    for file in files:
        check_writable(file)
    say("loading WDBC (569 patients, 30 columns) from scikit-learn")
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    table = np.asarray(data.data, dtype=np.float64)
    schema = Schema(Column(str(name), low, high) for name, low, high
                    in zip(data.feature_names, table.min(axis=0), table.max(axis=0), strict=True))
    say("releasing (the first run compiles the kernels, which takes some seconds)")
    generator = None if seed is None else np.random.default_rng(seed)
    synthesis = synthesize(table, schema, budget, rng=generator)
    synthetic = synthesis.columns(rows, generator)
    say("answering 10,000 Gaussian kernel queries at 5 widths, from the table and from the release")
    X = schema.to_cube(table)
    workload = GaussianKernels(schema.d, seed=2014)
    evaluation = evaluate(workload, X, synthesis.distribution)
    uniform = Evaluation(evaluation.truth, workload.uniform_answers())
    say("predicting the errors from the release alone")
    predicted = synthesis.predicted_error(workload)
    say("writing the synthetic table and the picture")
    made = Demonstration(synthesis, evaluation, uniform, predicted, workload.widths, *files)
    write_table(made.table, synthetic)
    _draw(made, schema, table, synthetic)
    return made


def _draw(made: Demonstration, schema: Schema, table: NDArray[np.float64],
          synthetic: Mapping[str, NDArray[np.float64]]) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 9), layout="constrained")
    FigureCanvasAgg(figure)
    guarantee = made.synthesis.ledger.guarantee
    note = ", SIMULATED noise: not private" if made.synthesis.ledger.simulated else ""
    figure.suptitle(f"WDBC, released at ({shown_up(guarantee.epsilon, 3)}, "
                    f"{shown_up(guarantee.delta)}){note}")
    halves: Any = figure.subfigures(2, 1, height_ratios=(1.1, 1))
    above, below = halves
    above.suptitle("Marginals (the private ones are shown because the data set is public)", fontsize="medium")
    for j, axes in enumerate(above.subplots(2, SHOWN_COLUMNS // 2).ravel()):
        column = schema.columns[j]
        bins = np.linspace(column.lower, column.upper, 21).tolist()
        axes.hist(table[:, j], bins=bins, density=True, color="0.75", label="private")
        axes.hist(synthetic[column.name], bins=bins, density=True, histtype="step", color="C0", linewidth=1.5,
                  label="synthetic")
        axes.set_xlabel(column.name)
        axes.set_yticks([])
    above.axes[0].legend()
    scatter, bars = below.subplots(1, 2)
    _draw_answers(scatter, bars, made)
    with replacing(made.picture) as beside:
        figure.savefig(beside, dpi=110, format="png")


def _draw_answers(scatter: Any, bars: Any, made: Demonstration) -> None:
    for i, (width, marker) in enumerate(zip(made.widths, "osD^v", strict=True)):
        few = slice(0, 60)
        scatter.plot(made.evaluation.truth[few, i], made.evaluation.answers[few, i], marker, markersize=4,
                     fillstyle="none", label=f"σ = {width:g}")
    ends = (0.0, 1.0)
    scatter.plot(ends, ends, color="0.5", linewidth=0.8)
    scatter.set(xlabel="answer on the private table", ylabel="answer on the release", title="60 queries of each width")
    scatter.legend()
    at = np.arange(len(made.widths))
    bars.bar(at - 0.27, made.evaluation.worst_absolute, 0.25, label="this release", color="C0")
    bars.plot(at - 0.27, made.predicted.worst, "v", color="black", label="predicted bound, 95 %")
    bars.bar(at, made.uniform.worst_absolute, 0.25, label="uniform cube, no data", color="0.75", hatch="//")
    bars.bar(at + 0.27, THESIS, 0.25, label="thesis, table 3.3", color="0.45")
    bars.set_xticks(at, [f"{width:g}" for width in made.widths])
    bars.set(xlabel="σ", title="Worst absolute error of 10,000 queries")
    bars.legend()
