"""No step refuses what a run can produce: what a file cannot hold is refused before the charge."""

import json

import numpy as np
import pandas as pd
import pytest
from random_releases import Run, random_run, released, steps

import trigmech as tm
from trigmech.errors import InputError
from trigmech.functions.released_column import ReleasedColumn
from trigmech.planning.dependence import design_dependence
from trigmech.planning.tables import Shares
from trigmech.results import NoisyMoments

FEW = tm.TableMechanism(points=16)
SHORT = tm.Column("short", 0, 1, "integer")


def driven(table, columns, budget, folder, mechanism=FEW, noise="near", seed=0, heavy=False, **schema):
    """Take every step of one run, which must not be refused; return it."""
    run = Run(pd.DataFrame(table), tm.Schema(columns, **schema), budget, mechanism, noise, seed)
    made = released(run)
    assert made is not None
    steps(run, made, folder, heavy=heavy)
    return made


@pytest.mark.parametrize("seed", range(12))
def test_random_runs_are_refused_before_their_charge_or_end_in_a_table(seed, tmp_path):
    run = random_run(seed, moments=seed % 3 == 0)
    made = released(run)
    if made is not None:
        steps(run, made, tmp_path, heavy=seed in (1, 3))


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(20))
def test_many_random_runs_are_refused_before_their_charge_or_end_in_a_table(block, tmp_path):
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        run = random_run(seed)
        made = released(run)
        if made is not None:
            steps(run, made, tmp_path, heavy=seed % 4 == 0)


# Rows in the last level alone: all else is released as nothing, and each column has one cell.
LAST = {"integers": [SHORT, tm.Column("b", 0, 1, "integer")],
        "an ordinal column": [SHORT, tm.Column("b", kind="ordinal", categories=("low", "high"))]}


@pytest.mark.parametrize("name", LAST)
def test_a_release_of_one_cell_for_each_column_is_saved(name, tmp_path):
    table = {"short": [1] * 10, "b": [1 if name == "integers" else "high"] * 10}
    made = driven(table, LAST[name], tm.Budget(1.0), tmp_path, noise="lowest", heavy=name == "integers")
    assert len(made.release.dependence.pairs) == 1
    assert made.release.products.size == 0


def test_a_column_of_one_level_is_saved(tmp_path):
    columns = [tm.Column("one", 0, 0.5, "integer"), SHORT, tm.Column("c", kind="categorical", categories=("u", "v"))]
    table = {"one": [0] * 6, "short": [0, 1] * 3, "c": ["u"] * 6}
    made = driven(table, columns, tm.Budget(1.0), tmp_path)
    assert [(look.contrasted, look.values.size) for look in made.release.looks] == [(True, 0), (True, 1), (True, 1)]
    assert driven(table, columns, tm.Budget(1.0, 1e-6), tmp_path).n == 6


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_integers_of_private_bounds_are_saved(delta, tmp_path):
    rng = np.random.default_rng(0)
    table = {"age": rng.integers(0, 90, 300), "c": rng.choice(["u", "v"], 300)}
    columns = [tm.Column("age", kind="integer", private_bounds=True, special=(0,)),
               tm.Column("c", kind="categorical", categories=("u", "v"))]
    made = driven(table, columns, tm.Budget(2.0, delta), tmp_path)
    # The bounds were found after the first look was planned, so its intervals know no levels.
    assert made.schema.domain.levels_of(0) is not None
    assert made.release.domain.levels_of(0) is None
    loaded = NoisyMoments.load(tmp_path / "made.tm").release
    assert loaded.domain == made.release.domain
    assert [look.partition.levels for look in loaded.looks] == [look.partition.levels for look in made.release.looks]


def test_numbers_of_one_position_each_have_no_products_of_scores():
    schema = tm.Schema([tm.Column(name, 0, 0.5, "integer") for name in "ab"])
    # Of one degree: the cosine of the middle rank is 0.
    mechanism = tm.TableMechanism(shares=Shares(0.3, 0.0, 0.5, 1))
    design = tm.design(50, schema, tm.Budget(1.0, 1e-6), mechanism).measured
    columns = [ReleasedColumn(partition, np.ones(1), 0.1) for partition in design.partitions]
    chosen = design_dependence(design, columns)
    assert len(chosen.pairs) == 0
    assert chosen.product_weight == 0.0
    assert chosen.sensitivity("gaussian") <= 1.0


@pytest.mark.parametrize("transform", ["log", "log1p"])
def test_a_preview_of_noise_beyond_floating_point_is_a_number(transform):
    schema = tm.Schema([tm.Column("a", 1e-300, 1e300, transform=transform)])
    for mechanism in (tm.TableMechanism(), tm.MomentMechanism(), None):
        expected = tm.preview(2, schema, tm.Budget(1e-3), mechanism=mechanism)
        assert json.dumps(expected.to_dict(), allow_nan=False)
        assert expected.columns[0].error == pytest.approx(1e300)
        assert "1e300" in str(expected)


def test_a_file_names_coordinates_without_levels_only_where_there_are_some(tmp_path):
    made = driven({"short": [0, 1] * 5}, [SHORT], tm.Budget(1.0), tmp_path)
    with pytest.raises(InputError, match="domain"):
        tm.NoisyMoments(made.release, made.ledger, tm.Schema([tm.Column("short", 0, 2, "integer")])).save(
            tmp_path / "other.tm")
