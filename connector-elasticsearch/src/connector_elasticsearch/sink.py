# SPDX-License-Identifier: Apache-2.0
"""The sink: its options, and the factory of writers and committers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

import pyarrow as pa

from connector_elasticsearch.client import Client
from connector_elasticsearch.committer import TransactionCommitter
from connector_elasticsearch.options import ADDRESS, TOKEN, TOPIC, Connection
from connector_elasticsearch.writer import Committable, TransactionWriter
from connectors_core.annotations import public
from connectors_core.errors import ConfigurationError
from connectors_core.options import OptionSet
from connectors_core.secrets import Secret
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import CommitterInitContext, TwoPhaseCommittingSink, WriterInitContext

__all__ = ["SINK_OPTIONS", "ElasticsearchSink"]

SINK_OPTIONS: Final = OptionSet(ADDRESS, TOPIC, TOKEN, scope="elasticsearch sink")
"""The options of `ElasticsearchSink.from_options`."""


@public
class ElasticsearchSink(TwoPhaseCommittingSink[Committable]):
    """Writes rows to a topic exactly once: those of an epoch appear with its commit.

    Immutable and picklable; no I/O in the constructor.

    Args:
        address: Where the server listens, as `host:port`.
        topic: The topic.
        token: Token that the server asks for.

    Raises:
        ConfigurationError: Something given cannot be used.
    """

    def __init__(self, address: str, topic: str, *, token: str | Secret | None = None) -> None:
        options = SINK_OPTIONS.parse({ADDRESS.key: address, TOPIC.key: topic, TOKEN.key: token})
        self._connection = Connection(
            address=options[ADDRESS], token=options.get(TOKEN), topic=options[TOPIC]
        )

    @classmethod
    def from_options(cls, mapping: Mapping[str, Any]) -> ElasticsearchSink:
        """Make a sink from options by key, as Spark and SQL give them.

        Args:
            mapping: Values by key of `SINK_OPTIONS`, strings or Python values.

        Raises:
            OptionError: A key is not known, is missing or has a value that cannot be used.
        """
        options = SINK_OPTIONS.parse(mapping)
        return cls(options[ADDRESS], options[TOPIC], token=options.get(TOKEN))

    def validate(self, schema: pa.Schema) -> None:
        """Refuse rows whose columns have other types than those of the topic. Driver.

        A column that the topic does not have is added to it, one that the rows do not have is null.

        Raises:
            ConfigurationError: A column has another type.
        """
        with closing(Client(self._connection)) as client:
            known = {each.name: each.type for each in client.schema()}
        for each in schema:
            if each.type != known.get(each.name, each.type):
                raise ConfigurationError(
                    f"the column {each.name!r} does not fit the topic {self._connection.topic!r}",
                    expected=known[each.name],
                    found=each.type,
                    hint="cast the column",
                )

    def create_writer(self, context: WriterInitContext) -> TransactionWriter:
        """Make the writer of one task of one epoch. Executor."""
        return TransactionWriter(self._connection, context)

    def create_committer(self, context: CommitterInitContext) -> TransactionCommitter:
        """Make the committer. Driver."""
        return TransactionCommitter(self._connection, context)

    def committable_serializer(self) -> VersionedSerializer[Committable]:
        """JSON. Once released: a changed layout needs a new version and a migration."""
        return JsonDataclassSerializer(Committable, version=1)

    def __repr__(self) -> str:
        return f"ElasticsearchSink({self._connection.topic!r})"
