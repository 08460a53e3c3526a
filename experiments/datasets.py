"""The data sets of the thesis's table, and Adult: where each comes from and which columns are used.

Files are looked for below the directory that the environment variable TRIGMECH_DATA names, and otherwise
downloaded from the UCI Machine Learning Repository into the user's cache. Either way the sha256 must match.

The thesis kept the continuous attributes and removed missing values and constant columns, but does not list
them. The recipes here reach its sizes but for CSN's rows and PAM; notes say where another choice would too.
"""

import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pooch
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from experiments.cells import described

VARIABLE, SITE = "TRIGMECH_DATA", "https://archive.ics.uci.edu"
_UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}
# The errors that the standard library raises on a broken, encrypted or unknown archive.
_BROKEN = (OSError, EOFError, RuntimeError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class DatasetMissing(Exception):  # noqa: N818 - the name says what is wrong
    """A data set cannot be had; the message says where it was looked for and what to do."""


class DatasetCorrupt(DatasetMissing):
    """A file was found, but it is not the known one."""


class File(NamedTuple):
    """A raw file: its path below TRIGMECH_DATA's directory; in an archive only the base name counts."""

    path: str
    sha256: str  # of the content; the file itself may be packed, as path + ".xz"


class Dataset(NamedTuple):
    """The description of a data set, known before it is loaded: the thesis's name, UCI's title, archive and page.

    `files` are the raw files that the recipe reads, in its order (no file for WDBC, which scikit-learn brings). The
    recipe makes a table of numbers of their contents; None if it is not known. The note says which columns and rows are
    used.
    """

    name: str
    title: str
    url: str
    page: str
    files: tuple[File, ...]
    recipe: Callable[..., pd.DataFrame] | None
    note: str


def cube(table: pd.DataFrame) -> NDArray[np.float64]:
    """Return the values (n, d) with each column scaled linearly from its [min, max], which it reaches, to [-1, 1].

    These bounds come from the data, as in the thesis. That is not private, which is why this function lives among the
    experiments and not in the package. Raises ValueError if a column is constant.
    """
    values = table.to_numpy(np.float64)
    lower, upper = values.min(axis=0), values.max(axis=0)
    if (lower == upper).any():
        raise ValueError(f"{(lower == upper).sum()} constant column(s) cannot be scaled")
    return np.ascontiguousarray(2.0 * ((values - lower) / (upper - lower)) - 1.0)


def load(name: str, progress: bool = True) -> pd.DataFrame:
    """Return a data set, by its name in any case, in its original units, all columns float64, downloaded if need be."""
    dataset = DATASETS.get(name.upper())
    if dataset is None:
        raise DatasetMissing(f"no data set is called {name!r}; known are {', '.join(DATASETS)}")
    if dataset.recipe is None:
        raise DatasetMissing(
            f"{dataset.name} ({dataset.title}) cannot be loaded: {dataset.note} No file was looked for, at "
            f"{VARIABLE} or elsewhere. Leave {dataset.name} out, or get the raw files from {dataset.page}, "
            "choose the rows and add a recipe.")
    return dataset.recipe(*raw(dataset.name, progress)).astype(np.float64)


def raw(name: str, progress: bool = True) -> tuple[bytes, ...]:
    """Return the contents of a data set's files, checked, as :func:`load` reads them; raises the same errors."""
    dataset = DATASETS[name.upper()]
    return tuple(_fetch(dataset, file, progress) for file in dataset.files)


def _fetch(dataset: Dataset, file: File, progress: bool) -> bytes:
    """Return a file's content, from the directory if it is there and otherwise out of UCI's archive."""
    directory = os.environ.get(VARIABLE, "")
    for path in (file.path, f"{file.path}.xz") if directory else ():
        place = Path(directory).expanduser() / path
        if place.is_file():
            return _pick(dataset, file, f"{VARIABLE}/{path}", _members(place.name, place.read_bytes()))
    # The archive's own checksum is unknown, hence None; its members' are checked instead. A failed download
    # leaves nothing behind, because pooch renames a file only once it has arrived completely.
    name = f"{dataset.name.lower()}.zip"
    store = pooch.create(pooch.os_cache("trigmech"), "", registry={name: None}, urls={name: dataset.url})
    try:
        archive = Path(store.fetch(name, progressbar=progress))
    except OSError as error:  # the network's errors are among them
        if (response := getattr(error, "response", None)) is not None:
            response.close()  # pooch leaves it open when the server refuses
        where = f"{VARIABLE} has no {file.path}" if directory else f"{VARIABLE}, for {file.path}, is not set"
        raise DatasetMissing(
            f"{dataset.name} ({dataset.title}): {where}, and {dataset.url} could not be downloaded "
            f"({type(error).__name__}: {error}). Allow network access and try again, or get the data from "
            f"{dataset.page} and set {VARIABLE} to a directory that holds {file.path}.") from error
    try:
        return _pick(dataset, file, dataset.url, _members(name, archive.read_bytes()))
    except DatasetCorrupt:
        archive.unlink(missing_ok=True)  # or else the next call would find it and not try again
        raise


def _pick(dataset: Dataset, file: File, place: str, members: Iterator[tuple[str, bytes]]) -> bytes:
    found = "no readable file of that name"
    for name, content in members:
        if name == PurePosixPath(file.path).name:
            found = hashlib.sha256(content).hexdigest()
            if found == file.sha256:
                return content
    raise DatasetCorrupt(
        f"{dataset.name} ({dataset.title}): {place} does not give the known {file.path}; expected sha256 "
        f"{file.sha256}, found {found}. Put the known file at {VARIABLE}/{file.path}, or leave that place "
        f"empty and try the download again; the data's page is {dataset.page}.")


def _members(name: str, content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield base name and content of each file in an archive, and in the archives inside it.

    UCI nests them: the zip of Census-Income holds a tar.gz. An archive that cannot be read counts as a plain
    file, so that debris next to the wanted file does no harm.
    """
    path = PurePosixPath(name)
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for entry in archive.infolist():
                    yield from _members(entry.filename, archive.read(entry))
        elif path.suffix in (".tar", ".tgz"):
            with tarfile.open(fileobj=io.BytesIO(content)) as tape:
                for member in tape:
                    if (reader := tape.extractfile(member)) is not None:  # None is a directory
                        yield from _members(member.name, reader.read())
        elif path.suffix in _UNPACK:
            yield from _members(path.stem, _UNPACK[path.suffix](content))
        else:
            yield path.name, content
    except _BROKEN:
        yield path.name, content


def _read(content: bytes, **options: Any) -> pd.DataFrame:
    # As texts, since readers of numbers differ in the last bit.
    return pd.read_csv(io.BytesIO(content), dtype=str, skipinitialspace=True, **options)


def _communities(data: bytes, names: bytes) -> pd.DataFrame:
    attributes = [line.split()[1] for line in names.decode().splitlines() if line.startswith("@attribute")]
    # The first five columns identify a community; 22 are of a police survey that 1675 of 1994 did not answer.
    table = _read(data, header=None, names=attributes, na_values="?").iloc[:, 5:]
    return table.loc[:, table.isna().mean() < 0.5].dropna()


def _cardiotocography(workbook: bytes) -> pd.DataFrame:
    # A name's first column holds a count, the second that count per second; only records have an entry in the first.
    sheet = pd.read_excel(io.BytesIO(workbook), sheet_name="Data", header=1, engine="calamine")
    table = sheet[sheet.iloc[:, 0].notna()].rename(columns=lambda name: name.replace(".1", ".rate"))
    # DR is always 0. Tendency takes three values only, and the columns after it are classes.
    kept = [name for name in table.columns[:table.columns.get_loc("Tendency")]
            if not name.startswith(("DR", "Unnamed"))]
    return table[kept]


def _select(columns: dict[str, int], *parts: bytes) -> pd.DataFrame:
    # A bar starts the comment on the first line of Adult's test part.
    table = _read(b"\n".join(parts), header=None, comment="|", usecols=list(columns.values()))
    return table.set_axis(list(columns), axis=1)


RECIPES: dict[str, Callable[..., pd.DataFrame]] = {
    "CRM": _communities, "CTG": _cardiotocography, "WDBC": lambda: load_breast_cancer(as_frame=True).data,
    "PKS": lambda data: _read(data).drop(columns=["subject#", "age", "sex"]),
    "CSN": partial(_select, {
        "age": 0, "wage per hour": 5, "capital gains": 16, "capital losses": 17, "dividends from stocks": 18,
        "instance weight": 24, "num persons worked for employer": 30, "weeks worked in year": 39}),
    "ADULT": partial(_select, {"age": 0, "fnlwgt": 2, "education-num": 4, "capital-gain": 10, "capital-loss": 11,
                               "hours-per-week": 12})}


DATASETS = {name: Dataset(name, each["title"], f"{SITE}/static/public/{each['item']}.zip",
                          f"{SITE}/dataset/{each['item']}", tuple(File(**file) for file in each.get("files", ())),
                          RECIPES.get(name), each["note"]) for name, each in described("datasets").items()}
