"""The data sets of the field's protocols as pandas tables, with schemas that read nothing off the rows.

Files lie below the directory that TRIGMECH_DATA names. `nist_*`: the American Community Survey excerpt national2019 of
the NIST Collaborative Research Cycle, bounds and categories from its data dictionary. `adult`: its documentation.
`nltcs`, `aim_*`: discrete tables of the authors of AIM, domains from their JSON. `synmeter_*`: sets of SynMeter with
its splits and its JSON, whose bounds are the data's own and are given to all methods alike. `thesis_*`: numbers of the
thesis's tables, within their own bounds, as there.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import trigmech as tm
from experiments import adult, datasets

NIST = {
    "nist_demographic": "AGEP SEX MSP RAC1P HOUSING_TYPE OWN_RENT EDU PINCP_DECILE DVET DEYE",
    "nist_family": "PUMA AGEP SEX MSP NOC NPF HOUSING_TYPE OWN_RENT EDU PINCP_DECILE POVPIP",
    "nist_all": "PUMA AGEP SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE OWN_RENT DENSITY INDP_CAT EDU PINCP PINCP_DECILE "
                "POVPIP DVET DREM DPHY DEYE DEAR PWGTP WGTP",
}
AIM = ("nltcs", "aim_adult", "aim_salary", "aim_titanic")
SYNMETER = ("adult", "bean", "insurance", "magic", "obesity", "wine")
THESIS = ("thesis_csn", "thesis_pks")
PROTOCOLS = (*NIST, "adult", *AIM, *(f"synmeter_{name}" for name in SYNMETER))
NAMES = (*PROTOCOLS, *THESIS)

# Codes that the dictionary sets apart from a column's range, and the only column of numbers with fractions.
NIST_SPECIAL = {"POVPIP": (501,), "WGTP": (0,), "NOC": (0,)}
NIST_CONTINUOUS = ("DENSITY",)
NOT_APPLICABLE = "N"
# Of other excerpts of the same dictionary: those of Massachusetts and of Texas.
OTHER_STATES = ("25-", "48-")

ADULT_BOUNDS = {"age": (17, 90), "fnlwgt": (0, 1_500_000), "education-num": (1, 16), "capital-gain": (0, 99_999),
                "capital-loss": (0, 4_356), "hours-per-week": (1, 99)}
ADULT_TRAIN, ADULT_SEED = 0.8, 2026


def load(name: str) -> tuple[pd.DataFrame, tm.Schema]:
    """Return the rows that are given to a synthesizer, and their public description.

    Categories are text, or integer codes for the tables of AIM; missing numbers are NaN.

    Raises
    ------
    DatasetMissing
        If the name is unknown or a file is not there.
    """
    if name in NIST:
        schema = nist_schema(NIST[name].split())
        return nist_rows(file("nist/national2019.csv.xz"), schema), schema
    if name == "adult":
        return _adult_parts()[0], _adult_schema()
    if name in AIM:
        folder = f"aim/{name.removeprefix('aim_')}"
        domain = json.loads(file(f"{folder}/domain.json").read_text(encoding="utf-8"))
        table = pd.read_csv(file(f"{folder}/{folder.split('/')[1]}.csv.xz"))
        return table, tm.Schema(tm.Column(column, 0, 1, "binary") if domain[column] == 2
                                else tm.Column(column, kind="categorical", categories=tuple(range(domain[column])))
                                for column in table.columns)
    if name in THESIS:
        table = datasets.load(name.removeprefix("thesis_"))
        return pd.DataFrame(table.values, columns=list(table.columns)), tm.Schema(
            tm.Column(column, float(values.min()), float(values.max()))
            for column, values in zip(table.columns, table.values.T, strict=True))
    if name in NAMES:
        return pd.concat([_synmeter(name, "train"), _synmeter(name, "val")], ignore_index=True), _synmeter_schema(name)
    raise datasets.DatasetMissing(f"no data set is called {name!r}; known are {', '.join(NAMES)}")


def test_rows(name: str) -> pd.DataFrame | None:
    """Return real rows that the synthesizer has not seen, or None if the protocol has none."""
    if name == "adult":
        return _adult_parts()[1]
    return _synmeter(name, "test") if name.startswith("synmeter_") else None


def nist_schema(names: list[str]) -> tm.Schema:
    """Return the schema of columns of national2019: all from its data dictionary."""
    dictionary = json.loads(file("nist/data_dictionary.json").read_text(encoding="utf-8"))
    return tm.Schema(_nist_column(name, dictionary[name]["values"]) for name in names)


def _nist_column(name: str, values: dict[str, Any]) -> tm.Column:
    if "min" not in values:
        return tm.Column(name, kind="categorical",
                         categories=tuple(code for code in values if not code.startswith(OTHER_STATES)))
    return tm.Column(name, values["min"], values["max"], "continuous" if name in NIST_CONTINUOUS else "integer",
                     missing="keep" if NOT_APPLICABLE in values else "refuse", special=NIST_SPECIAL.get(name, ()))


def nist_rows(path: Path, schema: tm.Schema) -> pd.DataFrame:
    """Return columns of a table of the cycle, real or published by a rival: "N" is NaN among numbers."""
    text = pd.read_csv(path, dtype=str, keep_default_na=False)
    columns = {}
    for column in schema.columns:
        values = text[column.name]
        if column.categories is None:
            columns[column.name] = pd.to_numeric(values.where(values != NOT_APPLICABLE))
        else:
            columns[column.name] = values.str.removesuffix(".0")  # some rivals wrote whole numbers as floats
    return pd.DataFrame(columns)


def _adult_schema() -> tm.Schema:
    def column(name: str) -> tm.Column:
        if name in ADULT_BOUNDS:
            return tm.Column(name, *ADULT_BOUNDS[name], "integer")
        unknown = ("?",) if name in adult.KEPT_MISSING else ()
        return tm.Column(name, kind="categorical", categories=(*adult.CATEGORIES[name].split(", "), *unknown))

    return tm.Schema(map(column, adult.ORDER))


def _adult_parts() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return four fifths of all rows of Adult, which are released, and the others, by a fixed seed."""
    whole = adult.whole().to_pandas()
    whole[list(adult.KEPT_MISSING)] = whole[list(adult.KEPT_MISSING)].fillna("?")
    order = np.random.default_rng(ADULT_SEED).permutation(len(whole))
    train = round(ADULT_TRAIN * len(whole))
    return whole.iloc[order[:train]].reset_index(drop=True), whole.iloc[order[train:]].reset_index(drop=True)


def _synmeter_columns(name: str) -> list[dict[str, Any]]:
    folder = name.removeprefix("synmeter_")
    columns: list[dict[str, Any]] = json.loads(
        file(f"synmeter/{folder}/{folder}.json").read_text(encoding="utf-8"))["columns"]
    return columns


def _synmeter_schema(name: str) -> tm.Schema:
    # Whole numbers are those whose bounds the JSON writes without a decimal point.
    return tm.Schema(tm.Column(each["name"], kind="categorical", categories=tuple(each["i2s"])) if "i2s" in each else
                     tm.Column(each["name"], each["min"], each["max"],
                               "integer" if isinstance(each["min"], int) and isinstance(each["max"], int)
                               else "continuous")
                     for each in _synmeter_columns(name))


def _synmeter(name: str, part: str) -> pd.DataFrame:
    text = {each["name"]: str for each in _synmeter_columns(name) if "i2s" in each}
    return pd.read_csv(file(f"synmeter/{name.removeprefix('synmeter_')}/{part}.csv.xz"), dtype=text,
                       keep_default_na=False)


def file(path: str) -> Path:
    """Return a file below the directory that TRIGMECH_DATA names."""
    place = Path(os.environ.get(datasets.VARIABLE, "")).expanduser() / path
    if not place.is_file():
        raise datasets.DatasetMissing(f"{datasets.VARIABLE} names no directory that holds {path}")
    return place
