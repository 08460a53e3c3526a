"""The smooth density of a number: evidence and posterior mean against direct formulas, atoms, and what columns gain."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from trigmech.functions import prefix_sums
from trigmech.functions.partition import Partition, even_edges
from trigmech.reconstruction import bases as library_of_bases
from trigmech.reconstruction import densities
from trigmech.reconstruction.columns import LARGEST_PLACE, distribution_of
from trigmech.reconstruction.densities import smooth_density


def averaged(*arguments, **options):
    """Return the posterior mean and the surprise."""
    found = smooth_density(*arguments, **options)
    return found.mean(), found.surprise


def directly(values, noise, cumulative, parts=1):
    """Return the posterior mean and -2 log of the marginal likelihood by full covariance matrices, model by model."""
    count = len(values)
    factor = prefix_sums.factor(count) if cumulative else np.eye(count)
    library = densities._library(count, cumulative, parts)
    # One deviation of the beta distributions has all their means, with each kind of tails; the last two are skewed.
    means = (len(library.kinds[1].bases) - 2) // len(library_of_bases.WIDER)
    others = [(1.0 - library_of_bases.SKEWED) * share / means for *_, share in library_of_bases.WIDER] * means
    grids = ((densities.DECAYS_OF_EVEN, densities.VARIANCES_OF_EVEN, [library_of_bases.EVEN]),
             (densities.DECAYS, densities.VARIANCES,
              [(1.0 - library_of_bases.EVEN) * each for each in [*others, *[library_of_bases.SKEWED / 2.0] * 2]]))
    logs, means = [], []
    for models, (decays, variances, shares) in zip(library.kinds, grids, strict=True):
        for base, cosines, share in zip(models.bases, models.cosines, shares, strict=True):
            k, each = np.arange(1.0, cosines.shape[1] + 1.0), np.log(share / (len(decays) * len(variances)))
            for decay in decays:
                for variance in variances:
                    shape = models.spread @ cosines
                    prior = (shape * (variance * k**-decay)) @ shape.T
                    covariance = factor @ prior @ factor.T / noise**2 + np.eye(count)
                    residual = (values - factor @ models.spread @ base) / noise
                    solved = np.linalg.solve(covariance, residual)
                    logs.append(each - 0.5 * (residual @ solved + np.linalg.slogdet(covariance)[1]))
                    among = models.spread if parts == 1 else np.eye(count * parts)
                    means.append(among @ base + among @ (cosines * (variance * k**-decay)) @ shape.T @ factor.T
                                 @ solved / noise)
    logs = np.array(logs)
    weights = np.exp(logs - logs.max())
    return weights @ np.array(means) / weights.sum(), -2.0 * (logs.max() + np.log(weights.sum()))


@pytest.mark.parametrize("cumulative", [True, False])
def test_mean_and_evidence_are_those_of_all_models_together(cumulative, monkeypatch):
    # Few shapes, so that the direct way ends.
    monkeypatch.setattr(library_of_bases, "STEP", 3.0)
    monkeypatch.setattr(library_of_bases, "DEVIATIONS", (0.13,))
    monkeypatch.setattr(library_of_bases, "MEDIANS", (0.1,))
    monkeypatch.setattr(library_of_bases, "LOG_DEVIATIONS", (0.6,))
    monkeypatch.setattr(densities, "MOST_LUMPS", 0)
    for cached in (densities._library, library_of_bases.bases, densities._smooth_density):
        cached.cache_clear()
    try:
        for count, noise in ((12, 0.05), (40, 0.01)):
            shape = np.exp(-np.linspace(0.0, 3.0, count))
            values = (prefix_sums.factor(count) if cumulative else np.eye(count)) @ (shape / shape.sum())
            values = values + noise * np.random.default_rng(count).normal(size=count)
            made, surprise = averaged(values, noise, 1.0, cumulative)
            mean, direct = directly(values, noise, cumulative)
            np.testing.assert_allclose(made, mean, atol=1e-7)
            assert surprise == pytest.approx(direct, abs=1e-5)
            # A part of all rows has the same shape.
            part, _ = averaged(0.25 * values, 0.25 * noise, 0.25, cumulative)
            np.testing.assert_allclose(part, 0.25 * made, atol=1e-9)
            drawn, of_part = (smooth_density(share * values, share * noise, share, cumulative).drawn(
                np.random.default_rng(0)) for share in (1.0, 0.25))
            np.testing.assert_allclose(of_part, 0.25 * drawn, atol=1e-9)
        # The last are of 12 intervals in two and in five parts each.
        shape = np.exp(-np.linspace(0.0, 3.0, 12))
        values = (prefix_sums.factor(12) if cumulative else np.eye(12)) @ (shape / shape.sum())
        for parts in (2, 5):
            made, surprise = averaged(values, 0.05, 1.0, cumulative, parts=parts)
            mean, direct = directly(values, 0.05, cumulative, parts)
            assert made.shape == (12 * parts,)
            np.testing.assert_allclose(made, mean, atol=1e-7)
            assert surprise == pytest.approx(direct, abs=1e-5)
    finally:
        for cached in (densities._library, library_of_bases.bases, densities._smooth_density):
            cached.cache_clear()


def test_shapes_are_distributions_and_their_cosines_are_orthonormal_under_them():
    bases, cosines, probabilities = library_of_bases.bases(128)[:3]
    assert (bases >= 0.0).all()
    assert probabilities.sum() == pytest.approx(1.0 - library_of_bases.EVEN)
    np.testing.assert_allclose(bases.sum(axis=1), 1.0)
    np.testing.assert_allclose(cosines.sum(axis=1), 0.0, atol=1e-9)
    # Where a base fills many intervals, sums over these are nearly integrals.
    wide = np.flatnonzero(bases.max(axis=1) < 0.02)
    assert len(wide) > 10
    for b in wide:
        gram = cosines[b, :, :6].T @ (cosines[b, :, :6] / np.maximum(bases[b], 1e-12)[:, None])
        np.testing.assert_allclose(gram, np.eye(6), atol=0.05)


def test_a_heavy_interval_is_an_atom_and_smooth_ones_are_none():
    rng = np.random.default_rng(3)
    x = np.linspace(-1.0, 1.0, 64)
    smooth = np.exp(-8.0 * (x - 0.1) ** 2)
    smooth /= smooth.sum()
    heavy = 0.7 * smooth
    heavy[5] += 0.3
    for truth, atoms in ((smooth, []), (heavy, [5])):
        values = prefix_sums.factor(64) @ truth + 0.01 * rng.normal(size=64)
        found = densities._explained(densities._library(64, True), values, 0.01, np.zeros(0, dtype=np.int64))
        more = densities._with_another_lump(found)
        assert (more is not None and more.surprise < found.surprise) == bool(atoms)
        made, _ = averaged(values, 0.01, 1.0, True)
        assert np.abs(made - truth).sum() < 0.1
        if atoms:
            assert more.chosen.tolist() == atoms
            assert more.masses[0] == pytest.approx(0.3, abs=0.05)
            # The rest is shrunk at last, and the lump still has its price.
            last = densities._best(densities._library(64, True), values, 0.01, 1, np.inf)
            assert (last.chosen.tolist(), last.price) == (atoms, more.price)
            assert more.price > 0.0
            assert last.masses[0] > more.masses[0]


def test_each_deviation_is_as_probable_as_the_others_and_bells_lie_as_close_as_they_are_narrow():
    bases, _, probabilities = library_of_bases.bases(128)[:3]
    middle = (np.arange(128) + 0.5) / 128
    means = bases @ middle
    deviations = np.sqrt(np.maximum(bases @ middle**2 - means**2, 0.0))
    skewed = 2 * len(library_of_bases.MEDIANS) * len(library_of_bases.LOG_DEVIATIONS)
    assert probabilities[-skewed:].sum() == pytest.approx((1.0 - library_of_bases.EVEN) * library_of_bases.SKEWED)
    alone = np.arange(0, len(bases) - skewed, len(library_of_bases.WIDER))
    starts = [0, *(np.flatnonzero(np.diff(probabilities[alone])) + 1).tolist(), len(alone)]
    assert len(starts) == len(library_of_bases.DEVIATIONS) + 1
    for deviation, start, stop in zip(library_of_bases.DEVIATIONS, starts, starts[1:], strict=False):
        own = slice(start * len(library_of_bases.WIDER), stop * len(library_of_bases.WIDER))
        assert probabilities[own].sum() == pytest.approx(
            (1.0 - library_of_bases.EVEN) * (1.0 - library_of_bases.SKEWED) / len(library_of_bases.DEVIATIONS))
        np.testing.assert_allclose(deviations[alone[start:stop]], deviation, rtol=0.05)
        assert np.diff(means[alone[start:stop]]).max() <= library_of_bases.STEP * deviation * 1.01


def log_deviation(column):
    """Return the logarithm of a column's standard deviation, in its range."""
    own = (column.partition.edges + 1.0) / 2.0
    middle, width = (own[1:] + own[:-1]) / 2.0, np.diff(own)
    return 0.5 * np.log(column.mass @ ((middle - column.mass @ middle) ** 2 + width**2 / 12.0))


def test_light_and_heavy_tails_are_told_apart_as_far_as_noise_allows():
    """Means of 20 releases in bounds of 20 deviations. With bells at fixed places, light ones are .15 too wide.

    Heavy tails are a little too short, because densities end where noise hides the rest. With the rest, light ones are
    .08 too wide.
    """
    edges = np.linspace(-10.0, 10.0, 65)
    light = np.diff(ndtr(edges - 0.4))
    heavy = 0.92 * light + 0.08 * np.diff(ndtr((edges - 0.4) / 3.0))
    partition, middle = Partition((), 0, even_edges(None, 64)), (edges[1:] + edges[:-1]) / 40.0
    for shape, low, high in ((light, -0.03, 0.06), (heavy, -0.125, 0.0)):
        truth = shape / shape.sum()
        wanted = 0.5 * np.log(truth @ (middle - truth @ middle) ** 2)
        for noise in (0.006, 0.02):
            found = np.mean([log_deviation(distribution_of(
                partition, prefix_sums.factor(64) @ truth + noise * np.random.default_rng([9, seed]).normal(size=64),
                noise, True)) for seed in range(20)])
            assert low < found - wanted < high


@pytest.mark.parametrize("place", [5, 8, 20, 40, 50])
def test_a_heavy_interval_is_found_beside_whatever_base_would_explain_it(place):
    # A narrow base at the atom, or a wide one with a bump, can be the most probable model without an atom.
    x = np.linspace(-1.0, 1.0, 64)
    truth = np.exp(-8.0 * (x - 0.1) ** 2)
    truth *= 0.7 / truth.sum()
    truth[place] += 0.3
    for seed in range(3):
        values = prefix_sums.factor(64) @ truth + 0.01 * np.random.default_rng([3, seed]).normal(size=64)
        found = densities._explained(densities._library(64, True), values, 0.01, np.zeros(0, dtype=np.int64))
        assert densities._with_another_lump(found).chosen.tolist() == [place]
        assert np.abs(averaged(values, 0.01, 1.0, True)[0] - truth).sum() < 0.1


def test_noise_of_smooth_columns_is_no_atom():
    x = np.linspace(-1.0, 1.0, 64)
    smooth = np.exp(-8.0 * (x - 0.1) ** 2)
    smooth /= smooth.sum()
    for seed in range(40):
        values = prefix_sums.factor(64) @ smooth + 0.02 * np.random.default_rng([7, seed]).normal(size=64)
        found = densities._explained(densities._library(64, True), values, 0.02, np.zeros(0, dtype=np.int64))
        more = densities._with_another_lump(found)
        assert more is None or more.surprise >= found.surprise


def test_peaks_of_a_shape_that_no_base_has_are_hardly_ever_atoms():
    """A circle seen from the side, of 200 rows. Without a price of atoms 6 of 100 releases have one."""
    found = 0
    for seed in range(100):
        rng = np.random.default_rng([12, seed])
        places = (1.0 + 0.1 * rng.normal(size=200)) * np.cos(2.0 * np.pi * rng.random(200))
        rows = np.histogram(places, np.linspace(-2.0, 2.0, 65))[0] / 200
        values = prefix_sums.factor(64) @ rows + 0.02 * rng.normal(size=64)
        alone = densities._explained(densities._library(64, True), values, 0.02, np.zeros(0, dtype=np.int64))
        more = densities._with_another_lump(alone)
        found += more is not None and more.surprise < alone.surprise
    assert found <= 2


def test_what_is_done_with_a_density_changes_no_other_of_the_same_numbers():
    values = np.random.default_rng(0).dirichlet(np.ones(16))
    first, surprise = averaged(values, 0.01, 1.0, False)
    kept = first.copy()
    first[:] = 0.0
    again, same = averaged(values, 0.01, 1.0, False)
    np.testing.assert_array_equal(again, kept)
    assert same == surprise
    for others in ((2.0 * values, 0.01, 1.0, False), (values, 0.02, 1.0, False), (values, 0.01, 1.1, False),
                   (values, 0.01, 1.0, True)):
        assert averaged(*others)[1] != surprise


def test_atoms_that_cannot_reach_a_rival_are_not_looked_for(monkeypatch):
    looked = []
    real = densities._with_another_lump
    monkeypatch.setattr(densities, "_with_another_lump", lambda found: looked.append(1) or real(found))
    truth = np.full(256, 0.7 / 256)
    truth[[10, 100, 180]] += 0.1
    values = prefix_sums.factor(256) @ truth + 0.002 * np.random.default_rng(0).normal(size=256)
    _, surprise = averaged(values, 0.002, 1.0, True)
    whole = len(looked)
    looked.clear()
    averaged(values, 0.002, 1.0, True, rival=surprise - 1e9)
    assert len(looked) == 1 < whole


def shapes_of_columns():
    x = (np.arange(64) + 0.5) / 64
    yield np.exp(-0.5 * ((x - 0.4) / 0.1) ** 2)
    yield x * np.exp(-8.0 * x)
    yield np.exp(-0.5 * ((x - 0.3) / 0.06) ** 2) + 0.7 * np.exp(-0.5 * ((x - 0.75) / 0.05) ** 2)
    yield np.where(x < 0.5, 1.0, 0.2)


def test_distribution_functions_are_better_than_by_pieces_alone_and_densities_have_no_gaps(monkeypatch):
    """Fixed draws; pieces alone are what columns were before: their errors are 1.5 times as large at this noise."""
    partition = Partition((), 0, even_edges(None, 64))
    errors = {"both": [], "pieces": []}
    gaps = []
    for shape in shapes_of_columns():
        truth = shape / shape.sum()
        for seed in range(8):
            values = prefix_sums.factor(64) @ truth + 0.04 * np.random.default_rng([5, seed]).normal(size=64)
            for name in errors:
                with monkeypatch.context() as patched:
                    if name == "pieces":
                        patched.setattr("trigmech.reconstruction.columns.EVIDENCE", -1e9)
                    column = distribution_of(partition, values, 0.04, True)
                below = np.interp(partition.edges, column.partition.edges, np.append(0.0, np.cumsum(column.mass)))
                errors[name].append(np.abs(below[1:] - np.cumsum(truth)).max())
                assert column.mass.sum() == pytest.approx(1.0)
                assert (column.mass >= 0.0).all()
            # Between the first and the last tenth, where all of these have rows.
            density = np.diff(np.interp(np.linspace(-0.2, 0.2, 9), column.partition.edges,
                                        np.append(0.0, np.cumsum(column.mass))))
            gaps.append(density.min())
    assert np.mean(errors["both"]) < np.mean(errors["pieces"]) / 1.3


def test_light_neighbours_are_one_position_and_empty_ends_are_their_own():
    x = np.linspace(-1.0, 1.0, 256)
    truth = np.exp(-0.5 * (x / 0.08) ** 2)
    truth /= truth.sum()
    noise = 0.005
    values = prefix_sums.factor(256) @ truth + noise * np.random.default_rng(1).normal(size=256)
    column = distribution_of(Partition((), 0, even_edges(None, 256)), values, noise, True)
    assert column.mass[0] < 1e-4
    assert column.mass[-1] < 1e-4
    # Each holds what can be told from noise, but for the tails, of which each has at most two lighter positions.
    light = 0.5 * min(noise, LARGEST_PLACE)
    beside = np.minimum(np.cumsum(column.mass), np.cumsum(column.mass[::-1])[::-1])
    assert column.mass[beside > 1.5 * light].min() >= light - 1e-9
    lighter = np.flatnonzero(column.mass[1:-1] < light - 1e-9) + 1
    assert set(lighter) <= {1, 2, len(column.mass) - 3, len(column.mass) - 2}
    assert len(lighter) <= 3
    assert len(column.mass) < 200
    spread = np.sqrt(column.mass @ (column.partition.centres**2))
    assert spread == pytest.approx(0.08, rel=0.1)


@pytest.mark.parametrize("count", [256, 1024])
def test_a_spike_far_out_keeps_its_place(count):
    """Most rows decay from the first value on, .6 % are at one value far out, which a position must not share."""
    x, noise, far = np.arange(count) / count, 0.001, 0.006
    truth = np.exp(-x / 0.02)
    truth *= (1.0 - far) / truth.sum()
    truth[int(0.9 * count)] += far
    edges = even_edges(None, count)
    values = prefix_sums.factor(count) @ truth + noise * np.random.default_rng(3).normal(size=count)
    column = distribution_of(Partition((), 0, edges), values, noise, True)
    assert spread_of(column.mass, column.partition.centres) == pytest.approx(
        spread_of(truth, 0.5 * (edges[1:] + edges[:-1])), rel=0.06)


def spread_of(mass, centres):
    mean = mass @ centres / mass.sum()
    return float(np.sqrt(mass @ (centres - mean) ** 2 / mass.sum()))


@pytest.mark.parametrize("count", [1, densities.BASES_AT_A_TIME, 2 * densities.BASES_AT_A_TIME + 7])
def test_the_evidence_of_many_bases_is_that_of_each(count):
    # Looked at a few at a time, or by plain loops.
    rng, precision = np.random.default_rng(7), 40.0
    gains, own = rng.random((count, 2, 5)), rng.normal(size=(count, 2, 5))
    variance = precision * np.array([[0.01], [0.3], [2.0]])
    found = densities._of_cosines(variance, precision, gains, own)
    assert found.shape == (count, 2, 3)
    for b, r, v in np.ndindex(found.shape):
        one = sum(math.log1p(variance[v, 0] * gain)
                  - variance[v, 0] * precision * product**2 / (1.0 + variance[v, 0] * gain)
                  for gain, product in zip(gains[b, r], own[b, r], strict=True))
        assert found[b, r, v] == pytest.approx(one, rel=1e-12, abs=1e-9)


def test_an_atom_of_a_divided_interval_is_even_in_its_parts():
    values = np.full(32, 0.45 / 31)
    values[9] = 0.55
    made, _ = averaged(values, 0.002, 1.0, False, parts=4)
    inside = made.reshape(32, 4)[9]
    assert made.sum() == pytest.approx(1.0, abs=0.02)
    assert inside.sum() == pytest.approx(0.55, abs=0.02)
    assert inside.min() > 0.8 * inside.max()
