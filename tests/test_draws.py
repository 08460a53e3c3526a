"""Possible exact numbers are drawn as exactly by conjugate gradients as by a factor, however little noise there is."""

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from trigmech.inference import posterior as module
from trigmech.inference.posterior import Posterior


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 100.0])
def test_draws_by_gradients_are_those_by_the_factor_at_any_noise(epsilon, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3_000, 3)) @ np.array([[1.0, 0.7, 0.2], [0.0, 0.7, 0.5], [0.0, 0.0, 0.8]])
    a, b, c = np.clip(x[:, 0], -4, 4), np.clip(np.exp(x[:, 1]), 0, 30), np.clip(x[:, 2], -4, 4)
    table = pd.DataFrame({"a": a, "b": b, "c": c,
                          "d": rng.choice(list("wxyz"), len(x), p=[0.6, 0.3, 0.08, 0.02])})
    schema = tm.Schema([tm.Column("a", -4, 4), tm.Column("b", 0, 30), tm.Column("c", -4, 4),
                        tm.Column("d", kind="categorical", categories=tuple("wxyz"))])
    made = tm.synthesize(table, schema, tm.Budget(epsilon, 1e-6), tm.TableMechanism(), np.random.default_rng(1))
    found = []
    for most in (10**6, 0):
        monkeypatch.setattr(module, "MOST_FACTORED", most)
        posterior = Posterior(made.release, made.fit.points, 1e-3)
        assert (posterior._factored is None) == (most == 0)
        found.append((posterior.drawn(3, np.random.default_rng(2), False), posterior.weights, posterior))
    (exact, weights, _), (draws, others, posterior) = found
    smooth = posterior.smooth.evaluate(posterior.codes)
    apart = smooth.T @ (draws - exact)
    spread = np.sqrt(np.square(smooth - smooth.mean(axis=0)).mean(axis=0))
    # Of the functions' own deviations; before, all that was drawn was off by several of them.
    assert np.abs(apart).max() < 2e-3 * max(float(spread.max()), 1.0)
    np.testing.assert_allclose(others, weights, atol=1e-6)
