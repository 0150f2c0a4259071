# SPDX-License-Identifier: Apache-2.0
"""The Elasticsearch source."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Final, Self

import pyarrow as pa

from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.documents import Layout
from connector_elasticsearch.lineage import dataset_of
from connector_elasticsearch.source.conditions import Condition, condition_of
from connector_elasticsearch.source.enumerator import (
    SliceEnumerator,
    SliceEnumeratorState,
    state_serializer,
)
from connector_elasticsearch.source.options import ElasticsearchSourceOptions
from connector_elasticsearch.source.projection import Projection
from connector_elasticsearch.source.reader import SliceReader
from connector_elasticsearch.source.searcher import SearchSettings
from connector_elasticsearch.source.split import SliceSplit, split_serializer
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.options import RecordedOption
from connectors_core.serialization import VersionedSerializer
from connectors_core.source import (
    Boundedness,
    DynamicParallelismInference,
    FieldPath,
    ParallelismInferenceContext,
    Predicate,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitTraits,
    SupportsFilterPushDown,
    SupportsLimitPushDown,
    SupportsProjectionPushDown,
)

__all__ = ["ElasticsearchSource"]

# The server does not tell the size of the documents that a query selects.
_ASSUMED_DOCUMENT_BYTES: Final = 1 << 10
_NEW_READ: Final = "keep it, or read the documents from the start with a new checkpoint"
_NUMBERS: Final = frozenset(
    {"byte", "date", "date_nanos", "integer", "long", "short", "unsigned_long"}
)


class ElasticsearchSource(
    ElasticsearchSourceOptions,
    Source[SliceSplit, SliceEnumeratorState],
    SupportsConnectionCheck,
    SupportsFilterPushDown,
    SupportsLimitPushDown,
    SupportsProjectionPushDown,
    DynamicParallelismInference[SliceSplit],
    LineageVertexProvider,
):
    """Reads the documents of indices as they are at the start. Batch and streaming, bounded.

    It reads one point in time in slices, page by page. Guarantee: exactly once, as long as the
    server keeps the point in time. The server loses it at a restart, or without requests for longer
    than `keep_alive`. Reading then fails with a `PointInTimeLostError`. With a `sort_field`, it
    continues in a new point in time after the last value, and reads later documents in their
    current state.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: A setting is not valid, or settings contradict each other.
    """

    def __post_init__(self) -> None:
        self._documents = self.selection(self.retry_timeout)
        self._projection: Projection | None = None
        self._rows_of_page = self.page_size
        self._condition: Condition | None = None
        self._counts = True

    def boundedness(self) -> Boundedness:
        """Bounded: one point in time."""
        return Boundedness.BOUNDED

    def infer_parallelism(self, context: ParallelismInferenceContext[SliceSplit]) -> int:
        """Slices with few documents share a task. A document counts as 1 KiB. Driver."""
        documents = sum(split.weight() for split in context.splits)
        return context.tasks_for(documents * _ASSUMED_DOCUMENT_BYTES)

    def schema(self) -> pa.Schema:
        """The columns of the documents, then the metadata columns.

        Requests the mapping from the server once. The result is part of the pickled source. Driver.

        Raises:
            ConfigurationError: The index does not exist, or its mapping is not supported.
        """
        projection = self._projection
        if projection is None:
            return self._settings().decoder().schema
        metadata = [pa.field(name, column.type) for column, name in projection.metadata_columns]
        return pa.schema([*projection.schema, *metadata])

    def supports_nested_projection(self) -> bool:
        """True: the reader does not decode the other fields of an object."""
        return True

    def apply_projection(self, fields: Sequence[FieldPath]) -> Self:
        """Let the server omit the other fields of the documents."""
        made = copy.copy(self)
        made._projection = Projection.of(
            self._documents.layout.schema, self.metadata_columns, fields
        )
        return made

    def apply_limit(self, limit: int) -> Self:
        """Request no more documents at a time."""
        made = copy.copy(self)
        made._rows_of_page = max(1, min(self._rows_of_page, limit))
        return made

    def apply_filters(self, filters: Sequence[Predicate]) -> tuple[Self, Sequence[Predicate]]:
        """Translate the conditions whose documents the server finds with certainty."""
        if self.limit is not None:  # it counts all documents
            return self, ()
        layout = self._documents.layout
        made = copy.copy(self)
        made._condition, used = condition_of(filters, layout.schema, layout.mappings)
        return made, used

    def without_counts(self) -> Self | None:
        """Let the server select the documents. It does not tell how many it leaves out."""
        if self._condition is None:
            return None
        made = copy.copy(self)
        made._counts = False
        return made

    def check_connection(self, timeout: float) -> None:
        """Check that the servers respond. See `SupportsConnectionCheck`. Driver."""
        check_reachable(self._documents.connection, timeout)

    def create_enumerator(self, context: SplitEnumeratorContext[SliceSplit]) -> SliceEnumerator:
        """Open a point in time."""
        return self.restore_enumerator(context, SliceEnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[SliceSplit], state: SliceEnumeratorState
    ) -> SliceEnumerator:
        """Resume with a point in time."""
        return SliceEnumerator(
            context, self._settings(), slices=self.slices, limit=self.limit, state=state
        )

    def create_reader(self, context: SourceReaderContext) -> SliceReader:
        """Create a reader of slices."""
        return SliceReader(context, self._settings())

    def split_serializer(self) -> VersionedSerializer[SliceSplit]:
        """JSON."""
        return split_serializer()

    def enumerator_state_serializer(self) -> VersionedSerializer[SliceEnumeratorState]:
        """JSON."""
        return state_serializer()

    def split_traits(self) -> SplitTraits:
        """Slices are finite and read one after another, with the same pages each time."""
        return SplitTraits(end=True, ordered=True, replayable=True)

    def recorded_options(self) -> Sequence[RecordedOption]:
        """Whether it ends, which documents it selects, and the order of its positions.

        A position in one order would skip documents of another order, or of another selection.
        """
        documents = self._documents
        selected = {
            "index": documents.index,
            "query": json.dumps(documents.query, sort_keys=True) if documents.query else "",
            "source.sort-field": self.sort_field or "",
        }
        return [
            *super().recorded_options(),
            *(
                RecordedOption(name=name, value=value, hint=_NEW_READ)
                for name, value in selected.items()
            ),
        ]

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Its index."""
        return (dataset_of(self._documents.connection, self._documents.index),)

    def __repr__(self) -> str:
        return f"ElasticsearchSource({self._documents.connection!r}, {self._documents.index!r})"

    def _settings(self) -> SearchSettings:
        documents = self._documents
        return SearchSettings(
            connection=documents.connection,
            index=documents.index,
            schema=documents.layout.schema,
            metadata_columns=self.metadata_columns,
            formatted=documents.layout.formatted,
            query=documents.query,
            selects=bool(documents.fields) or documents.schema is not None,
            sort_field=self.sort_field,
            slice_field=self._slice_field(documents.layout),
            page_size=self._rows_of_page,
            keep_alive=self.keep_alive,
            retry_timeout=documents.retry_timeout,
            projection=self._projection,
            condition=None if self._counts else self._condition,
        )

    def _slice_field(self, layout: Layout) -> str | None:
        """The sort field, if slices can also use it."""
        if self.sort_field is None:
            return None
        kinds = layout.kinds(self.sort_field)
        if not kinds <= _NUMBERS | {"keyword"}:
            raise InvalidOptionError(
                "the documents cannot be sorted by this field in a stable order",
                expected="a field of the type keyword or date, or a whole number",
                found=f"{self.sort_field}: {', '.join(sorted(map(str, kinds)))}",
                option="source.sort-field",
            )
        return self.sort_field if kinds <= _NUMBERS else None


ELASTICSEARCH_SOURCE_OPTIONS: Final = ElasticsearchSource.OPTIONS
"""The options of `ElasticsearchSource.from_options`."""
