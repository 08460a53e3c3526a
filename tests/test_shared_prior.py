"""The prior that a table's columns share: against direct formulas, and what columns gain."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.functions.partition import Partition, even_edges
from trigmech.mechanisms.rehearsal import rehearsed_release
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Histogram, PrefixSums
from trigmech.reconstruction import densities, shared_prior
from trigmech.reconstruction.bases import EVEN, PLACES, bases
from trigmech.reconstruction.columns import priors_of, released_column, released_columns
from trigmech.reconstruction.common import common_positions
from trigmech.reconstruction.densities import smooth_density

COUNT, NOISE = 32, 0.08


@dataclasses.dataclass
class Known:
    """Stands for a density of which the probabilities of bases are known."""

    shares: np.ndarray


def of_bases(rng, likely, mass):
    """Return probabilities of the even base and of all others: one holds this mass."""
    made = rng.dirichlet(np.ones(1 + len(bases(128).masses))) * (1.0 - mass)
    made[likely] += mass
    return made


def test_the_prior_of_a_column_is_that_of_the_others(monkeypatch):
    rng, every, usual = np.random.default_rng(0), bases(128), 1.5
    monkeypatch.setattr(shared_prior, "USUAL", usual)
    monkeypatch.setattr(shared_prior, "ROUNDS", 2)
    own = [of_bases(rng, likely, mass) for likely, mass in ((0, 0.6), (3, 0.9), (400, 0.7), (401, 0.5))]
    prior = np.append(EVEN, every.probabilities)
    widths = np.append(every.widths.max() + 1, every.widths)

    def kinds(shares):
        of_widths = [sum(shares[widths == width]) for width in range(widths.max() + 1)]
        return of_widths, [sum(shares[1:][every.places == place]) for place in range(PLACES)]

    wanted, now = [np.ones(len(prior))] * len(own), own
    for _ in range(2):
        wanted = []
        for j in range(len(own)):
            factors = np.ones(len(prior))
            for kind, labels in ((0, widths), (1, np.append(-1, every.places))):
                before = np.array(kinds(prior)[kind]) / sum(kinds(prior)[kind])
                seen = sum(np.array(kinds(each)[kind]) for h, each in enumerate(now) if h != j)
                after = (usual * before + seen) / (usual + sum(seen))
                factors *= [1.0 if label < 0 else after[label] / before[label] for label in labels]
            wanted.append(factors / (prior @ factors))
        now = [each * factors / (each @ factors) for each, factors in zip(own, wanted, strict=True)]
    found = shared_prior.shared_priors([Known(own[0]), None, *(Known(each) for each in own[1:])])
    assert found.pop(1) is None
    for made, direct in zip(found, wanted, strict=True):
        np.testing.assert_allclose(made, direct, rtol=1e-9)
        assert made @ prior == pytest.approx(1.0)
    assert shared_prior.shared_priors([None, Known(own[0])]) == [None, None]


@pytest.mark.parametrize("atoms", [False, True])
def test_another_prior_gives_the_posterior_of_models_with_these_probabilities(atoms, monkeypatch):
    rng = np.random.default_rng(1)
    values = rng.dirichlet(3.0 * np.ones(COUNT))
    if atoms:
        values = 0.5 * values + 0.5 * (np.arange(COUNT) == 9)
    made = smooth_density(values, 0.02, 1.0, False)
    assert bool(len(made.found.chosen)) == atoms
    prior = rng.gamma(1.0, size=1 + len(bases(COUNT).masses))
    kinds = tuple(dataclasses.replace(each, priors=each.priors + np.log(factors)[:, None, None]) for each, factors in
                  zip(made.found.library.kinds, (prior[:1], prior[1:]), strict=True))
    direct = densities._explained(dataclasses.replace(made.found.library, kinds=kinds), values, 0.02, made.found.chosen,
                                  made.found.masses)
    cost = made.surprise - densities._explained(made.found.library, values, 0.02, made.found.chosen,
                                                made.found.masses).surprise
    under = made.under(prior)
    assert under.surprise == pytest.approx(direct.surprise + cost, abs=1e-9)
    np.testing.assert_allclose(under.mean(), densities._posterior_mean(direct), atol=1e-12)
    assert abs(under.surprise - made.surprise) > 0.1
    assert made.under(None) is made


def look(shares, rng):
    partition = Partition((), 0, even_edges(None, COUNT))
    noisy = PrefixSums(0, partition).encode(shares) + NOISE * rng.normal(size=COUNT)
    return Measurement(PrefixSums(0, partition), 1.0, noisy, NOISE)


def bell(mean, deviation):
    places = (np.arange(COUNT) + 0.5) / COUNT
    made = np.exp(-0.5 * ((places - mean) / deviation) ** 2)
    return made / made.sum()


def error(column, truth):
    below = np.interp(np.linspace(-1.0, 1.0, COUNT + 1), column.partition.edges,
                      np.concatenate([[0.0], np.cumsum(column.mass)]))
    return np.abs(np.diff(below) - truth).sum() / 2.0


def test_columns_of_one_kind_are_closer_to_the_truth_together_and_others_hardly_change():
    rng = np.random.default_rng(2)
    truths = [bell(0.3 + 0.02 * rng.normal(), 0.1) for _ in range(12)]
    stranger = 0.5 * (bell(0.75, 0.05) + 1.0 / COUNT)
    looks = [look(each, rng) for each in (*truths, stranger)]
    alone, together = [released_column(each) for each in looks], released_columns(looks)
    before, after = (np.array([error(column, truth) for column, truth in zip(found, (*truths, stranger), strict=True)])
                     for found in (alone, together))
    assert after[:-1].mean() < 0.8 * before[:-1].mean()
    assert after[-1] < 1.1 * before[-1]


def test_releases_of_looks_alone_have_the_same_columns():
    rng = np.random.default_rng(3)
    schema = tm.Schema([*(tm.Column(name, 0, 10) for name in "abcd"),
                        tm.Column("e", kind="categorical", categories=("x", "y"))])
    table = {name: rng.normal(3.0, 1.0, 200).clip(0, 10) for name in "abcd"} | {"e": rng.choice(["x", "y"], 200)}
    points = schema.to_cube(pd.DataFrame(table))
    for delta in (1e-5, 0.0):
        planned = tm.design(200, schema, tm.Budget(0.5, delta), tm.TableMechanism())
        release = rehearsed_release(planned, points, np.random.default_rng(4))
        assert sum(each is not None for each in priors_of(release.looks)) == 4
        wanted, made = released_columns(release.looks), common_positions(schema.domain, release.looks)
        alone = [released_column(each) for each in release.looks]
        for one, other, lone in zip(wanted, made, alone, strict=True):
            np.testing.assert_array_equal(np.isin(one.partition.edges, other.partition.edges), True)
            np.testing.assert_allclose(*(np.interp(one.partition.edges[1:], each.partition.edges[1:], np.cumsum(
                each.mass)) if len(one.partition.edges) else each.mass for each in (one, other)), atol=1e-12)
            if len(one.partition.edges):
                assert one.mass.shape != lone.mass.shape or np.abs(one.mass - lone.mass).max() > 1e-6


@pytest.mark.nightly
def test_whatever_the_noise_all_columns_are_distributions():
    """One hostile column must not spoil the prior of the others, and nothing raises after the charge."""
    rng = np.random.default_rng(5)
    for _ in range(25):
        count, special = int(rng.choice([4, 32])), int(rng.choice([0, 2]))
        partition, looks = Partition(tuple(range(1, special + 1)), 0, even_edges(None, count)), []
        for query in (PrefixSums, Histogram, PrefixSums):
            size = special + count
            values = rng.choice([rng.choice([-1e300, 0.0, 1e300], size), rng.choice([-1e12, 0.0, 1e12], size),
                                 rng.normal(size=size) * 10.0 ** rng.integers(-12, 90), np.zeros(size)])
            if special:
                # Hardly anything is left beside special values.
                values[:special] = (1.0 - 10.0 ** -float(rng.integers(8, 17))) / special
            looks.append(Measurement(query(0, partition), 1.0, values, float(10.0 ** rng.integers(-16, 60))))
        for column in released_columns(looks):
            assert column.mass.sum() == pytest.approx(1.0)
            assert (column.mass >= 0.0).all()
