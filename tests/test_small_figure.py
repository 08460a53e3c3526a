"""The picture in README: its command knows its tables and their columns."""

import pytest

from experiments.small import Sample
from paper_figures import small


@pytest.mark.parametrize("source", small.PAIRS)
def test_the_tables_of_the_picture_in_readme_are_known(source):
    """Before, the command ended with "no data set is called 'sklearn breast_cancer'"."""
    table, schema = Sample(source).load(0)
    assert len(table) > 100
    assert set(small.PAIRS[source]) <= set(schema.names)
    assert small.NAMES[source]


@pytest.mark.nightly
def test_the_picture_in_readme_is_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(small, "EPSILONS", (1.0,))
    monkeypatch.setattr(small, "PAIRS", {"sklearn wine": small.PAIRS["sklearn wine"]})
    file = small.draw(tmp_path / "small.png")
    assert file.read_bytes().startswith(b"\x89PNG")
