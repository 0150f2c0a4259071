# SPDX-License-Identifier: Apache-2.0
"""Decodes the hits of a response into columns.

If the documents match the mapping exactly, the response is parsed straight into columns without an
object per document. Elasticsearch accepts more: quoted numbers, a single value for several, and
timestamps as numbers. A response with such a document is decoded document by document, with the
server's own rules. A document that cannot be decoded is a bad record.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from connector_elasticsearch.documents.parser import plain, raw_json
from connector_elasticsearch.documents.values import (
    MOST_IN_FLOAT,
    Moments,
    converter_of,
    is_whole,
    value_in,
)
from connectors_core.errors import ConfigurationError
from connectors_core.formats.text import parse_json

__all__ = ["Damaged", "DocumentDecoder", "DocumentMetadata", "moments_of"]

# Timestamps that Arrow's parser reads identically, to the last digit that a column has.
_FORMAT: Final = "uuuu-MM-dd'T'HH:mm:ss.SSSSSS'Z'"
_NOT_IN_A_PATTERN: Final = re.compile(r"^\s+|[,\\]|\s+$")


class DocumentMetadata(StrEnum):
    """Metadata that the source can provide for each document."""

    ID = "_id"
    INDEX = "_index"
    ROUTING = "_routing"
    VERSION = "_version"
    SEQ_NO = "_seq_no"
    PRIMARY_TERM = "_primary_term"

    @property
    def type(self) -> pa.DataType:
        """The type of the column."""
        text = {DocumentMetadata.ID, DocumentMetadata.INDEX, DocumentMetadata.ROUTING}
        return pa.string() if self in text else pa.int64()


@dataclass(frozen=True)
class Damaged:
    """A document that cannot be read.

    Attributes:
        reason: The reason, without the document's values.
        document: The document's index and ID.
        raw: The document's source, as JSON.
    """

    reason: str
    document: str
    raw: bytes


class DocumentDecoder:
    """Decodes hits into columns. Driver and executor.

    Args:
        schema: The columns from the source of the documents.
        metadata_columns: The metadata columns, and their names.
        formatted: Paths of timestamps that the server must write in its own format.

    Raises:
        ConfigurationError: Two columns have the timestamps of one field.
        UnsupportedError: A column has a type without a JSON counterpart.
    """

    def __init__(
        self,
        schema: pa.Schema,
        *,
        metadata_columns: Sequence[tuple[DocumentMetadata, str]] = (),
        formatted: Sequence[str] = (),
    ) -> None:
        self._source = schema
        self._metadata = tuple(metadata_columns)
        self._formatted = tuple(formatted)
        several = {path for path, is_several in _moments(list(schema)) if is_several}
        self._moments = {path: Moments(is_several=path in several) for path in formatted}
        paths = list(moments_of(list(schema)))
        shared = [path for path in formatted if paths.count(path) > 1]
        if shared:
            raise ConfigurationError(
                "a date with its own format can be read into one column only",
                expected="one column, or one field of a struct, for each field",
                found=", ".join(shared),
                option="schema",
            )
        # Arrow's parser knows no maps, and no timestamps that depend on the document.
        self._never_at_once = bool(several.intersection(formatted)) or _any_holds(
            schema.types, pa.types.is_map
        )
        self._convert = [(field, converter_of(field, self._moments)) for field in schema]
        self._not_at_once = tuple(sorted(_names_to_look_for(schema)))
        more = [pa.field(name, column.type) for column, name in self._metadata]
        self.schema = pa.schema([*schema, *more])
        self.hit_type = _hit_type(schema, self._metadata, self._formatted)

    @property
    def paths(self) -> list[str]:
        """Patterns of the fields to request from the source of each document.

        A request separates fields by commas, and the server removes white space around each.

        These are whole columns. If the request named the fields in an object, the server would
        omit a value that is not an object, and the column would be null. Vectors are also named,
        because the server can omit those that no request names.
        """
        vectors = (path for path, kind in _leaves(self._source) if pa.types.is_floating(kind))
        names = dict.fromkeys([*self._source.names, *vectors])
        return [_NOT_IN_A_PATTERN.sub("*", name) for name in names]

    @cached_property
    def filters(self) -> bool:
        """Whether the server can omit fields that are not read.

        The server rewrites a filtered document, and then writes a number with a fraction as a
        double.
        """
        return not _any_holds(self._source.types, _has_fractions)

    @property
    def needs_search(self) -> bool:
        """Whether only a search returns all columns, and not a request by ID."""
        return bool(self._formatted) or (self._has_vectors and not self.filters)

    @property
    def _has_vectors(self) -> bool:
        """Whether a column can hold vectors.

        Since version 9.2, the server omits vectors unless a request selects them.
        """
        return _any_holds(self._source.types, _is_list_of_floats)

    def filter_path(self, *names: str) -> dict[str, str]:
        """The parameter that limits the response to the needed fields, if filtering is possible."""
        return {"filter_path": ",".join(names)} if self.filters else {}

    @property
    def hit_names(self) -> tuple[str, ...]:
        """The parsed type of a hit."""
        moments = ("fields", "_ignored") if self._formatted else ()
        return ("_id", "_index", "_source", *moments, *(column for column, _ in self._metadata))

    def search(self, *, whole: bool = False) -> dict[str, Any]:
        """Return the parts of a search body that are needed to decode its hits.

        Args:
            whole: Whether to request the unchanged source instead of only its columns.
        """
        body: dict[str, Any] = {}
        if not self._source.names:
            body["_source"] = False
        elif self.filters and (self._has_vectors or not whole):
            body["_source"] = self.paths
        elif self._has_vectors:
            body["_source"] = {"exclude_vectors": False}
        if self._formatted:
            body["fields"] = [{"field": path, "format": _FORMAT} for path in self._formatted]
        columns = {column for column, _ in self._metadata}
        if DocumentMetadata.VERSION in columns:
            body["version"] = True
        if columns & {DocumentMetadata.SEQ_NO, DocumentMetadata.PRIMARY_TERM}:
            body["seq_no_primary_term"] = True
        return body

    def parsed(self, answer: bytes, schema: pa.Schema) -> pa.Table:
        """Parse a response with hits as one row.

        Args:
            answer: The server's response.
            schema: The fields to parse, including `hit_type`.

        Raises:
            pyarrow.ArrowInvalid: The response does not match the schema, or could have another
                spelling: `{"maker.name": ""}` is the same as `{"maker": {"name": ""}}`.
        """
        if self._never_at_once:
            raise pa.ArrowInvalid("values that Arrow cannot parse")
        searched = answer
        for path in self._formatted:  # the response contains these by their paths
            searched = searched.replace(f'"{path}":'.encode(), b"") if "." in path else searched
        if any(name in searched for name in self._not_at_once):
            raise pa.ArrowInvalid("a path that is written in another way")
        return parse_json(answer, schema, ignore_new=True)

    def columns(self, hits: pa.StructArray) -> pa.RecordBatch:
        """Convert hits parsed as `hit_type` to rows.

        Raises:
            pyarrow.ArrowInvalid: A hit does not match the schema.
        """
        columns = []
        source = hits.field("_source")
        if self._formatted and hits.field("_ignored").null_count < len(hits):
            raise pa.ArrowInvalid("a value that the server does not accept")
        if self._source.names and source.null_count:
            raise pa.ArrowInvalid("a document without a source")
        for field in self._source:
            column = _child(source, field)
            if column.null_count and not field.nullable:
                raise pa.ArrowInvalid("null in a column that is not nullable")
            columns.append(column)
        for path in self._formatted:
            _replace(columns, self._source, path, hits.field("fields").field(path))
        columns += [hits.field(column.value) for column, _ in self._metadata]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def row(self, hit: Mapping[str, Any]) -> dict[str, Any] | Damaged:
        """Return the row of one hit, or the reason why it cannot be decoded.

        Raises:
            ConfigurationError: The index does not keep the source of its documents.
        """
        if self._source.names and "_source" not in hit:
            raise ConfigurationError(
                "the source of the documents is not available",
                expected="an index whose mapping does not turn off `_source`",
                found=str(hit.get("_index")),
                option="index",
            )
        source = hit.get("_source", {})
        row: dict[str, Any] = {}
        name = ""
        try:
            self._begin(hit)
            for field, convert in self._convert:
                name = field.name
                row[name] = convert(value_in(source, field))
            for path, moments in self._moments.items():
                name = path
                moments.end()
            for column, name in self._metadata:
                row[name] = _told(hit.get(column.value))
        except (ValueError, OverflowError, RecursionError) as error:
            document = f"{hit.get('_index')}/{hit.get('_id')}"
            return Damaged(f"the field {name!r}: {error}", document, raw_json(source))
        return row

    def _begin(self, hit: Mapping[str, Any]) -> None:
        """Take the timestamps that the server wrote for a document."""
        ignored = hit.get("_ignored", ())
        for path, moments in self._moments.items():
            if path in ignored:
                raise ValueError(f"{path}: the server does not accept the value")
            moments.begin(_written(hit.get("fields"), path))

    def batch(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        """Return rows of `row` as columns."""
        columns = pa.array(rows, type=pa.struct(list(self.schema)))
        return pa.RecordBatch.from_struct_array(columns).cast(self.schema)


# --- The parser's types -------------------------------------------------------------------------


def _hit_type(
    schema: pa.Schema,
    metadata: Sequence[tuple[DocumentMetadata, str]],
    formatted: Sequence[str],
) -> pa.DataType:
    source = pa.struct(list(_parsed_fields(schema, frozenset(formatted), "")))
    hit = [("_source", source), *((column.value, column.type) for column, _ in metadata)]
    if formatted:
        moments = pa.list_(pa.timestamp("us", tz="UTC"))
        hit.append(("fields", pa.struct([(path, moments) for path in formatted])))
        hit.append(("_ignored", pa.list_(pa.string())))
    return pa.struct(hit)


def _parsed_fields(
    fields: Iterable[pa.Field], formatted: frozenset[str], above: str
) -> Iterator[pa.Field]:
    for field in fields:
        path = f"{above}{field.name}"
        if path not in formatted:
            yield pa.field(field.name, _parsed_type(field.type, formatted, f"{path}."))


def _parsed_type(kind: pa.DataType, formatted: frozenset[str], above: str) -> pa.DataType:
    """Return the type to parse a column as, before its conversion."""
    if pa.types.is_struct(kind):
        return pa.struct(list(_parsed_fields(kind.fields, formatted, above)))
    if pa.types.is_list(kind):
        return pa.list_(_parsed_type(kind.value_type, formatted, above))
    if pa.types.is_float32(kind):
        return pa.float64()  # so that an overflow is detected
    if pa.types.is_binary(kind) or pa.types.is_map(kind):
        return pa.string()
    if pa.types.is_date32(kind):
        return pa.timestamp("us")
    return kind


def _names_to_look_for(schema: pa.Schema) -> set[bytes]:
    """Return a pattern for responses in which a path is not spelled like its column.

    An object can be written with dots, `{"maker.name": ""}`. A field whose own name contains dots
    can be written as objects.
    """
    objects = {each.name for each in _all_fields(schema) if pa.types.is_struct(each.type)}
    dotted = {each.name.partition(".")[0] for each in _all_fields(schema) if "." in each.name}
    return {f'"{name}.'.encode() for name in objects} | {f'"{name}":'.encode() for name in dotted}


def _all_fields(fields: Iterable[pa.Field]) -> Iterator[pa.Field]:
    """Yield fields and the fields inside them. For a list, yield the field of its values."""
    for field in fields:
        if pa.types.is_list(field.type):
            field = field.with_type(field.type.value_type)
        yield field
        if pa.types.is_struct(field.type):
            yield from _all_fields(field.type.fields)


def _any_holds(kinds: Iterable[pa.DataType], test: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or a type in it, passes a test."""
    return any(
        test(kind)
        or (
            pa.types.is_nested(kind)
            and _any_holds((kind.field(at).type for at in range(kind.num_fields)), test)
        )
        for kind in kinds
    )


def _has_fractions(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) and bool(kind.scale > 0)


def _is_list_of_floats(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) and bool(pa.types.is_floating(kind.value_type))


def _child(struct: pa.StructArray, field: pa.Field) -> pa.Array:
    """Return a struct's field with the type of its column, or nulls if it was not parsed.

    Raises:
        pyarrow.ArrowInvalid: A value does not fit.
    """
    if struct.type.get_field_index(field.name) < 0:
        return pa.nulls(len(struct), field.type)
    return _converted(struct.field(field.name), field.type)


def _converted(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return parsed values with the type of their column.

    Raises:
        pyarrow.ArrowInvalid: A value does not fit.
    """
    if array.type.equals(kind):
        return array
    if pa.types.is_struct(kind):
        children = [_child(array, field) for field in kind.fields]
        return pa.StructArray.from_arrays(children, fields=kind.fields, mask=array.is_null())
    if pa.types.is_list(kind):
        values = _converted(array.values, kind.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
    if pa.types.is_float32(kind):
        largest = pc.max(pc.abs(array)).as_py()
        if largest is not None and largest > MOST_IN_FLOAT:
            raise pa.ArrowInvalid("too large for a float")
    if pa.types.is_binary(kind):
        try:
            values = [value and base64.b64decode(value) for value in array.to_pylist()]
        except binascii.Error as error:
            raise pa.ArrowInvalid(str(error)) from error
        return pa.array(values, type=kind)
    return array.cast(kind, safe=not pa.types.is_date32(kind))


def _replace(
    columns: list[pa.Array], fields: Sequence[pa.Field], path: str, moments: pa.Array
) -> None:
    """Replace the source's timestamps with those that the server wrote."""
    at = next(at for at, field in enumerate(fields) if path in leaves([field]))
    if fields[at].name == path:
        if pc.max(pc.list_value_length(moments)).as_py() not in {None, 1}:
            raise pa.ArrowInvalid("several timestamps")
        columns[at] = pc.list_element(pc.fill_null(moments, [None]), 0).cast(fields[at].type)
        return
    struct = columns[at]
    children = [struct.field(each) for each in range(struct.type.num_fields)]
    _replace(children, fields[at].type.fields, path.removeprefix(f"{fields[at].name}."), moments)
    columns[at] = pa.StructArray.from_arrays(
        children, fields=struct.type.fields, mask=struct.is_null()
    )


def _moments(
    fields: Sequence[pa.Field], above: str = "", *, is_several: bool = False
) -> Iterator[tuple[str, bool]]:
    """Return the paths of the fields with values, and whether each can occur several times."""
    for field in fields:
        path, kind, several = f"{above}{field.name}", field.type, is_several
        if pa.types.is_list(kind):
            kind, several = kind.value_type, True
        if pa.types.is_struct(kind):
            yield from _moments(kind.fields, f"{path}.", is_several=several)
        else:
            yield path, several


def _written(fields: Any, path: str) -> Iterator[Any]:
    """Return the values that the server wrote for a path, or inside a nested object."""
    if not isinstance(fields, dict):
        return
    if path in fields:
        yield from fields[path]
        return
    at = path.find(".")
    while at >= 0:
        for each in fields.get(path[:at], ()):
            yield from _written(each, path[at + 1 :])
        at = path.find(".", at + 1)


def _told(value: Any) -> Any:
    """Return a timestamp in the form that the server wrote.

    Raises:
        ValueError: The timestamp does not fit a column.
    """
    if isinstance(value, str) and not is_whole(value):
        raise ValueError("it contains half of a surrogate pair")
    return plain(value)


def moments_of(fields: Sequence[pa.Field]) -> Iterator[str]:
    """Return the paths, with dots, of the fields whose columns hold timestamps or dates."""
    return (path for path, kind in _leaves(fields) if pa.types.is_temporal(kind))


def maps_of_moments(fields: Sequence[pa.Field]) -> Iterator[str]:
    """Return the paths, with dots, of the maps whose values hold timestamps or dates."""
    return (
        path
        for path, kind in _leaves(fields)
        if pa.types.is_map(kind) and _any_holds([kind], pa.types.is_temporal)
    )


def leaves(fields: Sequence[pa.Field]) -> Iterator[str]:
    """Return the paths, with dots, of the fields with values."""
    return (path for path, _ in _leaves(fields))


def _leaves(fields: Sequence[pa.Field], above: str = "") -> Iterator[tuple[str, pa.DataType]]:
    for field in fields:
        path, kind = f"{above}{field.name}", field.type
        kind = kind.value_type if pa.types.is_list(kind) else kind
        if pa.types.is_struct(kind):
            yield from _leaves(kind.fields, f"{path}.")
        else:
            yield path, kind
