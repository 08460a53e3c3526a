"""Runs the blocks of a page in their order, in the interpreter and the folder that it is started in.

``python page_runner.py PAGE ...``: Python blocks of a page in one namespace, shell blocks by bash; files that have a
title are written.
Standard library only, so that it runs in an environment that has nothing else.
"""

import re
import subprocess
import sys
import types
import warnings
from pathlib import Path

BLOCK = re.compile(r"(?:^<!-- not run: (?P<reason>[^>]+) -->\n)?"
                   r"^(?P<indent> *)```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^(?P=indent)```$",
                   re.MULTILINE | re.DOTALL)
SHELL = ("sh", "bash", "console")
# The environment is there already; whether it is active is the page's matter.
SET_UP = re.compile(r"(?:python3 -m venv|(?:\S*/)?pip install) [^&\n]+")
ACTIVATE = "source .venv/bin/activate"


def shell_parts(text, active):
    """The commands of a shell block, and whether the environment is active after them."""
    commands = SET_UP.sub("true ", text.replace("\\\n", " "))
    return (f"{ACTIVATE}\n" if active else "") + commands, active or ACTIVATE in commands


def run_page(page):
    """Run a page's blocks; an error names its line."""
    text = page.read_text(encoding="utf-8")
    module = types.ModuleType("a_page")
    # Classes of a page need a module in which their annotations are looked up.
    sys.modules["a_page"] = module
    # A page that makes an environment begins outside it; readers of the others are in it.
    active = "python3 -m venv" not in text
    for block in BLOCK.finditer(text):
        line = text[: block.start("text")].count("\n")
        if block["title"]:
            Path(block["title"]).write_text(block["text"], encoding="utf-8")
        elif block["reason"]:
            continue
        elif block["kind"] == "python":
            # Compiled with the page's lines, so that an error names the line of the page.
            exec(compile("\n" * line + block["text"], str(page), "exec"), module.__dict__)
        elif block["kind"] in SHELL:
            commands, active = shell_parts(block["text"], active)
            subprocess.run(["bash", "-euo", "pipefail", "-c", commands], check=True)


if __name__ == "__main__":
    warnings.simplefilter("error")
    for path in sys.argv[1:]:
        run_page(Path(path))
