# SPDX-License-Identifier: Apache-2.0
"""The sink: its settings and the creation of writers and committers."""

from __future__ import annotations

import pyarrow as pa

from connector_redis.client import check_connection
from connector_redis.committer import TransactionCommitter
from connector_redis.options import Connection
from connector_redis.writer import Committable, TransactionWriter
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError
from connectors_core.formats import JsonFormat
from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.sink import CommitterInitContext, TwoPhaseCommittingSink, WriterInitContext

__all__ = ["RedisSink"]


class RedisSink(
    Connection,
    TwoPhaseCommittingSink[Committable],
    SupportsConnectionCheck,
    scope="Redis sink",
):
    """Writes rows to a stream exactly once: the rows of an epoch appear with its commit.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: A setting is not valid.
    """

    def check_connection(self, timeout: float) -> None:
        """Check that the server responds. See `SupportsConnectionCheck`. Driver."""
        check_connection(self.connection, timeout)

    def validate(self, schema: pa.Schema) -> None:
        """Reject columns that JSON cannot represent, and a pattern of streams. Driver.

        Raises:
            ConfigurationError: A column has no JSON form, or the key is a pattern.
        """
        if set(self.stream) & set("*?["):
            raise InvalidOptionError(
                "a sink writes to one stream", found=self.stream, option="stream"
            )
        JsonFormat().check_writable(schema)

    def create_writer(self, context: WriterInitContext) -> TransactionWriter:
        """Create the writer of one task in one epoch. Executor."""
        return TransactionWriter(self.connection, context)

    def create_committer(self, context: CommitterInitContext) -> TransactionCommitter:
        """Create the committer. Driver."""
        return TransactionCommitter(self.connection, context)

    def committable_serializer(self) -> VersionedSerializer[Committable]:
        """Return JSON. After a release, another layout needs a new version and a migration."""
        return JsonDataclassSerializer(Committable, version=1)

    def __repr__(self) -> str:
        return f"RedisSink({self.stream!r})"
