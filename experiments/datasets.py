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
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np
import pooch
import xlrd
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

Matrix = NDArray[np.float64]
Columns = tuple[tuple[str, ...], Matrix]  # their names, and the values

VARIABLE = "TRIGMECH_DATA"
_UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress}
# What the standard library raises on a broken, encrypted or unknown archive.
_BROKEN = (OSError, EOFError, RuntimeError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class DatasetMissing(Exception):  # noqa: N818 - the name says what is wrong
    """A data set cannot be had; the message says where it was looked for and what to do."""


class DatasetCorrupt(DatasetMissing):
    """A file was found, but it is not the known one."""


class File(NamedTuple):
    """A raw file: its path below TRIGMECH_DATA's directory; in an archive only the base name counts."""

    path: str
    sha256: str  # of the content; the file itself may be packed, as path + ".xz"


@dataclass(frozen=True)
class Dataset:
    """What is known about a data set before it is loaded.

    Parameters
    ----------
    name, title : str
        The thesis's abbreviation and UCI's title.
    shape_in_thesis : tuple of int or None
        Rows and columns in the thesis's table; None if it is not there.
    url, page : str
        UCI's archive for download, and UCI's page.
    files : tuple of File
        The raw files that the recipe reads, in its order; none for WDBC, which scikit-learn brings.
    note : str
        Which columns and rows are used, and how sure that is.
    """

    name: str
    title: str
    shape_in_thesis: tuple[int, int] | None
    url: str
    page: str
    files: tuple[File, ...]
    note: str


@dataclass(frozen=True, eq=False)
class Table:
    """A loaded data set in its original units.

    Parameters
    ----------
    name : str
    columns : tuple of str, distinct
    values : ndarray (n, d) of float64, C-contiguous
    """

    name: str
    columns: tuple[str, ...]
    values: Matrix

    def cube(self) -> Matrix:
        """Return the values with each column scaled linearly from its [min, max] to [-1, 1].

        These bounds come from the data, as in the thesis. That is not private, which is why this function
        lives among the experiments and not in the package.

        Returns
        -------
        ndarray (n, d)
            Every column reaches both -1 and 1 exactly.

        Raises
        ------
        ValueError
            If a column is constant.
        """
        lower, upper = self.values.min(axis=0), self.values.max(axis=0)
        if (lower == upper).any():
            raise ValueError(f"{self.name}: {(lower == upper).sum()} constant column(s) cannot be scaled")
        return np.asarray(2.0 * ((self.values - lower) / (upper - lower)) - 1.0)


def load(name: str, progress: bool = True) -> Table:
    """Load a data set, downloading it if need be.

    Parameters
    ----------
    name : str
        A key of :data:`DATASETS`, in any case.
    progress : bool
        Whether to show a bar while downloading.

    Returns
    -------
    Table

    Raises
    ------
    DatasetMissing
        If the name is unknown, a file is neither found nor downloaded, or no recipe is known (PAM).
    DatasetCorrupt
        If a file is found or downloaded but its sha256 is not the known one.
    """
    dataset = DATASETS.get(name.upper())
    if dataset is None:
        raise DatasetMissing(f"no data set is called {name!r}; known are {', '.join(DATASETS)}")
    if dataset.name not in _RECIPES:
        raise DatasetMissing(
            f"{dataset.name} ({dataset.title}) cannot be loaded: {dataset.note} No file was looked for, at "
            f"{VARIABLE} or elsewhere. Leave {dataset.name} out, or get the raw files from {dataset.page}, "
            "choose the rows and add a recipe.")
    columns, values = _RECIPES[dataset.name](*raw(dataset.name, progress))
    return Table(dataset.name, columns, np.ascontiguousarray(values, dtype=np.float64))


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
    """Return the content of the member with the file's name and checksum."""
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


def _communities(data: bytes, names: bytes) -> Columns:
    attributes = [line.split()[1] for line in names.decode().splitlines() if line.startswith("@attribute")]
    values = np.genfromtxt(data.decode().splitlines(), np.float64, delimiter=",")  # text and "?" become NaN
    # The first five columns identify a community; 22 are of a police survey that 1675 of 1994 did not answer.
    kept = [j for j in range(5, len(attributes)) if np.isnan(values[:, j]).mean() < 0.5]
    values = values[:, kept]
    return tuple(attributes[j] for j in kept), values[~np.isnan(values).any(axis=1)]


def _census(test: bytes) -> Columns:
    return _select({"age": 0, "wage per hour": 5, "capital gains": 16, "capital losses": 17,
                    "dividends from stocks": 18, "instance weight": 24, "num persons worked for employer": 30,
                    "weeks worked in year": 39}, test)


def _cardiotocography(workbook: bytes) -> Columns:
    sheet = xlrd.open_workbook(file_contents=workbook).sheet_by_name("Data")
    header = sheet.row_values(1)
    columns: dict[str, int] = {}
    # DR is always 0. Tendency takes three values only, and what follows it are classes.
    for position, name in enumerate(header[:header.index("Tendency")]):
        if name not in ("", "DR"):  # a name's first column holds a count, the second that count per second
            columns[f"{name}.rate" if name in columns else name] = position
    # The last rows are blank or hold totals; only records have the first column.
    records = [sheet.row_values(i) for i in range(2, sheet.nrows) if sheet.cell_value(i, 0) != ""]
    return tuple(columns), np.array([[record[j] for j in columns.values()] for record in records])


def _parkinsons(data: bytes) -> Columns:
    header, records = data.split(b"\n", 1)
    names = enumerate(header.decode().strip().split(","))
    return _select({name: j for j, name in names if name not in ("subject#", "age", "sex")}, records)


def _breast_cancer() -> Columns:
    bunch = load_breast_cancer()
    return tuple(map(str, bunch.feature_names)), bunch.data


def _adult(train: bytes, test: bytes) -> Columns:
    return _select({"age": 0, "fnlwgt": 2, "education-num": 4, "capital-gain": 10, "capital-loss": 11,
                    "hours-per-week": 12}, train, test)


def _select(columns: dict[str, int], *parts: bytes) -> Columns:
    rows, places = b"\n".join(parts).splitlines(), tuple(columns.values())
    # A bar starts the comment on the first line of Adult's test part.
    return tuple(columns), np.loadtxt(rows, delimiter=",", comments="|", usecols=places, ndmin=2)


_RECIPES: dict[str, Callable[..., Columns]] = {"CRM": _communities, "CSN": _census, "CTG": _cardiotocography,
                                               "PKS": _parkinsons, "WDBC": _breast_cancer, "ADULT": _adult}


def _uci(name: str, title: str, shape: tuple[int, int] | None, item: str, note: str, *files: File) -> Dataset:
    site = "https://archive.ics.uci.edu"
    archive, page = f"{site}/static/public/{item}.zip", f"{site}/dataset/{item}"
    return Dataset(name, title, shape, archive, page, files, note)


DATASETS: dict[str, Dataset] = {dataset.name: dataset for dataset in (
    _uci("CRM", "Communities and Crime", (1993, 101), "183/communities+and+crime",
         "Without 5 identifying columns, 22 mostly missing ones, and the one row that then lacks a value.",
         File("crm/communities.data", "09e0b5c07eae24c1efab19b2edee05e160e7f5743b6f31e31eec3d73624da2ea"),
         File("crm/communities.names", "80914f24ab37261fb0fbda7e417cad8001335dadda4a8d702c265601ef8434fc")),
    _uci("CSN", "Census-Income (KDD)", (100000, 8), "117/census+income+kdd",
         "The 8 continuous columns of the test part's 99762 rows; which rows the thesis took is not known.",
         File("csn/census-income.test", "98402b1ab879573d0a7f38a699a40258080e25e33d3401e7bf9c96d3fa0fab8c")),
    _uci("CTG", "Cardiotocography", (2126, 28), "193/cardiotocography",
         "The 30 measurements without DR (constant) and Tendency (three values), or instead the count DS.",
         File("ctg/CTG.xls", "d6aa62e82625e59f9d5b05bc8fc52af9ea67bdf2a23f1faca8511d5618fcb421")),
    _uci("PAM", "PAMAP2 Physical Activity Monitoring", (19870, 28), "231/pamap2+physical+activity+monitoring",
         "Which 19870 rows of the raw .dat files the thesis selected is not known."),
    _uci("PKS", "Parkinsons Telemonitoring", (5875, 19), "189/parkinsons+telemonitoring",
         "Without subject#, age (or instead test_time) and sex.",
         File("pks/parkinsons_updrs.data",
              "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39")),
    _uci("WDBC", "Breast Cancer Wisconsin (Diagnostic)", (569, 30), "17/breast+cancer+wisconsin+diagnostic",
         "As scikit-learn brings it: all columns but the identifier and the diagnosis."),
    _uci("ADULT", "Adult", None, "2/adult", "The 6 continuous columns; the train part, then the test part.",
         File("adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
         File("adult/adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05")),
)}
