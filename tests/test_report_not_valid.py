"""The page of a release says that standard errors of one synthetic table are not valid, and what to do."""

import re

import numpy as np
import pytest

import trigmech as tm
from trigmech.report import page


@pytest.mark.usefixtures("unpainted")
def test_the_page_says_that_standard_errors_of_one_table_are_not_valid(tmp_path):
    rng = np.random.default_rng(0)
    schema = tm.Schema([tm.Column("a", -3, 3), tm.Column("b", -3, 3)])
    made = tm.synthesize(rng.normal(size=(300, 2)).clip(-3, 3), schema, tm.Budget(1.0, 1e-6), rng=rng)
    text = re.sub(r"<[^>]*>|\s+", " ", page.write(made, tmp_path / "page.html").read_text(encoding="utf-8"))
    text = re.sub(" +", " ", text)
    assert "Those that are computed on a single synthetic table are not valid" in text
    for command in ("ask", "fit", "sample --imputations"):
        assert f"trigmech {command} " in text
