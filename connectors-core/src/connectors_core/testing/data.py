# SPDX-License-Identifier: Apache-2.0
"""Rows with known content, and checks that they arrive."""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import pyarrow as pa

from connectors_core.testing.context import ROWS

BASE_TIME = datetime(2024, 1, 1, tzinfo=UTC)
_LONGEST_TEXT = 40


def make_rows(split: int, first: int, count: int, seed: int) -> pa.Table:
    """Return rows ``first`` to ``first + count - 1`` of a split.

    Equal arguments give equal rows.
    """
    start = int(BASE_TIME.timestamp())
    texts = []
    for seq in range(first, first + count):
        chosen = random.Random(f"{seed}/{split}/{seq}")
        length = chosen.randrange(_LONGEST_TEXT)
        texts.append("".join(chosen.choices(string.ascii_letters + 'äß漢 ,"\\', k=length)))
    seqs = range(first, first + count)
    columns = {
        "split": pa.array([split] * count, pa.int64()),
        "seq": pa.array(seqs, pa.int64()),
        "at": pa.array([(start + seq) * 1_000_000 for seq in seqs], ROWS.field("at").type),
        "text": pa.array(texts, pa.string()),
    }
    return pa.table(columns, schema=ROWS)


def assert_exactly(found: pa.Table, expected: Iterable[pa.Table]) -> None:
    """Check that each expected row exists exactly once and unchanged, and no other row exists.

    Raises:
        AssertionError: Rows are missing, duplicated, unexpected, or changed. The message names
            them.
    """
    assert_at_least(found, expected, doubled_allowed=False)


def assert_at_least(
    found: pa.Table, expected: Iterable[pa.Table], *, doubled_allowed: bool = True
) -> None:
    """Check that each expected row exists, perhaps more than once, and no other row exists."""
    wanted = {key: row for table in expected for key, row in _keyed(table)}
    counts: Counter[tuple[int, int]] = Counter()
    changed = []
    for key, row in _keyed(found):
        counts[key] += 1
        if key in wanted and wanted[key] != row:
            changed.append((row, wanted[key]))
    missing = sorted(wanted.keys() - counts.keys())
    strange = sorted(counts.keys() - wanted.keys())
    doubled = sorted(key for key, number in counts.items() if number > 1)
    assert not missing, f"{len(missing)} rows are missing, (split, seq): {_some(missing)}"
    assert not strange, f"{len(strange)} rows were never written, (split, seq): {_some(strange)}"
    assert doubled_allowed or not doubled, (
        f"{len(doubled)} rows arrived more than once, (split, seq): {_some(doubled)}"
    )
    assert not changed, f"{len(changed)} rows were changed, found and expected: {_some(changed)}"


def assert_same_values(found: pa.Table, expected: pa.Table) -> None:
    """Check that ``found`` has the rows and types of ``expected``, in any order.

    Args:
        found: Rows with the columns of ``expected``.
        expected: The rows by ascending ``id``, with a column for the values.

    Raises:
        AssertionError: Types or values differ. The message names them.
    """
    assert found.num_columns, "no row arrived"
    found = found.select(expected.column_names)
    # The name of the values in a list has no meaning: Arrow calls them "item", Spark "element".
    types = [table.schema.field(1).type for table in (found, expected)]
    assert types[0] == types[1], f"the type is {types[0]}, but was {types[1]}"
    pairs = zip(found.sort_by("id").to_pylist(), expected.to_pylist(), strict=False)
    # Compare text, because NaN is not equal to itself, and -0.0 is equal to 0.0.
    changed = [(row, wanted) for row, wanted in pairs if repr(row) != repr(wanted)]
    assert not changed, f"{len(changed)} values changed, found and expected: {_some(changed)}"
    assert found.num_rows == expected.num_rows, f"{found.num_rows} of {expected.num_rows} rows"


def assert_in_order(found: pa.Table) -> None:
    """Check that the rows of each split are in the order in which they were written."""
    last: dict[int, int] = {}
    for (split, seq), _ in _keyed(found):
        assert seq > last.get(split, -1), (
            f"row {seq} of split {split} comes after row {last[split]} of it"
        )
        last[split] = seq


def _keyed(table: pa.Table) -> Iterable[tuple[tuple[int, int], tuple[object, ...]]]:
    columns = [table.column(name).to_pylist() for name in ROWS.names] if table.num_columns else []
    for row in zip(*columns, strict=True):
        yield (row[0], row[1]), row


def _some(items: Sequence[object]) -> str:
    shown = ", ".join(map(str, items[:5]))
    return shown if len(items) <= 5 else f"{shown}, ..."
