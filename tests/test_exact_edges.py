"""Limits at which a rule begins to hold, and ways out that hardly a run takes, each called directly."""

import errno
import fcntl
import os
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import trigmech as tm
from trigmech.domain import Domain, OneHotGroup
from trigmech.errors import InputError
from trigmech.evaluation.verdict import QualityMeasure
from trigmech.functions.index import FunctionIndex
from trigmech.functions.partition import columns_of, even_edges
from trigmech.functions.released_column import ReleasedColumn
from trigmech.measurement import persons
from trigmech.reconstruction import constrained, targets
from trigmech.report import comparison, figures, pairs
from trigmech.schema import lookup
from trigmech.storage import older_releases
from trigmech.storage.rounds_file import RoundsFile

# Files and locks


def test_a_rounds_file_that_is_a_folder_or_cannot_be_locked_is_told_and_stays_closed(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=f"cannot open .*: {os.strerror(errno.EISDIR)}"):
        RoundsFile(tmp_path, {})
    (tmp_path / "a.rounds").write_text("")
    handles = []

    def without_locks(handle, how):
        handles.append(handle)
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", without_locks)
    with pytest.raises(InputError, match=f"cannot open .*: {os.strerror(errno.ENOLCK)}"):
        RoundsFile(tmp_path / "a.rounds", {})
    with pytest.raises(OSError, match=os.strerror(errno.EBADF)):
        os.fstat(handles[0])


def test_a_folder_of_persons_that_another_process_removed_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own, first = fcntl.flock, []

    def removing(lock, how):
        own(lock, how)
        if not first:
            first.extend([lock, *tmp_path.glob(f"{persons.FOLDER}*")])
            shutil.rmtree(first[1])

    monkeypatch.setattr("fcntl.flock", removing)
    folder, lock = persons._new_folder()
    try:
        assert folder.exists()
        assert folder != first[1]
        # The first lock was given back: the system gives the lowest number that is free.
        assert lock == first[0]
    finally:
        persons._remove(folder, lock)
    assert list(tmp_path.iterdir()) == []


# Limits


@pytest.mark.parametrize(("named", "drawn"), [
    ([0.3, pairs.RARE, 0.6, pairs.RARE / 2], [0, 1, 2]), ([0.001, 0.002, 0.002, 0.0], [1, 2]),
    ([0.01] * 4 + [0.02] * pairs.MOST_VALUES, list(range(4, 4 + pairs.MOST_VALUES)))])
def test_a_value_is_drawn_if_as_many_rows_have_it_as_one_that_is_not_rare(named, drawn):
    side = SimpleNamespace(marginals=[None, SimpleNamespace(named=np.array(named))])
    assert pairs._most_frequent(side, 1).tolist() == drawn


def test_a_table_for_lookup_may_have_just_as_many_bytes_as_are_allowed(tmp_path, monkeypatch):
    content = b"key,result\n1,2\n"
    (tmp_path / "t.csv").write_bytes(content)
    monkeypatch.setattr(lookup, "MOST_BYTES", len(content))
    assert lookup.read_lookup("t.csv", tmp_path).rows == ((1, 2),)
    monkeypatch.setattr(lookup, "MOST_BYTES", len(content) - 1)
    with pytest.raises(InputError, match=f"has more than {len(content) - 1} bytes"):
        lookup.read_lookup("t.csv", tmp_path)


@pytest.mark.parametrize("rows", [[(1,), (2,)], [(1, 2), (3,)], [(1, 2), 3], [()]])
def test_rows_for_lookup_have_a_key_and_a_result(rows):
    with pytest.raises(InputError, match="must have rows of one length, with at least one key and the result"):
        lookup.Lookup("t", rows)


@pytest.mark.parametrize("n", [1, 2])
def test_an_older_release_of_two_rows_is_read_and_of_one_is_refused(n):
    arrays = {"release.index": np.array([[0], [1]]), "release.profiles": np.empty((0, 2)),
              "release.scales": np.array([0.0, 0.1]), "release.means": np.array([1.0, 0.2])}

    def read():
        return older_releases.of_moments(tm.Ledger(tm.Budget(1.0)), {"kind": "moments", "n": n}, arrays, Domain(1))

    if n == 2:
        assert read().n == 2
    else:
        with pytest.raises(InputError, match="n must be"):
            read()


def test_the_last_draws_for_a_row_that_breaks_a_constraint_give_compared_numbers_one_fraction(monkeypatch):
    names = "abcde"
    schema = tm.Schema([tm.Column(name, 0, 1) for name in names], ["a < b", "c = d or c > d"])
    columns = [ReleasedColumn(partition.cut(even_edges(None, 2)), np.full(2, 0.5), 0.1)
               for partition in columns_of(schema.domain)]
    rows, own, same = constrained.ConstrainedRows(schema, columns), constrained.placed, []

    def watched(columns, codes, fractions, d):
        assert fractions.shape == (3, 5)
        same.append(["".join(names[j] for j in range(5) if (fractions[:, j] == fractions[:, i]).all())
                     for i in range(5)])
        return own(columns, codes, fractions, d)

    monkeypatch.setattr(constrained, "placed", watched)
    monkeypatch.setattr(constrained, "keeps", lambda schema, points: np.zeros(len(points), dtype=bool))
    monkeypatch.setattr(constrained, "kept", lambda schema, points, rng: points)
    rows.placed(np.zeros((3, 5), dtype=np.int32), 5, np.random.default_rng(0))
    alone, equal = list(names), ["a", "b", "cd", "cd", "e"]
    assert same == [alone] * 9 + [equal, *[alone] * 3] * 3 + [["ab", "ab", "cd", "cd", "e"], *[alone] * 3]


def test_the_first_function_of_all_may_be_an_indicator():
    group = OneHotGroup((0, 1, 2), True)
    index = FunctionIndex(np.array([[1, 0, 0], [0, 1, 0]]), Domain(3, [group]))
    # The third was not measured, and has an even part; what is too much is taken off alike.
    noisy = np.array([0.5, 0.3, 1.0 / 3.0])
    np.testing.assert_allclose(targets._frequencies(index, noisy[:2], group), noisy - (noisy.sum() - 1.0) / 3.0)


# Places in tables


def test_a_table_of_measures_has_for_each_release_a_number_and_its_light():
    def judged(*measures):
        return SimpleNamespace(measures=[QualityMeasure(name, name, "", value, None, light)
                                         for name, value, light in measures])

    found = comparison._measures([("a", None, judged(("p", 0.5, "poor"), ("q", 0.25, "good"))), ("b", None, None),
                                  ("c", None, judged(("p", 0.75, "care")))])
    assert list(found.head) == ["Measure", "a", "light of a", "c", "light of c"]
    assert (found.numeric, found.lights) == ([1, 3], [2, 4])
    assert found.rows == [["p", "0.5", "poor", "0.75", "care"], ["q", "0.25", "good", "", ""]]


@pytest.mark.parametrize("truth", [None, np.array([0.5, 0.5])])
def test_bars_of_two_sides_say_which_is_which(truth):
    with figures.styled():
        (axes,) = figures.bars(("a", "b"), np.array([0.6, 0.4]), truth).axes
    legend = axes.get_legend()
    assert (legend is None) == (truth is None)
    assert truth is None or sorted(text.get_text() for text in legend.get_texts()) == ["synthetic", "true"]
