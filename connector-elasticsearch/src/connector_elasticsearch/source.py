# SPDX-License-Identifier: Apache-2.0
"""The source: its options, and the factory of enumerators and readers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from connector_elasticsearch.client import Client
from connector_elasticsearch.enumerator import EnumeratorState, PartitionEnumerator
from connector_elasticsearch.options import ADDRESS, SINCE, TOKEN, TOPIC, Connection
from connector_elasticsearch.reader import PartitionReader
from connector_elasticsearch.split import PartitionEnds, PartitionSplit
from connectors_core.annotations import public
from connectors_core.options import DURATION, Option, OptionSet, positive
from connectors_core.secrets import Secret
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.source import (
    Boundedness,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitTraits,
)

__all__ = ["SOURCE_OPTIONS", "ElasticsearchSource"]

DISCOVERY_INTERVAL: Final = Option(
    "source.discovery-interval",
    DURATION,
    validator=positive,
    since=SINCE,
    doc="Time between two looks for new partitions; makes the source unbounded. By default the "
    "source ends with what is there when it starts.",
)
BATCH_ROWS: Final = Option(
    "source.batch-rows",
    int,
    default=10_000,
    validator=positive,
    since=SINCE,
    doc="Most rows of a batch.",
)

SOURCE_OPTIONS: Final = OptionSet(
    ADDRESS,
    TOPIC,
    TOKEN,
    DISCOVERY_INTERVAL,
    BATCH_ROWS,
    scope="elasticsearch source",
)
"""The options of `ElasticsearchSource.from_options`."""


@public
class ElasticsearchSource(Source[PartitionSplit, EnumeratorState]):
    """Reads the rows of a topic, each partition in its order.

    Immutable and picklable; no I/O in the constructor.

    Args:
        address: Where the server listens, as `host:port`.
        topic: The topic.
        token: Token that the server asks for.
        discovery_interval: Time between two looks for new partitions; makes the source unbounded.
            None ends it with what is there when it starts.
        batch_rows: Most rows of a batch.

    Raises:
        ConfigurationError: Something given cannot be used.
    """

    event_types = (PartitionEnds,)

    def __init__(
        self,
        address: str,
        topic: str,
        *,
        token: str | Secret | None = None,
        discovery_interval: timedelta | None = None,
        batch_rows: int | None = None,
    ) -> None:
        options = SOURCE_OPTIONS.parse(
            {
                ADDRESS.key: address,
                TOPIC.key: topic,
                TOKEN.key: token,
                DISCOVERY_INTERVAL.key: discovery_interval,
                BATCH_ROWS.key: batch_rows,
            }
        )
        self._connection = Connection(
            address=options[ADDRESS], token=options.get(TOKEN), topic=options[TOPIC]
        )
        self._discovery_interval = options.get(DISCOVERY_INTERVAL)
        self._batch_rows = options[BATCH_ROWS]
        self._schema: pa.Schema | None = None

    @classmethod
    def from_options(cls, mapping: Mapping[str, Any]) -> ElasticsearchSource:
        """Make a source from options by key, as Spark and SQL give them.

        Args:
            mapping: Values by key of `SOURCE_OPTIONS`, strings or Python values.

        Raises:
            OptionError: A key is not known, is missing or has a value that cannot be used.
        """
        options = SOURCE_OPTIONS.parse(mapping)
        return cls(
            options[ADDRESS],
            options[TOPIC],
            token=options.get(TOKEN),
            discovery_interval=options.get(DISCOVERY_INTERVAL),
            batch_rows=options[BATCH_ROWS],
        )

    def boundedness(self) -> Boundedness:
        """Bounded unless partitions are looked for again and again."""
        if self._discovery_interval is None:
            return Boundedness.BOUNDED
        return Boundedness.CONTINUOUS_UNBOUNDED

    def schema(self) -> pa.Schema:
        """Columns of the topic. The server is asked once; the answer travels with the source."""
        if self._schema is None:
            with closing(Client(self._connection)) as client:
                self._schema = client.schema()
        return self._schema

    def create_enumerator(
        self, context: SplitEnumeratorContext[PartitionSplit]
    ) -> PartitionEnumerator:
        """Discover from the start."""
        return self.restore_enumerator(context, EnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[PartitionSplit], state: EnumeratorState
    ) -> PartitionEnumerator:
        """Go on discovering."""
        return PartitionEnumerator(
            context,
            topic=self._connection.topic,
            discover=self._discover,
            interval=self._discovery_interval,
            state=state,
        )

    def create_reader(self, context: SourceReaderContext) -> PartitionReader:
        """A reader of partitions."""
        return PartitionReader(
            context, self._connection, schema=self.schema(), batch_rows=self._batch_rows
        )

    def split_serializer(self) -> VersionedSerializer[PartitionSplit]:
        """JSON. Once released: a changed layout needs a new version and a migration."""
        return JsonDataclassSerializer(PartitionSplit, version=1)

    def enumerator_state_serializer(self) -> VersionedSerializer[EnumeratorState]:
        """JSON, as with splits."""
        return JsonDataclassSerializer(EnumeratorState, version=1)

    def split_traits(self) -> SplitTraits:
        """Splits of a bounded source end; all can be read again, and are read side by side."""
        ends = self.boundedness() is Boundedness.BOUNDED
        return SplitTraits(end=ends, ordered=False, replayable=True)

    def __repr__(self) -> str:
        kind = self.boundedness().value
        return f"ElasticsearchSource({self._connection.topic!r}, {kind})"

    def _discover(self) -> dict[int, int]:
        with closing(Client(self._connection)) as client:
            return client.ends()
