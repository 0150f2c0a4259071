# SPDX-License-Identifier: Apache-2.0
"""The source: its settings and the creation of enumerators and readers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta

import pyarrow as pa

from connector_redis.client import Client, check_connection
from connector_redis.enumerator import EnumeratorState, PartEnumerator
from connector_redis.options import SINCE, Connection
from connector_redis.reader import PartReader
from connector_redis.split import Extent, PartEnds, PartSplit
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.formats import JsonFormat
from connectors_core.options import DURATION, Setting, option, option_like, positive
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

__all__ = ["RedisSource"]


class RedisSource(
    Connection,
    Source[PartSplit, EnumeratorState],
    SupportsConnectionCheck,
    scope="Redis source",
):
    """Reads the rows of streams, in order within each stream.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: A setting is not valid.
    """

    event_types = (PartEnds,)

    columns: Setting[pa.Schema, SchemaLike] = option(
        "columns",
        SCHEMA,
        since=SINCE,
        doc="Columns of the rows, as in `id BIGINT, name STRING`.",
    )
    discovery_interval: Setting[timedelta | None, timedelta | str | None] = option(
        "source.discovery-interval",
        DURATION,
        default=None,
        validator=positive,
        since=SINCE,
        doc="Interval of the discovery of new streams, which makes the source unbounded. By "
        "default, the source ends with the rows that exist when it starts.",
    )
    batch_rows: Setting[int] = option_like(SOURCE_BATCH_ROWS, default=10_000, since=SINCE)

    def __post_init__(self) -> None:
        JsonFormat().check_readable(self.columns)

    def check_connection(self, timeout: float) -> None:
        """Check that the server responds. See `SupportsConnectionCheck`. Driver."""
        check_connection(self.connection, timeout)

    def boundedness(self) -> Boundedness:
        """Return `BOUNDED`, unless streams are discovered at intervals."""
        if self.discovery_interval is None:
            return Boundedness.BOUNDED
        return Boundedness.CONTINUOUS_UNBOUNDED

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return self.columns

    def create_enumerator(self, context: SplitEnumeratorContext[PartSplit]) -> PartEnumerator:
        """Discover streams from the start."""
        return self.restore_enumerator(context, EnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[PartSplit], state: EnumeratorState
    ) -> PartEnumerator:
        """Resume the discovery."""
        return PartEnumerator(
            context,
            discover=self._discover,
            interval=self.discovery_interval,
            state=state,
        )

    def create_reader(self, context: SourceReaderContext) -> PartReader:
        """Create a reader of streams."""
        return PartReader(
            context, self.connection, schema=self.schema(), batch_rows=self.batch_rows
        )

    def split_serializer(self) -> VersionedSerializer[PartSplit]:
        """Return JSON. After a release, another layout needs a new version and a migration."""
        return JsonDataclassSerializer(PartSplit, version=1)

    def enumerator_state_serializer(self) -> VersionedSerializer[EnumeratorState]:
        """Return JSON, as for splits."""
        return JsonDataclassSerializer(EnumeratorState, version=1)

    def input_version(self, splits: Sequence[PartSplit]) -> str | None:
        """Return the entries of a batch run. An ID stands for one entry."""
        return json.dumps(sorted((each.part, str(each.position), str(each.end)) for each in splits))

    def split_traits(self) -> SplitTraits:
        """Return the traits. Bounded splits end. All can be replayed and read concurrently."""
        ends = self.boundedness() is Boundedness.BOUNDED
        return SplitTraits(end=ends, ordered=False, replayable=True)

    def __repr__(self) -> str:
        kind = self.boundedness().value
        return f"RedisSource({self.stream!r}, {kind})"

    def _discover(self) -> dict[str, Extent]:
        with closing(Client(self.connection)) as client:
            return client.extents()
