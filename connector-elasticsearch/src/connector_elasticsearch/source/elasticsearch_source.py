# SPDX-License-Identifier: Apache-2.0
"""The source."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from connector_elasticsearch.client.reachability import check_reachable
from connector_elasticsearch.documents import Layout
from connector_elasticsearch.source.enumerator import (
    SliceEnumerator,
    SliceEnumeratorState,
    state_serializer,
)
from connector_elasticsearch.source.options import ElasticsearchSourceOptions
from connector_elasticsearch.source.reader import SliceReader
from connector_elasticsearch.source.searcher import SearchSettings
from connector_elasticsearch.source.split import SliceSplit, split_serializer
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import InvalidOptionError
from connectors_core.serialization import VersionedSerializer
from connectors_core.source import (
    Boundedness,
    Source,
    SourceReaderContext,
    SplitEnumeratorContext,
    SplitTraits,
)

__all__ = ["ElasticsearchSource"]

_NUMBERS: Final = frozenset(
    {"byte", "date", "date_nanos", "integer", "long", "short", "unsigned_long"}
)


class ElasticsearchSource(
    ElasticsearchSourceOptions, Source[SliceSplit, SliceEnumeratorState], SupportsConnectionCheck
):
    """Reads the documents of indices as they are when it starts; batch and streaming, bounded.

    One point in time is read in slices, page after page. Guarantee: exactly once, as long as the
    server keeps the point in time; it loses it when it is restarted, or not asked for longer than
    `keep_alive`. Then reading fails with a `PointInTimeLostError`, or, with a `sort_field`, goes on
    in a new point in time behind the last value: documents that were changed meanwhile are read as
    they are then.

    Immutable and picklable; no I/O in the constructor.

    Raises:
        ConfigurationError: Something given cannot be used, or does not fit together.
    """

    def __post_init__(self) -> None:
        self._documents = self.selection(self.retry_timeout)

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
            context, self._settings(), slices=self.slices, limit=self.limit, state=state
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
            metadata_columns=self.metadata_columns,
            formatted=documents.layout.formatted,
            query=documents.query,
            selects=bool(documents.fields) or documents.schema is not None,
            sort_field=self.sort_field,
            slice_field=self._slice_field(documents.layout),
            page_size=self.page_size,
            keep_alive=self.keep_alive,
            retry_timeout=documents.retry_timeout,
        )

    def _slice_field(self, layout: Layout) -> str | None:
        """The sort field, where slices can be made by it too."""
        if self.sort_field is None:
            return None
        kinds = layout.kinds(self.sort_field)
        if not kinds <= _NUMBERS | {"keyword"}:
            raise InvalidOptionError(
                "the documents cannot be sorted by this field for good",
                expected="a field of the kind keyword, date or number, without a fraction",
                found=f"{self.sort_field}: {', '.join(sorted(map(str, kinds)))}",
                option="source.sort-field",
            )
        return self.sort_field if kinds <= _NUMBERS else None


ELASTICSEARCH_SOURCE_OPTIONS: Final = ElasticsearchSource.OPTIONS
"""The options of `ElasticsearchSource.from_options`."""
