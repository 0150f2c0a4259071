# SPDX-License-Identifier: Apache-2.0
"""Decodes whole columns of messages and isolates the bad ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.messages import BadMessage, Decoded, DecodingFormat, EncodingFormat
from connectors_core.options import Configured, Setting, option
from connectors_core.schema.misfits import MisfitError

__all__ = [
    "SINCE",
    "EmptyMessages",
    "KnownBadError",
    "RecordFormat",
    "decode_isolating",
    "joined_texts",
    "message_bytes",
]

SINCE: Final = "1.0.0"
"""Version that introduced the options of formats."""

# Small enough that little is parsed twice around a bad message. More gain nothing.
_PART_ROWS: Final = 32_768
_PART_BYTES: Final = 16 << 20
# The range of 32-bit offsets.
_LARGE_BYTES: Final = 2**31


class EmptyMessages(StrEnum):
    """How to decode an empty message, such as a tombstone."""

    NULL = "null"
    """A row in which every column is null."""
    BAD = "bad"
    """A bad record."""


class RecordFormat(Configured, DecodingFormat, EncodingFormat, scope="format"):
    """A format whose messages are records of several columns."""

    empty_messages: Setting[EmptyMessages, EmptyMessages | Literal["null", "bad"]] = option(
        "format.empty-messages",
        EmptyMessages,
        default=EmptyMessages.NULL,
        doc="Whether an empty message is a row of nulls or a bad record.",
        since=SINCE,
    )


class KnownBadError(MisfitError):
    """Some messages of a column are known to be bad.

    Args:
        reasons: The reason for each message, None for a good one.
    """

    def __init__(self, reasons: Sequence[str | None]) -> None:
        super().__init__("; ".join(sorted({each for each in reasons if each})))
        self.reasons = reasons


def message_bytes(messages: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column of bytes or texts as one array of binary or large binary.

    Raises:
        pa.ArrowInvalid: It holds more than 2 GiB in a type with 32-bit offsets.
    """
    if isinstance(messages, pa.ChunkedArray):
        messages = messages.combine_chunks()
    kind = messages.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return messages
    return messages.cast(pa.large_binary())


def joined_texts(parts: Iterable[pa.Array]) -> pa.Array:
    """Concatenate columns of texts as one array of binary or large binary."""
    texts = list(parts)
    large = sum(each.nbytes for each in texts) >= _LARGE_BYTES
    large = large or any(pa.types.is_large_string(each.type) for each in texts)
    kind = pa.large_binary() if large else pa.binary()
    return pa.concat_arrays([pa.array([], kind), *(each.cast(kind) for each in texts)])


def decode_isolating(
    messages: pa.Array | pa.ChunkedArray,
    schema: pa.Schema,
    *,
    parse: Callable[[pa.Array], pa.RecordBatch],
    explain: Callable[[bytes, Exception], str],
    empty: EmptyMessages | None,
) -> Decoded:
    """Decode messages in parts; halve a part that fails until its bad messages are isolated.

    Args:
        messages: See `DecodingFormat.decode`.
        schema: Columns of the result of `parse`.
        parse: Converts a column of binary messages to one row each; raises `pa.ArrowInvalid` if one
            is bad.
        explain: Explains why a single message is bad, without its values.
        empty: How to decode an empty message; None if `parse` handles it.
    """
    column = message_bytes(messages)
    lengths = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    filled = np.arange(len(column)) if empty is None else np.flatnonzero(lengths)
    if len(filled) < len(column):
        column, lengths = column.take(pa.array(filled)), lengths[filled]
    batches: list[pa.RecordBatch] = []
    bad: list[BadMessage] = []
    is_good = np.ones(len(column), np.bool_)
    for start, end in _parts(lengths):
        part = column.slice(start, end - start).cast(pa.binary())
        for item in _isolated(part, np.arange(start, end), parse, explain):
            if isinstance(item, BadMessage):
                is_good[item.at] = False
                bad.append(item)
            else:
                batches.append(item)
    bad.sort(key=lambda each: each.at)
    rows = _joined(batches, schema)
    if empty is None or len(filled) == len(messages):
        kept = None if not bad else np.flatnonzero(is_good)
        return Decoded(rows=rows, kept=kept, bad=tuple(bad))
    bad = [BadMessage(int(filled[each.at]), each.reason, each.cause) for each in bad]
    return _with_empty(rows, filled[is_good], bad, messages, empty)


def _parts(lengths: npt.NDArray[np.integer]) -> Iterator[tuple[int, int]]:
    ends = np.cumsum(lengths, dtype=np.int64)
    start = 0
    while start < len(lengths):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + _PART_BYTES, side="right"))
        end = max(start + 1, min(fitting, start + _PART_ROWS))
        yield start, end
        start = end


def _isolated(
    part: pa.Array,
    positions: npt.NDArray[np.int64],
    parse: Callable[[pa.Array], pa.RecordBatch],
    explain: Callable[[bytes, Exception], str],
) -> Iterator[pa.RecordBatch | BadMessage]:
    """Yield the rows in order, and the bad messages in any order."""
    if not len(part):
        return
    try:
        rows = parse(part)
    except KnownBadError as exc:
        rest = [at for at, reason in enumerate(exc.reasons) if reason is None]
        for at, reason in zip(positions.tolist(), exc.reasons, strict=True):
            if reason is not None:
                yield BadMessage(at, reason)
        yield from _isolated(part.take(pa.array(rest, pa.int64())), positions[rest], parse, explain)
    except pa.ArrowInvalid as exc:
        if len(part) == 1:
            yield BadMessage(int(positions[0]), explain(part[0].as_py(), exc), exc)
            return
        middle = len(part) // 2
        yield from _isolated(part[:middle], positions[:middle], parse, explain)
        yield from _isolated(part[middle:], positions[middle:], parse, explain)
    else:
        yield rows


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    arrays = [
        pa.concat_arrays([batch.column(at) for batch in batches])
        if batches
        else pa.nulls(0, field.type)
        for at, field in enumerate(schema)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_empty(
    rows: pa.RecordBatch,
    positions: npt.NDArray[np.int64],
    bad: list[BadMessage],
    messages: pa.Array | pa.ChunkedArray,
    empty: EmptyMessages,
) -> Decoded:
    """Insert rows for empty messages, or treat them as bad."""
    source = np.full(len(messages), -1, np.int64)
    source[positions] = np.arange(len(positions))
    is_good = np.ones(len(messages), np.bool_)
    is_good[[each.at for each in bad]] = False
    required = next((field.name for field in rows.schema if not field.nullable), None)
    if empty is EmptyMessages.BAD or required is not None:
        reason = "the message is empty"
        if empty is not EmptyMessages.BAD:
            reason += f", but column {required} is not nullable"
        is_empty = is_good & (source < 0)
        is_good &= ~is_empty
        bad += [BadMessage(at, reason) for at in np.flatnonzero(is_empty).tolist()]
        bad.sort(key=lambda each: each.at)
    else:
        taken = source[is_good]
        indices = pa.array(taken, mask=taken < 0)
        arrays = [column.take(indices) for column in rows.columns]
        rows = pa.RecordBatch.from_arrays(arrays, schema=rows.schema)
    kept = None if not bad else np.flatnonzero(is_good)
    return Decoded(rows=rows, kept=kept, bad=tuple(bad))
