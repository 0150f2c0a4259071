# SPDX-License-Identifier: Apache-2.0
"""Tests that an inferred schema fits the values that it is inferred from."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from connectors_core.formats.text import CsvDialect, CsvReader, JsonReader, infer_csv, infer_json

LONG = pa.decimal128(38, 0)
TOO_LONG = 2**64


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([2**63 - 1, -(2**63), None], pa.int64()),
        ([2**63], LONG),
        ([1, None, -(10**38) + 1], LONG),
        ([TOO_LONG, 1.5], pa.float64()),
        ([10.0**38], pa.float64()),
        ([1.5, 1e300], pa.float64()),
    ],
)
def test_integers_of_more_than_64_bits_become_decimals(values, kind):
    texts = [
        "null" if each is None else repr(each).replace("1e+38", "1" + 38 * "0") for each in values
    ]
    data = "".join(f'{{"n":{each},"deep":[{{"n":{each}}}],"s":{{"n":{each}}}}}\n' for each in texts)
    found = infer_json(data.encode())
    deep = pa.list_(pa.struct([("n", kind)]))
    assert found == pa.schema([("n", kind), ("deep", deep), ("s", deep.value_type)])
    assert JsonReader(found).read(data.encode()).column("n").to_pylist() == values

    lines = "".join(f"{each},x\n".replace("null", "") for each in texts).encode()
    found = infer_csv(lines, ["n", "text"], CsvDialect(), False)
    assert found == pa.schema([("n", kind), ("text", pa.string())])
    assert CsvReader(found, ["n", "text"]).read(lines).column("n").to_pylist() == values


def test_other_columns_keep_their_inferred_types():
    data = (
        b'{"n":18446744073709551616,"at":"2013-01-01T05:00:00","day":"2013-01-01","t":"x","e":{},'
        b'"l":[],"nothing":null,"x":0.5,"flag":true,"mixed":["1",null]}'
    )
    found = infer_json(data)
    assert found.field("n").type == LONG
    assert found.field("at").type == pa.timestamp("us", tz="UTC")
    assert found.field("day").type == pa.date32()
    plain = infer_json(data.replace(b"18446744073709551616", b"0"))
    assert [field for field in found if field.name != "n"] == [
        field for field in plain if field.name != "n"
    ]


def test_a_decimal_is_read_back_with_all_digits():
    [row] = JsonReader(pa.schema([("n", LONG)])).read(b'{"n":%d}' % TOO_LONG).to_pylist()
    assert row == {"n": Decimal(TOO_LONG)}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["2013-07-04", None], pa.date32()),
        (["2013-07-04", "2013-07-04T05:15:30Z"], pa.timestamp("us", tz="UTC")),
        (["2013-07-04T00:00:00"], pa.timestamp("us", tz="UTC")),
        (["2013-07-04", "soon"], pa.string()),
        (["2013-07", "2013-07-04"], pa.string()),
    ],
)
def test_dates_are_not_inferred_as_timestamps(values, kind):
    lines = (json.dumps({"day": each, "deep": [{"day": each}]}) for each in values)
    data = "\n".join(lines).encode()
    found = infer_json(data)
    assert found == pa.schema([("day", kind), ("deep", pa.list_(pa.struct([("day", kind)])))])
    assert JsonReader(found).read(data).num_rows == len(values)
