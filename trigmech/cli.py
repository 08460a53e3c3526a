"""The command line: what to say and where to write; the work is done elsewhere."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

import trigmech as tm
from trigmech import demo as demonstration
from trigmech.cli_files import (
    STANDARD,
    check_outputs,
    errors_of,
    keep_what_counts,
    open_or_make_ledger,
    table_against,
    write_sample,
)
from trigmech.cli_preview import tell_preview, warn
from trigmech.cli_progress import progress_bar, tell_steps
from trigmech.errors import BudgetError, InputError, SolverError, TrigmechError
from trigmech.memory import IMPORT, NEEDED, check_memory, shortage
from trigmech.preview import clipping_of, warnings_of


class Commands(TyperGroup):
    """The commands, which end alike under every version of Typer when interrupted or when nobody reads on."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context names."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("trigmech: interrupted; no file is half written, and what was charged stays spent", err=True)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # Whoever read our output has had enough; what is still buffered must go nowhere at the end.
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None


app = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False,
                  help=(
    "Differentially private synthetic data that answers smooth queries accurately.\n\n"
    "From a CSV to a published table:\n\n"
    "`trigmech schema init data.csv --out schema.toml`, fill in the bounds, `trigmech schema check schema.toml`,\n\n"
    "`trigmech release data.csv --schema schema.toml --epsilon 1 --delta 1e-6 --out clinic.tm --csv synthetic.csv`,\n\n"
    "`trigmech report clinic.tm`.\n\n"
    "Exit status: 0 done, 1 a fault of the program, 2 wrong usage, 3 wrong input, 4 over the budget, 5 the solver "
    "failed, 130 interrupted."))
schema_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown",
                         help="Write and check the public description of a table.")
ledger_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown",
                         help="Make, show and verify the record of what was spent on a data set.")
app.add_typer(schema_app, name="schema")
app.add_typer(ledger_app, name="ledger")

Data = Annotated[str, typer.Argument(help="CSV or Parquet file (.gz, .zst, .bz2 too), or - for CSV on standard input.")]
Saved = Annotated[Path, typer.Argument(help="A saved release, such as clinic.tm.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines instead.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget: epsilon, above 0.")]
Delta = Annotated[float, typer.Option(help="Privacy budget: delta, at least 0 and below 1, far below 1 / rows.")]

# Set to anything, this shows unexpected errors in full.
DEBUG = "TRIGMECH_DEBUG"
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
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Tell each step on standard error: plans, charges, "
                                                                  "iterations; public facts only.")] = False,
) -> None:
    if "--help" not in sys.argv:
        check_memory(NEEDED.get(str(ctx.invoked_subcommand), IMPORT))
    if verbose:
        ctx.call_on_close(tell_steps())


@app.command()
def info(as_json: Json = False) -> None:
    """Print the versions of the package and of what it stands on.

    Example: `trigmech info --json`
    """
    import platform
    from importlib.metadata import version

    versions = {"trigmech": tm.__version__, "python": platform.python_version(),
                **{name: version(name) for name in VERSIONS}}
    typer.echo(json.dumps(versions) if as_json else "\n".join(f"{name} {value}" for name, value in versions.items()))


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where synthetic.csv and demo.png go.")] = Path("trigmech-demo"),
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-3,
    rows: Annotated[int, typer.Option(min=1, help="Rows of the synthetic table.")] = 569,
    seed: Annotated[int | None, typer.Option(min=0, help="Repeat a run; its noise is then not private.")] = None,
    as_json: Json = False,
) -> None:
    """Release WDBC (569 patients, 30 measurements) and show how well the release answers smooth queries.

    Example: `trigmech demo --epsilon 2 --folder out`
    """
    budget = _budget(epsilon, delta)
    console = Console()
    with Console(stderr=True).status("starting") as status:
        made = demonstration.run(folder, budget, rows, seed, status.update)
    if as_json:
        errors = zip(made.widths, *(figures.tolist() for figures in (
            made.evaluation.worst_absolute, made.uniform.worst_absolute, made.predicted.worst)), strict=True)
        typer.echo(json.dumps({
            "table": str(made.table), "picture": str(made.picture), "rows": rows,
            "ledger": made.synthesis.ledger.to_dict(), "delta": budget.delta,
            "proved_epsilon": made.synthesis.ledger.proved_epsilon,
            "worst_absolute": [dict(zip(("width", "release", "uniform", "predicted"), each, strict=True))
                               for each in errors]}))
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
               "from elsewhere: bounds that are read off the table are not covered by the guarantee.")
    typer.echo(f"written: {made.table} and {made.picture}")


@schema_app.command("init")
def schema_init(
    data: Data,
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    no_header: Annotated[bool, typer.Option("--no-header", help="The CSV's first line is a row already.")] = False,
    delimiter: Annotated[str, typer.Option(help="Between the cells of a CSV.")] = ",",
    as_json: Json = False,
) -> None:
    """Write a schema with the names and guessed kinds of a file's columns; bounds are for you to fill in.

    Bounds must not come from the data, so none are written: put in what is known of the subject.

    Example: `trigmech schema init data.csv --out schema.toml`
    """
    from trigmech import schema_file
    from trigmech.outputs import write_whole
    from trigmech.table_file import TableFile

    if str(out) == STANDARD:
        out = None
    check_outputs((out,), (data,))
    if out is not None and out.exists() and not force:
        raise InputError(f"{str(out)!r} exists and may hold your bounds; give --force to replace it")
    if out is not None and out.suffix.lower() != ".toml":
        keep_what_counts(out)
    text = schema_file.init(TableFile(data, header=not no_header, delimiter=delimiter))
    if out is not None:
        write_whole(out, text.encode())
    if as_json:
        typer.echo(json.dumps({"file": None if out is None else str(out), "schema": text}))
    elif out is None:
        typer.echo(text, nl=False)
    else:
        typer.echo(f"written: {out}\nnext: fill in the bounds and categories, then run: trigmech schema check {out}")


@schema_app.command("check")
def schema_check(
    schema: Annotated[Path, typer.Argument(help="A schema file (TOML).")],
    as_json: Json = False,
) -> None:
    """Say what is missing or wrong in a schema; status 3 if anything is.

    Example: `trigmech schema check schema.toml`
    """
    from trigmech import schema_file

    problems = schema_file.check(schema)
    if as_json:
        typer.echo(json.dumps({"file": str(schema), "problems": problems}))
    else:
        typer.echo("\n".join(problems) if problems else f"{schema} is complete")
    raise typer.Exit(3 if problems else 0)


@app.command()
def release(
    data: Data,
    schema: Annotated[Path, typer.Option(help="The schema (TOML); see 'trigmech schema init'.")],
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="Where the release is saved, such as clinic.tm.")],
    delta: Annotated[float | None, typer.Option(
        help="Privacy budget: delta, at least 0 and below 1, far below 1 / rows; default: 0.")] = None,
    csv: Annotated[Path | None, typer.Option(
        help="Also write a synthetic table (.csv or .parquet, .gz, .zst), or - for standard output.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Rows of that table; default: as many as the data.")] = None,
    ledger: Annotated[Path | None, typer.Option(
        help="The data set's ledger file; made with this budget as its total if it is not there.")] = None,
    bounds_share: Annotated[float, typer.Option(
        help="Part of the budget for columns with private_bounds = true.")] = tm.synthesis.BOUNDS_SHARE,
    simulate: Annotated[int | None, typer.Option(
        min=0, metavar="SEED", help="A repeatable simulation. It is NOT private.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that --out names, if it is there.")] = False,
    dry_run: Annotated[bool, typer.Option(
        "--dry-run", help="Say what the budget will buy, in the columns' units; charge and write nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Release a table: save the release, and write a synthetic table if asked to.

    Example: `trigmech release data.csv --schema schema.toml --epsilon 1 --delta 1e-6 --out clinic.tm --rows 10000
    --csv synth.csv --ledger ledger.json`
    """
    import numpy as np

    from trigmech import schema_file
    from trigmech.table_file import TableFile

    budget = _budget(epsilon, delta or 0.0)
    to_standard = str(csv) == STANDARD
    if rows is not None and csv is None:
        raise typer.BadParameter("--rows is of the table that --csv writes; give --csv as well")
    if to_standard and as_json:
        raise typer.BadParameter("--csv - and --json both write to standard output; give one of them a file")
    if not 0.0 < bounds_share < 1.0:
        raise typer.BadParameter(f"--bounds-share must be above 0 and below 1, not {bounds_share}")
    check_outputs((out, None if to_standard else csv, ledger), (data, schema))
    keep_what_counts(out, force)
    if out.exists() and not force:
        raise InputError(f"{str(out)!r} exists; name another file, or give --force to replace it")
    if csv is not None:
        keep_what_counts(csv)
    loaded = schema_file.load(schema)
    table = TableFile(data, **loaded.file)
    if dry_run:
        tell_preview(table, loaded.schema, budget, bounds_share=bounds_share, ledger=ledger,
                     delta_chosen=delta is not None, as_json=as_json)
        return
    # Counting finds what cannot be read before a ledger file is made.
    warnings = warn(warnings_of(table.n, loaded.schema, budget, delta is not None))
    book = None if ledger is None else open_or_make_ledger(ledger, budget, out.stem)
    with progress_bar(quiet=as_json) as progress:
        try:
            made = tm.synthesize(table, loaded.schema, budget, ledger=book, bounds_share=bounds_share,
                                 rng=None if simulate is None else np.random.default_rng(simulate), progress=progress)
        except BudgetError as error:
            if book is None:
                raise
            raise BudgetError(f"{error}. Nothing was written. Give a smaller --epsilon: `trigmech ledger show "
                              f"{ledger}` says what is left") from None
        progress("saving", 0, 0)
        made.save(out)
        if csv is not None:
            write_sample(made, csv, rows)
    warnings += warn(clipping_of(made))
    if as_json:
        typer.echo(json.dumps({"release": str(out), "table": None if csv is None else str(csv), "n": made.release.n,
                               "simulated": made.ledger.simulated, "ledger": made.ledger.to_dict(),
                               "proved_epsilon": made.ledger.proved_epsilon, "delta": made.ledger.budget.delta,
                               "warnings": warnings}))
        return
    typer.echo(made.ledger, err=to_standard)
    typer.echo(f"written: {out}" + ("" if csv is None or to_standard else f" and {csv}"), err=to_standard)
    typer.echo(f"next: trigmech report {out}   (a page to read)   or   trigmech sample {out} --rows 1000",
               err=to_standard)


@app.command()
def sample(
    saved: Saved,
    rows: Annotated[int | None, typer.Option(min=1, help="Default: as many as the table had.")] = None,
    out: Annotated[str, typer.Option(help="CSV or Parquet file, or - for CSV on standard output.")] = "-",
    seed: Annotated[int | None, typer.Option(min=0, help="For the same rows again; harmless to privacy.")] = None,
    as_json: Json = False,
) -> None:
    """Draw synthetic rows from a saved release; needs no data and costs no budget.

    Example: `trigmech sample clinic.tm --rows 1000 --out synth.csv`
    """
    import numpy as np

    if out == STANDARD and as_json:
        raise typer.BadParameter("--json and a table both write to standard output; give --out a file")
    if out != STANDARD:
        check_outputs((Path(out),), (saved,))
        keep_what_counts(Path(out))
    made = tm.load(saved)
    write_sample(made, out, rows, None if seed is None else np.random.default_rng(seed))
    if as_json:
        typer.echo(json.dumps({"release": str(saved), "table": out, "rows": made.rows if rows is None else rows,
                               "columns": list(made.schema.names), "seed": seed,
                               "simulated": made.ledger.simulated}))
    elif out != STANDARD:
        typer.echo(f"written: {out}")


@app.command()
def evaluate(
    saved: Saved,
    against: Annotated[str, typer.Option(help="The private table.")],
    schema: Annotated[Path | None, typer.Option(help="For how to read that file; its columns are known.")] = None,
    as_json: Json = False,
) -> None:
    """Compare a release with the table it was made from. NOT PRIVATE: do not publish what this prints.

    Example: `trigmech evaluate clinic.tm --against data.csv`
    """
    made = tm.load(saved)
    with progress_bar(quiet=as_json) as progress:
        progress("reading the table", 0, 0)
        found = errors_of(made, table_against(made, against, schema), progress)
    if as_json:
        typer.echo(json.dumps({"private": True, **found}))
        return
    typer.echo("NOT PRIVATE: these figures were computed from the private table. Do not publish them.", err=True)
    # A column's name may hold what would be markup.
    console = Console(markup=False, emoji=False, highlight=False)
    for title, figures in found.items():
        table = Table(title)
        table.add_column(justify="right")
        for name, value in figures.items():
            table.add_row(name, f"{value:,}" if isinstance(value, int) else f"{value:.4g}")
        console.print(table)


@app.command()
def report(
    saved: Saved,
    against: Annotated[str | None, typer.Option(help="The private table: the page then shows it, and is not to be "
                                                     "published.")] = None,
    schema: Annotated[Path | None, typer.Option(help="For how to read that file; its columns are known.")] = None,
    out: Annotated[Path | None, typer.Option(help="Default: beside the release, with the suffix .html.")] = None,
    figures: Annotated[Path | None, typer.Option(help="A folder for the figures as PNG and PDF files.")] = None,
    as_json: Json = False,
) -> None:
    """Write one self-contained page: the privacy statement, the ledger, marginals, correlations, error bars.

    Example: `trigmech report clinic.tm --out clinic.html`
    """
    from trigmech import report as pages

    page = out or saved.with_suffix(".html")
    check_outputs((page,), (saved, against, schema))
    keep_what_counts(page)
    if page.is_file() and page.stat().st_size and not pages.is_page(page):
        raise InputError(f"{str(page)!r} exists and is no page; name another file")
    made = tm.load(saved)
    with progress_bar(quiet=as_json) as progress:
        progress("reading the table", 0, 0)
        table = None if against is None else table_against(made, against, schema)
        page = pages.write(made, page, against=table, figures=figures, progress=progress)
    if as_json:
        typer.echo(json.dumps({"release": str(saved), "page": str(page), "private": against is not None,
                               "figures": None if figures is None else str(figures)}))
    else:
        typer.echo(f"written: {page}" + ("" if figures is None else f" and figures in {figures}"))
    if against is not None:
        typer.echo("NOT PRIVATE: the page shows the private table. Do not publish it.", err=True)


@ledger_app.command("create")
def ledger_create(
    file: Annotated[Path, typer.Argument(help="The ledger file to make.")],
    epsilon: Epsilon,
    delta: Delta = 0.0,
    data_set: Annotated[str, typer.Option(help="A name for the data set.")] = "",
    as_json: Json = False,
) -> None:
    """Make a ledger file with the budget that all releases of one data set share.

    Example: `trigmech ledger create ledger.json --epsilon 3 --delta 1e-6 --data-set clinic`
    """
    budget = _budget(epsilon, delta)
    check_outputs((file,))
    made = tm.LedgerFile.create(file, budget, data_set=data_set or file.stem)
    typer.echo(json.dumps(made.summary()) if as_json else f"written: {file}")


@ledger_app.command("show")
def ledger_show(file: Annotated[Path, typer.Argument(help="A ledger file.")], as_json: Json = False) -> None:
    """Print all charges and their total, recomputed.

    Example: `trigmech ledger show ledger.json`
    """
    book = tm.LedgerFile.open(file)
    typer.echo(json.dumps(book.summary()) if as_json else str(book))


@ledger_app.command("verify")
def ledger_verify(file: Annotated[Path, typer.Argument(help="A ledger file.")], as_json: Json = False) -> None:
    """Recompute every total from the events, and check that no entry was changed, moved or lost; else status 3.

    Example: `trigmech ledger verify ledger.json`
    """
    problems = tm.LedgerFile.open(file).verify()
    if as_json:
        typer.echo(json.dumps({"file": str(file), "problems": problems}))
    else:
        typer.echo("\n".join(problems) if problems else f"{file}: every entry and every total is as it should be")
    raise typer.Exit(3 if problems else 0)


def main() -> None:
    """Run the command line; errors of this package end it with one line and a status that tells their kind."""
    try:
        app(prog_name="trigmech")
    except TrigmechError as error:
        typer.echo(f"trigmech: {error}", err=True)
        sys.exit(5 if isinstance(error, SolverError) else 4 if isinstance(error, BudgetError) else 3)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # A panic of polars is not an Exception.
        if os.environ.get(DEBUG):
            raise
        little = shortage(error)
        if little is not None:
            typer.echo(f"trigmech: {little}", err=True)
            sys.exit(1)
        if isinstance(error, OSError) and error.errno:
            # Such as a full disk. The system's words for a number quote nothing.
            typer.echo(f"trigmech: {os.strerror(error.errno)}", err=True)
            sys.exit(3)
        # What a library says of its input may quote the table, so it is not shown unasked.
        typer.echo(f"trigmech: an unexpected {type(error).__name__}; its message is withheld, for it might quote the "
                   f"table. This is a fault of the program. {DEBUG}=1 shows the message and its origin.", err=True)
        sys.exit(1)


def _budget(epsilon: float, delta: float) -> tm.Budget:
    try:
        return tm.Budget(epsilon, delta)
    except BudgetError as error:
        raise typer.BadParameter(str(error)) from None
