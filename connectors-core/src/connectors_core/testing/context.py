# SPDX-License-Identifier: Apache-2.0
"""The external system that a connector provides to the suites, case by case."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
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
"""Schema of the rows that the suites write and expect.

A row has its split, its number in the split, its event time (one second after the previous row's),
and a text of random length.
"""


class SplitDataWriter(ABC):
    """Writes the rows of one split, like Flink's ``ExternalSystemSplitDataWriter``."""

    @abstractmethod
    def write(self, rows: pa.Table) -> None:
        """Add rows of :data:`ROWS` to the split. They are available on return.

        If splits cannot grow, each call creates a new split of the external system. With the
        capability `SCHEMA_CHANGE`, rows may have an additional text column ``extra``.
        """

    def cut(self, rows: int) -> None:
        """Make the split lose all but its first rows.

        Args:
            rows: The number of rows that remain.

        Raises:
            NotImplementedError: The connector lacks the capability `CUT_SPLITS`.
        """
        raise NotImplementedError

    def spoil(self) -> None:
        """Make the split unreadable for good, as a damaged file is.

        Raises:
            NotImplementedError: The connector lacks the capability `SKIPPED_SPLITS`.
        """
        raise NotImplementedError

    def replace(self, rows: pa.Table) -> None:
        """Make these rows the only rows of the split, which keeps its name.

        Args:
            rows: As many rows as were written to the split.

        Raises:
            NotImplementedError: The connector lacks the capability `REPLACED_SPLITS`.
        """
        raise NotImplementedError

    def late(self, rows: pa.Table) -> AbstractContextManager[None]:
        """Begin a transaction that adds rows to the split, and commit it at the end of the context.

        Rows that `write` adds meanwhile come after them in the split's own order, for example of
        its keys.

        Raises:
            NotImplementedError: The connector lacks the capability `LATE_COMMITS`.
        """
        raise NotImplementedError

    def write_poison(self) -> None:
        """Add one record that cannot be read as :data:`ROWS`.

        Raises:
            NotImplementedError: The connector lacks the capability `POISON_READS`.
        """
        raise NotImplementedError

    def write_around_poison(self, *rows: pa.Table) -> None:
        """Add parts of a split, with an unreadable record between each two parts.

        If splits cannot grow, the parts are one split here, in a format that allows bad records.

        Raises:
            NotImplementedError: The connector lacks the capability `POISON_READS`.
        """
        first, *others = rows
        self.write(first)
        for part in others:
            self.write_poison()
            self.write(part)

    def close(self) -> None:
        """Release the resources of the writer."""


class SourceExternalContext(ABC):
    """The external system of one source case, initially empty and not shared."""

    @abstractmethod
    def create_source(self, boundedness: Boundedness) -> AnySource:
        """Return a source of all data that was written through this context.

        If the source has a policy for lost data, it is to fail.
        """

    @abstractmethod
    def create_split(self) -> SplitDataWriter:
        """Return a new, empty split: a part of the system whose rows the source reads in order.

        In a table without parts, each split can be a range of keys.
        """

    def changed_sources(self, boundedness: Boundedness) -> Mapping[str, AnySource]:
        """Return sources of the same data, each with one other option than `create_source`.

        A restart on stored state with each of them must read every row once, or be refused.

        Returns:
            The sources by the name of the option.
        """
        return {}

    def create_skipping_source(self, boundedness: Boundedness) -> AnySource:
        """Return a source as `create_source` does, which skips splits that it cannot read.

        Raises:
            NotImplementedError: The connector lacks the capability `SKIPPED_SPLITS`.
        """
        raise NotImplementedError

    def create_typed_source(self, rows: pa.Table) -> AnySource:
        """Write rows of any types into one split, and return a bounded source of them.

        Args:
            rows: Rows with two columns, ``id`` and one that often is called ``value``. The source
                returns both with these names and types.

        Raises:
            NotImplementedError: The connector lacks the capability `DATA_TYPES`.
        """
        raise NotImplementedError

    def create_misfit_source(self, schema: pa.Schema, parts: Sequence[pa.Table]) -> AnySource:
        """Write the parts of one split in order, and return a bounded source of them.

        A case reads it with several pipelines.

        Args:
            schema: Two columns. The source declares and returns them.
            parts: Rows with these columns. In one part, a column has another type, and its value
                does not fit the schema.

        Raises:
            NotImplementedError: The connector lacks the capability `MISFITS`.
        """
        raise NotImplementedError

    def unacknowledged(self) -> int:
        """Return how many of the written rows the system keeps until they are acknowledged.

        It asks the system, not the connector. The lag of a consumer group is an example.

        Raises:
            NotImplementedError: The connector lacks the capability `ACKNOWLEDGED_READS`.
        """
        raise NotImplementedError

    def refusal(self) -> AbstractContextManager[None]:
        """Make the system refuse all reads of the source permanently, until the context ends.

        Raises:
            NotImplementedError: The connector lacks the capability `REFUSALS`.
        """
        raise NotImplementedError

    def format_options(self, boundedness: Boundedness) -> Mapping[str, str]:
        """Return the options of `create_source`, for the connector as a format of Spark.

        Raises:
            NotImplementedError: The connector has no `SourceFormatTestSuite`.
        """
        raise NotImplementedError

    def secrets(self) -> Sequence[str]:
        """Return the secrets given to all sources of this context. No output may show them."""
        return ()

    def to_rows(self, read: pa.Table) -> pa.Table:
        """Convert the output of the source to :data:`ROWS`, for sources with another schema."""
        return read.select(ROWS.names).cast(ROWS)

    def close(self) -> None:
        """Remove the remaining data of the case from the external system."""


class SinkExternalContext(ABC):
    """The external system of one sink case, initially empty and not shared."""

    @abstractmethod
    def create_sink(self) -> Sink:
        """Return a sink for rows of :data:`ROWS`. Some capabilities need other schemas."""

    def create_typed_sink(self, schema: pa.Schema) -> Sink:
        """Return a sink for rows of any types (`DATA_TYPES`), by default that of `create_sink`.

        A system that cannot learn the columns from the rows gets a table with these columns here,
        for example by a ``CREATE TABLE``.

        Args:
            schema: Two columns, ``id`` and one that often is called ``value``. `read_back` gets the
                same schema.
        """
        return self.create_sink()

    @abstractmethod
    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        """Return all rows that a reader of the external system currently sees.

        Args:
            schema: The schema of the returned rows. It is :data:`ROWS`, or :data:`ROWS` with the
                column ``extra``, which is null in rows without it (`SCHEMA_CHANGE`), or that of
                `create_typed_sink` (`DATA_TYPES`).
        """

    def format_options(self) -> Mapping[str, str]:
        """Return the options of `create_sink`, for the connector as a format of Spark.

        Raises:
            NotImplementedError: The connector has no `SinkFormatTestSuite`.
        """
        raise NotImplementedError

    def changed_sinks(self) -> Mapping[str, Sink]:
        """Return sinks into the same place, each with one other option than `create_sink`.

        A restart with each of them must write every row once, or be refused.

        Returns:
            The sinks by the name of the option.
        """
        return {}

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
            rows: The number of decided rows so far, all of them visible.

        Raises:
            AssertionError: The states miss decided rows, or include undecided rows.
            NotImplementedError: The sink lacks the capability `WRITER_STATE`.
        """
        raise NotImplementedError

    def assert_post_committed(self, committables: Sequence[Any]) -> None:
        """Check that the post-commit topology has processed exactly these committables, once each.

        Args:
            committables: All decided committables so far. Those of the newest decision come last.

        Raises:
            AssertionError: It has missed a committable, or processed one twice.
            NotImplementedError: The sink is not a `SupportsPostCommitTopology`.
        """
        raise NotImplementedError

    def leftovers(self) -> Sequence[str]:
        """Return the names of staged data that was neither committed nor removed."""
        return ()

    def secrets(self) -> Sequence[str]:
        """Return the secrets given to all sinks of this context. No output may show them."""
        return ()

    def close(self) -> None:
        """Remove the remaining data of the case from the external system."""


class RequestFault(StrEnum):
    """A fault of a request to the external system of an `AsyncSink`."""

    REFUSE_SOME = "refuse some"
    """The system accepts some entries and temporarily rejects at least one.

    It never rejects all of several entries.
    """
    REFUSE = "refuse"
    """The system temporarily rejects the whole request, as a busy service does."""
    REFUSE_FOR_GOOD = "refuse for good"
    """The system permanently rejects the whole request, as after a wrong login."""
    LOSE_ANSWER = "lose answer"
    """The system accepts all entries, but the connection ends before the response."""
    STALL = "stall"
    """The system stalls the request until the fault ends."""


class AsyncSinkExternalContext(SinkExternalContext):
    """The external system of an `AsyncSink`, which can make requests fail."""

    def create_sink(self) -> Sink:
        """Return a sink with limits of the connector's choice."""
        return self.create_async_sink(AsyncSinkWriterConfiguration())

    @abstractmethod
    def create_async_sink(self, configuration: AsyncSinkWriterConfiguration) -> AsyncSink[Any]:
        """Return a sink for rows of :data:`ROWS` with these limits.

        With the capability `KEYS`, the rows of one ``split`` have the same key.
        """

    @abstractmethod
    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        """Set the fault of the next requests. It is effective on return.

        Args:
            fault: The fault. None ends all faults and releases stalled requests.
            requests: The number of requests. None means all, until the next call.
        """

    @abstractmethod
    def reject(self, seq: int) -> None:
        """Reject every row with this ``seq`` from now on, as often as it is sent."""
