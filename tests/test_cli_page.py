"""The page on the command line names each command, option and exit status that there is, and no other."""

import importlib.util
import re
from pathlib import Path

import pytest
import typer

from trigmech.cli.app import app

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
STATUSES = [0, 1, 2, 3, 4, 5, 6, 130]


def there():
    """Each command with its options, as the program knows them."""
    def below(command, words):
        if hasattr(command, "commands"):
            return {key: options for name, each in command.commands.items()
                    for key, options in below(each, (*words, name)).items()}
        return {" ".join(words): {option for parameter in command.params if parameter.param_type_name == "option"
                                  for option in [*parameter.opts, *parameter.secondary_opts]} - {"--help"}}

    return below(typer.main.get_command(app), ())


def told(text):
    """The same, as the page tells it: headings, and the first cells of the tables below."""
    found = {}
    for part in re.split(r"^### ", text.partition("## The commands")[2], flags=re.MULTILINE)[1:]:
        cells = re.findall(r"^\| (`-[^|]*) \|", part, re.MULTILINE)
        found[part.partition("\n")[0]] = {option for cell in cells for option in re.findall(r"`(-[^`]*)`", cell)}
    return found


def test_the_page_names_every_command_and_option_and_no_other():
    assert told(PAGE.read_text(encoding="utf-8")) == there()


def test_options_before_any_command_are_told_too():
    common = {option for parameter in typer.main.get_command(app).params for option in parameter.opts}
    written = set(re.findall(r"`(--?[a-z]+)`", PAGE.read_text(encoding="utf-8").partition("Before any command |")[2]
                             .partition("###")[0]))
    assert written == common - {"--help", "--install-completion", "--show-completion"}
    assert written == {"--version", "--verbose", "-v"}


def test_the_page_is_as_it_is_written_from_the_commands():
    path = PAGE.with_name("commands.py")
    spec = importlib.util.spec_from_file_location("commands_of_the_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert PAGE.read_text(encoding="utf-8") == module.page(), "run: python docs/commands.py"


def test_exit_statuses_are_told():
    table = PAGE.read_text(encoding="utf-8").partition("## How a command ends")[2].partition("## ")[0]
    assert [int(status) for status in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == STATUSES


@pytest.mark.parametrize("fault", ["| `--absent` | Nothing. |", "### absent\n\n| `--json` | Print. |"])
def test_a_planted_option_or_command_is_found(fault):
    assert told(f"{PAGE.read_text(encoding='utf-8')}\n{fault}\n") != there()
