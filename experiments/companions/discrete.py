"""The coded tables of the data-publishing papers, and marginals of coded tables."""

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from experiments import Array, datasets
from experiments.protocols.coding import Codes, mixed
from experiments.protocols.data import file, in_package
from trigmech.errors import InputError

# Folder and sha256 of each table.
TABLES = {"nltcs": ("nltcs", "31d23617ba74786d2d163c9c31a841e11e5a5f5f8266918d8021ec4e562684b4"),
          "br2000": ("br2000", "a08ae196bd1facefe86039524c628b3d94bc08d1d1408fc7afc5684f03044104"),
          "adult": ("adult-discrete", "b150d694898d13d8c8ff916d481ca4e8a985ab5e03b7cfbc33ac5aa3802a9419"),
          "acs": ("acs", "89e337a3431f9b3f76d84142cb048495fec93ff10018b1f38b25a19491582cc8"),
          "tic": ("ISLP", "e89d49b6fb8fe02d76bb5bb80d8e0dab473bf9f6a72515e30c259f6d7da42269")}
# TIC's sizes, by its dictionary; these columns count from 1.
TIC_DOMAIN, FROM_ONE = (41, 10, 6, 6, 10, *[10] * 37, 8, *[10] * 21, *[13] * 21, 2), [0, 1, 2, 3, 4, 42]
# The most cells that a clique may have.
LARGEST_TABLE = 10**6


def load(name: str) -> tuple[Codes, tuple[int, ...]]:
    """Return a table (n, d) of codes, each column in one piece, and the sizes of its domains."""
    folder, known = TABLES[name]
    path = in_package(folder, "data/Caravan.csv") if name == "tic" else file(f"{folder}/{name}.csv")
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != known:
        raise datasets.DatasetCorrupt(f"{folder}/{path.name} is not the known file: expected sha256 {known}, found "
                                      f"{found}; put the known file there")
    text, domain = content.decode().replace("No", "0").replace("Yes", "1"), TIC_DOMAIN
    table = np.loadtxt(text.splitlines()[1:], delimiter=",", dtype=np.int64, ndmin=2)
    if name == "tic":
        table[:, FROM_ONE] -= 1
    else:
        described = json.loads(file(f"{folder}/{name}.json").read_text(encoding="utf-8"))
        domain = tuple(int(described[str(j)]["domain"]) for j in range(table.shape[1]))
    return np.asfortranarray(check_table(table, domain)), domain


def check_table(table: Any, domain: Sequence[int]) -> Codes:
    """Return a table as integers; InputError if it has no rows or one column, or a code is not in its domain."""
    codes = np.asarray(table)
    if codes.ndim != 2 or codes.shape[1] != len(domain) or codes.shape[1] < 2 or not len(codes):
        raise InputError(f"a coded table needs rows and at least two columns, one for each of {len(domain)} domains; "
                         f"its shape is {codes.shape}")
    for j, size in enumerate(domain):
        if not np.isin(codes[:, j], np.arange(size)).all():
            raise InputError(f"column {j} has a code that is missing or not one of 0 to {size - 1}")
    return codes.astype(np.int64)


def cells(domain: Sequence[int], columns: Sequence[int]) -> int:
    return math.prod(domain[j] for j in columns)


def marginal(table: Codes, domain: Sequence[int], columns: Sequence[int], weights: Any = None) -> Array:
    counts = np.bincount(mixed(table, domain, columns), weights, minlength=cells(domain, columns))
    return counts.astype(np.float64).reshape([domain[j] for j in columns])
