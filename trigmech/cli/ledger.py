"""The commands on ledgers: make, show, verify, raise, and add the releases of other tools."""

from typing import Annotated

import typer

import trigmech as tm
from trigmech.cli.files import check_outputs, file_of, name_of
from trigmech.cli.options import Json, budget_of, tell

ledger_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown",
                         help="Make, show, verify and raise the record of a data set's spent budget.")

File = Annotated[str, typer.Argument(help=(
    "A ledger: a file, or postgresql://user@host/database?ledger=NAME, with the password in PGPASSWORD or ~/.pgpass."))]
Epsilon = Annotated[float, typer.Option(help="Epsilon of all releases of the data set together, above 0.")]


@ledger_app.command("create")
def create(
    file: Annotated[str, typer.Argument(help="The ledger to make: a file, or an address as in the other commands.")],
    epsilon: Epsilon,
    delta: Annotated[float, typer.Option(help="Delta of all releases together, at least 0, far below 1 / rows.")] = 0.0,
    data_set: Annotated[str, typer.Option(help="A name for the data set.")] = "",
    reserve_delta: Annotated[float, typer.Option(
        help="The part of delta for claims of other tools ('trigmech ledger add') and for private categories.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Make a ledger with the budget that all releases of one data set share.

    Example: `trigmech ledger create ledger.json --epsilon 3 --delta 1e-6 --data-set clinic`
    """
    budget = budget_of(epsilon, delta)
    check_outputs((file_of(file),))
    made = tm.LedgerFile.create(file, budget, data_set=data_set or name_of(file), reserve_delta=reserve_delta)
    tell(made.summary, f"written: {file}", as_json)


@ledger_app.command("show")
def show(file: File, as_json: Json = False) -> None:
    """Print all charges, their recomputed total, and how much the next release may cost.

    Example: `trigmech ledger show ledger.json`
    """
    book = tm.LedgerFile.open(file)
    tell(book.summary, book, as_json)


@ledger_app.command("verify")
def verify(file: File, as_json: Json = False) -> None:
    """Recompute every total, and check whether entries were changed, moved or lost; the status is 3 if they were.

    Example: `trigmech ledger verify ledger.json`
    """
    book = tm.LedgerFile.open(file)
    problems, claimed = book.verify(), book.claims
    lines = problems or [f"{file}: every entry and every total is correct"]
    if claimed:
        lines = [*lines, f"{claimed} of the charges are claims of other tools, which cannot be verified here"]
    tell({"file": str(file), "problems": problems, "claimed": claimed}, "\n".join(lines), as_json)
    raise typer.Exit(3 if problems else 0)


@ledger_app.command("raise")
def raise_budget(
    file: File,
    epsilon: Epsilon,
    delta: Annotated[float | None, typer.Option(help="Not below the present delta; default: unchanged.")] = None,
    reserve_delta: Annotated[float | None, typer.Option(
        help="The part of delta for releases of other tools, not below the present one; default: unchanged.")] = None,
    as_json: Json = False,
) -> None:
    """Raise the total budget of the data set; the ledger records the time, the old and the new budget.

    The budget can never be lowered. A raised budget is a new promise to the people in the data: decide on it before
    you look at releases.

    Example: `trigmech ledger raise ledger.json --epsilon 5`
    """
    book = tm.LedgerFile.open(file)
    old = book.budget
    book.raise_budget(budget_of(epsilon, old.delta if delta is None else delta), reserve_delta)
    tell(book.summary, f"{file}: the budget was {old} and is now {book.budget}; accepted next: {book.remaining}",
         as_json)


@ledger_app.command("add")
def add(
    file: File,
    epsilon: Annotated[float, typer.Option(help="The claimed cost of each release: epsilon, above 0.")],
    purpose: Annotated[str, typer.Option(help="A description of the release.")],
    by: Annotated[str, typer.Option(metavar="TOOL", help="Who claims it, such as a program and its version.")],
    neighbours: Annotated[str, typer.Option(metavar="replace-one|add-remove", help=(
        "The neighbouring tables of the claim: one row replaced, or one row added or removed. The second kind is "
        "converted to the claim that it implies for a replaced row."))],
    delta: Annotated[float, typer.Option(help="The claimed delta, at most the rest of the reserve.")] = 0.0,
    count: Annotated[int, typer.Option(min=1, help="The number of releases, each at this cost.")] = 1,
    as_json: Json = False,
) -> None:
    """Record the claimed cost of a release by another tool before that release; refused if over the budget.

    Example: `trigmech ledger add ledger.json --epsilon 0.5 --purpose "mean age" --by "SmartNoise 1.0" --neighbours
    add-remove`
    """
    book = tm.LedgerFile.open(file)
    book.add(purpose, budget_of(epsilon, delta), by, neighbours=neighbours, count=count)
    tell(book.summary, f"{file}: recorded as claimed by {by}, not proved here; accepted next: {book.remaining}",
         as_json)
