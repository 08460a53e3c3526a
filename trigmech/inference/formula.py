"""Formulas of regressions, such as ``wt82_71 ~ qsmk + age``: their grammar, and their columns. Public.

A formula has the grammar of R, statsmodels and formulaic: terms joined by ``+``, ``-``, ``*``, ``:``, ``/`` and
``**``; names of columns, in backticks if they are no plain words; ``C(name)`` for a column as categories; ``log``,
``log10``, ``log2``, ``log1p``, ``sqrt``, ``exp``, ``abs`` and ``I(...)`` of columns and numbers. Formula libraries
evaluate the text of a formula as Python. So it is parsed first, every part is compared with this list, and the
libraries get a formula that is written anew.
"""

import ast
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from trigmech.errors import InputError
from trigmech.inference.quoting import with_hint

LONGEST, DEEPEST, MOST_POWER, MOST_NUMBER = 1_000, 40, 3, 1e15
FUNCTIONS = ("log", "log10", "log2", "log1p", "sqrt", "exp", "abs")
QUOTED = re.compile(r"`([^`]*)`")
# A name that no formula has, for each column.
SAFE = "column_{}_"
# Numbers are written with a point, which labels of whole numbers do not need.
WHOLE = re.compile(r"\b(\d+)\.0\b")
LABEL = re.compile(r"column_(\d+)_")
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.MatMult: ":"}
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


@dataclass(frozen=True)
class Formula:
    """A formula that may be evaluated.

    Parameters
    ----------
    left, right : str
        Both sides, with safe names of the columns.
    columns : dict of str to str
        The column of each safe name.
    response : str or None
        The column on the left side, if the left side is a plain name.
    """

    left: str
    right: str
    columns: dict[str, str]
    response: str | None

    def label(self, text: str) -> str:
        """Return a label with the columns' own names."""
        return LABEL.sub(lambda found: self.columns.get(found.group(), found.group()), WHOLE.sub(r"\1", text))


def parsed_formula(text: object, names: Sequence[str]) -> Formula:
    """Return a formula of columns, or raise an InputError that names the part that is not allowed."""
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST or not text.isprintable():
        raise InputError(f"a formula must be a text of 1 to {LONGEST:,} printable letters, such as 'income ~ age'")
    if text.count("~") != 1:
        raise InputError(f"a formula must have one '~' between the response and the terms, not {text.count('~')}")
    reader = _Reader(names)
    try:
        left, right = text.split("~")
        left, explained = reader.side(left), bool(reader.used)
        right = reader.side(right)
    except InputError as problem:
        raise InputError(with_hint(problem, text, names, "`", _is_plain)) from None
    response = reader.used.get(left)
    if not explained:
        raise InputError("the left side of a formula must have a column")
    return Formula(left, right, dict(reader.used), response)


class _Reader:
    """Reads the sides of a formula, and keeps which columns stand there."""

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: k for k, name in enumerate(names)}
        self._names = names
        self.used: dict[str, str] = {}

    def side(self, text: str) -> str:
        """Return a side with safe names."""
        if "@" in text:
            raise InputError("a formula must not have '@'")
        quoted: Mapping[str, str] = {f"quoted_{k}_": name for k, name in enumerate(QUOTED.findall(text))}
        marks = iter(quoted)
        plain = QUOTED.sub(lambda _: f" {next(marks)} ", text).replace(":", "@").strip()
        try:
            tree = ast.parse(plain, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(f"a side of the formula cannot be read: {text.strip()[:80]!r}") from None
        return self._terms(tree, quoted, 0, True)

    def _terms(self, node: ast.AST, quoted: Mapping[str, str], depth: int, outer: bool) -> str:
        """Return terms with safe names. Those of the outer sum can be 0 or 1, which say whether there is an intercept.

        In parentheses and products libraries read 0 and 1 in different ways, or not at all.
        """
        if depth > DEEPEST:
            raise InputError("a formula must not be nested so deeply")
        if (held := _intercept(node)) is not None:
            if not outer:
                raise InputError("0 and 1 stand for the intercept, so they may be added to the terms or taken from "
                                 "them, as in 'y ~ x - 1', but not stand in parentheses or products")
            return str(int(held))
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            node = _by_precedence(node)
            if isinstance(node.op, ast.Pow):
                power = node.right.value if isinstance(node.right, ast.Constant) else None
                if type(power) is not int or not 1 <= power <= MOST_POWER:
                    raise InputError(f"terms may be raised to whole numbers from 1 to {MOST_POWER}; for a power of a "
                                     "number write I(name ** 2)")
                return f"({self._terms(node.left, quoted, depth + 1, False)}) ** {power}"
            sums = ast.Add | ast.Sub
            outer = outer and isinstance(node.op, sums)
            left = self._terms(node.left, quoted, depth + 1, outer)
            if outer and (held := _intercept(node.right)) is not None:
                return f"{left} {'+' if held == isinstance(node.op, ast.Add) else '-'} 1"
            right = self._terms(node.right, quoted, depth + 1, False)
            # A sum of sums has no parentheses: in them, "- 1" would not take the intercept away.
            if isinstance(node.left, ast.BinOp) and not (
                    isinstance(node.op, sums) and isinstance(node.left.op, sums)):
                left = f"({left})"
            if isinstance(node.right, ast.BinOp):
                right = f"({right})"
            return f"{left} {OPERATORS[type(node.op)]} {right}"
        if isinstance(node, ast.Constant):
            raise InputError(f"a term must be 0, 1 or made of columns, not {node.value!r}")
        return self._factor(node, quoted, depth)

    def _factor(self, node: ast.AST, quoted: Mapping[str, str], depth: int) -> str:
        if isinstance(node, ast.Name):
            return self._column(node.id, quoted)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("C", "I", *FUNCTIONS):
            if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
                raise InputError(f"{node.func.id}(...) must have one argument")
            inner = node.args[0]
            if node.func.id == "C":
                if not isinstance(inner, ast.Name):
                    raise InputError("C(...) must have the name of a column")
                return f"C({self._column(inner.id, quoted)})"
            return f"{node.func.id}({self._number(inner, quoted, depth + 1)})"
        raise InputError(f"a formula must not have {_shown(node)}; it may have columns, numbers, + - * : / ** ( ), C, "
                         f"I, {', '.join(FUNCTIONS)}")

    def _number(self, node: ast.AST, quoted: Mapping[str, str], depth: int) -> str:
        """Return arithmetic of columns and numbers."""
        if depth > DEEPEST:
            raise InputError("a formula must not be nested so deeply")
        if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            return (f"({self._number(node.left, quoted, depth + 1)} {OPERATORS[type(node.op)]} "
                    f"{self._number(node.right, quoted, depth + 1)})")
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return f"(-{self._number(node.operand, quoted, depth + 1)})" if isinstance(node.op, ast.USub) else (
                self._number(node.operand, quoted, depth + 1))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(
                node.value, bool) and abs(node.value) <= MOST_NUMBER:
            # A whole number to a large power would take all memory.
            return repr(float(node.value))
        return self._factor(node, quoted, depth)

    def _column(self, name: str, quoted: Mapping[str, str]) -> str:
        name = quoted.get(name, name)
        if name not in self._places:
            raise InputError(f"the formula has {name[:80]!r}, and there is no such column; the columns are "
                             f"{', '.join(map(repr, self._names))}")
        safe = SAFE.format(self._places[name])
        self.used[safe] = name
        return safe


def _by_precedence(node: ast.BinOp) -> ast.BinOp:
    """Return a product in which ":" joins its factors before "*" and "/" do; for Python its sign binds like theirs."""
    products = ast.Mult | ast.Div | ast.MatMult
    if not isinstance(node.op, products):
        return node
    signs: list[ast.operator] = [node.op]
    factors, left = [node.right], node.left
    # A product in parentheses begins behind them, so it stays as it is.
    while isinstance(left, ast.BinOp) and isinstance(left.op, products) and left.col_offset == node.col_offset:
        signs, factors, left = [left.op, *signs], [left.right, *factors], left.left
    joined, others = [left], list[ast.operator]()
    for sign, factor in zip(signs, factors, strict=True):
        if isinstance(sign, ast.MatMult):
            joined[-1] = ast.BinOp(joined[-1], sign, factor, col_offset=-1)
        else:
            others.append(sign)
            joined.append(factor)
    found = joined[0]
    for sign, factor in zip(others, joined[1:], strict=True):
        found = ast.BinOp(found, sign, factor, col_offset=-1)
    return cast(ast.BinOp, found)


def _is_plain(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _intercept(node: ast.AST) -> bool | None:
    """Return whether a term, if it is added, asks for an intercept, as 1 and -0 do, or not, as 0 and -1; else None."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        held = _intercept(node.operand)
        return held if held is None or isinstance(node.op, ast.UAdd) else not held
    value = node.value if isinstance(node, ast.Constant) else None
    return bool(value) if type(value) is int and value in (0, 1) else None


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return f"a call of {ast.unparse(node.func)[:60]!r}"
    return repr(ast.unparse(node)[:60]) if isinstance(node, ast.expr) else type(node).__name__
