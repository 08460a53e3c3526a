"""The report of a release: one page for people, which needs no network, no scripts and no table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trigmech._files import check_writable, made_folder, write_whole
from trigmech._optional import need
from trigmech._validate import check_integers
from trigmech.errors import InputError
from trigmech.evaluation.judgement import Judgement
from trigmech.evaluation.membership import FEWEST, attacked
from trigmech.evaluation.verdict import LIMITS, LightLimits
from trigmech.measurement.rows import Progress, silent
from trigmech.privacy.budget import ADJACENCY
from trigmech.report.against import DrawnRows, rows_of
from trigmech.report.figures import plain, styled
from trigmech.report.lead import forecast_of, lead
from trigmech.report.pairs import pairs
from trigmech.report.sections import PageRows, Pictures, columns, errors, page_path, points, together
from trigmech.report.statement import guarantee, ledger_table, versions_table
from trigmech.report.tables import account_of
from trigmech.results import Synthesis

TITLE, PRIVATE_TITLE = "Report of a release", "NOT PRIVATE: a release against its table"


def write(synthesis: Synthesis, path: str | Path, against: Any = None, figures: str | Path | None = None,
          seed: int = 0, progress: Progress | None = None, limits: Mapping[str, LightLimits] = LIMITS,
          held_out: Any = None) -> Path:
    """Write a self-contained HTML page about a release: its uses, its results, and its guarantee.

    Parameters
    ----------
    synthesis : Synthesis
    path : path
        The page to write. With ``against`` its name gets the word "not-private" before the suffix, if it lacks it.
    against : dataframe, array_like (n, d), dict of columns, or list of the d columns, optional, private
        The true table, to compare with. The page and the figures are then NOT PRIVATE, and are marked so.
    figures : path, optional
        A folder, made if it does not exist, for the page's figures as PNG and PDF files, named by columns; marked as
        ``path``.
    seed : int
        At least 0; of the public draws of queries, and of the rows whose distances are computed.

    progress : callable, optional
        Called with the name of a step, the finished amount and the total (0: not known).
    limits : mapping of str to LightLimits, optional
        The limits of the lights; see :func:`trigmech.evaluation.verdict.load_limits`.
    held_out : dataframe, array_like (k, d), dict of columns, or list of the d columns, optional, private
        With ``against``: rows of other people of the same population, who are not in the table, at least 20. The page
        then has a membership attack; see :mod:`trigmech.evaluation.membership`.

    Returns
    -------
    Path
        The path of the written page.

    Raises
    ------
    InputError
        If a file cannot be written, the seed is not such a number, a table does not fit the schema, or there are rows
        of other people without a table, or fewer than 20 rows of either.

    Notes
    -----
    Privacy: post-processing without ``against``; nothing of it is private then. With it, nothing is protected. The same
    arguments give the same bytes, with the same versions of the libraries. Cost: some seconds, and about a
    tenth of a second for each column's figure and for each file of it; queries are fewer for larger tables.
    """
    check_integers(0, seed=seed)
    if held_out is not None and against is None:
        raise InputError("held_out needs the private table to compare with; give the table too (on the "
                         "command line --against)")
    need("report", "a report")
    path = page_path(path, against is not None)
    folder = None if figures is None else Path(figures)
    if folder is not None:
        made_folder(folder)
        check_writable(folder / "figure.png")
    # A figure's library adds up its numbers, and those of a column may be near the largest that there are.
    with styled(), np.errstate(over="ignore"):
        page = _page(synthesis, against, Pictures(folder, against is not None), int(seed), limits,
                     progress or silent, held_out)
    write_whole(path, page.encode("utf-8"))
    return path


def is_page(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).lstrip().lower().startswith((b"<!doctype html", b"<html"))


def _page(synthesis: Synthesis, against: Any, pictures: Pictures, seed: int, limits: Mapping[str, LightLimits],
          say: Progress, held_out: Any = None) -> str:
    say("reading the release", 0, 0)
    ledger, schema, account = synthesis.ledger, synthesis.schema, account_of(synthesis)
    made = PageRows.of(schema, synthesis.distribution.points, synthesis.distribution.weights)
    say("expecting errors", 0, 0)
    true, judged, attack, expected = None, None, "", forecast_of(synthesis, limits)
    if against is not None:
        say("reading the table", 0, 0)
        drawn_rows = DrawnRows.of(schema, against)
        rows = drawn_rows.points
        attack = _attack(synthesis, rows, held_out, seed)
        judged = drawn_rows.judged(synthesis, say).by(limits)
        true = PageRows.of(schema, rows, np.full(len(rows), 1.0 / len(rows)))
    drawn = columns(account, made, true, pictures, lambda done, total: say("drawing columns", done, total))
    say("drawing columns together", 0, 0)
    strongest, matrices = pairs(account, made, true, pictures), together(made, true, pictures)
    say("asking queries", 0, 0)
    wrong = errors(account, made, true, pictures, seed)
    say("comparing points", 0, 0)
    near, said = points(synthesis, made, true, pictures, seed), guarantee(
        ledger, synthesis.release.n, synthesis.schema.person)
    begun = lead(synthesis, expected, judged)
    strongest["lights"] = bool(begun["pairs"].rows)
    return template("report.html").render(
        title=TITLE if true is None else PRIVATE_TITLE, against=true is not None, simulated=ledger.simulated,
        attack=attack, warnings=synthesis.warnings, key=_key(synthesis, said), g=said,
        lead=begun, contents=_contents(strongest, matrices, wrong, near, judged),
        adjacency=ADJACENCY[0].upper() + ADJACENCY[1:], ledger=ledger_table(ledger), columns=drawn,
        measured=account.measured(), versions=versions_table(synthesis.versions), pairs=strongest, together=matrices,
        errors=wrong, points=near,
        footer="Written by trigmech; the same release gives the same page. In figures, dark lines and bars are "
               + ("synthetic." if true is None else "synthetic, and light hatched areas are true."))


def _attack(synthesis: Synthesis, rows: Any, held_out: Any, seed: int) -> str:
    """Return the result of a membership attack in words; "" without rows of other people."""
    if held_out is None:
        return ""
    others = rows_of(synthesis.schema, held_out)
    if min(len(rows), len(others)) < FEWEST:
        raise InputError(f"a membership attack needs at least {FEWEST} rows of the table and {FEWEST} of other people; "
                         f"there are {len(rows)} and {len(others)}")
    return attacked(synthesis.distribution.points, rows, others, np.random.default_rng([seed, 4])).words


def template(name: str) -> Any:
    """Return a template of the package; all that it shows is escaped and plain."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    return Environment(
        loader=PackageLoader("trigmech.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=lambda value: value if isinstance(value, Markup) else plain(value),
    ).get_template(name)


def _key(synthesis: Synthesis, said: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the facts at the top of the page."""
    simulated = synthesis.ledger.simulated
    proved = f"({said['epsilon']}, {said['delta']})" if said["finite"] else "nothing"
    whose = "Rows of the table" if synthesis.schema.person is None else "Persons of the table"
    return [(whose, said["n"]), ("Columns", f"{synthesis.schema.d:,}"),
            ("Proved (ε, δ)", "nothing: simulated" if simulated else proved),
            ("Noise", "simulated: NOT PRIVATE" if simulated else "real, from the operating system"),
            ("Points of the release", f"{len(synthesis.distribution.points):,}")]


def _contents(strongest: dict[str, Any], matrices: dict[str, Any], wrong: dict[str, Any], near: dict[str, Any],
              judged: Judgement | None) -> list[tuple[str, str]]:
    """Return the page's sections: identifier and title."""
    return [*([("verdict", "Measured against the true table")] if judged is not None else []),
            ("columns", "Each column"),
            *([("pairs", "Pairs of columns")] if strongest["known"] or strongest["lights"] else []),
            ("together", "Columns together"),
            *((matrix["id"], matrix["title"]) for matrix in matrices["matrices"]),
            *([("errors", "Errors of queries")] if wrong["shown"] else []),
            *([("scatter", "Predicted against true errors")] if wrong["scatter"] else []), ("points", "The points"),
            *([("distances", "Distances to true records")] if near["picture"] else []),
            ("guarantee", "What is guaranteed"), ("not-covered", "What is not covered"), ("ledger", "The ledger"),
            ("measured", "What was measured")]
