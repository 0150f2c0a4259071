# SPDX-License-Identifier: Apache-2.0
"""Shared code of all text readers: type conversion, and error reasons without values."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from connectors_core.schema.misfits import MisfitError
from connectors_core.schema.nested_columns import CastValues, cast_column

__all__ = ["converted", "explained", "one_batch", "zoned"]

# What Arrow's errors mean. Their own texts contain values, so each pattern fixes all words before
# the part that it takes.
_MEANINGS: Final = tuple(
    (re.compile(said), meaning)
    for said, meaning in (
        (
            r"^CSV parse error: .*?Expected (\d+) columns, got (\d+)",
            r"the record has \2 fields instead of \1",
        ),
        (r"[Ii]nvalid UTF-?8", "a text is not UTF-8"),
        (r"was specified twice", "a field occurs twice"),
        (r"^JSON parse error: unexpected field", "unexpected field"),
        (
            r"^JSON parse error: Column\(/(.*?)\) changed from (\w+) to",
            r"column \1: a value is not of type \2",
        ),
        (r"^(?:JSON|CSV) parse error", "the record is malformed"),
        (
            r"^(?:In CSV column #\d+: )?(?:Row #\d+: )?"
            r"(?:CSV conversion error|Failed to convert JSON|Error converting '\S*') "
            r"to (.*?)(?:: |, couldn't)",
            r"a value is not of type \1",
        ),
    )
)


def explained(error: Exception) -> str:
    """Return why a record is bad, without its values and in no words of Arrow."""
    if isinstance(error, MisfitError):
        return str(error)
    for said, meaning in _MEANINGS:
        if found := said.search(str(error)):
            return found.expand(meaning)
    return "a value does not fit its type"


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return a table as one batch, without a copy if it has only one."""
    batches = table.to_batches()
    if len(batches) == 1:
        return batches[0]
    if not batches:
        empty = [pa.nulls(0, field.type) for field in table.schema]
        return pa.RecordBatch.from_arrays(empty, schema=table.schema)
    return table.combine_chunks().to_batches()[0]


def converted(
    batch: pa.RecordBatch, schema: pa.Schema, cast_values: CastValues = pa.Array.cast
) -> pa.RecordBatch:
    """Convert a batch to a schema; missing columns are null.

    Args:
        batch: The columns, in any order.
        schema: The wanted columns.
        cast_values: See `cast_column`.

    Raises:
        pa.ArrowInvalid: A value does not fit, or is null in a non-nullable column.
    """
    names = {name: at for at, name in enumerate(batch.schema.names)}
    arrays = []
    for field in schema:
        at = names.get(field.name)
        array = pa.nulls(batch.num_rows, field.type) if at is None else batch.column(at)
        arrays.append(cast_column(array, field, cast_values))
    if not arrays:
        return batch.select([])
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def zoned(schema: pa.Schema) -> pa.Schema:
    """Return an inferred schema with times in UTC."""
    utc = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [
            pa.field(each.name, utc)
            if pa.types.is_timestamp(each.type) and each.type.tz is None
            else each
            for each in schema
        ]
    )
