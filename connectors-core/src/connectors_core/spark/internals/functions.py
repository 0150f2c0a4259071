# SPDX-License-Identifier: Apache-2.0
"""Functions that have one name for Spark, and another one for the reader of a result."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.udf import UserDefinedFunction

from connectors_core.spark.internals.sessions import java_session

__all__ = ["register_function"]


def register_function(spark: SparkSession, name: str, function: Any, *, shown: str) -> None:
    """Add a temporary function to a session.

    Args:
        spark: The session.
        name: Its name in statements.
        function: The function, as `udf` or `pandas_udf` returns it.
        shown: Its name in the names of columns, and in plans.
    """
    renamed: Any = UserDefinedFunction(
        function.func,
        returnType=function.returnType,
        name=shown,
        evalType=function.evalType,
        deterministic=function.deterministic,
    )
    java_session(spark).udf().registerPython(name, renamed._judf)
