"""A column that models will predict: what is measured for it, who may ask for it, and what its predictions gain."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli import SCHEMA as TOML
from test_cli import run, table_text  # noqa: F401 (a fixture)
from test_table_plan import DOMAIN

import trigmech as tm
from trigmech.errors import InputError
from trigmech.functions.partition import columns_of
from trigmech.mechanisms.base import PublicFacts
from trigmech.planning.shares import Shares, planned_shares

LEVELS = ("p", "q", "r", "s")
NAMES = (*"abcdefghij", "y")
SCHEMA = tm.Schema(tm.Column(name, kind="categorical", categories=LEVELS) for name in NAMES)


def table(n, seed):
    """Ten columns of four levels, of which the first two tell much about the last, which is in no order."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(4, size=(n, len(NAMES)))
    kept = rng.random(n) < 0.8
    codes[kept, -1] = np.array([2, 0, 3, 1])[(codes[kept, 0] + (codes[kept, 1] > 1)) % 4]
    return np.array(LEVELS, dtype=object)[codes]


def apart(made, real, j):
    """The total variation between tables of a column and the last one."""
    def counts(rows):
        codes = np.searchsorted(LEVELS, rows[:, [j, -1]].astype(str))
        return np.bincount(codes @ [4, 1], minlength=16) / len(codes)

    return 0.5 * np.abs(counts(made) - counts(real)).sum()


def test_tables_of_the_target_are_nearer_and_others_pay_for_it():
    """Fixed draws; without the target the first table is 1.8 times as far."""
    real, errors = table(1_500, 0), {}
    for target in (None, "y"):
        made = [tm.synthesize(real, SCHEMA, tm.Budget(1.0, 1e-6), tm.TableMechanism(target=target),
                              np.random.default_rng(seed)).sample(6_000, np.random.default_rng(9)) for seed in range(3)]
        errors[target] = np.mean([apart(each, real, 0) for each in made])
    assert errors["y"] < errors[None] / 1.3


@pytest.mark.parametrize("n", [300, 4_000])
def test_shares_for_a_target_leave_most_for_its_tables_while_noise_is_large(n):
    columns, shares = columns_of(DOMAIN), Shares(0.15, 0.03, 0.3, 0)
    strength = 0.2
    noise = np.sqrt(2.0 * (1.5 * len(columns) - 2.0)) / (n * strength)
    assert noise > 0.003
    assert planned_shares(n, columns, strength, True, True) == shares
    # With less noise, and without Gaussian noise, a target changes no share.
    more = int(np.ceil(n * noise / 0.003)) + 1
    assert planned_shares(more, columns, strength, True, True) == planned_shares(more, columns, strength, True)
    assert planned_shares(more - 2, columns, strength, True, True) == shares
    assert planned_shares(n, columns, strength, False, True) == planned_shares(n, columns, strength, False)


@pytest.mark.nightly
def test_a_release_of_a_target_is_rehearsed_as_it_was_planned(tmp_path):
    real = table(1_500, 1)
    made = tm.synthesize(real, SCHEMA, tm.Budget(1.0, 1e-6), tm.TableMechanism(target="y"), np.random.default_rng(2))
    made.save(tmp_path / "made.tm")
    planned = tm.load(tmp_path / "made.tm").planned.measured
    assert planned.crossed == made.design.measured.crossed == (10,)
    assert planned.triples == made.design.measured.triples
    # The plan of no target is another one.
    other = dataclasses.replace(made, design=None, mechanism=tm.TableMechanism()).planned
    assert other.measured.crossed == ()


@pytest.mark.parametrize(("options", "said"), [
    ({"target": "z"}, "the target, 'z', must be one of the columns 'a', 'b'"),
    ({"target": ""}, "target must be the name of a column, not ''"),
    ({"target": 3}, "target must be the name of a column, not 3"),
    ({"target": "y", "workload": tm.workload.Marginals(2)}, "give a target or a workload, not both")])
def test_what_is_no_target_is_refused_before_the_charge(options, said, tmp_path):
    book = tm.LedgerFile.create(tmp_path / "book.json", tm.Budget(1.0, 1e-6))
    with pytest.raises(InputError, match=said):
        tm.synthesize(table(50, 0), SCHEMA, tm.Budget(1.0, 1e-6), tm.TableMechanism(**options), ledger=book)
    assert not book.entries


@given(name=st.text(max_size=12))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_any_text_is_a_column_or_refused(name):
    facts = PublicFacts(500, SCHEMA.domain, tm.Budget(1.0, 1e-6), NAMES)
    if name in NAMES:
        assert tm.TableMechanism(target=name).plan(facts).measured.crossed == (NAMES.index(name),)
    else:
        with pytest.raises(InputError, match="target"):
            tm.TableMechanism(target=name).plan(facts)


def test_the_estimator_takes_a_target_in_place_of_a_mechanism():
    real = table(400, 3)
    made = tm.Synthesizer(SCHEMA, epsilon=1.0, delta=1e-6, target="y", random_state=5).fit(real)
    other = tm.Synthesizer(SCHEMA, epsilon=1.0, delta=1e-6, mechanism=tm.TableMechanism(target="y"),
                           random_state=5).fit(real)
    assert made.synthesis_.mechanism == tm.TableMechanism(target="y")
    np.testing.assert_array_equal(made.sample(random_state=0), other.sample(random_state=0))
    assert "target='y'" in repr(made)
    with pytest.raises(InputError, match="give a target or a mechanism, not both"):
        tm.Synthesizer(SCHEMA, target="y", mechanism=tm.TableMechanism()).fit(real)
    with pytest.raises(InputError, match="the target, 'label', must be one of the columns"):
        tm.Synthesizer(SCHEMA, target="label").fit(real)


def test_the_command_refuses_a_wrong_target_and_charges_nothing(run, tmp_path):  # noqa: F811
    (tmp_path / "data.csv").write_text(table_text())
    (tmp_path / "schema.toml").write_text(TOML)
    command = "release data.csv --schema schema.toml --epsilon 1 --delta 1e-4 --out new.tm --ledger book.json"
    for more in ("", " --dry-run"):
        status, _, said = run(*f"{command} --target label{more}".split())
        assert status == 2
        assert "the target, 'label', must be one of the columns 'age', 'income', 'colour', 'joined'" in said
    assert not tm.LedgerFile.exists("book.json") or not tm.LedgerFile.open("book.json").entries
    assert not (tmp_path / "new.tm").exists()
    smooth = "part design --schema schema.toml --n 150 --epsilon 1 --out new.json --smooth --target income"
    status, _, said = run(*smooth.split())
    assert status == 2
    assert "give --smooth or --target, not both" in said
