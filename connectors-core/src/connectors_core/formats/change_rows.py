# SPDX-License-Identifier: Apache-2.0
"""Changes that messages report, and the rows of a changelog that they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.messages import BadMessage, Decoded
from connectors_core.schema import ROW_KIND_COLUMN, RowKind

__all__ = [
    "Changes",
    "Fault",
    "Mask",
    "Operation",
    "are_valid",
    "changelog_rows",
    "operations_of",
    "unfaulted",
]

Mask: TypeAlias = npt.NDArray[np.bool_]
Fault: TypeAlias = tuple[Mask, str]
"""Which messages have a fault, and its description."""

_KINDS: Final = pa.array([each.value for each in RowKind])


class Operation(IntEnum):
    """What a message says of rows."""

    UNKNOWN = -2
    NOTHING = -1
    INSERT = 0
    UPDATE = 1
    DELETE = 2


# The places in `RowKind` of the kinds of rows: of the first one by operation, and of an update's
# second one.
_FIRST_KINDS: Final = np.array(
    [[*RowKind].index(each) for each in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.DELETE)]
)
_SECOND_KIND: Final = [*RowKind].index(RowKind.UPDATE_AFTER)


@dataclass(frozen=True, kw_only=True, eq=False)
class Changes:
    """The changes of the messages without a fault, in order.

    Attributes:
        message: The message of each change, as its number among the decoded messages.
        operation: The `Operation` of each change.
        before: The row before each change, a struct.
        after: The row after each change.
        given: By name of a field, whether `before` has its value. Otherwise, `after` has it. None
            if `before` has all values of the rows before updates and deletions.
        faults: The faults of the decoded messages; the first one of a message counts.
    """

    message: npt.NDArray[np.int64]
    operation: npt.NDArray[np.int64]
    before: pa.StructArray
    after: pa.StructArray
    given: Mapping[str, Mask] | None
    faults: Sequence[Fault]


def operations_of(column: pa.Array, known: Mapping[str, Operation]) -> npt.NDArray[np.int64]:
    """Return the operations that texts name."""
    found = pc.fill_null(pc.index_in(column, value_set=pa.array([*known])), -1)
    operations = np.array([*known.values(), Operation.UNKNOWN])
    return np.asarray(operations[found.to_numpy()], np.int64)


def unfaulted(operation: npt.NDArray[np.int64], faults: Sequence[Fault]) -> npt.NDArray[np.int64]:
    """Return the numbers of the messages that change rows and have no fault."""
    good = operation > Operation.NOTHING
    for mask, _ in faults:
        good &= ~mask
    return np.flatnonzero(good)


def are_valid(column: pa.Array) -> Mask:
    """Return which values are not null."""
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def changelog_rows(
    decoded: Decoded,
    changes: Changes,
    metadata: Mapping[str, tuple[pa.Array, Mask]],
    schema: pa.Schema,
) -> Decoded:
    """Return the rows of changes, with their kinds.

    Args:
        decoded: The decoded messages.
        changes: Their changes.
        metadata: Further columns by name, with a value for each decoded message, and which values
            are out of range.
        schema: The wanted columns, one of which may be `_row_kind`.

    Returns:
        The rows. A message is bad and has none if it has a fault, or if a value of one of its rows
        cannot be used.
    """
    count = len(changes.message)
    change = np.repeat(np.arange(count), 1 + (changes.operation == Operation.UPDATE))
    is_second = np.zeros(len(change), np.bool_)
    is_second[1:] = change[1:] == change[:-1]
    kinds = np.where(is_second, _SECOND_KIND, _FIRST_KINDS[changes.operation[change]])
    is_previous = ~is_second & (changes.operation[change] != Operation.INSERT)
    message = changes.message[change]
    before, after = changes.before.flatten(), changes.after.flatten()
    columns = []
    of_metadata = np.zeros(decoded.rows.num_rows, np.bool_)
    lacking = np.zeros(decoded.rows.num_rows, np.bool_)
    for field in schema:
        if field.name == ROW_KIND_COLUMN:
            column = _KINDS.take(pa.array(kinds))
        elif field.name in metadata:
            values, is_outside = metadata[field.name]
            column = values.take(pa.array(message))
            of_metadata[message[is_outside[message]]] = True
        else:
            is_before = is_previous
            if changes.given is not None:
                is_before = is_previous & changes.given[field.name][change]
            number = changes.after.type.get_field_index(field.name)
            both = pa.concat_arrays([before[number], after[number]])
            column = both.take(pa.array(change + count * ~is_before))
        if not field.nullable and column.null_count:
            lacking[message[~are_valid(column)]] = True
        columns.append(column)
    faults = [
        *changes.faults,
        (of_metadata, "a time is out of range"),
        (lacking, "a column that is not nullable is null"),
    ]
    is_good = ~(of_metadata | lacking)
    if not is_good.all():
        columns = [each.filter(pa.array(is_good[message])) for each in columns]
        message = message[is_good[message]]
    at = np.arange(decoded.rows.num_rows) if decoded.kept is None else decoded.kept
    bad = sorted([*decoded.bad, *_bad_messages(faults, at)], key=lambda each: each.at)
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    return Decoded(rows=rows, kept=at[message], bad=tuple(bad))


def _bad_messages(faults: Sequence[Fault], at: npt.NDArray[np.int64]) -> list[BadMessage]:
    first = np.select([mask for mask, _ in faults], [*range(len(faults))], -1)
    reasons = [reason for _, reason in faults]
    return [
        BadMessage(int(at[number]), reasons[first[number]])
        for number in np.flatnonzero(first >= 0).tolist()
    ]
