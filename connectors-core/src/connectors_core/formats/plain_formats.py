# SPDX-License-Identifier: Apache-2.0
"""Messages with a single value: bytes or text."""

from __future__ import annotations

import pyarrow as pa

from connectors_core.errors import ConfigurationError
from connectors_core.formats.isolation import decode_isolating, message_bytes
from connectors_core.formats.messages import Decoded, DecodingFormat, Encoded, EncodingFormat
from connectors_core.formats.text import converted, is_binary, is_string
from connectors_core.options import Configured

__all__ = ["RawFormat", "StringFormat"]


class _OneValue(Configured, DecodingFormat, EncodingFormat):
    """The base of both formats: the message is the value, and no message is null."""

    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """See `DecodingFormat`."""

        def parse(part: pa.Array) -> pa.RecordBatch:
            return converted(pa.RecordBatch.from_arrays([part], schema.names), schema)

        try:
            return Decoded(rows=parse(message_bytes(messages)))
        except pa.ArrowInvalid:
            return decode_isolating(messages, schema, parse=parse, explain=_explain, empty=None)

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`."""
        self.check_readable(schema)

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`."""
        return Encoded(messages=message_bytes(rows.column(0)))


class RawFormat(_OneValue):
    """The message is the value of a single binary column; no message is null."""

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        if len(schema) != 1 or not is_binary(schema.field(0).type):
            raise _refused("raw", "one column of type binary", schema)


class StringFormat(_OneValue):
    """The message is the value of a single string column, in UTF-8; no message is null."""

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        if len(schema) != 1 or not is_string(schema.field(0).type):
            raise _refused("string", "one column of type string", schema)


def _explain(message: bytes | None, _: Exception) -> str:
    return "the message is null" if message is None else "the text is not UTF-8"


def _refused(name: str, expected: str, schema: pa.Schema) -> ConfigurationError:
    return ConfigurationError(
        f"the columns do not fit the format {name}",
        expected=expected,
        found=", ".join(f"{field.name}: {field.type}" for field in schema) or "no column",
        option="format",
        hint="declare one such column, or choose another format",
    )
