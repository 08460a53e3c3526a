"""The grammar of constraints, which are public rules that every synthetic row keeps. They are parsed, never evaluated.

    constraint = claim ["if and only if" claim]
    claim      = choice ["implies" choice]
    choice     = both {"or" both}
    both       = part {"and" part}
    part       = "not" part | "(" constraint ")" | condition
    condition  = column ("=" | "!=" | "<" | "<=" | ">" | ">=") (constant | column)
               | column "in" "(" constant {"," constant} ")"
               | column "is missing" | column "is not missing"
    column     = name in double or single quotes | bare word of letters, digits and _
    constant   = number such as -2.5 or 1_000 | text in quotes | date or time such as 2020-12-31 | "true" | "false"

A quotation mark within quotes is written twice. The words of the grammar cannot be bare words: a column called ``in``
must stand in quotes. On the left of a comparison is always a column. On the right a bare word is a column; text in
quotes is a column if there is one of that name, and it is an error if it is a category of the left column too (write a
bare word for the column, or ``in ("text")`` for the category). Entries of a list are always constants.

A comparison with a missing value is false, ``!=`` too; apart from that the logic is that of two values, so that
``not (a = 1)`` holds where a is missing. Numbers and times compare as they are, also between columns; ordinal columns
by the order of their categories; other columns, and columns with different categories, only by ``=`` and ``!=``.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from trigmech.errors import InputError, shown
from trigmech.schema.column import Category, Column
from trigmech.schema.constraints import (
    COMPARE,
    JOINS,
    MISSING,
    RESERVED,
    Condition,
    Constant,
    Constraint,
    Join,
    categories_listed,
    category_key,
    held_by,
    sort_of,
    written,
)

TOKEN = re.compile(r"""\s*(?:
    (?P<quoted>"(?:[^"]|"")*"|'(?:[^']|'')*')
    |(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+)?)
    |(?P<number>[+-]?(?:[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<phrase>if\s+and\s+only\s+if\b|is\s+(?:not\s+)?missing\b)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign><=|>=|!=|[=<>(),])
    |(?P<end>\Z))""", re.VERBOSE)
# How deeply parentheses and "not" are nested at most, far below the limit of the interpreter.
DEEPEST = 50


def parse(text: str, columns: Mapping[str, Column]) -> Constraint:
    """Return the constraint that a text states about columns by name, in order.

    An InputError names the place and the rule if the text is not in the grammar or does not suit the columns.
    """
    if not isinstance(text, str):
        raise InputError(f"a constraint must be text, not {shown(text)}")
    rule = _ConstraintParser(text, columns).whole()
    read = {name for condition in rule.conditions() for name in (condition.column, condition.other)}
    return Constraint(rule.text(), tuple(name for name in columns if name in read), rule)


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


class _ConstraintParser:
    """Recursive descent over the tokens of one text, checked against the columns on the way."""

    def __init__(self, text: str, columns: Mapping[str, Column]) -> None:
        self.text, self.columns, self.place, self.depth = text, columns, 0, 0
        self.tokens: list[_Token] = []
        stop = 0
        while not self.tokens or self.tokens[-1].kind != "end":
            found = TOKEN.match(text, stop)
            if found is None:
                start = len(text) - len(text[stop:].lstrip())
                self.fail("this is not a word, number or sign that a constraint can have, or a quote is not closed",
                          _Token("", text[start:start + 1], start))
            kind = str(found.lastgroup)
            self.tokens.append(_Token(kind, found[kind], found.start(kind)))
            stop = found.end()

    def fail(self, rule: str, token: _Token | None = None) -> NoReturn:
        token = self.tokens[self.place] if token is None else token
        where = "at its end" if token.kind == "end" else f"at {token.text!r}, character {token.start + 1}"
        raise InputError(f"constraint {self.text!r}: {where}: {rule}")

    def accept(self, *texts: str) -> str | None:
        """Return the next token, and go on, if it is one of these."""
        token = self.tokens[self.place]
        text = " ".join(token.text.split())
        if token.kind not in ("phrase", "word", "sign") or text not in texts:
            return None
        self.place += 1
        return text

    def expect(self, *texts: str) -> str:
        return self.accept(*texts) or self.fail(f"expected {' or '.join(texts)}")

    def whole(self) -> Condition | Join:
        rule = self.joined(0)
        if self.tokens[self.place].kind != "end":
            self.fail(f"expected {', '.join(reversed(JOINS))}, or the end")
        return rule

    def joined(self, level: int) -> Condition | Join:
        if level == len(JOINS):
            return self.part()
        name, parts = JOINS[level], [self.joined(level + 1)]
        while self.accept(name):
            if level < 2 and len(parts) > 1:
                self.fail(f"{name} appears twice: put one of the two into parentheses", self.tokens[self.place - 1])
            parts.append(self.joined(level + 1))
        if level >= 2:
            parts = [each for part in parts
                     for each in (part.parts if isinstance(part, Join) and part.operator == name else (part,))]
        return Join(name, tuple(parts)) if len(parts) > 1 else parts[0]

    def part(self) -> Condition | Join:
        opened = self.accept("not", "(")
        if opened is None:
            return self.condition()
        self.depth += 1
        if self.depth > DEEPEST:
            self.fail(f"the constraint is nested more than {DEEPEST} times")
        rule = Join("not", (self.part(),)) if opened == "not" else self.joined(0)
        if opened == "(":
            self.expect(")")
        self.depth -= 1
        return rule

    def condition(self) -> Condition:
        column = self.named("expected the name of a column on the left")
        token = self.tokens[self.place]
        asked = self.expect(*COMPARE, "in", *MISSING)
        if asked in MISSING:
            if column.missing != "keep":
                self.fail(f"{column.name!r} has no missing values; give it missing='keep' in the schema", token)
            return Condition(column.name, asked)
        other = self.named("") if asked != "in" and self.is_column(column) else None
        self.check_compared(column, asked, other or column, token)
        by = next((each for each in (column, other) if each is not None and each.categories is not None), None)
        if other is not None:
            return Condition(column.name, asked, other=other.name, by=by)
        return Condition(column.name, asked, self.listed(column) if asked == "in" else (self.constant(column),), by=by)

    def named(self, rule: str) -> Column:
        token = self.tokens[self.place]
        if token.kind not in ("quoted", "word") or (token.kind == "word" and token.text in RESERVED):
            self.fail(rule)
        name = _unquoted(token)
        if name not in self.columns:
            self.fail(f"there is no column {name!r}; write text in quotes, on the right of a comparison")
        self.place += 1
        return self.columns[name]

    def is_column(self, left: Column) -> bool:
        """Return whether the right side is a column."""
        token = self.tokens[self.place]
        name = _unquoted(token)
        if token.kind != "quoted":
            return token.kind == "word" and name not in RESERVED
        if name in self.columns and left.is_text and _category_of(left, name) is not None:
            self.fail(f"{name!r} is a column and also a category of {left.name!r}; write it without quotes for the "
                      f"column, or write in ({written(name)}) for the category")
        return name in self.columns

    def check_compared(self, column: Column, asked: str, other: Column, token: _Token) -> None:
        ordered = asked not in ("=", "!=", "in")
        for each in (column, other):
            if each.private_bounds or each.private_categories:
                what = "bounds" if each.private_bounds else "categories"
                self.fail(f"{each.name!r} cannot be compared, because its {what} are private", token)
            if ordered and each.kind == "categorical":
                self.fail(f"the categories of {each.name!r} have no order", token)
        if held_by(column) != held_by(other):
            self.fail(f"{column.name!r} holds {held_by(column)} and {other.name!r} holds {held_by(other)}; these "
                      "cannot be compared", token)
        if ordered and column.categories != other.categories:
            self.fail(f"{column.name!r} and {other.name!r} have different categories, so they have no common order",
                      token)

    def listed(self, column: Column) -> tuple[Constant, ...]:
        self.expect("(")
        constants = [self.constant(column)]
        while self.expect(",", ")") == ",":
            constants.append(self.constant(column))
        return tuple(constants)

    def constant(self, column: Column) -> Constant:
        literal, held = self.literal(), held_by(column)
        value: Constant | None = literal
        if held == "times" and isinstance(literal, str):
            try:
                value = column.date("a constant", literal)
            except InputError:
                value = None
        elif held != sort_of(literal):
            self.fail(f"{column.name!r} holds {held}; these cannot be compared with {sort_of(literal)}")
        elif column.categories is not None:
            value = _category_of(column, literal)
        if value is None:
            what = "date or time in ISO form such as 2020-12-31" if held == "times" else (
                f"category of {column.name!r}; its categories are {categories_listed(column)}")
            self.fail(f"this is not a {what}")
        self.place += 1
        return value

    def literal(self) -> Category:
        token = self.tokens[self.place]
        if token.kind in ("quoted", "date"):
            return _unquoted(token)
        if token.text in ("true", "false"):
            return token.text == "true"
        if token.kind != "number":
            self.fail("expected a constant: a number, text in quotes, a date, true or false")
        number = float(token.text)
        if not math.isfinite(number):
            self.fail("this number is too large")
        return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _category_of(column: Column, value: Category) -> Category | None:
    """Return the category that a constant is, if there is one."""
    return next((each for each in column.categories or () if category_key(each) == category_key(value)), None)


def _unquoted(token: _Token) -> str:
    if token.kind != "quoted":
        return token.text
    mark = token.text[0]
    return token.text[1:-1].replace(2 * mark, mark)
