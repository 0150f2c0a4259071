# SPDX-License-Identifier: Apache-2.0
"""The page on what works together: the compatibility matrix as tables."""

from __future__ import annotations

from connector_release_tools.cells.results import Results
from connector_release_tools.matrix.model import Matrix
from connector_release_tools.matrix.views import compatibility_table

__all__ = ["page"]


def page(matrix: Matrix, results: Results) -> str:
    """The page, in Markdown.

    Args:
        matrix: The matrix.
        results: How its cells ended where the site is built.
    """
    last = results.markdown() if results.cells else "None has run where this site was built.\n"
    spark = "\n".join(
        f"| {spark_line} | {it.pyspark} | {it.python} | {it.java} | {', '.join(it.pins)} |"
        for spark_line, it in matrix.spark.items()
        if it.end_of_life is None
    )
    return f"""# Compatibility

What is supported and tested together. Of every connector the newest major gets features, the one
before it fixes.

{compatibility_table(matrix, matrix.connectors)}

Each Spark line is tested with:

| Spark | PySpark | Python | Java | and |
| --- | --- | --- | --- | --- |
{spark}

## Last results

Each release as a wheel, with the core of the tree, as `release-tools test` found it.

{last}"""
