"""What packages, citations and scripts say of the project is what pyproject.toml and the code say."""

import datetime
import re
import tomllib
from pathlib import Path

import pytest

import trigmech as tm

TOP = Path(__file__).parent.parent
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name):
    return (TOP / name).read_text(encoding="utf-8")


def requirements(lines):
    """Requirements as conda writes them, without those of this package's own extras."""
    found = set()
    for line in lines:
        name, bounds = re.fullmatch(r"([\w.-]+)(?:\[[\w,-]+\])?\s*(\S*)", line).groups()
        if name != "trigmech":
            found.add(f"{name} {bounds}")
    return found


def test_the_version_is_the_same_everywhere():
    (cited,) = re.findall(r"^version: (\S+)$", text("CITATION.cff"), re.MULTILINE)
    (recipe,) = re.findall(r'^  version: "(\S+)"$', text("recipe/meta.yaml"), re.MULTILINE)
    assert {PROJECT["version"], cited, recipe} == {tm.__version__}


def test_the_citation_has_the_date_of_the_changelog():
    (cited,) = re.findall(r"^date-released: (\S+)$", text("CITATION.cff"), re.MULTILINE)
    (noted,) = re.findall(rf"^## {re.escape(tm.__version__)} \((\S+)\)$", text("CHANGELOG.md"), re.MULTILINE)
    assert cited == noted
    assert datetime.date.fromisoformat(cited)


def test_the_recipe_requires_what_the_package_requires():
    run = text("recipe/meta.yaml").partition("  run:\n")[2].partition("\ntest:")[0]
    stated = {line.strip().removeprefix("- ") for line in run.splitlines() if line.strip().startswith("- ")}
    extras = PROJECT["optional-dependencies"]
    wanted = requirements([*PROJECT["dependencies"], *extras["tables"], *extras["report"], *extras["estimator"],
                           *extras["cli"]])
    assert stated == wanted | {f"python {PROJECT['requires-python']}"}


def test_every_name_that_the_paper_cites_is_in_its_bibliography_and_no_other():
    cited = set(re.findall(r"@(\w+)", text("paper/paper.md")))
    assert cited == set(re.findall(r"^@\w+\{(\w+),", text("paper/paper.bib"), re.MULTILINE))


def test_what_the_paper_s_checklist_names_exists():
    named = re.findall(r"`([\w./-]+)`", text("paper/CHECKLIST.md"))
    there = [name for name in named if "." in name and name != "project.urls"]
    assert len(there) >= 10
    assert [name for name in there if not (TOP / name).exists() and not (TOP / "paper" / name).exists()] == []


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_classifiers_name_the_versions_that_are_built(version):
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert version in re.search(r"set -- (.*)", text(".ci/package"))[1].split()


def test_every_extra_is_explained_and_built():
    for extra in PROJECT["optional-dependencies"]:
        assert f"`{extra}`" in text("docs/install.md")
    built = re.search(r'for extra in "" (.*); do', text(".ci/package"))[1].split()
    assert {*built, "all"} == set(PROJECT["optional-dependencies"]) - {
        "experiments", "flights", "textbook", "few", "test", "docs", "dev"}


def test_the_smoke_test_uses_a_library_of_each_extra_that_all_has():
    """Only by use it is known that the lowest versions work: three of them did not, and the rest was tried alone."""
    words = {"answers": (".sql(", ".regression("), "cli": ("--help",), "estimator": ("tm.Synthesizer(",),
             "postgres": ("import psycopg",), "report": ("page.write(",), "tables": ("pa.table(",)}
    (extras,) = (re.search(r"\[(.*)\]", line)[1].split(",") for line in PROJECT["optional-dependencies"]["all"])
    assert set(extras) == set(words)
    assert [word for extra in extras for word in words[extra] if word not in text(".ci/smoke")] == []
