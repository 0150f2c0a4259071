# SPDX-License-Identifier: Apache-2.0
"""Messages that are JSON objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError
from connectors_core.formats.isolation import (
    SINCE,
    EmptyMessages,
    KnownBadError,
    RecordFormat,
    decode_isolating,
    joined_texts,
)
from connectors_core.formats.messages import Decoded, Encoded, encode_good
from connectors_core.formats.text import (
    JsonReader,
    converted,
    data_of,
    json_faults,
    json_objects,
    unreadable_json_type,
    unsupported_json_type,
)
from connectors_core.options import Setting, option
from connectors_core.schema import CastValues
from connectors_core.schema.misfits import MisfitError

__all__ = [
    "JsonFormat",
    "decode_json",
    "look_like_objects",
    "read_json_messages",
]

_SPACE: Final = " \t\r\n"
_NO_OBJECT: Final = "the message is not a JSON object"


class JsonFormat(RecordFormat, since=SINCE):
    """Each message is one JSON object in UTF-8; its fields are the columns.

    A missing field is null. If its column is not nullable, the message is a bad record. Times are
    ISO 8601, and UTC if they have no zone. Binary is base64, decimals are numbers or strings, maps
    are objects, and NaN and infinities are strings. A string column reads a number, an object, or
    any other value as its JSON text, as in Spark 4.
    """

    fail_on_unknown_field: Setting[bool] = option(
        "json.fail-on-unknown-field",
        bool,
        default=False,
        doc="Whether a message with a field that is not a column is a bad record.",
    )
    strict: Setting[bool] = option(
        "json.decode.strict",
        bool,
        default=False,
        since="1.2.0",
        doc="Whether a value in another spelling, or a field that occurs twice, makes a record "
        "bad. By default, as in Spark and Flink, a fraction of a second is cut to microseconds, a "
        "decimal is rounded to its scale, a number or a boolean may be a text, and the last value "
        "of a field counts.",
    )
    ignore_null_fields: Setting[bool] = option(
        "json.encode.ignore-null-fields",
        bool,
        default=False,
        doc="Whether to omit null fields when writing.",
        aliases=("ignorenullfields", "json.write-nulls"),
    )

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        for field in schema:
            refused = unreadable_json_type(field.type)
            if refused is not None:
                raise _refused(
                    "read from", field, refused, "declare it as string and convert it in Spark"
                )

    def projected(self, schema: pa.Schema) -> JsonFormat | None:
        """See `DecodingFormat`. To find unknown fields, it needs all columns."""
        return None if self.fail_on_unknown_field else self

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`."""
        for field in schema:
            refused = unsupported_json_type(field.type)
            if refused is not None:
                raise _refused("written as", field, refused, "convert it or drop it")

    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """See `DecodingFormat`."""
        reader = JsonReader(schema, ignore_new=not self.fail_on_unknown_field, strict=self.strict)
        return decode_json(messages, reader, schema, empty=self.empty_messages)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`."""
        return encode_good(
            rows,
            json_faults(rows),
            lambda good: joined_texts(json_objects(good, write_nulls=not self.ignore_null_fields)),
        )


def decode_json(
    messages: pa.Array | pa.ChunkedArray,
    reader: JsonReader,
    schema: pa.Schema,
    *,
    empty: EmptyMessages,
    objects_of: Callable[[pa.Array], pa.Array] = lambda messages: messages,
    cast_values: CastValues = pa.Array.cast,
) -> Decoded:
    """Decode JSON objects, and isolate the bad ones.

    Args:
        messages: See `DecodingFormat.decode`.
        reader: The reader of the columns.
        schema: The columns, to whose types those of the reader are cast.
        empty: How to decode an empty message.
        objects_of: Returns the objects in messages. It raises `KnownBadError` if one has none.
        cast_values: Casts the columns of the reader; see `cast_column`.
    """

    def explain(message: bytes, error: Exception) -> str:
        objects = objects_of(pa.array([message], pa.binary()))
        return reader.explain(data_of(objects), error)

    return decode_isolating(
        messages,
        schema,
        parse=lambda part: converted(
            read_json_messages(objects_of(part), reader), schema, cast_values
        ),
        explain=explain,
        empty=empty,
    )


def read_json_messages(messages: pa.Array, reader: JsonReader) -> pa.RecordBatch:
    """Read messages together, but ensure that none affects the next.

    Args:
        messages: Binary column without nulls.
        reader: The reader of the columns.

    Returns:
        A row for each message.

    Raises:
        pa.ArrowInvalid: A message is not exactly one JSON object, or does not fit the columns.
    """
    # Each message begins with `{` and ends with `}`. Within an object, `}` and `{` cannot follow
    # each other, and a text cannot contain a line break. If everything can be read, each message
    # therefore consists of one or more whole objects. If there are as many objects as messages,
    # each message is one object. (The parser ignores everything after a NUL.)
    if not look_like_objects(messages).all():
        messages = pc.ascii_trim(messages.view(pa.string()), _SPACE).view(pa.binary())
        are_objects = look_like_objects(messages)
        if not are_objects.all():
            raise KnownBadError([None if each else _NO_OBJECT for each in are_objects.tolist()])
    newline, nothing = pa.scalar(b"\n", pa.binary()), pa.scalar(b"", pa.binary())
    data = data_of(pc.binary_join_element_wise(messages, newline, nothing))
    rows = reader.read(data)
    if rows.num_rows != len(messages) or not np.frombuffer(data, np.uint8).all():
        raise MisfitError("the message is not exactly one JSON object")
    return rows


def look_like_objects(messages: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which messages begin and end like an object."""
    framed = pc.and_(pc.starts_with(messages, "{"), pc.ends_with(messages, "}"))
    return np.asarray(framed.to_numpy(zero_copy_only=False), np.bool_)


def _refused(what: str, field: pa.Field, kind: pa.DataType, hint: str) -> ConfigurationError:
    return ConfigurationError(
        f"the column {field.name!r} cannot be {what} JSON",
        expected="a type that JSON can represent",
        found=str(kind),
        option="format",
        hint=hint,
    )
