"""Numbers in the sentences of pages, from committed results: held to them, and brought up to date.

A number is followed by a comment with its source, ``0.152<!-- = marginal("adult", "2-way", "trigmech", 0.1): .3g -->``:
an expression of the functions below, and a format as f-strings have it ("word" writes a small number out). A
sentence without a number is held by ``<!-- holds: EXPRESSION -->``, which must be true. A list that a page of results
has, too, is held by ``<!-- as in: net.md -->`` before it.

tests/test_prose.py finds figures of prose without such a mark, and names those that do not follow from results, with
the reason.
"""

import json
import re
import tomllib
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd

import trigmech as tm
from experiments import comparison, coverage, tables
from experiments.cells import HERE
from experiments.companions import marginals as companions
from experiments.companions import net, statements
from experiments.frames import geometric, read_csv
from experiments.protocols import pages
from experiments.runs import BEST
from experiments.search import expected
from trigmech._memory import NEEDED
from trigmech.evaluation import resampling

NUMBER = r"[\w.,·−⁰¹²³⁴⁵⁶⁷⁸⁹⁻]*[\w⁰¹²³⁴⁵⁶⁷⁸⁹]"
MARK = re.compile(rf"({NUMBER})(<!-- = (.+?)(?:: ([^\s:\"]+))? -->)")
HOLDS = re.compile(r"<!-- holds: (.+?) -->", re.DOTALL)
AS_IN = re.compile(r"<!-- as in: ([\w.]+) -->\n\n?((?:- .*\n)+)")
WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
TENS = {20: "twenty", 30: "thirty", 40: "forty", 50: "fifty", 60: "sixty"}

# The errors that evaluating an expression may raise if its results are missing or have another form.
FAILURES = (ArithmeticError, AttributeError, LookupError, NameError, OSError, SyntaxError, TypeError, ValueError)


@cache
def lines_of(results: Path, stem: str) -> pd.DataFrame:
    return read_csv(results / f"{stem}.csv")


def chosen(lines: pd.DataFrame, where: dict[str, Any]) -> pd.DataFrame:
    """Return the lines whose columns have these values, or one of those in a list."""
    for name, value in where.items():
        lines = lines[lines[name].isin(value if isinstance(value, list) else [value])]
    return lines


def at(results: Path, stem: str, column: str, **where: Any) -> Any:
    found = chosen(lines_of(results, stem), where)[column].tolist()
    if len(found) != 1:
        raise LookupError(f"{stem}.csv has {len(found)} lines with {where}, not one")
    return found[0]


def column(results: Path, stem: str, name: str, **where: Any) -> list[Any]:
    """Return the entries of a column whose lines have these values; there must be some."""
    found = chosen(lines_of(results, stem), where)[name].tolist()
    if not found:
        raise LookupError(f"{stem}.csv has no lines with {where}")
    return found


def board(results: Path, protocol: str, dataset: str, measure: str, method: str, epsilon: float = 1.0,
          what: str = "mean") -> float:
    """Return a method's number on a scoreboard: its mean in a measure, or its seeds."""
    best = pages.best_of(results, protocol)
    found = chosen(best, {"dataset": dataset, "measure": measure, "method": method, "epsilon": [epsilon, 0.0]})[what]
    if len(found) != 1:
        raise LookupError(f"{protocol} has {len(found)} lines of {method} on {dataset}, {measure}")
    return float(found.iloc[0])


def minutes(results: Path, method: str, *boards: tuple[str, str]) -> "pd.Series[float]":
    """Return the minutes of processor time that a method took for data sets of protocols."""
    return pd.Series([board(results, *of, "cpu_seconds", method) / 60.0 for of in boards])


def slower(results: Path, method: str, *boards: tuple[str, str]) -> "pd.Series[float]":
    """Return how many times as long as the default a method took for data sets of protocols."""
    return minutes(results, method, *boards) / minutes(results, "default", *boards)


def seeds(results: Path, family: str, *boards: tuple[str, str]) -> list[int]:
    """Return how many seeds the methods of a family have whose tables of data sets of protocols are shown."""
    found: list[int] = []
    for protocol, dataset in boards:
        best = chosen(pages.best_of(results, protocol), {"dataset": dataset, "measure": "cpu_seconds", "epsilon": 1.0})
        found += best[best["method"].str.startswith(f"{family}-")]["seeds"].astype(int).tolist()
    return found


def below_the_thesis(results: Path, setting: str, mechanism: str) -> float:
    """Return how many times smaller than printed errors of W1 are, in the geometric mean over the cells."""
    return comparison.ratio_to_thesis(setting, mechanism, comparison.rows_of(lines_of(results, "w1")))


def against_ours(results: Path, setting: str = "B", workloads: tuple[str, ...] = ("w1", "w2", "w3"),
                 datasets: tuple[str, ...] = ()) -> list[float]:
    """Return the default's worst errors in units of MomentMechanism's, in all cells of workloads.

    By default they are those of all data sets.
    """
    found = []
    for workload in workloads:
        where = {"setting": setting, "what": "absolute"} | ({"dataset": [*datasets]} if datasets else {})
        mean = chosen(lines_of(results, workload), where).set_index(
            ["method", "dataset", "sigma"])["mean"].astype(float)
        found += (mean[comparison.DEFAULT] / mean[BEST]).tolist()
    return found


def nearness(results: Path, table: str, variant: str = "published", factor: bool = True,
             dataset: str | None = None) -> float:
    """Return the geometric mean of ours / thesis, or by which factor ours are off, over a table's cells."""
    values, printed = tables.values_of(lines_of(results, table)), expected(table)
    names = dict.fromkeys(name for name, *_ in values if dataset in (None, name) and (name, "seconds", None) in printed)
    ratios = [ratio for name in names for ratio in tables.ratios(table, values, name, variant)]
    return geometric([max(ratio, 1.0 / ratio) if factor else ratio for ratio in ratios])


def pointwise(results: Path, figure: str, sigma: str, factor: bool = False) -> float:
    """Return the geometric mean of ours / thesis, or by which factor ours are off, over the points of a figure."""
    points = chosen(lines_of(results, figure), {"variant": "published", "sigma": sigma})
    ratios = points["worst_absolute_error"] / points["thesis"]
    return geometric(ratios.clip(lower=1.0 / ratios) if factor else ratios)


def said(results: Path, name: str, pattern: str) -> float:
    """Return the number that a page of results says, where the pattern's group stands."""
    found = re.findall(pattern, (results / name).read_text(encoding="utf-8"))
    if len(found) != 1:
        raise LookupError(f"{name} has {len(found)} places like {pattern!r}, not one")
    return float(found[0].replace(",", ""))


def marginal(results: Path, dataset: str, measure: str, method: str, epsilon: float) -> float:
    """Return the mean of a companion's runs; a method that spends no budget has one mean for all epsilons."""
    where = {} if method in (companions.INDEPENDENT, companions.NO_PRIVACY) else {"epsilon": epsilon}
    return float(at(results, "marginals", "mean", dataset=dataset, measure=measure, method=method, **where))


def rest(results: Path, dataset: str, measure: str, epsilon: float) -> float:
    """Return the least mean of the rivals that are private as claimed, without methods that use no budget."""
    lines = chosen(lines_of(results, "marginals"), {"dataset": dataset, "measure": measure, "epsilon": epsilon})
    rivals = lines[(lines["method"] != companions.OURS) & lines["private_as_claimed"]]
    return float(rivals["mean"].astype(float).min())


def beyond_the_bound(results: Path) -> list[float]:
    """Return how many times the best net's error proposition 1.20's bound is, of one column."""
    lines = chosen(lines_of(results, "net"), {"d": 1})
    best = lines[lines["method"].str.startswith("net ")].groupby(["n", "sigma"])["error"].min()
    return [net.theorem_bound(n, net.QUERIES, net.NETS[1][0], 1.0) / error for (n, _), error in best.items()]


def bars(results: Path, kind: str | None = None, what: str = "within") -> Any:
    """Return of the error bars of real tables the share within, or the width, of one kind of statistics or of all."""
    means = coverage.averages(lines_of(results, "coverage_tables"), coverage.REAL)[what]
    return float(means[kind]) if kind else means.drop("pearson").tolist() if what == "within" else means.tolist()


def benchmark(results: Path, subject: str, case: str, alternative: str, key: str) -> float:
    path = results.parent.parent / "benchmarks" / "results" / f"{subject}.json"
    found = [each[key] for each in json.loads(path.read_text(encoding="utf-8"))["subjects"][subject]
             if (each["case"], each["alternative"]) == (case, alternative)]
    if len(found) != 1:
        raise LookupError(f"{path.name} has {len(found)} lines of {case}, {alternative}")
    return float(found[0])


def size(results: Path, name: str, what: str = "rows") -> int:
    """Return how many rows, or columns, a data set has; test_prose.py counts them where the sets are at hand."""
    return int(at(HERE / "expected", "sizes", what, dataset=name))


def hundreds_of_faults(results: Path) -> int:
    """Return how many faults are planted, in whole hundreds, so that a new fault seldom changes the page."""
    with (HERE.parent / "tests" / "planted_faults" / "faults.toml").open("rb") as file:
        return len(tomllib.load(file)["fault"]) // 100 * 100


OF_RESULTS: tuple[Callable[..., Any], ...] = (
    at, column, board, minutes, slower, seeds, below_the_thesis, against_ours, nearness, pointwise, said,
    marginal, rest, size, beyond_the_bound, bars, benchmark, hundreds_of_faults)


@cache
def value(expression: str, results: Path) -> Any:
    known = {function.__name__: partial(function, results) for function in OF_RESULTS}
    names = {**known, "min": min, "max": max, "len": len, "set": set, "abs": abs, "int": int, "all": all,
             "filter_loss": statements.filter_loss, "NEEDED": NEEDED, "resampling": resampling,
             "version": ".".join(tm.__version__.split(".")[:2])}
    # The expressions are the project's own pages'.
    return eval(expression.strip(), {"__builtins__": {}, **names})


def text_of(number: Any, form: str | None, old: str) -> str:
    if form == "word":
        word = TENS.get(int(number)) or WORDS[int(number)]
        return word.capitalize() if old[:1].isupper() else word
    return str(number) if form is None else format(number, form).replace("-", "−")


def filled(text: str, results: Path) -> str:
    """Return a page with its numbers, and its lists, as the results have them; those that fail stay as they are."""
    text = MARK.sub(lambda found: (_now(found, results) or found[1]) + found[2], text)
    return AS_IN.sub(partial(_listed, results), text)


def _now(found: re.Match[str], results: Path) -> str | None:
    """Return the text of a marked number by the results; None if that fails."""
    with suppress(*FAILURES):
        return text_of(value(found[3], results), found[4], found[1])
    return None


def _holds(expression: str, results: Path) -> bool:
    with suppress(*FAILURES):
        return bool(value(expression, results))
    return False


def _listed(results: Path, found: re.Match[str]) -> str:
    """Return a list whose lines are those of a page of results that begin as they do."""
    there = [line for line in (results / found[1]).read_text(encoding="utf-8").splitlines() if line.startswith("- ")]
    lines = []
    for line in found[2].splitlines():
        own = [other for other in there if beginning(other) == beginning(line)]
        lines.append(own[0] if len(own) == 1 else f"- {found[1]} has no such line: {line[2:]}")
    return found[0].removesuffix(found[2]) + "\n".join(lines) + "\n"


def beginning(line: str) -> str:
    """Return the beginning of a line of a list, up to its first colon or comma."""
    return re.split(r"[:,]", line)[0]


def broken(text: str, results: Path) -> list[str]:
    """Return the statements of a page that the results do not bear out."""
    found = [f"{mark[1]} cannot be found again: {mark[3]}" for mark in MARK.finditer(text)
             if _now(mark, results) is None]
    expressions = [" ".join(expression.split()) for expression in HOLDS.findall(text)]
    return found + [f"does not hold: {expression}" for expression in expressions if not _holds(expression, results)]


def pages_of(top: Path = HERE.parent) -> list[Path]:
    """Return the pages whose sentences are held: README, SECURITY, the paper, the experiments', the documentation."""
    return [top / "README.md", top / "SECURITY.md", top / "paper" / "paper.md", top / "experiments" / "README.md",
            *sorted((top / "docs").glob("*.md"))]
