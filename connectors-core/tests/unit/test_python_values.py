# SPDX-License-Identifier: Apache-2.0
"""Tests that no value of a column stops a pipeline where Python has none for it."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from connectors_core.lookup import DefaultLookupCache
from connectors_core.schema.python_values import python_values
from connectors_core.sink import PrintSink

EXTREMES = [
    pa.array([bits, 0, None], pa.int64()).view(kind)
    for kind in (
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        pa.timestamp("us", tz="UTC"),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        pa.date64(),
    )
    for bits in (2**63 - 1, -(2**63) + 1)
] + [pa.array([days, 0, None], pa.int32()).view(pa.date32()) for days in (2**31 - 1, -(2**31))]
COLUMNS = pytest.mark.parametrize("column", EXTREMES, ids=lambda each: str(each.type))


def nested(column):
    return pa.StructArray.from_arrays([column], names=["of"])


@COLUMNS
def test_extremes_of_every_type_have_values_and_the_others_keep_theirs(column):
    for each in (column, nested(column)):
        values = python_values(each)
        assert values[1:] == each.slice(1).to_pylist()
        assert len({str(value) for value in values}) == 3


@COLUMNS
def test_extremes_are_printed(column, capsys):
    writer = PrintSink().create_writer(SimpleNamespace(subtask_id=0))
    writer.write(pa.record_batch({"c": column, "n": nested(column)}))
    assert len(capsys.readouterr().out.splitlines()) == 3


@COLUMNS
def test_extremes_are_keys_of_a_cache(column):
    cache = DefaultLookupCache()
    keys = pa.record_batch({"key": column.slice(0, 2)})
    cache.put(keys, pa.table({"key": column.slice(0, 1), "value": ["last"]}))
    present, rows = cache.get_if_present(keys)
    assert present.to_pylist() == [True, True]
    assert rows.column("value").to_pylist() == ["last"]
