# SPDX-License-Identifier: Apache-2.0
"""The results of cells, stored in a file after each cell so that a run can resume."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from connector_release_tools.errors import CellError
from connector_release_tools.matrix.tested import DIGITS, Row, table_of

__all__ = ["RESULTS", "Outcome", "Result", "Results", "Selection"]

# The path from the top of the repository.
RESULTS: Final = Path("build", "matrix", "results.json")


class Outcome(enum.StrEnum):
    """The outcome of a cell."""

    PASSED = "passed"
    FAILED = "failed"


class Selection(enum.StrEnum):
    """The tests of a connector that a cell runs."""

    MARKED = "marked"
    ALL = "all"

    def covers(self, other: Selection) -> bool:
        """Return whether a run of this selection includes another selection."""
        return self is Selection.ALL or self is other


class Result(BaseModel):
    """The result of a cell.

    Attributes:
        digest: The digest of the inputs.
        tests: The tests that ran.
        outcome: The outcome.
        problems: The reasons of a failure.
        counts: The number of tests by outcome.
        new: Suite cases that are newer than the connector, with their outcomes.
        ran_on: The actual versions.
        tree: The tree of the connector.
        core: The tree of the core.
        seconds: The duration.
        finished: The end time.
    """

    model_config = ConfigDict(frozen=True)

    digest: str
    tests: Selection
    outcome: Outcome
    problems: tuple[str, ...] = ()
    counts: Mapping[str, int] = {}
    new: Mapping[str, str] = {}
    ran_on: Mapping[str, str] = {}
    tree: str
    core: str
    seconds: float
    finished: datetime.datetime

    @property
    def said(self) -> str:
        """The test counts as text."""
        counts = [f"{number} {how}" for how, number in self.counts.items()]
        new = [f"{len(self.new)} new cases"] if self.new else []
        return ", ".join([*counts, *new]) + ("" if self.tests is Selection.ALL else " (marked)")

    def holds_for(self, digest: str, tests: Selection) -> bool:
        """Return whether it shows that these tests pass with the inputs of this digest."""
        same = self.digest == digest and self.tests.covers(tests)
        return same and self.outcome is Outcome.PASSED


class Results(BaseModel):
    """The last result of each cell by release name."""

    model_config = ConfigDict(frozen=True)

    cells: Mapping[str, Result] = {}

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the results from a file; empty if it does not exist.

        Raises:
            CellError: The file has other contents.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return cls()
        except ValidationError as error:
            raise CellError(
                f"{path} does not contain cell results", hint="remove the file; all cells run again"
            ) from error

    def having(self, name: str, result: Result, known: Collection[str]) -> Self:
        """Return the results with another one added, without cells that left the matrix.

        Args:
            name: The release name of the cell.
            result: The result of the cell.
            known: The release names of all cells of the matrix.
        """
        cells = {**self.cells, name: result}
        return type(self)(cells={each: cells[each] for each in sorted(cells) if each in known})

    def write(self, path: Path) -> None:
        """Write the results, and next to them the table `results.md`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".tmp")
        draft.write_text(self.model_dump_json(indent=2) + "\n", encoding="utf-8")
        draft.replace(path)
        path.with_suffix(".md").write_text(self.markdown(), encoding="utf-8")

    def rows(self) -> list[Row]:
        """Return the results as rows of a table."""
        return [
            Row(
                release=name,
                result=str(result.outcome),
                tests=result.said,
                core=result.ran_on.get("core", ""),
                spark=result.ran_on.get("spark", ""),
                java=result.ran_on.get("java", ""),
                python=result.ran_on.get("python", ""),
                tree=result.tree[:DIGITS],
                core_tree=result.core[:DIGITS],
                date=str(result.finished.date()),
            )
            for name, result in self.cells.items()
        ]

    def markdown(self) -> str:
        """Return the results as a table."""
        return f"{table_of(self.rows())}\n"
