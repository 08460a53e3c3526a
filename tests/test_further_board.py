"""The experiment on samples of many rows: its figures, and its page."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from experiments import cells, further
from experiments.asked import Asked
from experiments.small import WITHOUT_DATA


@pytest.mark.nightly
def test_the_page_shows_errors_and_how_many_rows_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(cells, "run_cells", lambda todo, *_: ((cell, cells.run_cell(cell)) for cell in todo))
    path = replace(further.further, quick=WITHOUT_DATA[:1], size=(5_000, 0))(Asked(quick=True))
    found = pd.read_csv(path.with_suffix(".csv")).set_index("measure")["value"]
    assert found["different, fitted rows"] == found["different, further rows"] == 1.0
    for measure in further.MEASURES:
        fitted, more = found[f"{measure}, fitted rows"], found[f"{measure}, further rows"]
        assert abs(fitted - more) < 0.15 * fitted
    line = path.read_text(encoding="utf-8").splitlines()[-2 if path.read_text().endswith("\n\n") else -1]
    assert f"{found['pairs, further rows']:.4f}" in line
    assert np.isfinite(found).all()
