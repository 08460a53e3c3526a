"""Ledgers: what they refuse, what they say, and the file that processes share, attacked by edits, kills and races."""

import calendar
import copy
import dataclasses
import json
import os
import subprocess
import sys
import time
import tracemalloc
from contextlib import nullcontext

import pytest

from trigmech.errors import BudgetError, InputError
from trigmech.privacy import ledger_audit, ledger_file, ledger_format, ledger_lock, ledger_store
from trigmech.privacy.accounting import cost, epsilon_of, filtered_epsilon, gaussian_mu, next_charge
from trigmech.privacy.budget import Budget, Charge, shown_up
from trigmech.privacy.ledger import Ledger, LedgerFile


def laplace(epsilon, purpose="values", **options):
    return Charge(purpose, "laplace", 1.0 / epsilon, 1.0, "L1", 1, "given", **options)


def gaussian(mu, purpose="values"):
    return Charge(purpose, "gaussian", 1.0 / mu, 1.0, "L2", 1, "given")


# One run


def test_each_line_has_its_own_cost_and_a_simulation_says_so():
    ledger = Ledger(Budget(2.0, 1e-6), charges=[gaussian(0.2, "means"), laplace(0.5, "bounds", floor=1.0)])
    text = str(ledger)
    rows = {line.split()[0]: line.split() for line in text.splitlines()}
    own = epsilon_of([gaussian(0.2)], 1e-6)
    assert rows["means"][1:] == ["gaussian", "5", "1", "L2", "1", shown_up(own, 4), "1e-06", "given"]
    assert rows["bounds"][1:] == ["laplace", "2", "1", "L1", "1", "1", "0", "given"]
    assert f"proved: ({shown_up(ledger.proved_epsilon)}, 1e-06)-differential privacy" in text
    assert "NOT PRIVATE" not in text
    assert "NOT PRIVATE and must not be published" in str(Ledger(ledger.budget, True, True, ledger.charges))


def example():
    charges = [gaussian(0.2), laplace(0.1, floor=3.0, claim=Budget(0.5))]
    return Ledger(Budget(2.0, 1e-6), enforced=False, simulated=True, charges=charges, run="ab12")


def test_a_ledger_is_the_same_after_a_round_through_json():
    ledger = example()
    again = Ledger.from_dict(json.loads(json.dumps(ledger.to_dict())))
    assert again == ledger
    assert str(again) == str(ledger)
    assert again.run == "ab12"


CORRUPTIONS = [
    (("adjacency",), "add-one"), (("budget", "epsilon"), -1.0), (("enforced",), 1), (("run",), "a\x1b[2J"),
    (("charges",), {}), (("charges", 0, "law"), "laplace"), (("charges", 0, "scale"), 0.0),
    (("charges", 0, "sensitivity"), float("nan")), (("charges", 0, "count"), 10**400),
    (("charges", 0, "proof"), "x" * 100_000), (("charges", 1, "claim"), 1.0), (("charges", 1, "floor"), 0.0),
    (("charges", 1, "scale"), 10**400),
]


@pytest.mark.parametrize(("place", "value"), CORRUPTIONS, ids=lambda x: str(x)[:40])
def test_a_corrupted_ledger_is_refused_with_the_name_of_the_field(place, value):
    data = example().to_dict()
    inner = data
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    with pytest.raises(InputError, match=str(place[-1]) if value != "laplace" else "norm"):
        Ledger.from_dict(data)


# The file of a data set


@pytest.fixture
def book(tmp_path):
    return LedgerFile.create(tmp_path / "ledger.json", Budget(1.0, 1e-6), data_set="clinic")


def test_a_file_is_made_once_and_opened(tmp_path, book):
    with pytest.raises(InputError, match="exists"):
        LedgerFile.create(book.path, Budget(5.0))
    with pytest.raises(InputError, match="does not exist; make it once"):
        LedgerFile.open(tmp_path / "other.json")
    with pytest.raises(InputError, match="cannot write"):
        LedgerFile.create(tmp_path / "no" / "ledger.json", Budget(1.0))
    assert not (tmp_path / "no").exists()
    with pytest.raises(InputError, match="not a file"):
        LedgerFile.open(tmp_path)
    again = LedgerFile.open(str(book.path))
    assert (again.data_set, again.budget, again.entries, again.total, again.raises, again.claims) == (
        "clinic", Budget(1.0, 1e-6), (), 0.0, (), 0)
    assert (again.remaining.pure, again.remaining.gaussian, again.reserve_delta) == (1.0, 1.0, 0.0)
    assert again.verify() == []


def test_gaussian_noise_has_no_epsilon_that_a_pure_ledger_could_count(tmp_path):
    book = LedgerFile.create(tmp_path / "pure.json", Budget(1.0))
    with pytest.raises(BudgetError, match=r"columns: the charge has no finite epsilon at delta=0, so it cannot be "
                                          r"counted in the budget \(1, 0\) of .* pure release of up to epsilon = 1\."):
        book.check([gaussian(0.01, "columns")])


def test_runs_share_the_budget_and_a_refused_charge_leaves_no_trace(book):
    Ledger(Budget(0.5), file=book).charge(laplace(0.2), laplace(0.3))
    second = Ledger(Budget(1.0), file=LedgerFile.open(book.path))
    before = book.path.read_bytes()
    with pytest.raises(BudgetError, match=r"the data set's total to 1\.1 at delta=1e-06, over the budget"):
        second.charge(laplace(0.4), laplace(0.2))
    assert second.charges == []
    with pytest.raises(BudgetError, match=r"would accept a pure release of up to epsilon = 0\.5"):
        book.check([laplace(0.6)])
    # The run's own budget comes first, and is not the file's matter.
    with pytest.raises(BudgetError, match="bring epsilon"):
        Ledger(Budget(0.1), file=book).charge(laplace(0.2))
    assert book.path.read_bytes() == before
    second.charge(laplace(0.5))
    assert [entry.sequence for entry in book.entries] == [1, 2, 3]
    assert len({entry.run for entry in book.entries}) == 2
    assert book.total == pytest.approx(1.0)
    assert (book.remaining.pure, book.remaining.gaussian) == (0.0, 0.0)
    assert "accepted next: nothing" in str(book)
    assert book.verify() == []


def test_a_run_is_charged_by_one_process_that_knows_all_its_charges(book):
    """What is known is compared where it is written, of any run, however often the others looked before."""
    mine, other = (Ledger(Budget(1.0), file=LedgerFile.open(book.path), run="run") for _ in range(2))
    mine.charge(laplace(0.1))
    mine.charge(laplace(0.2))
    with pytest.raises(InputError, match="charges of this run from another process or another rounds file"):
        other.charge(laplace(0.1))
    assert other.charges == []
    # Who knows the first one alone is no better; who knows both goes on.
    known = [entry.charge for entry in book.entries]
    for count in (1, 2):
        again = Ledger(Budget(1.0), file=book, run="run", written=known[:count])
        again.charge(*known[:count])
        with pytest.raises(InputError, match="of this run") if count == 1 else nullcontext():
            again.charge(laplace(0.3))
    # Attempts at one run are of that run; what looks like one and is none is not.
    first, second = ledger_lock.new_attempt("0" * 16), ledger_lock.new_attempt("0" * 16)
    book.charge(first, [laplace(0.01)], False, [])
    for run in (second, "0" * 16):
        with pytest.raises(InputError, match="of this run"):
            book.charge(run, [laplace(0.01)], False, [])
    book.charge("0" * 16 + "-x", [laplace(0.01)], False, [])
    book.charge(first, [laplace(0.01)], False, [laplace(0.01)])
    assert [entry.run for entry in book.entries] == ["run"] * 3 + [first, "0" * 16 + "-x", first]
    with pytest.raises(InputError, match="16 hexadecimal digits"):
        ledger_lock.new_attempt("run")


def test_a_file_with_a_second_name_is_not_written_to(book, tmp_path):
    other = tmp_path / "other.json"
    os.link(book.path, other)
    before = book.path.read_bytes()
    for path in (book.path, other):
        again = LedgerFile.open(path)
        for refused in (lambda a=again: Ledger(Budget(1.0), file=a).charge(laplace(0.1)),
                        lambda a=again: a.check([laplace(0.1)]), lambda a=again: a.raise_budget(Budget(2.0, 1e-6)),
                        lambda a=again: a.add("mean", Budget(0.1), "tool", neighbours="replace-one")):
            with pytest.raises(InputError, match=r"has 2 names \(hard links\).*keep one name only"):
                refused()
    assert book.path.read_bytes() == other.read_bytes() == before
    other.unlink()
    Ledger(Budget(1.0), file=book).charge(laplace(0.1))
    assert book.total == 0.1


# Raising the budget


def test_a_raised_budget_is_recorded_and_admits_more(book):
    Ledger(Budget(1.0), file=book).charge(laplace(0.9))
    with pytest.raises(BudgetError, match="data set"):
        book.charge("run", [laplace(0.9)], False)
    book.raise_budget(Budget(2.0, 1e-6))
    book.charge("run", [laplace(0.9)], False)
    book.raise_budget(Budget(2.0, 1e-5), reserve_delta=5e-6)
    book.add("mean age", Budget(0.1, 1e-6), "tool", neighbours="replace-one")
    assert (book.budget, book.reserve_delta) == (Budget(2.0, 1e-5), 5e-6)
    first, second = book.raises
    assert (first.sequence, first.old.budget, first.new.budget) == (2, Budget(1.0, 1e-6), Budget(2.0, 1e-6))
    assert (second.sequence, second.new.reserve_delta) == (4, 5e-6)
    assert [entry.sequence for entry in book.entries] == [1, 3, 5]
    assert "the budget was raised from (1, 1e-06) to (2, 1e-06)" in str(book)
    assert book.total == pytest.approx(1.9)
    again = LedgerFile.open(book.path)
    assert again.verify() == book.verify() == []
    assert again.summary() == book.summary()


@pytest.mark.parametrize(("budget", "reserve"), [
    (Budget(1.0, 1e-6), None), (Budget(0.9, 1e-6), None), (Budget(2.0, 1e-7), None), (Budget(2.0), None),
    (Budget(0.9, 1e-5), None), (Budget(2.0, 1e-6), 1e-7), (Budget(2.0, 1e-6), 2e-6), (Budget(2.0, 1e-6), -1.0)])
def test_a_budget_is_lowered_in_no_part(book, budget, reserve):
    before = book.path.read_bytes()
    with pytest.raises(BudgetError, match=r"can only be raised|reserve of delta must be from 0"):
        book.raise_budget(budget, reserve)
    assert book.path.read_bytes() == before
    with pytest.raises(BudgetError, match="must be a Budget"):
        book.raise_budget(5.0)


# Claims of other tools


def test_where_a_release_went_is_recorded_in_the_chain_and_costs_nothing(book):
    book.charge("run", [laplace(0.25)], False)
    total, left = book.total, str(book.remaining)
    book.note_kept("run", "/elsewhere/release.tm")
    again = LedgerFile.open(book.path)
    assert (again.total, str(again.remaining), len(again.entries), again.verify()) == (total, left, 1, [])
    assert "run              its release was saved as '/elsewhere/release.tm'" in str(again)
    again.charge("other", [laplace(0.125)], False)
    assert [entry.sequence for entry in LedgerFile.open(book.path).entries] == [1, 3]
    text = book.path.read_text()
    for old, new in (("/elsewhere", "/somewhere"), ('"kept": {"run": "run"', '"kept": {"run": "other"')):
        assert old in text
        book.path.write_text(text.replace(old, new))
        assert LedgerFile.open(book.path).verify()
    book.path.write_text(text.replace('"path": "/elsewhere/release.tm"', '"path": 5'))
    with pytest.raises(InputError, match="kept: path must be"):
        LedgerFile.open(book.path)


def test_claims_of_other_tools_are_recorded_counted_and_told_as_claims(tmp_path):
    book = LedgerFile.create(tmp_path / "l.json", Budget(3.0, 1e-6), reserve_delta=4e-7)
    book.add("mean age", Budget(0.3), "tool 1.0", neighbours="replace-one", count=2)
    book.add("counts", Budget(0.1, 1e-7), "tool 2.0", neighbours="add-remove")
    Ledger(Budget(0.5, 1e-6), file=book).charge(gaussian(0.05))
    first, second, _ = (entry.charge for entry in book.entries)
    assert first == Charge.claimed("mean age", Budget(0.3), "tool 1.0", 2)
    assert second.purpose == "counts (from (0.1, 1e-07) for adding or removing a row)"
    assert second.claim == Budget(0.1, 1e-7).for_replace_one()
    assert (book.entries[0].epsilon, book.entries[0].delta) == (0.6, 0.0)
    assert book.total == filtered_epsilon([first, second, gaussian(0.05)], 1e-6, 4e-7)
    text = str(book)
    assert text.count("not proved here") == 3
    assert "claimed by tool 1.0, not proved here" in text
    assert "claims of other tools, not proved here: 2" in text
    assert "budget: (3, 1e-06), reserve 4e-07, for claims of other tools" in text
    assert (book.claims, book.summary()["claimed"], book.summary()["reserve_delta"]) == (2, 2, 4e-7)
    assert LedgerFile.open(book.path).verify() == []


def test_the_ledger_of_a_run_tells_claims_as_claims():
    ledger = Ledger(Budget(1.0, 1e-6))
    ledger.charge(Charge.claimed("mean", Budget(0.4, 1e-7), "tool"), laplace(0.5))
    assert "not proved here: the rest is true only if they are" in str(ledger)
    assert 0.89 < ledger.proved_epsilon <= 0.9
    with pytest.raises(BudgetError, match="would bring epsilon to inf"):
        ledger.charge(Charge.claimed("mean", Budget(0.01, 1e-6), "tool"))


BAD_CLAIMS = {
    "a delta above the reserve": ({"claim": Budget(0.1, 3e-7)}, BudgetError, "deltas to 3e-07, over the reserve 2e-07"),
    "above it once converted": ({"claim": Budget(0.1, 1e-7), "neighbours": "add-remove"}, BudgetError,
                                "over the reserve"),
    "too much": ({"claim": Budget(1.1)}, BudgetError, "over the budget (1, 1e-06)"),
    "too often": ({"claim": Budget(0.1), "count": 11}, BudgetError, "over the budget (1, 1e-06)"),
    "no budget": ({"claim": 0.1}, BudgetError, "claim must be a Budget"),
    "no releases": ({"count": 0}, BudgetError, "count must be from 1"),
    "other neighbours": ({"neighbours": "edges"}, InputError, "must be one of replace-one, add-remove, not 'edges'"),
    "no purpose": ({"purpose": " "}, InputError, "'purpose' must not be empty"),
    "a tool that commands the terminal": ({"tool": "a\x1b[2J"}, InputError, "tool must be a text of at most 10000"),
    "implies nothing": ({"claim": Budget(9.0, 0.1), "neighbours": "add-remove"}, BudgetError, "implies no guarantee"),
}


@pytest.mark.parametrize("name", BAD_CLAIMS)
def test_a_claim_that_breaks_a_rule_is_refused_and_leaves_no_trace(tmp_path, name):
    changed, kind, words = BAD_CLAIMS[name]
    book = LedgerFile.create(tmp_path / "l.json", Budget(1.0, 1e-6), reserve_delta=2e-7)
    before = book.path.read_bytes()
    given = {"purpose": "mean", "claim": Budget(0.1), "tool": "tool", "neighbours": "replace-one"} | changed
    with pytest.raises(kind) as error:
        book.add(given.pop("purpose"), given.pop("claim"), given.pop("tool"), **given)
    assert words in str(error.value)
    assert book.path.read_bytes() == before


def test_thresholds_use_the_reserve_and_the_noise_beside_them_what_it_leaves(tmp_path):
    charges = [gaussian(0.2), Charge("threshold", "threshold", 1e-7, 0.0, "none", 1, "given")]
    book = LedgerFile.create(tmp_path / "l.json", Budget(1.0, 1e-6), reserve_delta=1.5e-7)
    Ledger(Budget(1.0, 1e-6), file=book).charge(*charges)
    # Another one of another delta, by which the costs of entries are told apart.
    book.charge("run", [dataclasses.replace(charges[1], scale=4e-8)], False)
    assert [(entry.epsilon, entry.delta) for entry in book.entries[1:]] == [(0.0, 1e-7), (0.0, 4e-8)]
    assert book.total == filtered_epsilon(charges, 1e-6, 1.5e-7) > filtered_epsilon(charges[:1], 1e-6)
    assert (book.claims, LedgerFile.open(book.path).verify()) == (0, [])
    assert "not proved here" not in str(book)
    with pytest.raises(BudgetError, match=r"deltas to 2.4e-07, over the reserve 1.5e-07 \(private") as refused:
        Ledger(Budget(1.0, 1e-6), file=book).charge(*charges)
    # A larger budget would not help.
    assert "--reserve-delta" in str(refused.value)
    assert "ledger raise" not in str(refused.value)


# The first format

FIRST = """{"format": "trigmech ledger 1",
"adjacency": "replace-one: two tables are neighbours if they differ in one row; n is public",
"data_set": "clinic", "budget": {"epsilon": 1.0, "delta": 1e-06}, "created": "2026-01-02T03:04:05Z",
"total": 0.5, "entries": [{"sequence": 1, "time": "2026-01-02T03:04:06Z", "run": "ab12", "version": "0.1.0",
"simulated": false, "charge": {"purpose": "values", "law": "laplace", "scale": 2.0, "sensitivity": 1.0,
"norm": "L1", "count": 1, "proof": "given", "claim": null, "floor": null}, "epsilon": 0.5, "delta": 0.0,
"hash": "6ca4f262adbeb16166868770cd6a575718ae668e480c425980e25d81bce331f8"}]}
"""


def test_a_file_of_the_first_format_keeps_its_meaning_and_its_chain(tmp_path):
    path = tmp_path / "old.json"
    path.write_text(FIRST)
    book = LedgerFile.open(path)
    assert (book.budget, book.reserve_delta, book.total, len(book.entries)) == (Budget(1.0, 1e-6), 0.0, 0.5, 1)
    assert book.verify() == []
    head = book.summary()["last"]
    assert path.read_text() == FIRST
    book.charge("run", [laplace(0.25)], False)
    data = json.loads(path.read_text())
    assert (data["format"], data["chain"]) == ("trigmech ledger 2", "trigmech ledger 1")
    assert data["entries"][0]["hash"] == head == "6ca4f262adbeb16166868770cd6a575718ae668e480c425980e25d81bce331f8"
    book.raise_budget(Budget(2.0, 1e-6))
    for reader in (book, LedgerFile.open(path)):
        assert reader.verify() == []
        assert (reader.total, reader.budget) == (0.75, Budget(2.0, 1e-6))
    # Without its chain's beginning the same entries do not verify.
    path.write_text(path.read_text().replace('"chain": "trigmech ledger 1"', '"chain": "trigmech ledger 2"').replace(
        '"delta": 1e-06}, "created"', '"delta": 1e-06, "reserve_delta": 0.0}, "created"'))
    assert LedgerFile.open(path).verify() != []


def test_later_runs_are_counted_as_chosen_after_looking(book):
    # Each of the many small charges is pure; together they are cheaper by Gaussian DP.
    ledger = Ledger(Budget(3.0), file=book)
    charges = [Charge("cells", "laplace", 100.0, 1.0, "each", 100, "given"), gaussian(0.1)]
    Ledger(Budget(1.0, 1e-6), file=book).charge(charges[1])
    ledger.charge(charges[0])
    mu = (100 * (0.01 * (1.57079632679) ** 0.5) ** 2 + 0.01) ** 0.5
    assert book.total == pytest.approx(epsilon_of([gaussian(mu)], 1e-6), rel=1e-4)
    assert book.total < 1.0 < epsilon_of(charges[:1], 0.0) + epsilon_of(charges[1:], 1e-6)


def test_simulations_are_recorded_but_not_counted_and_published_scales_are_counted(book):
    Ledger(Budget(9.0), simulated=True, file=book).charge(laplace(5.0, "trial"))
    assert book.total == 0.0
    claimed = Ledger(Budget(0.1), enforced=False, file=book)
    claimed.charge(laplace(0.7, claim=Budget(0.1)))
    assert book.total == pytest.approx(0.7)
    with pytest.raises(BudgetError, match="data set"):
        claimed.charge(laplace(0.7))
    assert len(claimed.charges) == 1
    text = str(book)
    assert "SIMULATED, not counted" in text
    assert "NOT PRIVATE and must not be published" in text
    assert "total: (0.7, 1e-06)" in text
    said = json.loads(json.dumps(book.summary(), allow_nan=False))
    assert (said["total"], said["simulated"], len(said["entries"])) == (pytest.approx(0.7), 1, 2)
    assert said["last"] == book.entries[-1].hash
    assert book.verify() == []


# Of a budget: two charges that fill it, and what the second would be if it exceeded the budget by a given part.
FILLING = {
    "pure, of a budget with delta": (Budget(1.0, 1e-6), lambda part: laplace(0.5 + part)),
    "gaussian": (Budget(1.0, 1e-6), lambda part: gaussian(gaussian_mu(Budget(1.0, 1e-6)) * (0.5 + part) ** 0.5)),
}


@pytest.mark.parametrize("part", [1e-5, 0.1])
@pytest.mark.parametrize("case", FILLING)
def test_a_file_takes_its_budget_to_the_last_and_not_the_least_more(case, part, tmp_path):
    budget, half = FILLING[case]
    book = LedgerFile.create(tmp_path / "full.json", budget)
    book.charge("first", [half(0.0)], False)
    before = book.path.read_bytes()
    # Over it by this part, in one charge or in two, and by whoever asks: the file, or a run with a budget of its own.
    for more in ([half(part)], [half(0.0), half(part - 0.5)]):
        with pytest.raises(BudgetError, match="over the budget"):
            book.charge("second", more, False)
        with pytest.raises(BudgetError, match="over the budget"):
            Ledger(Budget(9.0, 1e-6), file=book).charge(*more)
    assert book.path.read_bytes() == before
    book.charge("second", [half(0.0)], False)
    assert (1.0 - 1e-5) * budget.epsilon < book.total <= budget.epsilon
    assert book.verify() == []


def test_a_link_shares_the_file_and_its_lock(book, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(book.path)
    Ledger(Budget(1.0), file=LedgerFile.open(link)).charge(laplace(0.5))
    assert link.is_symlink()
    assert book.total == 0.5
    # Whoever comes by the link waits for those who come by the name.
    waiting = LedgerFile.open(link, timeout=0.1)
    assert waiting.path == book.path
    with ledger_lock.locked(book.path, 1.0), pytest.raises(InputError, match="has held the lock"):
        waiting.charge("run", [laplace(0.1)], False)


@pytest.mark.parametrize("timeout", ["5", None, -1.0, float("nan")])
def test_a_timeout_is_a_number_of_seconds(book, timeout):
    for refused in (lambda: LedgerFile.create(book.path.with_name("new.json"), Budget(1.0), timeout=timeout),
                    lambda: LedgerFile.open(book.path, timeout=timeout).charge("run", [laplace(0.1)], False)):
        with pytest.raises(InputError, match="timeout must be at least 0 seconds, not "):
            refused()


def test_a_lock_that_is_held_too_long_is_an_error(book):
    waiting = LedgerFile.open(book.path, timeout=0.1)
    with ledger_lock.locked(book.path, 1.0), pytest.raises(InputError, match=r"has held the lock .* for 0\.1 seconds"):
        waiting.charge("run", [laplace(0.1)], False)
    waiting.charge("run", [laplace(0.1)], False)
    assert book.total == 0.1


def test_a_file_is_removed_if_nobody_has_charged_it_and_its_other_readers_charge_nothing(tmp_path):
    made = LedgerFile.create(tmp_path / "l.json", Budget(1.0))
    other = LedgerFile.open(tmp_path / "l.json")
    other.charge("run", [laplace(0.5)], simulated=True)
    before = made.path.read_bytes()
    assert not made.removed_if_unused()
    assert made.path.read_bytes() == before
    made = LedgerFile.create(tmp_path / "m.json", Budget(1.0))
    other = LedgerFile.open(tmp_path / "m.json")
    assert made.removed_if_unused()
    with pytest.raises(InputError, match="does not exist"):
        other.charge("run", [laplace(0.5)], simulated=False)
    assert not made.path.exists()


def test_what_could_not_be_read_again_is_not_written(book, monkeypatch):
    before = book.path.read_bytes()
    with pytest.raises(BudgetError, match="purpose"):
        laplace(0.1, "a\nb")
    monkeypatch.setattr(ledger_format, "LARGEST_FILE", 2000)
    with pytest.raises(InputError, match="would be too large"):
        book.charge("run", [laplace(0.01)] * 5, False)
    monkeypatch.undo()
    monkeypatch.setattr(ledger_store, "write_whole", lambda path, content: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(InputError, match="cannot be written: full"):
        book.charge("run", [laplace(0.01)], False)
    assert book.path.read_bytes() == before


# Tampering


def tampered(book, change):
    """What a fresh reader finds after a change of the parsed file."""
    original = book.path.read_bytes()
    data = json.loads(original)
    change(data)
    book.path.write_text(json.dumps(data))
    found = LedgerFile.open(book.path).verify()
    with pytest.raises(InputError) if found else pytest.raises(BudgetError):
        LedgerFile.open(book.path).charge("run", [laplace(1000.0)], False)
    book.path.write_bytes(original)
    return found


def swap(data):
    entries = data["entries"]
    entries[1], entries[2] = entries[2], entries[1]
    entries[1]["sequence"], entries[2]["sequence"] = 2, 3


TAMPERING = {
    "a scale": lambda data: data["entries"][1]["charge"].update(scale=1e9),
    "simulated": lambda data: data["entries"][0].update(simulated=True),
    "taken out of the middle": lambda data: data["entries"].pop(1),
    "order": swap,
    "put in": lambda data: data["entries"].insert(1, copy.deepcopy(data["entries"][1])),
    "the first": lambda data: data["entries"].pop(0),
    "the last": lambda data: data["entries"].pop(),
    "the total": lambda data: data.update(total=0.1),
    "the budget": lambda data: data.update(budget={"epsilon": 50.0, "delta": 1e-6, "reserve_delta": 0.0}),
    "the chain": lambda data: data.update(chain="trigmech ledger 1", budget={"epsilon": 1.0, "delta": 1e-6}),
    "a raise": lambda data: data["entries"][3]["raised"]["new"].update(epsilon=50.0),
    "a raise from elsewhere": lambda data: data["entries"][3]["raised"]["old"].update(epsilon=0.5),
    "a claim": lambda data: data["entries"][4]["charge"].update(proof="proved"),
    "the name": lambda data: data.update(data_set="other"),
}


def other_than(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    return value + "x" if isinstance(value, str) else 2 * value + 1


def state_of(book):
    return ledger_format.parsed(book.path.read_bytes(), "the ledger")


def test_every_field_is_in_the_chain(book):
    # Also where no total, order or epsilon would give the change away: what is compared are the hashes alone.
    charge = laplace(0.1, floor=20.0, claim=Budget(0.5))
    book.charge("run", [charge], True)
    (entry,) = book.entries
    before = state_of(book).genesis
    assert entry.digest(before) == entry.hash
    changed = {}
    for field in dataclasses.fields(entry):
        if field.name not in ("hash", "charge"):
            changed[field.name] = dataclasses.replace(entry, **{field.name: other_than(getattr(entry, field.name))})
    others = {"law": "linf", "norm": "each", "claim": None, "floor": None}
    for field in dataclasses.fields(charge):
        new = others.get(field.name) if field.name in others else other_than(getattr(charge, field.name))
        options = {"norm": "Linf"} if field.name == "law" else {}
        changed[f"charge.{field.name}"] = dataclasses.replace(
            entry, charge=dataclasses.replace(charge, **{field.name: new, **options}))
    assert len(changed) == 8 - 1 + 9
    assert [name for name, other in changed.items() if other.digest(before) == entry.hash] == []
    # And what stood before it, which begins with all that the file says of itself.
    assert entry.digest(other_than(before)) != entry.hash
    state = state_of(book)
    limits = [ledger_format.Limit(Budget(2.0, 1e-6)), ledger_format.Limit(Budget(1.0, 1e-5)),
              ledger_format.Limit(Budget(1.0, 1e-6), 1e-7)]
    for new in ({"data_set": "other"}, *({"made": limit} for limit in limits), {"created": "2001-01-01T00:00:00Z"}):
        assert dataclasses.replace(state, **new).genesis != state.genesis


@pytest.mark.parametrize("name", TAMPERING)
def test_edits_are_found(book, name):
    Ledger(Budget(1.0), file=book).charge(*(laplace(0.1 * k) for k in (1, 2, 3)))
    book.raise_budget(Budget(2.0, 1e-6))
    book.add("mean", Budget(0.1), "tool", neighbours="replace-one")
    assert tampered(book, lambda data: None) == []
    assert tampered(book, TAMPERING[name])


def test_a_recomputed_own_epsilon_is_checked_behind_right_hashes(book, monkeypatch):
    monkeypatch.setattr(ledger_file, "cost", lambda charge, delta: (0.01, 0.0))
    Ledger(Budget(1.0), file=book).charge(laplace(0.5))
    monkeypatch.undo()
    assert book.verify() == ["entry 1 states epsilon = 0.01 at delta = 0, but it is 0.5 at 0"]


def rewritten(made, *parts):
    """A ledger of charges and of raises (old, new) whose numbers, hashes and total agree, as a forger would make it."""
    entries, before, now, limit = [], made.genesis, "2026-01-02T03:04:06+00:00", made.made
    for place, part in enumerate(parts, 1):
        if isinstance(part, Charge):
            entry = ledger_format.Entry(place, now, "ab12", "0.1.0", False, part, *cost(part, limit.budget.delta), "")
        else:
            entry, limit = ledger_format.Raised(place, now, "0.1.0", *part, ""), part[1]
        entry = dataclasses.replace(entry, hash=entry.digest(before))
        entries.append(entry)
        before = entry.hash
    state = dataclasses.replace(made, entries=tuple(entries))
    return dataclasses.replace(state, total=filtered_epsilon(state.counted, limit.budget.delta, limit.reserve_delta))


def limit(epsilon, delta=1e-6, reserve=0.0):
    return ledger_format.Limit(Budget(epsilon, delta), reserve)


RIGHT_HASHES = {
    "all is well": ([laplace(0.4), (limit(1.0), limit(2.0)), laplace(1.5)], []),
    "more than the budget": ([laplace(0.4), laplace(0.7)], ["the total 1.1 exceeds the budget (1, 1e-06)"]),
    "more than the raised budget": ([(limit(1.0), limit(1.5)), laplace(1.6)],
                                    ["the total 1.6 exceeds the budget (1.5, 1e-06)"]),
    "a raise from another budget": ([(limit(1.5), limit(2.0))],
                                    ["entry 1 states that the budget was (1.5, 1e-06), but it was (1, 1e-06)"]),
    "a raise from the first budget again": ([(limit(1.0), limit(2.0)), laplace(0.1), (limit(1.0), limit(3.0))],
                                            ["entry 3 states that the budget was (1, 1e-06), but it was (2, 1e-06)"]),
    "a raise from another reserve": ([(limit(1.0, 1e-6, 1e-7), limit(2.0, 1e-6, 1e-7))],
                                     ["entry 1 states that the budget was (1, 1e-06), reserve 1e-07, but it "
                                       "was (1, 1e-06)"]),
}


@pytest.mark.parametrize("name", RIGHT_HASHES)
def test_what_no_hash_gives_away_is_found_and_nothing_is_charged_then(book, name):
    parts, wanted = RIGHT_HASHES[name]
    state = rewritten(state_of(book), *parts)
    for own in (False, True):
        assert ledger_audit.problems(state, own) == wanted
    book.path.write_bytes(ledger_format.content_of(state, "the ledger"))
    again = LedgerFile.open(book.path)
    assert again.verify() == wanted
    if wanted:
        with pytest.raises(InputError, match="does not verify, so nothing is charged"):
            again.charge("run", [laplace(1e-3)], False)


def test_each_number_and_the_total_are_compared_behind_right_hashes(book):
    state = rewritten(state_of(book), laplace(0.2), laplace(0.3))
    assert ledger_audit.problems(dataclasses.replace(state, total=0.4)) == [
        "the ledger states the total 0.4, but it is 0.5"]
    moved = dataclasses.replace(state.entries[1], sequence=7)
    moved = dataclasses.replace(moved, hash=moved.digest(state.entries[0].hash))
    assert ledger_audit.problems(dataclasses.replace(state, entries=(state.entries[0], moved))) == [
        "entry 2 has the number 7"]


@pytest.mark.parametrize(("old", "new", "above"), [
    (limit(1.0), limit(2.0), True), (limit(1.0), limit(1.0), False), (limit(1.0), limit(0.5), False),
    (limit(1.0), limit(2.0, 1e-7), False), (limit(1.0, 1e-6, 2e-7), limit(1.0, 1e-5, 2e-7), True),
    # A reserve that is smaller refuses claims that were admitted, a larger one alone what is no claim.
    (limit(1.0, 1e-6, 2e-7), limit(2.0, 1e-6, 1e-7), False), (limit(1.0, 1e-6, 2e-7), limit(2.0, 1e-6, 3e-7), False),
    (limit(1.0, 1e-6, 2e-7), limit(1.0, 1.1e-6, 3e-7), True), (limit(1.0, 3e-7, 1e-7), limit(1.0, 4e-7, 2e-7), True)])
def test_a_budget_is_above_another_if_it_admits_all_that_the_other_does(old, new, above):
    assert new.is_above(old) == above


def test_what_is_accepted_next_goes_by_the_raised_budget(book):
    Ledger(Budget(1.0), file=book).charge(laplace(0.9))
    book.raise_budget(Budget(2.0, 1e-6))
    assert book.remaining.pure == pytest.approx(1.1)
    book.raise_budget(Budget(2.0, 1e-5), reserve_delta=4e-6)
    left = next_charge([laplace(0.9)], Budget(2.0, 1e-5), 4e-6)
    assert (left.delta, left.claimed_delta) == (1e-5, 4e-6)
    assert book.remaining == left
    assert f"accepted next: {left}\n" in str(book)
    assert book.summary()["remaining"] == dataclasses.asdict(left)
    # As it says, so it does.
    book.charge("run", [laplace(left.pure)], False)
    assert book.remaining.pure == 0.0


def test_a_roll_back_is_noticed_by_who_saw_more_and_by_nobody_else(book):
    older = book.path.read_bytes()
    Ledger(Budget(1.0), file=book).charge(laplace(0.9))
    book.path.write_bytes(older)
    assert LedgerFile.open(book.path).verify() == []
    assert "no longer begins with" in book.verify()[0]
    with pytest.raises(InputError, match="no longer begins with"):
        book.charge("run", [laplace(0.9)], False)
    book.path.unlink()
    LedgerFile.create(book.path, Budget(9.0, 1e-6), "clinic")
    with pytest.raises(InputError, match="not the ledger that was opened"):
        _ = book.total


@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_kind_of_entry_has_a_time_in_utc(place, book):
    Ledger(Budget(1.0), file=book).charge(laplace(0.1))
    book.raise_budget(Budget(2.0, 1e-6))
    book.note_kept(book.entries[0].run, "clinic.tm")
    data = json.loads(book.path.read_text())
    for told in ("yesterday", "2026-01-01T00:00:00", "2026-01-01T00:00:00+01:00", ""):
        data["entries"][place]["time"] = told
        book.path.write_text(json.dumps(data))
        with pytest.raises(InputError, match=f"entry {place + 1}: a time must be ISO 8601 in UTC"):
            LedgerFile.open(book.path)


def entry_text(book):
    Ledger(Budget(1.0), file=book).charge(laplace(0.1))
    return book.path.read_text()


@pytest.mark.parametrize("hostile", [
    lambda text: "", lambda text: text[: len(text) // 2], lambda text: text + "}", lambda text: "\x00" * 100,
    lambda text: "[" * 100_000, lambda text: '{"a":' * 100_000, lambda text: "null", lambda text: "[]",
    lambda text: text.replace('"total": 0.1', '"total": NaN'),
    lambda text: text.replace('"total": 0.1', '"total": ' + "9" * 5000),
    lambda text: text.replace('"simulated": false', '"simulated": false, "simulated": true'),
    lambda text: text.replace('"count": 1', '"count": 1e3'), lambda text: text.replace("trigmech ledger 2", "ledger 2"),
    lambda text: text.replace('"chain": "trigmech ledger 2"', '"chain": "trigmech ledger 3"'),
    lambda text: text.replace('"reserve_delta": 0.0', '"reserve_delta": 1e-05'),
    lambda text: text.replace('"simulated": false', '"raised": {}'),
    lambda text: text.replace("clinic", "\\u001b[2J"), lambda text: text.replace("clinic", "\\ud800"),
    lambda text: text.replace('"created": "2', '"created": "x'),
    lambda text: text.replace('"charge": {', '"charge": {"more": 1, '), lambda text: text.replace("Z", "+01:00"),
    lambda text: '{"entries": [' + "{}," * 500_000 + "{}]}", lambda text: "[" + "1," * 5_000_000 + "1]",
])
def test_hostile_files_are_refused_in_bounded_time_and_memory(book, hostile):
    text = entry_text(book)
    book.path.write_text(hostile(text))
    assert book.path.read_text() != text
    started = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=r"ledger\.json"):
            LedgerFile.open(book.path)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 100e6
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(("mark", "most"), [("{", 400_000), ("[", 400_000), (",", 4_000_000)])
def test_a_text_of_more_braces_brackets_or_commas_than_a_ledger_can_have_is_not_parsed(mark, most):
    ledger_format.check_size(mark.encode() * most, "the ledger")
    with pytest.raises(InputError, match=f"the ledger has more than {most} '\\{mark}'"):
        ledger_format.check_size(mark.encode() * (most + 1), "the ledger")


def test_a_file_of_any_size_is_refused_and_bytes_that_are_no_text(book):
    book.path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match="not JSON"):
        LedgerFile.open(book.path)
    with book.path.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(InputError, match="has more than 67108864 bytes"):
        LedgerFile.open(book.path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(book.path.with_name("pipe"))
        with pytest.raises(InputError, match="not a file"):
            LedgerFile.open(book.path.with_name("pipe"))


# Races. One process imports the package and forks the writers, which is quicker than starting each.

WRITERS = """
import os, sys
from trigmech.errors import BudgetError, InputError
from trigmech.privacy.budget import Budget, Charge
from trigmech.privacy.ledger import Ledger, LedgerFile

def work(path, label, acknowledge):
    for k in range(20):
        name = f"{label} {k}"
        try:
            opened = LedgerFile.open(path)
            if k % 2:
                opened.add(name, Budget(0.01), "tool" * 500, neighbours="replace-one")
            else:
                Ledger(Budget(1.0), file=opened).charge(Charge(name, "laplace", 100.0, 1.0, "L1", 1, "given" * 500))
        except BudgetError:
            return
        except InputError:
            continue
        os.write(acknowledge, (name + "\\n").encode())

for label in range(4):
    if os.fork() == 0:
        try:
            work(sys.argv[1], label, 1)
        finally:
            os._exit(0)
for _ in range(4):
    os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks writers")
def test_processes_that_charge_at_once_keep_to_the_budget_and_lose_no_entry(tmp_path):
    book = LedgerFile.create(tmp_path / "race.json", Budget(0.3))
    done = subprocess.run([sys.executable, "-c", WRITERS, str(book.path)], capture_output=True, text=True, timeout=120,
                          check=False)
    assert (done.returncode, done.stderr) == (0, "")
    # Each of 80 charges costs 0.01, and 30 of them fit: exactly, whichever are claims.
    assert sorted(done.stdout.splitlines()) == sorted(entry.charge.purpose for entry in book.entries)
    assert len(book.entries) == 30
    assert book.total == 0.3
    assert book.verify() == []


def test_a_ledger_stays_where_it_was_opened_though_the_program_goes_elsewhere(tmp_path, monkeypatch):
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    book = LedgerFile.create("book.json", Budget(1.0))
    monkeypatch.chdir(tmp_path / "elsewhere")
    Ledger(Budget(1.0), file=book).charge(laplace(0.5))
    assert book.path == tmp_path / "here" / "book.json"
    assert LedgerFile.open(tmp_path / "here" / "book.json").total == 0.5
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_every_entry_has_the_version_of_the_package_and_the_time_in_utc(tmp_path, monkeypatch):
    told = {"trigmech": "7.8.9", "numpy": "0.0.1"}

    def installed(name):
        if name not in told:
            raise ledger_lock.metadata.PackageNotFoundError(name)
        return told[name]

    monkeypatch.setattr(ledger_lock.metadata, "version", installed)
    ledger_lock.version.cache_clear()
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        book = LedgerFile.create(tmp_path / "ledger.json", Budget(3.0))
        before = time.time()
        book.charge("a", [laplace(1.0)], False)
        book.raise_budget(Budget(4.0))
        del told["trigmech"]
        ledger_lock.version.cache_clear()
        book.charge("b", [laplace(1.0)], False)
    finally:
        monkeypatch.undo()
        ledger_lock.version.cache_clear()
        time.tzset()
    entries = LedgerFile.open(book.path).entries
    raised = json.loads(book.path.read_text())["entries"][1]
    assert [entries[0].version, raised["version"], entries[-1].version] == ["7.8.9", "7.8.9", "unknown"]
    for told_time in (entries[0].time, raised["time"], entries[-1].time):
        written = calendar.timegm(time.strptime(told_time, "%Y-%m-%dT%H:%M:%SZ"))
        assert int(before) <= written <= time.time()
