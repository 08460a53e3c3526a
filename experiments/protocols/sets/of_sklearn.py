"""Two small tables that scikit-learn brings, without their categories; bounds are the columns' own, not private."""

from functools import partial

import pandas as pd
from sklearn import datasets

import trigmech as tm
from experiments.protocols.data import TableSet


def numbers(name: str) -> tuple[pd.DataFrame, tm.Schema]:
    """Return the columns with more than two values, and their schema."""
    values = getattr(datasets, f"load_{name}")(as_frame=True).data
    table = values[[column for column in values if values[column].nunique() > 2]]
    return table, tm.Schema([tm.Column(column, float(table[column].min()), float(table[column].max()))
                             for column in table])


SETS = [TableSet(f"sklearn {name}", ("few",), partial(numbers, name)) for name in ("wine", "diabetes")]
