"""Possible exact numbers are drawn exactly by gradients and by factors, however little noise there is."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import trigmech as tm
from trigmech.inference import equations as module
from trigmech.inference import posterior as posterior_module
from trigmech.inference.posterior import Posterior, rows_looked_at


@lru_cache
def released(epsilon):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3_000, 3)) @ np.array([[1.0, 0.7, 0.2], [0.0, 0.7, 0.5], [0.0, 0.0, 0.8]])
    a, b, c = np.clip(x[:, 0], -4, 4), np.clip(np.exp(x[:, 1]), 0, 30), np.clip(x[:, 2], -4, 4)
    table = pd.DataFrame({"a": a, "b": b, "c": c,
                          "d": rng.choice(list("wxyz"), len(x), p=[0.6, 0.3, 0.08, 0.02])})
    schema = tm.Schema([tm.Column("a", -4, 4), tm.Column("b", 0, 30), tm.Column("c", -4, 4),
                        tm.Column("d", kind="categorical", categories=tuple("wxyz"))])
    return tm.synthesize(table, schema, tm.Budget(epsilon, 1e-6), tm.TableMechanism(), np.random.default_rng(1))


@pytest.mark.daily("10.0")
@pytest.mark.parametrize("epsilon", [1.0, 10.0, 100.0])
def test_draws_by_gradients_are_those_by_the_factor_at_any_noise(epsilon, monkeypatch):
    made = released(epsilon)
    # No factor takes their place.
    monkeypatch.setattr(module, "MOST_EQUATIONS", 0)
    found = []
    for most in (10**6, 0):
        monkeypatch.setattr(module, "MOST_FACTORED", most)
        posterior = Posterior(made.release, made.fit.points, 1e-3)
        assert (posterior.equations.factored is None) == (most == 0)
        found.append((posterior.drawn(3, np.random.default_rng(2), False), posterior.weights, posterior))
    (exact, weights, _), (draws, others, posterior) = found
    smooth = posterior.smooth.evaluate(posterior.codes)
    apart = smooth.T @ (draws - exact)
    spread = np.sqrt(np.square(smooth - smooth.mean(axis=0)).mean(axis=0))
    # Of the functions' own deviations; before, all that was drawn was off by several of them.
    assert np.abs(apart).max() < 2e-3 * max(float(spread.max()), 1.0)
    np.testing.assert_allclose(others, weights, atol=1e-6)


@pytest.mark.parametrize("width", [1, 4, 7, 1_000])
def test_blocks_of_the_equations_are_the_whole_matrix(monkeypatch, width):
    rng = np.random.default_rng(5)
    monkeypatch.setattr(module, "WIDTH", width)
    parts = [(csr_matrix(rng.random((9, 3))), csr_matrix(rng.random((4, 3)))),
             (csr_matrix(rng.random((9, 2))), csr_matrix(rng.random((3, 2))))]
    made = module.Equations(parts, 0.7, rng.normal(size=(9, 2)), rng.random(2))
    whole = made.forward(np.eye(made.k))
    np.testing.assert_allclose(np.hstack([block.copy() for block in made._blocks_of_rows()]), whole, atol=1e-12)
    np.testing.assert_allclose(np.hstack([block.copy() for block in made._blocks_of_numbers()]), whole.T, atol=1e-12)


@pytest.mark.daily("10.0-600", "1000000.0-40")  # The one of 1,500 rows takes eight seconds.
@pytest.mark.parametrize(("epsilon", "m"), [(10.0, 600), (1000.0, 1_500), (1000.0, 40), (1e6, 40)])
def test_with_little_noise_a_factor_draws_exactly_what_dense_algebra_does(epsilon, m, monkeypatch):
    """At epsilon 1000 gradients did not end in thousands of steps."""
    monkeypatch.setattr(module, "MOST_FACTORED", 0)
    monkeypatch.setattr(module, "LOOKED", 1)
    monkeypatch.setattr(module, "STEPS", 30)
    made = released(epsilon)
    posterior = Posterior(made.release, made.fit.points[:m], 1e-3)
    equations = posterior.equations
    assert (equations.y > equations.k) == (m == 40)
    rng = np.random.default_rng(3)
    vectors, prior = rng.normal(size=(equations.y, 4)), rng.normal(size=(equations.k, 4))
    D = equations.forward(np.eye(equations.k))
    # By orthogonal matrices, which keep the digits that products of D lose.
    both = np.linalg.lstsq(np.vstack([D, np.eye(equations.k)]), np.vstack([vectors, prior]), rcond=None)[0]
    found = equations.given(vectors, prior, 1e-6)
    assert "_large_factor" in equations.__dict__
    # Relative to the posterior's own deviations, which are those of draws.
    deviation = np.sqrt(np.diag(np.linalg.inv(D.T @ D + np.eye(equations.k))).clip(1e-30))
    assert np.abs((found - both) / deviation[:, None]).max() < 1e-2
    alone = np.linalg.lstsq(np.vstack([D, np.eye(equations.k)]), np.vstack([np.zeros((equations.y, 4)), prior]),
                            rcond=None)[0]
    assert np.abs((equations.solve(prior) - alone) / deviation[:, None]).max() < 1e-2


def test_a_factor_is_raised_where_rounding_leaves_none_and_gradients_go_on_where_it_is_too_large(monkeypatch):
    monkeypatch.setattr(module, "MOST_FACTORED", 0)
    made = released(1.0)
    made_of = Posterior(made.release, made.fit.points[:300], 1e-3).equations
    huge = replace(made_of, parts=[(values, 1e30 * maps) for values, maps in made_of.parts])
    vectors, prior = np.zeros((huge.y, 1)), np.ones((huge.k, 1))
    assert np.isfinite(huge.given(vectors, prior)).all()
    monkeypatch.setattr(module, "MOST_EQUATIONS", 0)
    monkeypatch.setattr(module, "STEPS", 20)
    assert np.isfinite(made_of.given(vectors, prior)).all()
    assert "_large_factor" not in made_of.__dict__


def test_fewer_rows_are_looked_at_where_as_many_numbers_are_measured(monkeypatch):
    made = released(1.0)
    points, rng = made.fit.points, np.random.default_rng(0)
    assert len(rows_looked_at(made.release, points, rng)) == len(points) > 1_000
    monkeypatch.setattr(posterior_module, "FEWER_ROWS", 20)
    assert len(rows_looked_at(made.release, points, rng)) == 20
