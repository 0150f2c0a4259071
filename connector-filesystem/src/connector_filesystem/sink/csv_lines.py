# SPDX-License-Identifier: Apache-2.0
"""Encodes Arrow columns as lines of CSV."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connector_filesystem.formats import CsvOptions
from connectors_core.formats.text import csv_faults, csv_records, data_of, is_string

__all__ = ["bad_csv_rows", "encode_csv_lines"]


def bad_csv_rows(
    batch: pa.RecordBatch, options: CsvOptions
) -> list[tuple[str, str, npt.NDArray[np.bool_]]]:
    """Find the rows that would not be read back unchanged.

    Args:
        batch: The rows.
        options: The dialect.

    Returns:
        For each kind of damage: the reason, the option that controls it, and a mask of the affected
        rows.
    """
    found: list[tuple[str, str, npt.NDArray[np.bool_]]] = []
    if not options.newlines_in_values:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if pa.types.is_dictionary(column.type):
                column = column.dictionary_decode()
            if not is_string(column.type):
                continue
            matched = pc.fill_null(pc.match_substring_regex(column, "[\r\n]"), False)
            rows = matched.to_numpy(zero_copy_only=False)
            if rows.any():
                reason = f"the column {name!r} holds a line break"
                found.append((reason, "csv.newlines-in-values", rows))
    found += csv_faults(batch, options)
    if batch.num_columns == 1 and not options.null_values[0] and batch.column(0).null_count:
        rows = batch.column(0).is_null().to_numpy(zero_copy_only=False)
        found.append(("null in the only column would be an empty line", "csv.null-literal", rows))
    return found


def encode_csv_lines(batch: pa.RecordBatch, options: CsvOptions) -> Iterator[pa.Buffer]:
    """Encode rows as lines of a CSV file, without the header.

    Args:
        batch: The rows, which must have passed `unsupported_csv_type` and `bad_csv_rows`.
        options: The dialect.

    Yields:
        Buffers of whole lines, in order.
    """
    for lines in csv_records(batch, options, line_breaks=True):
        yield data_of(lines)
