# SPDX-License-Identifier: Apache-2.0
"""The rows of a table of documents: columns of the source, and the ID."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from connector_elasticsearch.documents.decoder import DocumentDecoder, DocumentMetadata

__all__ = ["DocumentRows"]


@dataclass(frozen=True, kw_only=True)
class DocumentRows:
    """The columns of documents that a join needs. Picklable. No I/O.

    Attributes:
        schema: The schema of the rows.
        id_column: The column that holds the documents' ID, or None.
        formatted: Paths of timestamps that the server must write in its own format.
    """

    schema: pa.Schema
    id_column: str | None
    formatted: tuple[str, ...]

    @property
    def source_schema(self) -> pa.Schema:
        """The columns from the source of documents."""
        return pa.schema([each for each in self.schema if each.name != self.id_column])

    @property
    def metadata_columns(self) -> tuple[tuple[DocumentMetadata, str], ...]:
        """The ID, if it is a column."""
        if self.id_column not in self.schema.names:
            return ()
        return ((DocumentMetadata.ID, str(self.id_column)),)

    @cached_property
    def decoder(self) -> DocumentDecoder:
        """The decoder of hits, which cannot be pickled. Executor."""
        return self._decoder()

    @property
    def needs_search(self) -> bool:
        """See `DocumentDecoder.needs_search`. Driver."""
        return self._decoder().needs_search

    def _decoder(self) -> DocumentDecoder:
        return DocumentDecoder(
            self.source_schema, metadata_columns=self.metadata_columns, formatted=self.formatted
        )

    def finished(self, rows: pa.Table) -> pa.Table:
        """Convert rows of the decoder's schema to the table's schema."""
        return rows.select(self.schema.names).cast(self.schema)
