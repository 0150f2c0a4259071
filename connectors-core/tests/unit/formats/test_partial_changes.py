# SPDX-License-Identifier: Apache-2.0
"""Tests the rows of changes of Canal and Maxwell, against a reading of one message after another.

Such a message has the new row, and the former values of only the changed fields: a null is a former
value, and a missing field has not changed.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors_core.errors import InvalidOptionError
from connectors_core.formats import CanalJsonFormat, MaxwellJsonFormat, partial_changes
from connectors_core.schema import ROW_KIND_COLUMN

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("price", pa.float64()),
        pa.field("old", pa.string()),
        pa.field("more", pa.struct([("name", pa.string())])),
        pa.field(ROW_KIND_COLUMN, pa.string(), nullable=False),
    ]
)
TEXTS = st.text(max_size=3) | st.sampled_from(["null", '"old":null', '\\"', "{", "}"])
VALUES = {
    "name": st.none() | TEXTS,
    "price": st.none() | st.sampled_from([0.5, -1.0, math.inf]),
    "old": st.none() | TEXTS,
    "more": st.none() | st.fixed_dictionaries({"name": st.none() | TEXTS}),
    "further": st.none() | st.lists(st.none() | TEXTS, max_size=2),
}
ROWS = st.none() | st.fixed_dictionaries({"id": st.integers(0, 9) | st.none()}, optional=VALUES)
OLDS = st.none() | st.fixed_dictionaries({}, optional={**VALUES, "id": st.integers(0, 9)})
OTHERS = st.sampled_from([None, b"", b"{", b"[]", b"{}", b'{"type":null}'])
NONE_OF = {"name": None, "price": None, "old": None, "more": None}


def messages_of(rows, olds, types):
    """Return messages, most of which are updates."""
    fields = {"data": rows, "old": olds, "ts": st.none() | st.integers(0, 9)}
    change = st.fixed_dictionaries({"type": st.sampled_from(types)}, optional=fields)
    update = st.fixed_dictionaries({"type": st.just(types[0]), "data": rows, "old": olds})
    return st.lists(update | update | change | OTHERS, max_size=6)


def kinds_of(message, kinds):
    """Return the kinds of the rows of a change, also none; None if it is bad."""
    if not isinstance(message, dict):
        return None
    return [] if message.get("isDdl") else kinds.get(message.get("type"))


def rows_of(message, kinds):
    """Return the rows of a message whose fields are lists of rows; None if it is bad."""
    if not message:
        return []
    found = kinds_of(message, kinds)
    if not found:
        return found
    rows = message.get("data")
    if rows is None or None in rows:
        return None
    olds = message.get("old") if len(found) == 2 else None
    if olds is None:
        olds = [{}] * len(rows)
    if len(olds) != len(rows):
        return None
    made = []
    for row, old in zip(rows, olds, strict=True):
        after = {**NONE_OF, "id": None, **row}
        images = [after] if len(found) == 1 else [{**after, **(old or {})}, after]
        for image, kind in zip(images, found, strict=True):
            values = {name: image[name] for name in SCHEMA.names if name in image}
            made.append({**values, ROW_KIND_COLUMN: kind})
    return None if any(row["id"] is None for row in made) else made


# A name of a field and its value can be spelled in several ways.
SPELLINGS = [
    (json.dumps, {}),
    (json.dumps, {"separators": (" ,\n", "\t: ")}),
    (json.dumps, {"ensure_ascii": False, "sort_keys": True}),
]


def spelled(message, at, escaped):
    """Return a message as JSON; if escaped, with escapes in the name of a field."""
    if not isinstance(message, dict):
        return message
    dump, arguments = SPELLINGS[at]
    text = dump(message, **arguments)
    return (text.replace('"old"', '"\\u006fld"') if escaped else text).encode()


def check(form, messages, column, expected):
    decoded = form.decode(column, SCHEMA)
    rows = [(at, row) for at, found in enumerate(expected) for row in found or []]
    assert decoded.rows.schema == SCHEMA
    assert decoded.rows.to_pylist() == [row for _, row in rows]
    assert decoded.lined_up(pa.array(range(len(messages)))).to_pylist() == [at for at, _ in rows]
    assert [each.at for each in decoded.bad] == [
        at for at, found in enumerate(expected) if found is None
    ]
    assert all(each.reason for each in decoded.bad)


MAXWELL_KINDS = {
    "update": ["-U", "+U"],
    "insert": ["+I"],
    "delete": ["-D"],
    "bootstrap-insert": ["+I"],
    "bootstrap-start": [],
    "bootstrap-complete": [],
    "table-alter": [],
}


@settings(max_examples=300)
@given(
    messages_of(ROWS, OLDS, [*MAXWELL_KINDS, "other"]),
    st.integers(0, len(SPELLINGS) - 1),
    st.booleans(),
)
def test_changes_of_maxwell_have_their_rows(messages, spelling, escaped):
    column = pa.array([spelled(each, spelling, escaped) for each in messages], pa.binary())
    expected = []
    for each in messages:
        if isinstance(each, dict):
            lists = {name: [each[name]] for name in ("data", "old") if each.get(name) is not None}
            each = {**each, "data": None, "old": None, **lists}
        expected.append(rows_of(each, MAXWELL_KINDS))
    check(MaxwellJsonFormat(), messages, column, expected)


CANAL_KINDS = {
    "UPDATE": ["-U", "+U"],
    "INSERT": ["+I"],
    "DELETE": ["-D"],
    "CREATE": [],
    "QUERY": [],
}


def as_canal(message, texts):
    """Return a message with texts in place of infinity, and perhaps of all numbers."""

    def written(value):
        return (
            str(value) if value == math.inf or (texts and isinstance(value, int | float)) else value
        )

    if not isinstance(message, dict):
        return message
    lists = {
        name: [each and {key: written(value) for key, value in each.items()} for each in rows]
        for name in ("data", "old")
        if (rows := message.get(name)) is not None
    }
    return {**message, **lists}


@settings(max_examples=300)
@given(
    messages_of(
        st.none() | st.lists(ROWS, max_size=3),
        st.none() | st.lists(OLDS, max_size=3),
        [*CANAL_KINDS, "OTHER"],
    ).flatmap(
        lambda messages: st.tuples(
            *(
                st.booleans().map(lambda ddl, each=each: {**each, "isDdl": ddl})
                if isinstance(each, dict) and each.get("ts")
                else st.just(each)
                for each in messages
            )
        )
    ),
    st.integers(0, len(SPELLINGS) - 1),
    st.booleans(),
    st.booleans(),
)
def test_changes_of_canal_have_their_rows(messages, spelling, escaped, texts):
    given_ = [as_canal(each, texts) for each in messages]
    column = pa.array([spelled(each, spelling, escaped) for each in given_], pa.binary())
    check(CanalJsonFormat(), messages, column, [rows_of(each, CANAL_KINDS) for each in messages])


def one_row(name, price=None):
    return {"id": 1, "name": name, "price": price}


@pytest.mark.parametrize("other", [b'"\xff"', b"NaN", b"[" * 2000 + b"]" * 2000])
def test_a_former_null_is_found_beside_any_value_that_arrow_reads(other):
    start = b'{"type":"update","data":{"id":1,"name":"b"},"old":{"other":' + other
    messages = [start + b',"name":"a"}}', start + b',"name":null}}', start + b"}}"]
    decoded = MaxwellJsonFormat().decode(pa.array(messages), SCHEMA)
    former = decoded.rows.column("name").to_pylist()[::2]
    if other.startswith(b"["):
        assert former == ["a", "b"]
        assert [each.at for each in decoded.bad] == [1]
        assert "cannot be told" in decoded.bad[0].reason
    else:
        assert (former, decoded.bad) == (["a", None, "b"], ())


def test_only_messages_with_a_former_null_are_read_one_by_one(monkeypatch):
    reread = []

    class Library:
        JSONDecodeError = orjson.JSONDecodeError

        def loads(self, message):
            reread.append(message)
            return orjson.loads(message)

    monkeypatch.setattr(partial_changes, "orjson", Library())
    olds = [{"name": "a"}, {"price": None}, {}, {"name": "c"}]
    messages = [
        json.dumps({"type": "update", "data": one_row(None, 0.5), "old": old}).encode()
        for old in olds
    ]
    rows = MaxwellJsonFormat().decode(pa.array(messages), SCHEMA).rows
    assert reread == [messages[1]]
    assert rows.select(["name", "price"]).to_pylist()[::2] == [
        {"name": "a", "price": 0.5},
        {"name": None, "price": None},
        {"name": None, "price": 0.5},
        {"name": "c", "price": 0.5},
    ]


def canal(table="flights", database="shop", **fields):
    rows = {"data": [{"id": "1"}], "type": "INSERT"}
    return json.dumps({"table": table, "database": database, **rows, **fields}).encode()


def test_canal_skips_changes_of_other_tables_even_if_they_do_not_fit():
    form = CanalJsonFormat(database_include="shop|test", table_include="flights_[0-9]+")
    messages = [
        canal("flights_1"),
        canal("flights_1", "other"),
        canal("my_flights_1", data=[{"id": "no number"}]),
        canal(None),
        canal("flights_2", "test", data=[{"id": "2"}, {"id": "3"}]),
        None,
        b"{",
        canal("flights_3", data=[{"id": "no number"}]),
        canal("flights_4"),
    ]
    decoded = form.decode(pa.array(messages), SCHEMA)
    assert decoded.rows.column("id").to_pylist() == [1, 2, 3, 1]
    assert decoded.kept.tolist() == [0, 4, 4, 8]
    assert [each.at for each in decoded.bad] == [6, 7]
    assert "no number" not in "".join(each.reason for each in decoded.bad)


def test_an_invalid_pattern_of_canal_is_refused():
    with pytest.raises(InvalidOptionError, match="a regular expression") as refused:
        CanalJsonFormat.from_options({"canal-json.table.include": "("})
    assert refused.value.option == "canal-json.table.include"


@pytest.mark.parametrize(
    ("column", "text"),
    [("id", "1x"), ("price", "none"), ("late", "2"), ("day", "May"), ("at", "noon")],
)
def test_a_text_of_another_type_is_a_bad_record_without_its_value(column, text):
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("price", pa.float32()),
            ("late", pa.bool_()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", "UTC")),
            (ROW_KIND_COLUMN, pa.string()),
        ]
    )
    good = {
        "id": "7",
        "price": "1.5",
        "late": "1",
        "day": "2026-01-31",
        "at": "2026-01-31 08:00:00",
    }
    messages = [canal(data=[good]), canal(data=[good, {**good, column: text}]), canal(data=[good])]
    decoded = CanalJsonFormat().decode(pa.array(messages), schema)
    row = {
        "id": 7,
        "price": 1.5,
        "late": True,
        "day": date(2026, 1, 31),
        "at": datetime(2026, 1, 31, 8, tzinfo=UTC),
        ROW_KIND_COLUMN: "+I",
    }
    assert decoded.rows.to_pylist() == [row, row]
    (bad,) = decoded.bad
    assert bad.at == 1
    assert text not in bad.reason


def test_metadata_of_canal_are_columns_of_its_rows():
    columns = {
        "d": "database",
        "t": "table",
        "types": "sql-type",
        "keys": "pk-names",
        "written": "ingestion-timestamp",
        "changed": "event-timestamp",
    }
    form = CanalJsonFormat().reading_metadata(columns)
    schema = pa.schema(
        [*((name, form.readable_metadata[key]) for name, key in columns.items()), *SCHEMA]
    )
    given_ = {"sqlType": {"id": -5}, "pkNames": ["id"], "ts": 1_000, "es": 2_000}
    changes = {"data": [{"id": "1"}, {"id": "2"}], "old": [{}, {}], "type": "UPDATE"}
    form.check_readable(schema)
    rows = form.decode(pa.array([canal(**given_, **changes), canal()]), schema).rows
    metadata = {
        "d": "shop",
        "t": "flights",
        "types": [("id", -5)],
        "keys": ["id"],
        "written": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "changed": datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
    }
    absent = {**dict.fromkeys(columns), "d": "shop", "t": "flights"}
    assert rows.select([*columns]).to_pylist() == [metadata] * 4 + [absent]


def test_metadata_of_maxwell_are_columns_of_its_rows():
    columns = {
        "database": "database",
        "table": "table",
        "keys": "primary-key-columns",
        "at": "ingestion-timestamp",
    }
    form = MaxwellJsonFormat().reading_metadata(columns)
    schema = pa.schema(
        [*SCHEMA, *((name, form.readable_metadata[key]) for name, key in columns.items())]
    )
    fields = {"database": "shop", "table": "flights", "primary_key_columns": ["id"], "ts": 60}
    message = json.dumps({"type": "insert", "data": {"id": 1}, **fields}).encode()
    rows = form.decode(pa.array([message]), schema).rows
    assert rows.select([*columns]).to_pylist() == [
        {
            "database": "shop",
            "table": "flights",
            "keys": ["id"],
            "at": datetime(1970, 1, 1, 0, 1, tzinfo=UTC),
        }
    ]
