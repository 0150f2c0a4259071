# SPDX-License-Identifier: Apache-2.0
"""Messages that are JSON objects after the id of their schema."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import UnsupportedError
from connectors_core.formats.isolation import KnownBadError, RecordFormat
from connectors_core.formats.json_format import JsonFormat, decode_json
from connectors_core.formats.messages import Decoded, Encoded
from connectors_core.formats.text import JsonReader

__all__ = ["ConfluentJsonFormat"]

_MAGIC: Final = "\0"
_HEADER_BYTES: Final = 5
_NO_ID: Final = "the message does not start with a schema id"


class ConfluentJsonFormat(RecordFormat):
    """Like `JsonFormat`, after a zero byte and the four bytes of the id of a JSON Schema.

    It reads messages without their schema, and writes none.
    """

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        JsonFormat().check_readable(schema)

    def projected(self, schema: pa.Schema) -> ConfluentJsonFormat:
        """See `DecodingFormat`."""
        return self

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`. It always refuses."""
        raise _only_reads()

    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """See `DecodingFormat`."""
        reader = JsonReader(schema, ignore_new=True)
        return decode_json(
            messages, reader, schema, empty=self.empty_messages, objects_of=_without_ids
        )

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`. It always refuses."""
        raise _only_reads()


def _without_ids(messages: pa.Array) -> pa.Array:
    framed = pc.starts_with(messages, _MAGIC).to_pylist()
    if not all(framed):
        raise KnownBadError([None if each else _NO_ID for each in framed])
    return pc.binary_slice(messages, _HEADER_BYTES)


def _only_reads() -> UnsupportedError:
    return UnsupportedError(
        "the format json-confluent only reads",
        expected="a format that writes, such as json or avro-confluent",
        option="format",
    )
