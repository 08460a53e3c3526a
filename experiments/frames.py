"""The results of cells as tables: lines for each number, summed up with pandas, and pages of Markdown."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments import cells as machinery
from experiments.runs import PAIR_WIDTHS, WIDTHS

# The workloads' widths, as texts; W3 has no widths.
SIGMAS = {"w1": tuple(f"{width:g}" for width in WIDTHS), "w2": tuple(f"{width:g}" for width in PAIR_WIDTHS),
          "w3": ("",)}


def of_measures(head: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each number that a cell gives: "measure" and "value", beside the cell's own."""
    return [{**head, "measure": measure, "value": value} for measure, value in result.items()]


def of_cells(head: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**head, **result}]


def of_workloads(head: dict[str, Any], result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a line for each number of a release's errors: "workload" and "sigma", "" for other facts, and "what"."""
    lines = []
    for what, found in result.items():
        every = found if isinstance(found, dict) else {what: [found]}
        where, sigmas = (what, SIGMAS[what]) if isinstance(found, dict) else ("", ("",))
        lines += [{**head, "workload": where, "what": kind, "sigma": sigma, "value": value}
                  for kind, values in every.items() for sigma, value in zip(sigmas, values, strict=True)]
    return lines


def means(lines: pd.DataFrame, keys: list[str], **more: str) -> pd.DataFrame:
    """Return the mean of "value", or the measures in `more`, over lines with equal keys, in the order of the lines."""
    return lines.groupby(keys, sort=False)["value"].agg(**(more or {"value": "mean"})).reset_index()


def with_errors(lines: pd.DataFrame, keys: list[str], mean: str) -> pd.DataFrame:
    """Return the mean of each "value" by these keys, its standard error, 0 of one, and how many there are."""
    return means(lines, keys, **{mean: "mean"}, standard_error="sem", runs="size").fillna({"standard_error": 0.0})


def read_csv(path: Path) -> pd.DataFrame:
    """Return a published file's lines; empty entries are empty texts where a column has others, and else NaN."""
    return pd.read_csv(path, keep_default_na=False, dtype={"sigma": str}, na_values={
        name: [""] for name in ("mean", "deviation", "least", "most")})


def formatted(lines: pd.DataFrame, **specifications: str) -> pd.DataFrame:
    """Return lines with numbers as texts, by a format for each column that is named."""
    return lines.assign(**{name: lines[name].map(lambda value, how=how: format(value, how), na_action="ignore")
                           for name, how in specifications.items()})


def as_texts(lines: Path | pd.DataFrame) -> pd.DataFrame:
    """Return the lines of a file, or those that one would be made of, as they stand there."""
    text = io.StringIO(lines.to_csv(index=False)) if isinstance(lines, pd.DataFrame) else lines
    return pd.read_csv(text, keep_default_na=False, dtype=str)


def with_new(committed: pd.DataFrame, made: pd.DataFrame, keys: list[str],
             again: Callable[[Any], bool]) -> pd.DataFrame:
    """Return committed lines with new ones in the place of those whose key was run `again`; the others stay.

    Raises ValueError if the new lines do not have exactly the keys that were run again, as where a data set is missing.
    """
    new = dict(iter(made.groupby(keys, sort=False)))
    # At the place of the first of the old lines.
    found, places = [], []
    for key, group in committed.groupby(keys, sort=False):
        rival = not again(key)
        if rival == (key in new):
            raise ValueError(f"the results have {key}, and the new lines {'do' if rival else 'do not'}")
        found.append(group if rival else new.pop(key))
        places.append(group.index if rival else np.repeat(group.index[0], len(found[-1])))
    if new:
        raise ValueError(f"the results do not have {list(new)}, and the new lines do")
    return pd.concat(found, ignore_index=True).iloc[np.argsort(np.concatenate(places), kind="stable")].reset_index(
        drop=True)


def arranged(lines: pd.DataFrame, keys: list[str], like: pd.DataFrame) -> pd.DataFrame:
    """Return lines in the order in which their keys come first in other lines; those of equal keys stay in theirs."""
    every = like[keys].drop_duplicates()
    place = pd.Series(range(len(every)), index=pd.MultiIndex.from_frame(every))
    return lines.iloc[np.argsort(place.loc[pd.MultiIndex.from_frame(lines[keys])].to_numpy(), kind="stable")]


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    return [f"| {' | '.join(head)} |", "|" + " --- |" * len(head),
            *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def across(names: Sequence[str], wide: pd.DataFrame, heads: Mapping[Any, str],
           form: Callable[[Any], str] = str) -> list[str]:
    """Return a table of a page: the index below `names`, and the columns in `heads`, below their titles there.

    Missing values are empty.
    """
    return markdown([*names, *heads.values()], [
        [*(key if isinstance(key, tuple) else (key,)), *("" if pd.isna(value) else form(value) for value in row)]
        for key, row in zip(wide.index, wide.reindex(columns=list(heads)).to_numpy(), strict=True)])


def of_budgets(epsilons: Iterable[float], methods: Iterable[str]) -> dict[tuple[float, str], str]:
    return {(epsilon, method): f"{method}, ε = {epsilon:g}" for epsilon in sorted(epsilons) if epsilon
            for method in methods}


def sections(tables: Mapping[str, list[str]]) -> list[str]:
    return [line for title, table in tables.items() for line in (f"## {title}", "", *table, "")]


def worded(page: str, **parts: Any) -> list[str]:
    """Return a page: the words of experiments/pages/PAGE.md, with the parts that stand in braces there; a list of lines
    stands for its lines."""
    joined = {name: "\n".join(part) if isinstance(part, list) else part for name, part in parts.items()}
    text = (machinery.HERE / "pages" / f"{page}.md").read_text(encoding="utf-8").format(**joined)
    return text.removesuffix("\n").split("\n")


def grid(head: Sequence[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return a table of a page, numbers with three digits; None is empty."""
    return markdown(head, ([f"{x:.3g}" if isinstance(x, float) else "" if x is None else x for x in row]
                           for row in rows))


def shown(value: float) -> str:
    """Return a number with three digits that say something, without an exponent."""
    return np.format_float_positional(value, precision=3, fractional=False, trim="-") if value else "0"


def geometric(values: Any) -> float:
    """Return the geometric mean; NaN of nothing."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else np.nan
