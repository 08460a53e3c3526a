"""Write the commands' section of docs/cli.md from the commands themselves: `python docs/commands.py`."""

import re
from pathlib import Path
from typing import Any

import typer

from trigmech.cli.app import app

PAGE = Path(__file__).with_name("cli.md")
START, END = "<!-- commands -->\n", "<!-- end of commands -->\n"


def section() -> str:
    """Return every command with its purpose, an example, and its arguments and options."""
    root = typer.main.get_command(app)
    common = [_row(parameter) for parameter in root.params if parameter.name in ("version", "verbose")]
    return "\n".join([_table("Before any command", common), *(
        f"### {' '.join(words)}\n\n{_purpose(command)}\n\n```sh\n{_example(command)}\n```\n\n"
        + _table("argument or option", [_row(parameter) for parameter in command.params if parameter.name != "help"])
        for words, command in _commands(root))])


def page() -> str:
    """Return the page with the section as it should be."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    return f"{before}{START}\n{section()}\n{END}{rest.partition(END)[2]}"


def _commands(command: Any, words: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if hasattr(command, "commands"):
        return [found for name, below in command.commands.items() for found in _commands(below, (*words, name))]
    return [(words, command)]


def _purpose(command: Any) -> str:
    return "\n\n".join(" ".join(part.split()) for part in command.help.split("\n\n") if not part.startswith("Example:"))


def _example(command: Any) -> str:
    found = re.search(r"Example: `([^`]*)`", command.help)
    if found is None:
        raise ValueError(f"the help of {command.name} has no example")
    return " ".join(found[1].split())


def _table(title: str, rows: list[str]) -> str:
    return f"| {title} | |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def _row(parameter: Any) -> str:
    argument = parameter.param_type_name == "argument"
    names = [parameter.name.upper()] if argument else [*parameter.opts, *parameter.secondary_opts]
    text = (parameter.help or "").strip().rstrip(".").replace("|", "\\|") + "."
    if parameter.required and not argument:
        text += " Required."
    elif not argument and isinstance(parameter.default, str | int | float | Path) and str(parameter.default) not in (
            "False", ""):
        text += f" Default: `{parameter.default}`."
    return f"| {', '.join(f'`{name}`' for name in names)} | {text} |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
