# SPDX-License-Identifier: Apache-2.0
"""The source: its settings and the creation of enumerators and readers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

import pyarrow as pa

from connector_nats.client import ALL, Client, StreamState, check_connection
from connector_nats.enumerator import EnumeratorState, StreamEnumerator
from connector_nats.layout import Layout, Metadata
from connector_nats.options import NAMES, SINCE, Connection
from connector_nats.reader import StreamReader
from connector_nats.split import StreamRead, StreamSplit
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.formats import (
    DecodingFormat,
    RawFormat,
    as_format,
    format_of,
    format_options,
)
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.options import (
    DURATION,
    Setting,
    list_of,
    not_empty,
    option,
    option_like,
    part,
    positive,
)
from connectors_core.schema import SCHEMA, SchemaLike
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.source import (
    SOURCE_BATCH_ROWS,
    Boundedness,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitTraits,
)

__all__ = ["NatsSource", "check_retention"]

_VALUE: Final = pa.schema([pa.field("value", pa.binary())])
_ACKNOWLEDGE_SECONDS: Final = 5.0


class NatsSource(
    Connection,
    Source[StreamSplit, EnumeratorState],
    SupportsConnectionCheck,
    LineageVertexProvider,
    scope="NATS source",
    since=SINCE,
):
    """Reads the messages of JetStream streams exactly once, in order within each stream.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: A setting is not valid.
    """

    event_types = (StreamRead,)

    streams: Setting[tuple[str, ...], tuple[str, ...] | list[str] | str] = option(
        "streams", list_of(str), validator=NAMES, aliases=("stream",), doc="Names of the streams."
    )
    subjects: Setting[tuple[str, ...], tuple[str, ...] | list[str] | str] = option(
        "subjects",
        list_of(str),
        default=ALL,
        validator=NAMES,
        doc="Subjects to read, which may have wildcards. By default, all of the streams.",
    )
    format: Setting[DecodingFormat, DecodingFormat | str] = part(
        None,
        *format_options(since=SINCE),
        build=lambda options: format_of(options) or RawFormat(),
        accept=as_format,
        default=RawFormat,
        doc="Format of the data of messages, or its name. By default, the data is the only column.",
    )
    columns: Setting[pa.Schema | None, SchemaLike | None] = option(
        "schema",
        SCHEMA,
        default=None,
        alias="schema",
        doc="Columns of the decoded data, as a Spark SQL schema. Only `raw` needs none.",
    )
    metadata_columns: Setting[
        tuple[Metadata, ...], tuple[Metadata | str, ...] | list[Metadata | str] | str
    ] = option(
        "metadata.columns",
        list_of(Metadata),
        default=(),
        doc="Columns after those of the data: `subject`, `sequence` in the stream, and `time` of "
        "storage.",
    )
    durable: Setting[str | None] = option(
        "source.durable",
        str,
        default=None,
        validator=not_empty,
        doc="Name of a durable consumer that acknowledges the messages of committed epochs. The "
        "source creates it. Streams with the retention `interest` need it. Needs NATS 2.14.",
    )
    discovery_interval: Setting[timedelta | None, timedelta | str | None] = option(
        "source.discovery-interval",
        DURATION,
        default=None,
        validator=positive,
        doc="Interval at which to look for new messages, which makes the source unbounded. By "
        "default, the source ends with the messages that exist when it starts.",
    )
    fail_on_data_loss: Setting[bool] = option(
        "source.fail-on-data-loss",
        bool,
        default=True,
        doc="Whether to fail if a stream has removed messages before they were read. Checked only "
        "if all subjects are read.",
    )
    batch_rows: Setting[int] = option_like(SOURCE_BATCH_ROWS, default=1_000, since=SINCE)

    def __post_init__(self) -> None:
        self.check()
        if self.columns is None and not isinstance(self.format, RawFormat):
            raise ConfigurationError(
                "the format needs columns", expected="'schema' with 'format'", option="schema"
            )
        self.layout = Layout(
            format=self.format,
            decoded=_VALUE if self.columns is None else self.columns,
            metadata=self.metadata_columns,
        )
        self.layout.check()

    def check_connection(self, timeout: float) -> None:
        """Check that a server responds. See `SupportsConnectionCheck`. Driver."""
        check_connection(self.connection, timeout)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Return the streams. Driver, without I/O."""
        return tuple(LineageDataset(namespace=self.namespace, name=name) for name in self.streams)

    def boundedness(self) -> Boundedness:
        """Return `BOUNDED`, unless the source looks for new messages."""
        if self.discovery_interval is None:
            return Boundedness.BOUNDED
        return Boundedness.CONTINUOUS_UNBOUNDED

    def schema(self) -> pa.Schema:
        """Return the columns of the data, and those of the metadata."""
        return self.layout.schema

    def create_enumerator(self, context: SplitEnumeratorContext[StreamSplit]) -> StreamEnumerator:
        """Read the streams from the start."""
        return self.restore_enumerator(context, EnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[StreamSplit], state: EnumeratorState
    ) -> StreamEnumerator:
        """Resume reading."""
        return StreamEnumerator(
            context, _Streams(self), interval=self.discovery_interval, state=state
        )

    def create_reader(self, context: SourceReaderContext) -> StreamReader:
        """Create a reader of streams."""
        return StreamReader(
            context,
            self.connection,
            subjects=self.subjects,
            layout=self.layout,
            batch_rows=self.batch_rows,
        )

    def split_serializer(self) -> VersionedSerializer[StreamSplit]:
        """Return JSON. After a release, another layout needs a new version and a migration."""
        return JsonDataclassSerializer(StreamSplit, version=1)

    def enumerator_state_serializer(self) -> VersionedSerializer[EnumeratorState]:
        """Return JSON, as for splits."""
        return JsonDataclassSerializer(EnumeratorState, version=1)

    def input_version(self, splits: Sequence[StreamSplit]) -> str | None:
        """Return the sequences of a batch run. A sequence stands for one message."""
        return json.dumps(sorted((each.stream, each.position, each.end) for each in splits))

    def split_traits(self) -> SplitTraits:
        """Return the traits. Plans have stops, and streams are read one after another."""
        return SplitTraits(end=True, ordered=True, replayable=True)

    def __repr__(self) -> str:
        kind = self.boundedness().value
        return f"NatsSource({', '.join(self.streams)}, {kind})"


class _Streams:
    """The streams of a source, for its enumerator. See `connector_nats.enumerator.Streams`."""

    def __init__(self, source: NatsSource) -> None:
        self._source = source
        self._client = Client(source.connection)
        self._acknowledging = Client(source.connection, _ACKNOWLEDGE_SECONDS)
        self._checked = False
        self.fails_on_loss = source.fail_on_data_loss and source.subjects == ALL

    def states(self) -> dict[str, StreamState]:
        """Return the states of all streams. The first call creates the durable consumers."""
        source = self._source
        states = {name: self._client.state(name, source.subjects) for name in source.streams}
        if not self._checked:
            for name, state in states.items():
                check_retention(name, state.retention, source.durable)
                if source.durable is not None:
                    self._client.create_durable(name, source.durable, source.subjects)
            self._checked = True
        return states

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Acknowledge all messages before a position of each stream, if a consumer is set."""
        if self._source.durable is not None:
            self._acknowledging.acknowledge(self._source.durable, positions)

    def close(self) -> None:
        """Disconnect."""
        self._client.close()
        self._acknowledging.close()


def check_retention(stream: str, retention: str, durable: str | None) -> None:
    """Check that a stream keeps the messages until they are read.

    Raises:
        ConfigurationError: It does not.
    """
    if retention == "workqueue":
        raise ConfigurationError(
            f"the stream {stream!r} is a work queue, which gives each message to one consumer once",
            expected="the retention 'limits' or 'interest'",
            option="streams",
            hint="with the retention 'interest' and source.durable, a stream also removes the "
            "messages that the pipeline has read",
        )
    if retention == "interest" and durable is None:
        raise ConfigurationError(
            f"the stream {stream!r} keeps messages only for its consumers",
            option="source.durable",
            hint="set source.durable, and start the pipeline before messages are published",
        )
