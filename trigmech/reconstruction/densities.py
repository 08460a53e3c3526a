"""The density of a number from noisy measurements of its histogram: an average of many models, weighted by evidence.

A histogram p of c intervals was measured as F p plus normal noise of a known deviation s. Under each model of a fixed
library p is normal, so everything below has a closed form. A model is a base distribution of total 1 times
1 + sum over k of t_k sqrt(2) cos(k pi B). Here B is the base's own distribution function, and the t_k are independent
normal variables with variance A k^-r. The bases are the even distribution; bells and slopes (mixtures of two beta
distributions; the wider one makes heavy tails); and skewed distributions (log-normal, turned to either side). A model
whose base is nearly right fits the measurements with small t_k, and its tails fall. The models' weights are
proportional to their marginal likelihoods (a Bayesian model average), and to probabilities that a table's columns share
(:mod:`trigmech.reconstruction.shared_prior`). Heavy values and rows apart from the others are lumps with a mass of
their own (:mod:`trigmech.reconstruction.lumps`). A lump is added while it raises the marginal likelihood by a factor
above a price and the number of lumps from which it was chosen.

References
----------
MacKay 1992, Bayesian interpolation, for the evidence; Hoeting, Madigan, Raftery and Volinsky 1999, Bayesian model
averaging.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.fft import idct

from trigmech._arrays import Array
from trigmech.functions import prefix_sums
from trigmech.functions.contrasts import contrasts
from trigmech.reconstruction.bases import EVEN, bases
from trigmech.reconstruction.density_models import Models
from trigmech.reconstruction.lumps import Lumps

# The factors (1 + b,) by which prior probabilities differ from usual ones, for the even base and the others.
Prior = Array

# The most intervals of a base, and the number of cosines of the even base.
COARSE, COSINES_OF_EVEN = 128, 128
# Decays r and variances A of the coefficients, for the even base and for the others.
DECAYS_OF_EVEN, VARIANCES_OF_EVEN = np.array([1.0, 2.0, 3.0, 4.0, 6.0]), np.geomspace(1e-4, 8.0, 18)
DECAYS, VARIANCES = np.array([1.0, 2.0, 4.0]), np.geomspace(1e-3, 4.0, 6)
# The prior deviation of a lump's mass, and the most lumps of a column. A lump's price is added to -2 log of the
# marginal likelihood. Without it the peak of a shape that no base has would often be an atom.
OF_A_LUMP, MOST_LUMPS, PRICE_OF_LUMP = 0.3, 16, 4.0
# Models with a smaller weight are left out.
LEAST_WEIGHT = 1e-6
# The likelihoods of so many bases are computed together.
BASES_AT_A_TIME = 64


@dataclass(frozen=True, eq=False)
class SmoothDensity:
    """The density of a histogram that was measured with noise: the posterior of all models.

    ``total`` is the sum of the histogram. ``surprise`` is -2 log of the marginal likelihood without a constant, so that
    it can be compared with squared residuals over the noise's variance. See :func:`smooth_density`.
    """

    found: "_Explained"
    total: float

    @property
    def surprise(self) -> float:
        """-2 log of the marginal likelihood."""
        return self.found.surprise

    @property
    def shares(self) -> Array:
        """The probabilities (1 + b,) of the even base and of the others."""
        return np.concatenate([each.sum(axis=(1, 2)) for each in self.found.weights])

    def under(self, prior: Prior | None) -> "SmoothDensity":
        """Return the posterior under another prior. Atoms stay where they are."""
        if prior is None:
            return self
        weights = [each * factors[:, None, None]
                   for each, factors in zip(self.found.weights, (prior[:1], prior[1:]), strict=True)]
        total = sum(float(each.sum()) for each in weights)
        return replace(self, found=replace(self.found, weights=tuple(each / total for each in weights),
                                           surprise=self.found.surprise - 2.0 * math.log(total)))

    def mean(self) -> Array:
        """Return the posterior mean of the histogram, which can be negative."""
        return _posterior_mean(self.found) * self.total

    def drawn(self, rng: np.random.Generator) -> Array:
        """Return a draw from the posterior, which can be negative; without parts."""
        return _drawn(self.found, rng) * self.total


def smooth_density(values: Array, deviation: float, total: float, cumulative: bool,
                   rival: float = math.inf, parts: int = 1) -> SmoothDensity:
    """Return the density of a histogram (c,) that was measured with noise.

    Its mean (c parts,) has this many equal parts of each interval. Atoms are even within their interval.

    values (c,): The measured histogram; if ``cumulative``, encoded by the factor of prefix sums.
    rival: -2 log of the marginal likelihood of another model. The search for lumps ends if they cannot bring this model
      near it.

    Cost: about 3 ms, as much again for each lump, and .1 s once for each number of intervals.
    """
    packed = np.asarray(values, dtype=np.float64).tobytes()
    return SmoothDensity(_smooth_density(packed, deviation, total, cumulative, rival, parts), total)


# Runs in steps, and parties that share sums, look at the same released numbers once in each round.
@lru_cache(maxsize=128)
def _smooth_density(packed: bytes, deviation: float, total: float, cumulative: bool, rival: float,
                    parts: int) -> "_Explained":
    values = np.frombuffer(packed)
    return _best(_library(len(values), cumulative, parts), values / total, deviation / total, len(values) // 4, rival)


def density_of_signs(values: Array, deviation: float, total: float, count: int) -> SmoothDensity:
    """Return the density of a histogram of ``count`` intervals of which the first contrasts (q,) were measured.

    For the other arguments see :func:`smooth_density`.
    """
    return SmoothDensity(_best(_library(count, len(values)), values / total, deviation / total, len(values), math.inf),
                         total)


def _best(library: "_Library", values: Array, noise: float, most: int, rival: float) -> "_Explained":
    """Return the posterior of all models, with as many lumps as the evidence asks for: at most ``most``."""
    found, most = _explained(library, values, noise, np.zeros(0, dtype=np.int64)), min(MOST_LUMPS, most)
    while len(found.chosen) < most:
        more = _with_another_lump(found)
        gain = 0.0 if more is None else found.surprise - more.surprise
        # The best lumps come first, and later ones gain hardly more.
        if more is None or gain <= 0.0 or found.surprise - 2.0 * gain * (most - len(found.chosen)) > rival:
            break
        found = more
    rest = 1.0 - float(found.masses.sum())
    if 0.0 < rest < 1.0 and found.variance_of_total > 0.0:
        # A base spreads noise in the lumps' masses over the whole range, so the rest is shrunk (James and Stein).
        kept = rest * max(0.0, 1.0 - found.variance_of_total / rest**2)
        found = _explained(library, values, noise, found.chosen, found.masses * ((1.0 - kept) / (1.0 - rest)),
                           found.price, seen=found.seen)
    return found


@dataclass(frozen=True, eq=False)
class _Library:
    """The models of a histogram of c intervals that is measured by F (q, c): with the even base and with others.

    If ``parts`` is not 1, bases have so many equal parts of each interval.
    """

    factor: Array
    gram: Array
    kinds: tuple[Models, ...]
    lumps: Lumps
    parts: int = 1


@dataclass(frozen=True, eq=False)
class _Explained:
    """The posterior of all models with some lumps.

    ``seen`` (c,) are the measured values times the transposed factor, a product that takes long and stays the same.
    For each kind of base, ``projected`` holds the products of the measured residuals with the rotated cosines
    (b, r, K), ``weights`` the models' probabilities (b, r, v), and ``best`` the most probable model. ``surprise`` is
    -2 log of the marginal likelihood; the lumps add their ``price`` to it.
    """

    library: _Library
    values: Array
    seen: Array
    noise: float
    chosen: NDArray[np.int64]
    masses: Array
    projected: tuple[Array, ...]
    weights: tuple[Array, ...]
    best: tuple[tuple[int, ...], ...]
    surprise: float
    price: float
    variance_of_total: float


# Typed, because 1 and True are equal.
@lru_cache(maxsize=24, typed=True)
def _library(count: int, measured: bool | int, parts: int = 1) -> _Library:
    """Return the models of a histogram that is measured by prefix sums, by counts, or by some contrasts."""
    if measured is True or measured is False:
        factor = prefix_sums.factor(count) if measured else np.eye(count)
    else:
        factor = contrasts(count)[:, :measured].T.astype(np.float64)
    finest = count * parts
    most, coarse = min(finest - 1, COSINES_OF_EVEN), finest if parts > 1 else min(count, COARSE)
    waves = idct(np.eye(finest), axis=0, norm="ortho")[:, 1 : most + 1] * np.sqrt(2.0 / finest)
    spread = np.diff(np.clip(np.linspace(0.0, coarse, count + 1)[:, None] - np.arange(coarse), 0.0, 1.0), axis=0)
    gram = factor.T @ factor
    return _Library(factor, gram, (
        Models.of((np.full((1, finest), 1.0 / finest), waves[None], np.array([EVEN])), factor,
                   spread if parts > 1 else np.eye(count), (DECAYS_OF_EVEN, VARIANCES_OF_EVEN)),
        Models.of(bases(coarse)[:3], factor, spread, (DECAYS, VARIANCES))), Lumps.of(count, parts, gram), parts)


def _explained(library: _Library, values: Array, noise: float, chosen: NDArray[np.int64],
               masses: Array | None = None, price: float = 0.0, variance_of_total: float = 0.0,
               seen: Array | None = None) -> _Explained:
    masses = np.zeros(0) if masses is None else masses
    rest, precision = 1.0 - float(masses.sum()), noise**-2
    point = masses @ library.lumps.shapes[chosen]
    seen = library.factor.T @ values if seen is None else seen
    alone = float(values @ values - 2.0 * point @ seen + point @ library.gram @ point)
    projected, surprises = list[Array](), list[Array]()
    for models in library.kinds:
        left = models.spread.T @ seen - point @ models.crossed
        squares = alone - 2.0 * rest * models.bases @ left + rest**2 * models.squares
        inner = np.einsum("bm,bmk->bk", left - rest * models.between, models.cosines)
        own = np.einsum("brkl,bl->brk", models.loadings, inner)
        variance = rest**2 * models.variances[:, None] * precision
        surprises.append(precision * squares[:, None, None] - 2.0 * models.priors
                         + _of_cosines(variance, precision, models.gains, own))
        projected.append(own)
    least = min(float(each.min()) for each in surprises)
    weights = [np.exp(-0.5 * (each - least)) for each in surprises]
    total = sum(float(each.sum()) for each in weights)
    best = (tuple(map(int, np.unravel_index(int(each.argmin()), each.shape))) for each in surprises)
    return _Explained(library, values, seen, noise, chosen, masses, tuple(projected),
                      tuple(each / total for each in weights),
                      tuple(best), least - 2.0 * float(np.log(total)) + price, price, variance_of_total)


def _of_cosines(variance: Array, precision: float, gains: Array, own: Array) -> Array:
    """Return the cosines' part (b, r, v) of -2 log of the marginal likelihoods, a few bases at a time: in cache."""
    found = np.empty((*gains.shape[:2], len(variance)))
    for start in range(0, len(gains), BASES_AT_A_TIME):
        part = slice(start, start + BASES_AT_A_TIME)
        ratio = variance * gains[part, :, None, :]
        fitted = variance * precision * own[part, :, None, :] ** 2
        fitted /= 1.0 + ratio
        np.log1p(ratio, out=ratio)
        ratio -= fitted
        ratio.sum(axis=-1, out=found[part])
    return found


@dataclass(frozen=True, eq=False)
class _Beside:
    """The effect of lumps under one model: the scores (l,) of all lumps, and the precisions of their masses.

    A lump takes its mass from the base. ``effects`` (l, K) are the lumps' products with the model's cosines; the
    cosines explain the fraction ``taken`` (K,) of them. ``moved`` (l,) and ``between`` are the products of the base
    with each lump and with itself.
    """

    library: _Library
    effects: Array
    taken: Array
    moved: Array
    between: float
    noise: float
    scores: Array

    @classmethod
    def under(cls, found: _Explained, kind: int) -> "_Beside":
        """Return the lumps' effects under the most probable model of a kind."""
        models, (b, r, v) = found.library.kinds[kind], found.best[kind]
        base, cosines, loadings = models.bases[b], models.cosines[b], models.loadings[b, r]
        lumps, (moved, of_base, between, effects) = found.library.lumps, _effects(found.library, kind, b, r)
        variance = (1.0 - float(found.masses.sum())) ** 2 * models.variances[v]
        taken = variance / (found.noise**2 + variance * models.gains[b, r])
        coarse = models.spread.T @ found.seen
        own = loadings @ (cosines.T @ (coarse - of_base))
        scores = lumps.shapes @ found.seen - base @ coarse - (moved - between) - effects @ (taken * own)
        scores /= found.noise**2
        return cls(found.library, effects, taken, moved, between, found.noise, scores)

    def precisions(self, chosen: NDArray[np.int64]) -> Array:
        """Return the precisions (l, a) between the masses of all lumps and those of the chosen ones."""
        beside = _together(self.library, tuple(chosen.tolist())) + (
            self.between - self.moved[:, None] - self.moved[chosen])
        return np.asarray((beside - (self.effects * self.taken) @ self.effects[chosen].T) / self.noise**2)

    @property
    def alone(self) -> Array:
        """The precision (l,) of the mass of each lump alone."""
        own = self.library.lumps.squares - 2.0 * self.moved + self.between - self.effects**2 @ self.taken
        return np.asarray(np.maximum(own, 0.0) / self.noise**2)


# One lump after the other is added to mostly the same models, and both kinds of models mostly choose the same lumps.
@lru_cache(maxsize=4)
def _effects(library: _Library, kind: int, b: int, r: int) -> tuple[Array, Array, float, Array]:
    """Return the products of a base with the lumps (l,), intervals and itself, and the lumps' with its cosines (l, K).
    """
    models, shapes = library.kinds[kind], library.lumps.shapes
    base = models.bases[b]
    moved, of_base = shapes @ (models.crossed @ base), models.gram @ base
    return moved, of_base, float(base @ of_base), (
        shapes @ models.effects(b) - of_base @ models.cosines[b]) @ models.loadings[b, r].T


@lru_cache(maxsize=4)
def _together(library: _Library, chosen: tuple[int, ...]) -> Array:
    """Return the products (l, a) of the measured shapes of all lumps and of chosen ones."""
    shapes = library.lumps.shapes
    return np.asarray(shapes @ (library.gram @ shapes[list(chosen)].T.toarray()))


def _with_another_lump(found: _Explained) -> _Explained | None:
    """Return the posterior with one more lump; None if no lump helps.

    The lump is the best one for the most probable model of either kind. Without a lump the most probable model of all
    can be a narrow base at the lump's place, and beside this base the lump does not help.
    """
    made = [_with_the_best_lump(found, kind) for kind in range(len(found.library.kinds))]
    return min((each for each in made if each is not None), key=lambda each: each.surprise, default=None)


def _with_the_best_lump(found: _Explained, kind: int) -> _Explained | None:
    """Return the posterior with the best lump for the most probable model of a kind; None if no lump helps."""
    lumps, old, prior = _Beside.under(found, kind), found.chosen, OF_A_LUMP**-2
    scores, precisions = lumps.scores, lumps.alone
    if len(old):
        # Take the chosen lumps into account.
        beside = lumps.precisions(old)
        known = np.linalg.solve(beside[old] + prior * np.eye(len(old)), np.column_stack([scores[old], beside.T]))
        scores = scores - beside @ known[:, 0]
        precisions = np.maximum(precisions - (beside * known[:, 1:].T).sum(axis=1), 0.0)
    gains = np.where(scores > 0.0, scores**2 / (precisions + prior) - np.log1p(precisions / prior), -np.inf)
    gains[old] = -np.inf
    best, price = int(gains.argmax()), PRICE_OF_LUMP + 2.0 * float(np.log(len(gains)))
    if not gains[best] > price:
        return None
    chosen = np.append(old, best)
    inner = lumps.precisions(chosen)[chosen] + prior * np.eye(len(chosen))
    masses, of_total = np.linalg.solve(inner, np.column_stack([lumps.scores[chosen], np.ones(len(chosen))])).T
    masses = np.maximum(masses, 0.0)
    masses *= min(1.0, 1.0 / max(float(masses.sum()), np.finfo(float).tiny))
    cost = len(chosen) * price + float(np.linalg.slogdet(inner / prior)[1]) + prior * float(masses @ masses)
    return _explained(found.library, found.values, found.noise, chosen, masses, cost, float(of_total.sum()),
                      found.seen)


def _posterior_mean(found: _Explained) -> Array:
    rest, parts = 1.0 - float(found.masses.sum()), found.library.parts
    made = np.zeros(len(found.library.gram) * parts)
    for models, projected, weights in zip(found.library.kinds, found.projected, found.weights, strict=True):
        own, variances = weights.sum(axis=(1, 2)), rest**2 * models.variances[:, None]
        held = np.flatnonzero(own > LEAST_WEIGHT)
        shrunk = (weights[held][..., None] * (variances / (found.noise**2 + variances * models.gains[held][:, :, None]))
                  ).sum(axis=2) * projected[held]
        coefficients = np.einsum("brkl,brk->bl", models.loadings[held], shrunk)
        density = rest * own[held] @ models.bases[held] + np.einsum("bmk,bk->m", models.cosines[held], coefficients)
        made += density if parts > 1 else models.spread @ density
    return np.asarray(made + found.masses @ found.library.lumps.fine[found.chosen])


def _drawn(found: _Explained, rng: np.random.Generator) -> Array:
    """Return a draw from the posterior: a model by its probability, its coefficients, and the masses of its atoms."""
    rest, sizes = 1.0 - float(found.masses.sum()), [weights.size for weights in found.weights]
    odds = np.concatenate([weights.ravel() for weights in found.weights])
    place = int(rng.choice(len(odds), p=odds / odds.sum()))
    kind = int(place >= sizes[0])
    models, weights = found.library.kinds[kind], found.weights[kind]
    b, r, v = np.unravel_index(place - kind * sizes[0], weights.shape)
    variance, gains = rest**2 * models.variances[v], models.gains[b, r]
    left = variance * found.noise**2 / (found.noise**2 + variance * gains)
    rotated = variance / (found.noise**2 + variance * gains) * found.projected[kind][b, r] + np.sqrt(left) * rng.normal(
        size=len(gains))
    made = models.spread @ (rest * models.bases[b] + models.cosines[b] @ (models.loadings[b, r].T @ rotated))
    lumps = found.library.lumps
    masses = found.masses + rng.normal(0.0, found.noise / np.sqrt(lumps.squares[found.chosen]))
    return np.asarray(made + masses @ lumps.shapes[found.chosen])
