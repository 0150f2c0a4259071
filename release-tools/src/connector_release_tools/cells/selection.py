# SPDX-License-Identifier: Apache-2.0
"""Selects the cells of the matrix that a run tests."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from connector_release_tools.errors import MatrixError
from connector_release_tools.matrix.model import Cell, Matrix

__all__ = ["corners", "select"]


def select(
    matrix: Matrix,
    *,
    connector: str | None = None,
    major: int | None = None,
    spark: str | None = None,
) -> list[Cell]:
    """Return the cells of a connector, a major, and a Spark line; None selects all.

    Args:
        matrix: The matrix.
        connector: The name of a connector.
        major: The number of a major.
        spark: A Spark line.

    Raises:
        MatrixError: The matrix contains no such cell.
    """
    cells = list(matrix.cells())
    wanted = {"connector": connector, "major": major, "Spark": spark}
    for what, value in wanted.items():
        if value is None:
            continue
        known = dict.fromkeys(_part(cell, what) for cell in cells)
        cells = [cell for cell in cells if _part(cell, what) == str(value)]
        if not cells:
            raise MatrixError(
                f"the matrix supports no {what} {value}",
                hint=f"choose one of {', '.join(known)}" if known else "",
            )
    return cells


def corners(cells: Iterable[Cell]) -> list[Cell]:
    """Return the newest majors on the oldest Spark, and the oldest majors on the newest Spark.

    These cells combine the newest code with the oldest, so they show incompatibilities first.
    """
    found = []
    for _, group in groupby(cells, key=lambda cell: cell.connector):
        own = list(group)  # newest major first, newest line first
        newest, oldest = own[0].major, own[-1].major
        found.append([cell for cell in own if cell.major is newest][-1])
        found.append(next(cell for cell in own if cell.major is oldest))
    return list({cell.release: cell for cell in found}.values())


def _part(cell: Cell, what: str) -> str:
    if what == "connector":
        return cell.connector
    return str(cell.spark if what == "Spark" else cell.release.version.version.major)
