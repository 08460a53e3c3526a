"""Error bars of any statistic by resampling: the same release of plausible private tables.

Two errors are looked at. The first is the distance of each plausible table (:mod:`trigmech.evaluation.plausible`) from
the fit: it includes the misfit. The second is the distance of each from the fit of a release of its own, with simulated
noise of the same scales: it includes the effects of noise, shrinkage and the finite number of rows. The larger root
mean square counts. A normal distribution gives bounds, times a factor that was set by simulation on made tables.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from trigmech._arrays import SAME, Array
from trigmech._parallel import in_order
from trigmech._validate import answered, check_level
from trigmech.evaluation.error_bars import PredictedError
from trigmech.evaluation.plausible import PlausibleTables
from trigmech.measurement.released import Release
from trigmech.measurement.rows import Progress
from trigmech.mechanisms.base import Design
from trigmech.mechanisms.rehearsal import rehearsed
from trigmech.reconstruction.constrained import ConstrainedRows
from trigmech.reconstruction.rows import independent_rows

# Nothing private is behind these random numbers: the same for all releases, so bars can be repeated.
SEED = 2014
# More tables, or more releases of each, take more time, but cover no more: 8 with 3 each, 6 and 4 with 1 hold alike.
TABLES, RELEASES = 6, 1
# Rows of each table: no more than the fit has, as many as make rounding to rows small beside the noise.
FEWEST_ROWS, MOST_NUMBERS = 3_000, 2**20
# Set by `python -m experiments run coverage_tables`, on made tables: of any statistic, and of the smooth answers to a
# workload.
FACTOR, FACTOR_OF_WORKLOADS = 1.25, 1.3


class Resamples:
    """Plausible tables and the fits of their own releases, made at the first call and kept.

    Privacy: post-processing of public numbers. Cost: 12 fits of some thousand rows, on all threads.
    """

    def __init__(self, release: Release, points: Array, design: Design) -> None:
        self._release, self._points, self._design = release, points, design
        self._made: list[tuple[Array, list[Array]]] = []

    def bars(self, answer: Callable[[Array], ArrayLike], level: float, parts: bool = False,
             progress: Progress | None = None) -> tuple[Array, PredictedError]:
        """Return a function's values of the fit, and their error bars.

        ``answer`` maps points (m, D) of the cube to numbers in an array of any shape. With ``parts`` the last of two
        axes are parts, whose worst errors are bounded one by one.

        Raises an InputError if the level is no probability, or the values are no finite numbers in an array of one
        shape.
        """
        check_level(level)
        values = answered(answer, self._points)
        off, errors = np.zeros(values.shape), []
        for table, fits in self._tables(progress):
            truth = answered(answer, table, values.shape)
            off += (truth - values) ** 2 / TABLES
            errors += [answered(answer, fit, values.shape) - truth for fit in fits]
        factor = FACTOR_OF_WORKLOADS if parts else FACTOR
        deviation = factor * np.sqrt(np.maximum(off, np.mean(np.square(errors), axis=0)))
        if parts:
            largest = deviation.max(axis=0, initial=0.0)
        else:
            # Tables of which all have a value do not show how far the private table's may be from it. A bound of 0
            # would say: not at all.
            flat = deviation <= SAME * np.abs(values)
            if flat.any():
                deviation = np.where(flat, factor * self._hidden(answer, values), deviation)
            known = deviation[np.isfinite(deviation)]
            largest = np.full(1, known.max() if known.size else np.inf if values.size else 0.0)
        count = max(values.size // max(len(largest), 1), 1)
        return values, PredictedError(level, deviation, deviation * float(ndtri((1.0 + level) / 2.0)),
                                      largest * float(ndtri(1.0 - (1.0 - level) / (2.0 * count))))

    def _hidden(self, answer: Callable[[Array], ArrayLike], values: Array) -> Array:
        """Return how far values move in a table of which noise could hide a part: rows that were drawn evenly.

        A value that is the same in a table that has nothing of the private one, such as a count of rows, moves by 0.
        """
        release, rng = self._release, np.random.default_rng(SEED)
        constrained = ConstrainedRows(self._design.schema_given, release.columns, release.closer)
        rows = independent_rows([np.ones(column.partition.size) for column in release.columns], self._rows, rng)
        constrained.repair(rows, rng)
        try:
            even = answered(answer, constrained.placed(rows, release.domain.d, rng), values.shape, finite_only=False)
        except Exception:  # A function may raise anything for a table that it was not made for.
            return np.full(values.shape, np.inf)
        moved = np.abs(even - values)
        moved = np.where(moved <= SAME * np.abs(values), 0.0, moved)
        return np.where(np.isfinite(moved), self._part * moved, np.inf)

    @property
    def _part(self) -> float:
        """The part of the rows that noise can hide in a column: the median over the columns.

        Rows that are spread evenly over c positions, as many as the noise of one position times the root of c, change
        the squared distance from the released frequencies by as much as the noise of one number does.
        """
        hidden = [min(column.deviation * math.sqrt(column.partition.size), 1.0) for column in self._release.columns]
        return float(np.median(hidden))

    def _tables(self, progress: Progress | None) -> list[tuple[Array, list[Array]]]:
        if not self._made:
            rng = np.random.default_rng(SEED)
            plausible, rngs = PlausibleTables(self._release, rng), rng.spawn(TABLES)
            # As even as possible over the tables, because few of them have an atom that noise hides.
            shape = TABLES, len(self._release.columns), 2
            even = (rng.permuted(np.broadcast_to(np.arange(TABLES)[:, None, None], shape), axis=0)
                    + rng.random(shape)) / TABLES

            def one(start: int, stop: int) -> tuple[Array, list[Array]]:
                table = plausible.draw(self._rows, rngs[start], even[start])
                return table, [rehearsed(self._design, table, rngs[start]) for _ in range(RELEASES)]

            made = []
            for each in in_order(one, TABLES, 1):
                made.append(each)
                if progress is not None:
                    progress("error bars", len(made), TABLES)
            self._made = made
        return self._made

    @property
    def _rows(self) -> int:
        joint = [*self._release.tables, *([] if self._release.products is None else [self._release.products])]
        noise = min((each.deviation for each in joint), default=np.inf)
        wanted = max(FEWEST_ROWS, int(min(2.0 / noise, MOST_NUMBERS)))
        return min(wanted, len(self._points), max(MOST_NUMBERS // self._release.domain.d, 1_000))
