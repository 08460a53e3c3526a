"""Public names change with a line in the changelog, and go after a warning that lasts two minor versions."""

import ast
import re
import types
import warnings
from functools import cache

import pytest

import trigmech as tm
from tests import api
from trigmech._deprecated import deprecated

SNAPSHOT = api.read(api.FILE.read_text(encoding="utf-8"))
CHANGELOG = api.CHANGELOG.read_text(encoding="utf-8")
STABILITY = (api.TOP / "docs" / "stability.md").read_text(encoding="utf-8")
THING = object()
ROW = re.compile(r"^\| `([\w.]+)` \| ([\d.]+) \| ([\d.]+) \| `([\w.]+)` \|$", re.MULTILINE)
HOW = "if the change is meant: name it in the newest section of CHANGELOG.md, and run `python -m tests.api`"


def minor(version):
    return tuple(map(int, version.split(".")[:2]))


def test_the_public_names_are_those_of_the_snapshot():
    kept = {line for line in SNAPSHOT if not line.endswith(api.REMOVED)}
    assert sorted(kept ^ set(api.found())) == [], HOW


def test_the_newest_section_of_the_changelog_names_what_its_version_changed():
    assert api.unnamed(SNAPSHOT, CHANGELOG) == [], HOW


def test_the_changelog_begins_with_this_version():
    assert api.newest(CHANGELOG)[0] == tm.__version__
    assert max(SNAPSHOT.values()) <= tm.__version__


def line_of(function):
    return f"f{api.signature(function)}"


@pytest.mark.parametrize("changed", [lambda a, b=2, *, c: a, lambda a, b=1, c=None: a, lambda a, b=1: a,
                                     lambda x, b=1, *, c: x, lambda a, b, *, c: a])
def test_a_change_of_a_signature_changes_its_line(changed):
    assert line_of(lambda a, b=1, *, c: a) == "f(a, b=1, *, c)"
    assert line_of(changed) != "f(a, b=1, *, c)"


def test_annotations_and_addresses_do_not_change_a_line():
    def annotated(a: int, b: float = 1, *, c: str) -> int:
        return a

    assert line_of(annotated) == "f(a, b=1, *, c)"
    assert " at 0x" in repr(THING)
    assert " at 0x" not in line_of(lambda a=THING: a)
    assert not [line for line in api.found() if " at 0x" in line]


def test_members_are_those_of_the_package_s_own_classes():
    lines = set(api.found())
    assert {"Budget.split(self, *shares)", "Charge.claim"} <= lines
    assert any(line.startswith("Synthesizer.sample(") for line in lines)
    assert not any(line.startswith("Synthesizer.get_params") for line in lines)
    assert not any("._" in line for line in lines)


def test_lines_keep_their_version_and_what_is_gone_is_noted():
    first = api.read(api.updated({}, ["A(x)", "A.b", "C"], "0.1.0"))
    assert set(first.values()) == {"0.1.0"}
    second = api.read(api.updated(first, ["A(x, y=1)", "A.b", "D"], "0.2.0"))
    assert second == {"A(x, y=1)": "0.2.0", "A.b": "0.1.0", "C (removed)": "0.2.0", "D": "0.2.0"}
    assert api.read(api.updated(second, ["A(x, y=1)", "A.b", "D"], "0.3.0")) == second


@pytest.mark.parametrize(("said", "missing"), [
    ("- `tm.D` is new; `A` takes y; `C` is gone.", []), ("- `tm.D` is new, A takes y; `C` is gone.", ["A"]),
    ("- `A(y=1)` and `D`.", ["C"]), ("", ["A", "C", "D"])])
def test_what_a_changelog_does_not_name_is_found(said, missing):
    snapshot = {"A(x, y=1)": "0.2.0", "A.b": "0.1.0", "C (removed)": "0.2.0", "D": "0.2.0", "D.member": "0.2.0"}
    changelog = f"# Changelog\n\n## 0.2.0 (2026-11-24)\n\n{said}\n\n## 0.1.0\n\n- `A`, `C`, `D`\n"
    assert api.unnamed(snapshot, changelog) == missing
    assert api.unnamed(dict.fromkeys(snapshot, "0.1.0"), changelog) == []


def test_the_command_writes_the_snapshot_and_names_what_the_changelog_lacks(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(api, "FILE", tmp_path / "api.txt")
    monkeypatch.setattr(api, "CHANGELOG", tmp_path / "CHANGELOG.md")
    (tmp_path / "CHANGELOG.md").write_text("## 9.9.9\n\n- `Budget`\n", encoding="utf-8")
    assert api.main() == 1
    assert "does not name: Schema\n" in capsys.readouterr().out
    assert api.read(api.FILE.read_text(encoding="utf-8")) == dict.fromkeys(api.found(), "9.9.9")
    (tmp_path / "CHANGELOG.md").write_text("## 10.0.0\n\nNothing.\n", encoding="utf-8")
    assert api.main() == 0


@cache
def deprecations():
    """The names that the package deprecates, by the decorator's arguments where they stand."""
    found = {}
    texts = [path.read_text(encoding="utf-8") for path in sorted((api.TOP / "trigmech").rglob("*.py"))]
    for text in [text for text in texts if "@deprecated(" in text]:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "deprecated":
                named = {each.arg: each.value.value for each in node.keywords}
                found[node.args[0].value] = (named["since"], named["removed_in"], named["instead"])
    return found


def test_the_page_lists_what_is_deprecated_and_until_when():
    assert deprecations() == {name: tuple(rest) for name, *rest in ROW.findall(STABILITY)}
    assert len(deprecations()) >= 1


def test_no_name_outlives_the_version_of_its_removal():
    assert [name for name, (since, last, _) in deprecations().items()
            if not minor(since) <= minor(tm.__version__) < minor(last)] == []


def test_a_deprecated_name_works_and_says_what_to_use():
    made = tm.Schema.cube(2)
    with pytest.warns(FutureWarning, match=r"^Schema.layout is deprecated since trigmech 0.2 and will be removed in "
                                           r"0.4; use Schema.domain$") as caught:
        assert made.layout == made.domain
    assert caught[0].filename == __file__
    release = tm.load(api.TOP / "tests" / "data" / "releases-0.1" / "moments.tm").release
    with pytest.warns(FutureWarning, match="use Release.deviations"):
        assert release.scales is release.deviations


def test_a_decorated_function_keeps_its_name_and_its_answer():
    @deprecated("old", since="1.2", removed_in="2.0", instead="new")
    def old(a, *, b=1):
        """Words."""
        return a + b

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert (old(1, b=2), old.__name__, old.__doc__) == (3, "old", "Words.")
    assert [each.category for each in caught] == [FutureWarning]
    assert isinstance(old, types.FunctionType)


@pytest.mark.parametrize(("since", "removed_in", "accepted"), [
    ("0.2", "0.3", False), ("0.2", "0.2", False), ("0.2", "0.4", True), ("0.9", "1.0", True), ("1.4", "1.5", False)])
def test_names_are_kept_for_two_minor_versions(since, removed_in, accepted):
    if accepted:
        deprecated("old", since=since, removed_in=removed_in, instead="new")
    else:
        with pytest.raises(ValueError, match="old is deprecated since"):
            deprecated("old", since=since, removed_in=removed_in, instead="new")
