# SPDX-License-Identifier: Apache-2.0
"""Encodes Arrow columns as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from connectors_core.formats.text import data_of, json_objects

__all__ = ["encode_json_lines"]


def encode_json_lines(batch: pa.RecordBatch, *, write_nulls: bool = False) -> Iterator[pa.Buffer]:
    """Encode rows as JSON lines.

    Args:
        batch: The rows, whose types have all passed `unsupported_json_type`.
        write_nulls: Whether to write null fields.

    Yields:
        Buffers of whole lines, in order.
    """
    for lines in json_objects(batch, write_nulls=write_nulls, line_breaks=True):
        yield data_of(lines)
