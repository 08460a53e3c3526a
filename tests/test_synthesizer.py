"""The estimator keeps to scikit-learn's conventions, and to this package's where the two differ."""

import math
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator

import trigmech as tm
from trigmech import synthesizer
from trigmech.distribution import Distribution
from trigmech.errors import BudgetError, InputError
from trigmech.tables.frames import without_names

SMALL = tm.MomentMechanism(points=64, iterations=2)
MODEL = tm.Synthesizer(schema="cube", delta=1e-3, mechanism=SMALL, random_state=0)

EXPECTED_TO_FAIL = {
    "check_dtype_object": "an entry that is no number is an InputError, a ValueError, and not a TypeError",
    "check_estimators_nan_inf": "infinite values are clipped to the bounds; NaN is refused, as is tested here",
}


def rows(n=200, d=3, seed=5):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (n, d))


def frame(n=200):
    rng = np.random.default_rng(7)
    return pd.DataFrame({"colour": rng.choice(["red", "blue"], n), "unused": np.arange(n),
                         "size": np.where(rng.uniform(size=n) < 0.3, np.nan, rng.uniform(0.0, 10.0, n))})


MIXED = tm.Schema([tm.Column("size", 0.0, 10.0, missing="keep"),
                   tm.Column("colour", kind="categorical", categories=("red", "blue"))])


def name_of(check):
    return check.func.__name__


@pytest.mark.daily(6)  # They are the library's own, and of one estimator.
@pytest.mark.parametrize("check", [check for _, check in estimator_checks_generator(MODEL)], ids=name_of)
def test_scikit_learns_checks_pass_but_for_those_with_a_reason(check):
    if name_of(check) in EXPECTED_TO_FAIL:
        with pytest.raises((AssertionError, InputError)):
            check(clone(MODEL))
    else:
        check(clone(MODEL))


def test_parameters_are_kept_as_given_set_again_and_cloned():
    model = tm.Synthesizer(MIXED, epsilon=2.0, mechanism=SMALL, ledger="ledger.json", random_state=3)
    assert model.get_params() == {"schema": MIXED, "epsilon": 2.0, "delta": 0.0, "mechanism": SMALL, "target": None,
                                  "ledger": "ledger.json", "random_state": 3}
    assert model.set_params(epsilon=0.5, ledger=None) is model
    again = clone(model.set_output(transform="polars").fit(frame()))
    assert (again.epsilon, again.ledger, repr(again.schema)) == (0.5, None, repr(MIXED))
    assert not hasattr(again, "synthesis_")
    assert isinstance(again.fit(frame()).sample(3), pl.DataFrame)
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(epsilom=1.0)


def test_the_last_step_of_a_pipeline():
    X = rows() * 40.0 + 7.0
    pipeline = make_pipeline(MinMaxScaler((-1.0, 1.0)), clone(MODEL)).fit(X, np.arange(len(X)))
    alone = clone(MODEL).fit(MinMaxScaler((-1.0, 1.0)).fit_transform(X))
    np.testing.assert_array_equal(pipeline[-1].sample(9, random_state=1), alone.sample(9, random_state=1))
    assert pipeline[-1].ledger_.guarantee == alone.ledger_.guarantee
    assert list(pipeline.get_feature_names_out()) == ["x1", "x2", "x3"]
    pipeline.set_params(synthesizer__epsilon=0.25).fit(X)
    assert pipeline[-1].ledger_.budget.epsilon == 0.25


@pytest.mark.nightly
def test_fits_in_other_processes_are_those_of_this_one():
    X = rows()
    models = [clone(MODEL).set_params(epsilon=epsilon) for epsilon in (0.5, 1.0)]
    elsewhere = Parallel(n_jobs=2, backend="loky")(delayed(model.fit)(X) for model in models)
    for model, fitted in zip(models, elsewhere, strict=True):
        np.testing.assert_array_equal(model.fit(X).sample(20, random_state=4), fitted.sample(20, random_state=4))


@pytest.mark.parametrize(("table", "kind"), [
    (rows(), np.ndarray), (rows().tolist(), np.ndarray), (pd.DataFrame(rows()), np.ndarray),
    (pd.DataFrame(rows(), columns=list("abc")), pd.DataFrame),
    (pl.DataFrame(rows(), schema=list("abc")), pl.DataFrame),
], ids=["array", "lists", "pandas without names", "pandas", "polars"])
def test_a_sample_is_of_the_type_that_came_in_or_that_was_chosen(table, kind):
    model = clone(MODEL).fit(table)
    assert model.n_features_in_ == 3
    assert hasattr(model, "feature_names_in_") == (kind is not np.ndarray)
    sample = model.sample(5, random_state=2)
    assert type(sample) is kind
    assert sample.shape == (5, 3)
    assert len(model.sample()) == 200
    values = np.asarray(sample)
    for container, chosen in (("pandas", pd.DataFrame), ("polars", pl.DataFrame), (None, pl.DataFrame)):
        other = model.set_output(transform=container).sample(5, random_state=2)
        assert type(other) is chosen
        assert list(other.columns) == list(model.get_feature_names_out())
        np.testing.assert_array_equal(np.asarray(other), values)
    assert type(model.set_output(transform="default").sample(5)) is kind


def test_names_of_a_sample_are_its_columns_with_persons_and_derived_ones_too():
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"who": np.arange(200) // 2, "age": rng.integers(0, 90, 200)})
    table["decade"] = table["age"] // 10
    schema = tm.Schema([tm.Column("age", 0, 90, "integer")], person="who", derived={"decade": "age // 10"})
    model = tm.Synthesizer(schema, epsilon=4.0, mechanism=SMALL, random_state=1).fit(table)
    for container in ("default", "pandas", "polars"):
        sample = model.set_output(transform=container).sample(5, random_state=2)
        assert list(sample.columns) == model.get_feature_names_out().tolist() == ["who", "age", "decade"]


def test_attributes_are_of_the_table_and_samples_of_the_schema():
    model = tm.Synthesizer(MIXED, epsilon=4.0, delta=1e-3, mechanism=SMALL, random_state=1).fit(frame())
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["colour", "unused", "size"]
    assert model.get_feature_names_out().tolist() == ["size", "colour"]
    assert model.ledger_ is model.synthesis_.ledger
    sample = model.sample(100)
    assert list(sample.columns) == ["size", "colour"]
    assert set(sample["colour"]) == {"red", "blue"}
    assert 0 < sample["size"].isna().sum() < 100
    model.fit(frame()[["size", "colour"]].to_numpy(dtype=object))
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")


def test_tags_follow_the_schema_and_the_seed():
    tags = get_tags(tm.Synthesizer(MIXED))
    assert (tags.non_deterministic, tags.target_tags.required) == (True, False)
    assert (tags.input_tags.allow_nan, tags.input_tags.string, tags.input_tags.categorical) == (True, True, True)
    tags = get_tags(MODEL)
    assert tags.non_deterministic is False
    assert (tags.input_tags.allow_nan, tags.input_tags.string, tags.input_tags.categorical) == (False, False, False)


def test_nothing_is_sampled_or_named_before_fit():
    for ask in (MODEL.sample, MODEL.get_feature_names_out):
        with pytest.raises(NotFittedError):
            ask()


SECRET = 0.7372737372


def with_entry(entry):
    X = rows().astype(object)
    X[3, 1] = entry
    return X


@pytest.mark.parametrize(("table", "words"), [
    (sparse.csr_array(rows()), "sparse"), (rows() + 1j, "Complex data not supported"),
    (rows()[:, :0], r"0 feature\(s\)"), (rows(1), "n_samples = 1"), (rows()[0], "shape"), (rows()[None], "shape"),
    (np.where(rows() > 0.9, np.nan, SECRET), "NaN"), (with_entry({SECRET: 1}), "column 'x2' must be numeric"),
    (with_entry(str(SECRET) + "!"), "column 'x2' must be numeric"), ([[SECRET], [SECRET, 1.0]], "differ in length"),
    (pd.DataFrame({"a": [SECRET, 0.1], 1: [0.2, 0.3]}), "must all be text"), (None, "numeric"), ("a table", "numeric"),
    (pd.DataFrame({"a": ["no", "numbers"]}), "column 'a'"), (pd.DataFrame({"a": [], "b": []}, dtype=float), "row"),
])
def test_wrong_tables_are_refused_by_a_value_error_that_quotes_no_entry(table, words):
    model = clone(MODEL)
    with pytest.raises(InputError, match=words) as caught:
        model.fit(table)
    assert isinstance(caught.value, ValueError)
    assert str(SECRET) not in str(caught.value)
    assert not hasattr(model, "synthesis_")


@pytest.mark.parametrize(("options", "error"), [
    ({"schema": "square"}, InputError), ({"schema": None}, InputError), ({"schema": 3}, InputError),
    ({"epsilon": 0.0}, BudgetError), ({"delta": 1.0}, BudgetError), ({"mechanism": "best"}, InputError),
    ({"random_state": "seed"}, InputError),
    ({"random_state": -1}, InputError), ({"ledger": "absent.json"}, InputError), ({"schema": MIXED}, InputError),
])
def test_wrong_options_are_refused_when_fitting(options, error):
    model = clone(MODEL).set_params(**options)
    with pytest.raises(error):
        model.fit(rows())


def test_without_a_schema_nothing_is_released_nor_charged(tmp_path):
    # Ages would all be clipped to 1. The data cannot be looked at, for bounds must be public.
    book = tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(1.0))
    people = pd.DataFrame({"age": [34.0, 71.0] * 100, "income": [31e3, 18e3] * 100})
    for table in (people, people.to_numpy(), rows()):
        model = tm.Synthesizer(mechanism=SMALL, ledger=book.path)
        with pytest.raises(InputError, match="needs a schema with public bounds"):
            model.fit(table)
        assert not hasattr(model, "synthesis_")
    assert book.total == 0.0
    assert not book.entries


@pytest.mark.nightly  # By day scores of categories and of weighted points, below.
def test_a_score_is_higher_for_rows_that_are_alike():
    rng = np.random.default_rng(2)
    z = rng.normal(size=(1200, 1))
    X = np.clip(0.3 * z + 0.1 * rng.normal(size=(1200, 3)), -1.0, 1.0)
    model = tm.Synthesizer("cube", delta=1e-3, random_state=0, mechanism=tm.MomentMechanism(points=256)).fit(X[:800])
    alike, mirrored = model.score(X[800:]), model.score(X[800:] * [1.0, -1.0, 1.0])
    assert mirrored < 2.0 * alike < alike < 0.0
    assert model.score(pd.DataFrame(X[800:])) == alike


def test_errors_of_weighted_points_are_those_of_as_many_copies():
    schema = tm.Schema([tm.Column("a", -1, 1), tm.Column("b", -1, 1), MIXED.columns[1]])
    points = schema.to_cube(pd.DataFrame({"a": [0.5, -1.0], "b": [0.0, 0.8], "colour": ["red", "blue"]}))
    table = schema.to_cube(pd.DataFrame({"a": [0.1, 0.9, 0.4], "b": 0.3, "colour": ["red", "red", "blue"]}))
    weighted, copies = (synthesizer._errors(schema.domain, table, Distribution(own, weights)) for own, weights in (
        (points, np.array([0.9, 0.1])), (points[[0] * 9 + [1]], np.full(10, 0.1))))
    assert len(weighted) > 3
    np.testing.assert_allclose(weighted, copies, rtol=1e-9)


def test_categories_are_scored_too():
    model = tm.Synthesizer(MIXED, epsilon=4.0, delta=1e-3, mechanism=SMALL, random_state=1).fit(frame())
    other = frame().assign(colour="red")
    assert model.score(other) < model.score(frame()) - 0.05
    only = tm.Synthesizer(tm.Schema(MIXED.columns[1:]), delta=1e-3, mechanism=SMALL, random_state=1).fit(frame())
    assert only.score(other) < only.score(frame()) - 0.1
    with pytest.raises(InputError, match="colour"):
        model.score(frame()[["size"]])
    with pytest.raises(NotFittedError):
        MODEL.score(rows())


@pytest.mark.nightly
def test_a_grid_search_over_epsilon_runs_and_every_fit_is_charged(tmp_path):
    book = tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(100.0, 1e-3))
    model = tm.Synthesizer("cube", mechanism=tm.MomentMechanism(points=64, iterations=5, degree=2, pair_degree=1),
                           ledger=book.path)
    X = np.tile([0.7, -0.6], (120, 1)) + np.random.default_rng(3).uniform(-0.1, 0.1, (120, 2))
    search = GridSearchCV(model, {"epsilon": [0.01, 10.0]}, cv=2).fit(X)
    scores = dict(zip([p["epsilon"] for p in search.cv_results_["params"]], search.cv_results_["mean_test_score"],
                      strict=True))
    assert scores[0.01] < scores[10.0] < 0.0
    assert search.best_params_ == {"epsilon": 10.0}
    assert search.score(X) == search.best_estimator_.score(X)
    # Two folds at each epsilon, and the last fit of all rows.
    assert len({entry.run for entry in book.entries}) == 5
    assert book.total > 30.0


def test_wrong_arguments_of_a_sample_are_refused():
    model = clone(MODEL).fit(rows())
    for wrong in ({"n_samples": -1}, {"n_samples": 2.5}, {"random_state": "seed"}):
        with pytest.raises(InputError):
            model.sample(**wrong)
    with pytest.raises(InputError, match="transform must be one of"):
        model.set_output(transform="numpy")


def test_seeds_of_every_form_repeat_a_simulation_and_without_one_a_release_is_private():
    X = rows()
    for seed in (lambda: 7, lambda: np.random.RandomState(7), lambda: np.random.default_rng(7)):
        first, second = (clone(MODEL).set_params(random_state=seed()).fit(X) for _ in range(2))
        assert first.ledger_.simulated
        np.testing.assert_array_equal(first.sample(9, random_state=seed()), second.sample(9, random_state=seed()))
    first, second = (clone(MODEL).set_params(random_state=None).fit(X) for _ in range(2))
    assert not first.ledger_.simulated
    assert first.ledger_.guarantee.epsilon <= 1.0
    assert not np.array_equal(first.synthesis_.distribution.points, second.synthesis_.distribution.points)


def test_every_fit_is_charged_to_the_ledger_file_and_refused_when_it_is_used_up(tmp_path):
    book = tm.LedgerFile.create(tmp_path / "ledger.json", tm.Budget(1.5, 1e-3))
    model = clone(MODEL).set_params(random_state=None, delta=0.0, ledger=tmp_path / "ledger.json").fit(rows())
    kept = book.path.read_bytes()
    assert book.total == pytest.approx(1.0)
    released = model.synthesis_
    with pytest.raises(BudgetError, match="total"):
        clone(model).fit(rows())
    assert book.path.read_bytes() == kept
    assert model.synthesis_ is released


def test_what_is_kept_of_a_fit_holds_no_entry_of_the_table():
    X = rows()
    X[3, 1] = SECRET
    kept = pickle.dumps(clone(MODEL).fit(X))
    assert np.float64(SECRET).tobytes() in pickle.dumps(X)
    assert not any(value.tobytes() in kept for value in X.ravel())
    again = pickle.loads(kept)
    assert again.sample(4).shape == (4, 3)


def test_cells_of_a_dataframe_whose_names_are_no_text_are_kept_as_they_are():
    # pandas makes the least integer of what is missing from categories, where it chooses the array's type itself.
    table = pd.DataFrame({0: pd.Categorical([1, None] * 50), 1: np.arange(100)})
    array = without_names(table)
    assert array[0, 0] == 1
    assert math.isnan(array[1, 0])
    assert without_names(pd.DataFrame(np.zeros((2, 2)))).dtype == np.float64


def test_an_estimator_is_shown_in_few_words_before_and_after_its_fit():
    schema = tm.Schema([tm.Column(f"c{j}", 0, 1) for j in range(40)])
    model = tm.Synthesizer(schema, epsilon=2.0, random_state=1)
    assert repr(model) == "Synthesizer(schema=<40 columns>, epsilon=2.0, random_state=1)"
    small = tm.Synthesizer("cube", delta=1e-6, random_state=1)
    before = repr(small)
    small.fit(np.random.default_rng(0).uniform(-1, 1, (60, 2)))
    assert repr(small).startswith(f"{before}: fitted, Synthesis(")
    assert max(map(len, repr(small).splitlines())) < 160
