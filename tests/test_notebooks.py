"""Tutorials are written as notebooks that have the page's text and code."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import page_runner
import pytest

from docs import notebooks

TOP = Path(__file__).parent.parent
each_tutorial = pytest.mark.parametrize("page", notebooks.tutorials(), ids=lambda page: page.stem)


def cells(made, kind):
    return ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == kind]


@each_tutorial
def test_a_notebook_has_the_code_of_its_page_in_its_order(page, tmp_path):
    blocks = page_runner.BLOCK.finditer(page.read_text(encoding="utf-8"))
    code = [block["text"].strip("\n") for block in blocks if block["kind"] == "python"]
    assert cells(notebooks.notebook(page, tmp_path), "code") == code
    assert len(code) >= 3


@each_tutorial
def test_a_notebook_has_the_text_of_its_page_and_links_that_lead_somewhere(page, tmp_path):
    made = cells(notebooks.notebook(page, tmp_path), "markdown")
    assert made[0].splitlines()[0] == page.read_text(encoding="utf-8").splitlines()[0]
    assert not any("```python" in text or "<!--" in text for text in made)
    targets = [found.partition("#")[0] for text in made for found in re.findall(r"\]\(([^)]+)\)", text)]
    assert len(targets) >= 1
    assert [target for target in targets if not (tmp_path / target).resolve().is_file()] == []


@each_tutorial
def test_a_notebook_has_the_form_that_its_format_wants(page, tmp_path):
    made = notebooks.notebook(page, tmp_path)
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    for cell in made["cells"]:
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell["id"])
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set())


def test_the_command_writes_all_tutorials_and_their_cells_run(tmp_path):
    done = subprocess.run([sys.executable, "-m", "docs.notebooks", tmp_path / "made"], cwd=TOP, capture_output=True,
                          text=True, check=True)
    written = sorted((tmp_path / "made").glob("*.ipynb"))
    assert done.stdout.split() == [str(path) for path in written]
    assert [path.stem for path in written] == [page.stem for page in notebooks.tutorials()]
    made = json.loads((tmp_path / "made" / "tutorial-hospitals.ipynb").read_text(encoding="utf-8"))
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in cells(made, "code"):
            exec(text, names)
    assert names["rounds"] == 3
    assert (names["design"].means == names["pooled"].means).all()


def test_without_a_folder_the_command_says_how_it_is_used():
    done = subprocess.run([sys.executable, "-m", "docs.notebooks"], cwd=TOP, capture_output=True, text=True,
                          check=False)
    assert (done.returncode, done.stderr) == (1, "usage: python -m docs.notebooks FOLDER\n")


def test_every_tutorial_is_on_the_page_of_tutorials():
    text = (TOP / "docs" / "tutorials.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\((tutorial-[\w-]+\.md)\)", text)) == {page.name for page in notebooks.tutorials()}
