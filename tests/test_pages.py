"""Every block of README and docs runs, in its order, in an environment that has only what its page installs."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import page_runner
import plain_environment
import pytest

import trigmech as tm

TOP = Path(__file__).parent.parent
# Its commands stand in the program's order, not in that of their use; they run after the page that walks through them.
COMMANDS = "cli.md"
PAGES = {page.name: page for page in [TOP / "README.md", *sorted((TOP / "docs").glob("*.md"))]}
WITH_BLOCKS = [name for name, page in PAGES.items()
               if any(not block["reason"] for block in page_runner.BLOCK.finditer(page.read_text(encoding="utf-8")))
               and name != COMMANDS]
# Those with the most of the package in the least time. Each page runs every night.
SHORT = ["idea.md", "format.md", "tutorial-mechanism.md"]


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """What `pip install '.[all]'` brings, and nothing else."""
    folder = tmp_path_factory.mktemp("plain") / "environment"
    plain_environment.make(folder, ["trigmech[all]"])
    return folder


def as_reader(command, folder, path=str(TOP)):
    """Run a command in a folder and with nothing of this process's environment but where modules are looked for."""
    own = {name: value for name, value in os.environ.items() if name.startswith(("NUMBA_", "OMP_", "TRIGMECH_NUM"))}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=own | {
        "PATH": "/usr/bin:/bin", "PYTHONPATH": path, "MPLBACKEND": "Agg", "HOME": str(folder), "LC_ALL": "C.UTF-8"})


def run(environment, folder, *pages):
    """Run pages in a folder where `.venv` is the environment and `data.csv` the reader's own table."""
    (folder / ".venv").symlink_to(environment)
    done = as_reader([environment / "bin" / "python", TOP / "tests" / "page_runner.py", *pages], folder)
    return done.returncode, done.stdout, done.stderr


def run_commands(page, folder):
    """Run each command of a page; what it makes is not there before."""
    filled_in = (folder / "schema.toml").read_bytes()
    criteria = [block["text"] for block in page_runner.BLOCK.finditer(PAGES["accept.md"].read_text(encoding="utf-8"))
                if block["title"] == "criteria.toml"]
    (folder / "criteria.toml").write_text(*criteria, encoding="utf-8")
    for block in page_runner.BLOCK.finditer(page.read_text(encoding="utf-8")):
        words = shlex.split(block["text"])
        made = [words[i + 1] for i, word in enumerate(words) if word in ("--out", "--csv")]
        (folder / "schema.toml").write_bytes(filled_in)
        for name in [words[3]] if words[1:3] == ["ledger", "create"] else made:
            if name != "-":
                (folder / name).unlink(missing_ok=True)
        done = as_reader([folder / ".venv" / "bin" / words[0], *words[1:]], folder)
        # A release need not be accepted.
        assert done.returncode in ((0, 7) if words[1] == "accept" else (0,)), (words, done.stderr)


@pytest.fixture(scope="session")
def own_table(tmp_path_factory):
    """The table that the five-minute page makes for readers who have none."""
    folder = tmp_path_factory.mktemp("own")
    text = PAGES["start.md"].read_text(encoding="utf-8")
    (block,) = [block for block in page_runner.BLOCK.finditer(text) if block["kind"] == "python"]
    subprocess.run(["python3", "-c", block["text"]], cwd=folder, check=True)
    return folder / "data.csv"


@pytest.mark.nightly
def test_the_short_pages_run_in_one_process(environment, own_table, tmp_path):
    shutil.copy(own_table, tmp_path)
    status, _, err = run(environment, tmp_path, *(PAGES[name] for name in SHORT))
    assert status == 0, err


@pytest.mark.nightly
@pytest.mark.parametrize("name", WITH_BLOCKS)
def test_the_blocks_of_a_page_run_where_only_the_page_s_install_was_made(name, environment, own_table, tmp_path):
    if name != "start.md":
        shutil.copy(own_table, tmp_path)
        # The page that made this table made its schema, too.
        blocks = page_runner.BLOCK.finditer(PAGES["start.md"].read_text(encoding="utf-8"))
        (schema,) = [block["text"] for block in blocks if block["title"] == "schema.toml"]
        if 'title="schema.toml"' not in PAGES[name].read_text(encoding="utf-8"):
            (tmp_path / "schema.toml").write_text(schema, encoding="utf-8")
    if name == "evaluate.md":
        # And the release that is judged.
        as_reader([environment / "bin" / "trigmech", "release", "data.csv", "--schema", "schema.toml", "--epsilon", "1",
                   "--delta", "1e-6", "--out", "clinic.tm"], tmp_path).check_returncode()
    status, out, err = run(environment, tmp_path, PAGES[name])
    assert status == 0, err
    if name == "README.md":
        (proved,) = re.findall(r"proved: \((\S+), 1e-06\)", out.split("region")[-1])[-1:]
        assert 0.99 < float(proved) <= 1.0
        assert tm.load(tmp_path / "release.tm").schema.names == ("age", "income")
    if name in ("README.md", "start.md"):
        assert tm.load(tmp_path / "clinic.tm").ledger.simulated is False
        assert len((tmp_path / "synth.csv").read_text(encoding="utf-8").splitlines()) == 10_001
        assert (tmp_path / "clinic.html").stat().st_size > 10_000
    if name == "start.md":
        run_commands(PAGES[COMMANDS], tmp_path)


def test_every_command_of_the_package_is_on_a_page_that_runs():
    text = "".join(PAGES[name].read_text(encoding="utf-8") for name in ("README.md", "start.md"))
    for command in ("schema init", "schema check", "ledger create", "ledger show", "ledger verify", "release", "report",
                    "sample", "evaluate", "demo", "info"):
        assert f"trigmech {command}" in text


@pytest.mark.daily(3)  # It is the tests' own runner that they look at.
@pytest.mark.parametrize(("fault", "said"), [
    ("```python\nimport seaborn\n```\n", "No module named 'seaborn'"),
    ("```sh\npython3 -m venv .venv && .venv/bin/pip install .\n```\n```sh\ntrigmech info\n```\n", "not found"),
    ("```sh\ntrigmech ledger show absent.json\n```\n", "absent.json"),
    ("```sh\nfalse | cat\n```\n", "non-zero exit status"),
    ("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n", "page.md\", line 6"),
    ("```python\nimport warnings\nwarnings.warn('old')\n```\n", "UserWarning"),
])
def test_planted_faults_of_pages_are_found(fault, said, environment, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(fault, encoding="utf-8")
    status, _, err = run(environment, tmp_path, page)
    assert status != 0
    assert said in err


def test_the_readme_and_the_page_for_contributors_are_short():
    assert len(PAGES["README.md"].read_text(encoding="utf-8").splitlines()) <= 150
    assert len((TOP / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_the_first_commands_of_the_readme_are_those_that_are_run():
    blocks = [block["text"].strip() for block in page_runner.BLOCK.finditer(PAGES["README.md"].read_text("utf-8"))]
    assert blocks[:2] == [
        "python3 -m venv .venv && .venv/bin/pip install -e '.[all]' && .venv/bin/trigmech demo",
        "python3 -m venv .venv && .venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest"]


def test_the_tables_of_the_readme_fit_a_screen_of_80_columns():
    lines = PAGES["README.md"].read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("|") and len(line) > 80] == []


def test_the_table_of_folders_is_that_of_the_package():
    table = PAGES["working.md"].read_text(encoding="utf-8").partition("| folder | contents |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)/`", row.split("|")[1])}
    assert named == {path.parent.name for path in (TOP / "trigmech").glob("*/__init__.py")}
