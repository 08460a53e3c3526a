"""Textbook regressions: the page's judgements, and the schemas of public bounds."""

import numpy as np
import pandas as pd
import pytest

from experiments import cells, textbook
from experiments.asked import Asked
from experiments.frames import read_csv


def test_every_book_has_a_schema_of_the_columns_of_its_formula():
    assert len(textbook.BOOKS) == 20
    for book in textbook.BOOKS:
        schema = textbook.schema_of(book, list(book.bounds))
        assert set(schema.names) == set(book.formula.replace("~", "+").replace(" ", "").split("+"))


def test_a_table_is_clipped_to_public_bounds():
    book = next(each for each in textbook.BOOKS if each.name == "diabetes")
    table = textbook.table_of(book._replace(bounds=book.bounds | {"bmi": (20, 30)}))
    assert list(table) == ["target", "bmi", "bp", "s5"]
    assert (table["bmi"].min(), table["bmi"].max()) == (20.0, 30.0)


def test_what_is_kept_is_judged():
    """Held and significant; sign lost; not significant in truth and an alarm."""
    found = textbook.judged(pd.DataFrame({
        "real": [1.0, 1.0, 0.1], "error": [0.1, 0.1, 0.1], "naive": [1.1, 1.3, 0.1], "naive error": [0.1] * 3,
        "value": [1.2, -1.0, 0.9], "low": [0.8, -1.4, 0.5], "high": [1.6, -0.6, 1.3], "deviation": [0.2] * 3}))
    assert found["hold"].tolist() == [True, False, False]
    assert found["naively"].tolist() == [True, False, True]
    assert found["sign"].tolist()[:2] == [1.0, 0.0]
    assert found["seen"].tolist()[:2] == [1.0, 0.0]
    assert found[["sign", "seen"]].iloc[2].isna().all()
    assert found["alarm"].tolist()[2] == 1.0
    assert found["alarm"].iloc[:2].isna().all()
    assert found["wide"].iloc[0] == pytest.approx(0.8 / (2 * textbook.NORMAL * 0.1))


def test_a_quick_run_writes_a_line_for_each_coefficient(monkeypatch, tmp_path):
    """Made results in place of releases."""
    made = {"n": 5, "coefficient": ["a"], "real": [1.0], "error": [0.1], "naive": [1.0], "naive error": [0.1],
            "value": [1.0], "low": [0.5], "high": [1.5], "deviation": [0.2]}
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "run_cells", lambda todo, jobs, title: [(cell, made) for cell in todo])
    assert textbook.textbook(Asked(quick=True)).name == "textbook_quick.md"
    written = read_csv(tmp_path / "textbook_quick.csv")
    assert np.array_equal(written["epsilon"], textbook.EPSILONS)
    assert list(written["real"]) == [1.0] * 3
