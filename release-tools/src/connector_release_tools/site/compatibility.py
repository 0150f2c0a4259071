# SPDX-License-Identifier: Apache-2.0
"""The page on what works together: the compatibility matrix as tables."""

from __future__ import annotations

from connector_release_tools.matrix.model import Matrix
from connector_release_tools.matrix.views import compatibility_table

__all__ = ["page"]


def page(matrix: Matrix) -> str:
    """The page, in Markdown."""
    spark = "\n".join(
        f"| {line} | {it.pyspark} | {it.python} | {it.java} | {', '.join(it.pins)} |"
        for line, it in matrix.spark.items()
        if it.end_of_life is None
    )
    return f"""# Compatibility

What is supported and tested together. Of every connector the newest major gets features, the one
before it fixes.

{compatibility_table(matrix, matrix.connectors)}

Each line of Spark is tested with:

| Spark | PySpark | Python | Java | and |
| --- | --- | --- | --- | --- |
{spark}
"""
