"""The commands for parts: one design, sums measured by each party, and the release of their total."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import trigmech as tm
from trigmech.cli.files import (
    again_from,
    check_outputs,
    file_of,
    keep_others,
    ledger_of_run,
    lock_of,
    paid_for,
    told_when_ended,
)
from trigmech.cli.options import (
    Data,
    Engine,
    Epsilon,
    Json,
    TableData,
    Target,
    Written,
    budget_of,
    files_given,
    for_target,
    grouped,
    tell,
)
from trigmech.cli.progress import progress_bar
from trigmech.errors import InputError
from trigmech.privacy.budget import BOUNDS_SHARE

part_app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=(
    "Release one table that is kept in several places: exact sums of its parts, added and released together.\n\n"
    "Run `part design` once, `part measure` where the rows are, and `part release` where the sums are added. A part is "
    "as confidential as its table; designs and releases are public. `part share` replaces `part measure` and adds a "
    "share of the noise."))

DesignFile = Annotated[Path, typer.Option("--design", help="The design, from 'part design' or 'part release'.")]
HowWritten = Annotated[Path | None, typer.Option("--schema", help="The design's schema file, whose table [file] says "
                                                                  "how the data file is written.")]
Parts = Annotated[list[Path], typer.Argument(help="Parts, such as north.part south.part; or shares.")]


@part_app.command("design")
def make_design(
    schema: Annotated[Path, typer.Option(help="The schema (TOML), the same for all.")],
    n: Annotated[int, typer.Option(min=2, help="Persons (or rows) in all parts together; public.")],
    epsilon: Epsilon,
    out: Annotated[Path, typer.Option(help="Where the design is written, such as design.json.")],
    delta: Annotated[float, typer.Option(help="Privacy budget: delta, far below 1 / n.")] = 0.0,
    smooth: Annotated[bool, typer.Option("--smooth", help="Serve smooth queries only, in one round.")] = False,
    shares: Annotated[bool, typer.Option("--shares", help="Make a design for 'part share', for one "
                                                          "run.")] = False,
    bounds_share: Annotated[float, typer.Option(help="Part of the budget for private bounds.")] = BOUNDS_SHARE,
    target: Target = None,
    as_json: Json = False,
) -> None:
    """Write the design for the measurement of all parts; it is public and uses public facts only.

    Example: `trigmech part design --schema schema.toml --n 25000 --epsilon 1 --delta 1e-7 --out design.json`
    """
    from trigmech.parts import design_file
    from trigmech.parts.steps import check_design
    from trigmech.schema import toml as schema_file

    check_outputs((out,), (schema,))
    keep_others(out, "design", design_file.load)
    if smooth and target is not None:
        raise typer.BadParameter("give --smooth or --target, not both: smooth queries have no target column")
    made = tm.design(n, schema_file.load_schema(schema), budget_of(epsilon, delta),
                     tm.MomentMechanism() if smooth else for_target(target), bounds_share=bounds_share)
    check_design(made)
    design_file.save(out, made.for_shares() if shares else made)
    tell({"design": str(out), "n": n, "passes": made.passes},
         f"{made}\nwritten: {out}; up to {made.passes} rounds: each part is measured once in each", as_json)


@part_app.command("measure")
@grouped
def measure(
    data: TableData,
    out: Annotated[Path, typer.Option(help="Where the part is written, such as north.part. It is NOT PRIVATE.")],
    design: DesignFile,
    written: Written,
    measured_by: Engine,
    schema: HowWritten = None,
    as_json: Json = False,
) -> None:
    """Write the exact sums over a file's rows that a design asks for next. They are as confidential as the file.

    All rows of a person must be in one part.

    Example: `trigmech part measure north.csv --design design.json --out north.part`
    """
    engine = measured_by.options
    table, asked = _measurable(files_given(data), out, "part", design, schema, written)
    with progress_bar(quiet=as_json) as progress:
        part = tm.measure_part(table, asked, progress=progress, **engine)
    part.save(out)
    tell(_facts(part, out), f"{part.n:,} persons\nwritten: {out} (NOT PRIVATE: keep it as safe as the table)", as_json)


@part_app.command("share")
@grouped
def share(
    data: Data,
    written: Written,
    out: Annotated[Path, typer.Option(help="Where the share is written, such as north.share. It is NOT PRIVATE.")],
    design: DesignFile,
    party: Annotated[int, typer.Option(min=1, help="The number of this party, from 1; different for each party.")],
    parties: Annotated[int, typer.Option(min=1, help="The exact number of shares that will be released together.")],
    tolerated: Annotated[int, typer.Option(min=0, help="Number of parties that may combine their noise.")] = 0,
    schema: HowWritten = None,
    as_json: Json = False,
) -> None:
    """Write the sums that a design asks for next, with this party's share of the noise added.

    Only the sum of all shares has all the noise. A person who does not make the release should add the shares ('part
    add').

    Example: `trigmech part share north.csv --design design.json --party 1 --parties 3 --out north.share`
    """
    table, asked = _measurable([data], out, "share", design, schema, written)
    with progress_bar(quiet=as_json) as progress:
        own = tm.share_part(table, asked, party=party, parties=parties, tolerated=tolerated, progress=progress)
    own.save(out)
    tell(_facts(own, out), f"{own.n:,} persons, of one of {parties} parties\nwritten: {out} (NOT PRIVATE alone: it has "
                           "only a share of the noise)", as_json)


@part_app.command("add")
def add(
    parts: Parts,
    out: Annotated[Path, typer.Option(help="Where their sum is written. It is NOT PRIVATE.")],
    as_json: Json = False,
) -> None:
    """Write the sum of parts, which is the part of all their persons. It is as confidential as they are.

    Example: `trigmech part add north.part south.part --out both.part`
    """
    check_outputs((out,), parts)
    whole = _sum(parts)
    keep_others(out, "share" if isinstance(whole, tm.Share) else "part", type(whole).load)
    whole.save(out)
    tell(_facts(whole, out), f"{whole.n:,} persons of {len(whole.identities)} measured parts\nwritten: {out} (NOT "
                             "PRIVATE: keep it as safe as the tables)", as_json)


@part_app.command("show")
def show(parts: Parts, as_json: Json = False) -> None:
    """Print the public facts of parts: how many persons, from how many measured parts, for which question.

    Example: `trigmech part show north.part`
    """
    from trigmech.parts.shares import load_part

    found = [(path, load_part(path)) for path in parts]
    tell({"parts": [_facts(part, path) for path, part in found]}, "\n".join(
        f"{path}: {part.n:,} persons of {len(part.identities)} measured part(s), question {part.question[:12]}; NOT "
        "PRIVATE" for path, part in found), as_json)


@part_app.command("release")
def release(
    parts: Parts,
    design: DesignFile,
    out: Annotated[Path, typer.Option(
        help="Where the release is saved, such as clinic.tm; if the design has another round, the design of that "
             "round is written to --next instead.")],
    ledger: Annotated[str | None, typer.Option(
        help="The data set's ledger, a file or postgresql://...; if it does not exist, it is made with this "
             "budget as its total.")] = None,
    following: Annotated[Path | None, typer.Option(
        "--next", help="Where the design of another round is written. Default: next to --out, such as "
                       "clinic.round2.json.")] = None,
    as_json: Json = False,
) -> None:
    """Add parts or shares and release their total: write the release, or the design of the next round.

    Drawn values are kept next to --out, in a file whose name ends in .rounds, until the last round is released. Do not
    remove this file before that.

    Example: `trigmech part release north.part south.part --design design.json --ledger ledger.json --out clinic.tm`
    """
    from trigmech.parts import design_file
    from trigmech.parts.shares import load_part
    from trigmech.synthesis import reconstruct

    asked = design_file.load(design)
    following = following or out.parent / f"{out.stem}.round{_round(asked) + 1}.json"
    rounds = Path(f"{out}.rounds")
    check_outputs((file_of(ledger), lock_of(ledger), out, following, rounds), (*parts, design))
    keep_others(following, "design", design_file.load)
    if out.exists():
        raise InputError(f"{str(out)!r} exists; name another file")
    found = [load_part(path) for path in parts]
    shares = [part for part in found if isinstance(part, tm.Share)]
    if 0 < len(shares) < len(found):
        kinds = {isinstance(each, tm.Share): path for path, each in zip(parts, found, strict=True)}
        share, part = str(kinds[True]), str(kinds[False])
        raise InputError(f"{share!r} is a share and {part!r} is a part; give shares only, or parts only")
    again = f"The drawn values are in {str(rounds)!r}: run the same command again; nothing is charged twice"
    with told_when_ended(again_from(rounds)):
        with ledger_of_run(ledger, asked.budget, 0.0, rounds) as book:
            released = (tm.release_shares(shares, asked, ledger=book, rounds=rounds) if len(shares) == len(found) else
                        tm.release_parts(found, asked, ledger=book, rounds=rounds))
        if isinstance(released, tm.Design):
            with paid_for(following, again):
                design_file.save(following, released)
        else:
            made = reconstruct(released)
            with paid_for(out, again):
                made.save(out)
    if isinstance(released, tm.Design):
        tell({"design": str(following), "done": False, "rounds": str(rounds)},
             f"the design of the next round is {following}: measure each part with it, and release again with the same "
             f"--out; keep {rounds}", as_json)
        return
    rounds.resolve().unlink(missing_ok=True)
    tell({"release": str(out), "done": True, "n": made.n, "ledger": made.ledger.to_dict(),
          "warnings": list(made.warnings)}, f"{made.ledger}\nwritten: {out}", as_json)


def _measurable(files: list[str], out: Path, what: str, design: Path, schema: Path | None,
                written: Written) -> tuple[Any, tm.Design]:
    """Return the table in files and the loaded design, once it is sure that ``out`` may be written."""
    from trigmech.parts import design_file

    check_outputs((out,), (*files, design, schema))
    keep_others(out, what, tm.Part.load if what == "part" else tm.Share.load)
    asked = design_file.load(design)
    return written.table(files, _file_of(schema, asked)), asked


def _file_of(schema: Path | None, asked: tm.Design) -> dict[str, Any]:
    """Return the table [file] of a design's schema file; empty without a file."""
    if schema is None:
        return {}
    from trigmech.schema import toml as schema_file

    loaded = schema_file.load(schema)
    if loaded.schema != asked.schema:
        raise InputError(f"{str(schema)!r} is not the design's schema")
    return loaded.file


def _round(asked: tm.Design) -> int:
    return 1 if asked.history is None else asked.history.round + 1


def _sum(paths: list[Path]) -> tm.Part:
    from trigmech.parts.shares import load_part

    whole = load_part(paths[0])
    for path in paths[1:]:
        try:
            whole = whole + load_part(path)
        except InputError as problem:
            raise InputError(f"{str(path)!r}: {problem}") from None
    return whole


def _facts(part: tm.Part, path: Path) -> dict[str, object]:
    return {"file": str(path), "persons": part.n, "measured": len(part.identities), "question": part.question}
