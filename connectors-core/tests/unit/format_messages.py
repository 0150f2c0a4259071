# SPDX-License-Identifier: Apache-2.0
"""Columns and messages that the tests of the formats share."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

NUMBERED = pa.schema([("id", pa.int64()), ("text", pa.string())])
TEXTS = st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=8)
# The values of columns that every format can represent, by column.
VALUES = {
    "id": st.none() | st.integers(-(2**63), 2**63 - 1),
    "text": TEXTS,
    "price": st.none() | st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: Decimal(n) / 1000),
    "flag": st.none() | st.booleans(),
    "at": st.none()
    | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),
    "day": st.none() | st.dates(date(1, 1, 1), date(9999, 12, 31)),
}


def messages(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def among(
    broken: st.SearchStrategy[bytes], good: bytes
) -> st.SearchStrategy[list[tuple[bytes, int | None]]]:
    """Return messages: good ones with their numbers, and broken or arbitrary ones without."""
    return st.lists(
        st.integers(0, 99).map(lambda n: (good % n, n))
        | st.tuples(broken | st.binary(min_size=1, max_size=6), st.none()),
        max_size=12,
    )


def decoded_as_if_alone(message_format: Any, column: pa.Array) -> tuple[Any, list[Any]]:
    """Decode all messages together and each alone, and check that the results are the same."""
    decoded = message_format.decode(column, NUMBERED)
    alone = [message_format.decode(column[at : at + 1], NUMBERED) for at in range(len(column))]
    assert decoded.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert [each.at for each in decoded.bad] == [at for at, one in enumerate(alone) if one.bad]
    return decoded, alone
