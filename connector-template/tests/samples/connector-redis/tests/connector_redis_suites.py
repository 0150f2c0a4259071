# SPDX-License-Identifier: Apache-2.0
"""The core's suites for this connector: its test data and its capabilities."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from connector_redis.sink import RedisSink
from connector_redis.source import RedisSource
from connector_redis.testing import RedisSystem, Stream, add_user
from connectors_core.source import Boundedness
from connectors_core.testing import (
    ROWS,
    Capabilities,
    Capability,
    SinkExternalContext,
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
# Capabilities select the cases. List what the system cannot do in `cannot={...: "the reason"}`.
JSON = "JSON has no intervals"
SOURCE = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.UNBOUNDED,
            Capability.DISCOVERY,
            Capability.GROWING_SPLITS,
            Capability.CUT_SPLITS,
            Capability.REFUSALS,
            Capability.INPUT_VERSION,
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
        Capability.REPLACED_SPLITS: "another entry has another ID",
        Capability.SKIPPED_SPLITS: "no option skips what cannot be read",
        Capability.LATE_COMMITS: "an entry has its ID when it is visible",
        Capability.ACKNOWLEDGED_READS: "a stream keeps its entries",
    },
    cannot_carry={"day-time interval": JSON},
)
SINK = Capabilities(
    can=frozenset(
        {
            Capability.EXACTLY_ONCE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
        Capability.COMMITTED_EPOCHS: "a transaction of the system does not name its epoch",
        Capability.LEASES: "every writer begins its own transaction",
        Capability.REWRITING: "a transaction stays open until its commit or abort",
        Capability.WRITER_STATE: "every transaction is independent",
        Capability.TOPOLOGIES: "every transaction is committed unchanged",
    },
    cannot_carry={"day-time interval": JSON},
)


class OnRedis:
    """What all suites share."""

    system = RedisSystem()
    written_for = SUITES


class OnStreams:
    """New streams, and a user with a password."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._name = f"suite-{uuid.uuid4().hex}"
        self._password = uuid.uuid4().hex
        self._server = direct_address(address)
        add_user(self._server, self._name, self._password)

    def settings(self, stream: str) -> dict[str, str]:
        return {
            "address": self._address,
            "stream": stream,
            "username": self._name,
            "password": self._password,
        }

    def secrets(self) -> Sequence[str]:
        return [self._password]


class StreamWriter(SplitDataWriter):
    """Writes to one stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        stream.create()

    def write(self, rows: pa.Table) -> None:
        self._stream.append(rows)

    def cut(self, rows: int) -> None:
        self._stream.cut(rows)

    def write_poison(self) -> None:
        self._stream.append_messages([b'{"seq": "not a number"}'])


class SourceStreams(OnStreams, SourceExternalContext):
    """Streams for one case of a source."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._numbers = itertools.count()

    def create_split(self) -> StreamWriter:
        return StreamWriter(Stream(self._server, f"{self._name}:{next(self._numbers)}"))

    def create_source(self, boundedness: Boundedness) -> RedisSource:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        interval = timedelta(milliseconds=50) if endless else None
        return RedisSource(
            **self.settings(f"{self._name}:*"),
            columns=ROWS,
            discovery_interval=interval,
            batch_rows=7,  # so that a split is read in many steps
        )

    def changed_sources(self, boundedness: Boundedness) -> Mapping[str, RedisSource]:
        return {"batch_rows": self.create_source(boundedness).replaced(batch_rows=3)}

    def format_options(self, boundedness: Boundedness) -> Mapping[str, str]:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        columns = "split BIGINT, seq BIGINT, at TIMESTAMP, text STRING"
        options = self.settings(f"{self._name}:*") | {"columns": columns}
        return options | ({"source.discovery-interval": "50 ms"} if endless else {})

    @contextmanager
    def refusal(self) -> Iterator[None]:
        add_user(self._server, self._name, self._password, "-@all")
        yield
        add_user(self._server, self._name, self._password)

    def create_typed_source(self, rows: pa.Table) -> RedisSource:
        return self.create_misfit_source(rows.schema, [rows])

    def create_misfit_source(self, schema: pa.Schema, parts: Sequence[pa.Table]) -> RedisSource:
        name = f"{self._name}-typed"
        for part in parts:
            Stream(self._server, name).append(part)
        return RedisSource(**self.settings(name), columns=schema)


class OfSource(OnRedis):
    """What the suites of the source and of its parts share."""

    capabilities = SOURCE

    def external_context(self, folder: Path) -> SourceStreams:
        return SourceStreams(self.address)


class SourceSuite(OfSource, SourceTestSuite):
    pass


class SourceFormatSuite(OfSource, SourceFormatTestSuite):
    format = "connector_redis"


class SinkStream(OnStreams, SinkExternalContext):
    """A stream for one case of a sink."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._stream = Stream(self._server, self._name)

    def create_sink(self) -> RedisSink:
        return RedisSink(**self.settings(self._name))

    def format_options(self) -> Mapping[str, str]:
        return self.settings(self._name)

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        return self._stream.rows(schema)

    def leftovers(self) -> Sequence[str]:
        return self._stream.staged()


class OfSink(OnRedis):
    """What the suites of the sink and of its parts share."""

    capabilities = SINK

    def external_context(self, folder: Path) -> SinkStream:
        return SinkStream(self.address)


class SinkSuite(OfSink, SinkTestSuite):
    pass


class SinkFormatSuite(OfSink, SinkFormatTestSuite):
    format = "connector_redis"
