"""A membership attack finds a planted leak, and nothing in a release; its AUC and interval follow their definitions."""

import itertools

import numpy as np
import pytest

import trigmech as tm
from trigmech.errors import InputError
from trigmech.evaluation.membership import attacked, auc_of
from trigmech.report import page

SCHEMA = tm.Schema([tm.Column(name, -4, 4) for name in "abcd"])


def people(n, seed):
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(size=(n, 1)) * 0.7 + rng.normal(size=(n, 4)) * 0.7, -4, 4)


@pytest.mark.usefixtures("unpainted")
def test_a_planted_leak_is_found_and_a_release_shows_none(tmp_path):
    members, others = SCHEMA.to_cube(people(600, 1)), SCHEMA.to_cube(people(500, 2))
    made = tm.synthesize(people(600, 1), SCHEMA, tm.Budget(1.0, 1e-6), rng=np.random.default_rng(0))
    clean = attacked(made.distribution.points, members, others, np.random.default_rng(0))
    assert clean.low <= 0.5 <= clean.high
    assert (clean.members, clean.others) == (600, 500)
    leaking = made.distribution.points.copy()
    # A tenth of the synthetic rows are rows of the table.
    leaking[:60] = members[:60]
    found = attacked(leaking, members, others, np.random.default_rng(0))
    assert found.low > 0.5
    assert "look for a leak" in found.words
    assert "does not distinguish" in clean.words
    assert "0." not in repr(found)
    text = page.write(made, tmp_path / "a.html", people(600, 1), held_out=people(500, 2)).read_text(encoding="utf-8")
    assert "does not distinguish rows of the table from rows of other people" in " ".join(text.split())


def test_the_auc_counts_pairs_and_ties_by_half():
    rng = np.random.default_rng(3)
    first, second = rng.integers(0, 6, 30) + 1.0, rng.integers(0, 6, 25).astype(float)
    each = np.array([[(a > b) + 0.5 * (a == b) for b in second] for a in first])
    auc, low, high = auc_of(first, second)
    assert auc == pytest.approx(each.mean())
    error = 1.959964 * np.sqrt(each.mean(axis=1).var(ddof=1) / 30 + each.mean(axis=0).var(ddof=1) / 25)
    assert (low, high) == pytest.approx((max(auc - error, 0.0), min(auc + error, 1.0)), abs=1e-6)


def test_the_interval_holds_the_true_auc_in_about_95_of_100_cases():
    rng, held = np.random.default_rng(4), 0
    # The true AUC of normal scores one half apart.
    true = 0.638163195
    for _ in range(400):
        _, low, high = auc_of(rng.normal(0.5, 1.0, 60), rng.normal(0.0, 1.0, 80))
        held += low <= true <= high
    assert 365 <= held <= 393


def test_other_people_need_a_table_and_enough_rows(tmp_path):
    made = tm.synthesize(people(200, 1), SCHEMA, tm.Budget(1.0, 1e-6), rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="give the table too"):
        page.write(made, tmp_path / "a.html", held_out=people(50, 2))
    for members, others in itertools.product((people(200, 1), people(19, 1)), (people(19, 2),)):
        with pytest.raises(InputError, match="needs at least 20 rows"):
            page.write(made, tmp_path / "a.html", members, held_out=others)
    assert not list(tmp_path.iterdir())
