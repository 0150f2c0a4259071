# SPDX-License-Identifier: Apache-2.0
"""Parses statements. Texts of queries stay as they are written; those of Spark as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from connectors_core.errors import UnsupportedError
from connectors_core.table.catalog_table import CONNECTOR, CatalogTable, CatalogView
from connectors_core.table.sql.dialect import Kind, Word, parse_query, refuse_hints, words_of
from connectors_core.table.sql.errors import SqlError
from connectors_core.table.sql.function_statements import (
    PYTHON,
    alter_function,
    create_function,
    describe_function,
)
from connectors_core.table.sql.statements import (
    NEW_VALUE,
    AlterTable,
    ChangeRows,
    CreateCatalog,
    CreateDatabase,
    CreateTable,
    CreateView,
    Describe,
    DescribeJob,
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
    StopJob,
    Use,
)
from connectors_core.table.sql.table_elements import read_elements
from connectors_core.table.sql.word_reader import WordReader
from connectors_core.table.table_schema import TableSchema

__all__ = [
    "PlacedStatement",
    "is_complete",
    "parse_create_table",
    "parse_placed",
    "parse_script",
    "parse_statement",
]

_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "FROM", "TABLE", "("})
_SETS: Final = (("EXECUTE", "STATEMENT", "SET", "BEGIN"), ("STATEMENT", "SET", "BEGIN"))
_OLD_SET: Final = ("BEGIN", "STATEMENT", "SET", ";")
_LONGEST_HEAD: Final = 8
_LONGEST_NAME: Final = 3
_SHOWN: Final = frozenset(
    {"TABLES", "VIEWS", "FUNCTIONS", "USER FUNCTIONS", "DATABASES", "CATALOGS", "JOBS"}
)
_CURRENT: Final = frozenset({"CATALOG", "DATABASE"})
_IN_PARENT: Final = frozenset({"TABLES", "VIEWS", "FUNCTIONS", "USER FUNCTIONS", "DATABASES"})
_VISIBLE: Final = re.compile(r"\S")
_OPTION_KEY: Final = re.compile(r"\w[\w.-]*")
_USING: Final = "CONNECTOR_"
_SPARK: Final = "spark."


@dataclass(frozen=True)
class PlacedStatement:
    """A statement in a script.

    Attributes:
        statement: The statement.
        text: Its text, without the semicolon.
        start: The number of its first character in the script.
    """

    statement: Statement
    text: str
    start: int


def parse_script(text: str) -> list[Statement]:
    """Parse statements that semicolons separate.

    Raises:
        SqlError: A statement is wrong; with its line and column in the text.
    """
    return [each.statement for each in parse_placed(text)]


def parse_placed(text: str) -> list[PlacedStatement]:
    """Parse statements as `parse_script` does, and return each with its text and its place.

    Raises:
        SqlError: A statement is wrong.
    """
    words = words_of(text)
    refuse_hints(text)
    return [
        PlacedStatement(
            _parse(WordReader(text, own)), text[own[0].start : own[-1].end], own[0].start
        )
        for own in _statements(text, words)
    ]


def is_complete(text: str) -> bool:
    """Return whether a semicolon ends the last statement of a text, or it has no statement."""
    try:
        words = words_of(text)
        list(_statements(text, words))
    except SqlError:
        return False  # a quoted text, a comment, or a statement set does not end
    return not words or words[-1].upper == ";"


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


def parse_create_table(text: str) -> CreateTable:
    """Parse a `CREATE TABLE` without options, for a catalog that knows the options of its tables.

    Raises:
        SqlError: The statement is wrong.
    """
    reader = WordReader(text, words_of(text))
    reader.expect("CREATE")
    return _create_table(reader)


def _statements(text: str, words: Sequence[Word]) -> Iterator[list[Word]]:
    """Yield the parts of each statement. A statement set is one statement."""
    found: list[Word] = []
    in_set = False
    for word in words:
        if word.upper == ";" and not in_set and not _begins_set([*found, word]):
            if found:
                yield found
            found = []
            continue
        # A column can have the name END, and CASE has an END, but none follows a semicolon.
        ends_set = in_set and word.upper == "END" and found[-1].upper in {";", "BEGIN"}
        found.append(word)
        in_set = not ends_set and (in_set or _begins_set(found))
    if in_set:
        raise SqlError.at(text, len(text), "the statement set has no END")
    if found:
        yield found


def _begins_set(words: Sequence[Word]) -> bool:
    """Return whether these parts are exactly the beginning of a statement set."""
    said = tuple(word.upper for word in words[:_LONGEST_HEAD])
    for before in (("EXPLAIN",), ("PLAN", "FOR")):
        said = said[len(before) :] if said[: len(before)] == before else said
    return len(words) < _LONGEST_HEAD and said in {*_SETS, _OLD_SET}


def _parse(reader: WordReader) -> Statement:
    match reader.peek(), reader.peek(1):
        case ("EXECUTE" | "BEGIN", "STATEMENT") | ("STATEMENT", "SET"):
            return _statement_set(reader)
        case "EXPLAIN", _:
            return _explain(reader)
        case "SHOW", kind:
            return _show(reader, kind)
        case (("SET" | "RESET"), _):
            return _option(reader)
        case "ALTER", "TABLE":
            return _alter(reader)
        case "ALTER", "FUNCTION" if reader.ends_with(*PYTHON):
            return alter_function(reader)
        case (("DESCRIBE" | "DESC"), _):
            return _describe(reader)
        case "STOP", "JOB":
            return StopJob(job=_job(reader))
        case "CREATE", _:
            return _create(reader)
        case "DROP", _:
            return _drop(reader)
        case "USE", _:
            return _use(reader)
        case "INSERT", _:
            return _insert(reader, "")
        case ("DELETE", "FROM") | ("UPDATE", _):
            return _change_rows(reader)
        case "WITH", _:
            return _with(reader)
        case first, _ if first in _QUERIES:
            return Query(text=_query(reader))
        case _:
            return SparkStatement(text=reader.rest())


def _of_spark(reader: WordReader, creates: Name | None = None) -> SparkStatement:
    reader.at = 0
    return SparkStatement(text=reader.rest(), creates=creates)


# --- Queries and INSERTs ---


def _with(reader: WordReader) -> Statement:
    """Parse a query, or an INSERT whose WITH comes first, as in Spark."""
    depth = 0
    for number, word in enumerate(reader.words):
        depth += (word.upper == "(") - (word.upper == ")")
        if depth == 0 and word.upper == "INSERT" and reader.words[number - 1].upper == ")":
            with_text = reader.text[reader.words[0].start : word.start]
            return _insert(WordReader(reader.text, reader.words[number:]), with_text)
    return Query(text=_query(reader))


def _insert(reader: WordReader, with_text: str) -> Insert:
    start = reader.place
    reader.expect("INSERT")
    overwrite = reader.take("OVERWRITE")
    if not overwrite:
        reader.expect("INTO")
    if overwrite and (reader.peek() == "DIRECTORY" or reader.peek(1) == "DIRECTORY"):
        raise reader.wrong("an INSERT writes to a table, not to a directory")
    if reader.peek() == "TABLE" and reader.peek(1) not in {".", "("}:
        reader.at += 1
    target = reader.name()
    partition: dict[str, str] = {}
    if reader.take("PARTITION"):
        for key, value in reader.listed(lambda: _partition_value(reader)):
            if value is not None:
                partition[key] = value
    columns: list[str] = []
    if reader.peek() == "(" and reader.peek(1) not in _QUERIES:
        columns = reader.listed(reader.identifier)
    twice = {each for each in columns if [c.lower() for c in columns].count(each.lower()) > 1}
    if twice:
        raise SqlError.at(reader.text, start, f"the column {min(twice)!r} comes twice")
    if reader.peek() not in _QUERIES:
        raise reader.wrong("the INSERT has no query", expected="SELECT, VALUES, or WITH")
    if with_text and reader.peek() == "WITH":
        raise reader.wrong("the INSERT has a second WITH")
    return Insert(
        target=target,
        query=_query(reader, with_text),
        columns=tuple(columns),
        partition=partition,
        overwrite=overwrite,
    )


def _change_rows(reader: WordReader) -> Statement:
    deletes = reader.word().upper == "DELETE"
    if deletes:
        reader.expect("FROM")
    start = reader.place
    target = reader.name()
    if not reader.is_done and reader.peek() not in {"SET", "WHERE"}:
        reader.take("AS")
        reader.identifier()
    origin = reader.text[start : reader.words[reader.at - 1].end]
    assigned: list[str] = []
    selected = "*"
    while not deletes and reader.take("," if assigned else "SET"):
        place, column = reader.place, reader.identifier()
        if not reader.take("="):
            return _of_spark(reader)  # a field of a column, which only Spark can set
        if column.lower() in map(str.lower, assigned):
            raise SqlError.at(reader.text, place, f"the column {column!r} comes twice")
        value = _expression(reader, lambda: reader.peek() in {",", "WHERE"})
        selected += f", ({value}) AS `{NEW_VALUE}{len(assigned)}`"
        assigned.append(column)
    if not deletes and not assigned:
        raise reader.wrong("the UPDATE sets no column", expected="SET")
    condition = f" WHERE {_expression(reader, lambda: False)}" if reader.take("WHERE") else ""
    reader.end()
    query = f"SELECT {selected} FROM {origin}{condition}"  # noqa: S608
    return ChangeRows(target=target, query=query, assigned=tuple(assigned))


def _expression(reader: WordReader, stops: Callable[[], bool]) -> str:
    """Return the text of an expression, which has the right form."""
    before, found = reader.place, reader.until(stops)
    # Parsed at its place, so that errors name the line and the column in the whole text.
    keyword = reader.words[0]
    parse_query(
        _blank(reader.text[: keyword.start])
        + "SELECT"  # as long as DELETE and UPDATE
        + _blank(reader.text[keyword.end : before])
        + found
    )
    return found


def _query(reader: WordReader, with_text: str = "") -> str:
    """Return the text of a query; `TABLE t` in the form in which sqlglot finds its table.

    Args:
        reader: The place of the query.
        with_text: The WITH of the query, if it comes before the INSERT.

    Raises:
        SqlError: The query is wrong.
    """
    if reader.take("TABLE"):
        return f"SELECT * FROM {reader.rest()}"  # noqa: S608
    before, query = reader.text[: reader.place], reader.rest()
    # Parsed at its place, so that errors name the line and the column in the whole text.
    start = before.rindex(with_text)
    end = start + len(with_text)
    parse_query(_blank(before[:start]) + with_text + _blank(before[end:]) + query)
    return with_text + query


def _blank(text: str) -> str:
    return _VISIBLE.sub(" ", text)


def _partition_value(reader: WordReader) -> tuple[str, str | None]:
    name = reader.identifier()
    return name, reader.until(lambda: reader.peek() == ",") if reader.take("=") else None


def _statement_set(reader: WordReader) -> StatementSet:
    reader.at = 4 if reader.words[0].upper in {"EXECUTE", "BEGIN"} else 3
    last = reader.words[-1]
    if last.upper != "END":
        raise SqlError.at(reader.text, last.start, "END ends a statement set")
    inserts = []
    for words in _statements(reader.text, reader.words[reader.at : -1]):
        statement = _parse(WordReader(reader.text, words))
        if not isinstance(statement, Insert):
            raise SqlError.at(reader.text, words[0].start, "a statement set contains only INSERTs")
        inserts.append(statement)
    if not inserts:
        raise SqlError.at(reader.text, last.start, "the statement set is empty")
    return StatementSet(inserts=tuple(inserts))


def _explain(reader: WordReader) -> Statement:
    reader.expect("EXPLAIN")
    reader.take("PLAN", "FOR")
    while reader.peek() in {"EXTENDED", "FORMATTED", "CODEGEN", "COST"}:
        reader.at += 1
    if reader.is_done:
        raise reader.wrong("the statement to explain is missing")
    statement = _parse(WordReader(reader.text, reader.words[reader.at :]))
    if isinstance(statement, Query | Insert | ChangeRows | StatementSet):
        return Explain(statement=statement)
    return _of_spark(reader)


# --- Options of the session, and what exists ---


def _option(reader: WordReader) -> Statement:
    """Parse SET and RESET of `key`, `'key'`, or `key = value`. Spark gets its own."""
    is_set = reader.word().upper == "SET"
    if reader.is_done:
        return SetOption() if is_set else Reset()
    if reader.words[reader.at].kind is Kind.TEXT:
        key = reader.string()
    else:
        key = reader.until(lambda: reader.peek() == "=")
        if not _OPTION_KEY.fullmatch(key):
            return _of_spark(reader)  # such as SET TIME ZONE
    has_value = is_set and reader.take("=")
    if not has_value and not reader.is_done:
        return _of_spark(reader)
    value = None
    if has_value:
        ends = reader.at + 1 == len(reader.words)
        value = reader.word().value if ends else reader.rest()
    if key.startswith(_SPARK):
        told = f"={value}" if has_value else ""
        return SparkStatement(text=f"{'SET' if is_set else 'RESET'} {key}{told}")
    return SetOption(key=key, value=value) if is_set else Reset(key=key)


def _show(reader: WordReader, kind: str) -> Statement:
    reader.at = 2
    if kind == "CURRENT" and reader.peek() in _CURRENT:
        kind = f"CURRENT {reader.word().upper}"
        return Show(kind=kind) if reader.is_done else _of_spark(reader)
    if kind == "CREATE" and reader.peek() in {"TABLE", "VIEW"}:
        reader.at = 3
        name = reader.name()
        return ShowCreate(name=name) if reader.is_done else _of_spark(reader)
    if kind == "USER" and reader.take("FUNCTIONS"):
        kind = "USER FUNCTIONS"
    if kind not in _SHOWN:
        return _of_spark(reader)
    parent: Name | None = None
    if kind in _IN_PARENT and (reader.take("IN") or reader.take("FROM")):
        parent = reader.name() if kind != "DATABASES" else (reader.identifier(),)
    return Show(kind=kind, parent=parent) if reader.is_done else _of_spark(reader)


def _job(reader: WordReader) -> str:
    reader.at = 2
    job = reader.string()
    if reader.peek() == "WITH":
        raise reader.wrong(
            "a job stops after its micro-batch and can resume, without a savepoint or a drain",
            expected="STOP JOB 'name'",
        )
    reader.end()
    return job


def _describe(reader: WordReader) -> Statement:
    if reader.peek(1) == "JOB" and len(reader.words) > 2 and reader.words[2].kind is Kind.TEXT:
        return DescribeJob(job=_job(reader))
    reader.at = 1
    kinds = {"FUNCTION", "DATABASE", "SCHEMA", "QUERY"}
    if reader.peek() == "FUNCTION" and (function := describe_function(reader)) is not None:
        return function
    if reader.peek() in kinds and reader.peek(1):
        return _of_spark(reader)
    reader.take("TABLE")
    if reader.peek() in {"EXTENDED", "FORMATTED"} and reader.peek(1) != ".":
        reader.at += len(reader.words) > reader.at + 1
    name = reader.name()
    return Describe(name=name) if reader.is_done else _of_spark(reader)


def _use(reader: WordReader) -> Statement:
    reader.at = 1
    follows = len(reader.words) > 2 and reader.peek(1) != "."
    is_catalog = follows and reader.take("CATALOG")
    if follows and not is_catalog:
        _ = reader.take("DATABASE") or reader.take("SCHEMA")
    name = reader.name()
    reader.end()
    return Use(name=name, is_catalog=is_catalog)


def _drop(reader: WordReader) -> Statement:
    reader.at = 1
    if reader.take("TEMPORARY", "SYSTEM", "FUNCTION"):  # Spark has one kind of temporary functions
        return SparkStatement(text=f"DROP TEMPORARY FUNCTION {reader.rest()}")
    kind = "DATABASE" if reader.peek() == "SCHEMA" else reader.peek()
    if kind not in {"TABLE", "VIEW", "FUNCTION", "DATABASE", "CATALOG"}:
        return _of_spark(reader)
    reader.at = 2
    if_exists = reader.take("IF", "EXISTS")
    names = [reader.name()]
    while reader.take(","):
        names.append(reader.name())
    cascade = kind == "DATABASE" and reader.take("CASCADE")
    if kind == "DATABASE" and not cascade:
        reader.take("RESTRICT")
    if not reader.is_done:
        return _of_spark(reader)
    if kind == "CATALOG" and any(len(name) > 1 for name in names):
        raise SqlError.at(reader.text, reader.words[2].start, "the name of a catalog has one part")
    return Drop(kind=kind, names=tuple(names), if_exists=if_exists, cascade=cascade)


def _alter(reader: WordReader) -> Statement:
    reader.at = 2
    name = reader.name()
    if reader.peek() == "SET" and reader.peek(1) == "(":
        reader.at += 1
        statement = AlterTable(name=name, set_options=reader.options())
    elif reader.peek() == "RESET" and reader.peek(1) == "(":
        reader.at += 1
        statement = AlterTable(name=name, reset_options=tuple(reader.listed(reader.string)))
    elif reader.take("RENAME", "TO"):
        statement = AlterTable(name=name, new_name=reader.name())
    else:
        return _of_spark(reader)
    reader.end()
    return statement


# --- CREATE ---


def _create(reader: WordReader) -> Statement:
    reader.at = 1
    replace = reader.take("OR", "REPLACE")
    temporary = reader.take("TEMPORARY") or reader.take("TEMP")
    match reader.peek():
        case "CATALOG" if not replace and not temporary:
            return _create_catalog(reader)
        case "DATABASE" | "SCHEMA" if not replace and not temporary:
            return _create_database(reader)
        case "VIEW":
            return _create_view(reader, replace=replace)
        case "FUNCTION" | "SYSTEM" if reader.ends_with(*PYTHON):
            return create_function(reader, replace=replace, temporary=temporary)
        case "TABLE" if _is_ours(reader):
            if replace or temporary:
                raise UnsupportedError(
                    "a table cannot be replaced or temporary",
                    expected="CREATE TABLE [IF NOT EXISTS]",
                    hint="DROP TABLE IF EXISTS ... first",
                )
            return _create_table(reader)
        case "TABLE" if not replace and not temporary and not _names_format(reader):
            reader.at += 1
            reader.take("IF", "NOT", "EXISTS")
            name = tuple(reader.name_of_any_length())
            return _of_spark(reader, creates=name if len(name) <= _LONGEST_NAME else None)
        case _:
            return _of_spark(reader)


def _names_format(reader: WordReader) -> bool:
    return any(word.upper in {"USING", "STORED"} for word in reader.words)


def _is_ours(reader: WordReader) -> bool:
    """Return whether a definition has options as in Flink, or names one of our formats."""
    depth = 0
    for number in range(reader.at, len(reader.words)):
        here, following = (reader.peek(n - reader.at) for n in (number, number + 1))
        depth += (here == "(") - (here == ")")
        if depth == 0 and here == "AS" and following in _QUERIES:
            return False
        if depth == 0 and (here, following) == ("WITH", "("):
            return True
        if depth == 0 and here == "USING" and following.startswith(_USING):
            return True
        if depth == 0 and here == "LIKE":
            return True  # unless that table is one of Spark
    return False


def _create_table(reader: WordReader) -> CreateTable:
    reader.expect("TABLE")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    schema = read_elements(reader) if reader.peek() == "(" else TableSchema()
    options: dict[str, str] = {}
    partition_keys: list[str] = []
    comment = query = None
    like: Name | None = None
    like_options = True
    seen: set[str] = set()
    while not reader.is_done:
        clause = reader.peek()
        if clause in seen:
            raise reader.wrong(f"{clause} comes twice")
        seen.add(clause)
        if reader.take("COMMENT"):
            comment = reader.string()
        elif reader.take("PARTITIONED", "BY"):
            start = reader.place
            partition_keys = reader.listed(reader.identifier)
            _check_partitions(reader, start, schema, partition_keys)
        elif reader.take("WITH"):
            options |= reader.options()
        elif reader.take("OPTIONS"):
            options |= reader.options(as_in_spark=True)
        elif reader.take("USING"):
            used = reader.identifier().lower()
            if not used.startswith(_USING.lower()):
                raise reader.wrong("a table has one connector", expected="USING connector_...")
            identifier = used.removeprefix(_USING.lower()).replace("_", "-")
            options.setdefault(CONNECTOR, identifier)
        elif reader.take("LIKE"):
            like = reader.name()
            like_options = reader.peek() != "(" or _includes_options(reader)
        elif reader.take("AS"):
            query = _query(reader)
        else:
            raise reader.wrong(
                "the definition has a part that is not known",
                expected="COMMENT, PARTITIONED BY, WITH, LIKE, or AS",
            )
    if query is not None and (schema.columns or like is not None):
        raise SqlError.at(
            reader.text,
            reader.words[0].start,
            "a table with a query has the columns of the query",
            expected="CREATE TABLE name WITH (...) AS SELECT ...",
        )
    table = CatalogTable(
        schema=schema,
        options=options,
        partition_keys=tuple(partition_keys),
        comment=comment,
    )
    return CreateTable(
        name=name,
        table=table,
        if_not_exists=if_not_exists,
        like=like,
        like_options=like_options,
        query=query,
    )


def _check_partitions(reader: WordReader, start: int, schema: TableSchema, keys: list[str]) -> None:
    names = {each.name for each in schema.columns}
    for key in keys:
        if names and key not in names:
            raise SqlError.at(
                reader.text, start, f"there is no column {key!r}", expected=", ".join(names)
            )


def _includes_options(reader: WordReader) -> bool:
    """Return whether `LIKE table (...)` copies options too. It always copies all else."""
    start = reader.place
    words = []
    reader.expect("(")
    while not reader.is_done and not reader.take(")"):
        words.append(reader.word().upper)
    if words == ["EXCLUDING", "OPTIONS"]:
        return False
    if words not in (["INCLUDING", "ALL"], ["INCLUDING", "OPTIONS"], []):
        raise SqlError.at(
            reader.text,
            start,
            "LIKE copies the whole definition",
            expected="LIKE table, with options in WITH that replace its own, or "
            "LIKE table (EXCLUDING OPTIONS)",
        )
    return True


def _create_catalog(reader: WordReader) -> CreateCatalog:
    reader.expect("CATALOG")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.identifier()
    comment = reader.string() if reader.take("COMMENT") else None
    reader.expect("WITH")
    options = reader.options()
    reader.end()
    return CreateCatalog(name=name, options=options, comment=comment, if_not_exists=if_not_exists)


def _create_database(reader: WordReader) -> Statement:
    reader.at += 1
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    return (
        CreateDatabase(name=name, if_not_exists=if_not_exists)
        if reader.is_done
        else _of_spark(reader)
    )


def _create_view(reader: WordReader, *, replace: bool) -> Statement:
    reader.expect("VIEW")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    name = reader.name()
    columns = reader.listed(reader.identifier) if reader.peek() == "(" else []
    comment = reader.string() if reader.take("COMMENT") else None
    if not reader.take("AS"):
        return _of_spark(reader)
    view = CatalogView(query=_query(reader), columns=tuple(columns), comment=comment)
    return CreateView(name=name, view=view, replace=replace, if_not_exists=if_not_exists)
