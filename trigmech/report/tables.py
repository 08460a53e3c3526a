"""A report's account of a release of columns and tables: each round's measurements, choices and noise."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trigmech._arrays import Array
from trigmech.functions.partition import Partition, between
from trigmech.measurement.released import Release
from trigmech.queries.base import Measurement, Query
from trigmech.queries.one_way import Look
from trigmech.reconstruction.tables import cells_of_columns
from trigmech.report.columns import ColumnShares, Noisy, is_numeric
from trigmech.report.dependences import Dependence, dependences_of
from trigmech.report.figures import number, percent
from trigmech.report.moments import MomentAccount
from trigmech.report.statement import Row, Table
from trigmech.results import Synthesis
from trigmech.schema.encoding import transformed_bounds


@dataclass(frozen=True, eq=False)
class TableAccount:
    """The answers to a report's questions about a release of columns and tables; see :class:`MomentAccount`."""

    about_errors: ClassVar[str] = (
        "The noise in the released numbers of each column: for numbers it is the noise in the share of the rows below "
        "any value, and for categories the noise in each share. The synthetic columns differ from the released numbers "
        "where the fit treats the difference as noise.")
    about_bounds: ClassVar[str] = (
        "It is found by trial: plausible private tables are simulated and released again with simulated noise, and the "
        "rows fitted to these releases are compared with the simulated tables.")
    synthesis: Synthesis
    release: Release

    def measured(self) -> dict[str, Any]:
        """Return the measurements of each round, the choices between rounds, and how the rows were made."""
        rows = [(words, len(noise), noise.min(), noise.max()) for words, noise in self._rounds() if len(noise)]
        return {"words": f"{self.release.K:,} frequencies and means were measured, each with noise: first for every "
                         "column alone, then, chosen by the first results, for parts of columns and for pairs",
                "scale": "frequencies are parts of all rows, between 0 and 1",
                "table": Table("What was measured, round by round", ("What", "Number", "Least noise", "Greatest noise"),
                               rows),
                "chosen": self._chosen(), "fit": Table("How the rows were made", ("What", "Value"), self._fitted(), ())}

    def noise(self) -> list[float]:
        """Return, for each column, the noise in the share of rows below a threshold, or in that of a category."""
        looks = (self.release.look_at(j) for j in range(len(self.release.columns)))
        # For a column without a histogram of its own, the noise in the tables counts: that of all its cells together.
        return [column.deviation * float(np.sqrt(len(column.mass))) if look is None else
                look.deviation * look.query.greatest_noise
                for look, column in zip(looks, self.release.columns, strict=True)]

    def columns(self, marginals: Sequence[ColumnShares]) -> list[Noisy | None]:
        """Return the released frequencies of each column, in the cells of a marginal."""
        looks = (self.release.look_at(j) for j in range(len(self.release.columns)))
        return [None if look is None else _noisy(look, own) for look, own in zip(looks, marginals, strict=True)]

    def dependences(self) -> list[Dependence]:
        """Return the released dependences of pairs, the strongest first."""
        return dependences_of(self.release, self.synthesis.fit)

    def errors(self) -> Table:
        """Return the noise in the frequencies of each column, and how far the synthetic ones are from the released."""
        points, weights = self.synthesis.distribution.points, self.synthesis.distribution.weights
        rows = []
        for j, column in enumerate(self.synthesis.schema.columns):
            look = self.release.look_at(j)
            if look is None:
                continue
            if not look.query.tells_frequencies:
                rows.append(self._of_signs(column.name, look))
                continue
            partition, frequencies = look.query.partition, look.means
            made = np.bincount(partition.codes(points), weights, partition.size)
            k = len(partition.indicators)
            apart = np.abs(np.concatenate([made[:k] - frequencies[:k], np.cumsum(made[k:] - frequencies[k:])]))
            what = "shares below a value" if partition.intervals else "shares of categories"
            noise = look.deviation * look.query.greatest_noise
            rows.append((column.name, what, percent(noise), percent(float(apart.max())),
                         number(float(_in_deviations(apart.max(), noise)), 2)))
        for each in self._others:
            away = _in_deviations(np.abs(each.query.means(points, weights) - each.means).ravel(), each.deviations)
            k = int(away.argmax())
            noise = float(each.deviations[k])
            rows.append((", ".join(self.synthesis.schema.names[j] for j in each.query.columns), each.query.kind,
                         number(noise), number(away[k] * noise), number(away[k], 2)))
        return Table("Noise in the columns, and differences between the synthetic and the released columns",
                     ("Column", "Statistic", "Standard deviation of the noise", "Greatest difference",
                      "Difference in standard deviations"), rows, (2, 3, 4))

    def _of_signs(self, name: str, look: Measurement[Any]) -> Row:
        """Return a column of whose shares only those of some halves are released."""
        held = self.synthesis.distribution
        apart = 0.5 * float(np.abs(look.query.means(held.points, held.weights) - look.means).max())
        noise = look.deviation * look.query.greatest_noise
        return (name, "shares on one side of signs", percent(noise), percent(apart),
                number(float(_in_deviations(apart, noise)), 2))

    def _rounds(self) -> list[tuple[str, Array]]:
        release = self.release
        told = [look for look in release.looks if look.query.tells_frequencies]
        signs = [look for look in release.looks if not look.query.tells_frequencies]
        named = [look.deviations[: len(look.query.partition.indicators)] for look in told]
        below = [look.deviations[len(look.query.partition.indicators) :] for look in told]
        seen = len({look.query.columns for look in release.closer})
        again = len(release.measurements) - len(release.known)
        # A pair's second table is the finer one.
        pairs = [each.query.columns for each in release.tables]
        finer = [each for t, each in enumerate(release.tables) if pairs.index(pairs[t]) < t]
        coarse = [each for t, each in enumerate(release.tables) if pairs.index(pairs[t]) == t]

        def of(parts: list[Array]) -> Array:
            return np.concatenate([np.empty(0), *parts])

        def noise(measured: Sequence[Measurement[Any]]) -> Array:
            return of([each.deviations for each in measured])

        products = tuple(each for each in (release.products, release.directions) if each is not None)
        others = {each.query.kind: noise([one for one in self._others if one.query.kind == each.query.kind])
                  for each in self._others}
        return [("first: frequencies of categories, special and missing values", of(named)),
                (f"first: intervals of {sum(len(own) > 0 for own in below)} columns with an order", of(below)),
                (f"first: signs of cosines of {len(signs)} columns of numbers", noise(signs)),
                (f"second: within {len(release.closer)} heavy intervals of {seen} columns",
                 noise(release.closer)),
                (f"third: cells of tables of {len(coarse)} pairs of columns"
                 + f", {again} of them twice" * (again > 0), noise(coarse)),
                (self._products_named, noise(products)),
                (f"last: positions of {len(finer)} pairs of columns of which one nearly determines the other",
                 noise(finer)),
                (f"last: cells of tables of {len(release.triples)} sets of three columns", noise(release.triples)),
                *((f"beside them: {kind}", own) for kind, own in others.items())]

    @property
    def _others(self) -> list[Measurement[Query]]:
        """The queries that the rows are not fitted to."""
        return [each for each in self.release.known if each.query.order == Query.order]

    @property
    def _products_named(self) -> str:
        products, directions = self.release.products, self.release.directions
        if directions is not None:
            pairs = math.comb(len(directions.query.partitions), 2)
            return f"third: products of the directions of rows, for {pairs} pairs of columns"
        if products is None:
            return "third: products of ranks of 0 pairs of them"
        return f"third: products of {products.query.factors_named} of {len(products.query.pairs)} pairs" + (
            "" if products.query.tells_tables else " of them")

    def _chosen(self) -> Table:
        """Return how finely each column was measured. Its first measurement chose the later ones."""
        release = self.release
        d = len(release.columns)
        sizes = [math.prod(look.query.shape) if (look := release.look_at(j)) else "—" for j in range(d)]
        closer = [sum(look.query.columns == (j,) for look in release.closer) for j in range(d)]
        held = cells_of_columns(release)
        cells = [int(held[j].max()) + 1 if j in held else "—" for j in range(d)]
        times = Counter(id(each.query) for each in release.measurements)
        again, three = ([sum(j in each.query.columns for each in chosen) for j in range(d)] for chosen in (
            [each for each in release.tables if times[id(each.query)] > 1], release.triples))
        rows = zip(self.synthesis.schema.names, sizes, closer,
                   (len(column.mass) for column in release.columns), cells, again, three, strict=True)
        return Table("What was chosen for each column",
                     ("Column", "Values and intervals at first", "Intervals measured closer",
                      "Values and intervals at last", "Cells in tables", "Its tables measured twice",
                      "Tables of three columns"), list(rows))

    def _fitted(self) -> list[Row]:
        fit = self.synthesis.fit
        return [("Method", "rows whose entries move between categories and intervals until their tables meet the "
                           "released ones"),
                ("Mean squared deviation from the fitted numbers, in units of the noise",
                 "—" if fit.misfit is None else fit.misfit),
                ("Tables and products", "noise shrunk away first"),
                ("Dependence between columns", f"above the noise for {'some' if fit.dependent else 'no'} pair"),
                ("Status", f"{fit.status} after {fit.iterations:,} sweeps"), ("Seconds", fit.seconds)]


Account = MomentAccount | TableAccount


def account_of(synthesis: Synthesis) -> Account:
    """Return the answers to a report's questions about a release, whatever its kind."""
    release = synthesis.release
    return TableAccount(synthesis, release) if release.columns else MomentAccount(synthesis, release)


def _noisy(look: Measurement[Look], own: ColumnShares) -> Noisy | None:
    """Return the released frequencies of a column, in the cells of a marginal; None if signs do not tell them."""
    if not look.query.tells_frequencies:
        return None
    partition, frequencies = look.query.partition, look.means
    k = len(partition.indicators)
    within = _within(partition, _thresholds(own, partition)) if partition.intervals else np.zeros((0, 0))
    shares = within @ frequencies[k:]
    noise = look.deviation * look.query.noise_of(np.pad(within, ((0, 0), (k, 0))))
    of_named = look.deviations[:k]
    if is_numeric(own.column):
        return Noisy(frequencies[:k], of_named, shares, noise)
    # In binary and ordinal columns each value is a level, and missing values come last.
    return Noisy(np.concatenate([shares, frequencies[:k]]), np.concatenate([noise, of_named]),
                 np.empty(0), np.empty(0))


def _thresholds(own: ColumnShares, partition: Partition) -> Array:
    """Return the edges of a marginal's bins, or points between its named values, in the cube; the ends are open."""
    if is_numeric(own.column):
        low, high = transformed_bounds(own.column)
        inner = (own.edges[1:-1] - low) / (high - low) * 2.0 - 1.0
    else:
        levels = np.empty(0) if partition.levels is None else partition.levels
        inner = between(levels[:-1], levels[1:])
    return np.concatenate([[-np.inf], inner, [np.inf]])


def _within(partition: Partition, thresholds: Array) -> Array:
    """Return the part (bins, c) of each interval in each bin, if its levels or values are equally frequent."""
    edges, levels = partition.edges, partition.levels
    if levels is not None:
        thresholds, edges = (np.searchsorted(levels, at).astype(np.float64) for at in (thresholds, edges))
        edges[-1] = len(levels)
    below = np.clip((thresholds[:, None] - edges[:-1]) / np.diff(edges), 0.0, 1.0)
    return np.diff(below, axis=0)


def _in_deviations(apart: Any, noise: Any) -> Array:
    """Return differences as multiples of the noise. A number without noise is known before: for example, all rows have
    the only level of a column. It differs by rounding alone, which counts as 0."""
    return np.where(noise > 0.0, apart / np.maximum(noise, np.finfo(float).tiny), 0.0)
