"""What the pages show parses, exists and is found, and the pages need nothing from the network."""

import ast
import doctest
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import typer
from page_runner import BLOCK, SHELL

import trigmech as tm
from paper_figures import ideas
from trigmech.cli.app import app as cli
from trigmech.schema import toml as schema_file

TOP = Path(__file__).parent.parent
DOCS = TOP / "docs"
PAGES = {page.name: page for page in [*sorted(DOCS.glob("*.md")), *(TOP / f"{name}.md" for name in (
    "README", "SECURITY", "CONTRIBUTING", "CHANGELOG"))]}
each_page = pytest.mark.parametrize("page", PAGES)

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: *\{ *#([\w-]+) *\})? *#*$", re.MULTILINE)
MEMBER = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@cache
def text_of(path):
    return path.read_text(encoding="utf-8")


def prose(text):
    """A page's text without code blocks and comments."""
    return COMMENT.sub("", BLOCK.sub("", text))


def anchors(text):
    """The anchors that a page's headings and members have, here and where Markdown files are shown."""
    found = set(MEMBER.findall(text))
    for title, given in HEADING.findall(prose(text)):
        words = re.sub(r"[^\w\s-]", "", SPAN.sub(r"\1", title)).strip().lower()
        found.add(given or re.sub(r"[\s]+", "-", words))
    return found


def broken_links(text, place):
    """Links of a page in a folder to files or anchors that are not there, and pictures that nothing is said of."""
    found = []
    for picture, words, target in LINK.findall(prose(text)):
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        file = (place / path).resolve() if path else None
        exists = file is None or file.exists()
        if not exists or (anchor and anchor not in anchors(text if file is None else text_of(file))):
            found.append(target)
        elif picture and not words:
            found.append(f"{target} has no alternative text")
    return found


def shell_lines(text):
    """The single commands of a page's shell blocks."""
    lines = "\n".join(block["text"] for block in BLOCK.finditer(text) if block["kind"] in SHELL)
    lines = lines.replace("\\\n", " ")
    return [part.strip() for line in lines.splitlines() for part in re.split(r"&&|\|", re.sub(r"\s#.*", "", line))]


def trigmech_commands(text):
    """The arguments of each trigmech command of a page's shell blocks."""
    words = [shlex.split(line) for line in shell_lines(text)]
    return [line[1:] for line in words if line and Path(line[0]).name == "trigmech"]


@cache
def program():
    return typer.main.get_command(cli)


def command_of(arguments):
    """The command that arguments start with, and the rest of them."""
    command, rest = program(), list(arguments)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            raise KeyError(f"no command {rest[0]}")
        command = command.commands[rest.pop(0)]
    return command, rest


def parse(arguments):
    """Parse a whole command line with the real command, without running it."""
    command, rest = command_of(arguments)
    if "--help" not in rest and not hasattr(command, "commands"):
        command.make_context(command.name, rest)


def unknown_in_span(span):
    """What a `trigmech ...` in running text names that there is not: commands and options may be incomplete there."""
    words = shlex.split(span)[1:]
    try:
        command, rest = command_of([word for word in words if not word.isupper()])
    except KeyError as error:
        return [str(error)]
    options = {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}
    return [word for word in rest if word.startswith("-") and word not in {"--help", *options}]


def resolves(name):
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            fields = getattr(value, "__dataclass_fields__", {})
            if not hasattr(value, part) and part not in fields:
                return False
            value = getattr(value, part, None)
        return True
    return False


def unknown_names(text):
    """Modules, members, files and commands named in running text that there are not."""
    found = []
    for span in SPAN.findall(prose(text)):
        name = re.sub(r"\(.*", "", span)
        if re.fullmatch(r"(?:tm|trigmech)(?:\.\w+)+", name) and not name.endswith((".py", ".md")):
            name = re.sub(r"^tm\.", "trigmech.", name)
            if not resolves(name):
                found.append(span)
        elif re.fullmatch(r"(?:trigmech|experiments|paper_figures|benchmarks|tests|docs|\.ci)/[\w./-]*", span):
            if not (TOP / span).exists():
                found.append(span)
        elif span.startswith("trigmech "):
            found += unknown_in_span(span)
    return found


@each_page
def test_schemas_are_complete(page, tmp_path):
    for block in BLOCK.finditer(text_of(PAGES[page])):
        if block["title"] == "schema.toml":
            (tmp_path / "schema.toml").write_text(block["text"], encoding="utf-8")
            assert schema_file.check(tmp_path / "schema.toml") == []


@each_page
def test_command_lines_parse(page):
    for arguments in trigmech_commands(text_of(PAGES[page])):
        parse(arguments)


@each_page
def test_links_lead_somewhere(page):
    assert broken_links(text_of(PAGES[page]), PAGES[page].parent) == []


@each_page
def test_names_of_modules_members_files_and_commands_exist(page):
    assert unknown_names(text_of(PAGES[page])) == []


def test_every_public_name_is_in_the_reference():
    members = MEMBER.findall(text_of(PAGES["reference.md"]))
    assert len(members) == len(set(members))
    assert [name for name in members if not resolves(name)] == []
    named = {name.rpartition(".")[2] for name in members if name.startswith("trigmech.") or name in tm.__all__}
    assert [name for name in tm.__all__ if name not in named] == []


def test_what_pages_import_is_in_the_reference():
    """Names of modules that are listed, and members of what is listed, are found there too."""
    members = {*MEMBER.findall(text_of(PAGES["reference.md"]))}
    taken = {f"{module}.{name}" for page in PAGES.values() for module, names in re.findall(
        r"^from (trigmech[\w.]*) import ([\w, ]+)$", text_of(page), re.MULTILINE) for name in
        (each.partition(" as ")[0] for each in names.split(", "))}
    assert "trigmech.queries.base.Query" in taken
    assert [name for name in sorted(taken) if not any(each == name or each.startswith(f"{name}.")
                                                      for each in members)] == []


@pytest.mark.parametrize("path", sorted((TOP / "trigmech").rglob("*.py")), ids=lambda path: path.stem)
def test_sections_of_docstrings_hold_entries_alone(path):
    """A sentence below the parameters is shown as one more parameter, with its first word as the name."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    for node in nodes:
        lines = (ast.get_docstring(node) or "").splitlines()
        begun = [i for i in range(1, len(lines)) if lines[i] and set(lines[i]) == {"-"}]
        ends = [*(i - 1 for i in begun[1:]), len(lines)] if begun else []
        for first, last in zip(begun, ends, strict=True):
            held = lines[first + 1 : last] if lines[first - 1] in ("Parameters", "Attributes") else []
            assert [line for line in held if re.match(r"\w+ [\w:]", line) and " : " not in line] == [], node.name


def test_every_page_is_in_the_navigation_and_no_other():
    listed = set(re.findall(r"([\w-]+\.md)$", text_of(TOP / "mkdocs.yml"), re.MULTILINE))
    assert listed == {page.name for page in DOCS.glob("*.md")} | {"security.md", "contributing.md", "changelog.md"}


def test_the_pictures_of_the_idea_are_those_that_are_drawn():
    shown = {target for picture, _, target in LINK.findall(text_of(PAGES["idea.md"])) if picture}
    assert shown == {f"images/{name}.svg" for name in ideas.PICTURES}


@pytest.mark.nightly  # It takes two pictures, which change seldom.
def test_a_picture_is_drawn_the_same_again(tmp_path):
    first, second = (ideas.draw("smooth_and_counting", tmp_path / folder).read_bytes() for folder in "ab")
    assert first == second


@each_page
def test_what_is_not_run_says_why(page):
    text = text_of(PAGES[page])
    reasons = [block["reason"] for block in BLOCK.finditer(text) if block["reason"]]
    assert len(reasons) == text.count("<!-- not run")
    assert all(len(reason.split()) >= 3 for reason in reasons)


def test_the_page_of_the_commands_is_as_it_is_written_from_them():
    spec = importlib.util.spec_from_file_location("commands_of_the_page", DOCS / "commands.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert text_of(PAGES["cli.md"]) == module.page(), "run: python docs/commands.py"


def test_exit_statuses_and_options_before_any_command_are_told():
    text = text_of(PAGES["cli.md"])
    table = text.partition("## How a command ends")[2].partition("## ")[0]
    assert [int(status) for status in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == [
        0, 1, 2, 3, 4, 5, 6, 7, 8, 129, 130, 143]
    before = re.findall(r"`(--?[a-z]+)`", text.partition("Before any command |")[2].partition("###")[0])
    assert set(before) == {"--version", "--verbose", "-v"}


@pytest.mark.parametrize(("fault", "found"), [
    ("[a](absent.md)", "absent.md"), ("[a](index.md#absent)", "index.md#absent"), ("## Here\n[a](#there)", "#there"),
    ("![](images/error_bars.svg)", "images/error_bars.svg has no alternative text"),
])
def test_planted_broken_links_are_found(fault, found):
    assert broken_links(fault, DOCS) == [found]
    assert broken_links("## Here, too\n[a](#here-too) [b](index.md#for-whom) ![c](images/error_bars.svg)", DOCS) == []


@pytest.mark.parametrize("fault", [
    "`trigmech.absent`", "`tm.Absent`", "`trigmech.reconstruction.l1.fit_l2(basis, points)`", "`tests/test_absent.py`",
    "`trigmech absent`",
    "`trigmech sample --absent`", "`trigmech ledger absent FILE`",
])
def test_planted_unknown_names_are_found(fault):
    assert len(unknown_names(f"See {fault} there.")) == 1
    known = "`trigmech.reconstruction.l1.fit_l1`, `tm.Budget`, `tests/test_fit.py`, `trigmech sample --rows`"
    assert unknown_names(f"See {known}.") == []


@pytest.mark.parametrize("fault", ["trigmech absent", "trigmech demo --absent 1", "trigmech demo --epsilon no",
                                   "pip install . && .venv/bin/trigmech demo too many"])
def test_planted_command_lines_do_not_parse(fault):
    (arguments,) = trigmech_commands(f"```sh\n{fault}\n```\n")
    with pytest.raises((KeyError, typer.BadParameter.__base__)):
        parse(arguments)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as it is built, in a folder."""
    for name in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(name, reason="the site's packages are not installed: pip install -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    done = subprocess.run(command, cwd=TOP, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.nightly
def test_the_site_builds_without_a_warning_and_loads_nothing_from_elsewhere(site):
    pages = {page.name: page.read_text(encoding="utf-8") for page in site.glob("*.html")}
    assert len(pages) > 10
    for name, page in pages.items():
        sources = re.findall(r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?([^\"'\s>]+)|<link[^>]*\shref=[\"']?([^\"'\s>]+)",
                             page)
        assert (name, [s for pair in sources for s in pair if re.match(r"(https?:)?//", s)]) == (name, [])
        assert "arithmatex" not in page, f"{name}: a formula was left"
    assert "<math" in pages["idea.html"]


@pytest.mark.nightly
def test_links_of_the_site_lead_to_pages_and_places_that_are_there(site):
    pages = {page.name: page.read_text(encoding="utf-8") for page in site.glob("*.html") if page.name != "404.html"}
    places = {name: set(re.findall(r"\sid=[\"']?([^\"'\s>]+)", page)) for name, page in pages.items()}
    broken = set()
    for name, page in pages.items():
        for target in re.findall(r"<a[^>]*\shref=[\"']?([^\"'\s>]+)", page):
            file, _, place = target.partition("#")
            file = file or name
            if not re.match(r"\w+:", target) and (not (site / file).exists() or (
                    place and not place.startswith("__") and file in places and place not in places[file])):
                broken.add((name, target))
    assert broken == set()


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser: apt-get install chromium")
def test_the_site_is_searched_without_a_server(site, tmp_path):
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
               "--virtual-time-budget=15000", "--dump-dom", f"{(site / 'index.html').as_uri()}?q=neighbours"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout
    (said,) = re.findall(r'md-search-result__meta">([^<]*)<', shown)
    assert re.fullmatch(r"\d+ matching documents", said)
    found = re.findall(r'<a href="([^"?]*)[^"]*" class="md-search-result__link"', shown)
    assert (site / "decisions.html").as_uri() in found


WITH_EXAMPLES = [".".join(path.relative_to(TOP).with_suffix("").parts)
                 for path in sorted((TOP / "trigmech").rglob("*.py")) if ">>>" in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_in_docstrings_run_and_show_what_they_say(name):
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted >= 1
    assert done.failed == 0
