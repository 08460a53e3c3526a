"""The pictures of the documentation's page on the idea: ``python -m paper_figures.ideas`` writes docs/images/*.svg.

They are computed from formulas and from a table that is drawn here with a fixed seed; no data set is read.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

import trigmech as tm
from trigmech.privacy.accounting import gaussian_mu

IMAGES = Path(__file__).parent.parent / "docs" / "images"
Array = NDArray[np.float64]

SEED = 2014
INK, PALE = "#1f3b57", "#9fb3c4"
# The same bytes in every run.
STYLE: Any = {"svg.hashsalt": "trigmech", "svg.fonttype": "path", "font.size": 10, "axes.spines.top": False,
              "axes.spines.right": False}


def kernel(x: Array, centre: float = 0.3, width: float = 0.5) -> Array:
    """Return a Gaussian kernel's values: a smooth query."""
    return np.asarray(np.exp(-((x - centre) ** 2) / (2 * width**2)))


def count(x: Array, edge: float = 0.3) -> Array:
    """Return 1 beyond the edge and 0 before it: a counting query."""
    return np.where(x > edge, 1.0, 0.0)


def coefficients(f: Callable[[Array], Array], highest: int) -> Array:
    """Return the Chebyshev coefficients of a function on [-1, 1] up to a degree, by a fine quadrature."""
    angles = (np.arange(4096) + 0.5) * np.pi / 4096
    values = f(np.cos(angles))
    found = np.array([2.0 * np.mean(values * np.cos(r * angles)) for r in range(highest + 1)])
    found[0] /= 2.0
    return found


def made_up_table(n: int) -> Array:
    """Return a table (n, 2) of two dependent columns in [-1, 1], drawn with a fixed seed."""
    rng = np.random.default_rng(SEED)
    first = rng.beta(2.0, 4.0, n) * 2 - 1
    second = np.clip(0.75 * np.sin(2.2 * first) + rng.normal(0.0, 0.18, n), -1.0, 1.0)
    return np.column_stack([first, second])


def smooth_and_counting(figure: Figure) -> None:
    """A smooth query is a short sum of Chebyshev polynomials; a counting query is not."""
    x = np.linspace(-1, 1, 801)
    left, middle, right = figure.subplots(1, 3)
    degree = 8
    for axes, f, name in ((left, kernel, "smooth: a Gaussian kernel"), (middle, count, "counting: x > 0.3")):
        axes.plot(x, f(x), color=INK, linewidth=2, label="the query f(x)")
        axes.plot(x, chebyshev.chebval(x, coefficients(f, degree)), color="#c1440e", linestyle="--",
                  label=f"its first {degree} degrees")
        axes.set(title=name, xlabel="x", ylim=(-0.25, 1.3))
        axes.legend(loc="upper left", fontsize=8, frameon=False)
    degrees = np.arange(1, 25)
    for f, marker, name in ((kernel, "o", "smooth"), (count, "^", "counting")):
        right.semilogy(degrees, np.maximum(np.abs(coefficients(f, 24)[1:]), 1e-9), marker, markersize=4.5, label=name,
                       color=INK if marker == "o" else "#c1440e", markerfacecolor=INK if marker == "o" else "none")
    right.set(title="size of the coefficients $|c_r|$", xlabel="degree r", ylim=(1e-8, 1.5))
    right.legend(fontsize=8, frameon=False)


def released_moments(figure: Figure) -> None:
    """A moment is the mean of a polynomial over the rows; one row moves it by at most 2 / n."""
    rows = np.sort(made_up_table(12)[:, 0])
    x = np.linspace(-1, 1, 401)
    budget = tm.Budget(1.0, 1e-6)
    panels = figure.subplots(1, 3, sharey=True)
    for degree, axes in enumerate(panels, start=1):
        values = np.cos(degree * np.arccos(rows))
        mean = float(values.mean())
        axes.plot(x, np.cos(degree * np.arccos(x)), color=PALE, linewidth=2)
        axes.vlines(rows, 0, values, color=INK, linewidth=0.8)
        axes.plot(rows, values, "o", color=INK, markersize=4)
        axes.axhline(mean, color="#c1440e", linestyle="--")
        axes.annotate(f"mean {mean:+.2f}", (-1, mean), (0, 4), textcoords="offset points", color="#c1440e", fontsize=9)
        axes.set(title=f"$T_{degree}(x) = \\cos({degree if degree > 1 else ''}\\,\\mathrm{{arccos}}\\,x)$", xlabel="x",
                 ylim=(-1.15, 1.15))
    figure.supxlabel("12 rows here. Only the three means are released, each with noise; with 10,000 rows the noise at "
                     f"(1, 10⁻⁶) would be {2 * np.sqrt(3) / (10_000 * gaussian_mu(budget)):.4f} or less", fontsize=9)


def noise_against_degree(figure: Figure) -> None:
    """What is left out falls with the degree, what noise adds rises: there is a best degree, and it grows with n."""
    budget = tm.Budget(1.0, 1e-6)
    mu = gaussian_mu(budget)
    highest = 40
    c = coefficients(lambda x: kernel(x, 0.3, 0.2), highest + 20)
    degrees = np.arange(1, highest + 1)
    # Of coefficients that are left out, with means of about the size that a middling table has.
    left_out = np.sqrt([np.sum((c[p + 1:] * 0.5 / np.sqrt(np.arange(p + 1, len(c)))) ** 2) for p in degrees])
    axes = figure.subplots()
    axes.semilogy(degrees, left_out, color="black", linestyle=":", linewidth=2, label="error of what is not measured")
    for n, style in ((1_000, "-"), (10_000, "--"), (100_000, "-.")):
        scale = 2 * np.sqrt(degrees) / (n * mu)
        noise = np.array([s * np.linalg.norm(c[1 : p + 1]) for s, p in zip(scale, degrees, strict=True)])
        total = np.hypot(noise, left_out)
        axes.semilogy(degrees, total, color=INK, linestyle=style, label=f"with noise, n = {n:,}")
        best = int(np.argmin(total))
        axes.plot(degrees[best], total[best], "o", color=INK)
        axes.annotate(f"p = {degrees[best]}", (degrees[best], total[best]), (5, -12), textcoords="offset points",
                      fontsize=9)
    axes.set(xlabel="measured degrees 1, ..., p of one column", ylabel="error of a kernel query, width 0.2",
             ylim=(1e-6, 0.2))
    axes.legend(fontsize=8, frameon=False, loc="lower left")


def atoms_and_particles(figure: Figure) -> None:
    """Both tables have the released means; the L1 program's has few heavy points."""
    table = made_up_table(20_000)
    axes = figure.subplots(1, 3, sharex=True, sharey=True)
    axes[0].plot(*table[:600].T, ".", color=INK, markersize=3)
    axes[0].set(title="the table (600 of 20,000 rows)")
    for at, fit, title in ((1, "atoms", "L1 program: few heavy points"),
                           (2, "rows", "rows: many equal points")):
        mechanism = tm.MomentMechanism(fit=fit)  # type: ignore[arg-type]
        made = tm.synthesize(table, tm.Schema.cube(2), tm.Budget(1.0, 1e-6), mechanism,
                             rng=np.random.default_rng(SEED)).distribution
        if fit == "atoms":
            held = made.weights > 1e-6
            axes[at].scatter(*made.points[held].T, s=900 * made.weights[held], facecolor="none", edgecolor=INK)
            axes[at].set(xlabel=f"{int(held.sum())} points carry everything")
        else:
            axes[at].plot(*made.points[:600].T, ".", color=INK, markersize=3)
            axes[at].set(xlabel="600 of them are drawn here")
        axes[at].set(title=title)
    axes[0].set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05))


def error_bars(figure: Figure) -> None:
    """Error bars of 40 queries, and where the table's answers are."""
    table = made_up_table(2_000)
    workload = tm.workload.PairKernels(2, seed=1, n_queries=40, widths=(0.5,))
    made = tm.synthesize(table, tm.Schema.cube(2), tm.Budget(0.3, 1e-6), rng=np.random.default_rng(SEED))
    predicted = made.predicted_error(workload, level=0.95)
    answers = workload.answers(made.distribution.points, made.distribution.weights)[:, 0]
    truth = workload.answers(table)[:, 0]
    order = np.argsort(answers)
    axes = figure.subplots()
    axes.errorbar(np.arange(40), answers[order], predicted.bound[order, 0], fmt="none", ecolor=PALE, elinewidth=3,
                  label="released answer ± its 95 % bound (needs no data)")
    axes.plot(np.arange(40), answers[order], "_", color=INK, markersize=7)
    axes.plot(np.arange(40), truth[order], "x", color="#c1440e", markersize=5, label="the table's answer (private)")
    inside = int((np.abs(truth - answers) <= predicted.bound[:, 0]).sum())
    axes.set(xlabel=f"40 kernel queries, sorted; {inside} of 40 true answers lie within their bars", ylabel="answer")
    axes.legend(fontsize=8, frameon=False, loc="upper left")


PICTURES: dict[str, tuple[Callable[[Figure], None], tuple[float, float]]] = {
    "smooth_and_counting": (smooth_and_counting, (10.5, 3.2)),
    "released_moments": (released_moments, (10.5, 3.4)),
    "noise_against_degree": (noise_against_degree, (7.0, 4.0)),
    "atoms_and_particles": (atoms_and_particles, (10.5, 3.9)),
    "error_bars": (error_bars, (8.5, 3.8)),
}


def draw(name: str, folder: Path = IMAGES) -> Path:
    """Draw one picture into a folder, the same bytes in every run."""
    picture, size = PICTURES[name]
    metadata: dict[str, Any] = {"Date": None}
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        picture(figure)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.svg"
        figure.savefig(path, metadata=metadata)
    return path


def main() -> None:
    """Draw all pictures."""
    for name in PICTURES:
        print(draw(name))


if __name__ == "__main__":
    main()
