"""All pages that committed lines make, beside the committed ones: ``python -m tests.remade [FOLDER]``.

Writes the pages into the folder, if there is one, so that those of two versions of the code can be compared byte by
byte, and names those that differ from the committed pages. The pages of linear queries take a minute.
"""

import sys
from pathlib import Path

from experiments import fingerprints, prose
from experiments.cells import RESULTS
from experiments.every import EXPERIMENTS
from experiments.protocols import pages


def remade():
    """Yield each page's path, and its text as the committed results make it."""
    for name, experiment in EXPERIMENTS.items():
        if experiment.run is None and (RESULTS / f"{name}.csv").exists():
            older = fingerprints.older(name, RESULTS) if name in fingerprints.BY_ROWS else frozenset()
            yield RESULTS / f"{name}.md", fingerprints.marked(experiment.committed(RESULTS, older), name, RESULTS)
    for path in prose.pages_of():
        yield path, prose.filled(pages.filled(path.read_text(encoding="utf-8"), RESULTS), RESULTS)


if __name__ == "__main__":
    for path, text in remade():
        if len(sys.argv) > 1:
            (Path(sys.argv[1]) / f"{path.parent.name}-{path.name}").write_text(text, encoding="utf-8")
        if text != path.read_text(encoding="utf-8"):
            print(f"differs: {path.name}")
