"""What a comparison says of columns and pairs: rules between columns, and lights by the limits of each."""

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.evaluation import measures
from trigmech.evaluation.features import Coding
from trigmech.evaluation.judgement import Judgement


def test_columns_that_determine_others_are_listed_the_firmest_first_and_no_more_than_it_says(monkeypatch):
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, 4_000)
    columns = {"of": first}
    for name, broken in (("b", 0.02), ("c", 0.0), ("d", 0.01)):
        columns[name] = np.where(rng.random(4_000) < broken, rng.integers(0, 3, 4_000), first // 2)
    table = pd.DataFrame({name: values.astype(str) for name, values in columns.items()})
    schema = tm.Schema([tm.Column(name, kind="categorical", categories=tuple("012345" if name == "of" else "012"))
                        for name in table])
    rows = schema.decode(schema.to_cube(table))
    coding = Coding.of(schema.columns, rows)
    side = coding.side(rows)
    found = [each for each in measures.determined(coding, side, side) if each[0] == 0]
    assert [(first, second) for first, second, *_ in found] == [(0, 2), (0, 3), (0, 1)]
    assert found[0][2:] == (1.0, 1.0)
    for _, second, true, made in found:
        joint = pd.crosstab(table["of"], table.iloc[:, second])
        assert true == made == pytest.approx(joint.max(axis=1).sum() / 4_000, rel=1e-12)
    every = measures.determined(coding, side, side)
    assert [share for *_, share, _ in every] == sorted((share for *_, share, _ in every), reverse=True)
    monkeypatch.setattr(measures, "MOST_DETERMINED", 2)
    assert measures.determined(coding, side, side) == every[:2]


@pytest.mark.parametrize(("score", "error", "light"), [
    (0.999, 0.001, "good"), (0.999, 0.9, "poor"), (0.3, 0.001, "poor"), (0.3, 0.9, "poor")])
def test_a_pair_is_as_good_as_the_worse_of_its_table_and_its_correlation_each_by_its_own_limits(score, error, light):
    held = {"differences": {"a and b": error}, "differences, fresh": {"a and b": 0.001}}
    found = Judgement((), {"pairs": {"a and b": score, "a and c": 0.999}, "pairs, fresh": {
        "a and b": 0.999, "a and c": 0.999}, "correlations": held}, {})
    assert found.lights_of_pairs() == {"a and b": light, "a and c": "good"}
