"""What the site needs beyond its plugins: files from the top of the repository as pages, formulas without scripts."""

import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

TOP = Path(__file__).parent.parent
# Pages of the site that are files at the top of the repository.
FROM_THE_TOP = {"SECURITY.md": "security.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

# Made by arithmatex: \(...\) in a span, \[...\] in a div.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
# Docstrings are written for numpydoc; here the name alone is wanted, of `~a.b.c` the last part.
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):<code>(~?)([\w.]+)</code>")
# One on lines of its own goes with its line break, one in a sentence without.
COMMENT = re.compile(r"^<!--.*?-->\n?|<!--.*?-->", re.DOTALL | re.MULTILINE)
CODE_BLOCK = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?:\.\./|docs/)?([\w./-]+\.md)(#[\w-]+)?\)")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the files at the top."""
    for name, page in FROM_THE_TOP.items():
        files.append(File.generated(config, page, abs_src_path=str(TOP / name)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leave out comments, which are for the tests, and point links to and from the top at pages of the site."""
    parts = CODE_BLOCK.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(_link, COMMENT.sub("", part)) for part in parts)


def on_page_content(html: str, **_: Any) -> str:
    """Turn formulas into MathML, which browsers show by themselves, and roles of docstrings into names."""
    html = ROLE.sub(lambda role: f"<code>{role[2].rpartition('.')[2] if role[1] else role[2]}</code>", html)
    return FORMULA.sub(_mathml, html)


def _link(found: re.Match[str]) -> str:
    return f"]({FROM_THE_TOP.get(found[1], found[1])}{found[2] or ''})"


def _mathml(found: re.Match[str]) -> str:
    block = found[1] == "div"
    formula = convert(unescape(found[2]).strip(), display="block" if block else "inline")
    return f'<div class="formula">{formula}</div>' if block else formula
