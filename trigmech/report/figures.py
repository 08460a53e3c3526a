"""The figures of a report, from public or declared numbers: the same bytes for the same numbers.

Every figure can be read in black and white: synthetic values are dark lines or solid bars, true ones light and hatched,
and negative entries of a matrix carry a dash. Names are drawn literally, never as mathematics.
"""

import io
import math
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trigmech._arrays import Array

# Noisy shares, and the deviations of their noise.
Noise = tuple[Array, Array]
Format = Literal["svg", "png", "pdf"]

LONGEST_LABEL, LONGEST_SLUG = 22, 40
# Inches of a name beside bars or a matrix; how much wider a reader's own letters may be; and points between marks.
WIDEST_LABEL, SPARE, LEAST_GAP = 1.55, 1.08, 4.0
LABELLED = 30
DARK, LIGHT, HATCH = "#1b3a5c", "#e4e4e4", "#8a8a8a"
STYLE = {"font.size": 8.0, "axes.linewidth": 0.6, "axes.spines.top": False, "axes.spines.right": False,
         "xtick.major.width": 0.6, "ytick.major.width": 0.6, "hatch.linewidth": 0.6, "text.parse_math": False,
         "svg.fonttype": "none", "svg.hashsalt": "trigmech", "pdf.compression": 6, "figure.dpi": 96,
         "legend.frameon": False, "legend.fontsize": 7.5}
# The fields in which a format would write the time and the machine.
METADATA: dict[Format, dict[str, Any]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None},
                                          "pdf": {"CreationDate": None, "Creator": None, "Producer": None}}


# Invisible, but part of the spelling of some languages.
JOINERS = "\u200c\u200d"


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the report's style, and ignore the user's settings. All figures are made and written inside."""
    from matplotlib import style

    with style.context(["default", STYLE]), warnings.catch_warnings():
        # Letters that the font lacks: a reader's browser has them, and elsewhere a box is shown.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support .* natively")
        yield


def content(figure: Any, kind: Format) -> bytes:
    file = io.BytesIO()
    figure.savefig(file, format=kind, metadata=METADATA[kind], dpi=160)
    return file.getvalue()


def plain(text: object) -> str:
    """Return a text without characters that could break a file or reorder words: controls, surrogates, directions."""
    return "".join(c if c in JOINERS or unicodedata.category(c) == "Zs"
                   or unicodedata.category(c)[0] not in "CZ" else "\ufffd" for c in str(text))


def shortened(text: object, longest: int = LONGEST_LABEL) -> str:
    """Return a plain text of at most so many letters."""
    words = plain(text)
    return words if len(words) <= longest else words[: longest - 1] + "…"


def slugs(names: Sequence[str]) -> list[str]:
    """Return names as parts of file names, all different: small letters, digits and hyphens."""
    found: list[str] = []
    for place, name in enumerate(names, 1):
        plainer = unicodedata.normalize("NFKD", str(name)).encode("ascii", "ignore").decode().lower()
        slug = re.sub(r"[^a-z0-9]+", "-", plainer)[:LONGEST_SLUG].strip("-") or "column"
        found.append(slug if slug not in found and slug != "column" else f"{slug}-{place}")
    return found if len(set(found)) == len(found) else [f"{slug}-{place}" for place, slug in enumerate(found, 1)]


def number(value: float, digits: int = 3) -> str:
    """Return a number for people: few digits, no exponent where it can be read without one."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "not defined"
    # A number that rounds up to a power of ten has one digit more.
    if value != 0.0 and not 1e-4 <= abs(value) < 10.0**digits - 0.5:
        if abs(value) < 1e7 and abs(value) >= 1.0:
            return f"{value:,.0f}".replace("-", "−")
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    return f"{value:.{digits}g}".replace("-", "−")


def percent(share: float) -> str:
    """Return a share in percent, as :func:`number` writes it."""
    return f"{number(100.0 * share)} %"


def histogram(edges: Array, shares: Array, truth: Array | None, ticks: Sequence[tuple[float, str]],
              released: Noise | None = None) -> Any:
    """Return the distribution of a column's numbers, beside the true one: fractions (bins,) of all rows.

    ``released`` fractions with the deviations of their noise are drawn as bars of two deviations.
    """
    figure, axes = _panel(3.3, 1.9)
    if truth is not None:
        axes.stairs(100.0 * truth, edges, fill=True, facecolor=LIGHT, edgecolor=HATCH, hatch="////", linewidth=0.0,
                    label="true")
    axes.stairs(100.0 * shares, edges, fill=truth is None, facecolor="#b9cbe0", edgecolor=DARK, linewidth=1.3,
                label="synthetic")
    axes.set_xlim(edges[0], edges[-1])
    drawn = [part for part in (shares, truth, None if released is None else released[0]) if part is not None]
    axes.set_ylim(0.0, 105.0 * max(1e-4, *(float(part.max()) for part in drawn)))
    if released is not None:
        _error_bars(axes, 0.5 * (edges[1:] + edges[:-1]), released)
    _percent(axes.yaxis)
    _make_room(axes)
    mark(axes, [(at, shortened(text)) for at, text in ticks])
    if truth is not None:
        _legend_above(axes)
    return figure


def bars(labels: Sequence[str], shares: Array, truth: Array | None, released: Noise | None = None) -> Any:
    """Return the shares (k,) of named values, from the top down; see :func:`histogram`."""
    names, longest = fitting(labels, LONGEST_LABEL, WIDEST_LABEL)
    figure, axes = _panel(3.3, 0.75 + 0.22 * max(len(names), 3), left=0.06 + longest / 3.3)
    at = np.arange(len(names))
    if truth is None:
        axes.barh(at, 100.0 * shares, 0.62, color="#b9cbe0", edgecolor=DARK, linewidth=0.8)
    else:
        axes.barh(at - 0.2, 100.0 * shares, 0.38, color=DARK, label="synthetic")
        axes.barh(at + 0.2, 100.0 * truth, 0.38, color=LIGHT, edgecolor=HATCH, hatch="////", linewidth=0.4,
                  label="true")
    if released is not None:
        _error_bars(axes, at if truth is None else at - 0.2, released, across=True)
    if truth is not None:
        _legend_above(axes)
    axes.set_yticks(at, names)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
    # Where no value has a row and all released shares are below 0, nothing else needs room.
    most = axes.get_xlim()[1]
    axes.set_xlim(0.0, most if most > 0.0 else 1.0)
    _percent(axes.xaxis)
    return figure


def _error_bars(axes: Any, at: NDArray[Any], released: Noise, across: bool = False) -> None:
    """Draw released shares with two deviations of their noise to both sides."""
    shares, noise = (100.0 * part for part in released)
    style = {"fmt": "none", "ecolor": "black", "elinewidth": 0.7, "capsize": 1.3, "capthick": 0.7}
    if across:
        axes.errorbar(shares, at, xerr=2.0 * noise, **style)
    else:
        axes.errorbar(at, shares, yerr=2.0 * noise, **style)


def heat_map(matrix: Array, names: Sequence[str], places: Sequence[int], signed: bool, limit: float, label: str) -> Any:
    """Return a square matrix as shades: dark means strong, a dash marks a negative value, and NaN is grey.

    Where names are too many, the numbers in ``places`` stand for them. ``limit`` is the darkest entry, ``label`` is of
    the scale, and ``signed`` allows negative entries.
    """
    from matplotlib import colormaps

    k = len(names)
    side = 4.4 if k <= LABELLED else min(9.0, 3.0 + 0.06 * k)
    shown, longest = fitting(names, 18, WIDEST_LABEL) if k <= LABELLED else ([], 0.2)
    margin = 0.25 + longest
    figure = blank(side + margin + 1.25, side + margin + 0.1)
    width, height = figure.get_size_inches()
    axes = figure.add_axes((margin / width, margin / height, side / width, side / height))
    colours = colormaps["RdBu" if signed else "Blues"].with_extremes(bad="0.85")
    image = axes.imshow(matrix, cmap=colours, vmin=-limit if signed else 0.0, vmax=limit, interpolation="nearest")
    rows, columns = np.nonzero(matrix < -0.06 * limit)
    if signed and len(rows):
        white = matrix[rows, columns] < -0.6 * limit
        size = max(2.0, (72.0 * side / k * 0.4)) ** 2
        for chosen, colour in ((white, "white"), (~white, "black")):
            axes.scatter(columns[chosen], rows[chosen], s=min(size, 60.0), marker="_", c=colour, linewidths=0.7)
    if k <= LABELLED:
        axes.set_xticks(range(k), shown, rotation=90)
        axes.set_yticks(range(k), shown)
    else:
        numbered = list(range(9, k, 10))
        axes.set_xticks(numbered, [str(places[i]) for i in numbered])
        axes.set_yticks(numbered, [str(places[i]) for i in numbered])
    axes.spines[:].set_visible(True)
    axes.set_xlim(-0.5, k - 0.5)
    axes.set_ylim(k - 0.5, -0.5)
    scale = figure.add_axes(((margin + side + 0.12) / width, margin / height, 0.13 / width, side / height))
    figure.colorbar(image, cax=scale, label=label, format=_ticks())
    return figure


def curves(x: Sequence[float], lines: Sequence[tuple[str, Sequence[float], float]]) -> Any:
    """Return lines over a logarithmic axis of epsilon, each with its name and a limit, drawn dotted."""
    figure, axes = _panel(6.2, 3.2, bottom=0.45 / 3.2)
    for (name, values, limit), mark_, style in zip(lines, ("o", "s", "^"), ("-", "--", "-."), strict=False):
        (drawn,) = axes.plot(x, values, marker=mark_, markersize=4.0, linestyle=style, linewidth=1.2, label=name)
        axes.axhline(limit, color=drawn.get_color(), linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(list(x), [number(each) for each in x])
    low, high = axes.get_ylim()
    marks = [base * 10.0**power for power in range(-6, 1) for base in (1.0, 2.0, 5.0)]
    axes.set_yticks([at for at in marks if low <= at <= high], [number(at) for at in marks if low <= at <= high])
    axes.minorticks_off()
    axes.set_xlabel("epsilon")
    axes.set_ylabel("mean expected error; dotted: good")
    axes.legend()
    return figure


def scatter(x: Sequence[Array], y: Sequence[Array], labels: Sequence[str], xlabel: str, ylabel: str) -> Any:
    """Return points of several families on logarithmic axes, with the line on which both are equal."""
    figure, axes = _panel(4.4, 3.3, left=0.17, bottom=0.15, top=0.97)
    across, up = np.concatenate(x), np.concatenate(y)
    # Values of nearly 0 are drawn at the edge.
    low, left = (max(float(every.max()) * reach, 1e-12) for every, reach in ((up, 1e-4), (across, 1e-6)))
    left = max(left, float(across.min()))
    ends = [(left / 1.5, max(float(across.max()), left) * 1.5), (low / 1.5, max(up.max(), across.max()) * 1.5)]
    styles = (("o", DARK, "none"), ("x", "black", "black"), ("^", "#8a5a00", "none"))
    for a, b, label, (marker, colour, fill) in zip(x, y, labels, styles, strict=False):
        axes.scatter(np.maximum(a, left), np.maximum(b, low), s=11, marker=marker, facecolor=fill if fill == "none" else
                     colour, edgecolor=None if marker == "x" else colour, linewidths=0.6, label=label, rasterized=True)
    axes.plot(ends[0], ends[0], color="black", linewidth=0.9, linestyle="--", label="equal")
    axes.set(xscale="log", yscale="log", xlim=ends[0], ylim=ends[1], xlabel=xlabel, ylabel=ylabel)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_ticks())
        axis.set_minor_formatter(_ticks(lambda value: ""))
    axes.legend(loc="upper left")
    return figure


def distributions(values: Sequence[Array], labels: Sequence[str], xlabel: str) -> Any:
    """Return the distribution functions of samples, the first dark and whole, the second dashed."""
    figure, axes = _panel(4.4, 3.0, left=0.13, bottom=0.16, top=0.85)
    for sample, label, line, colour in zip(values, labels, ("-", "--"), (DARK, "black"), strict=True):
        axes.ecdf(sample, label=label, linestyle=line, color=colour, linewidth=1.4)
    axes.set(xlabel=xlabel, ylabel="share of the rows", ylim=(0.0, 1.0))
    axes.set_xlim(left=0.0)
    axes.xaxis.set_major_formatter(_ticks())
    _legend_above(axes, 1)
    return figure


def blank(width: float, height: float) -> Any:
    """Return a figure of so many inches, without axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def _panel(width: float, height: float, left: float = 0.14, bottom: float | None = None,
           top: float | None = None) -> tuple[Any, Any]:
    """Return a figure with one axes, with margins that do not depend on the drawing."""
    figure = blank(width, height)
    low = 0.3 / height if bottom is None else bottom
    high = 1.0 - 0.22 / height if top is None else top
    return figure, figure.add_axes((left, low, 0.95 - left, high - low))


def fitting(labels: Sequence[object], longest: int, widest: float) -> tuple[list[str], float]:
    """Return labels cut to so many letters and inches, and the inches of the widest, with room for readers' fonts."""
    figure = blank(1.0, 1.0)

    def inches(text: str) -> float:
        drawn = figure.text(0.0, 0.0, text)
        width = float(drawn.get_window_extent(figure.canvas.get_renderer()).width) / figure.dpi
        drawn.remove()
        return SPARE * width

    cut = [shortened(label, longest) for label in labels]
    widths = [inches(text) for text in cut]
    for i, label in enumerate(labels):
        while len(cut[i]) > 2 and widths[i] > widest:
            cut[i] = shortened(label, max(2, min(len(cut[i]) - 1, int(len(cut[i]) * widest / widths[i]) + 1)))
            widths[i] = inches(cut[i])
    return cut, max(widths)


def _make_room(axes: Any) -> None:
    """Move the left edge of the axes to where the marks of the vertical axis have room."""
    renderer, width = axes.figure.canvas.get_renderer(), axes.figure.bbox.width
    widest = max(label.get_window_extent(renderer).width for label in axes.get_yticklabels())
    box = axes.get_position()
    left = max(box.x0, (SPARE * widest + 10.0) / width)
    axes.set_position((left, box.y0, box.x1 - left, box.height))


def mark(axes: Any, ticks: Sequence[tuple[float, str]]) -> None:
    """Mark places of the horizontal axis: those whose texts would overlap are left out, and the ends kept inside."""
    renderer, kept, reached = axes.figure.canvas.get_renderer(), [], -math.inf
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks])
    right = axes.figure.bbox.x1
    for (at, text), label in zip(ticks, axes.get_xticklabels(), strict=True):
        box = label.get_window_extent(renderer)
        middle, half = (box.x0 + box.x1) / 2.0, SPARE * box.width / 2.0
        side = "left" if middle - half < 0.0 else "right" if middle + half > right else "center"
        start = middle - {"left": 0.0, "center": half, "right": 2.0 * half}[side]
        if start > reached + LEAST_GAP:
            kept.append((at, text, side))
            reached = start + 2.0 * half
    axes.set_xticks([at for at, _, _ in kept], [text for _, text, _ in kept])
    for label, (_, _, side) in zip(axes.get_xticklabels(), kept, strict=True):
        label.set_horizontalalignment(side)


def _legend_above(axes: Any, columns: int = 2) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.01), ncols=columns, borderpad=0.1, borderaxespad=0.0)


def _percent(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(3))
    axis.set_major_formatter(_ticks(lambda value: f"{number(value)} %"))


def _ticks(text: Callable[[float], str] = number) -> Any:
    from matplotlib.ticker import FuncFormatter

    return FuncFormatter(lambda value, position: text(value))
