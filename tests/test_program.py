"""Figure 3.2 by the authors' program: its scales, its runs beside the package's, and how choices are judged."""

import math

import numpy as np
import pandas as pd
import pytest

import trigmech as tm
from experiments import cells, datasets, figures, program, search
from experiments.asked import Asked
from experiments.cells import RESULTS
from experiments.frames import read_csv
from experiments.runs import WIDTHS
from trigmech.functions.chebyshev import ChebyshevBasis
from trigmech.thesis.calibration import noise_scales


def has_crm():
    try:
        datasets.load("CRM", progress=False)
    except datasets.DatasetMissing:
        return False
    return True


needs_crm = pytest.mark.skipif(not has_crm(), reason="needs CRM below TRIGMECH_DATA")


@needs_crm
def test_the_printed_noise_of_axes_is_the_packages_and_the_programs_is_its_formula():
    n, d = program.cube("CRM").shape
    scales = noise_scales(ChebyshevBasis.graded(d, 102, None, "last"), n, tm.Budget(1.0, 1e-3), "published", True,
                          7, 10)
    found = program.noise_of_axes("printed", 7, 10, 1 / 3, 3.5, 4, 0.9)
    np.testing.assert_allclose(found, scales.axes(3.5).scale)
    np.testing.assert_allclose(program.noise_of_axes(0.1, 7, 10, 1 / 3, 3.5, 4, 0.9), 0.1 * found)
    one = 5 * d * math.sqrt(2 * 10 * math.log(2e5)) / n * 0.9
    np.testing.assert_allclose(program.noise_of_axes("by step", 3, 10, 1.0, 3.5, 4, 0.9), one * math.sqrt(5))
    np.testing.assert_allclose(program.noise_of_axes("by column", 3, 10, 1.0, 3.5, 4, 0.9), one * np.sqrt([1, 2, 3]))


@needs_crm
def test_runs_with_the_printed_options_have_the_packages_errors_and_less_noise_would_show():
    lines = read_csv(RESULTS / "figure_3_2.csv")
    known = lines[(lines["variant"] == "published") & (lines["sigma"] == "4")].set_index("k")["worst_absolute_error"]
    as_figure = (1 / 3, 1.0, "printed", 0.01, "rounded", "figure")
    for rank in (5, 40):
        found = [program.run(rank, as_figure, "own", r)["fresh"][WIDTHS.index(4.0)] for r in range(4)]
        assert np.mean(found) == pytest.approx(known[rank], rel=0.15)
        quiet = program.run(rank, (1.0, 1.0, 0.03, 0.01, "rounded", "figure"))
        assert quiet["fresh"][WIDTHS.index(4.0)] < 0.75 * known[rank]
        assert quiet["estimate"] < 20 < program.run(rank, as_figure)["estimate"]


@needs_crm
def test_a_constant_seed_repeats_every_run_and_seeds_of_their_own_do_not():
    choice = (1.0, 0.5**0.5, "by step", 0.01, "clipped", "program")
    assert program.run(4, choice, "constant", 0) == program.run(4, choice, "constant", 1)
    assert program.run(4, choice, "own", 0) != program.run(4, choice, "own", 1)


def made_lines(factor):
    """Lines of two choices: the first `factor` times the printed points at sigma = 4, the second half of them."""
    printed = search.expected_points("figure_3_2")
    heads = [dict(zip(program.OPTIONS, choice, strict=True)) for choice in (
        program.PRINTED, (1.0, 0.5**0.5, 0.01, 0.01, "clipped", "program"))]
    return pd.DataFrame([{**head, "queries": "fresh", "seeds": "own", "k": k, "sigma": sigma, "clipped": 0.5,
                          "estimate": 9.0, "error": printed[k] * size * (1.0 if sigma == 4.0 else 9.0)}
                         for head, size in zip(heads, (factor, 0.5), strict=True) for k in (3, 8) for sigma in WIDTHS])


def test_choices_are_judged_by_the_printed_points_alone():
    found = program.nearest(made_lines(1.0))
    assert found["factor"].tolist() == [1.0, 2.0]
    assert found["axes"].tolist() == ["printed", "printed × 0.01"]
    assert (found["nearest_sigma"] == 4.0).all()
    assert found["ratio_6"].tolist() == [9.0, 4.5]
    # A factor is of points, not of their mean: twice and half are not right.
    lines = made_lines(1.0)
    first = (lines["steps"] < 1) & (lines["sigma"] == 4.0)
    lines.loc[first, "error"] *= np.where(lines.loc[first, "k"] == 3, 2.0, 0.5)
    mixed = program.nearest(lines)
    assert mixed["ratio_4"].tolist()[0] == 1.0
    assert mixed["factor"].tolist() == [2.0, 2.0]


def test_the_committed_page_is_made_of_its_lines_and_has_every_deviation_alone_and_all():
    lines = read_csv(RESULTS / "figure_3_2_program.csv")
    text = (RESULTS / "figure_3_2_program.md").read_text(encoding="utf-8")
    assert program.program.paged(lines, Asked(size=program.RANKS)) == text.rstrip("\n").split("\n")
    alone = program.alone(lines)
    assert set(alone["changed"]) == {"nothing: as printed", *program.OPTIONS, "queries", "all"}
    assert len(alone) == 1 + sum(len(values) - 1 for values in program.OPTIONS.values()) + 1 + 2


@needs_crm
def test_the_experiment_is_written_for_every_choice_and_kind_of_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(cells, "CACHE", tmp_path)
    monkeypatch.setattr(cells, "RESULTS", tmp_path)
    monkeypatch.setattr(cells, "run_cells", lambda todo, *_: ((cell, cells.run_cell(cell)) for cell in todo))
    monkeypatch.setattr(program, "LEVELS", (0.01,))
    path = program.program(Asked(("CRM",), quick=True))
    lines = read_csv(path.with_suffix(".csv"))
    # The printed and the program's options, each once more with less noise, for both kinds of queries; and a seed.
    assert len(lines) == 2 * 2 * 2 + 2
    assert lines["seeds"].tolist().count("constant") == 2
    assert sorted(set(lines["axes"])) == ["by column", "printed", "printed × 0.01"]
    assert (lines["factor"] >= 1.0).all()
    assert path.read_text(encoding="utf-8").startswith("# Figure 3.2 by the authors' program")


def test_the_experiment_says_which_data_it_needs():
    with pytest.raises(figures.LeftOut, match="CRM"):
        program.program(Asked(("WDBC",)))
