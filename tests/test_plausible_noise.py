"""What plausible tables of a release are fitted to: its own noise, to the number."""

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.evaluation import plausible
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.queries.base import Measurement
from trigmech.queries.one_way import Histogram


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
