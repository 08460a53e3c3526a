"""From the noisy histogram of a column to its distribution, in as much detail as the noise allows."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import isotonic_regression

from trigmech._arrays import Array
from trigmech.functions import prefix_sums
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import SLACK, ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Look
from trigmech.reconstruction.densities import Prior, SmoothDensity, density_of_signs, smooth_density
from trigmech.reconstruction.divided import divided, equal_parts, lengths, on_places, relative_sizes
from trigmech.reconstruction.ends import (
    LEAST_ATOM,
    atom_probabilities,
    beside,
    hidden_atoms_at,
    ordinary_shares,
    put_back,
)
from trigmech.reconstruction.frequencies import (
    LARGEST,
    are_many,
    means_of_many,
    nearest_probabilities,
    share_of_one,
    shrunk_frequencies,
)
from trigmech.reconstruction.pieces import LARGEST_PLACE, joined_to_pieces, places_of
from trigmech.reconstruction.shared_prior import shared_priors
from trigmech.reconstruction.tails import with_tails, without_tails

# The price of a piece in the comparison with a smooth density, and the smallest weight of the smooth density.
EVIDENCE, NEGLIGIBLE = 10.0, 1e-3
# With less noise than this, pieces alone are exact enough, and the rounding of squares would destroy the evidence.
LEAST_DEVIATION = 1e-5
# If less than this is left beside special values, the density of the rest is not looked for.
LEAST_REST = 1e-12
# Neighbouring intervals of a smooth density stay apart if together they hold at least LIGHT standard deviations of the
# noise, and if their densities differ by more than the factor UNLIKE. An end of the range counts as empty if it holds
# less than the fraction NEXT_TO_EMPTY of this mass.
LIGHT, UNLIKE, NEXT_TO_EMPTY = 0.5, 1.3, 0.02
# An interval is a spike if it is SPIKE times denser than those before it, and holds at least 1 / SPIKE of that mass.
SPIKE = 5.0


@dataclass(frozen=True, eq=False)
class Opened:
    """A column before the models of its smooth density are weighed.

    density: The density under the usual prior; None if the column has no smooth density.
    finished: Returns the column, given its density.
    """

    density: SmoothDensity | None
    finished: Callable[[SmoothDensity | None], ReleasedColumn]

    def under(self, prior: Prior | None) -> ReleasedColumn:
        return self.finished(None if self.density is None else self.density.under(prior))


def released_columns(looks: Sequence[Measurement[Look]]) -> tuple[ReleasedColumn, ...]:
    """Return the distributions of columns from their looks. The densities of numbers share a prior."""
    opened = [_opened(look) for look in looks]
    priors = shared_priors([each.density for each in opened])
    return tuple(each.under(prior) for each, prior in zip(opened, priors, strict=True))


def expected_error(look: Measurement[Look]) -> float | None:
    """Return by how much a column of many categories is expected to be off, in total variation; None for other columns.

    Cost: as of `released_column`.
    """
    means, noise = np.clip(look.means, -LARGEST, LARGEST), float(look.deviations.mean())
    many = look.query.tells_frequencies and look.query.partition.value is None and are_many(len(means), noise)
    return means_of_many(means, noise)[1] if many else None


def priors_of(looks: Sequence[Measurement[Look] | None]) -> list[Prior | None]:
    """Return the priors that the densities of columns share; None for columns without a look."""
    return shared_priors([None if look is None else _opened(look).density for look in looks])


def released_column(look: Measurement[Look]) -> ReleasedColumn:
    """Return the distribution of a column from its look alone."""
    return _opened(look).under(None)


def drawn_column(look: Measurement[Look], prior: Prior | None, rng: np.random.Generator,
                 at: Array | None = None) -> ReleasedColumn:
    """Return a possible true distribution of a number, drawn from the posterior under a prior of its density.

    at (2,): Even numbers that draw the atoms that noise may hide at the number's ends; None if ``rng`` draws them.
    """
    return _opened(look, rng, rng.random(2) if at is None else at).under(prior)


def _opened(look: Measurement[Look], rng: np.random.Generator | None = None, at: Array | None = None) -> Opened:
    query = look.query
    if not query.tells_frequencies:
        return _opened_signs(query, look.known, look.deviation, rng)
    if query.encoding == "map":
        means, noise = np.clip(look.means, -LARGEST, LARGEST), min(float(look.deviations.mean()), LARGEST)
        # The noise of two shares is that of one contrast: together they tell no more than each of them.
        made = (shrunk_frequencies(means, noise * (math.sqrt(2.0) if len(means) == 2 else 1.0))
                if query.partition.value is None or len(means) == 2 else nearest_probabilities(means))
        return Opened(None, lambda _: ReleasedColumn(query.partition, made, look.deviation))
    cumulative = query.encoding == "sums"
    if query.ends:
        return _opened_ends(query.partition, look.known, look.deviation, cumulative, rng, at)
    return opened_histogram(query.partition, look.known, look.deviation, cumulative, rng)


def distribution_of(partition: Partition, values: Array, deviation: float, cumulative: bool) -> ReleasedColumn:
    """Return the distribution of a column from its released noisy histogram (size,) alone.

    If ``cumulative``, intervals were measured by the factor of prefix sums (:mod:`trigmech.functions.prefix_sums`);
    if not, by their counts. The frequencies are corrected to a sum of 1 by least squares. Then the intervals are joined
    to pieces of equal density, as many as the noise allows (least squares with a price for each piece, by dynamic
    programming). At the pieces' ends the distribution function is the isotonic regression of the noisy one. So
    thresholds are as accurate as the measured prefix sums, and noise makes no spikes in the density. Between these ends
    the function is a chord, or a smooth curve if this fits the measurements as well or better. Without a smooth density
    the tails fall (:mod:`trigmech.reconstruction.tails`).
    """
    return opened_histogram(partition, values, deviation, cumulative).under(None)


def _opened_ends(partition: Partition, values: Array, deviation: float, cumulative: bool,
                 rng: np.random.Generator | None, at: Array | None) -> Opened:
    """Return a column whose ends were measured alone. An end that is no atom joins the interval beside it."""
    k, c = len(partition.indicators), partition.intervals - 2
    values, deviation = np.clip(values, -LARGEST, LARGEST), min(deviation, LARGEST)
    ends, factor = values[[k, -1]], prefix_sums.factor(c) if cumulative else np.eye(c)
    probable, hidden, least = atom_probabilities(ends, deviation, cumulative), np.zeros(2), LEAST_ATOM
    if rng is not None and at is not None:
        probable = (rng.random(2) < probable).astype(np.float64)
        hidden, least = (1.0 - probable) * hidden_atoms_at(at, ends, deviation, cumulative), 0.0
    usual = np.where(hidden > 0.0, 0.0, (1.0 - probable) * ordinary_shares(partition, ends, deviation))
    inner = opened_histogram(beside(partition), np.concatenate([
        values[:k], probable * np.clip(ends, 0.0, 1.0) + hidden, values[k + 1 : -1] + factor[:, [0, -1]] @ usual]),
        deviation, cumulative, rng, np.concatenate([np.ones(k), probable]))
    atoms = (probable > 0.5) | (hidden > 0.0)
    return replace(inner, finished=lambda density: put_back(partition, inner.finished(density), atoms, least))


def opened_histogram(partition: Partition, values: Array, deviation: float, cumulative: bool,
                     rng: np.random.Generator | None = None, noisy: Array | None = None) -> Opened:
    """Return a column from its noisy histogram: its expected distribution, or one that is drawn if there is ``rng``.

    noisy (k,): The parts of the noise that indicators still have; None if it is all of the noise.
    """
    k, c = len(partition.indicators), partition.intervals
    values, deviation = np.clip(values, -LARGEST, LARGEST), min(deviation, LARGEST)
    if c == 0:
        column = ReleasedColumn(partition, shrunk_frequencies(values, deviation), deviation)
        return Opened(None, lambda _: column)
    inverse = prefix_sums.inverse(c) if cumulative else np.eye(c)
    frequencies = np.concatenate([values[:k], inverse @ values[k:]])
    # The noise's covariance matrix times the vector of ones, in units of deviation^2, distributes the sum's excess.
    share = np.concatenate([np.ones(k) if noisy is None else noisy, inverse @ inverse.sum(axis=0)])
    frequencies += share / share.sum() * (1.0 - frequencies.sum())
    held = np.clip(frequencies[:k], 0.0, 1.0)
    held *= min(1.0, 1.0 / max(held.sum(), 1e-300))
    rest = 1.0 - held.sum()
    if rest <= 0.0:
        held, rest = held / held.sum(), 0.0
    special = held
    if rng is not None:
        special = np.clip(held + rng.normal(0.0, deviation, k) * (1.0 if noisy is None else noisy), 0.0, 1.0)
        special /= max(1.0, float(special.sum()))
    left = 1.0 - float(special.sum())
    if c == 2:
        # After the sum's excess is distributed, the noise has the variances of its part that does not move the sum.
        own = deviation * math.sqrt(max(float((inverse[-1] ** 2).sum()) - share[-1] ** 2 / share.sum(), 0.0))
        second = share_of_one(float(frequencies[-1]) / rest, own / rest) if rest > LEAST_REST else 0.5
        if rng is not None:
            second = float(np.clip(second + rng.normal(0.0, own / max(rest, LEAST_REST)), 0.0, 1.0))
        column = ReleasedColumn(partition, np.concatenate([special, [left * (1.0 - second), left * second]]), deviation)
        return Opened(None, lambda _: column)
    # Intervals with unequal numbers of levels count by the rows of each level. ``total`` is the sum of these numbers.
    # Noise in prefix sums is not of single intervals, and looks by them have intervals of one size.
    factor, sizes, total = prefix_sums.factor(c) if cumulative else np.eye(c), None, rest
    measured, even = values[k:], frequencies[k:]
    if not cumulative and (sizes := relative_sizes(partition)) is not None:
        measured, total = measured / sizes, rest * float(np.clip(
            (even / sizes).sum() / (even.sum() or 1.0), 1.0 / sizes.max(), 1.0 / sizes.min()))
        even = even / sizes
    ends, each = joined_to_pieces(even, inverse, total, deviation, cumulative)
    fine, parts = divided(partition), equal_parts(partition)
    seen, smooth, pieces = deviation >= LEAST_DEVIATION * rest, None, math.inf
    if rest > 0.0 and c > 2 and seen:
        # The evidence of the pieces is their squared residuals plus a price for each, tuned on simulated tables.
        pieces = float((((measured - factor @ each) / deviation) ** 2).sum()) + EVIDENCE * (len(ends) - 1)
        smooth = smooth_density(measured, deviation, total, cumulative, pieces, parts)

    def by_size(each: Array) -> Array:
        if sizes is None:
            return each
        each = each * np.repeat(sizes, len(each) // c)
        return each * (rest / max(float(each.sum()), 1e-300))

    def drawn(density: SmoothDensity | None, rng: np.random.Generator) -> ReleasedColumn:
        if density is not None and rng.random() < _weight(density, pieces):
            made = _proper(density.drawn(rng), density.total)
        else:
            # Pieces have no posterior, so measured values get noise of their size once more.
            again = even + inverse @ rng.normal(0.0, deviation, c) / (1.0 if sizes is None else sizes)
            made = _proper(again, total) if cumulative else nearest_probabilities(again, total)
        made = by_size(made)
        made = made * (left / made.sum()) if made.sum() > LEAST_REST else np.full(c, left / c)
        return ReleasedColumn(partition, np.concatenate([special, made]), deviation)

    def finished(density: SmoothDensity | None) -> ReleasedColumn:
        if rng is not None:
            return drawn(density, rng)
        averaged = None if density is None else _averaged(each / parts, pieces, density, parts)
        if averaged is not None:
            edges, mass = _smooth_places(fine.edges, on_places(partition, fine, by_size(averaged)),
                                         LIGHT * min(deviation, LARGEST_PLACE), lengths(partition, fine))
        elif rest > 0.0 and c > 2 and seen:
            tailed, made = with_tails(ends, each, measured / deviation, factor / deviation, inverse * deviation)
            edges, mass = places_of(partition.edges, tailed, by_size(made))
        else:
            edges, mass = places_of(partition.edges, ends, by_size(each))
        return ReleasedColumn(partition.cut(edges), np.concatenate([held, mass]), deviation)

    return Opened(smooth, finished)


def _opened_signs(query: Look, values: Array, deviation: float, rng: np.random.Generator | None) -> Opened:
    """Return a number from the noisy means (size,) of signs. They tell the coarse shape, and models fill the rest."""
    k, c, partition = len(query.partition.indicators), query.partition.intervals, query.partition
    values, deviation = np.clip(values, -LARGEST, LARGEST), min(deviation, LARGEST)
    if rng is not None:
        values = np.concatenate([values[:k] + rng.normal(0.0, deviation, k), values[k:]])
    held = np.clip(0.5 + 0.5 * values[:k], 0.0, 1.0)
    held *= min(1.0, 1.0 / max(held.sum(), 1e-300))
    rest = max(1.0 - float(held.sum()), 0.0)
    if rest <= LEAST_REST:
        column = ReleasedColumn(partition, np.concatenate([held, np.full(c, rest / c)]), deviation)
        return Opened(None, lambda _: column)

    usual = density_of_signs(values[k:], max(deviation, LEAST_DEVIATION * rest), rest, c)

    def finished(density: SmoothDensity | None) -> ReleasedColumn:
        density = density or usual
        made = density.mean() if rng is None else density.drawn(rng)
        made = _proper(made, rest)
        if rng is None:
            made = without_tails(made, deviation)
        edges, mass = _smooth_places(partition.edges, made, LIGHT * min(deviation, LARGEST_PLACE))
        return ReleasedColumn(partition.cut(edges), np.concatenate([held, mass]), deviation)

    return Opened(usual, finished)


def _averaged(each: Array, pieces: float, density: SmoothDensity, parts: int) -> Array | None:
    """Return the mass (c parts,) of each part of an interval: pieces and a smooth density, averaged by evidence.

    ``each`` (c,) is the mass of a part by the pieces. The evidence of a smooth density is its marginal likelihood
    (:mod:`trigmech.reconstruction.densities`). Return None if the smooth density has no weight.
    """
    part = _weight(density, pieces)
    if part < NEGLIGIBLE:
        return None
    made = part * _proper(density.mean(), density.total) + (1.0 - part) * np.repeat(each, parts)
    return without_tails(made, density.found.noise * density.total)


def _weight(density: SmoothDensity, pieces: float) -> float:
    """Return the probability of a smooth density, if the evidence of pieces is this."""
    return float(1.0 / (1.0 + np.exp(np.clip((density.surprise - pieces) / 2.0, -700.0, 700.0))))


def _proper(each: Array, total: float) -> Array:
    """Return a nonnegative histogram with this total, by isotonic regression of its distribution function."""
    below = isotonic_regression(np.clip(np.cumsum(each), 0.0, total)).x
    below[-1] = total
    return np.maximum(np.diff(np.concatenate([[0.0], below])), 0.0)


def _smooth_places(measured: Array, each: Array, light: float, length: Array | None = None) -> tuple[Array, Array]:
    """Return the edges and masses of positions, for a density that changes from interval to interval.

    length (c,): The lengths of the measured intervals; None if they are equal.

    Neighbours are joined until they hold `LARGEST_PLACE`, or until their mass is above the noise and their densities
    differ. A spike stays alone. A nearly empty end of the range is its own position, so that the tails end before it.
    """
    below = np.concatenate([[0.0], np.cumsum(each)])
    total, place = below[-1], np.arange(len(each) + 1.0) if length is None else np.concatenate([[0.0], length.cumsum()])
    first = max(int(np.searchsorted(below, NEXT_TO_EMPTY * light, side="right")) - 1, 0)
    last = min(int(np.searchsorted(-below[::-1], NEXT_TO_EMPTY * light - total, side="right")) - 1, len(each) - 1)
    last = len(each) - max(last, 0)
    cuts, start, alone = [0] if first == 0 else [0, first], first, False
    for i in range(first + 1, last):
        held = below[i] - below[start]
        density = max(held / (place[i] - place[start]), 1e-300)
        apart = max(each[i] / (place[i + 1] - place[i]), 1e-300) / density
        spike = apart > SPIKE and each[i] >= light / SPIKE
        full = held + each[i] > LARGEST_PLACE * (1.0 + SLACK)
        if full or alone or spike or (held >= light and not 1.0 / UNLIKE < apart < UNLIKE):
            cuts.append(i)
            start = i
        alone = spike
    ends = np.unique([*cuts, last, len(each)])
    return measured[ends], np.diff(below[ends])
