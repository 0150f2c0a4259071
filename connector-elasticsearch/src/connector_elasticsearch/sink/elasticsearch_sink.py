# SPDX-License-Identifier: Apache-2.0
"""The sink of Elasticsearch indices."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.sink.index_names import IndexName
from connector_elasticsearch.sink.operations import (
    BulkConverter,
    WriteOperation,
)
from connector_elasticsearch.sink.options import ElasticsearchSinkOptions
from connector_elasticsearch.sink.writer import BulkTarget, ElasticsearchWriter
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.sink import AsyncSink, WriterInitContext

__all__ = ["ElasticsearchSink"]


class ElasticsearchSink(ElasticsearchSinkOptions, AsyncSink[bytes], SupportsConnectionCheck):
    """Writes rows as documents, after Flink's `Elasticsearch8AsyncSink` (FLIP-171).

    At least once: an epoch ends when the server has all its documents. With `id_columns` a document
    that is written again replaces itself, with `version_column` only where it is not older; so the
    index comes to hold what it would without any failure.

    Immutable and picklable; no I/O in the constructor.

    Raises:
        ConfigurationError: What was asked for does not go together.
    """

    def __post_init__(self) -> None:
        changes = self.operation in (WriteOperation.UPDATE, WriteOperation.UPSERT)
        if changes and not self.id_columns:
            raise ConfigurationError(
                "a document is changed by its id",
                expected="columns of the id",
                found="none",
                option="document-id.columns",
            )
        if self.id_columns and IndexName(self.index).follows_clock:
            raise ConfigurationError(
                "a row that is written again might go to another index, where its id is new",
                expected="an index whose name does not follow the clock, or no columns of the id",
                found=self.index,
                option="index",
                hint="take the date from a column",
            )
        if self.version_column is None:
            return
        if not self.id_columns:
            raise ConfigurationError(
                "a version is that of a document with an id",
                expected="columns of the id",
                found="none",
                option="document-id.columns",
            )
        if self.operation is not WriteOperation.INDEX:
            raise ConfigurationError(
                "Elasticsearch compares versions only where whole documents are written",
                expected=WriteOperation.INDEX.value,
                found=self.operation.value,
                option="sink.operation",
                hint="remove the version, or write whole documents",
            )

    def __repr__(self) -> str:
        return (
            f"ElasticsearchSink({self.connection!r}, index={self.index!r}, "
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
        check_reachable(self.connection, timeout)

    def writer_parallelism(self) -> int | None:
        """Return `parallelism`."""
        return self.parallelism

    def create_writer(self, context: WriterInitContext) -> ElasticsearchWriter:
        """Make the writer of one task of one epoch. Executor."""
        target = BulkTarget(
            connection=self.connection,
            index=IndexName(self.index).static,
            pipeline=self.pipeline,
            refresh=self.refresh,
        )
        return ElasticsearchWriter(target, self._converter, context, self.bulk_flush)

    @property
    def _converter(self) -> BulkConverter:
        return BulkConverter(
            index=IndexName(self.index),
            operation=self.operation,
            id_columns=self.id_columns,
            id_delimiter=self.id_delimiter,
            routing_column=self.routing_column,
            version_column=self.version_column,
            version_type=self.version_type,
            exclude_columns=self.exclude_columns,
            ignore_null_fields=self.ignore_null_fields,
        )


ELASTICSEARCH_SINK_OPTIONS: Final = ElasticsearchSink.OPTIONS
"""The options of `ElasticsearchSink.from_options`."""
