# SPDX-License-Identifier: Apache-2.0
"""The readers and writers of a native format, from the options of its connector."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from connectors_core.engine.coordinator.offset_plans import check_stops
from connectors_core.engine.coordinator.sink_without_pipeline import (
    SinkWithoutPipeline,
    commits_once,
)
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError, ConnectorError, UnsupportedError
from connectors_core.sink.sink import Sink
from connectors_core.source.source import AnySource, Boundedness
from connectors_core.spark.carriers.base import spark_schema
from connectors_core.spark.internals.arrow_types import arrow_schema, check_writable
from connectors_core.spark.native_formats.options import ReadOptions, without
from connectors_core.spark.native_formats.reading import (
    BatchReader,
    EntryRows,
    FilteringReader,
    StreamReader,
)
from connectors_core.spark.native_formats.writing import (
    BatchWriter,
    StreamWriter,
    refuse_overwriting,
)
from connectors_core.spark.state_locations import fsspec_url

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_CHECKPOINT = "checkpointlocation"
_OF_SPARK = frozenset({_CHECKPOINT, "queryname"})  # Spark adds its own options to those of a sink
_DECISIONS = "connectors"
_SCHEMA = "schema"


@dataclass(frozen=True)
class FormatParts:
    """Creates the parts of a format.

    Args:
        package: The import name of the connector.
        source: The name of its source, if any.
        sink: The name of its sink, if any.
        options: The options of the user; their keys are in lower case.
        inferred: The source whose schema Spark has asked for, if any.
    """

    package: str
    _: KW_ONLY
    source: str | None
    sink: str | None
    options: Mapping[str, str]
    inferred: AnySource | None = None

    def batch_reader(self, schema: StructType) -> BatchReader:
        """Return the reader of a batch."""
        rows = self._rows(schema)
        source = rows.settings.source
        if source.boundedness() is not Boundedness.BOUNDED:
            raise UnsupportedError(
                f"spark.read needs a source that ends, and {source!r} has no end",
                expected="options that set an end",
                found=source.boundedness().value,
                hint="set the option for the end, such as scan.bounded.mode, or use "
                "spark.readStream",
            )
        return FilteringReader(rows) if self._read_options().filter_pushdown else BatchReader(rows)

    def stream_reader(self, schema: StructType) -> StreamReader:
        """Return the reader of a stream."""
        rows = self._rows(schema)
        check_stops(rows.settings)
        return StreamReader(rows)

    def batch_writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """Return the writer of a batch."""
        return BatchWriter(self._writes(schema, overwrite, None), arrow_schema(schema))

    def stream_writer(self, schema: StructType, overwrite: bool) -> StreamWriter:
        """Return the writer of a stream."""
        decisions = None
        if commits_once(self._sink()):
            decisions = StateStore(fsspec_url(self._checkpoint())).child(_DECISIONS)
        return StreamWriter(self._writes(schema, overwrite, decisions), arrow_schema(schema))

    def new_source(self) -> AnySource:
        """Create the source from the options."""
        return self._source_with({})

    def _class(self, name: str | None, what: str, instead: str) -> Any:
        if name is None:
            raise UnsupportedError(
                f"the format {self.package} has no {what}", hint=f"use spark.{instead}"
            )
        return getattr(importlib.import_module(self.package), name)

    def _source_with(self, more: dict[str, Any]) -> AnySource:
        made = self._class(self.source, "source", "write")
        options = without(self.options, ReadOptions, known=made)
        if self.sink is not None:
            sink = self._class(self.sink, "sink", "read")
            options = without(options, sink, known=made)
        source: AnySource = made.from_options(options | more)
        return source

    def _read_options(self) -> ReadOptions:
        keys = ReadOptions.OPTIONS
        return ReadOptions.from_options({k: v for k, v in self.options.items() if k in keys})

    def _rows(self, schema: StructType) -> EntryRows:
        source = self.inferred or self._source_of_user_schema(schema)
        read = self._read_options()
        settings = SourceSettings.of(
            source,
            uid=self.package,
            parallelism=read.parallelism,
            limits=read.limits(source),
        )
        return EntryRows(settings, source.schema(), arrow_schema(schema))

    def _source_of_user_schema(self, schema: StructType) -> AnySource:
        """Return the source whose columns `schema(...)` selects, or else declares."""
        made = self._class(self.source, "source", "write")
        if _SCHEMA not in made.OPTIONS or _SCHEMA in self.options:
            source = self._source_with({})
            self._check_selected(schema, source)
            return source
        with contextlib.suppress(ConnectorError):
            source = self._source_with({})
            if _is_selection(schema, source):
                return source
        source = self._source_with({_SCHEMA: schema})
        self._check_selected(schema, source)
        return source

    def _check_selected(self, schema: StructType, source: AnySource) -> None:
        if not _is_selection(schema, source):
            raise ConfigurationError(
                f"the source of {self.package} does not have the columns of `schema(...)`",
                expected=f"some of {spark_schema(source.schema()).simpleString()}",
                found=schema.simpleString(),
                hint="name only columns of the source, with its types; or remove schema(...)",
            )

    def _sink(self) -> Sink:
        made = self._class(self.sink, "sink", "read")
        options = {key: value for key, value in self.options.items() if key not in _OF_SPARK}
        options = without(options, ReadOptions, known=made)
        if self.source is not None:
            options = without(options, self._class(self.source, "source", "write"), known=made)
        sink: Sink = made.from_options(options)
        return sink

    def _writes(
        self, schema: StructType, overwrite: bool, decisions: StateStore | None
    ) -> SinkWithoutPipeline:
        if overwrite:
            refuse_overwriting(self.package)
        writes = SinkWithoutPipeline(uid=self.package, sink=self._sink(), decisions=decisions)
        writes.check()
        check_writable(schema)
        writes.sink.validate(arrow_schema(schema))
        return writes

    def _checkpoint(self) -> str:
        checkpoint = self.options.get(_CHECKPOINT)
        if checkpoint is None:
            raise ConfigurationError(
                f"{self.package} writes a stream exactly once only if it knows the checkpoint "
                "location",
                expected='option("checkpointLocation", ...) of writeStream',
                found="none, or only the default of the session, which Spark does not pass on",
                option="checkpointLocation",
            )
        return str(checkpoint)


def _is_selection(schema: StructType, source: AnySource) -> bool:
    """Return whether a source has all these columns, with these types."""
    types = {field.name: field.dataType for field in spark_schema(source.schema())}
    return all(types.get(field.name) == field.dataType for field in schema)
