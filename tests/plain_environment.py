"""Environments that hold what one install brings and nothing else, made of links to what is installed here."""

import importlib.metadata
import sys
import tomllib
import venv
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def required_by(name, extras):
    """The requirements of a distribution; of this package by its source, for what is installed may be older."""
    if name == PROJECT["name"]:
        return [*PROJECT["dependencies"], *(text for extra in extras if extra
                                            for text in PROJECT["optional-dependencies"][extra])]
    return importlib.metadata.requires(name) or ()


def brought_by(requirements):
    """Names of all distributions that installing some requirements brings, those of their own included."""
    found, waiting = set(), [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        extras = requirement.extras or {""}
        name = canonicalize_name(requirement.name)
        if (name, frozenset(extras)) in found:
            continue
        found.add((name, frozenset(extras)))
        for text in required_by(name, extras):
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in {"", *extras}):
                waiting.append(needed)
    return {name for name, _ in found}


def make(folder, requirements, without=()):
    """Make a virtual environment of the distributions that installing some requirements brings, without some of them.

    Links instead of an installer: it takes a moment, needs no network, and has the very versions that are tested.
    """
    venv.EnvBuilder(symlinks=True).create(folder)
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in sorted(brought_by(requirements) - set(without)):
        distribution = importlib.metadata.distribution(name)
        for top in {path.parts[0] for path in distribution.files or ()} - {"..", "__pycache__"}:
            source, link = Path(distribution.locate_file(top)), packages / top
            if source.exists() and not link.is_symlink():
                link.symlink_to(source)
        for script in distribution.entry_points.select(group="console_scripts"):
            module, function = script.value.split(":")
            command = folder / "bin" / script.name
            command.write_text(f"#!{folder}/bin/python\nfrom {module} import {function}\n{function}()\n")
            command.chmod(0o755)
