# SPDX-License-Identifier: Apache-2.0
"""Generates the page with the compatibility matrix."""

from __future__ import annotations

from connector_release_tools.matrix.model import Matrix
from connector_release_tools.matrix.views import compatibility_table

__all__ = ["page"]


def page(matrix: Matrix) -> str:
    """Return the page as Markdown.

    Args:
        matrix: The matrix.
    """
    spark = "\n".join(
        f"| {spark_line} | {it.pyspark} | {it.python} | {it.java} | {', '.join(it.pins)} |"
        for spark_line, it in matrix.spark.items()
        if it.end_of_life is None
    )
    return f"""# Compatibility

These versions are supported and tested together. The newest major of each connector receives
features. The one before it receives fixes.

{compatibility_table(matrix, matrix.connectors)}

Each Spark line is tested with these versions:

| Spark | PySpark | Python | Java | Pins |
| --- | --- | --- | --- | --- |
{spark}
"""
