# SPDX-License-Identifier: Apache-2.0
"""Messages that are CSV records."""

from __future__ import annotations

import secrets
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.errors import ConfigurationError
from connectors_core.formats.isolation import SINCE, RecordFormat, decode_isolating, joined_texts
from connectors_core.formats.messages import Decoded, Encoded, encode_good
from connectors_core.formats.text import (
    CsvDialect,
    CsvReader,
    check_written_spellings,
    concat_texts,
    csv_faults,
    csv_records,
    data_of,
    unreadable_csv_type,
    unsupported_csv_type,
)
from connectors_core.options import Option, Options, Setting, option_like, part
from connectors_core.schema.misfits import MisfitError

__all__ = ["CsvFormat"]

_BOM: Final = b"\xef\xbb\xbf"
_SEAL_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
_SEAL_LENGTH: Final = 16


def _of_messages(setting: Setting[Any], **changes: Any) -> Option[Any]:
    """Return an option of the dialect for messages, which never had the former keys of files."""
    declared = cast(Option[Any], setting)
    aliases = (*declared.aliases, *declared.deprecated_keys)
    return option_like(declared, since=SINCE, aliases=aliases, deprecated_keys=(), **changes)


_OF_DIALECT: Final = (
    _of_messages(CsvDialect.delimiter),
    _of_messages(CsvDialect.quote_char),
    _of_messages(CsvDialect.escape_char),
    _of_messages(CsvDialect.null_values, type=str, default="", doc="Text of a missing value."),
    _of_messages(CsvDialect.timestamp_formats),
    _of_messages(CsvDialect.assume_time_zone),
    option_like(CsvDialect.ambiguous_times, since="1.2.0"),
    option_like(CsvDialect.strict, since="1.2.0"),
)


def _dialect(options: Options) -> CsvDialect:
    values = {each.keyword: options.get(each) for each in _OF_DIALECT}
    return CsvDialect(**values | {"null_values": (values["null_values"],)})


class CsvFormat(RecordFormat):
    """Each message is one record of CSV, without a header; its fields are the columns, in order.

    A line break may occur within quotes and at the end of the message. Texts are quoted, so that an
    empty text differs from null.
    """

    dialect: Setting[CsvDialect] = part(
        CsvDialect,
        *_OF_DIALECT,
        build=_dialect,
        default=CsvDialect,
        doc="Dialect of a record: delimiter, quotes, and text of missing values.",
    )

    def check_readable(self, schema: pa.Schema) -> None:
        """See `DecodingFormat`."""
        for each in schema:
            if unreadable_csv_type(each.type) is not None:
                raise _refused("read from", each, "declare it as string and convert it in Spark")

    def check_writable(self, schema: pa.Schema) -> None:
        """See `EncodingFormat`."""
        check_written_spellings(self.dialect)
        for each in schema:
            if unsupported_csv_type(each.type) is not None:
                raise _refused(
                    "written as", each, "convert it, for example with to_json, or drop it"
                )

    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """See `DecodingFormat`."""
        reader = _SealedReader(schema, self.dialect)
        return decode_isolating(
            messages,
            schema,
            parse=reader.read,
            explain=reader.explain,
            empty=self.empty_messages,
        )

    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """See `EncodingFormat`."""
        return encode_good(
            rows,
            ((reason, found) for reason, _, found in csv_faults(rows, self.dialect)),
            lambda good: joined_texts(csv_records(good, self.dialect)),
        )


class _SealedReader:
    """Reads messages together, but ensures that none affects the next.

    The reader appends a secret field, the seal, to each message. A record that ends with a seal
    ends a message. If an unclosed quote swallows a seal, that seal is missing. Therefore, if there
    are as many records as messages and each ends with its seal, each record is one message.
    """

    def __init__(self, schema: pa.Schema, dialect: CsvDialect) -> None:
        special = {dialect.delimiter, dialect.quote_char, dialect.escape_char}
        letters = [letter for letter in _SEAL_LETTERS if letter not in special]
        self._seal = "".join(secrets.choice(letters) for _ in range(_SEAL_LENGTH))
        self._delimiter = dialect.delimiter
        self._plain = CsvReader(schema, schema.names, dialect)
        field = pa.field(self._seal, pa.string())
        names = [*schema.names, self._seal]
        self._sealed = CsvReader(schema.append(field), names, dialect)

    def read(self, messages: pa.Array) -> pa.RecordBatch:
        texts = pc.ascii_rtrim(messages.view(pa.string()), "\r\n")
        data = data_of(concat_texts([texts, f"{self._delimiter}{self._seal}\n"]))
        if data.slice(0, len(_BOM)).to_pybytes() == _BOM:
            data = pa.py_buffer(_BOM + data.to_pybytes())  # Arrow drops only the first one
        rows = self._sealed.read(data)
        if rows.num_rows != len(messages) or not pc.all(pc.equal(rows[-1], self._seal)).as_py():
            raise MisfitError("the message is not exactly one record")
        return rows.remove_column(rows.num_columns - 1)

    def explain(self, message: bytes, error: Exception) -> str:
        try:
            self._plain.read(message)
        except pa.ArrowInvalid as exc:
            return self._plain.explain(exc)
        return "the message is not exactly one record, or a quoted value is not closed"


def _refused(what: str, column: pa.Field, hint: str) -> ConfigurationError:
    return ConfigurationError(
        f"the column {column.name!r} cannot be {what} CSV",
        expected="a type that a text field can represent",
        found=str(column.type),
        option="format",
        hint=hint,
    )
