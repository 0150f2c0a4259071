# SPDX-License-Identifier: Apache-2.0
"""JSON lines from Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from connectors_core.formats.text import data_of, json_objects

__all__ = ["encode_json_lines"]


def encode_json_lines(batch: pa.RecordBatch, *, write_nulls: bool = False) -> Iterator[pa.Buffer]:
    """Encode rows as JSON lines.

    Args:
        batch: The rows; all types pass `unsupported_json_type`.
        write_nulls: Whether fields that are null are written.

    Yields:
        Buffers that hold whole lines, in order.
    """
    for lines in json_objects(batch, write_nulls=write_nulls, line_breaks=True):
        yield data_of(lines)
