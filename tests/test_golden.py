"""What earlier versions released is released again: the same charges and numbers, and rows that are as near to them."""

import json

import numpy as np
import pytest

from tests import golden
from tests.golden_cases import CASES, QUICK

RECORDED = json.loads(golden.FILE.read_text(encoding="utf-8"))
SAME = RECORDED["tag"] == golden.tag()
each_case = pytest.mark.parametrize("name", [
    pytest.param(name, marks=[] if name in QUICK else pytest.mark.nightly, id=golden.plain(name)) for name in CASES])


def now(name):
    found, arrays = golden.outcome(CASES[name]())
    return json.loads(json.dumps(found, allow_nan=False)), arrays


@each_case
def test_a_case_gives_what_was_recorded(name):
    recorded, (found, _) = RECORDED["cases"][golden.plain(name)], now(name)
    # The report is rewritten now and then; `python -m tests.golden compare` says what of its numbers differs.
    assert [(kind, text) for kind, text in golden.differences(recorded, found, SAME) if kind != "page"] == []


def test_calls_are_refused_as_they_were():
    assert golden.refusal_differences(RECORDED["refusals"], golden.refusals()) == []


def test_the_file_has_all_cases():
    assert list(RECORDED["cases"]) == [golden.plain(name) for name in CASES]
    assert golden.FILE.stat().st_size < 250_000


def planted(recorded, path, change):
    """Return a copy in which what stands at a path is changed."""
    copied = json.loads(json.dumps(recorded))
    at = copied
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = change(at[path[-1]])
    return copied


@pytest.mark.parametrize(("path", "change", "kind"), [
    (["charges", 1, 2], lambda scale: (float.fromhex(scale) * (1 + 2**-52)).hex(), "charges"),
    (["charges"], lambda charges: charges[1:], "charges"),
    (["charges", 0, 5], lambda count: count + 1, "charges"),
    (["released", "means", "#", 0], lambda sha: sha[::-1], "released values"),
    (["released", "deviations", "#", 1], lambda shape: [shape[0] + 1], "released values"),
    (["released", "names"], lambda names: names[::-1], "released values"),
    (["rows", "size"], lambda size: size + 1, "rows"),
    (["rows", "misfit"], lambda misfit: 2.0 * misfit + 1.0, "rows"),
    (["answers", "expected"], lambda share: share + 1e-6, "answers"),
])
def test_a_planted_difference_is_named(path, change, kind):
    recorded = RECORDED["cases"]["tables, mixed"]
    changed = planted(recorded, path, change)
    assert {found for found, _ in golden.differences(recorded, changed, True)} == {kind}
    # Elsewhere last bits may differ, and all that follows from rows.
    last = path in (["charges", 1, 2], ["released", "means", "#", 0])
    assert {found for found, _ in golden.differences(recorded, changed, False)} == (
        set() if last or kind == "answers" else {kind})


def test_released_numbers_are_compared_elsewhere_too():
    recorded = RECORDED["cases"]["tables, mixed"]
    other = planted(recorded, ["released", "means", "#", 0], lambda sha: sha[::-1])
    for k in (2, 4):
        assert [kind for kind, _ in golden.differences(recorded, planted(
            other, ["released", "means", "#", k], lambda number: number * (1 + 1e-8)), False)] == ["released values"]


def test_rows_of_other_bits_must_have_the_same_statistics():
    recorded = RECORDED["cases"]["tables, mixed"]
    near = planted(recorded, ["rows", "points", "#", 0], lambda sha: sha[::-1])
    assert golden.differences(recorded, near, True) == []
    far = planted(near, ["rows", "averages", 0], lambda mean: mean + 1e-8)
    assert {kind for kind, _ in golden.differences(recorded, far, True)} == {"rows"}


def test_a_difference_is_as_large_as_it_is_said_to_be():
    found, arrays = now("*tables, contrasts")
    changed = planted(found, ["released", "means", "#", 0], lambda _: "other bits")
    others = {**arrays, "means": arrays["means"] + np.where(np.arange(arrays["means"].size) == 3, 0.25, 0.0)}
    [(kind, text)] = golden.differences(changed, found, True, others, arrays)
    assert kind == "released values"
    assert f"1 of {arrays['means'].size} differ, by 0.25 at most" in text


@pytest.mark.nightly  # By day cases are compared with what was recorded, above.
def test_a_comparison_says_whether_anything_differs(tmp_path, capsys):
    path = tmp_path / "golden.json"
    pattern = "own moments"
    assert golden.main(["record", str(path), "--only", pattern, "--arrays", str(tmp_path / "arrays")]) == 0
    assert golden.main(["compare", str(path), "--only", pattern, "--arrays", str(tmp_path / "arrays")]) == 0
    assert "0 of 1 cases differ, 0 refusals" in capsys.readouterr().out
    path.write_text(path.read_text(encoding="utf-8").replace('"n":400', '"n":401'), encoding="utf-8")
    assert golden.main(["compare", str(path), "--only", pattern]) == 1
    assert "own moments: released values: n: 401 was recorded, and it is 400" in capsys.readouterr().out
