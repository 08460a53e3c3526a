"""No step refuses what a run can produce: what a file cannot hold is refused before the charge."""

import json
import sys
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from random_releases import Run, random_run, released, steps

import trigmech as tm
from trigmech.cli.app import main
from trigmech.errors import BudgetError, InputError, TrigmechError
from trigmech.functions.partition import Partition
from trigmech.functions.released_column import ReleasedColumn
from trigmech.mechanisms import default
from trigmech.noisy_moments import NoisyMoments
from trigmech.planning import closer, contrasted, peaks
from trigmech.planning.closer import closer_looks
from trigmech.planning.dependence import cells_of, design_dependence
from trigmech.planning.shares import Shares
from trigmech.queries.base import moved
from trigmech.queries.joint import Marginal
from trigmech.queries.one_way import Contrasts
from trigmech.report.figures import number, percent
from trigmech.report.tables import TableAccount
from trigmech.schema import toml as schema_file
from trigmech.storage import archive, measurements_file, rounds_file

FEW = tm.TableMechanism(points=16)
BOTH = tm.Budget(1.0, 1e-6)
SHORT = tm.Column("short", 0, 1, "integer")


def driven(table, columns, budget, folder, mechanism=FEW, noise="near", seed=0, heavy=False, **schema):
    """Take every step of one run, which must not be refused; return it."""
    run = Run(pd.DataFrame(table), tm.Schema(columns, **schema), budget, mechanism, noise, seed)
    made = released(run)
    assert made is not None
    steps(run, made, folder, heavy=heavy)
    return made


# Each night there are hundreds more, below.
@pytest.mark.daily("0", "1")  # Of moments and of tables.
@pytest.mark.parametrize("seed", range(6))
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


# A column of one cell has no contrasts, so pairs with it have no products.
ONE = tm.Column("b", 0, 0.5, "integer")
ONE_CELL = {"integers": ([SHORT, ONE], [1] * 10), "one level each": ([replace(ONE, name="short"), ONE], [0] * 10),
            "categories": ([tm.Column("short", kind="categorical", categories=("u", "v", "w")), ONE], ["w"] * 10)}


@pytest.mark.parametrize("name", ONE_CELL)
def test_a_release_without_products_is_saved(name, tmp_path):
    columns, values = ONE_CELL[name]
    made = driven({"short": values, "b": [0] * 10}, columns, tm.Budget(1.0), tmp_path, noise="lowest",
                  heavy=name == "integers")
    assert len(made.release.products.query.pairs) == 1
    assert made.release.products.means.size == 0


# Rows in the last level alone: all else is released as next to nothing.
LAST = {"integers": [SHORT, tm.Column("b", 0, 1, "integer")],
        "an ordinal column": [SHORT, tm.Column("b", kind="ordinal", categories=("low", "high"))]}


@pytest.mark.parametrize("name", LAST)
def test_a_release_of_rows_in_the_last_level_alone_is_saved(name, tmp_path):
    table = {"short": [1] * 10, "b": [1 if name == "integers" else "high"] * 10}
    driven(table, LAST[name], tm.Budget(1.0), tmp_path, noise="lowest")


@pytest.mark.daily("0.0")
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_columns_of_one_level_have_pages(delta, tmp_path):
    """What is known without noise must not be divided by it."""
    columns = [SHORT, ONE, tm.Column("c", 0, 0.5, "integer", special=(7,)), tm.Column("x", 0, 1, missing="keep"),
               tm.Column("g", kind="categorical", categories=("u", "v", "w"))]
    table = {"short": [1] * 30, "b": [0] * 30, "c": [7] * 30, "x": [None] * 30, "g": ["w"] * 30}
    driven(table, columns, tm.Budget(1.0, delta), tmp_path, noise="lowest", heavy=True)


def test_what_is_known_without_noise_is_no_multiple_of_it(tmp_path):
    """Few positions at delta = 0 are measured by contrasts, of which a column of one level has none."""
    made = driven({"short": [1] * 30, "b": [0] * 30}, [SHORT, ONE], tm.Budget(1.0), tmp_path)
    rows = {name: told for name, _, *told in TableAccount(made, made.release).errors().rows}
    assert rows["b"] == [percent(0.0), percent(0.0), number(0.0, 2)]
    assert float(rows["short"][2]) > 0.0


@pytest.mark.daily("mechanism0")
@pytest.mark.parametrize("mechanism", [FEW, tm.MomentMechanism(points=16, iterations=2)])
def test_columns_of_the_largest_numbers_on_a_logarithmic_scale_have_pages_and_lights(mechanism, tmp_path):
    """Neither a round value of the axis nor the square of a group's mean is a number there."""
    columns = [tm.Column("x", -8e307, 8e307, transform="log1p"), SHORT,
               tm.Column("g", kind="categorical", categories=("u", "v"))]
    table = {"x": [0.0, 7e307, -7e307] * 20, "short": [0, 1] * 30, "g": ["u", "v", "v"] * 20}
    driven(table, columns, tm.Budget(100.0, 1e-6), tmp_path, mechanism, heavy=True)


def test_a_column_of_one_level_is_saved(tmp_path):
    columns = [tm.Column("one", 0, 0.5, "integer"), SHORT, tm.Column("c", kind="categorical", categories=("u", "v"))]
    table = {"one": [0] * 6, "short": [0, 1] * 3, "c": ["u"] * 6}
    made = driven(table, columns, tm.Budget(1.0), tmp_path)
    assert [(type(look.query), look.known.size) for look in made.release.looks] == [
        (Contrasts, 0), (Contrasts, 1), (Contrasts, 1)]
    assert driven(table, columns, tm.Budget(1.0, 1e-6), tmp_path).n == 6


@pytest.mark.daily("1e-06")
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
    levels = [[look.query.partition.levels for look in each.looks] for each in (loaded, made.release)]
    assert levels[0] == levels[1]


@pytest.mark.nightly
@pytest.mark.timeout(60)
def test_special_values_where_floats_are_far_apart_are_sampled(tmp_path):
    columns = [tm.Column("whole", 0, 2**53, "integer", special=(2**53,)),
               tm.Column("far", 0, 1, decimals=3, special=(1.7e308,))]
    driven({"whole": [2.0**53] * 5 + [0.0] * 5, "far": [1.7e308, 1.0] * 5}, columns, tm.Budget(1000.0), tmp_path)


def test_numbers_of_one_position_each_have_no_products_of_scores():
    schema = tm.Schema([tm.Column(name, 0, 0.5, "integer") for name in "ab"])
    # Of one degree: the cosine of the middle rank is 0.
    mechanism = tm.TableMechanism(shares=Shares(0.3, 0.0, 0.5, 1))
    design = tm.design(50, schema, tm.Budget(1.0, 1e-6), mechanism).measured
    columns = [ReleasedColumn(partition, np.ones(1), 0.1) for partition in design.partitions]
    chosen = design_dependence(design, columns)
    assert [type(each.query) for each in chosen] == [Marginal]
    assert moved(chosen, "L2") <= 1.0


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


# What a file cannot hold is refused before the charge


def refused(words, columns, table, mechanism=FEW, budget=BOTH, **schema):
    """Hold that a run is refused by these words, and that nothing is charged or drawn for it."""
    run = Run(pd.DataFrame(table), tm.Schema(columns, **schema), budget, mechanism, "near", 0)
    with pytest.raises(TrigmechError, match=words):
        tm.design(len(run.table), run.schema, budget, mechanism)
    assert released(run) is None


def test_a_schema_that_a_manifest_cannot_hold_is_refused_before_the_charge(monkeypatch):
    long = tm.Column("c", kind="categorical", categories=("u", "v" * 2**24))
    refused("16777216. Give shorter or fewer categories", [long], {"c": ["u"] * 3})
    # Categories that are yet to be found count as so many of the greatest length.
    private = [tm.Column("c", kind="categorical", categories="private")]
    monkeypatch.setattr(archive, "MAX_MANIFEST", 2**16 + 2**17)
    assert tm.design(9, tm.Schema(private), BOTH).categories
    monkeypatch.setattr(archive, "MAX_MANIFEST", 2**16 + 2**16)
    refused("too long for the file", private, {"c": ["u"] * 3})


@pytest.mark.parametrize("field", ["purpose", "proof"])
@pytest.mark.parametrize("text", ["bell\x07", "x" * 10_001, 3, None], ids=["bell", "long", "number", "nothing"])
def test_a_charge_that_no_file_can_hold_is_refused(field, text):
    with pytest.raises(BudgetError, match=f"a charge's {field} must be a text"):
        tm.Charge(**{"purpose": "p", "law": "gaussian", "scale": 1.0, "sensitivity": 1.0, "norm": "L2", "count": 1,
                     "proof": "here", field: text})


@pytest.mark.parametrize("mechanism", [tm.TableMechanism, tm.MomentMechanism])
def test_points_that_a_file_cannot_hold_are_refused_before_the_charge(mechanism):
    numbers = [tm.Column(name, 0, 1) for name in "ab"]
    refused("points = 50000001 of 2 coordinates are more", numbers, {"a": [0, 1], "b": [0, 1]},
            mechanism(points=50_000_001))
    # By default there are fewer points of very many coordinates.
    assert mechanism().most_points(10**6, 2) == (100_000 if mechanism is tm.TableMechanism else 50_000)
    assert mechanism().most_points(10**6, 10_000) == 5_000


@pytest.mark.parametrize("count", [1_000, 3_000])
def test_a_large_table_with_thousands_of_categories_fits_into_a_file(count):
    columns = [tm.Column("town", kind="categorical", categories=tuple(range(count))),
               tm.Column("age", 0, 50, "integer"), tm.Column("pay", 0, 1_000)]
    assert tm.design(10**6, tm.Schema(columns), tm.Budget(2.0, 1e-7))


def test_what_arrays_may_take_is_refused_before_the_charge(monkeypatch):
    columns, table = [tm.Column(name, 0, 9) for name in "abc"], {name: [1.0, 2.0, 3.0] for name in "abc"}
    for mechanism in (FEW, tm.MomentMechanism(points=16, iterations=1), tm.MomentMechanism(fit="cloud")):
        assert tm.design(3, tm.Schema(columns), BOTH, mechanism)
        with monkeypatch.context() as patch:
            patch.setattr(archive, "MAX_BYTES", 2**16)
            refused("more than the 65536 bytes that a file can hold", columns, table, mechanism)
    with monkeypatch.context() as patch:
        patch.setattr(rounds_file, "LARGEST_FILE", 2**16)
        refused("bytes that a file can hold", columns, table)
    with monkeypatch.context() as patch:
        patch.setattr(measurements_file, "MOST_DEGREES", 5)
        refused("the degrees of all columns are 6 together", columns, table,
                tm.MomentMechanism(degree=2, pair_degree=0, triples=False, whole_row=False))


def test_no_more_finer_intervals_are_looked_at_than_files_hold(monkeypatch):
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1)])
    design = tm.design(10**6, schema, tm.Budget(10.0, 1e-6)).measured
    columns = [ReleasedColumn(partition, np.full(partition.size, 1.0 / partition.size), 1e-6)
               for partition in (column.cut(np.linspace(-1, 1, 33)) for column in design.partitions)]
    assert sum(look.query.size for look in closer_looks(design, columns)) == 2 * 32 * peaks.FINER
    monkeypatch.setattr(closer, "MOST_FINER", 40 * peaks.FINER)
    assert [(look.query.column, look.query.interval) for look in closer_looks(design, columns)] == [
        (0, i) for i in range(31, -1, -1)] + [(1, i) for i in range(31, 23, -1)]


@pytest.mark.daily("masses0")
@pytest.mark.parametrize("masses", [[0.225] * 4 + [0.1], [0.2] * 5, [0.0, 0.0, 0.5, 0.0, 0.5]])
def test_products_of_contrasts_of_many_columns_are_no_more_than_what_was_made_sure_of(masses):
    """Two wanted cells of a column can become five: of missing values, and of each of four levels."""
    schema = tm.Schema([tm.Column(f"c{j}", 0, 3, "integer", missing="keep") for j in range(200)])
    design = tm.design(5_000, schema, tm.Budget(10.0)).measured
    assert design.dependence.law == "linf"
    columns = [ReleasedColumn(partition, np.array([masses[-1], *masses[:-1]]), 1e-3) for partition in design.partitions]
    asked = design_dependence(design, columns)
    assert sum(each.query.size for each in (*design.looks, *asked)) <= design.largest.released


@pytest.mark.parametrize("specials", range(5))
def test_two_wanted_cells_of_a_column_are_no_more_than_are_counted(specials):
    rng, most = np.random.default_rng(specials), 0
    for levels in (None, *range(1, 8)):
        column = Partition(tuple(range(1, specials + 1)), 0, np.linspace(-1.0, 1.0, (levels or 9) + 1),
                           None if levels is None else np.linspace(-1.0, 1.0, levels) if levels > 1 else np.ones(1))
        limit = contrasted.most_cells_of_two(column)
        for alpha in (0.3, 1.0, 5.0, 100.0) * 50:
            cells = cells_of(ReleasedColumn(column, rng.dirichlet(np.full(column.size, alpha)), 0.1), 2, 0.25, 2)
            assert cells.max() < limit
            most = max(most, int(cells.max()) + 1)
    assert most > 3


@pytest.mark.daily(3)
@pytest.mark.parametrize("seed", range(4))
def test_files_are_no_larger_than_what_was_made_sure_of_before_the_charge(seed, tmp_path, monkeypatch):
    # The least limits with which a run is not refused hold what it releases.
    run = next(each for each in map(random_run, range(100 * seed, 100 * seed + 100)) if released(each) is not None)
    made = released(run)
    made.save(tmp_path / "made.tm")
    with zipfile.ZipFile(tmp_path / "made.tm") as file:
        sizes = {member.filename: member.file_size for member in file.infolist()}
    for name, size in (("MAX_MANIFEST", sizes[archive.MANIFEST]), ("MAX_BYTES", sum(sizes.values()))):
        with monkeypatch.context() as patch:
            patch.setattr(archive, name, size - 1)
            with pytest.raises(InputError):
                tm.design(made.n, run.schema, run.budget, run.mechanism)


# By the command line


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Run a command in a folder of its own, with few points; return its status and what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(default, "TableMechanism", partial(tm.TableMechanism, points=16))

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["trigmech", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            main()
        said = "".join(capsys.readouterr())
        assert "lost" not in said, said
        assert "Traceback" not in said, said
        return ending.value.code or 0, said

    return call


def released_by(command, run):
    """Release a run's table by the command line, and take the commands behind it; return the status."""
    run.table.to_csv("data.csv", index=False)
    schema_file.save("schema.toml", run.schema)
    for name in ("release.tm", "ledger.json", "release.html"):
        Path(name).unlink(missing_ok=True)
    status, said = command("release", "data.csv", "--schema", "schema.toml", "--epsilon", run.budget.epsilon, "--delta",
                           run.budget.delta, "--simulate", run.seed, "--out", "release.tm", "--ledger", "ledger.json",
                           "--csv", "rows.csv", "--force")
    assert status in (0, 2, 4), said
    if status:
        assert not Path("ledger.json").exists() or tm.LedgerFile.open("ledger.json").entries == ()
        return status
    for behind in (["sample", "release.tm", "--rows", 5, "--out", "sample.csv", "--force"],
                   ["release", "data.csv", "--schema", "schema.toml", "--epsilon", run.budget.epsilon, "--delta",
                    run.budget.delta, "--out", "other.tm", "--dry-run", "--json"]):
        status, said = command(*behind)
        assert status == 0, said
    return 0


@pytest.mark.daily("1000-1.0-an ordinal column")
@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize(("n", "epsilon"), [(10, 0.1), (1000, 1.0)])
def test_the_command_line_loses_no_release_of_rows_in_the_last_level(command, name, n, epsilon):
    table = pd.DataFrame({"short": [1] * n, "b": [1 if name == "integers" else "high"] * n})
    for seed in range(1):
        assert released_by(command, Run(table, tm.Schema(LAST[name]), tm.Budget(epsilon), None, "near", seed)) == 0
    assert command("report", "release.tm", "--out", "release.html")[0] == 0


@pytest.mark.daily(3)
@pytest.mark.parametrize("seed", range(4))
def test_the_command_line_refuses_random_tables_before_the_charge_or_releases_them(command, seed):
    released_by(command, random_run(seed, moments=False))


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_the_command_line_refuses_many_random_tables_before_the_charge_or_releases_them(command, block):
    seeds = range(5000 + 20 * block, 5020 + 20 * block)
    assert 0 in [released_by(command, random_run(seed, moments=False)) for seed in seeds]


def test_tables_for_lookup_that_a_file_cannot_hold_are_refused_before_the_charge(monkeypatch):
    # A hundredth of the room, and of the tables.
    monkeypatch.setattr(archive, "MAX_MANIFEST", archive.MAX_MANIFEST // 100)
    rows = [[f"key {k:06}" + "x" * 40, k] for k in range(1_000)]
    derived = [tm.Derived(f"d{j}", f'lookup("t{j}", c)', tables={f"t{j}": rows}) for j in range(3)]
    schema = tm.Schema([tm.Column("c", kind="categorical", categories=("u", "v"))], derived=derived)
    with pytest.raises(InputError, match="smaller tables for lookup"):
        tm.design(100, schema, tm.Budget(1.0, 1e-6))
    assert tm.design(100, tm.Schema(schema.columns, derived=derived[:1]), tm.Budget(1.0, 1e-6)).rounds
