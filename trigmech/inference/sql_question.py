"""The allowed questions in SQL: DuckDB's parser reads one, and every part of it must be in a list. Public."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from trigmech.errors import InputError
from trigmech.inference.quoting import with_hint
from trigmech.schema.schema import Schema

Tree = dict[str, Any]

TABLE = "release"
LONGEST_QUERY = 10_000
# The classes of expressions that a query may have, by DuckDB's names.
CLASSES = {"COLUMN_REF", "CONSTANT", "FUNCTION", "COMPARISON", "CONJUNCTION", "OPERATOR", "CASE", "CAST", "BETWEEN",
           "TYPE"}
# They grow with the rows of a table, so they are scaled to the private table's.
GROWING = {"count", "count_star", "count_if", "countif", "sum"}
# They have a value that rows have, or one between two of these.
PLACES = {"median", "quantile_cont", "quantile_disc", "quantile"}
AGGREGATES = GROWING | PLACES | {
    "avg", "mean", "stddev", "stddev_samp", "stddev_pop",
    "variance", "var_samp", "var_pop", "corr", "covar_pop", "covar_samp", "regr_slope", "regr_intercept", "regr_r2",
    "skewness", "kurtosis"}
FUNCTIONS = {
    "+", "-", "*", "/", "//", "%", "^", "**", "||", "~~", "!~~", "~~*", "!~~*", "abs", "ceil", "ceiling", "floor",
    "round", "trunc", "sign", "sqrt", "cbrt", "exp", "ln", "log", "log2", "log10", "pow", "power", "greatest", "least",
    "lower", "upper", "length", "trim", "substr", "substring", "left", "right", "contains", "starts_with", "ends_with",
    "concat", "year", "quarter", "month", "week", "day", "dayofweek", "dayofyear", "hour", "date_part", "datepart",
    "date_trunc", "date_diff", "datediff", "nullif", "coalesce", "ifnull"}
# One row, or few, decide them.
ENDMOST = {"max", "min", "arg_max", "arg_min", "first", "last", "any_value"}
REMEDY = ("ask for aggregates, such as avg(age) or count(*); rows are made by `trigmech sample`")
# The parts that must be empty in a query.
NO_PARTS = {"having": "having", "sample": "using sample", "qualify": "qualify"}
# Comparisons that no row satisfies, or every row, if a text is not among the values.
EQUALITIES = {"COMPARE_EQUAL", "COMPARE_NOTEQUAL", "COMPARE_IN", "COMPARE_NOT_IN", "COMPARE_DISTINCT_FROM",
              "COMPARE_NOT_DISTINCT_FROM"}
# The endings of the names of the two columns with the ends of an interval.
ENDS = ("_low", "_high")
# Takes the place of the table's name in a statement.
MARK = "trigmech_imputed_table"


@dataclass(frozen=True, eq=False)
class Question:
    """A parsed question: its tree, and which of its output columns are keys."""

    tree: Tree
    names: tuple[str, ...]
    keys: tuple[bool, ...]
    growing: tuple[bool, ...]
    order: tuple[tuple[int, bool], ...]
    limit: int | None
    used: tuple[str, ...]
    texts: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    uses: tuple[tuple[str, ...], ...] = ()  # by each output column, its groups and the conditions

    @property
    def items(self) -> list[Tree]:
        """The output columns' expressions."""
        return list(self.tree["statements"][0]["node"]["select_list"])

    def of_all(self, item: Tree) -> bool:
        """Return whether the number of all rows alone decides an output column's expression."""
        conditions = self.tree["statements"][0]["node"].get("where_clause")
        return not conditions and not any(self.keys) and not any(
            each["class"] == "COLUMN_REF" for each in _expressions(item))

    @property
    def scaled(self) -> bool:
        """Whether any part of an output column grows with the rows, so that it is scaled."""
        return any(_name(each) in GROWING for each in _expressions(self.items))


def parsed(connection: Any, query: Any, schema: Schema) -> Question:
    """Return a question, or raise an InputError if anything in it is not allowed."""
    try:
        return _parsed(connection, query, schema)
    except RecursionError:
        raise InputError("the query cannot be read: it is nested too deeply") from None
    except InputError as problem:
        if not isinstance(query, str) or len(query) > LONGEST_QUERY:
            raise
        raise InputError(with_hint(problem, query, schema.table_names, '"', partial(_is_plain, connection))) from None


def _is_plain(connection: Any, name: str) -> bool:
    """Return whether DuckDB reads a name without quotes as that of a column."""
    try:
        items = _tree(connection, f"select {name}")["statements"][0]["node"]["select_list"]
    except InputError:
        return False
    return len(items) == 1 and items[0]["class"] == "COLUMN_REF" and _column(items[0]) == [name]


def _parsed(connection: Any, query: Any, schema: Schema) -> Question:
    if not isinstance(query, str) or not query.strip() or len(query) > LONGEST_QUERY or "\0" in query:
        raise InputError(f"a query must be a text of 1 to {LONGEST_QUERY:,} letters, such as 'select avg(age) from "
                         f"{TABLE}'")
    tree = _tree(connection, query)
    node = tree["statements"][0]["node"]
    _check_source(node)
    for part, words in NO_PARTS.items():
        if node.get(part):
            raise InputError(f"a query must not have {words.upper()!r}; choose among the rows of the answer instead")
    if len(node.get("group_sets") or [()]) > 1:
        raise InputError("a query must not have several grouping sets; ask once for each")
    for part in ("select_list", "where_clause", "group_expressions"):
        _check(node.get(part), part == "select_list")
    _check_names(node, schema)
    items, groups = node["select_list"], node.get("group_expressions") or []
    has = [any(_name(each) in AGGREGATES for each in _expressions(item)) for item in items]
    if not any(has):
        raise InputError(f"a query must have an aggregate; {REMEDY}")
    keys = tuple(_is_key(k, item, groups, node, aggregate)
                 for k, (item, aggregate) in enumerate(zip(items, has, strict=True)))
    lost = [k for k, (key, aggregate) in enumerate(zip(keys, has, strict=True)) if key == aggregate]
    unselected = [each for each in groups if not any(_same(each, item, k) for k, item in enumerate(items))]
    if lost or unselected:
        raise InputError("each selected expression must be an aggregate or appear in GROUP BY, and each expression of "
                         "GROUP BY must be selected")
    order, limit = _arranged(node, items)
    node["modifiers"] = []
    beside = [node.get("where_clause"), [item for item, key in zip(items, keys, strict=True) if key]]
    names, used = _names(connection, items), _named([*items, *beside], schema)
    uses = tuple(_named([item, *beside], schema) for item in items)
    return Question(tree, names, keys, tuple(_name(item) in GROWING for item in items),
                    order, limit, used, tuple(name for name in used if name.lower() in _categories(schema)),
                    tuple(_name(item) for item in items), uses)


def statement_of(connection: Any, question: Question, factor: float) -> str:
    """Return the statement of a question that runs, with sums and counts times a factor."""
    template = _tree(connection, f"select x * cast({factor!r} as double)")["statements"][0]["node"]["select_list"][0]
    node = question.tree["statements"][0]["node"]
    source = json.loads(json.dumps(node["from_table"]).replace(f'"{node["from_table"]["table_name"]}"', f'"{MARK}"'))
    source["alias"] = source.get("alias") or TABLE
    node = node | {"select_list": _scaled(node["select_list"], template), "from_table": source}
    tree = question.tree | {"statements": [question.tree["statements"][0] | {"node": node}]}
    try:
        return str(connection.execute("select json_deserialize_sql(?::json)", [json.dumps(tree)]).fetchone()[0])
    except Exception as problem:
        raise InputError(f"the query cannot be computed: {first_line(problem)}") from None


def _tree(connection: Any, query: str) -> Tree:
    """Return the parsed tree of one SELECT statement."""
    try:
        tree = json.loads(connection.execute("select json_serialize_sql(?)", [query]).fetchone()[0])
    except Exception as problem:
        raise InputError(f"the query cannot be read: {first_line(problem)}") from None
    if tree.get("error"):
        why = str(tree.get("error_message", "")).splitlines() or [""]
        raise InputError("only one SELECT statement may be asked, and no other statement" if
                         tree.get("error_type") == "not implemented" else
                         f"the query cannot be read: {why[0][:300]}")
    if len(tree["statements"]) != 1 or tree["statements"][0]["node"].get("type") != "SELECT_NODE":
        raise InputError("only one SELECT statement may be asked, without UNION or other statements")
    return dict(tree)


def _check_source(node: Tree) -> None:
    source = node.get("from_table") or {}
    if node.get("cte_map", {}).get("map"):
        raise InputError("a query must not have WITH")
    if (source.get("type") != "BASE_TABLE" or str(source.get("table_name")).lower() != TABLE or any(
            source.get(part) for part in ("schema_name", "catalog_name", "column_name_alias", "sample", "at_clause"))):
        raise InputError(f"a query must use the table {TABLE!r} and no other: select ... from {TABLE}")


def _expressions(part: Any) -> Iterator[Tree]:
    if isinstance(part, dict):
        if "class" in part:
            yield part
        for each in part.values():
            yield from _expressions(each)
    elif isinstance(part, list):
        for each in part:
            yield from _expressions(each)


def _named(part: Any, schema: Schema) -> tuple[str, ...]:
    """Return the columns that expressions name, in the order of the schema."""
    used = {_column(each)[-1].lower() for each in _expressions(part) if each["class"] == "COLUMN_REF"}
    return tuple(name for name in schema.table_names if name.lower() in used)


def _check(part: Any, aggregates: bool) -> None:
    """Raise an InputError if an expression has a part that may not be asked."""
    for each in _expressions(part):
        if each["class"] not in CLASSES:
            star = each["class"] == "STAR"
            what = "*" if star else f"a {each['class'].lower()}"
            raise InputError(f"a query must not have {what}; it may have columns, "
                             f"constants, operators, CASE, CAST and functions{'; ' + REMEDY if star else ''}")
        if each["class"] != "FUNCTION":
            continue
        name = _name(each)
        if name in ENDMOST:
            raise InputError(f"a query must not have the function {name!r}: one row decides it, so a release does not "
                             "tell it; quantile_cont(column, 0.99), for example, can be asked")
        if name not in FUNCTIONS | AGGREGATES or each.get("schema") or each.get("catalog"):
            raise InputError(f"a query must not have the function {name!r}; it may have the aggregates "
                             f"{', '.join(sorted(AGGREGATES))} and simple functions of numbers, texts and dates")
        if name in AGGREGATES and not aggregates:
            raise InputError(f"the aggregate {name!r} must be selected; it cannot appear in WHERE or GROUP BY")
        if each.get("distinct"):
            # Synthetic rows have the values that the schema lists or that were drawn, whatever the private table has.
            raise InputError(f"the aggregate {name!r} must not have DISTINCT: a release does not tell which values "
                             "occur in the private table")


def _check_names(node: Tree, schema: Schema) -> None:
    """Raise an InputError if a name is no column's, or a text that a column is compared with is not its category.

    A mistyped category has no rows in any table, so its interval would be a certain 0. So has one that a private
    column does not list, but the private table may have rows of it.
    """
    expressions = [each for part in ("select_list", "where_clause", "group_expressions")
                   for each in _expressions(node.get(part))]
    columns = {name.lower() for name in schema.table_names} | {str(each.get("alias")).lower() for each in expressions}
    for each in expressions:
        if each["class"] == "COLUMN_REF" and _column(each)[-1].lower() not in columns:
            raise InputError(f"there is no column {_column(each)[-1]!r}; the columns are "
                             f"{', '.join(map(repr, schema.table_names))}; texts stand in single quotes")
    categories = _categories(schema)
    # Another name of a column stands for it, unless a column has this name.
    for item in node["select_list"]:
        for name in _column(item)[-1:]:
            if name.lower() in categories and str(item.get("alias")).lower() not in map(str.lower, schema.table_names):
                categories[str(item.get("alias")).lower()] = categories[name.lower()]
    for each in expressions:
        if each.get("type") in EQUALITIES:
            sides = each.get("children") or [each["left"], each["right"]]
            for name in [name for side in sides for name in _column(side)[-1:] if name.lower() in categories]:
                known = categories[name.lower()]
                for text in map(_text, sides):
                    if text is not None and text not in known:
                        raise InputError(f"column {name!r} has no category {text!r}; its categories are "
                                         f"{', '.join(map(repr, known))}")


def _categories(schema: Schema) -> dict[str, tuple[str, ...]]:
    """Return the categories of the columns of texts, by the columns' names in small letters."""
    return {column.name.lower(): tuple(map(str, column.categories)) for column in schema.columns
            if column.categories and all(isinstance(each, str) for each in column.categories)}


def _text(expression: Tree) -> str | None:
    """Return the text that a constant is, or None."""
    held = expression.get("literal") or expression.get("value") or {}
    is_text = held.get("kind") == "STRING" or (held.get("type") or {}).get("id") == "VARCHAR"
    return str(held.get("text", held.get("value"))) if is_text else None


def _name(expression: Tree) -> str:
    return str(expression.get("function_name", "")).lower() if expression.get("class") == "FUNCTION" else ""


def _column(expression: Tree) -> list[str]:
    return [str(name) for name in expression.get("column_names", [])]


def _bare(part: Any) -> Any:
    """Return a tree without names and places of its text."""
    if isinstance(part, dict):
        return {name: _bare(each) for name, each in part.items()
                if name != "alias" and not name.startswith("query_location")}
    return [_bare(each) for each in part] if isinstance(part, list) else part


def _same(group: Tree, item: Tree, place: int) -> bool:
    """Return whether an expression of GROUP BY is a selected one: by its text, its alias or its position."""
    position = _integer(group)
    if position is not None:
        return position == place + 1
    named = _column(group)
    return _bare(group) == _bare(item) or (len(named) == 1 and named[0].lower() == str(item.get("alias")).lower())


def _is_key(place: int, item: Tree, groups: Sequence[Tree], node: Tree, aggregate: bool) -> bool:
    if node.get("aggregate_handling") == "FORCE_AGGREGATES":
        return not aggregate
    return any(_same(group, item, place) for group in groups)


def _integer(expression: Tree) -> int | None:
    """Return the whole number that a constant is, or None."""
    if expression.get("class") != "CONSTANT":
        return None
    literal = expression.get("literal", expression.get("value", {}))
    text = str(literal.get("text", literal.get("value", ""))) if isinstance(literal, dict) else ""
    return int(text) if text.isdecimal() and len(text) < 10 else None


def _arranged(node: Tree, items: Sequence[Tree]) -> tuple[tuple[tuple[int, bool], ...], int | None]:
    """Return by which output columns the answer is sorted, and whether descending, and how many rows it keeps."""
    order, limit = list[tuple[int, bool]](), None
    for each in node.get("modifiers") or ():
        if each.get("type") == "ORDER_MODIFIER":
            for one in each["orders"]:
                place = next((k for k, item in enumerate(items) if _same(one["expression"], item, k)), None)
                if place is None:
                    raise InputError("ORDER BY must name selected expressions, by their text, name or number")
                order.append((place, one.get("type") == "DESCENDING"))
        elif each.get("type") == "LIMIT_MODIFIER" and not each.get("offset") and _integer(each.get("limit") or {}):
            limit = _integer(each["limit"])
        else:
            raise InputError("a query must not have DISTINCT, OFFSET or a LIMIT that is no whole number above 0; it "
                             "may have ORDER BY and LIMIT")
    return tuple(order), limit


def _names(connection: Any, items: Sequence[Tree]) -> tuple[str, ...]:
    """Return the names of the output columns: aliases, or the expressions as they are written; all different."""
    found = []
    for item in items:
        name = str(item.get("alias") or "")
        if not name:
            node = _tree(connection, "select 1")["statements"][0]["node"] | {"select_list": [item | {"alias": ""}]}
            plain = {"error": False, "statements": [{"node": node}]}
            try:
                text = connection.execute("select json_deserialize_sql(?::json)", [json.dumps(plain)]).fetchone()[0]
            except Exception as problem:
                raise InputError(f"the query cannot be read: {first_line(problem)}") from None
            name = text.removeprefix("SELECT ").replace("count_star()", "count(*)")
            if name.startswith('"') and name.endswith('"') and name.count('"') == 2:
                name = name[1:-1]
        found.append(name)
    strange = next((name for name in found if not name.isprintable()), None)
    if strange is not None:
        raise InputError(f"the output column {strange!r} must have a name of printable letters; name it with AS")
    # Each aggregate has two more columns.
    ends = {f"{name}{end}" for name in found for end in ENDS}
    twin = next((name for name in found if found.count(name) > 1 or name in ends), None)
    if twin is not None:
        raise InputError(f"two output columns are called {twin!r}; name one of them with AS")
    return tuple(found)


def _scaled(part: Any, template: Tree) -> Any:
    """Return a tree in which each aggregate that grows with the rows is multiplied as in a template."""
    if isinstance(part, list):
        return [_scaled(each, template) for each in part]
    if not isinstance(part, dict):
        return part
    if _name(part) in GROWING:
        return _placed(template, part | {"alias": ""}) | {"alias": part.get("alias", "")}
    return {name: _scaled(each, template) for name, each in part.items()}


def _placed(template: Any, item: Tree) -> Any:
    """Return a template whose one column is replaced by an expression."""
    if isinstance(template, dict):
        if template.get("class") == "COLUMN_REF":
            return item
        return {name: _placed(each, item) for name, each in template.items()}
    return [_placed(each, item) for each in template] if isinstance(template, list) else template


def first_line(problem: BaseException) -> str:
    return next(iter(str(problem).splitlines()), type(problem).__name__)[:300]
