"""A report's account of a release of moments: measurements, how points were made, and the errors left."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trigmech._arrays import Array
from trigmech.evaluation.error_bars import missed_moments
from trigmech.functions.index import WHOLE_ROW, FunctionIndex
from trigmech.measurement.released import Release
from trigmech.report.columns import ColumnShares, Noisy, owners
from trigmech.report.dependences import Dependence
from trigmech.report.figures import number
from trigmech.report.statement import NO_TABLE, Row, Table
from trigmech.results import Synthesis

# The page's words for the kinds of functions, in its order.
KINDS = {"column": "one number, degrees up to {}", "pair": "products of two numbers",
         "triple": "products of three numbers", "frequency": "frequencies of categories, special and missing values",
         "two-way table": "tables of two columns of categories",
         "number by category": "products of a category and a number", "other": "other products",
         WHOLE_ROW: "functions of whole rows"}


@dataclass(frozen=True, eq=False)
class MomentAccount:
    """The answers to a report's questions about a release of moments; :class:`TableAccount` gives them for tables."""

    about_errors: ClassVar[str] = (
        "The errors of frequencies of categories, special and missing values: the noise in them, and the difference "
        "between the points and the released numbers. The total variation is half of the sum of a column's errors.")
    about_bounds: ClassVar[str] = (
        "It is computed from the distribution of the noise, from the differences between the points and their targets, "
        "and from assumptions about unmeasured moments.")
    synthesis: Synthesis
    release: Release

    def measured(self) -> dict[str, Any]:
        """Return the measurements with their noise, and how the points were made."""
        rows = [*self._moments(), *self._axes()]
        return {"words": f"The means of {self.release.features.K:,} functions were measured once, and noise was added "
                         "to each", "scale": "the functions have values from −1 to 1",
                "table": Table("Moments and their noise", ("Kind", "Number", "Least noise", "Greatest noise"), rows),
                "chosen": NO_TABLE,
                "fit": Table("How the points were made", ("What", "Value"), self._fitted(), ())}

    def noise(self) -> list[float]:
        """Return, for each column, the noise in its mean; not a number if that is not measured."""
        return [float(own[0]) for own in noise_alone(self.release.index, self.release.deviations)]

    def columns(self, marginals: Sequence[ColumnShares]) -> list[Noisy | None]:
        """Return None for each column, because moments are not frequencies."""
        return [None] * len(marginals)

    def dependences(self) -> list[Dependence]:
        """Return an empty list: only releases of tables have dependences of pairs."""
        return []

    def errors(self) -> Table:
        """Return the predicted errors of the frequencies of the values of each column that has indicators."""
        release, fit, domain = self.release, self.synthesis.fit, self.synthesis.schema.domain
        if not self.synthesis.has_error_bars or not domain.groups:
            return NO_TABLE
        missed = np.abs(missed_moments(release, fit)[0])
        gaussian = not any(charge.law == "laplace" for charge in self.synthesis.ledger.charges)
        # In standard deviations: of the normal distribution, or -log(1 - 0.95) / sqrt(2) of the Laplace distribution.
        reach = 1.959964 if gaussian else 2.118279
        rows, names = [], owners(self.synthesis.schema)
        for group in domain.groups:
            own = release.index.alone(group.coordinates)[0]
            own = own[own >= 0]
            if len(own):
                scales = release.deviations[own]
                rows.append((names[group.coordinates[0]], str(len(own)), scales.max(), missed[own].max(),
                             f"± {number((reach * scales + missed[own]).max())}",
                             (np.sqrt(2.0 / np.pi) * scales.max() * len(own) + missed[own].sum()) / 2.0))
        return Table("Predicted errors of the frequencies of each column's values",
                     ("Column", "Frequencies", "Standard deviation of the noise", "Error of the points", "95 % within",
                      "Total variation, expected"), rows)

    def _moments(self) -> list[Row]:
        index = self.release.index
        kinds = np.where(np.isin(index.kinds, [*KINDS, "constant"]), index.kinds, "other")
        degree = index.highest[index.of_kind("column")].max(initial=0)
        return [row for kind, name in KINDS.items()
                for row in _row(name.format(degree), self.release.deviations[kinds == kind])]

    def _axes(self) -> list[Row]:
        release = self.release
        if release.mean is None or release.axes is None:
            return []
        deviations = {c.purpose: c.scale * (math.sqrt(2.0) if c.law == "laplace" else 1.0)
                      for c in self.synthesis.ledger.charges}
        drawn = (("mean of the rows", release.mean.size, "mean"),
                 ("principal axes, at each iteration", release.axes.images.size, "axes"))
        return [row for name, count, purpose in drawn
                for row in _row(name, np.full(count, deviations.get(purpose, math.nan)))]

    def _fitted(self) -> list[Row]:
        fit = self.synthesis.fit
        end: list[Row] = [("Status", f"{fit.status} after {fit.iterations:,} iterations"), ("Seconds", fit.seconds)]
        if fit.misfit is None:
            return [("Method", "weights on given points, by a linear program"), ("Objective", fit.objective),
                    ("Certified gap", fit.gap), *end]
        return [("Method", "points that move until their means meet the released ones"),
                ("Mean squared deviation from the fitted numbers, in units of the noise", fit.misfit),
                ("Moments below the noise", "shrunk first" if fit.shrunk else "taken as released"),
                ("Dependence between columns", f"above the noise for {'some' if fit.dependent else 'no'} pair"), *end]


def noise_alone(index: FunctionIndex, scales: Array) -> list[Array]:
    """Return, for each column, the noise in the means of its coordinates; not a number where one is not measured."""
    places = index.alone(range(index.d))[0]
    # A column is named by its first coordinate.
    return np.split(np.where(places < 0, math.nan, scales[places]), np.unique(index.domain.owner)[1:])


def _row(name: str, scales: Array) -> list[Row]:
    return [(name, len(scales), scales.min(), scales.max())] if len(scales) else []
