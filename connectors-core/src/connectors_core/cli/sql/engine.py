# SPDX-License-Identifier: Apache-2.0
"""What the shell needs from a table environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from connectors_core.engine.query.status import PipelineStatus

__all__ = ["Engine", "Result"]


class Result(Protocol):
    """The result of a statement, as text. A query runs when its rows are read."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns; none if the statement shows nothing."""

    @property
    def numbers(self) -> frozenset[int]:
        """The places of the columns with numbers."""

    @property
    def job(self) -> str | None:
        """The name of the job of an INSERT."""

    def rows(self, limit: int | None = None) -> Iterator[Sequence[str | None]]:
        """Yield the rows, at most as many as the limit."""

    def json_rows(self, limit: int | None = None) -> Iterator[str]:
        """Yield the rows as JSON objects, at most as many as the limit."""


class Engine(Protocol):
    """Runs statements. Only `cancel` and `jobs` may be called from other threads."""

    def execute(self, text: str) -> Result:
        """Run one statement. An INSERT into tables that end runs to its end.

        Raises:
            ConnectorError: It failed.
        """

    def cancel(self) -> None:
        """Cancel the statement that runs on the other thread, and jobs that it has started."""

    def jobs(self) -> Mapping[str, PipelineStatus]:
        """Return the jobs that this engine has started, by name."""

    def close(self) -> None:
        """Stop all jobs, and release everything."""
