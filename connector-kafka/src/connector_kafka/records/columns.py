# SPDX-License-Identifier: Apache-2.0
"""Copies the parts of records from a buffer into Arrow columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from connector_kafka.records.layout import Layout, Texts, locate_headers
from connector_kafka.records.varints import Bytes

__all__ = ["COLUMNS", "build"]

_HEADER = pa.struct([pa.field("key", pa.string(), False), ("value", pa.binary())])

# The columns that `build` can create.
COLUMNS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        pa.field("offset", pa.int64(), False),
        pa.field("timestamp", pa.timestamp("ms", "UTC"), False),
        pa.field("timestamp_type", pa.int32(), False),
        pa.field("headers", pa.list_(pa.field("item", _HEADER, False)), False),
    ]
)
"""The columns of decoded records."""


def build(data: Bytes, records: Layout, schema: pa.Schema) -> pa.RecordBatch:
    """Copy records into columns.

    Args:
        data: The buffer that contains them.
        records: Their positions. Together, they must be smaller than 2 GiB.
        schema: Fields of `COLUMNS`.

    Returns:
        One row per record.

    Raises:
        MalformedError: Their headers are damaged, which only this function checks.
    """
    columns = [_BUILD[name](data, records) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _numbers(values: npt.NDArray[np.generic], kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _texts(data: Bytes, texts: Texts) -> pa.Array:
    """Copy consecutive byte strings that are separated by other bytes."""
    rows = len(texts.size)
    if not rows:
        return pa.array([], pa.binary())
    end = texts.end
    first = int(texts.start[0])
    # An Arrow array of text, gap, text, gap, ... is a view of the unchanged buffer. Arrow's `take`
    # of every second element then copies the texts.
    bounds = np.empty(2 * rows + 1, np.int32)
    bounds[0:-1:2] = texts.start - first
    bounds[1::2] = end - first
    bounds[-1] = bounds[-2]
    view = pa.Array.from_buffers(
        pa.binary(), 2 * rows, [None, pa.py_buffer(bounds), pa.py_buffer(data[first : end[-1]])]
    )
    null = texts.size < 0
    indices = np.arange(0, 2 * rows, 2, dtype=np.int32)
    return view.take(pa.array(indices, mask=null if null.any() else None))


def _headers(data: Bytes, records: Layout) -> pa.Array:
    keys, values = locate_headers(data, records)
    header = pa.StructArray.from_arrays(
        [_utf8(_texts(data, keys)), _texts(data, values)], fields=list(_HEADER)
    )
    bounds = np.zeros(len(records) + 1, np.int32)
    np.cumsum(records.header_count, out=bounds[1:])
    return pa.ListArray.from_arrays(pa.array(bounds), header, type=COLUMNS.field("headers").type)


def _utf8(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        # Like Java's client, replaces bytes that are not UTF-8.
        return pa.array([text.decode(errors="replace") for text in texts.to_pylist()], pa.string())


_BUILD: dict[str, Callable[[Bytes, Layout], pa.Array]] = {
    "key": lambda data, records: _texts(data, records.key),
    "value": lambda data, records: _texts(data, records.value),
    "offset": lambda _, records: _numbers(records.offset, pa.int64()),
    "timestamp": lambda _, records: _numbers(records.timestamp, pa.timestamp("ms", "UTC")),
    "timestamp_type": lambda _, records: _numbers(records.timestamp_type, pa.int32()),
    "headers": _headers,
}
