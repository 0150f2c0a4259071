# SPDX-License-Identifier: Apache-2.0
"""The source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from connector_elasticsearch.client import ElasticsearchConnection
from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.documents import DocumentSelection, Layout, MetadataColumn
from connector_elasticsearch.documents import options as document_options
from connector_elasticsearch.source import options
from connector_elasticsearch.source.enumerator import (
    SliceEnumerator,
    SliceEnumeratorState,
    state_serializer,
)
from connector_elasticsearch.source.reader import SliceReader
from connector_elasticsearch.source.searcher import SearchSettings
from connector_elasticsearch.source.split import SliceSplit, split_serializer
from connectors_core.annotations import public
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError
from connectors_core.serialization import VersionedSerializer
from connectors_core.source import (
    Boundedness,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitTraits,
)
from connectors_core.spelling import spelled_in_python

__all__ = ["ElasticsearchSource"]

_NUMBERS: Final = frozenset(
    {"byte", "date", "date_nanos", "integer", "long", "short", "unsigned_long"}
)


@public
@spelled_in_python()
class ElasticsearchSource(Source[SliceSplit, SliceEnumeratorState], SupportsConnectionCheck):
    """Reads the documents of indices as they are when it starts; batch and streaming, bounded.

    One point in time is read in slices, page after page. Guarantee: exactly once, as long as the
    server keeps the point in time; it loses it when it is restarted, or not asked for longer than
    `keep_alive`. Then reading fails with a `PointInTimeLostError`, or, with a `sort_field`, goes on
    in a new point in time behind the last value: documents that were changed meanwhile are read as
    they are then.

    Immutable and picklable; no I/O in the constructor.

    Args:
        connection: How the servers are reached, or their addresses.
        index: Indices, aliases, data streams or patterns.
        query: Documents that are read, in Elasticsearch's query language; None for all.
        schema: Columns, as Arrow or in the words of Spark SQL; None to take them from the mapping.
        fields: Columns to read, or paths into them; none for all. No others are sent.
        array_fields: Paths of fields that hold several values.
        metadata_columns: Columns about the document, or a map from them to columns' names.
        sort_field: Field whose values are different in each document and never change.
        limit: Most documents that the source gives in all, which one reader reads then.
        slices: Parts that are read side by side; None for two for each reader.
        page_size: Documents of an answer, and of a batch.
        keep_alive: How long the server keeps the point in time behind a request.
        retry_timeout: How long a request is repeated that may succeed later.

    Raises:
        ConfigurationError: Something given cannot be used, or does not fit together.
    """

    def __init__(
        self,
        connection: ElasticsearchConnection | str | Sequence[str],
        index: str | Sequence[str],
        *,
        query: Mapping[str, Any] | None = None,
        schema: pa.Schema | str | None = None,
        fields: Sequence[str] = (),
        array_fields: Sequence[str] = (),
        metadata_columns: Mapping[str, str] | Sequence[str] = (),
        sort_field: str | None = None,
        limit: int | None = None,
        slices: int | None = None,
        page_size: int = options.DEFAULT_PAGE_SIZE,
        keep_alive: timedelta = options.DEFAULT_KEEP_ALIVE,
        retry_timeout: timedelta = options.DEFAULT_RETRY_TIMEOUT,
    ) -> None:
        self._documents = DocumentSelection.of(
            connection,
            index,
            query=query,
            schema=schema,
            fields=fields,
            array_fields=array_fields,
            retry_timeout=options.RETRY_TIMEOUT.parse(retry_timeout),
        )
        self._metadata = _metadata_columns(metadata_columns)
        self._sort_field = None if sort_field is None else options.SORT_FIELD.parse(sort_field)
        self._limit = None if limit is None else options.LIMIT.parse(limit)
        self._slices = None if slices is None else options.SLICES.parse(slices)
        self._page_size = options.PAGE_SIZE.parse(page_size)
        self._keep_alive = options.KEEP_ALIVE.parse(keep_alive)

    @classmethod
    def from_options(cls, mapping: Mapping[str, Any]) -> ElasticsearchSource:
        """Make a source from options by key, as Spark and SQL give them.

        Args:
            mapping: Values by key of `SOURCE_OPTIONS`, strings or Python values.

        Raises:
            OptionError: A key is not known, is missing or has a value that cannot be used.
        """
        parsed = options.SOURCE_OPTIONS.parse(mapping)
        return cls(
            ElasticsearchConnection.of(parsed),
            parsed[document_options.INDEX],
            query=parsed.get(document_options.QUERY),
            schema=parsed.get(document_options.SCHEMA),
            fields=parsed.values[document_options.FIELDS.key],
            array_fields=parsed.values[document_options.ARRAY_FIELDS.key],
            metadata_columns=parsed.values[options.METADATA_COLUMNS.key] or (),
            sort_field=parsed.get(options.SORT_FIELD),
            limit=parsed.get(options.LIMIT),
            slices=parsed.get(options.SLICES),
            page_size=parsed[options.PAGE_SIZE],
            keep_alive=parsed[options.KEEP_ALIVE],
            retry_timeout=parsed[options.RETRY_TIMEOUT],
        )

    def boundedness(self) -> Boundedness:
        """Bounded: one point in time."""
        return Boundedness.BOUNDED

    def schema(self) -> pa.Schema:
        """Columns of the documents, then those about them.

        The server is asked for its mapping, once; what it said travels with the source. Driver.

        Raises:
            ConfigurationError: There is no such index, or its mapping cannot be used.
        """
        return self._settings().decoder().schema

    def check_connection(self, timeout: float) -> None:
        """Ask the servers for an answer; see `SupportsConnectionCheck`. Driver."""
        check_reachable(self._documents.connection, timeout)

    def create_enumerator(self, context: SplitEnumeratorContext[SliceSplit]) -> SliceEnumerator:
        """Open a point in time."""
        return self.restore_enumerator(context, SliceEnumeratorState())

    def restore_enumerator(
        self, context: SplitEnumeratorContext[SliceSplit], state: SliceEnumeratorState
    ) -> SliceEnumerator:
        """Go on with a point in time."""
        return SliceEnumerator(
            context, self._settings(), slices=self._slices, limit=self._limit, state=state
        )

    def create_reader(self, context: SourceReaderContext) -> SliceReader:
        """A reader of slices."""
        return SliceReader(context, self._settings())

    def split_serializer(self) -> VersionedSerializer[SliceSplit]:
        """JSON."""
        return split_serializer()

    def enumerator_state_serializer(self) -> VersionedSerializer[SliceEnumeratorState]:
        """JSON."""
        return state_serializer()

    def split_traits(self) -> SplitTraits:
        """Slices end, and are read one after another, at the same pages each time."""
        return SplitTraits(end=True, ordered=True, replayable=True)

    def __repr__(self) -> str:
        return f"ElasticsearchSource({self._documents.connection!r}, {self._documents.index!r})"

    def _settings(self) -> SearchSettings:
        documents = self._documents
        return SearchSettings(
            connection=documents.connection,
            index=documents.index,
            schema=documents.layout.schema,
            metadata_columns=self._metadata,
            formatted=documents.layout.formatted,
            query=documents.query,
            selects=bool(documents.fields) or documents.schema is not None,
            sort_field=self._sort_field,
            slice_field=self._slice_field(documents.layout),
            page_size=self._page_size,
            keep_alive=self._keep_alive,
            retry_timeout=documents.retry_timeout,
        )

    def _slice_field(self, layout: Layout) -> str | None:
        """The sort field, where slices can be made by it too."""
        if self._sort_field is None:
            return None
        kinds = layout.kinds(self._sort_field)
        if not kinds <= _NUMBERS | {"keyword"}:
            raise InvalidOptionError(
                "the documents cannot be sorted by this field for good",
                expected="a field of the kind keyword, date or number, without a fraction",
                found=f"{self._sort_field}: {', '.join(sorted(map(str, kinds)))}",
                option=options.SORT_FIELD.key,
            )
        return self._sort_field if kinds <= _NUMBERS else None


def _metadata_columns(
    given: Mapping[str, str] | Sequence[str],
) -> tuple[tuple[MetadataColumn, str], ...]:
    named = dict(given) if isinstance(given, Mapping) else {name: name for name in given}
    found = []
    for column, name in named.items():
        try:
            found.append((MetadataColumn(column), name))
        except ValueError:
            raise InvalidOptionError(
                "this cannot be told of a document",
                expected=[each.value for each in MetadataColumn],
                found=column,
                option=options.METADATA_COLUMNS.key,
            ) from None
    return tuple(found)
