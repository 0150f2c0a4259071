# SPDX-License-Identifier: Apache-2.0
"""The exact inputs of a cell; two runs with the same digest test the same bytes."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from connector_release_tools.environments import constraints
from connector_release_tools.errors import HistoryError
from connector_release_tools.git import Repository
from connector_release_tools.matrix.model import CORE, Cell, Matrix, Spark
from connector_release_tools.matrix.pins import tree_of

__all__ = ["Subject", "subject"]


@dataclass(frozen=True)
class Subject:
    """The inputs of a cell.

    Attributes:
        cell: The connector major and the Spark line.
        spark: The matrix entry of the Spark line.
        tree: The tree with the connector and its tests.
        core: The tree of the core.
        constraints: The versions of all other packages.
        seconds: The time of the connector's commit.
    """

    cell: Cell
    spark: Spark
    tree: str
    core: str
    constraints: tuple[str, ...]
    seconds: int

    @property
    def name(self) -> str:
        """Its name in paths, such as `connector-kafka-3.1.2-3.5`."""
        return str(self.cell.release).replace(" ", "-")

    @property
    def digest(self) -> str:
        """The digest of everything that affects the tests."""
        parts = [
            str(self.cell.release),
            self.tree,
            self.core,
            *sorted(self.constraints),
            self.spark.python,
            self.spark.java,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def subject(
    repository: Repository, matrix: Matrix, cell: Cell, *, working_tree: bool = False
) -> Subject:
    """Return the current inputs of a cell.

    Args:
        repository: The repository.
        matrix: Its matrix.
        cell: The cell.
        working_tree: Whether the core and an unreleased connector are used with uncommitted
            changes.

    Raises:
        HistoryError: The pinned tree is not in this clone.
    """
    if working_tree and cell.major.tree is None:
        tree = repository.working_tree(cell.connector)
    else:
        tree = tree_of(repository, cell.connector, cell.major)
    core = repository.working_tree(CORE) if working_tree else repository.object_id(f"HEAD:{CORE}")
    if core is None:
        raise HistoryError(f"HEAD does not contain the folder {CORE}")
    spark = matrix.spark[str(cell.spark)]
    return Subject(
        cell=cell,
        spark=spark,
        tree=tree,
        core=core,
        constraints=tuple(constraints(repository.root, cell.spark)),
        seconds=repository.seconds(cell.major.commit or "HEAD"),
    )
