"""The figures of two columns at once, of one side or two: clouds of points, boxes by category, and tables as shades."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trigmech._arrays import Array
from trigmech.report.figures import DARK, blank, fitting, mark

# Inches of a panel, of a name beside it, and of the space around it.
WIDTH, HEIGHT, WIDEST, AROUND = 2.55, 2.1, 1.2, 0.3
# Beyond so many cells their shares are not written into them.
WRITTEN = 64


@dataclass(frozen=True)
class Axis:
    """A column on an axis of numbers: its ends, and marks with their texts."""

    name: str
    ends: tuple[float, float]
    ticks: Sequence[tuple[float, str]]


def cloud(sides: Sequence[tuple[Array, Array]], x: Axis, y: Axis, titles: Sequence[str]) -> Any:
    """Return the rows of each side as points."""
    texts, wide = fitting([text for _, text in y.ticks], 14, WIDEST)
    figure, panels = _panels(titles, wide, x.name, y.name)
    for axes, (across, up) in zip(panels, sides, strict=True):
        axes.scatter(across, up, s=3.0, color=DARK, alpha=0.35, linewidths=0.0, rasterized=True)
        _across(axes, x)
        axes.set_ylim(*y.ends)
        axes.set_yticks([at for at, _ in y.ticks], texts)
    return figure


def boxes(sides: Sequence[Array], x: Axis, names: Sequence[str], name: str, titles: Sequence[str]) -> Any:
    """Return, of each side, boxes of the quantiles (categories, 5) of a number: 5, 25, 50, 75 and 95 %."""
    texts, wide = fitting(names, 20, WIDEST)
    figure, panels = _panels(titles, wide, x.name, name)
    at = np.arange(len(names))
    for axes, quantiles in zip(panels, sides, strict=True):
        low, start, middle, stop, high = quantiles.T
        axes.hlines(at, low, high, color=DARK, linewidth=0.9)
        axes.barh(at, stop - start, 0.6, left=start, color="#b9cbe0", edgecolor=DARK, linewidth=0.8)
        axes.vlines(middle, at - 0.3, at + 0.3, color="black", linewidth=1.6)
        _across(axes, x)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_yticks(at, texts)
    return figure


def shades(sides: Sequence[Array], names: tuple[Sequence[str], Sequence[str]], columns: tuple[str, str],
           titles: Sequence[str]) -> Any:
    """Return, of each side, a table (a, b) of shares, the darker the greater, with the rows from the top down."""
    (down, wide), (over, high) = (fitting(own, 20, WIDEST) for own in names)
    figure, panels = _panels(titles, wide, columns[1], columns[0], high)
    darkest = max(1e-9, *(float(np.nan_to_num(side).max()) for side in sides))
    for axes, side in zip(panels, sides, strict=True):
        axes.imshow(side, cmap="Blues", vmin=0.0, vmax=darkest, aspect="auto", interpolation="nearest")
        for (i, j), share in np.ndenumerate(side if side.size <= WRITTEN else np.empty((0, 0))):
            axes.text(j, i, f"{100.0 * share:.0f}", ha="center", va="center", fontsize=6.5,
                      color="white" if share > 0.6 * darkest else "black")
        axes.set_xticks(range(len(over)), over, rotation=90)
        axes.set_yticks(range(len(down)), down)
        axes.tick_params(length=0)
    return figure


def _panels(titles: Sequence[str], wide: float, x: str, y: str, high: float = 0.12) -> tuple[Any, list[Any]]:
    """Return a figure with a panel for each side, and room for names ``wide`` beside and ``high`` below each."""
    left, bottom, top = wide + AROUND, high + AROUND, 0.25 if len(titles) > 1 else 0.12
    width, height = len(titles) * (left + WIDTH + 0.12), bottom + HEIGHT + top
    figure, found = blank(width, height), []
    (across,), _ = fitting([x], 40, WIDTH)
    (up,), _ = fitting([y], 40, HEIGHT)
    for i, title in enumerate(titles):
        axes = figure.add_axes(((i * (left + WIDTH + 0.12) + left) / width, bottom / height, WIDTH / width,
                                HEIGHT / height))
        axes.set_title(title if len(titles) > 1 else "", fontsize=8.0)
        figure.text((i * (left + WIDTH + 0.12) + left + WIDTH / 2.0) / width, 0.03 / height, across, ha="center",
                    va="bottom")
        figure.text((i * (left + WIDTH + 0.12) + 0.03) / width, (bottom + HEIGHT / 2.0) / height, up, rotation=90,
                    ha="left", va="center")
        found.append(axes)
    return figure, found


def _across(axes: Any, x: Axis) -> None:
    axes.set_xlim(*x.ends)
    mark(axes, x.ticks)
