"""No command writes over a file that it reads, twice to one file, or where it cannot: each file of each is tried."""

import itertools
import shlex

import pytest
from test_cli import run  # noqa: F401 (a fixture)
from test_options import commands
from test_parts import BUDGET, CUBE, smooth

import trigmech as tm
from trigmech.parts import design_file

# Each command with all its files: those in capital letters are written.
COMMANDS = {
    "accept": "accept a.tm --data b.csv --criteria c.toml --schema d.toml --epsilon 1 --ledger E.json --out F.json",
    "advise": "advise a.toml --rows 100 --limits b.toml --html C.html",
    "advise with a plot": "advise a.toml --rows 100 --limits b.toml --plot C.html",
    "ask": "ask a.tm 'select count(*) from release' --imputations B --csv C.csv",
    "compare": "compare a.tm b.tm --against c.csv --schema d.toml --limits e.toml --html F.html",
    "fit": "fit a.tm 'x ~ y' --imputations B",
    "part add": "part add a.part b.part --out C.part",
    "part design": "part design --schema a.toml --n 50 --epsilon 1 --out B.json",
    "part measure": "part measure a.csv --design b.json --schema c.toml --out D.part",
    "part release": "part release a.part b.part --design design.json --ledger C.json --next D.json --out E.tm",
    "part share": "part share a.csv --design b.json --schema c.toml --party 1 --parties 2 --out D.share",
    "release": "release a.csv --schema b.toml --epsilon 1 --ledger C.json --csv D.csv --out E.tm",
    "report": "report a.tm --against b.csv --schema c.toml --held-out d.csv --limits e.toml --out F.html",
    "sample": "sample a.tm --out B.csv",
    "schema init": "schema init a.csv --out B.toml",
}

WRITTEN = {"--out", "--csv", "--html", "--plot", "--imputations", "--next", "--ledger"}
# They read no file, or their ledger must be there and stays a ledger.
ONE_FILE = {"audit", "check", "ledger create"}


def test_every_command_that_writes_a_file_is_tried():
    tried = {name: set() for name in commands()}
    for name, line in COMMANDS.items():
        tried[name.partition(" with")[0]] |= WRITTEN & set(shlex.split(line))
    there = {name: WRITTEN & set(options) for name, options in commands().items()}
    # Those of samples are a folder of their own.
    there["sample"].discard("--imputations")
    assert {name: own for name, own in there.items() if name not in ONE_FILE} == {
        name: own for name, own in tried.items() if name not in ONE_FILE}


def files(words):
    return [word for word in words if word == "design.json" or (word[0].isalpha() and word[1:2] in (".", ""))]


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_a_file_that_is_named_twice_is_refused_if_it_would_be_written(run, line):  # noqa: F811
    design_file.save("design.json", tm.design(50, CUBE, BUDGET, smooth))
    words = shlex.split(line)
    named = files(words)
    for one, other in itertools.permutations(named, 2):
        if one[0].isupper() and (other[0].islower() or one < other):
            status, _, said = run(*(other if word == one else word for word in words))
            assert status == 2, (one, other)
            assert f"{other!r} is given twice and would be overwritten" in said, (one, other)


@pytest.mark.parametrize("line", COMMANDS.values(), ids=COMMANDS)
def test_a_file_in_a_folder_that_is_not_there_is_refused_before_any_other_file_is_read(run, line):  # noqa: F811
    design_file.save("design.json", tm.design(50, CUBE, BUDGET, smooth))
    words = shlex.split(line)
    for one in files(words):
        if one[0].isupper():
            status, _, said = run(*(f"nowhere/{one}" if word == one else word for word in words))
            assert status == 2, one
            assert f"cannot write 'nowhere/{one}': there is no folder 'nowhere'; make it first" in said, one
