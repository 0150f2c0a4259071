# SPDX-License-Identifier: Apache-2.0
"""The session, its JVM, and their errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_classic(spark: SparkSession) -> bool:
    """Return whether the session has a JVM that this process can call, unlike Spark Connect."""
    return getattr(spark, "_jvm", None) is not None


def jvm_of(spark: SparkSession) -> Any:
    """Return the packages of the session's JVM."""
    return cast(Any, spark)._jvm


def java_class(spark: SparkSession, name: str) -> Any:
    """Return a class of the session's JVM, without asking the JVM for its packages one by one.

    Args:
        spark: The session.
        name: The full name of the class.
    """
    from py4j.java_gateway import JavaClass

    return JavaClass(name, jvm_of(spark)._gateway_client)


def dataset_class(spark: SparkSession) -> Any:
    """Return Spark's ``Dataset``, whose package changed in Spark 4."""
    package = "sql" if spark.version.startswith("3.") else "sql.classic"
    return java_class(spark, f"org.apache.spark.{package}.Dataset")


def java_session(spark: SparkSession) -> Any:
    """Return the session's JVM object."""
    return cast(Any, spark)._jsparkSession


def java_version(spark: SparkSession) -> str:
    """Return the version of the session's JVM."""
    return str(jvm_of(spark).java.lang.System.getProperty("java.version"))


def exit_status_of_jvm() -> int | None:
    """Return the exit status of the JVM that this process started; None if it is running."""
    from pyspark import SparkContext

    process = getattr(cast(Any, SparkContext)._gateway, "proc", None)
    return None if process is None else cast(int | None, process.poll())


def is_error_of_spark(error: BaseException) -> bool:
    """Return whether pyspark or py4j raised an error."""
    return any(
        kind.__module__.partition(".")[0] in ("pyspark", "py4j") for kind in type(error).__mro__
    )
