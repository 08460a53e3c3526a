"""Files that version 0.1 wrote are read by this one, and give the same numbers."""

import json
import shutil

import numpy as np
import pytest

import trigmech as tm
from tests import golden, old_releases
from trigmech.errors import InputError

FOLDER = golden.FILE.parent / "releases-0.1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
# A file's numbers are the same everywhere; what is computed of them is the same to the bit on the platform alone.
SAME = EXPECTED["tag"] == golden.tag()


def compared(expected, found):
    """Return what differs; elsewhere than where it was recorded beyond the last bits, and not of sampled rows."""
    said = []
    for name in sorted({*expected, *found}):
        before, after = expected.get(name), found.get(name)
        if isinstance(before, dict) and "#" in before:
            near = {"charges": [], "released": {name: before}}, {"charges": [], "released": {name: after}}
            said += golden.differences(*near, SAME)
        elif before != after and (SAME or name not in ("sample", "first row")):
            said.append((name, f"{before!r} was recorded, and it is {after!r}"))
    return said


@pytest.mark.parametrize("name", EXPECTED["releases"])
def test_a_saved_release_gives_the_same_numbers(name, tmp_path):
    read = tm.load(FOLDER / f"{name}.tm")
    assert compared(EXPECTED["releases"][name], old_releases.expected(read)) == []
    # And again when it is saved anew.
    read.save(tmp_path / "again.tm")
    assert compared(EXPECTED["releases"][name], old_releases.expected(tm.load(tmp_path / "again.tm"))) == []


@pytest.mark.parametrize("name", EXPECTED["moments"])
def test_saved_moments_without_points_give_the_same_numbers(name, tmp_path):
    read = tm.NoisyMoments.load(FOLDER / f"{name}.tm")
    assert compared(EXPECTED["moments"][name], old_releases.expected(read)) == []
    with pytest.raises(InputError):
        tm.load(FOLDER / f"{name}.tm")


@pytest.mark.parametrize(("name", "mechanism"), [("tables-alone", old_releases.TINY),
                                                 ("moments-pure-alone", tm.MomentMechanism(points=40, iterations=5))])
def test_rows_are_made_of_saved_moments(name, mechanism):
    read = tm.NoisyMoments.load(FOLDER / f"{name}.tm")
    made = tm.generate(read, 30, np.random.default_rng(1), mechanism=mechanism)
    assert made.shape == (30, len(read.schema.names))


def test_error_bars_are_made_of_saved_releases(few_resamples):
    tables = tm.load(FOLDER / "tables-contrasts.tm").error_bars(lambda table: np.mean(table["sex"] == "f"))
    assert 0.0 < float(tables.error.bound) < 1.0
    moments = tm.load(FOLDER / "moments.tm").query(tm.workload.SecondMoments(3))
    assert (moments.error.bound > 0).all()


@pytest.mark.parametrize("name", EXPECTED["designs"])
def test_a_design_is_read_by_its_own_version_and_refused_by_others(name):
    if old_releases.version() == EXPECTED["version"]:
        found = json.loads(json.dumps(old_releases.described(old_releases.load_design(FOLDER / f"{name}.json"))))
        assert golden.differences(*({"charges": each["charges"], "n": [each["n"], each["passes"]]}
                                    for each in (EXPECTED["designs"][name], found)), SAME) == []
    else:
        with pytest.raises(InputError, match="version"):
            old_releases.load_design(FOLDER / f"{name}.json")


def test_parts_are_read_and_are_released_by_the_design_of_their_version_alone():
    parts = [tm.Part.load(FOLDER / f"{k}.part") for k in (1, 2)]
    shares = [tm.Share.load(FOLDER / f"{k}.share") for k in (1, 2)]
    assert [part.n for part in (*parts, *shares)] == [EXPECTED["parts"][name] for name in (
        "1.part", "2.part", "1.share", "2.share")]
    assert sum(shares).n == 400
    if old_releases.version() == EXPECTED["version"]:
        after = tm.release_parts(parts, old_releases.load_design(FOLDER / "design.json"), np.random.default_rng(1))
        # The parts are of the table whose first round is in the other file.
        kept = old_releases.load_design(FOLDER / "design-after-a-round.json")
        for (charge, drawn), (other, before) in zip(after.history.draws, kept.history.draws, strict=True):
            assert charge == other
            np.testing.assert_allclose(drawn, before, rtol=1e-12)
    else:
        with pytest.raises(InputError):
            tm.release_parts(parts, tm.design(500, old_releases.FEW, old_releases.ONE, old_releases.TINY),
                             np.random.default_rng(1))


def test_a_ledger_is_read(tmp_path):
    # Beside a ledger its lock is made.
    shutil.copy(FOLDER / "ledger.json", tmp_path)
    book = tm.LedgerFile.open(tmp_path / "ledger.json")
    assert [golden.charge(each.charge) for each in book.entries] == EXPECTED["ledger"]["charges"]
    assert book.total == pytest.approx(EXPECTED["ledger"]["total"], rel=1e-9)
    assert book.verify() == []


def test_a_planted_difference_is_named():
    found = EXPECTED["releases"]["moments"]
    assert compared(found, found) == []
    other = {**found, "means": {"#": ["other bits", *found["means"]["#"][1:2], found["means"]["#"][2] + 1e-6,
                                      *found["means"]["#"][3:]]}}
    assert [kind for kind, _ in compared(found, other)] == ["released values"]
    assert [name for name, _ in compared(found, {**found, "n": 3})] == ["n"]


def test_the_folder_has_what_is_expected_and_is_small():
    names = [f"{name}.tm" for name in (*EXPECTED["releases"], *EXPECTED["moments"])]
    names += [*(f"{name}.json" for name in EXPECTED["designs"]), *EXPECTED["parts"], "ledger.json", "expected.json"]
    assert sorted(path.name for path in FOLDER.iterdir() if path.suffix != ".lock") == sorted(names)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 200_000
