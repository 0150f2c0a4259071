# SPDX-License-Identifier: Apache-2.0
"""Parses statements. sqlglot reads them; texts of queries reach Spark as they were written."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from sqlglot import Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from connectors_core.errors import InvalidOptionError, UnsupportedError
from connectors_core.options.types import DURATION
from connectors_core.schema import parse_schema
from connectors_core.table.catalog_table import CONNECTOR, CatalogTable, CatalogView
from connectors_core.table.sql.dialect import MetadataColumnConstraint, TableSql
from connectors_core.table.sql.errors import SqlError
from connectors_core.table.sql.statements import (
    AlterTable,
    CreateCatalog,
    CreateDatabase,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    Explain,
    Insert,
    Name,
    Query,
    Reset,
    SetOption,
    Show,
    ShowCreate,
    SparkStatement,
    Statement,
    StatementSet,
    Use,
)
from connectors_core.table.table_schema import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    TableSchema,
    WatermarkSpec,
)

__all__ = ["parse_query", "parse_script", "parse_statement"]

_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})
_PREFIX: Final = "connector_"
_QUOTES: Final = ("'", '"')
_KINDS: Final = frozenset({"TABLES", "VIEWS", "DATABASES", "CATALOGS"})


def parse_script(text: str) -> list[Statement]:
    """Parse statements that semicolons separate.

    Raises:
        SqlError: A statement is wrong; with its line and column in the text.
    """
    return [_parse(text, tokens) for tokens in _statements(text, _tokens(text))]


def parse_statement(text: str) -> Statement:
    """Parse one statement.

    Raises:
        SqlError: The statement is wrong, or there is not one.
    """
    found = parse_script(text)
    if len(found) != 1:
        raise SqlError(
            "the text is not one statement", expected="one", found=f"{len(found)} statements"
        )
    return found[0]


def parse_query(text: str) -> exp.Expr:
    """Parse a query, whose identifiers then know their places in the text.

    Raises:
        SqlError: The query is wrong.
    """
    return _tree(text, 0, len(text))


# --- From a text to statements ---


def _tokens(text: str) -> list[Token]:
    try:
        return list(TableSql().tokenize(text))
    except TokenError:  # its text is a part of the statement, which can have secrets
        message = "a quoted text or comment does not end"
        raise SqlError.at(text, len(text), message) from None


def _statements(text: str, tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the tokens of each statement. A statement set is one statement."""
    found: list[Token] = []
    in_set, cases = False, 0
    for token in tokens:
        word = token.text.upper()
        ends = token.token_type is TokenType.SEMICOLON and not in_set
        if ends and _words(found) != "BEGIN STATEMENT SET":
            if found:
                yield found
            found = []
            continue
        found.append(token)
        if len(found) == _HEAD and _words(found) in _SET_STARTS:
            in_set = True
        elif in_set:
            cases += (word == "CASE") - (word == "END")
            if cases < 0:
                in_set, cases = False, 0
    if in_set:
        raise SqlError.at(text, len(text), "the statement set has no END")
    if found:
        yield found


_SET_STARTS: Final = frozenset({"EXECUTE STATEMENT SET BEGIN", "BEGIN STATEMENT SET ;"})
_HEAD: Final = 4


def _words(tokens: Sequence[Token]) -> str:
    return " ".join(token.text.upper() for token in tokens)


def _parse(text: str, tokens: list[Token]) -> Statement:
    words = [token.text.upper() for token in tokens]
    start, end = tokens[0].start, tokens[-1].end + 1
    match words:
        case ["EXECUTE", "STATEMENT", "SET", "BEGIN", *_] | ["BEGIN", "STATEMENT", "SET", ";", *_]:
            return _statement_set(text, tokens)
        case ["EXPLAIN", *rest] if rest:
            return _explain(text, tokens)
        case ["SHOW", "CREATE", "TABLE" | "VIEW", *_]:
            return ShowCreate(name=_name_at(text, tokens[3:]))
        case ["SHOW", kind, *rest] if kind in _KINDS:
            database = _name_at(text, tokens[3:]) if rest[:1] in (["IN"], ["FROM"]) else None
            return Show(kind=kind, database=database)
        case ["RESET"]:
            return Reset()
        case ["RESET", _]:
            return Reset(key=tokens[1].text)
        case ["SET"]:
            return SetOption()
        case ["SET", *_]:
            return _set_option(text, tokens)
        case ["ALTER", "TABLE", *_]:
            return _alter(text, tokens)
        case ["DESCRIBE" | "DESC", *rest]:
            named = [each for each in rest if each not in {"TABLE", "EXTENDED", "FORMATTED"}]
            return Describe(name=_name_at(text, tokens[-len(named) :]))
        case ["CREATE", "CATALOG", *_]:
            return _create_catalog(text, tokens)
        case ["DROP", "CATALOG", "IF", "EXISTS", *_]:
            return Drop(kind="CATALOG", names=(_name_at(text, tokens[4:]),), if_exists=True)
        case ["DROP", "CATALOG", *_]:
            return Drop(kind="CATALOG", names=(_name_at(text, tokens[2:]),))
        case ["CREATE", *_]:
            return _create(text, tokens)
        case ["DROP", *_]:
            return _drop(text, start, end)
        case ["USE", "CATALOG", _]:
            return Use(name=_name_at(text, tokens[2:]), is_catalog=True)
        case ["USE", *rest]:
            return Use(name=_name_at(text, tokens[1 + (rest[:1] == ["DATABASE"]) :]))
        case _:
            return _query_or_insert(text, tokens)


def _query_or_insert(text: str, tokens: list[Token]) -> Statement:
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if token.token_type is TokenType.INSERT and depth == 0:
            return _insert(text, tokens, number)
    start, end = tokens[0].start, tokens[-1].end + 1
    if tokens[0].text.upper() in _QUERIES:
        return Query(text=text[start:end])
    return SparkStatement(text=text[start:end])


def _insert(text: str, tokens: list[Token], number: int) -> Insert:
    """Split an `INSERT` into its head and its query."""
    start, end = tokens[0].start, tokens[-1].end + 1
    tree = _tree(text, start, end)
    if not isinstance(tree, exp.Insert):
        raise SqlError.at(text, tokens[number].start, "the statement is not an INSERT")
    at = number + 1
    depth = 0
    while at < len(tokens):
        token = tokens[at]
        begins = token.text.upper() in _QUERIES and at > number + 2
        if depth == 0 and begins and not _is_column_list(tokens, at):
            break
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        at += 1
    else:
        raise SqlError.at(text, end, "the INSERT has no query")
    target = tree.find(exp.Table)
    assert target is not None
    columns: tuple[str, ...] = ()
    if isinstance(tree.this, exp.Schema):
        columns = tuple(each.name for each in tree.this.expressions)
    partition = {}
    for each in (target.args.get("partition") or exp.Partition(expressions=[])).expressions:
        if not isinstance(each, exp.EQ):
            continue  # a column that the rows have
        partition[each.this.name] = each.expression.sql("spark")
    before = text[start : tokens[number].start]  # WITH ... INSERT
    return Insert(
        target=_name(target),
        query=before + text[tokens[at].start : end],
        columns=columns,
        partition=partition,
        overwrite=bool(tree.args.get("overwrite")),
    )


def _is_column_list(tokens: Sequence[Token], at: int) -> bool:
    """Return whether parentheses after the target contain columns and not a query."""
    if tokens[at].token_type is not TokenType.L_PAREN:
        return False
    inside = tokens[at + 1].text.upper() if at + 1 < len(tokens) else ""
    return inside not in _QUERIES


def _statement_set(text: str, tokens: list[Token]) -> StatementSet:
    if tokens[-1].text.upper() != "END":
        raise SqlError.at(text, tokens[-1].start, "END ends a statement set")
    inserts = []
    for each in _statements(text, tokens[_HEAD:-1]):
        statement = _parse(text, each)
        if not isinstance(statement, Insert):
            raise SqlError.at(text, each[0].start, "a statement set contains only INSERTs")
        inserts.append(statement)
    if not inserts:
        raise SqlError.at(text, tokens[-1].start, "the statement set is empty")
    return StatementSet(inserts=tuple(inserts))


def _explain(text: str, tokens: list[Token]) -> Statement:
    statement = _parse(text, tokens[1:])
    if isinstance(statement, Query | Insert | StatementSet):
        return Explain(statement=statement)
    return SparkStatement(text=text[tokens[0].start : tokens[-1].end + 1])


def _set_option(text: str, tokens: list[Token]) -> Statement:
    """Parse `SET 'key' = 'value'` and `SET key = value`; Spark gets its own settings."""
    rest = text[tokens[1].start : tokens[-1].end + 1]
    key, equals, value = rest.partition("=")
    key, value = _unquoted(key), _unquoted(value)
    if key.startswith("spark."):
        return SparkStatement(text=f"SET {key}{f'={value}' if equals else ''}")
    return SetOption(key=key, value=value if equals else None)


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"`" else text


# --- Definitions ---


def _create(text: str, tokens: list[Token]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    query_at = _as_query(tokens)
    head_end = end if query_at is None else tokens[query_at - 1].start
    query = None if query_at is None else text[tokens[query_at].start : end]
    like = _like_clause(tokens)
    tree = _tree(text, start, head_end if query is not None else end, without=like)
    kind = str(tree.args.get("kind", "")).upper()
    if not isinstance(tree, exp.Create) or kind not in {"TABLE", "VIEW", "DATABASE", "SCHEMA"}:
        return SparkStatement(text=text[start:end])
    name = _name(tree.find(exp.Table))
    exists = bool(tree.args.get("exists"))
    if kind in {"DATABASE", "SCHEMA"}:
        return CreateDatabase(name=name, if_not_exists=exists)
    if kind == "VIEW":
        if query is None:
            raise SqlError.at(text, end, "the view has no query")
        columns = ()
        if isinstance(tree.this, exp.Schema):
            columns = tuple(each.name for each in tree.this.expressions)
        view = CatalogView(query=query, columns=columns, comment=_comment(tree))
        return CreateView(
            name=name, view=view, replace=bool(tree.args.get("replace")), if_not_exists=exists
        )
    options = _options(tree)
    like_name = _like_name(text, tokens, tree)
    if CONNECTOR not in options and like_name is None:
        return SparkStatement(text=text[start:end])
    table = CatalogTable(
        schema=_schema(text, tokens, tree),
        options=options,
        partition_keys=_partition_keys(tree),
        comment=_comment(tree),
    )
    return CreateTable(name=name, table=table, if_not_exists=exists, like=like_name, query=query)


def _create_catalog(text: str, tokens: list[Token]) -> CreateCatalog:
    """Parse `CREATE CATALOG [IF NOT EXISTS] c [COMMENT 'x'] WITH (...)`."""
    words = [token.text.upper() for token in tokens]
    if_not_exists = words[2:5] == ["IF", "NOT", "EXISTS"]
    at = 5 if if_not_exists else 2
    name = _name_at(text, tokens[at : at + 1])[0]
    comment = None
    if words[at + 1 : at + 2] == ["COMMENT"]:
        comment, at = tokens[at + 2].text, at + 2
    if words[at + 1 : at + 3] != ["WITH", "("] or words[-1] != ")":
        place = tokens[at + 1].start if at + 1 < len(tokens) else len(text)
        raise SqlError.at(text, place, "the catalog has no options", expected="WITH ('type' = ...)")
    options = _pairs(text, tokens[at + 3 : -1])
    return CreateCatalog(name=name, options=options, comment=comment, if_not_exists=if_not_exists)


def _as_query(tokens: Sequence[Token]) -> int | None:
    """Return the number of the first token of `AS SELECT ...`, if there is one."""
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        follows = tokens[number + 1].text.upper() if number + 1 < len(tokens) else ""
        if depth == 0 and token.text.upper() == "AS" and follows in _QUERIES:
            return number + 1
    return None


def _like_clause(tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Return the range of the options of `LIKE t (...)`, which sqlglot does not read."""
    for number, token in enumerate(tokens):
        if token.text.upper() != "LIKE" or number < 3:
            continue
        at = number + 1
        while at < len(tokens) and tokens[at].token_type is not TokenType.L_PAREN:
            if tokens[at].text.upper() == "WITH":
                return None
            at += 1
        close = next((n for n in range(at, len(tokens)) if tokens[n].text == ")"), None)
        if close is None:
            return None
        return tokens[at].start, tokens[close].end + 1
    return None


def _like_name(text: str, tokens: Sequence[Token], tree: exp.Create) -> Name | None:
    found = tree.find(exp.LikeProperty)
    if found is None:
        return None
    clause = _like_clause(tokens)
    words = text[clause[0] : clause[1]].upper() if clause else ""
    if words and words.strip("() \n") not in {"", "INCLUDING ALL", "INCLUDING OPTIONS"}:
        raise UnsupportedError(
            "LIKE copies everything but the data",
            expected="LIKE t, with options in WITH that replace those of t",
            found=f"LIKE ... {words}",
        )
    return _name(found.this)


def _drop(text: str, start: int, end: int) -> Statement:
    tree = _tree(text, start, end)
    kind = str(tree.args.get("kind", "")).upper()
    kind = "DATABASE" if kind == "SCHEMA" else kind
    if not isinstance(tree, exp.Drop) or kind not in {"TABLE", "VIEW", "DATABASE"}:
        return SparkStatement(text=text[start:end])
    named = tree.args.get("tables") or [tree.this]
    return Drop(
        kind=kind,
        names=tuple(_name(each) for each in named),
        if_exists=bool(tree.args.get("exists")),
        cascade=bool(tree.args.get("cascade")),
    )


def _alter(text: str, tokens: list[Token]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    words = [token.text.upper() for token in tokens]
    at = 3
    while at < len(words) and words[at] == ".":
        at += 2
    name = _name_at(text, tokens[2:at])
    match words[at:]:
        case ["SET", "(", *_]:
            options = _pairs(text, tokens[at + 2 : -1])
            return AlterTable(name=name, set_options=options)
        case ["RESET", "(", *_]:
            keys = tuple(t.text for t in tokens[at + 2 : -1] if t.token_type is TokenType.STRING)
            return AlterTable(name=name, reset_options=keys)
        case ["RENAME", "TO", *_]:
            return AlterTable(name=name, new_name=_name_at(text, tokens[at + 2 :]))
        case _:
            return SparkStatement(text=text[start:end])


def _pairs(text: str, tokens: Sequence[Token]) -> dict[str, str]:
    texts = [token for token in tokens if token.token_type is TokenType.STRING]
    if len(texts) % 2:
        raise SqlError.at(text, texts[-1].start, "an option has no value", found="a text")
    return {texts[n].text: texts[n + 1].text for n in range(0, len(texts), 2)}


def _options(tree: exp.Create) -> dict[str, str]:
    """Return the options of `WITH (...)`, or of `USING connector_x OPTIONS (...)`."""
    found: dict[str, str] = {}
    properties = tree.args.get("properties")
    for each in properties.expressions if properties is not None else []:
        if isinstance(each, exp.FileFormatProperty) and each.name.lower().startswith(_PREFIX):
            found[CONNECTOR] = each.name.lower().removeprefix(_PREFIX)
        elif isinstance(each, exp.OptionsProperty):
            found |= {_key(option): option.args["value"].name for option in each.expressions}
        elif type(each) is exp.Property:
            found[_key(each)] = each.args["value"].name
    return found


def _key(option: exp.Expr) -> str:
    name = option.this
    if isinstance(name, exp.Dot):
        return f"{_key(name)}.{name.expression.name}"
    return str(name.name)


def _partition_keys(tree: exp.Create) -> tuple[str, ...]:
    found = tree.find(exp.PartitionedByProperty)
    return () if found is None else tuple(each.name for each in found.this.expressions)


def _comment(tree: exp.Create) -> str | None:
    found = tree.find(exp.SchemaCommentProperty)
    return None if found is None else str(found.this.name)


def _schema(text: str, tokens: Sequence[Token], tree: exp.Create) -> TableSchema:
    if not isinstance(tree.this, exp.Schema):
        return TableSchema()
    columns: list[Column] = []
    key: tuple[str, ...] = ()
    watermark = None
    for each in tree.this.expressions:
        match each:
            case exp.ColumnDef():
                columns.append(_column(text, tokens, each))
                key = (each.name,) if each.find(exp.PrimaryKeyColumnConstraint) else key
            case exp.PrimaryKey():
                key = tuple(part.name for part in each.expressions)
            case exp.WatermarkColumnConstraint():
                watermark = _watermark(text, each)
            case exp.Constraint():
                key = tuple(
                    part.name
                    for found in each.find_all(exp.PrimaryKey)
                    for part in found.expressions
                )
            case _:
                raise SqlError.at(text, _start(each), "this is no column of a table")
    names = [column.name for column in columns]
    unknown = [
        name for name in (*key, *([watermark.column] if watermark else [])) if name not in names
    ]
    if unknown:
        raise SqlError(
            f"the key or the watermark names the column {unknown[0]!r}, which does not exist",
            expected=f"one of {', '.join(names)}",
        )
    return TableSchema(columns=tuple(columns), primary_key=key, watermark=watermark)


def _column(text: str, tokens: Sequence[Token], column: exp.ColumnDef) -> Column:
    constraints = [each.kind for each in column.args.get("constraints") or ()]
    comment = next(
        (str(e.this.name) for e in constraints if isinstance(e, exp.CommentColumnConstraint)), None
    )
    for each in constraints:
        if isinstance(each, exp.ComputedColumnConstraint):
            return ComputedColumn(column.name, _computed(text, tokens, column), comment)
    kind = column.args.get("kind")
    if kind is None:
        raise SqlError.at(text, _start(column.this), f"the column {column.name!r} has no type")
    if isinstance(kind.this, exp.DType) and kind.this.name.startswith("TIMESTAMP"):
        kind = kind.copy()
        kind.set("expressions", [])  # the precision of Flink's types; times have microseconds
    try:
        declared = parse_schema(f"c {kind.sql(TableSql)}").field(0).type
    except InvalidOptionError as error:
        raise SqlError.at(
            text,
            _start(column.this),
            f"the column {column.name!r} has an unknown type",
            expected=error.expected,
            found=kind.sql(TableSql),
        ) from error
    for each in constraints:
        if isinstance(each, MetadataColumnConstraint):
            key = each.this.name if each.this is not None else column.name
            virtual = bool(each.args.get("virtual"))
            return MetadataColumn(column.name, declared, key, virtual, comment)
    nullable = not any(isinstance(each, exp.NotNullColumnConstraint) for each in constraints)
    return PhysicalColumn(column.name, declared, nullable, comment)


def _computed(text: str, tokens: Sequence[Token], column: exp.ColumnDef) -> str:
    """Return the text of an expression; `PROCTIME()` is the time of the query."""
    name = next(n for n, token in enumerate(tokens) if token.start == _start(column.this))
    first = at = name + 2  # after AS
    depth = 0
    while at < len(tokens):
        token = tokens[at]
        if depth == 0 and (token.text in {",", ")"} or token.text.upper() == "COMMENT"):
            break
        depth += (token.text == "(") - (token.text == ")")
        at += 1
    found = text[tokens[first].start : tokens[at - 1].end + 1]
    is_now = found.upper().replace(" ", "") == "PROCTIME()"
    return "current_timestamp()" if is_now else found


def _watermark(text: str, spec: exp.Expr) -> WatermarkSpec:
    column, expression = spec.this.name, spec.expression
    match expression:
        case exp.Column() if expression.name == column:
            return WatermarkSpec(column, timedelta(0))
        case exp.Sub() if expression.this.name == column and isinstance(
            expression.expression, exp.Interval
        ):
            interval = expression.expression
            duration = DURATION.parse(f"{interval.this.name} {interval.text('unit').lower()}")
            return WatermarkSpec(column, duration)
        case _:
            raise SqlError.at(
                text,
                _start(spec),
                "the watermark cannot be computed",
                expected=f"{column} or {column} - INTERVAL '5' SECOND",
                found=expression.sql(TableSql),
            )


# --- Trees and names ---


def _tree(text: str, start: int, end: int, without: tuple[int, int] | None = None) -> exp.Expr:
    """Parse a part of a text; the places in the tree are those of the whole text."""
    part = text[start:end]
    if without is not None:
        left, right = without
        part = text[start:left] + " " * (right - left) + text[right:end]
    padded = "".join(each if each in "\n\t" else " " for each in text[:start]) + part
    try:
        logger = logging.getLogger("sqlglot")
        level, logger.disabled = logger.disabled, True  # it warns of statements it does not know
        try:
            [tree] = TableSql().parse(padded)
        finally:
            logger.disabled = level
    except ParseError as error:  # its text is the statement, which can have secrets
        found = error.errors[0]
        shown = str(found["highlight"])
        raise SqlError(
            str(found["description"]).rstrip("."),
            found=f"{'a text' if shown[:1] in _QUOTES else repr(shown)} in line {found['line']}, "
            f"column {found['col']}",
        ) from None
    assert tree is not None
    return tree


def _name(table: Any) -> Name:
    return (
        tuple(part.name for part in table.parts) if isinstance(table, exp.Table) else (table.name,)
    )


def _name_at(text: str, tokens: Sequence[Token]) -> Name:
    parts = [token.text for token in tokens[::2]]
    dots = {token.text for token in tokens[1::2]}
    if not 0 < len(parts) <= 3 or dots - {"."}:
        at = tokens[0].start if tokens else len(text)
        raise SqlError.at(text, at, "this is not the name of a table", expected="a, b.a, or c.b.a")
    return tuple(parts)


def _start(node: exp.Expr) -> int:
    for each in node.find_all(exp.Identifier):
        if "start" in each.meta:
            return int(each.meta["start"])
    return 0
