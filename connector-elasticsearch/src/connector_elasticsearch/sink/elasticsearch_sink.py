# SPDX-License-Identifier: Apache-2.0
"""The Elasticsearch sink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.lineage import dataset_of
from connector_elasticsearch.sink.index_names import IndexName
from connector_elasticsearch.sink.operations import (
    BulkConverter,
    WriteOperation,
)
from connector_elasticsearch.sink.options import ElasticsearchSinkOptions
from connector_elasticsearch.sink.writer import BulkTarget, ElasticsearchWriter
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.options import RecordedOption
from connectors_core.sink import AsyncSink, WriterInitContext

__all__ = ["ElasticsearchSink"]

_SAME_IDS: Final = "keep it, or write to another index"


class ElasticsearchSink(
    ElasticsearchSinkOptions,
    AsyncSink[bytes],
    SupportsConnectionCheck,
    LineageVertexProvider,
):
    """Writes rows as documents, like Flink's `Elasticsearch8AsyncSink` (FLIP-171).

    At least once: an epoch ends when the server has all its documents. With `id_columns`, a
    document that is written again replaces itself. With `version_column`, it does so only if it is
    not older. Either way, the index ends up as it would without failures.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: The settings contradict each other.
    """

    def __post_init__(self) -> None:
        changes = self.operation in (WriteOperation.UPDATE, WriteOperation.UPSERT)
        if changes and not self.id_columns:
            raise ConfigurationError(
                "update and upsert need an id to find the document",
                expected="columns of the id",
                found="none",
                option="document-id.columns",
            )
        if self.id_columns and IndexName(self.index).follows_clock:
            raise ConfigurationError(
                "a row that is written again could go to another index, in which its id is new",
                expected="an index name without the clock, or no columns of the id",
                found=self.index,
                option="index",
                hint="take the date from a column",
            )
        if self.version_column is None:
            return
        if not self.id_columns:
            raise ConfigurationError(
                "a version needs a document id",
                expected="columns of the id",
                found="none",
                option="document-id.columns",
            )
        if self.operation is not WriteOperation.INDEX:
            raise ConfigurationError(
                "Elasticsearch compares versions only if whole documents are written",
                expected=WriteOperation.INDEX.value,
                found=self.operation.value,
                option="sink.operation",
                hint="remove the version, or write whole documents",
            )

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Its index, whose name may contain columns."""
        return (dataset_of(self.connection, self.index),)

    def __repr__(self) -> str:
        return (
            f"ElasticsearchSink({self.connection!r}, index={self.index!r}, "
            f"operation={self.operation.value!r})"
        )

    def validate(self, schema: pa.Schema) -> None:
        """Refuse a schema whose rows can never be written. Driver.

        Raises:
            ConfigurationError: A column is missing, occurs twice, or has a wrong type.
        """
        self._converter.validate(schema)

    def check_connection(self, timeout: float) -> None:
        """Check that the servers respond. See `SupportsConnectionCheck`. Driver."""
        check_reachable(self.connection, timeout)

    def writer_parallelism(self) -> int | None:
        """Return `parallelism`."""
        return self.parallelism

    def writer_keys(self) -> Sequence[str]:
        """Return the columns of the document ID."""
        return self.id_columns

    def recorded_options(self, schema: pa.Schema) -> Sequence[RecordedOption]:
        """Record how an index tells its documents apart: by the columns of their ID, and by shard.

        With another ID or another routing, rows that are written again would be new documents.
        """
        options = {"document-id.columns": ", ".join(map(repr, self.id_columns))}
        if len(self.id_columns) > 1:
            options["document-id.key-delimiter"] = self.id_delimiter
        if self.id_columns:
            options["routing.column"] = self.routing_column or ""
        return [
            RecordedOption(name=f"{name} of index {self.index}", value=value, hint=_SAME_IDS)
            for name, value in options.items()
        ]

    def create_writer(self, context: WriterInitContext) -> ElasticsearchWriter:
        """Create the writer of one task in one epoch. Executor."""
        target = BulkTarget(
            connection=self.connection,
            index=IndexName(self.index).static,
            pipeline=self.ingest_pipeline,
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
            merge_objects=self.merge_objects,
        )


ELASTICSEARCH_SINK_OPTIONS: Final = ElasticsearchSink.OPTIONS
"""The options of `ElasticsearchSink.from_options`."""
