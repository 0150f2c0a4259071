# SPDX-License-Identifier: Apache-2.0
"""The external system that a connector provides to the suites, case by case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import pyarrow as pa

from connectors_core.sink import AsyncSink, AsyncSinkWriterConfiguration, Sink
from connectors_core.source import Boundedness
from connectors_core.source.source import AnySource

ROWS: Final = pa.schema(
    [
        pa.field("split", pa.int64()),
        pa.field("seq", pa.int64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("text", pa.string()),
    ]
)
"""Schema of the rows that the suites write and expect: which split, which row of it, its event
time (a second after the one before), and a text of random length."""


class SplitDataWriter(ABC):
    """Writes the rows of one split; Flink's ``ExternalSystemSplitDataWriter``."""

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Add rows of :data:`ROWS` to the split; they are available when this returns.

        A split that cannot grow is a new split of the external system each time. With the
        capability `SCHEMA_CHANGE` rows may have a further column, a text with the name ``extra``.
        """

    def write_poison(self) -> None:
        """Add one record that cannot be read as :data:`ROWS`.

        Raises:
            NotImplementedError: The connector lacks the capability `POISON_READS`.
        """
        raise NotImplementedError

    def write_around_poison(self, *rows: pa.Table) -> None:
        """Add parts of a split with one record between each two that cannot be read.

        A split that cannot grow is one split here, in a form that holds the bad records, too.

        Raises:
            NotImplementedError: The connector lacks the capability `POISON_READS`.
        """
        first, *others = rows
        self.write(first)
        for part in others:
            self.write_poison()
            self.write(part)

    def close(self) -> None:
        """Release what the writer holds."""


class SourceExternalContext(ABC):
    """The external system of one case of a source; initially empty and not shared."""

    @abstractmethod
    def create_source(self, boundedness: Boundedness) -> AnySource:
        """Return a source of all data that was written through this context."""

    @abstractmethod
    def create_split(self) -> SplitDataWriter:
        """Return a new, empty split."""

    def create_typed_source(self, rows: pa.Table) -> AnySource:
        """Put rows of any types into the external system; a bounded source of them, in one split.

        Args:
            rows: Of two columns, ``id`` and ``value``; the source gives both with these types.

        Raises:
            NotImplementedError: The connector lacks the capability `DATA_TYPES`.
        """
        raise NotImplementedError

    def secrets(self) -> Sequence[str]:
        """Secrets that all sources of this context were given; no output may show them."""
        return ()

    def to_rows(self, read: pa.Table) -> pa.Table:
        """Convert the output of the source to :data:`ROWS`, for sources with another schema."""
        return read.select(ROWS.names).cast(ROWS)

    def close(self) -> None:
        """Remove what the case left in the external system."""


class SinkExternalContext(ABC):
    """The external system of one case of a sink; initially empty and not shared."""

    @abstractmethod
    def create_sink(self) -> Sink:
        """A sink for rows of :data:`ROWS`, or of other schemas with some of the capabilities."""

    @abstractmethod
    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        """Return all rows that a reader of the external system sees now.

        Args:
            schema: Of the rows to return. :data:`ROWS`; with a further column ``extra``, null in
                rows that have none (`SCHEMA_CHANGE`); or two columns ``id`` and ``value``
                (`DATA_TYPES`).
        """

    def lose(self, committables: Sequence[Any]) -> None:
        """Make the external system lose the data of committables that wait for a commit.

        A real system does this when a prepared transaction expires.

        Raises:
            NotImplementedError: The sink lacks the capability `REWRITING`.
        """
        raise NotImplementedError

    def assert_states(self, states: Sequence[Any], rows: int) -> None:
        """Check that the states of all writers match the decided rows.

        Args:
            states: The states of all writers in the newest decision.
            rows: Number of decided rows so far; all are visible.

        Raises:
            AssertionError: The states miss decided rows, or include undecided rows.
            NotImplementedError: The sink lacks the capability `WRITER_STATE`.
        """
        raise NotImplementedError

    def assert_post_committed(self, committables: Sequence[Any]) -> None:
        """Check that the post-commit topology has processed exactly these committables, once each.

        Args:
            committables: All that was decided on so far, of the newest decision at last.

        Raises:
            AssertionError: It has missed a committable, or processed one twice.
            NotImplementedError: The sink is no `SupportsPostCommitTopology`.
        """
        raise NotImplementedError

    def leftovers(self) -> Sequence[str]:
        """Return the names of staged data that was neither committed nor removed."""
        return ()

    def secrets(self) -> Sequence[str]:
        """Secrets that all sinks of this context were given; no output may show them."""
        return ()

    def close(self) -> None:
        """Remove what the case left in the external system."""


class RequestFault(StrEnum):
    """The failure of a request to the external system of an `AsyncSink`."""

    REFUSE_SOME = "refuse some"
    """It takes some entries and refuses at least one for now; never all where there are two."""
    REFUSE = "refuse"
    """It refuses the whole request for now, as a service that is asked too often."""
    REFUSE_FOR_GOOD = "refuse for good"
    """It refuses the whole request, and sending it again cannot help, as with a wrong login."""
    LOSE_ANSWER = "lose answer"
    """It takes all entries; then the connection ends without an answer."""
    STALL = "stall"
    """It stalls the request until it treats requests well again."""


class AsyncSinkExternalContext(SinkExternalContext):
    """The external system of an `AsyncSink`, which can be told to treat requests badly."""

    def create_sink(self) -> Sink:
        """A sink with bounds of the connector's choice."""
        return self.create_async_sink(AsyncSinkWriterConfiguration())

    @abstractmethod
    def create_async_sink(self, configuration: AsyncSinkWriterConfiguration) -> AsyncSink[Any]:
        """A sink for rows of :data:`ROWS` that keeps to these bounds.

        With the capability `KEYS` the rows of one ``split`` have one key.
        """

    @abstractmethod
    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        """Set the treatment of the next requests; effective when this returns.

        Args:
            fault: What becomes of them; None treats all requests well from now on, and sets free
                those that stall.
            requests: How many; None is all, until this is called again.
        """

    @abstractmethod
    def reject(self, seq: int) -> None:
        """From now on, never take a row with this ``seq``, as often as it is sent."""
