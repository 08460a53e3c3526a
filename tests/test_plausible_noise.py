"""What plausible tables of a release are fitted to: its own noise, to the number."""

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.evaluation import features, plausible
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.mechanisms.rehearsal import rehearsed_release
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Histogram
from trigmech.reconstruction.columns import priors_of


class StoppedError(Exception):
    """In the place of a fit."""


def test_plausible_tables_are_fitted_with_the_noise_of_the_release(monkeypatch):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 4, 3_000)
    table = pd.DataFrame({name: np.where(rng.random(3_000) < 0.2, rng.integers(0, 4, 3_000), first).astype(str)
                          for name in "abcd"})
    schema = tm.Schema([tm.Column(name, kind="categorical", categories=tuple("0123")) for name in "abcd"])
    made = tm.synthesize(table, schema, tm.Budget(5.0, 1e-6), tm.TableMechanism(points=64), rng)
    seen = []

    def stopped(release, *_, **options):
        seen.append((release, options))
        raise StoppedError

    monkeypatch.setattr(plausible, "reconstruct_table", stopped)
    with pytest.raises(StoppedError):
        plausible.PlausibleTables(made.release, rng).draw(100, rng)
    ((asked, options),) = seen
    assert options == {"shrunk": False}
    assert len(made.release.tables) == 6
    assert made.release.triples
    for own, given in ((made.release.tables, asked.tables), (made.release.triples, asked.triples)):
        assert [each.query.columns for each in given] == [each.query.columns for each in own]
        assert [each.deviation for each in given] == pytest.approx([each.deviation for each in own], rel=1e-12)
        assert not any(np.array_equal(one.means, other.means) for one, other in zip(own, given, strict=True))


def test_plausible_columns_keep_the_released_shape_between_measured_thresholds():
    query = Histogram(0, Partition((), 0, np.linspace(-1.0, 1.0, 3)))
    look = Measurement(query, 1.0, np.array([0.4, 0.6]), 1e-9)
    mass = np.array([0.1, 0.3, 0.0, 0.0, 0.45, 0.15])
    column = ReleasedColumn(query.partition.cut(np.array([-1.0, -0.5, 0.0, 0.2, 0.4, 0.8, 1.0])), mass, 1e-9)
    made = plausible.plausible_column(column, look, [], np.random.default_rng(0))
    np.testing.assert_allclose(made.mass, mass, atol=1e-8)


@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_columns_are_drawn_as_with_the_priors_of_all_densities(delta, monkeypatch):
    """Only signs use them, so other releases must not pay for them; and must not get different numbers."""
    rng = np.random.default_rng(3)
    schema = tm.Schema([*(tm.Column(name, 0, 10) for name in "abcd"),
                        tm.Column("e", kind="categorical", categories=("x", "y"))])
    table = {name: rng.normal(3.0, 1.0, 200).clip(0, 10) for name in "abcd"} | {"e": rng.choice(["x", "y"], 200)}
    points = schema.to_cube(pd.DataFrame(table))
    planned = tm.design(200, schema, tm.Budget(0.5, delta), tm.TableMechanism())
    release, asked = rehearsed_release(planned, points, rng), []
    signs = [not look.query.tells_frequencies for look in release.looks]
    assert any(signs) == (delta == 0.0)
    all_priors = priors_of(release.looks)
    monkeypatch.setattr(features, "priors_of", lambda looks: asked.append(looks) or priors_of(looks))
    priors = features._priors_of_draws(release)
    assert len(asked) == any(signs)

    def drawn(given):
        rng = np.random.default_rng(4)
        return [plausible.plausible_column(column, look, [], rng, prior, smooth=False).mass
                for column, look, prior in zip(release.columns, release.looks, given, strict=True)]

    for one, other, alone, of_signs in zip(drawn(priors), drawn(all_priors), drawn([None] * len(signs)), signs,
                                           strict=True):
        np.testing.assert_array_equal(one, other)
        # Without its prior, a column of signs would be drawn from other densities.
        assert np.array_equal(one, alone) != of_signs
