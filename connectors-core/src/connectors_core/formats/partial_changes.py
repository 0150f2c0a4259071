# SPDX-License-Identifier: Apache-2.0
"""Changes in JSON messages with the new rows, and the former values of the changed fields.

In `{"type": "update", "data": {"id": 1, "name": "b"}, "old": {"name": null}}`, the name was null
before, and the ID was 1. Arrow reads a null and a missing field alike. Only the messages with a
null in `old` are therefore read again, one by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from connectors_core.formats.change_rows import (
    Changes,
    Fault,
    Mask,
    Operation,
    are_valid,
    unfaulted,
)
from connectors_core.formats.changelog_format import Envelopes

__all__ = ["partial_changes"]

# A null has one spelling, but the name of a field can have escapes.
_MAY_HAVE_OLD_NULL: Final = r'(?s)(?:"old"|\\u).*null'


def partial_changes(envelopes: Envelopes) -> Changes:
    """Return the changes of messages with the fields `data` and `old`.

    An update without `old` has not changed any field.

    Args:
        envelopes: The messages. Both fields are a row, or a list of rows.
    """
    operation = envelopes.operation
    data, old = (_as_lists(envelopes.fields.column(name)) for name in ("data", "old"))
    counts = _counts(data)
    lacks_row = ~are_valid(data)
    lacks_row[np.repeat(np.arange(len(data)), counts)[~are_valid(pc.list_flatten(data))]] = True
    has_old = (operation == Operation.UPDATE) & are_valid(old)
    names = [each.name for each in data.type.value_type]
    nulls, is_unreadable = _former_nulls(envelopes, has_old, names)
    faults: list[Fault] = [
        (operation == Operation.UNKNOWN, "the type is unknown"),
        ((operation > Operation.NOTHING) & lacks_row, "the change has no row"),
        (has_old & (_counts(old) != counts), "the numbers of rows before and after it differ"),
        (is_unreadable, "a former null cannot be told from an unchanged field"),
    ]
    good = unfaulted(operation, faults)
    message = np.repeat(good, counts[good])
    after = pc.list_flatten(data.take(pa.array(good)))
    old_rows = pc.list_flatten(old.take(pa.array(good[has_old[good]])))
    at = np.full(len(message), -1)
    at[has_old[message]] = np.arange(len(old_rows))
    before = old_rows.take(pa.array(at, mask=at < 0))
    # The first change of each message without a fault.
    first = np.full(len(operation), -1)
    first[good] = np.cumsum(counts[good]) - counts[good]
    given = {}
    for name, column in zip(names, before.flatten(), strict=True):
        given[name] = are_valid(column)
        where = np.array(nulls[name], np.int64).reshape(-1, 2)
        where = where[first[where[:, 0]] >= 0]
        given[name][first[where[:, 0]] + where[:, 1]] = True
    return Changes(
        message=message,
        operation=operation[message],
        before=before,
        after=after,
        given=given,
        faults=faults,
    )


def _former_nulls(
    envelopes: Envelopes, has_old: Mask, names: Iterable[str]
) -> tuple[dict[str, list[tuple[int, int]]], Mask]:
    """Return where fields were null, and which messages cannot be read again.

    Returns:
        By name of a field, the numbers of messages and of rows in them.
    """
    chosen = np.flatnonzero(has_old)
    texts = envelopes.texts(chosen)
    may_have = pc.match_substring_regex(texts, _MAY_HAVE_OLD_NULL)
    numbers = chosen[may_have.to_numpy(zero_copy_only=False)]
    is_unreadable = np.zeros(len(has_old), np.bool_)
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
    for number, text in zip(numbers.tolist(), texts.filter(may_have).to_pylist(), strict=True):
        try:
            old = _loaded(text)["old"]
        except (ValueError, RecursionError):
            is_unreadable[number] = True
            continue
        for at, row in enumerate(old if isinstance(old, list) else [old]):
            for name, value in (row or {}).items():
                if value is None and name in found:
                    found[name].append((number, at))
    return found, is_unreadable


def _loaded(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # Arrow also reads NaN, and bytes that are no text
        return json.loads(text.decode(errors="replace"))


def _as_lists(column: pa.Array) -> pa.ListArray:
    """Return a column of rows as lists of one row, and of lists as it is."""
    if pa.types.is_list(column.type):
        return column
    valid = are_valid(column)
    offsets = np.concatenate(([0], np.cumsum(valid))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), column.drop_null(), mask=pa.array(~valid))


def _counts(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    counts = pc.fill_null(pc.list_value_length(lists), 0)
    return np.asarray(counts.to_numpy(zero_copy_only=False), np.int64)
