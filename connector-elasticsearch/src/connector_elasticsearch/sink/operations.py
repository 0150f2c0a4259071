# SPDX-License-Identifier: Apache-2.0
"""Converts rows to the operations of a bulk request, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connector_elasticsearch.sink.document_ids import can_be_id, document_ids
from connector_elasticsearch.sink.float_checks import not_finite
from connector_elasticsearch.sink.index_names import DATE_MATH, IndexName
from connectors_core.errors import ConfigurationError
from connectors_core.formats.text import (
    concat_texts,
    dates_without_text,
    is_string,
    json_objects,
    unsupported_json_type,
)
from connectors_core.records import BadRecord
from connectors_core.sink import (
    ROW_KIND_COLUMN,
    ElementConverter,
    EntryColumns,
    WriterInitContext,
    is_deletion,
    is_replaced,
    is_unknown_row_kind,
)

__all__ = ["BulkConverter", "VersionType", "WriteOperation", "document_of"]

_MAX_ID_BYTES: Final = 512  # the server refuses the whole request for a longer ID
# The server merges objects of a `doc`, so keys that a map no longer has would stay. It compiles the
# script once, because its text is always the same.
_REPLACE: Final = "ctx._source.putAll(params.doc)"
_BAD_ROW: Final = "ELASTICSEARCH_DOCUMENT"

_Mask = npt.NDArray[np.bool_]


class WriteOperation(StrEnum):
    """The operation for a row that is not a deletion."""

    INDEX = "index"
    """Write the document, and replace one with the same ID."""
    CREATE = "create"
    """Write the document unless its ID exists. Data streams accept only this operation."""
    UPDATE = "update"
    """Replace the fields of the document with this ID, which must exist."""
    UPSERT = "upsert"
    """Replace the fields of the document with this ID, or create it."""


class VersionType(StrEnum):
    """Which versions of a document replace an existing one with the same ID."""

    EXTERNAL = "external"
    """The new version is higher."""
    EXTERNAL_GTE = "external_gte"
    """The new version is higher or equal, so that a document written again replaces itself."""


def document_of(operation: bytes) -> bytes:
    """Return the document in an operation of a bulk request, or the only line of a deletion."""
    first, _, second = operation.rstrip(b"\n").partition(b"\n")
    return second or first


@dataclass(frozen=True, kw_only=True)
class BulkConverter(ElementConverter[bytes]):
    """Converts rows to operations, without creating a Python object per value.

    Immutable and picklable.

    Args:
        index: The target index.
        operation: The operation for a row that is not a deletion.
        id_columns: The columns of the ID. If empty, the server assigns an ID.
        id_delimiter: The separator between them.
        routing_column: The column that determines the shard.
        version_column: The column of the document's version.
        version_type: When a version replaces another one.
        exclude_columns: Columns that are not part of the document.
        ignore_null_fields: Omit null fields.
        merge_objects: Whether an update merges an object into the one of the document.
    """

    index: IndexName
    operation: WriteOperation
    id_columns: tuple[str, ...]
    id_delimiter: str
    routing_column: str | None
    version_column: str | None
    version_type: VersionType
    exclude_columns: tuple[str, ...]
    ignore_null_fields: bool
    merge_objects: bool

    def validate(self, schema: pa.Schema) -> None:
        """Refuse a schema whose rows can never be written. Driver.

        Raises:
            ConfigurationError: A column is missing, occurs twice, or has a wrong type, or two
                columns are the same field.
        """
        twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
        if twice:
            raise ConfigurationError(
                "columns have the same name", expected="unique column names", found=", ".join(twice)
            )
        if ROW_KIND_COLUMN in schema.names:
            self._validate_changelog()
        self.index.check(schema)
        for name in self.id_columns:
            _check(schema, name, "document-id.columns", can_be_id(_type(schema, name)))
        if self.routing_column is not None:
            kind = _type(schema, self.routing_column)
            is_word = is_string(kind) or pa.types.is_integer(kind)
            _check(schema, self.routing_column, "routing.column", is_word)
        if self.version_column is not None:
            is_number = pa.types.is_integer(_type(schema, self.version_column))
            _check(schema, self.version_column, "version.column", is_number)
        for name in self.exclude_columns:
            _check(schema, name, "document.exclude-columns", True)
        for name in self._document_columns(schema):
            refused = unsupported_json_type(schema.field(name).type)
            if refused is not None:
                raise ConfigurationError(
                    f"the column {name!r} cannot be written as JSON",
                    expected="a type that JSON can represent",
                    found=refused,
                    option="document.exclude-columns",
                    hint="convert it or drop it",
                )
        fields = [
            path
            for name in self._document_columns(schema)
            for path in _field_paths(name, schema.field(name).type)
        ]
        same = sorted({path for path in fields if fields.count(path) > 1})
        if same:
            raise ConfigurationError(
                "columns are the same field: Elasticsearch takes 'a.b' for the field 'b' of 'a'",
                expected="one column for each field",
                found=", ".join(same),
                option="document.exclude-columns",
                hint="rename or drop one of them",
            )

    def apply(self, batch: pa.RecordBatch, context: WriterInitContext) -> EntryColumns:
        """See `ElementConverter`.

        An entry is the action line and, if any, the line of the document.
        """
        heads = self._heads(batch)
        if ROW_KIND_COLUMN in batch.schema.names:
            replaced = is_replaced(batch.column(ROW_KIND_COLUMN), heads.column("_id"))
            kept = pc.invert(replaced)
            batch, heads = batch.filter(kept), heads.filter(kept)
        bad = list(self._bad_rows(batch, heads))
        if bad:
            good = np.ones(batch.num_rows, np.bool_)
            for mask, reason in bad:
                for at in np.flatnonzero(mask & good).tolist():
                    self._refuse(batch.slice(at, 1), reason, context)
                good &= ~mask
            kept = pa.array(good)
            batch, heads = batch.filter(kept), heads.filter(kept)
        if not batch.num_rows:
            return EntryColumns(pa.array([], pa.string()))
        return EntryColumns(
            self._bodies(batch, heads), heads.column("_id") if self.id_columns else None
        )

    # --- The action lines -----------------------------------------------------------------------

    def _heads(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the first line of each operation."""
        columns: dict[str, pa.Array] = {}
        if self.index.static is None:
            columns["_index"] = self.index.of(batch)
        if self.id_columns:
            parts = [batch.column(name) for name in self.id_columns]
            columns["_id"] = document_ids(parts, self.id_delimiter)
        if self.routing_column is not None:
            columns["routing"] = batch.column(self.routing_column).cast(pa.string())
        if self.version_column is not None:
            columns["version"] = batch.column(self.version_column)
            columns["version_type"] = pa.repeat(self.version_type.value, batch.num_rows)
        schema = pa.schema([(name, column.type) for name, column in columns.items()])
        if not columns:  # a batch without columns would also have no rows
            return pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows)], names=["_id"])
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)

    def _bad_rows(
        self, batch: pa.RecordBatch, heads: pa.RecordBatch
    ) -> Iterator[tuple[_Mask, str]]:
        """Find rows that the server would refuse, some of them together with the whole request."""
        deleted = None
        if ROW_KIND_COLUMN in batch.schema.names:
            kinds = batch.column(ROW_KIND_COLUMN)
            deleted = _mask(is_deletion(kinds))
            yield from _some(is_unknown_row_kind(kinds), f"unknown row kind in {ROW_KIND_COLUMN!r}")
        if self.index.static is None:
            names = heads.column("_index")
            yield from _some(_is_empty(names), "the index name of the row is empty")
            is_date_math = pc.starts_with(names, DATE_MATH)
            yield from _some(
                is_date_math, "the index name of the row contains date math, which is not allowed"
            )
        if self.id_columns:
            ids = heads.column("_id")
            yield from _some(_is_empty(ids), "a column of the id is null, or the id is empty")
            too_long = pc.greater(pc.binary_length(ids), _MAX_ID_BYTES)
            yield from _some(too_long, f"the id has more than {_MAX_ID_BYTES} bytes")
        if self.version_column is not None:
            versions = heads.column("version")
            wrong = pc.fill_null(pc.less(versions, 0), True)
            yield from _some(wrong, "the version is null or negative")
        yield from (
            (mask, f"the column {name!r} contains a time outside the years 1 to 9999")
            for name, mask in dates_without_text(batch)
        )
        for name in self._document_columns(batch.schema):
            mask = not_finite(batch.column(name))
            if mask is not None and deleted is not None:
                mask &= ~deleted  # deletions have no document
            if mask is not None and mask.any():
                yield (
                    mask,
                    (
                        f"the column {name!r} contains NaN or an infinity, which JSON cannot "
                        "represent"
                    ),
                )

    # --- Bodies ---------------------------------------------------------------------------------

    def _bodies(self, batch: pa.RecordBatch, heads: pa.RecordBatch) -> pa.Array:
        head = self._head_texts(heads)
        documents = self._documents(batch)
        before, after = self._around_documents(batch.schema)
        action = "update" if self.operation is WriteOperation.UPSERT else self.operation.value
        if ROW_KIND_COLUMN not in batch.schema.names:
            return concat_texts([f'{{"{action}":', head, "}\n" + before, documents, after])
        deleted = is_deletion(batch.column(ROW_KIND_COLUMN))
        line = pc.if_else(deleted, '{"delete":', f'{{"{action}":')
        document = pc.if_else(deleted, "", concat_texts([before, documents, after]))
        return concat_texts([line, head, "}\n", document])

    def _around_documents(self, schema: pa.Schema) -> tuple[str, str]:
        if self.operation not in (WriteOperation.UPDATE, WriteOperation.UPSERT):
            return "", "\n"
        upserts = self.operation is WriteOperation.UPSERT
        kinds = (schema.field(name).type for name in self._document_columns(schema))
        if self.merge_objects or not any(map(_is_object, kinds)):
            return '{"doc":', ',"doc_as_upsert":true}\n' if upserts else "}\n"
        more = ',"scripted_upsert":true,"upsert":{}' if upserts else ""
        return f'{{"script":{{"source":"{_REPLACE}","params":{{"doc":', f"}}}}{more}}}\n"

    def _head_texts(self, heads: pa.RecordBatch) -> pa.Array:
        return pa.concat_arrays(list(json_objects(heads)))

    def _documents(self, batch: pa.RecordBatch) -> pa.Array:
        columns = batch.select(self._document_columns(batch.schema))
        if not columns.num_columns:
            return pa.repeat("{}", batch.num_rows)
        texts = json_objects(columns, write_nulls=not self.ignore_null_fields)
        return pa.concat_arrays(list(texts))

    def _document_columns(self, schema: pa.Schema) -> list[str]:
        left_out = {ROW_KIND_COLUMN, *self.exclude_columns}
        return [name for name in schema.names if name not in left_out]

    # --- Unsupported schemas --------------------------------------------------------------------

    def _refuse(self, row: pa.RecordBatch, reason: str, context: WriterInitContext) -> None:
        context.record_errors.handle(
            BadRecord(
                reason=reason,
                source_uid=context.sink_uid,
                code=_BAD_ROW,
                raw=self._documents(row)[0].as_py().encode(),
            )
        )

    def _validate_changelog(self) -> None:
        if not self.id_columns:
            raise ConfigurationError(
                "rows of a changelog need an id to find their document",
                expected="columns of the id",
                found="none",
                option="document-id.columns",
                hint="set them, or drop the column '_row_kind'",
            )
        if self.operation is WriteOperation.CREATE:
            raise ConfigurationError(
                "rows of a changelog replace documents, which 'create' never does",
                expected="index, update or upsert",
                found=self.operation.value,
                option="sink.operation",
            )


def _field_paths(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _field_paths(f"{path}.{field.name}", field.type)
    elif pa.types.is_nested(kind) and not pa.types.is_map(kind):
        yield from _field_paths(path, kind.value_type)
    else:
        yield path


def _is_object(kind: pa.DataType) -> bool:
    return bool(pa.types.is_map(kind) or pa.types.is_struct(kind))


def _some(mask: pa.Array, reason: str) -> Iterator[tuple[_Mask, str]]:
    if pc.any(mask).as_py():
        yield _mask(pc.fill_null(mask, False)), reason


def _mask(column: pa.Array) -> _Mask:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)


def _is_empty(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(pc.binary_length(texts), 0), True)


def _type(schema: pa.Schema, name: str) -> Any:
    return schema.field(name).type if name in schema.names else pa.null()


def _check(schema: pa.Schema, name: str, option: str, fits: bool) -> None:
    if name not in schema.names:
        raise ConfigurationError(
            f"the column {name!r} is missing",
            expected="a column of the rows",
            found=f"columns {', '.join(schema.names)}",
            option=option,
        )
    if not fits:
        raise ConfigurationError(
            f"the column {name!r} has an unsupported type",
            expected="whole numbers" if option == "version.column" else "texts or whole numbers",
            found=schema.field(name).type,
            option=option,
            hint="cast the column",
        )
