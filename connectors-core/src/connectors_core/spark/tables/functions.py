# SPDX-License-Identifier: Apache-2.0
"""Functions of Python in queries, which a statement names by their module."""

from __future__ import annotations

import pkgutil
import types
import typing
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.schema.ddl import quoted
from connectors_core.table.sql.statements import CreateFunction

__all__ = ["create_function", "is_table_function", "python_function"]

_DECORATED: Final = "evalType"
_TYPES: Final = {
    bool: st.BooleanType(),
    bytes: st.BinaryType(),
    date: st.DateType(),
    datetime: st.TimestampType(),
    Decimal: st.DecimalType(38, 18),
    float: st.DoubleType(),
    int: st.LongType(),
    str: st.StringType(),
}


def create_function(spark: SparkSession, statement: CreateFunction) -> None:
    """Give a function of Python a name in the queries of a session.

    Raises:
        ConfigurationError: The name is taken, or the module has no such function.
        InvalidOptionError: The type of the result is unknown.
    """
    (name,) = statement.name
    if not statement.replace and spark.catalog.functionExists(quoted(name)):
        if statement.if_not_exists:
            return
        raise ConfigurationError(
            f"the function {name} exists", hint="use IF NOT EXISTS, or OR REPLACE"
        )
    function = python_function(statement.identifier)
    if is_table_function(function):
        spark.udtf.register(name, function)
    else:
        spark.udf.register(name, function)


def python_function(identifier: str) -> Any:
    """Import a function, and return what Spark's `udf` or `udtf` makes of it.

    Raises:
        ConfigurationError: The module has no such function.
        InvalidOptionError: The type of the result is unknown.
    """
    function = _imported(identifier)
    if hasattr(function, _DECORATED):
        return function
    return sf.udf(function, _result_of(identifier, function), useArrow=False)


def _imported(identifier: str) -> Any:
    try:
        found = pkgutil.resolve_name(identifier)
    except Exception as error:  # whatever the module raises
        raise ConfigurationError(
            f"there is no function {identifier}",
            expected="the name of a module that Python can import, a dot, and a function",
            found=str(error),
        ) from error
    if not callable(found):
        raise ConfigurationError(f"{identifier} is no function", found=type(found).__name__)
    return found


def is_table_function(function: Any) -> bool:
    """Return whether `udtf` has made a function."""
    from pyspark.sql.udtf import UserDefinedTableFunction

    return isinstance(function, UserDefinedTableFunction)


def _result_of(identifier: str, function: Callable[..., Any]) -> st.DataType:
    try:
        return _spark_type(typing.get_type_hints(function)["return"])
    except (KeyError, NameError, TypeError, ValueError) as error:
        raise InvalidOptionError(
            f"the function {identifier} does not state the type of its result",
            expected="one of bool, bytes, date, datetime, Decimal, float, int, str, and lists, "
            "dicts, and | None of them",
            found=str(error),
            option="AS",
            hint="annotate its result, or decorate it with udf, pandas_udf, or arrow_udf",
        ) from error


def _spark_type(hint: Any) -> st.DataType:
    """Return the type of Spark that a type hint means.

    Raises:
        KeyError: It means none.
        ValueError: It is a union of several types.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {typing.Union, types.UnionType}:
        (only,) = (each for each in arguments if each is not type(None))
        return _spark_type(only)
    if origin is list:
        return st.ArrayType(_spark_type(arguments[0]))
    if origin is dict:
        key, value = map(_spark_type, arguments)
        return st.MapType(key, value)
    return _TYPES[hint]
