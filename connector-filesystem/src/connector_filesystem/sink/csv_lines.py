# SPDX-License-Identifier: Apache-2.0
"""CSV from Arrow columns, without a Python object per record.

pyarrow's own writer knows neither other quote characters and spellings of null nor ISO 8601 with
`T`, and looks up the time zone for each row; this one is built as the JSON lines are. Texts are
always quoted, so that an empty one and null stay apart.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connector_filesystem.formats import CsvOptions
from connector_filesystem.sink.texts import (
    concat_texts,
    data_of,
    is_plain,
    is_string,
    max_rows_of,
    plain_texts,
    replace_bytes,
    text_bytes,
    zone_sign,
)

__all__ = ["bad_csv_rows", "csv_header", "encode_csv_lines", "unsupported_csv_type"]

# Characters that occur in the texts of numbers, booleans and times.
_PLAIN: Final = frozenset("+-.:" + string.ascii_letters + string.digits)


def unsupported_csv_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type if a field of a CSV file cannot hold it, else None."""
    if pa.types.is_dictionary(kind):
        return unsupported_csv_type(kind.value_type)
    return None if is_plain(kind) else kind


def bad_csv_rows(
    batch: pa.RecordBatch, options: CsvOptions
) -> list[tuple[str, str, npt.NDArray[np.bool_]]]:
    """Return the rows that would not be read back as they are.

    Args:
        batch: The rows.
        options: The dialect.

    Returns:
        For each kind of damage the reason, the option that decides it, and which rows have it.
    """
    found: list[tuple[str, str, npt.NDArray[np.bool_]]] = []

    def look(column: pa.Array, pattern: str, reason: str, option: str) -> None:
        matched = pc.fill_null(pc.match_substring_regex(column, pattern), False)
        rows = matched.to_numpy(zero_copy_only=False)
        if rows.any():
            found.append((reason, option, rows))

    quotable = options.double_quote or options.escape_char is not None
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        texts = _decoded(column)
        if not is_string(texts.type):
            continue
        data = text_bytes(texts)
        if not options.newlines_in_values and ((data == 10) | (data == 13)).any():
            reason = f"the column {name!r} holds a line break"
            look(texts, "[\r\n]", reason, "csv.newlines-in-values")
        if not quotable and (data == ord(options.quote_char)).any():
            reason = f"the column {name!r} holds a quote, and the dialect cannot escape it"
            look(texts, "\\Q" + options.quote_char + "\\E", reason, "csv.double-quote")
    if batch.num_columns == 1 and not options.null_values[0] and batch.column(0).null_count:
        rows = batch.column(0).is_null().to_numpy(zero_copy_only=False)
        found.append(("null in the only column would be an empty line", "csv.null-values", rows))
    return found


def csv_header(schema: pa.Schema, options: CsvOptions) -> bytes:
    """Return the line with the names of the columns."""
    names = [_escaped(pa.array([name], pa.string()), options)[0].as_py() for name in schema.names]
    quote = options.quote_char
    return (options.delimiter.join(f"{quote}{name}{quote}" for name in names) + "\n").encode()


def encode_csv_lines(batch: pa.RecordBatch, options: CsvOptions) -> Iterator[pa.Buffer]:
    """Encode rows as lines of a CSV file, without the header.

    Args:
        batch: The rows; `unsupported_csv_type` and `bad_csv_rows` have nothing against them.
        options: The dialect.

    Yields:
        Buffers that hold whole lines, in order.
    """
    step = max_rows_of(batch)
    for start in range(0, batch.num_rows, step):
        yield data_of(_lines(batch.slice(start, step), options))


def _lines(batch: pa.RecordBatch, options: CsvOptions) -> pa.Array:
    quote_all = options.delimiter in _PLAIN
    parts: list[pa.Array | str] = []
    literal = ""
    for number, column in enumerate(batch.columns):
        column = _decoded(column)
        quote, sign = "", ""
        if is_string(column.type):
            texts, quote = _escaped(column, options), options.quote_char
        elif pa.types.is_boolean(column.type):
            texts = pc.if_else(column, options.true_values[0], options.false_values[0])
        else:
            texts = plain_texts(column, infinity="Inf", minus="-Inf")
            sign = zone_sign(column.type)
        if quote_all:
            quote = options.quote_char
        delimiter = options.delimiter if number else ""
        before, after = quote, sign + quote
        if after and texts.null_count:
            texts, before, after = concat_texts([before, texts, after]), "", ""
        parts += [literal + delimiter + before, texts]
        literal = after
    return concat_texts([*parts, literal + "\n"], null=options.null_values[0])


def _decoded(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        column = pc.cast(column, pa.large_string())
    return column


def _escaped(texts: pa.Array, options: CsvOptions) -> pa.Array:
    quote, escape = options.quote_char, options.escape_char
    replacements = [] if escape is None else [(ord(escape), escape * 2)]
    if options.double_quote:
        replacements.append((ord(quote), quote * 2))
    elif escape is not None:
        replacements.append((ord(quote), escape + quote))
    return replace_bytes(texts, replacements)
