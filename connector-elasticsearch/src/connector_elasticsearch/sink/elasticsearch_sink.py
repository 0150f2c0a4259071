# SPDX-License-Identifier: Apache-2.0
"""The sink of Elasticsearch indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pyarrow as pa

from connector_elasticsearch.client import ElasticsearchConnection
from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.sink import options
from connector_elasticsearch.sink.index_names import IndexName
from connector_elasticsearch.sink.operations import (
    BulkConverter,
    VersionType,
    WriteOperation,
)
from connector_elasticsearch.sink.writer import BulkTarget, ElasticsearchWriter, Refresh
from connectors_core.annotations import public
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.sink import AsyncSink, AsyncSinkWriterConfiguration, WriterInitContext
from connectors_core.spelling import spelled_in_python

__all__ = ["ElasticsearchSink"]


@public
@spelled_in_python()
@dataclass(frozen=True, repr=False)
class ElasticsearchSink(AsyncSink[bytes], SupportsConnectionCheck):
    """Writes rows as documents, after Flink's `Elasticsearch8AsyncSink` (FLIP-171).

    At least once: an epoch ends when the server has all its documents. With `id_columns` a document
    that is written again replaces itself, with `version_column` only where it is not older; so the
    index comes to hold what it would without any failure.

    Immutable and picklable; no I/O in the constructor.

    Args:
        connection: How the servers are reached, or the URLs of the hosts where that is all.
        index: Index, alias or data stream; a pattern such as `flights-{at|yyyy-MM-dd}` or `{to}`
            takes it from columns.
        operation: What is done with a row. Those of a changelog (`_row_kind`) may also delete.
        id_columns: Columns of the id; none lets the server give one.
        id_delimiter: What stands between them.
        routing_column: Column of what chooses the shard.
        version_column: Column of the document's version, whole numbers from 0.
        version_type: When a version replaces another one.
        exclude_columns: Columns that are no part of the document.
        ignore_null_fields: Leave out fields that are null.
        pipeline: Ingest pipeline that documents go through.
        refresh: When searches see what was written.
        bulk_flush: The bounds of bulk requests.
        parallelism: Number of writers; None takes the partitions of the input.

    Raises:
        ConfigurationError: What was asked for does not go together.
    """

    connection: ElasticsearchConnection | str | Sequence[str]
    index: str
    _: KW_ONLY
    operation: WriteOperation = WriteOperation.INDEX
    id_columns: Sequence[str] = ()
    id_delimiter: str = "_"
    routing_column: str | None = None
    version_column: str | None = None
    version_type: VersionType = VersionType.EXTERNAL_GTE
    exclude_columns: Sequence[str] = ()
    ignore_null_fields: bool = False
    pipeline: str | None = None
    refresh: Refresh = Refresh.FALSE
    bulk_flush: AsyncSinkWriterConfiguration = options.BULK_FLUSH
    parallelism: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.connection, ElasticsearchConnection):
            object.__setattr__(self, "connection", ElasticsearchConnection(self.connection))
        for name, option in (
            ("index", options.INDEX),
            ("operation", options.OPERATION),
            ("id_columns", options.ID_COLUMNS),
            ("id_delimiter", options.ID_DELIMITER),
            ("routing_column", options.ROUTING_COLUMN),
            ("version_column", options.VERSION_COLUMN),
            ("version_type", options.VERSION_TYPE),
            ("exclude_columns", options.EXCLUDE_COLUMNS),
            ("ignore_null_fields", options.IGNORE_NULL_FIELDS),
            ("pipeline", options.PIPELINE),
            ("refresh", options.REFRESH),
            ("parallelism", options.PARALLELISM),
        ):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, option.parse(value))
        self._check_together()

    @classmethod
    def from_options(cls, given: Mapping[str, Any]) -> ElasticsearchSink:
        """Make a sink of options, as Spark and SQL give them.

        Args:
            given: Values by key; see `SINK_OPTIONS`.

        Raises:
            ConfigurationError: An option is unknown, missing or cannot be used.
        """
        options.refuse_foreign(given)
        parsed = options.SINK_OPTIONS.parse(given)
        return cls(
            ElasticsearchConnection.of(parsed),
            index=parsed[options.INDEX],
            operation=parsed[options.OPERATION],
            id_columns=parsed.values[options.ID_COLUMNS.key] or (),
            id_delimiter=parsed[options.ID_DELIMITER],
            routing_column=parsed.get(options.ROUTING_COLUMN),
            version_column=parsed.get(options.VERSION_COLUMN),
            version_type=parsed[options.VERSION_TYPE],
            exclude_columns=parsed.values[options.EXCLUDE_COLUMNS.key] or (),
            ignore_null_fields=parsed[options.IGNORE_NULL_FIELDS],
            pipeline=parsed.get(options.PIPELINE),
            refresh=parsed[options.REFRESH],
            bulk_flush=options.bulk_flush_of(parsed),
            parallelism=parsed.get(options.PARALLELISM),
        )

    def __repr__(self) -> str:
        return (
            f"ElasticsearchSink({self._connection!r}, index={self.index!r}, "
            f"operation={self.operation.value!r})"
        )

    def validate(self, schema: pa.Schema) -> None:
        """Refuse rows that can never be written. Driver.

        Raises:
            ConfigurationError: A column is missing, there twice, or of a wrong type.
        """
        self._converter.validate(schema)

    def check_connection(self, timeout: float) -> None:
        """Ask the servers for an answer; see `SupportsConnectionCheck`. Driver."""
        check_reachable(self._connection, timeout)

    def writer_parallelism(self) -> int | None:
        """Return `parallelism`."""
        return self.parallelism

    def create_writer(self, context: WriterInitContext) -> ElasticsearchWriter:
        """Make the writer of one task of one epoch. Executor."""
        target = BulkTarget(
            connection=self._connection,
            index=IndexName(self.index).static,
            pipeline=self.pipeline,
            refresh=self.refresh,
        )
        return ElasticsearchWriter(target, self._converter, context, self.bulk_flush)

    @property
    def _connection(self) -> ElasticsearchConnection:
        assert isinstance(self.connection, ElasticsearchConnection)  # since __post_init__
        return self.connection

    @property
    def _converter(self) -> BulkConverter:
        return BulkConverter(
            index=IndexName(self.index),
            operation=self.operation,
            id_columns=tuple(self.id_columns),
            id_delimiter=self.id_delimiter,
            routing_column=self.routing_column,
            version_column=self.version_column,
            version_type=self.version_type,
            exclude_columns=tuple(self.exclude_columns),
            ignore_null_fields=self.ignore_null_fields,
        )

    def _check_together(self) -> None:
        changes = self.operation in (WriteOperation.UPDATE, WriteOperation.UPSERT)
        if changes and not self.id_columns:
            raise ConfigurationError(
                "a document is changed by its id",
                expected="columns of the id",
                found="none",
                option=options.ID_COLUMNS.key,
            )
        if self.id_columns and IndexName(self.index).follows_clock:
            raise ConfigurationError(
                "a row that is written again might go to another index, where its id is new",
                expected="an index whose name does not follow the clock, or no columns of the id",
                found=self.index,
                option=options.INDEX.key,
                hint="take the date from a column",
            )
        if self.version_column is None:
            return
        if not self.id_columns:
            raise ConfigurationError(
                "a version is that of a document with an id",
                expected="columns of the id",
                found="none",
                option=options.ID_COLUMNS.key,
            )
        if self.operation is not WriteOperation.INDEX:
            raise ConfigurationError(
                "Elasticsearch compares versions only where whole documents are written",
                expected=WriteOperation.INDEX.value,
                found=self.operation.value,
                option=options.OPERATION.key,
                hint="remove the version, or write whole documents",
            )
