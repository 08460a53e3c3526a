"""What pages, pictures and progress bars show is what they say they show, with numbers of each side that differ."""

import ast
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

import trigmech as tm
from trigmech.cli import demo
from trigmech.evaluation import features
from trigmech.evaluation.judgement import compared_rows
from trigmech.evaluation.sides import Coding
from trigmech.report import tables
from trigmech.report.figures import number, percent

CLI = Path(tm.__file__).parent / "cli"


def bars():
    """Yield where a command opens a progress bar, its name there, and what the bar covers."""
    for path in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for item in node.items if isinstance(node, ast.With) else ():
                call = item.context_expr
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "progress_bar":
                    yield f"{path.name}:{node.lineno}", item.optional_vars, node.body


def test_commands_open_bars():
    assert len(list(bars())) >= 5


@pytest.mark.parametrize(("place", "bar", "body"), [pytest.param(*each, id=each[0]) for each in bars()])
def test_a_progress_bar_is_moved_by_what_it_covers(place, bar, body):
    """A bar that nobody moves stays empty as long as the work takes."""
    assert isinstance(bar, ast.Name), f"{place} gives the bar no name"
    used = [name for statement in body for name in ast.walk(statement) if isinstance(name, ast.Name)]
    assert any(name.id == bar.id for name in used), place


def test_shares_on_one_side_of_signs_differ_by_half_of_what_their_means_do():
    """A mean m of signs is a share of (1 + m) / 2 on one side."""
    query = SimpleNamespace(means=lambda points, weights: np.array([0.2, -0.4, 0.0]), greatest_noise=2.0)
    look = SimpleNamespace(query=query, means=np.array([0.1, -0.1, 0.05]), deviation=0.03)
    shown = SimpleNamespace(synthesis=SimpleNamespace(distribution=SimpleNamespace(points=None, weights=None)))
    row = tables.TableAccount._of_signs(shown, "age", look)
    assert row[0] == "age"
    assert row[2:] == (percent(0.06), percent(0.15), number(2.5, 2))


def test_the_demo_s_picture_has_the_first_sixty_queries_of_each_width():
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    truth, answers = np.random.default_rng(0).random((2, 200, 5))
    made = SimpleNamespace(widths=(1.0, 2.0, 4.0, 8.0, 16.0), evaluation=SimpleNamespace(
        truth=truth, answers=answers, worst_absolute=np.ones(5)), predicted=SimpleNamespace(worst=np.ones(5)),
        uniform=SimpleNamespace(worst_absolute=np.ones(5)))
    scatter, beside = Figure().subplots(1, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "THESIS", np.ones(5))
        demo._draw_answers(scatter, beside, made)
    for i in range(5):
        line = scatter.lines[i]
        np.testing.assert_array_equal(line.get_xdata(), truth[:60, i])
        np.testing.assert_array_equal(line.get_ydata(), answers[:60, i])
    assert scatter.get_title().startswith("60 queries")


def test_chance_is_judged_in_the_groups_of_the_rows_not_of_their_resampled_ones(monkeypatch):
    """Groups, units and what counts as lost are those of the first of two sides."""
    schema = tm.Schema([tm.Column("a", 0, 1), tm.Column("b", 0, 1)])
    made = tm.synthesize(np.random.default_rng(0).random((500, 2)), schema, tm.Budget(1.0, 1e-6),
                         rng=np.random.default_rng(1))
    rows = schema.decode(made.distribution.points)
    coding, asked = Coding.of(schema.columns, rows), []
    side = coding.side(rows)

    def spied(name, of):
        def judged(coding, true, other, *more):
            asked.append((name, true is side, other is side))
            return of(coding, true, other, *more)

        monkeypatch.setattr(features, name, judged)

    names = ("column_scores", "pair_scores", "correlation_differences", "group_differences")
    for name in names:
        spied(name, getattr(features, name))
    features.causes_of(made.release.described(schema), coding, side, made.distribution.points, compared_rows(500, 2))
    assert asked == [(name, True, False) for name in names]
