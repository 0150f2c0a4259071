# SPDX-License-Identifier: Apache-2.0
"""Views of the matrix for people and programs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterable

from rich.table import Table

from connector_release_tools.matrix.model import Cell, Major, Matrix

__all__ = ["as_github", "as_json", "as_table", "cell_entry", "compatibility_table"]


def as_table(matrix: Matrix) -> Table:
    """Return the majors of all connectors as a table for a terminal."""
    columns, *rows = _rows(matrix, matrix.connectors)
    table = Table()
    for column in columns:
        table.add_column(column, no_wrap=column != "Gets")
    for row in rows:
        table.add_row(*row)
    return table


def compatibility_table(matrix: Matrix, names: Collection[str], *, in_release: bool = False) -> str:
    """Return the majors of some connectors as a Markdown table.

    Args:
        matrix: The matrix.
        names: The connectors.
        in_release: Whether a release contains the table, so that no major is marked as unreleased.
    """
    columns, *rows = _rows(matrix, names, in_release=in_release)
    return "\n".join(
        "| " + " | ".join(row) + " |" for row in (columns, ["---"] * len(columns), *rows)
    )


def as_json(matrix: Matrix) -> str:
    """Return the whole matrix and its cells as JSON."""
    said = matrix.model_dump(mode="json", exclude_none=True)
    cells = [cell_entry(matrix, cell) for cell in matrix.cells()]
    return json.dumps({**said, "cells": cells}, indent=2)


def as_github(matrix: Matrix, cells: Iterable[Cell]) -> str:
    """Return cells as one line of JSON, for `strategy.matrix` of a workflow."""
    return json.dumps({"include": [cell_entry(matrix, cell) for cell in cells]})


def cell_entry(matrix: Matrix, cell: Cell) -> dict[str, str]:
    """Return a cell for programs."""
    spark = matrix.spark[str(cell.spark)]
    return {
        "name": str(cell.release),
        "connector": cell.connector,
        "major": str(cell.release.version.version.major),
        "version": cell.major.version,
        "spark": str(cell.spark),
        "pyspark": spark.pyspark,
        "python": spark.python,
        "java": spark.java,
        "commit": cell.major.commit or "",
        "tree": cell.major.tree or "",
    }


def _rows(matrix: Matrix, names: Collection[str], *, in_release: bool = False) -> list[list[str]]:
    """Return the head and a row for each major, without empty columns."""
    spark_lines = list(map(str, matrix.spark_lines))
    columns = [f"Spark {each}" for each in spark_lines]
    head = ["Connector", "Gets", *columns, "Core", "Clients", "Servers"]
    rows = [
        [
            f"{name} {number}",
            _status(major, in_release=in_release),
            *(f"{major.version}-{each}" if each in major.spark else "no" for each in spark_lines),
            major.core,
            ", ".join(f"{client} {wanted}" for client, wanted in major.client.items()),
            ", ".join(f"{server} {', '.join(each)}" for server, each in major.servers.items()),
        ]
        for name, connector in matrix.connectors.items()
        if name in names
        for number, major in connector.majors.items()
    ]
    filled = [any(cells) for cells in zip(*rows, strict=True)]
    return [list(itertools.compress(row, filled)) for row in (head, *rows)]


def _status(major: Major, *, in_release: bool) -> str:
    if major.commit is None and not in_release:
        return f"{major.status}; not released yet"
    if not major.is_supported:
        return f"none: end of life {major.end_of_life}"
    return str(major.status)
