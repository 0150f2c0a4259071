# SPDX-License-Identifier: Apache-2.0
"""Reads statements about functions of Python."""

from __future__ import annotations

from typing import Final

from connectors_core.errors import UnsupportedError
from connectors_core.table.sql.dialect import Kind
from connectors_core.table.sql.errors import SqlError
from connectors_core.table.sql.statements import AlterFunction, CreateFunction, DescribeFunction
from connectors_core.table.sql.word_reader import WordReader

__all__ = ["PYTHON", "alter_function", "create_function", "describe_function"]

PYTHON: Final = ("LANGUAGE", "PYTHON")
"""The words that end the definition of such a function. Others are Spark's own."""


def create_function(reader: WordReader, *, replace: bool, temporary: bool) -> CreateFunction:
    """Read the rest of `CREATE [OR REPLACE] [TEMPORARY]`.

    Raises:
        SqlError: The statement is wrong.
        UnsupportedError: It replaces a function of a catalog.
    """
    if temporary:
        reader.take("SYSTEM")
    elif replace:
        raise UnsupportedError(
            "CREATE FUNCTION replaces no function of a catalog",
            expected="CREATE FUNCTION [IF NOT EXISTS]",
            hint="use ALTER FUNCTION",
        )
    reader.expect("FUNCTION")
    if_not_exists = reader.take("IF", "NOT", "EXISTS")
    start, name = reader.place, reader.name()
    if temporary and len(name) > 1:
        message = "the name of a temporary function has one part"
        raise SqlError.at(reader.text, start, message, expected=name[-1])
    return CreateFunction(
        name=name,
        identifier=_identifier_of_python(reader),
        is_temporary=temporary,
        replace=replace,
        if_not_exists=if_not_exists,
    )


def alter_function(reader: WordReader) -> AlterFunction:
    """Read `ALTER FUNCTION`.

    Raises:
        SqlError: The statement is wrong.
    """
    reader.at = 2
    if_exists = reader.take("IF", "EXISTS")
    name = reader.name()
    return AlterFunction(name=name, identifier=_identifier_of_python(reader), if_exists=if_exists)


def describe_function(reader: WordReader) -> DescribeFunction | None:
    """Read `DESCRIBE FUNCTION`, or return None if it has more than a name."""
    words = reader.words[2:]
    names, dots = words[::2], words[1::2]
    is_name = all(word.kind in {Kind.WORD, Kind.NAME} for word in names)
    if len(words) not in {1, 3, 5} or not is_name or any(word.upper != "." for word in dots):
        return None
    return DescribeFunction(name=tuple(word.value for word in names))


def _identifier_of_python(reader: WordReader) -> str:
    reader.expect("AS")
    identifier = reader.string()
    reader.expect(*PYTHON)
    reader.end()
    return identifier
