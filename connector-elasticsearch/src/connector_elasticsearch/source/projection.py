# SPDX-License-Identifier: Apache-2.0
"""The columns and nested fields that a query needs of documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from connector_elasticsearch.documents import DocumentMetadata
from connectors_core.schema import narrowed_schema, widened_column
from connectors_core.source import FieldPath

__all__ = ["Projection"]


@dataclass(frozen=True, kw_only=True)
class Projection:
    """A part of the columns of documents.

    Attributes:
        schema: The columns from the source of documents.
        read: The same columns with only the needed nested fields.
        metadata_columns: The metadata columns, and their names.
    """

    schema: pa.Schema
    read: pa.Schema
    metadata_columns: tuple[tuple[DocumentMetadata, str], ...]

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        metadata_columns: Sequence[tuple[DocumentMetadata, str]],
        fields: Sequence[FieldPath],
    ) -> Projection:
        """Choose columns.

        Args:
            schema: All columns from the source of documents.
            metadata_columns: All metadata columns, and their names.
            fields: The needed columns and nested fields.
        """
        names = {path[0] for path in fields}
        kept = [field for field in schema if field.name in names]
        # The other fields of an object become null, so they must be able to.
        paths = {
            path if _can_be_cut(schema.field(path[0]).type) else path[:1]
            for path in fields
            if path[0] in schema.names
        }
        return cls(
            schema=pa.schema(kept),
            read=narrowed_schema(pa.schema(kept), sorted(paths)),
            metadata_columns=tuple(each for each in metadata_columns if each[1] in names),
        )

    @property
    def is_exact(self) -> bool:
        """Whether the columns keep all digits although the server rewrites the documents.

        The server writes a number with a fraction as a double, even if it is in an integer field.
        """
        return not any(map(_has_decimals, self.read.types))

    def restored(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of `read` and metadata with the full type of each column."""
        if self.read.equals(self.schema):
            return rows
        at = len(self.schema)
        columns = [
            widened_column(rows.column(number), field.type)
            for number, field in enumerate(self.schema)
        ]
        schema = pa.schema([*self.schema, *list(rows.schema)[at:]])
        return pa.RecordBatch.from_arrays([*columns, *rows.columns[at:]], schema=schema)


def _can_be_cut(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and all(
        field.nullable and (_can_be_cut(field.type) or not pa.types.is_struct(field.type))
        for field in kind.fields
    )


def _has_decimals(kind: pa.DataType) -> bool:
    if pa.types.is_decimal(kind):
        return True
    nested = pa.types.is_nested(kind)
    return nested and any(_has_decimals(kind.field(at).type) for at in range(kind.num_fields))
