"""Writes the tutorials as notebooks: ``python -m docs.notebooks FOLDER``, at the top of the repository.

A notebook has the page's text and its blocks of Python, which run from top to bottom.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CODE = re.compile(r"^```python\n(.*?)^```$\n?", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"^<!--.*?-->\n?|<!--.*?-->", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")


def tutorials() -> list[Path]:
    """Return the pages."""
    return sorted(HERE.glob("tutorial-*.md"))


def notebook(page: Path, folder: Path) -> dict[str, Any]:
    """Return a page as a notebook that lies in a folder; links lead to the pages."""
    def linked(found: re.Match[str]) -> str:
        path = os.path.relpath(page.parent / found[1], folder)
        return f"]({path.replace(os.sep, '/')})"

    parts = CODE.split(page.read_text(encoding="utf-8"))
    cells: list[dict[str, Any]] = []
    for i, part in enumerate(parts):
        text = (part if i % 2 else LINK.sub(linked, COMMENT.sub("", part))).strip("\n")
        if text:
            own = {"cell_type": "code", "execution_count": None, "outputs": []} if i % 2 else {"cell_type": "markdown"}
            cells.append({**own, "id": f"cell-{len(cells)}", "metadata": {}, "source": text.splitlines(keepends=True)})
    return {"cells": cells, "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python",
                                                        "name": "python3"}, "language_info": {"name": "python"}},
            "nbformat": 4, "nbformat_minor": 5}


def write(folder: Path) -> list[Path]:
    """Write all tutorials into a folder; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{page.stem}.ipynb" for page in tutorials()]
    for page, path in zip(tutorials(), written, strict=True):
        text = json.dumps(notebook(page, folder.resolve()), indent=1, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m docs.notebooks FOLDER")
    print(*write(Path(sys.argv[1])), sep="\n")
