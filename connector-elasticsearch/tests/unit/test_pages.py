# SPDX-License-Identifier: Apache-2.0
"""Tests how pages of hits become columns, either all at once or document by document."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector_elasticsearch import ElasticsearchRetryableError
from connector_elasticsearch.documents import DocumentDecoder, DocumentMetadata
from connector_elasticsearch.source.pages import Page, PageDecoder
from connectors_core.errors import ConfigurationError, UnsupportedError

pytestmark = pytest.mark.cell

MOMENT = pa.timestamp("us", tz="UTC")
NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)


def page(*sources: dict[str, Any] | None, **more: list[Any]) -> bytes:
    hits = []
    for at, source in enumerate(sources):
        hit: dict[str, Any] = {"_index": "flights", "_id": f"id-{at}"}
        hit |= {} if source is None else {"_source": source}
        hit |= {name: values[at] for name, values in more.items() if values[at] is not None}
        hits.append(hit | {"sort": [at]})
    found = {"hits": {"hits": hits}} if hits else {}
    return orjson.dumps({"pit_id": "the-point"} | found)


def rows(found: Page) -> list[dict[str, Any]]:
    return [row for piece in found.pieces if piece.batch for row in piece.batch.to_pylist()]


def reasons(found: Page) -> list[str]:
    return [piece.damaged.reason for piece in found.pieces if piece.damaged]


def decoder(*fields: tuple[str, pa.DataType] | pa.Field, **options: Any) -> PageDecoder:
    return PageDecoder(DocumentDecoder(pa.schema(fields), **options))


def at_once(of: PageDecoder, body: bytes) -> Page:
    """Decode a page all at once, without the fallback to single documents."""
    return of._all_at_once(body)


ALL_TYPES = decoder(
    ("flag", pa.bool_()),
    ("byte", pa.int8()),
    ("long", pa.int64()),
    ("unsigned", pa.decimal128(20, 0)),
    ("half", pa.float32()),
    ("double", pa.float64()),
    ("text", pa.string()),
    ("data", pa.binary()),
    ("moment", MOMENT),
    ("day", pa.date32()),
    ("object", pa.struct([("half", pa.float32()), ("inner", pa.struct([("long", pa.int64())]))])),
    ("several", pa.list_(pa.string())),
    ("nested", pa.list_(pa.struct([("half", pa.float32()), ("day", pa.date32())]))),
)
PLAIN = {
    "flag": True,
    "byte": -128,
    "long": 2**63 - 1,
    "unsigned": 2**64 - 1,
    "half": 1.5,
    "double": 0.1,
    "text": "JFK",
    "data": "AAE=",
    "moment": "2013-01-01T10:00:00.123Z",
    "day": "2013-01-02",
    "object": {"half": 0.25, "inner": {"long": 7}, "not asked for": 1},
    "several": ["a", None, "b"],
    "nested": [{"half": 1, "day": None}, None, {"day": "2013-01-02"}],
    "not asked for": [{}],
}
PLAIN_ROW = {
    **{name: PLAIN[name] for name in ("flag", "byte", "long", "half", "double", "text", "several")},
    "unsigned": Decimal(2**64 - 1),
    "data": b"\x00\x01",
    "moment": datetime(2013, 1, 1, 10, 0, 0, 123_000, tzinfo=UTC),
    "day": date(2013, 1, 2),
    "object": {"half": 0.25, "inner": {"long": 7}},
    "nested": [{"half": 1.0, "day": None}, None, {"half": None, "day": date(2013, 1, 2)}],
}


@pytest.mark.parametrize("way", [PageDecoder._all_at_once, PageDecoder._one_by_one])
def test_all_types_are_decoded_to_their_column_types(way: Any) -> None:
    found = way(ALL_TYPES, page(PLAIN, {}, {"object": None, "several": []}))
    nothing = dict.fromkeys(PLAIN_ROW)
    assert rows(found) == [PLAIN_ROW, nothing, nothing | {"several": []}]
    assert found.pieces[0].batch.schema == ALL_TYPES._documents.schema
    assert (found.point_in_time, found.hits) == ("the-point", 3)
    assert [(piece.after, piece.documents) for piece in found.pieces] == [((2,), 3)]


def test_a_page_without_documents_is_the_end() -> None:
    assert at_once(ALL_TYPES, page()) == Page("the-point", 0, ())


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int32(), "5", 5),
        (pa.int32(), 5.9, 5),
        (pa.int64(), [7], 7),
        (pa.int64(), [None, [[7]], None], 7),
        (pa.int64(), "", None),
        (pa.float64(), "", None),
        (pa.string(), "\\ud800", "\\ud800"),  # an escaped backslash, not a surrogate
        (pa.list_(pa.int64()), [[1, 2], [], [[3]]], [1, 2, 3]),
        (MOMENT, 2013, NEW_YEAR),
        (MOMENT, 1356998400000.5, NEW_YEAR.replace(microsecond=500)),
        (pa.date32(), 2013, NEW_YEAR.date()),
        (pa.int64(), [], None),
        (pa.float64(), "1e3", 1000.0),
        (pa.bool_(), "true", True),
        (pa.bool_(), "", False),
        (pa.string(), 5, "5"),
        (pa.string(), True, "true"),
        (pa.string(), {"lat": 1}, '{"lat":1}'),
        (pa.decimal128(5, 2), "1.5", Decimal("1.50")),
        (pa.decimal128(38, 0), "1" * 38, Decimal("1" * 38)),
        (pa.decimal128(38, 10), "1" * 28 + ".5", Decimal("1" * 28 + ".5")),
        (pa.list_(pa.string()), "one", ["one"]),
        (pa.list_(pa.int64()), ["1", 2], [1, 2]),
        (MOMENT, 1356998400000, NEW_YEAR),
        (MOMENT, "1356998400000", NEW_YEAR),
        (MOMENT, "2013", NEW_YEAR),
        (MOMENT, "2013-01", NEW_YEAR),
        (MOMENT, "2013-01-01T02:00+02:00", NEW_YEAR),
        (MOMENT, "2013-01-01T00:00:00.123456789Z", NEW_YEAR.replace(microsecond=123456)),
        (pa.timestamp("us"), 1356998400000, NEW_YEAR.replace(tzinfo=None)),
        (pa.date32(), 1356998400000, NEW_YEAR.date()),
    ],
)
def test_lenient_values_are_read_as_the_server_reads_them(
    kind: pa.DataType, value: Any, expected: Any
) -> None:
    found = decoder(("field", kind)).decode(page({"field": value}))
    assert rows(found) == [{"field": expected}]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (pa.int8(), 128, "between -128 and 127"),
        (pa.int64(), 2**63, "between"),
        (pa.int64(), True, "not a number"),
        (pa.int64(), "many", "field"),
        (pa.float32(), 1e39, "too large"),
        (pa.int64(), "1e999999999", "between"),
        (pa.int64(), "Infinity", "not a number"),
        (pa.float64(), "NaN", "not a number"),
        (pa.float64(), "1e400", "too large"),
        (pa.decimal128(20, 0), "1e30", "more than 20 digits"),
        (pa.decimal128(20, 0), "1e-999999999", "more than 0 decimal places"),
        (pa.decimal128(20, 0), "sNaN", "not a number"),
        (pa.decimal128(3, 1), 100.5, "more than 3 digits"),
        (pa.decimal128(3, 1), 1.55, "more than 1 decimal places"),
        (pa.bool_(), 1, "neither true nor false"),
        (pa.string(), ["a", "b"], "array-fields"),
        (pa.binary(), "A", "base64"),
        (MOMENT, "tomorrow", "ISO 8601"),
        (MOMENT, 253402300800000, "out of range"),
        (MOMENT, "-0001-01-01", "ISO 8601"),
        (MOMENT, True, "not a timestamp"),
        (pa.struct([("a", pa.int64())]), 5, "not an object"),
        (pa.struct([("a", pa.int64())]), [{"a": 1}, {"a": 2}], "array-fields"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_a_bad_record(
    kind: pa.DataType, value: Any, reason: str
) -> None:
    found = decoder(("field", kind)).decode(page({}, {"field": value}, {}, {}))
    (message,) = reasons(found)
    assert "'field'" in message
    assert reason in message
    assert [(piece.after, piece.documents) for piece in found.pieces] == [
        ((0,), 1),
        ((1,), 1),
        ((3,), 2),
    ]
    (damaged,) = [piece.damaged for piece in found.pieces if piece.damaged]
    assert orjson.loads(damaged.raw) == {"field": value}
    assert damaged.document == "flights/id-1"


MAKER = pa.struct([("name", pa.string()), ("place", pa.struct([("city", pa.string())]))])


@pytest.mark.parametrize(
    "source",
    [
        {"maker": {"name": "Embraer", "place": {"city": "São José"}}},
        {"maker.name": "Embraer", "maker.place.city": "São José"},
        {"maker.name": "Embraer", "maker.place": {"city": "São José"}},
        {"maker": {"name": "Embraer"}, "maker.place": {"city": "São José"}},
        {"maker": {"name": "Embraer", "place.city": "São José"}},
        {"maker": [{"name": "Embraer", "place.city": "São José"}]},
    ],
)
def test_a_field_name_with_dots_is_a_path(source: dict[str, Any]) -> None:
    of = decoder(("maker", MAKER))
    expected = {"maker": {"name": "Embraer", "place": {"city": "São José"}}}
    assert rows(of.decode(page(source, {}, source))) == [expected, {"maker": None}, expected]


def test_an_object_and_a_path_into_it_are_separate_values() -> None:
    source = {"makers": [{"name": "Airbus"}], "makers.name": "Embraer"}
    of = decoder(("makers", pa.list_(pa.struct([("name", pa.string())]))))
    assert rows(of.decode(page(source))) == [{"makers": [{"name": "Airbus"}, {"name": "Embraer"}]}]
    (reason,) = reasons(decoder(("maker", MAKER)).decode(page({"maker": 5, "maker.name": "A"})))
    assert "not an object" in reason


def test_a_column_name_can_contain_dots() -> None:
    of = decoder(("maker.name", pa.string()))
    assert rows(at_once(of, page({"maker.name": "Airbus"}))) == [{"maker.name": "Airbus"}]


def test_a_null_in_a_required_field_is_a_bad_record() -> None:
    of = decoder(pa.field("field", pa.int64(), nullable=False))
    assert reasons(of.decode(page({"field": 1}, {}))) == [
        "the field 'field': it is missing but required"
    ]


def test_timestamps_in_a_custom_format_come_from_the_fields_of_the_server() -> None:
    of = decoder(
        ("moment", MOMENT),
        ("object", pa.struct([("moment", MOMENT), ("long", pa.int64())])),
        formatted=["moment", "object.moment"],
    )
    fields = {"moment": ["2013-01-01T00:00:00.000Z"], "object.moment": ["2013-01-01T00:00:00.000Z"]}
    source = {"moment": "01/01/13", "object": {"moment": 15706, "long": 1}}
    expected = [
        {"moment": NEW_YEAR, "object": {"moment": NEW_YEAR, "long": 1}},
        {"moment": None, "object": None},
    ]
    body = page(source, {}, fields=[fields, None])
    assert rows(at_once(of, body)) == expected
    assert rows(of._one_by_one(body)) == expected
    assert rows(at_once(of, page({}, {}))) == [{"moment": None, "object": None}] * 2
    assert "does not accept the value" in reasons(of.decode(page(source, _ignored=[["moment"]])))[0]
    two = {"moment": ["2013-01-01T00:00:00.000Z"] * 2}
    assert "array-fields" in reasons(of.decode(page(source, fields=[two])))[0]


DAY = "2013-01-01T00:00:00.000000Z"
NEXT = "2013-01-02T00:00:00.000000Z"
IN_LISTS = decoder(
    ("days", pa.list_(MOMENT)),
    ("objects", pa.list_(pa.struct([("day", pa.date32()), ("long", pa.int64())]))),
    ("nested", pa.list_(pa.struct([("inner", pa.struct([("days", pa.list_(MOMENT))]))]))),
    formatted=["days", "objects.day", "nested.inner.days"],
)


def test_timestamps_in_lists_are_matched_by_the_values_in_the_document() -> None:
    source = {
        "days": ["01.01.13", None, ["02.01.13"]],
        "objects": [{"long": 1}, {"day": None}, {"day": "02.01.13"}, None, {"day": "01.01.13"}],
        "nested": [{}, {"inner": {"days": ["01.01.13", None]}}, {"inner.days": "02.01.13"}],
    }
    fields = {
        "days": [DAY, NEXT],
        "objects.day": [NEXT, DAY],
        "nested": [{"inner.days": [DAY]}, {"inner": [{"days": [NEXT]}]}],
    }
    new_year, next_day = date(2013, 1, 1), date(2013, 1, 2)
    after = NEW_YEAR.replace(day=2)
    assert rows(IN_LISTS.decode(page(source, {}, fields=[fields, None]))) == [
        {
            "days": [NEW_YEAR, None, after],
            "objects": [
                {"day": None, "long": 1},
                {"day": None, "long": None},
                {"day": next_day, "long": None},
                None,
                {"day": new_year, "long": None},
            ],
            "nested": [
                {"inner": None},
                {"inner": {"days": [NEW_YEAR, None]}},
                {"inner": {"days": [after]}},
            ],
        },
        {"days": None, "objects": None, "nested": None},
    ]


def test_an_object_with_only_a_formatted_timestamp_is_not_null() -> None:
    of = decoder(("object", pa.struct([("moment", MOMENT)])), formatted=["object.moment"])
    assert of._documents.search()["_source"] == ["object"]
    found = at_once(
        of, page({"object": {"moment": "a"}}, {}, fields=[{"object.moment": [DAY]}, {}])
    )
    assert rows(found) == [{"object": {"moment": NEW_YEAR}}, {"object": None}]


def test_a_formatted_timestamp_goes_to_the_column_with_a_dot_in_its_name() -> None:
    inner = pa.struct([("b", pa.struct([("long", pa.int64())])), ("b.moment", MOMENT)])
    formatted = ["a.moment", "o.b.moment"]
    of = decoder(
        ("a", pa.struct([("long", pa.int64())])),
        ("a.moment", MOMENT),
        ("o", pa.struct([*inner, ("long", pa.int64())])),
        formatted=formatted,
    )
    written = [{path: [DAY] for path in formatted}] * 2
    expected = {
        "a": None,
        "a.moment": NEW_YEAR,
        "o": {"b": None, "b.moment": NEW_YEAR, "long": 1},
    }
    body = page({"o": {"long": 1}}, {"o": {"long": 1}}, fields=written)
    assert rows(at_once(of, body)) == rows(of._one_by_one(body)) == [expected] * 2


def test_two_columns_cannot_share_a_formatted_timestamp() -> None:
    fields = [("a", pa.struct([("moment", MOMENT)])), ("a.moment", MOMENT)]
    with pytest.raises(ConfigurationError, match="one column only") as error:
        decoder(*fields, formatted=["a.moment"])
    assert error.value.found == "a.moment"
    decoder(*fields)


@pytest.mark.parametrize("value", ["POINT (1 2)", [1, 2], 1, [{"moment": DAY}, "text"]])
@pytest.mark.parametrize("formatted", [[], ["object.moment"]])
def test_a_value_that_is_not_an_object_is_a_bad_record(value: Any, formatted: list[str]) -> None:
    of = decoder(("object", pa.struct([("moment", MOMENT)])), formatted=formatted)
    found = of.decode(page({"object": value}, {}))
    assert len(reasons(found)) == len(rows(found)) == 1


def test_a_request_names_whole_columns_and_the_vectors_in_them() -> None:
    inner = pa.struct([("vector", pa.list_(pa.float32())), ("text", pa.string())])
    of = decoder(("object", inner), ("vector", pa.list_(pa.float64())), ("maker.name", pa.string()))
    assert of._documents.paths == ["object", "vector", "maker.name", "object.vector"]


def test_a_request_names_a_column_by_a_pattern_if_its_name_cannot_be_sent() -> None:
    of = decoder((" a b\n", pa.string()), ("c,d", pa.string()), ("e\\f", pa.string()))
    assert of._documents.paths == ["*a b*", "c*d", "e*f"]


OBJECT = pa.struct([("long", pa.int64()), ("inner", pa.struct([("text", pa.string())]))])


@pytest.mark.parametrize(
    ("field", "source"),
    [
        (("object", OBJECT), {"object.long": 4, "object": {"long": 5}}),
        (("object", OBJECT), {"object": {"inner": {"text": "a"}}, "object.inner": {"text": "b"}}),
        (("object", OBJECT), {"object.inner.text": "a", "object.inner": {"text": "b"}}),
        (("object.long", pa.int64()), {"object.long": 4, "object": {"long": 5}}),
        (("object.a.b", pa.int64()), {"object": {"a": {"b": 4}, "a.b": 5}}),
    ],
)
def test_a_field_that_is_written_in_two_ways_has_both_values(
    field: tuple[str, pa.DataType], source: dict[str, Any]
) -> None:
    (reason,) = reasons(decoder(field).decode(page(source)))
    assert "several values" in reason


def test_an_array_that_is_written_in_two_ways_has_the_values_of_both() -> None:
    longs = pa.list_(pa.int64())
    of = decoder(("object", pa.struct([("longs", longs)])), ("object.longs", longs))
    (row,) = rows(of.decode(page({"object.longs": [4], "object": {"longs": [5, 6]}})))
    assert sorted(row["object"]["longs"]) == sorted(row["object.longs"]) == [4, 5, 6]


@pytest.mark.parametrize("written", [[], [DAY, DAY, DAY], ["+10000-01-01T00:00:00.000000Z"] * 2])
def test_timestamps_that_cannot_be_matched_are_a_bad_record(written: list[str]) -> None:
    source = {"days": ["01.01.13", None, "01.01.13"]}
    found = IN_LISTS.decode(page(source, {}, fields=[{"days": written}, None]))
    assert len(reasons(found)) == len(rows(found)) == 1


def test_a_lone_surrogate_is_a_bad_record_and_the_rest_of_the_page_is_read() -> None:
    of = decoder(("text", pa.string()), ("several", pa.list_(pa.string())))
    body = page({"text": "a"}, {"text": "here"}, {"several": ["here"]}, {"other": "here"})
    found = of.decode(body.replace(b'"here"', b'"\\ud800"'))
    nothing = {"text": None, "several": None}
    assert rows(found) == [nothing | {"text": "a"}, nothing]
    assert ["surrogate" in each for each in reasons(found)] == [True, True]
    assert [json.loads(piece.damaged.raw) for piece in found.pieces if piece.damaged] == [
        {"text": "\ud800"},
        {"several": ["\ud800"]},
    ]


def test_a_lone_surrogate_is_a_bad_record_in_any_text() -> None:
    of = decoder(
        pa.field("json", pa.string(), metadata={"elasticsearch.type": "flattened"}),
        metadata_columns=[(DocumentMetadata.ROUTING, "routing")],
    )
    body = page({"json": {"here": 1}}, {"json": {"a": ["here"]}}, {}, _routing=["a", "b", "here"])
    found = of.decode(body.replace(b'"here"', b'"\\udfff"'))
    assert len(reasons(found)) == 3


def test_numbers_in_text_columns_keep_all_their_digits() -> None:
    of = decoder(
        ("text", pa.string()),
        pa.field("json", pa.string(), metadata={"elasticsearch.type": "flattened"}),
    )
    body = page({"text": "here", "json": {"a": ["here", {"b": "here"}]}})
    for number in (b"12345678901234567890123", b"1.0E23", b"-0.0", b"1e400"):
        text = number.decode()
        (row,) = rows(of.decode(body.replace(b'"here"', number)))
        assert row == {"text": text, "json": f'{{"a":[{text},{{"b":{text}}}]}}'}


@pytest.mark.parametrize("depth", [300, 990])
def test_deeply_nested_documents_do_not_stop_a_read(depth: int) -> None:
    deep = b'{"a":' * depth + b"[]" + b"}" * depth
    of = decoder(
        ("text", pa.string()),
        pa.field("json", pa.string(), metadata={"elasticsearch.type": "flattened"}),
    )
    body = page({"text": 1, "other": "here"}, {"json": "here"}, {"text": "]}{["})
    found = of.decode(body.replace(b'"here"', deep))
    assert [row["text"] for row in rows(found)] == ["1", "]}{["]
    assert "nested too deep" in reasons(found)[0]
    assert len(found.pieces) == 3


def test_a_column_name_with_dots_also_matches_fields_in_objects() -> None:
    of = decoder(("maker.name", pa.string()), ("maker.place.city", pa.string()))
    sources = [
        {"maker.name": "Airbus", "maker.place.city": "Blagnac"},
        {"maker": {"name": "Airbus", "place": {"city": "Blagnac"}}},
        {"maker": [{"name": "Airbus"}, {"place.city": "Blagnac"}]},
        {"maker": {"name": "Airbus"}, "maker.place": {"city": "Blagnac"}},
    ]
    expected = {"maker.name": "Airbus", "maker.place.city": "Blagnac"}
    assert rows(of.decode(page(*sources))) == [expected] * 4


def test_metadata_columns_come_last() -> None:
    columns = [(DocumentMetadata.ID, "id"), (DocumentMetadata.VERSION, "version")]
    of = decoder(("field", pa.int64()), metadata_columns=columns)
    body = page({"field": 1}, {"field": "2"}, _version=[3, 4])
    expected = [
        {"field": 1, "id": "id-0", "version": 3},
        {"field": 2, "id": "id-1", "version": 4},
    ]
    assert rows(of.decode(body)) == expected
    of_ids = decoder(metadata_columns=columns[:1])
    assert rows(at_once(of_ids, page({}, {}))) == [{"id": "id-0"}, {"id": "id-1"}]


def test_text_that_looks_like_the_end_of_a_page_is_read_as_text() -> None:
    of = decoder(("text", pa.string()))
    found = at_once(of, page({"text": '"sort":[99]}]}}'}))
    assert found.pieces[0].after == (0,)


def test_an_index_without_source_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="_source"):
        decoder(("field", pa.int64())).decode(page(None))


def test_a_response_that_is_not_a_page_is_an_error() -> None:
    with pytest.raises(ElasticsearchRetryableError, match="unreadable"):
        decoder(("field", pa.int64())).decode(b"<html>")


@pytest.mark.parametrize(
    ("source", "entries"),
    [
        ({"tags": {"a": 1, "b.c": "2", "": None}}, [("a", 1), ("b.c", 2), ("", None)]),
        ({"tags.a": 1, "tags": {"b": [2]}}, [("b", 2), ("a", 1)]),
        ({"tags": {}}, []),
        ({"tags": None}, None),
        ({}, None),
    ],
)
def test_an_object_can_be_read_as_a_map(source: Any, entries: Any) -> None:
    tags = decoder(("tags", pa.map_(pa.string(), pa.int64())))
    assert rows(tags.decode(page(source))) == [{"tags": entries}]


def test_the_values_of_a_map_can_be_objects_and_lists() -> None:
    inner = pa.list_(pa.struct([("at", MOMENT), ("more", pa.map_(pa.string(), pa.string()))]))
    tags = decoder(("tags", pa.map_(pa.string(), inner)))
    source = {"tags": {"a": [{"at": "2013-01-01", "more": {"x": {"y": 1}}}]}}
    value = [{"at": NEW_YEAR, "more": [("x", '{"y":1}')]}]
    assert rows(tags.decode(page(source))) == [{"tags": [("a", value)]}]
    assert reasons(tags.decode(page({"tags": [1, 2]}, {"tags": "x"}, {"tags": {"a": "x"}}))) == [
        "the field 'tags': it contains several values; name the field in array-fields",
        "the field 'tags': it is not an object",
        "the field 'tags': it is not an object",
    ]


def test_a_column_type_that_json_cannot_express_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="duration"):
        decoder(("field", pa.duration("s")))


SCALARS = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "text": st.text(st.characters(exclude_categories=["Cs"])),
    "flag": st.booleans(),
    "moment": st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)).map(
        lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000).isoformat() + "Z"
    ),
}


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={name: st.none() | values for name, values in SCALARS.items()}
            | {"several": st.lists(st.none() | SCALARS["text"])}
            | {"object": st.fixed_dictionaries({}, optional={"half": st.floats(width=32)})},
        ).map(lambda each: orjson.loads(orjson.dumps(each))),
        min_size=1,
    )
)
def test_both_decoding_paths_return_the_same_rows(sources: list[dict[str, Any]]) -> None:
    body = page(*sources)
    assert rows(at_once(ALL_TYPES, body)) == rows(ALL_TYPES._one_by_one(body))
