"""Columns that may be the true ones after a release: drawn from the posterior, for error bars."""

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.evaluation import plausible
from trigmech.functions.partition import Partition, even_edges
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Histogram, HistogramWithEnds, PrefixSums, PrefixSumsWithEnds
from trigmech.reconstruction.columns import drawn_column, released_column
from trigmech.reconstruction.densities import SmoothDensity
from trigmech.reconstruction.ends import atom_probabilities, hidden_atom_probabilities, hidden_atoms_at
from trigmech.reconstruction.tables import Targets

KINDS = [PrefixSums, Histogram]


def looked_at(kind, frequencies, noise, rng, k=0):
    partition = Partition(tuple(range(1, k + 1)), 0, even_edges(None, len(frequencies) - k))
    query = kind(0, partition)
    values = query.encode(frequencies)
    return Measurement(query, 1.0, values + noise * rng.normal(size=len(values)), noise)


def below(column, edges):
    return np.interp(edges, column.partition.edges, np.concatenate([[0.0], np.cumsum(column.mass)]))


@pytest.mark.daily(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.003, 0.02])
def test_columns_are_drawn_as_far_from_the_release_as_the_truth_is(kind, noise):
    rng, truth_off, drawn_off = np.random.default_rng(7), [], []
    edges = np.linspace(-1.0, 1.0, 65)
    for _ in range(30):
        middle, width = rng.uniform(-0.6, 0.6), rng.uniform(0.1, 0.6)
        frequencies = np.exp(-0.5 * ((0.5 * (edges[1:] + edges[:-1]) - middle) / width) ** 2)
        frequencies /= frequencies.sum()
        look = looked_at(kind, frequencies, noise, rng)
        column = below(released_column(look), edges)
        truth_off.append(np.square(np.concatenate([[0.0], np.cumsum(frequencies)]) - column).mean())
        drawn_off += [np.square(below(drawn_column(look, None, rng), edges) - column).mean() for _ in range(4)]
    assert 0.6 < np.mean(drawn_off) / np.mean(truth_off) < 1.6


@pytest.mark.parametrize("kind", KINDS)
def test_rough_columns_have_the_noise_once_more(kind, monkeypatch):
    # No smooth density has steps, so none is drawn.
    monkeypatch.setattr(SmoothDensity, "drawn", lambda *_: pytest.fail("a smooth density was drawn"))
    rng, noise = np.random.default_rng(3), 0.0005
    frequencies = np.repeat((6.0, 0.5, 5.0, 1.0), 16)
    frequencies /= frequencies.sum()
    look = looked_at(kind, frequencies, noise, rng)
    drawn = np.array([drawn_column(look, None, rng).mass for _ in range(200)])
    assert drawn.sum(axis=1) == pytest.approx(np.ones(200))
    encoded = np.array([look.query.encode(each) for each in drawn])[:, 1:-1]
    np.testing.assert_allclose(encoded.mean(axis=0), look.values[1:-1], atol=4.0 * noise)
    assert np.sqrt(encoded.var(axis=0).mean()) == pytest.approx(noise, rel=0.12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_lump_is_drawn_with_the_noise_of_its_mass(kind):
    rng, noise = np.random.default_rng(4), 0.01
    frequencies = 0.7 * np.diff(np.linspace(0.0, 1.0, 65) ** 1.5)
    frequencies[40] += 0.3
    look = looked_at(kind, frequencies, noise, rng)
    edges = look.query.partition.edges[40:42]
    shares = np.array([np.diff(below(drawn_column(look, None, rng), edges))[0] for _ in range(200)])
    # The deviation of one interval by the measured values alone.
    alone = noise / np.sqrt((look.query.encode(np.eye(64)[40]) ** 2).sum())
    assert np.mean(shares) == pytest.approx(frequencies[40], abs=4.0 * alone)
    assert 0.7 < np.std(shares) / alone < 1.4


@pytest.mark.daily("PrefixSums")
@pytest.mark.parametrize("kind", KINDS)
def test_special_values_have_the_noise_once_more_and_numbers_have_the_rest(kind):
    rng, noise = np.random.default_rng(5), 0.01
    frequencies = np.concatenate([[0.3], 0.7 * np.diff(np.linspace(0.0, 1.0, 33) ** 2)])
    look = looked_at(kind, frequencies, noise, rng, 1)
    drawn = [drawn_column(look, None, rng).mass for _ in range(300)]
    assert [each.sum() for each in drawn] == pytest.approx([1.0] * 300)
    assert np.std([each[0] for each in drawn]) == pytest.approx(noise, rel=0.15)


@pytest.mark.parametrize("kind", [*KINDS, PrefixSumsWithEnds, HistogramWithEnds])
def test_numbers_of_two_intervals_have_the_noise_once_more(kind):
    """As of two levels: bars of a share without noise would have no width."""
    rng, noise, ends = np.random.default_rng(10), 0.01, kind in (PrefixSumsWithEnds, HistogramWithEnds)
    edges = np.array([-1.0, -1.0 + 1e-9, 0.0, 1.0 - 1e-9, 1.0] if ends else [-1.0, 0.0, 1.0])
    query = kind(0, Partition((1,), 0, edges))
    frequencies = np.array([0.2, *([0.3, 0.2, 0.3, 0.0] if ends else [0.5, 0.3])])
    look = Measurement(query, 1.0, query.encode(frequencies), noise)
    drawn = [drawn_column(look, None, rng) for _ in range(300)]
    assert [column.mass.sum() for column in drawn] == pytest.approx([1.0] * 300)
    upper = [1.0 - np.interp(0.0, column.partition.edges, np.concatenate([[0.0], np.cumsum(column.mass[1:])]))
             - column.mass[0] for column in drawn]
    # The upper part is known by itself and by what is left beside the lower one.
    assert np.mean(upper) == pytest.approx(0.3, abs=0.005)
    assert 0.6 < np.std(upper) / noise < 1.3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [[1.3, 0.0], [1.0, 0.0], [0.0, 0.0], [-1e80, 1e80]])
def test_whatever_is_drawn_a_distribution_is_made(kind, values):
    rng, partition = np.random.default_rng(6), Partition((1,), 0, even_edges(None, 8))
    look = Measurement(kind(0, partition), 1.0, np.array([values[0], *np.full(8, values[1])]), 0.05)
    for _ in range(20):
        mass = drawn_column(look, None, rng).mass
        assert mass.min() >= 0.0
        assert mass.sum() == pytest.approx(1.0)


def test_an_end_is_drawn_as_an_atom_as_often_as_it_is_one():
    rng, noise, size = np.random.default_rng(8), 0.02, 34
    edges = np.concatenate([[-1.0], np.linspace(-1.0 + 1e-9, 1.0 - 1e-9, size - 1), [1.0]])
    query = HistogramWithEnds(0, Partition((), 0, edges))
    values = np.full(size, 0.9 / (size - 2))
    values[[0, -1]] = 0.1, 0.0
    probable = atom_probabilities(values[[0, -1]], noise, False)
    assert 0.2 < probable[0] < 0.8
    look = Measurement(query, 1.0, values, noise)
    first = [drawn_column(look, None, rng) for _ in range(400)]
    atoms = np.array([column.partition.edges[1] == edges[1] for column in first])
    # Also where it is no large atom, noise may hide a small one.
    hidden = hidden_atom_probabilities(values[[0, -1]], noise, False)
    tolerance = 4.0 * np.sqrt(0.25 / 400)
    assert atoms.mean() == pytest.approx(probable[0] + (1.0 - probable[0]) * hidden[0], abs=tolerance)
    upper = np.array([column.partition.edges[-2] == edges[-2] for column in first])
    assert upper.mean() == pytest.approx(hidden[1], abs=tolerance)
    # An atom has the whole share that was measured, and not a part for the case that there is none.
    held = np.array([column.mass[0] for column, atom in zip(first, atoms, strict=True) if atom])
    drawn = held[held > 0.08]
    assert drawn.mean() == pytest.approx(0.1, abs=0.01)
    assert len(drawn) / 400 == pytest.approx(probable[0], abs=tolerance)


@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize(("share", "deviation"), [(0.004, 0.003), (0.0, 0.02), (0.03, 0.01)])
def test_hidden_atoms_are_drawn_by_their_probability_and_their_shares_by_bayes(share, deviation, normal):
    rng = np.random.default_rng(9)
    found = hidden_atoms_at(rng.random(8_000), np.full(8_000, share), deviation, normal)
    there = hidden_atom_probabilities(np.array([share]), deviation, normal)[0]
    assert np.mean(found > 0.0) == pytest.approx(there, abs=4.5 * np.sqrt(there * (1.0 - there) / 8_000))
    shares = np.linspace(0.0, 0.08, 4_001)[1:]
    away = np.abs(share - shares) / deviation
    likely = np.exp(-shares / 0.01 - (0.5 * away**2 if normal else np.sqrt(2.0) * away))
    mean = float(shares @ likely / likely.sum())
    spread = float(np.sqrt(shares**2 @ likely / likely.sum() - mean**2))
    held = found[found > 0.0]
    assert held.mean() == pytest.approx(mean, abs=4.5 * spread / np.sqrt(len(held)) + 1e-4)


def test_finer_cells_hide_nothing_that_contrasts_show():
    """Categories of two levels have no finer cells: what their contrasts show is all that there is."""
    rng = np.random.default_rng(9)
    latent = rng.normal(size=(900, 1)) + rng.normal(size=(900, 4))
    schema = tm.Schema([tm.Column(f"x{j}", kind="categorical", categories=("a", "b")) for j in range(4)])
    table = pd.DataFrame({f"x{j}": np.where(latent[:, j] > 0.0, "a", "b") for j in range(4)})
    release = tm.synthesize(table, schema, tm.Budget(3.0), rng=rng).release
    assert release.products.query.tells_tables
    for pair, made in zip(Targets(release, shrunk=False).pairs, plausible.in_finer_cells(release, rng).tables,
                          strict=True):
        np.testing.assert_allclose(made.means, np.clip(pair.table, 0.0, 1.0), atol=1e-9)
