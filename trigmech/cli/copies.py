"""Imputed tables as files for others, with a page on how to combine them."""

from __future__ import annotations

import os
import tempfile
from keyword import iskeyword
from pathlib import Path
from typing import TYPE_CHECKING

import trigmech as tm
from trigmech._files import hidden, writing
from trigmech.cli.options import tell
from trigmech.cli.progress import progress_bar
from trigmech.errors import InputError
from trigmech.schema.schema import counted
from trigmech.tables.reader import write_table

if TYPE_CHECKING:
    from numpy.random import Generator

NOT_VALID = ("standard errors that are computed on one synthetic table are not valid, because they leave out the noise "
             "of the release; use `trigmech ask`, `trigmech fit` or `trigmech sample --imputations 20`")
# R's words that are no names; those that Python has too are left out.
WORDS_OF_R = {"repeat", "function", "next", "NULL", "NA", "NaN", "Inf", "TRUE", "FALSE"}
PAGE = """# {m} imputed tables

These {m} tables are made from one differentially private release. Each table agrees with the release, so the private
table of {n:,} {counted} could be like it. No row belongs to a person, and nobody needs a permission to read the tables.

**Standard errors that are computed on one of the tables alone are not valid.** They leave out the noise of the release.
Compute the statistic on every table, and combine the {m} results.

- The estimate is the mean of the {m} estimates.
- Its variance is (1 + 1/{m}) times the variance between the estimates, plus the mean of the {m} squared standard
  errors, each times {factor} (Rubin's rules, 1987). Leave the second part out if your question is about the private
  table itself and not about a population.
- If all {m} estimates are the same, for example because no table has a row of a rare group, they do not show how far
  the true value may be from them. Do not report a variance of 0.
- Each table has {rows:,} rows{scaled}

{factor} is {rows:,} / {n:,}: a table has {rows:,} rows, and the private table has {n:,} {counted}. Packages that
combine imputed tables do the rest; give them the squared standard errors times {factor}.

## R, with mitools

```r
library(mitools)
files <- sort(list.files(".", "^imputation_.*[.]csv$"))
fits <- lapply(files, function(file) lm({formula}, data = read.csv(file)))
summary(MIcombine(lapply(fits, coef), lapply(fits, function(fit) {factor} * vcov(fit))))
```

## R, with mice

```r
library(mice)
estimate <- sapply(fits, function(fit) coef(fit)[2])
variance <- sapply(fits, function(fit) {factor} * vcov(fit)[2, 2])
pool.scalar(estimate, variance, n = {n})
```

## Python, with statsmodels

```python
from pathlib import Path
import numpy as np, pandas as pd, statsmodels.formula.api as smf

files = sorted(Path(".").glob("imputation_*.csv"))
fits = [smf.ols("{formula}", pd.read_csv(file)).fit() for file in files]
estimates = np.array([fit.params for fit in fits])
variances = {factor} * np.array([fit.bse**2 for fit in fits])
estimate = estimates.mean(axis=0)
deviation = np.sqrt((1 + 1 / len(fits)) * estimates.var(axis=0, ddof=1) + variances.mean(axis=0))
```

`trigmech.combine(estimates, variances)` does the same, and returns intervals. If you have the release itself, use
`trigmech fit` or `trigmech ask`: their intervals also include relations that the release did not measure.
"""


def check_folder(folder: Path) -> None:
    """Raise an InputError if a folder cannot be made, or holds something."""
    with writing(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{str(folder)!r} exists and is not an empty folder; name another one for the imputations")
    if not folder.absolute().parent.is_dir():
        raise InputError(f"cannot write {str(folder)!r}: there is no folder {str(folder.parent)!r}; make it first")


def write_copies(saved: Path, folder: Path, m: int, rng: Generator | None, as_json: bool) -> None:
    """Write m imputed tables of a release, and the page, to a folder that appears when all of it is there."""
    check_folder(folder)
    made = tm.load(saved)
    with progress_bar(quiet=as_json) as progress:
        held = made.imputations(m, population=False, rng=rng, progress=progress)
        _write(held, folder)
    tell({"release": str(saved), "folder": str(folder), "imputations": m, "rows": held.rows, "n": held.n,
          "simulated": made.ledger.simulated},
         f"written: {m} imputed tables of {held.rows:,} rows, and README.md, which says how to combine them, in "
         f"{folder}", as_json)


def _write(held: tm.Imputations, folder: Path) -> None:
    m, names, width = len(held), held.schema.table_names, max(2, len(str(len(held))))
    with tempfile.TemporaryDirectory(prefix=hidden(folder.name), dir=folder.absolute().parent) as beside:
        whole = Path(beside) / "whole"
        whole.mkdir()
        for i in range(m):
            write_table(whole / f"imputation_{i + 1:0{width}}.csv", iter([held.columns(i)]))
        (whole / "README.md").write_text(page_of(held, names), encoding="utf-8")
        if folder.exists():
            folder.rmdir()
        os.replace(whole, folder)


def page_of(held: tm.Imputations, names: tuple[str, ...]) -> str:
    plain = [column.name for column in held.schema.columns if column.categories is None and column.unit is None
             and column.name.isidentifier() and not iskeyword(column.name) and column.name not in WORDS_OF_R]
    formula = " ~ ".join((*plain, "1")[:2]) if plain else f"{names[0]} ~ 1"
    scaled = "." if held.rows == held.n else (
        f", so counts and sums must be multiplied by {held.n / held.rows:.6g} to be those of the private table.")
    return PAGE.format(m=len(held), n=held.n, rows=held.rows, counted=counted(held.schema), scaled=scaled,
                       formula=formula, factor=f"{held.rows / held.n:.6g}")
