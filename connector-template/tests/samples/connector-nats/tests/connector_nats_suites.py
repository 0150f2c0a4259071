# SPDX-License-Identifier: Apache-2.0
"""The core's suites for this connector: its test data and its capabilities."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from connector_nats.publisher import Message, Outcome, Publisher
from connector_nats.sink import NatsSink
from connector_nats.source import NatsSource
from connector_nats.testing import NatsSystem, Stream
from connector_nats.writer import MessageWriter
from connectors_core.errors import ConfigurationError, RetryableError
from connectors_core.formats import JsonFormat
from connectors_core.sink import AsyncSink, AsyncSinkWriterConfiguration, WriterInitContext
from connectors_core.source import Boundedness
from connectors_core.testing import (
    ROWS,
    AsyncSinkExternalContext,
    Capabilities,
    Capability,
    RequestFault,
    SinkFormatTestSuite,
    SinkTestSuite,
    SourceExternalContext,
    SourceFormatTestSuite,
    SourceTestSuite,
    SplitDataWriter,
)
from connectors_core.testing.servers import direct_address

# The version of the suites that these tests are written for. Cases of later versions are new.
SUITES = "1.5"
DURABLE: Final = "suite"
IN_JSON: Final = {
    "day-time interval": "JSON has no lengths of time",
}
SOURCE = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.UNBOUNDED,
            Capability.GROWING_SPLITS,
            Capability.CUT_SPLITS,
            Capability.INPUT_VERSION,
            Capability.ACKNOWLEDGED_READS,
            Capability.POISON_READS,
            Capability.MISFITS,
            Capability.REPLAYABLE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
        Capability.DISCOVERY: "the source reads the streams that it is given",
        Capability.REPLACED_SPLITS: "a stream keeps its messages",
        Capability.SKIPPED_SPLITS: "no option skips what cannot be read",
        Capability.LATE_COMMITS: "a message has its sequence when it is visible",
        Capability.REFUSALS: "the server checks the token of a connection only at its start",
    },
    cannot_carry=IN_JSON,
)
SINK = Capabilities(
    can=frozenset(
        {
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
        Capability.EXACTLY_ONCE: "a stored message cannot be rolled back",
        Capability.COMMITTED_EPOCHS: "it has no committer",
        Capability.LEASES: "it has no committer",
        Capability.REWRITING: "it has no committer",
        Capability.KEYS: "messages that are published again overtake each other",
        Capability.WRITER_STATE: "every request is independent",
        Capability.TOPOLOGIES: "it has no committer",
    },
    cannot_carry=IN_JSON,
)


class OnNats:
    """What all suites share."""

    system = NatsSystem()
    written_for = SUITES


class StreamWriter(SplitDataWriter):
    """Publishes to one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, rows: pa.Table) -> None:
        self._stream.publish(encoded(rows))

    def cut(self, rows: int) -> None:
        self._stream.cut(rows)

    def write_poison(self) -> None:
        self._stream.publish([b'{"seq": "not a number"'])


class SourceStreams(SourceExternalContext):
    """New streams for one case of a source."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._case = f"suite-{uuid.uuid4().hex}"
        self._token = uuid.uuid4().hex
        self._streams: list[Stream] = []

    def create_split(self) -> StreamWriter:
        return StreamWriter(self._create(f"{self._case}-{len(self._streams)}"))

    def create_source(self, boundedness: Boundedness) -> NatsSource:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        return NatsSource(
            self._address,
            token=self._token,
            streams=[each.name for each in self._streams] or [self._create(self._case).name],
            format="json",
            schema=ROWS,
            discovery_interval=timedelta(milliseconds=50) if endless else None,
            durable=DURABLE if endless else None,
            batch_rows=7,  # so that a split is read in many steps
        )

    def changed_sources(self, boundedness: Boundedness) -> Mapping[str, NatsSource]:
        return {"batch_rows": self.create_source(boundedness).replaced(batch_rows=3)}

    def format_options(self, boundedness: Boundedness) -> Mapping[str, str]:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        options = {
            "servers": self._address,
            "token": self._token,
            "streams": ",".join(each.name for each in self._streams),
            "format": "json",
            "schema": "split BIGINT, seq BIGINT, at TIMESTAMP, text STRING",
        }
        return options | ({"source.discovery-interval": "50 ms"} if endless else {})

    def create_typed_source(self, rows: pa.Table) -> NatsSource:
        return self.create_misfit_source(rows.schema, [rows])

    def create_misfit_source(self, schema: pa.Schema, parts: Sequence[pa.Table]) -> NatsSource:
        stream = self._create(f"{self._case}-typed")
        for part in parts:
            stream.publish(encoded(part))
        return NatsSource(self._address, streams=stream.name, format="json", schema=schema)

    def unacknowledged(self) -> int:
        return sum(each.state().next - 1 - each.acknowledged(DURABLE) for each in self._streams)

    def secrets(self) -> Sequence[str]:
        return [self._token]

    def close(self) -> None:
        for stream in self._streams:
            stream.delete()

    def _create(self, name: str) -> Stream:
        stream = Stream(direct_address(self._address), name)
        stream.create()
        self._streams.append(stream)
        return stream


class OfSource(OnNats):
    """What the suites of the source and of its parts share."""

    capabilities = SOURCE

    def external_context(self, folder: Path) -> SourceStreams:
        return SourceStreams(self.address)


class SourceSuite(OfSource, SourceTestSuite):
    pass


class SourceFormatSuite(OfSource, SourceFormatTestSuite):
    format = "connector_nats"


class Faults:
    """The faults of the next requests. The messages that get through reach the real server."""

    def __init__(self) -> None:
        self.rejected: set[int] = set()
        self._fault: RequestFault | None = None
        self._requests: int | None = None
        self._over: list[asyncio.Event] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    def set(self, fault: RequestFault | None, requests: int | None) -> None:
        self._fault, self._requests = fault, requests
        if fault is None and self._loop is not None:
            for event in self._over:
                self._loop.call_soon_threadsafe(event.set)

    def next(self) -> RequestFault | None:
        if self._requests == 0:
            return None
        if self._requests is not None:
            self._requests -= 1
        return self._fault

    async def over(self) -> None:
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._over.append(event)
        await event.wait()


class FaultyPublisher(Publisher):
    """A publisher whose server mistreats requests."""

    def __init__(self, faults: Faults, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._faults = faults

    async def publish(self, messages: Sequence[Message]) -> list[Outcome]:
        fault = self._faults.next()
        if fault is RequestFault.STALL:
            await self._faults.over()
        if fault is RequestFault.REFUSE:
            raise RetryableError("the stream is full")
        if fault is RequestFault.REFUSE_FOR_GOOD:
            raise ConfigurationError("the server rejects the login", option="token")
        some = fault is RequestFault.REFUSE_SOME
        outcomes = {
            number: Outcome.REFUSED if self._is_rejected(each) else Outcome.BUSY
            for number, each in enumerate(messages)
            if self._is_rejected(each) or (some and number % 2 == 0)
        }
        sent = [number for number in range(len(messages)) if number not in outcomes]
        stored = await super().publish([messages[number] for number in sent])
        if fault is RequestFault.LOSE_ANSWER:
            raise RetryableError("the server does not respond")
        outcomes |= zip(sent, stored, strict=True)
        return [outcomes[number] for number in range(len(messages))]

    def _is_rejected(self, message: Message) -> bool:
        return json.loads(message.body).get("seq") in self._faults.rejected


class FaultySink(NatsSink):
    """A sink for the suite of its writer, in this process."""

    faults: Faults

    def create_writer(self, context: WriterInitContext) -> MessageWriter:
        publisher = FaultyPublisher(self.faults, self.connection, self.stream)
        return MessageWriter(self.columns, publisher, context, self.configuration)


class SinkStream(AsyncSinkExternalContext):
    """A new stream for one case of a sink."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._token = uuid.uuid4().hex
        self._stream = Stream(direct_address(address), f"suite-{uuid.uuid4().hex}")
        self._stream.create()
        self._faults = Faults()

    def create_sink(self) -> NatsSink:
        return NatsSink.from_options(self.format_options())

    def create_async_sink(self, configuration: AsyncSinkWriterConfiguration) -> AsyncSink[Message]:
        sink = FaultySink(
            self._address,
            subject=self._stream.subject,
            token=self._token,
            configuration=configuration,
        )
        sink.faults = self._faults
        return sink

    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        self._faults.set(fault, requests)

    def reject(self, seq: int) -> None:
        self._faults.rejected.add(seq)

    def format_options(self) -> Mapping[str, str]:
        return {
            "servers": self._address,
            "token": self._token,
            "subject": self._stream.subject,
            "stream": self._stream.name,
        }

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        decoded = JsonFormat().decode(self._stream.messages().column("data"), schema)
        assert not decoded.bad
        return pa.Table.from_batches([decoded.rows])

    def secrets(self) -> Sequence[str]:
        return [self._token]

    def close(self) -> None:
        self._stream.delete()


class OfSink(OnNats):
    """What the suites of the sink and of its parts share."""

    capabilities = SINK

    def external_context(self, folder: Path) -> SinkStream:
        return SinkStream(self.address)


class SinkSuite(OfSink, SinkTestSuite):
    pass


class SinkFormatSuite(OfSink, SinkFormatTestSuite):
    format = "connector_nats"


def encoded(rows: pa.Table) -> list[bytes]:
    """Return each row as JSON."""
    bodies: list[bytes] = []
    for batch in rows.to_batches():
        found = JsonFormat().encode(batch)
        assert not found.bad
        bodies += found.messages.to_pylist()
    return bodies
