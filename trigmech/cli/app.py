"""The command line: its arguments and outputs; the work is done elsewhere."""

import gc
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

import trigmech as tm
from trigmech._memory import IMPORT, NEEDED, check_memory
from trigmech.cli.accept import accept
from trigmech.cli.answers import ask, fit
from trigmech.cli.check import PRIVATE, check, found_in
from trigmech.cli.copies import NOT_VALID, write_copies
from trigmech.cli.decision import Limits, advise, check_page, compare, limits_of
from trigmech.cli.ending import Ended, by_signal, end
from trigmech.cli.files import STANDARD, check_outputs, keep_what_counts, table_against, table_to_describe, write_sample
from trigmech.cli.judgement import FROM_THE_TABLE, tell_judgement
from trigmech.cli.ledger import ledger_app
from trigmech.cli.options import (
    Data,
    Delta,
    Epsilon,
    Json,
    Saved,
    Written,
    budget_of,
    grouped,
    tell,
    writable_rows,
)
from trigmech.cli.parts import part_app
from trigmech.cli.progress import progress_bar, tell_steps
from trigmech.cli.release import release
from trigmech.errors import InputError

# So many objects more than before start a search for cycles; and how many searches start one among older objects.
COLLECTED = 100_000, 20, 50
# Signals that end a program: a closed terminal, and a request to stop.
ENDING = [getattr(signal, name) for name in ("SIGHUP", "SIGTERM") if hasattr(signal, name)]


class Commands(TyperGroup):
    """The commands; an interruption or a closed pipe ends them alike under every version of Typer."""

    def invoke(self, ctx: Any) -> Any:
        # Without this, temporary files would stay.
        before = {number: signal.signal(number, by_signal) for number in ENDING} if (
            threading.current_thread() is threading.main_thread()) else {}
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, Ended) as how:
            with suppress(OSError):  # The terminal may be gone.
                typer.echo("trigmech: interrupted; no output file is incomplete, and charges stay spent", err=True)
            raise typer.Exit(how.code if isinstance(how, Ended) else 130) from None
        except BrokenPipeError:
            # The reader closed the pipe; buffered output must go nowhere at the end.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False,
                  help=(
    "Differentially private synthetic data that answers smooth queries accurately.\n\n"
    "From a CSV to a published table:\n\n"
    "`trigmech schema init data.csv --out schema.toml`, fill in the bounds, `trigmech check data.csv --schema "
    "schema.toml`,\n\n"
    "`trigmech release data.csv --schema schema.toml --epsilon 1 --delta 1e-6 --out clinic.tm --csv synthetic.csv`,\n\n"
    "`trigmech report clinic.tm`.\n\n"
    "Exit status: 0 done, 1 a fault of the program or the system, 2 refused (wrong usage or wrong input; nothing was "
    "charged), 3 a check found a problem, 4 over the budget or no possible budget, 5 the solver failed, 6 released "
    "with --strict but the points miss the released values, 7 not accepted, 8 charged but an output is missing, 130 "
    "interrupted (129 and 143 by a signal)."))
schema_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown",
                         help="Write and check the public description of a table.")
app.add_typer(schema_app, name="schema")
app.add_typer(ledger_app, name="ledger")
app.add_typer(part_app, name="part")
_command = cache(partial(typer.main.get_command, app))  # It looks at the parameters of all commands.

HowToRead = Annotated[Path | None, typer.Option(help="A schema file that says how to read that table; the release "
                                                     "knows the columns.")]
# Values that can be read and do not fit: counts under names that `schema check --json` has had from the beginning.
MISFITS = ("infinite", "far outside", "outside", "missing", "no category", "other", "finer")
VERSIONS = ("numpy", "scipy", "numba", "highspy", "opendp", "dp-accounting", "narwhals", "pyarrow")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"trigmech {tm.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True,
                                          help="Print the version and end.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log each step on standard error: plans, charges, "
                                                                  "iterations; public facts only.")] = False,
) -> None:
    if "--help" not in sys.argv:
        check_memory(NEEDED.get(str(ctx.invoked_subcommand), IMPORT))
    if verbose:
        ctx.call_on_close(tell_steps())


@app.command()
def info(as_json: Json = False) -> None:
    """Print the versions of the package and its main libraries.

    Example: `trigmech info --json`
    """
    import platform
    from importlib.metadata import version

    versions = {"trigmech": tm.__version__, "python": platform.python_version(),
                **{name: version(name) for name in VERSIONS}}
    tell(versions, "\n".join(f"{name} {value}" for name, value in versions.items()), as_json)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Folder for synthetic.csv and demo.png.")] = Path("trigmech-demo"),
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-3,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the synthetic table.")] = 569,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of a repeatable run, which is not private.")] = None,
    as_json: Json = False,
) -> None:
    """Release WDBC (569 patients, 30 measurements) and show how well the release answers smooth queries.

    Example: `trigmech demo --epsilon 2 --folder out`
    """
    from trigmech.cli import demo as demonstration

    budget = budget_of(epsilon, delta)
    console = Console()
    with Console(stderr=True).status("starting") as status:
        made = demonstration.run(folder, budget, rows, seed, status.update)
    if as_json:
        errors = zip(made.widths, *(figures.tolist() for figures in (
            made.evaluation.worst_absolute, made.uniform.worst_absolute, made.predicted.worst)), strict=True)
        tell({
            "table": str(made.table), "picture": str(made.picture), "rows": rows,
            "ledger": made.synthesis.ledger.to_dict(), "delta": budget.delta,
            "proved_epsilon": made.synthesis.ledger.proved_epsilon,
            "worst_absolute": [dict(zip(("width", "release", "uniform", "predicted"), each, strict=True))
                               for each in errors]}, "", as_json)
        return
    table = Table(title="Worst error of 10,000 Gaussian kernel queries (W1)")
    table.add_column("σ", justify="right")
    for name in ("this release", "uniform cube, no data", "thesis, table 3.3", "predicted bound, 95 %"):
        table.add_column(name, justify="right")
    for i, width in enumerate(made.widths):
        table.add_row(f"{width:g}", f"{made.evaluation.worst_absolute[i]:.4f}",
                      f"{made.uniform.worst_absolute[i]:.4f}", f"{demonstration.THESIS[i]:.3f}",
                      f"{made.predicted.worst[i]:.4f}")
    console.print(table)
    console.print("What was spent:", style="bold")
    typer.echo(made.synthesis.ledger)
    typer.echo("Bounds are each column's own minimum and maximum, as in the thesis. For private data they must come\n"
               "from elsewhere: the guarantee does not cover bounds that were read off the table.")
    typer.echo(f"written: {made.table} and {made.picture}")


@schema_app.command("init")
@grouped
def schema_init(
    data: Data,
    written: Written,
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    no_header: Annotated[bool, typer.Option("--no-header", help="The first line of the CSV is a row.")] = False,
    as_json: Json = False,
) -> None:
    """Write a schema with the names and guessed kinds of a file's columns; you fill in the bounds.

    Bounds must not come from the data, so the file leaves them empty: enter public knowledge about the subject.

    Example: `trigmech schema init data.csv --out schema.toml`
    """
    from trigmech._files import write_whole
    from trigmech.schema import toml as schema_file

    if str(out) == STANDARD:
        out = None
    check_outputs((out,), (data,))
    if out is not None and out.suffix.lower() != ".toml":
        keep_what_counts(out)
    if out is not None and out.exists() and not force:
        raise InputError(f"{str(out)!r} exists and may hold your bounds; give --force to replace it")
    text = schema_file.init(table_to_describe(data, not no_header, written))
    if out is not None:
        write_whole(out, text.encode())
    said = text.removesuffix("\n") if out is None else (
        f"written: {out}\nnext: fill in the bounds and categories, then run: trigmech schema check {out}")
    tell({"file": None if out is None else str(out), "schema": text}, said, as_json)


@schema_app.command("check")
@grouped
def schema_check(
    schema: Annotated[Path, typer.Argument(help="A schema file (TOML).")],
    written: Written,
    against: Annotated[str | None, typer.Option(
        help="The private table: the command then also checks it, as `trigmech check` does, on standard error. NOT "
             "PRIVATE: do not publish the counts.")] = None,
    as_json: Json = False,
) -> None:
    """List the faults of a schema and end with status 3; without faults, print its constraints, the precision of its
    columns, and warnings.

    With --against it also lists the findings of `trigmech check` in a private table, for yourself alone.

    Example: `trigmech schema check schema.toml`
    """
    from trigmech.schema import toml as schema_file
    from trigmech.schema.satisfiability import without_missing
    from trigmech.schema.words import how_fine, without_middle

    problems = schema_file.check(schema)
    loaded = None if problems else schema_file.load(schema)
    constraints = [] if loaded is None else [each.text for each in loaded.schema.constraints]
    fine = [] if loaded is None else how_fine(loaded.schema.columns)
    odd = [] if loaded is None else [*without_missing(loaded.schema.constraints, loaded.schema.columns),
                                     *without_middle(loaded.schema.columns)]
    derived = [] if loaded is None else [f"{each.name} = {each.formula}" for each in loaded.schema.derived]
    said = [*(problems or [f"{schema} is complete"]), *fine, *(f"derived: {text}" for text in derived),
            *(f"constraint: {text}" for text in constraints), *(f"warning: {text}" for text in odd)]
    if against is None and not problems:
        said.append(f"next: trigmech check DATA --schema {schema}   (for you alone: all that a release would refuse or "
                    "clip)")
    facts: dict[str, Any] = {"file": str(schema), "problems": problems, "constraints": constraints, "derived": derived,
                             "how_fine": fine, "warnings": odd}
    refused = bool(problems)
    if against is not None and loaded is not None:
        found = found_in(against, loaded, written)
        refused = found.refused
        facts |= found.to_dict() | {"misfits": found.counts(MISFITS)}
        typer.echo(f"{PRIVATE}\n{found}", err=True)
    tell(facts, "\n".join(said), as_json)
    raise typer.Exit(3 if refused else 0)


app.command("check")(check)
app.command("advise")(advise)
app.command("release")(release)
app.command("accept")(accept)
app.command("ask")(ask)
app.command("fit")(fit)
app.command("compare")(compare)


@app.command()
def sample(
    saved: Saved,
    rows: Annotated[int | None, typer.Option(
        min=1, callback=writable_rows, help="Number of rows; default: as many as the table had.")] = None,
    out: Annotated[str, typer.Option(help=".csv, .tsv, .csv.gz or .parquet, or - for CSV on standard output; a new "
                                          "folder for --imputations.")] = "-",
    imputations: Annotated[int | None, typer.Option(
        min=2, help="Write this number of imputed tables to the folder --out, for valid standard errors. A page "
                    "there explains how to combine them in R and Python.")] = None,
    given: Annotated[list[str] | None, typer.Option(help="The value of a column in all rows: region=north, age=30..39, "
                                                         "or pay= for a missing value; repeatable.")] = None,
    shares: Annotated[list[str] | None, typer.Option(help="Shares of a column's values: region=north:0.5,south:0.5; "
                                                          "repeatable.")] = None,
    rows_per_person: Annotated[int | None, typer.Option(
        min=1, help="If the schema names a person column: rows of each person, drawn independently.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed, to draw the same rows again.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that --out names, if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Draw synthetic rows from a saved release; needs no data and costs no budget.

    It prints how many of the rows are different, and how many rows were fitted to the release. If a sample has
    more rows than were fitted, new rows are made with nearly the same tables of counts (docs/holders.md).

    Standard errors that are computed on one synthetic table are not valid (docs/answers.md). --imputations writes
    several tables, which give valid standard errors.

    Example: `trigmech sample clinic.tm --rows 1000 --out synth.csv`
    """
    import numpy as np

    from trigmech.cli.given import given_of, shares_of

    rng = None if seed is None else np.random.default_rng(seed)
    if imputations is not None:
        if out == STANDARD or rows is not None or given or shares or rows_per_person is not None:
            raise typer.BadParameter("--imputations needs a folder as --out, and goes with --seed alone")
        return write_copies(saved, Path(out), imputations, rng, as_json)
    if out == STANDARD and as_json:
        raise typer.BadParameter("--json and the table both write to standard output; name a file with --out")
    check_outputs((), (saved,), table=out, force=force)
    made = tm.load(saved)
    with progress_bar(quiet=as_json) as progress:
        count = write_sample(made, out, rows, rng, progress=progress,
                             given=given_of(made.schema, given or ()), shares=shares_of(made.schema, shares or ()),
                             rows_per_person=rows_per_person)
    tell({"release": str(saved), "table": out, **asdict(count),
          "columns": [*([made.schema.person] if made.schema.person else []), *made.schema.table_names],
          "seed": seed, "simulated": made.ledger.simulated, "note": NOT_VALID},
         f"written: {'standard output' if out == STANDARD else out} ({count})", as_json, err=out == STANDARD)


@app.command()
@grouped
def evaluate(
    saved: Saved,
    against: Annotated[str, typer.Option(help="The private table.")],
    written: Written,
    schema: HowToRead = None,
    limits: Limits = None,
    as_json: Json = False,
) -> None:
    """Judge a release against the table it was made from: a verdict, then its measures. NOT PRIVATE: do not publish it.

    --json also has the figures of each column and pair, and the errors of queries, which take longer.

    Example: `trigmech evaluate clinic.tm --against data.csv`
    """
    from trigmech.report.against import errors_of, judgement_of

    made, chosen = tm.load(saved), limits_of(limits)
    with progress_bar(quiet=as_json) as progress:
        progress("reading the table", 0, 0)
        table = table_against(made, against, schema, written)
        found = judgement_of(made, table, progress).by(chosen)
    if as_json:
        tell({"private": True, **found.to_dict(), **errors_of(made, table)}, "", as_json)
        return
    typer.echo(FROM_THE_TABLE, err=True)
    tell_judgement(found)


@app.command()
@grouped
def report(
    saved: Saved,
    written: Written,
    against: Annotated[str | None, typer.Option(help="The private table: the page then shows it and must not be "
                                                     "published.")] = None,
    schema: HowToRead = None,
    held_out: Annotated[str | None, typer.Option(help="Rows of people who are not in the table of --against: the page "
                                                      "then has a membership attack.")] = None,
    out: Annotated[Path | None, typer.Option(help="The page; default: next to the release, as .html.")] = None,
    figures: Annotated[Path | None, typer.Option(help="A folder for the figures as PNG and PDF files.")] = None,
    limits: Limits = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained page: the uses of the release, each column, pairs, and the privacy statement.

    Example: `trigmech report clinic.tm --out clinic.html`
    """
    from trigmech.report import page as pages

    page = out or saved.with_suffix(".html")
    check_page(page, (saved, against, held_out, schema, limits), "; --figures names their folder")
    made, chosen = tm.load(saved), limits_of(limits)
    with progress_bar(quiet=as_json) as progress:
        progress("reading the table", 0, 0)
        table = None if against is None else table_against(made, against, schema, written)
        others = None if held_out is None else table_against(made, held_out, schema, written)
        page = pages.write(made, page, table, figures, progress=progress, limits=chosen, held_out=others)
    tell({"release": str(saved), "page": str(page), "private": against is not None,
          "figures": None if figures is None else str(figures)},
         f"written: {page}" + ("" if figures is None else f" and figures in {figures}"), as_json)
    if against is not None:
        typer.echo("NOT PRIVATE: the page shows the private table. Do not publish it.", err=True)


def main() -> None:
    """Run the command line."""
    # A command's objects hold few cycles, and the usual searches for cycles take a twentieth of a large release.
    gc.set_threshold(*COLLECTED)
    end(lambda: _command()(prog_name="trigmech", standalone_mode=False))
