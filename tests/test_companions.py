"""The systems of the other sources: their printed examples, their laws, and that false claims are refuted."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments import audit
from experiments.companions import discrete, jtree, marginal_models, selection
from experiments.companions.marginal_models import JunctionTree, keep_largest, merged, noise_error, triangulated
from experiments.companions.privbayes import PrivBayes, nearness
from experiments.companions.privhd import PrivHD
from trigmech.errors import InputError

EXAMPLE = [(1, 3), (1, 5), (3, 5), (2, 5), (3, 4), (4, 5), (4, 6), (5, 6)]
SIZES = (2, 2, 3, 3, 2, 2)


def shifted(columns):
    return tuple(j - 1 for j in columns)


# Marginals


def test_the_printed_graph_has_these_cliques_weights_and_separators():
    cliques = triangulated(6, map(shifted, EXAMPLE))
    assert [tuple(j + 1 for j in c) for c in cliques] == [(1, 3, 5), (2, 5), (3, 4, 5), (4, 5, 6)]
    assert [len(set(a) & set(b)) for a, b in itertools.combinations(cliques, 2)] == [1, 2, 1, 1, 1, 2]
    tree = JunctionTree(SIZES, cliques)
    separators = sorted(tuple(j + 1 for j in s) for _, s in tree.order[1:])
    assert separators == [(3, 5), (4, 5), (5,)]


def test_printed_consistency_example_has_the_corrected_number():
    cliques = [shifted((2, 5)), shifted((3, 4, 5))]
    # Both sum to the printed (4, 5) and (6, 7) on a5; the first cells are the printed 1 and 3.
    tables = (np.array([[1.0, 2.0], [3.0, 3.0]]), np.full((2, 2, 2), 1.5) + np.array([0.0, 0.25]))
    with_other_total = JunctionTree((2,) * 6, cliques, tables)
    # On a5 alone, without the total before it: the weights are 1/2 and 1/4.
    agreed = (np.array([4.0, 5.0]) / 2 + np.array([6.0, 7.0]) / 4) / (1 / 2 + 1 / 4)
    np.testing.assert_allclose(agreed, [14 / 3, 17 / 3])
    np.testing.assert_allclose(tables[0][:, 0] + (agreed[0] - 4) / 2, [1.333, 3.333], atol=1e-3)
    assert abs(agreed[0] - 4.33) > 0.3
    made = with_other_total.consistent()
    for table, axes in zip(made.tables, ((0,), (0, 1)), strict=True):
        np.testing.assert_allclose(table.sum(axis=axes), agreed, atol=1e-12)


def test_noise_errors_of_the_printed_example_are_of_cells_and_merging_finds_the_lesser():
    four = list(map(shifted, [(1, 3, 5), (2, 5), (3, 4, 5), (4, 5, 6)]))
    three = list(map(shifted, [(1, 3, 5), (2, 5), (3, 4, 5, 6)]))
    assert (noise_error(SIZES, four), noise_error(SIZES, three)) == (1472, 936)
    # The printed 2304 and 1296 are of the whole domain.
    assert [m**2 * math.prod(SIZES) for m in (4, 3)] == [2304, 1296]
    assert noise_error(SIZES, merged(SIZES, four)) <= 936


def test_a_junction_tree_of_exact_tables_has_their_marginals_and_samples_its_joint_law():
    rng = np.random.default_rng(5)
    domain, cliques = (2, 3, 2, 4), [(0, 1), (1, 2), (2, 3)]
    table = rng.integers(0, domain, (400, 4))
    table[:, 1] = (table[:, 0] + table[:, 1]) // 2
    tree = JunctionTree(domain, cliques, tuple(discrete.marginal(table, domain, c) for c in cliques))
    for clique in cliques:
        np.testing.assert_allclose(tree.marginal(clique), discrete.marginal(table, domain, clique) / 400, atol=1e-12)
    np.testing.assert_allclose(tree.marginal((3, 0)), tree.marginal((0, 3)).T)
    law = tree.marginal((0, 1, 2, 3)).ravel()
    counts = np.bincount(discrete.mixed(tree.sample(200_000, rng), domain, range(4)), minlength=law.size)
    held = law > 0
    assert not counts[~held].any()
    assert stats.chisquare(counts[held], 200_000 * law[held]).pvalue > 1e-9
    wrong = np.roll(law, 1)[held] + 1e-3
    assert stats.chisquare(counts[held], 200_000 * wrong / wrong.sum()).pvalue < 1e-9


def test_consistency_is_idempotent_and_the_largest_counts_are_kept():
    rng = np.random.default_rng(6)
    domain, cliques = (2, 3, 2, 4), [(0, 1, 2), (1, 2, 3), (0, 2, 3)]
    noisy = JunctionTree(domain, cliques).noisy(rng.integers(0, domain, (50, 4)), 1.0, rng)
    made = noisy.consistent()
    for one, two in zip(made.tables, made.consistent().tables, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)
    np.testing.assert_allclose(made.tables[0].sum(axis=0), made.tables[1].sum(axis=2), atol=1e-9)
    np.testing.assert_allclose(keep_largest(np.array([5.0, -3, 4, 2]), 8.0), [5, 0, 3, 0])
    np.testing.assert_allclose(keep_largest(np.array([-1.0, 2.0]), 8.0), [0, 8])


def test_scores_of_pairs_move_by_at_most_their_sensitivities_which_are_attained():
    found, n = {"I": 0.0, "R": 0.0, "F": 0.0}, 6
    for counts in itertools.product(range(n + 1), repeat=3):
        if sum(counts) > n:
            continue
        table = np.array([*counts, n - sum(counts)], dtype=float).reshape(2, 2)
        for source, target in itertools.permutations(range(4), 2):
            if table.flat[source]:
                other = table.copy()
                other.flat[source] -= 1
                other.flat[target] += 1
                for name, score in (("I", lambda t: marginal_models.mutual_information(t / n)), ("F", nearness),
                                    ("R", lambda t: marginal_models.dependence(t / n))):
                    found[name] = max(found[name], abs(score(table) - score(other)))
    assert found["I"] == pytest.approx(marginal_models.information_sensitivity(n, True))
    assert found["R"] <= marginal_models.dependence_sensitivity(n)
    assert found["F"] == pytest.approx(1 / n)


def test_f_is_the_least_over_all_assignments():
    rng = np.random.default_rng(8)
    for _ in range(50):
        table = rng.integers(0, 5, (2, 4)).astype(float) + np.eye(2, 4)
        n = table.sum()
        brute = min(max(0, 0.5 - table[0, ~np.array(a)].sum() / n) + max(0, 0.5 - table[1, np.array(a)].sum() / n)
                    for a in itertools.product((False, True), repeat=4))
        assert nearness(table) == pytest.approx(-brute)
