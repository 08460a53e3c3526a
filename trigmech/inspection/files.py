"""PRIVATE. Faults of a table's file and of its names, found before any cell is read."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from trigmech.errors import InputError
from trigmech.inspection.findings import FIRST_LINES, Finding, times
from trigmech.measurement.persons import read_by
from trigmech.schema.schema import Schema
from trigmech.tables.lenient import LenientFile, Lines
from trigmech.tables.writer import SEPARATORS, give


def fault(kind: str, count: int, sentence: str, remedy: str, column: str | None = None,
          lines: Iterable[int] = ()) -> Finding:
    """Return a finding for which a release is refused."""
    return Finding(column, "refused", kind, count, tuple(map(int, lines)), sentence, remedy)


def opened(path: Any, options: Mapping[str, Any], schema: Schema) -> tuple[LenientFile | None, list[Finding]]:
    """Return a file whose names are read, None if they cannot be read; and the faults of the file as a whole.

    If the encoding or the delimiter is wrong and another one suits, the file is read with that one, so that the faults
    of the cells are found too. An InputError is raised if the file cannot be opened, or an option breaks a rule.
    """
    file = LenientFile(path, **options)
    found: list[Finding] = []
    if not _begun(file, found):
        return None, found
    found += _other_delimiter(file, schema)
    try:
        _ = file.n
    except InputError as problem:
        wrong = _other_encoding(file)
        if wrong:
            found += wrong
            found += _fault_of_rows(file) if file.names else []
        else:
            found += _fault_of_rows(file, problem)
    return file if file.names else None, found


def _begun(file: LenientFile, found: list[Finding]) -> bool:
    """Read the names; whether that was possible, at last with another encoding or delimiter."""
    try:
        file.begin()
        return True
    except InputError as problem:
        wrong = _other_encoding(file)
        if wrong:
            found += wrong
            return bool(file.names)
        found.append(fault("file", 1, str(problem), "correct the file, or give the option that the message names"))
    for sign in file.other_separators:
        try:
            # Such as a first line that states the delimiter.
            file.begin(delimiter=sign)
            return True
        except InputError:
            pass
    return False


def _other_encoding(file: LenientFile) -> list[Finding]:
    """Return the finding that the text has another encoding, in which the file is read from then on; if it has one."""
    try:
        line = file.undecodable()
    except InputError:  # Such as a damaged file, which is told elsewhere.
        return []
    if line is None:
        return []
    given = file.encoding
    for encoding in file.other_encodings():
        try:
            file.begin(encoding=encoding)
        except InputError:
            continue
        if file.undecodable() is None:
            return [fault("encoding", 1, f"the text is not in the given encoding, or not in UTF-8; this check reads it "
                          f"as {encoding}", f"check that letters with accents are then right: "
                          f"{give('encoding', encoding)}", lines=(line,))]
    with suppress(InputError):
        file.begin(encoding=given)
    return [fault("encoding", 1, "the text is not in the given encoding, or not in UTF-8", "state its encoding: "
                  f"{give('encoding', 'cp1252')}, or another one", lines=(line,))]


def _other_delimiter(file: LenientFile, schema: Schema) -> list[Finding]:
    """Return the finding that another character separates the cells, by which the file is read from then on; if so."""
    wanted = set(read_by(schema).names)
    if not (file.is_text and file.header) or wanted <= set(file.names):
        return []
    counts = {sign: len(wanted.intersection(file.separated_by(sign))) for sign in file.other_separators}
    best = max(counts, key=lambda sign: counts[sign])
    if counts[best] <= len(wanted.intersection(file.names)):
        return []
    file.begin(delimiter=best)
    return [fault("delimiter", 1, f"{SEPARATORS[best]} separate the cells; this check goes on with them",
                  give("delimiter", best))]


def _fault_of_rows(file: LenientFile, problem: InputError | None = None) -> list[Finding]:
    """Return the rule that the file's rows break, if they break one."""
    if problem is None:
        try:
            _ = file.n
        except InputError as another:
            problem = another
    if problem is None:
        return []
    # A file of one column may have empty lines: they are rows.
    lines: Sequence[int] | Lines = file.find_empty_lines() if len(file.names) > 1 else []
    found = [] if not len(lines) else [
        fault("empty line", len(lines), f"{times(len(lines), 'empty line')} between the rows, which could mean rows in "
              "which all values are missing", "remove them, or write their delimiters", lines=lines[:FIRST_LINES])]
    # Rows with other numbers of cells are found where cells are read.
    if found or "different numbers of cells" in str(problem):
        return found
    return [fault("file", 1, str(problem), "correct the file as the message says")]


def ragged(file: LenientFile) -> list[Finding]:
    """Return the finding about rows with another number of cells, after all parts have been read."""
    count = len(file.ragged.rows)
    if not count:
        return []
    return [fault("cells", count, f"{times(count, 'row')} with another number of cells than the first row "
                  f"({len(file.names)})", "write quotes around cells that contain the delimiter, and look for quotes "
                  "that are not closed; the other findings leave these rows out",
                  lines=file.lines_of_ragged(FIRST_LINES))]


def places_of(file: LenientFile, schema: Schema) -> tuple[dict[str, int], list[Finding]]:
    """Return which column of a file each of the schema's is, the person's too, and faults of the names."""
    wanted = read_by(schema).names
    if not file.header:
        if len(file.names) == len(wanted):
            return dict(zip(wanted, range(len(wanted)), strict=True)), []
        return {}, [fault("columns", len(file.names), f"the file has {times(len(file.names), 'column')} and no header, "
                          f"and the schema has {len(wanted)}", "without a header both must have the same number")]
    counts = Counter(file.names)
    found = [fault("twice", counts[name], f"{counts[name]} columns of the table have this name", "rename or remove all "
                   "but one of them", name) for name in wanted if counts[name] > 1]
    more = sum(count > 1 for name, count in counts.items() if name not in wanted)
    if more:
        found.append(fault("twice", more, f"{times(more, 'name')} that the schema does not have, each of several "
                           "columns", "rename or remove all but one of the columns with the same name"))
    places = {name: file.names.index(name) for name in wanted if name in counts}
    like = {_plain(name): j for j, name in reversed(list(enumerate(file.names))) if name not in wanted}
    for name in wanted:
        if name not in counts:
            near = like.get(_plain(name))
            found.append(absent(name, near is not None, whose=name == schema.person))
            if near is not None:
                places[name] = near
    if not places and file.is_text and len(file.names) == len(wanted):
        found.append(fault("header", 1, "the first row holds no name of the schema", "if it is already a row, write "
                           "header = false below [file] in the schema file"))
    return places, found


def absent(name: str, near: bool = False, whose: bool = False) -> Finding:
    """Return the finding that the table lacks a column."""
    what = "the column that identifies persons" if whose else "this column"
    if near:
        return fault("absent", 1, f"the table lacks {what}; a name differs only in capital letters, spaces or signs, "
                     "and this check uses it instead", "write the same name in the table and in the schema", name)
    return fault("absent", 1, f"the table lacks {what}", "remove it from the schema, or correct its name", name)


def _plain(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign.isalnum())
