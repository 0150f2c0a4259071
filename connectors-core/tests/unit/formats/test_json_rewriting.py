# SPDX-License-Identifier: Apache-2.0
"""Tests maps, non-text values in text columns, and invalid JSON."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors_core.errors import ConfigurationError
from connectors_core.formats import JsonFormat

SCHEMA = pa.schema(
    [
        ("text", pa.string()),
        ("texts", pa.list_(pa.string())),
        ("inner", pa.struct([("text", pa.string()), ("id", pa.int64())])),
        ("map", pa.map_(pa.string(), pa.string())),
        (
            "deep",
            pa.map_(pa.string(), pa.list_(pa.struct([("map", pa.map_(pa.string(), pa.int64()))]))),
        ),
        ("", pa.string()),
    ]
)
TEXTS_ALONE = pa.schema([field for field in SCHEMA if field.name in ("text", "texts", "inner", "")])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4) | st.text(
    'ab"\\{}[]:,\n\t ', max_size=4
)
NUMBERS = st.sampled_from(
    [
        "0",
        "-0",
        "1.50",
        "1e3",
        "-1E-7",
        "18446744073709551616",
        "0.1000000000000000055511151231257827",
    ]
)
SPACE = st.sampled_from(["", " ", "\n", "\t\r\n "])


@st.composite
def spelled(draw: Any, depth: int = 0) -> str:
    """Any JSON value, with arbitrary whitespace between its tokens."""
    kind = draw(
        st.sampled_from(["text", "number", "word", *(["object", "array"] if depth < 2 else [])])
    )
    if kind == "text":
        return json.dumps(draw(TEXTS), ensure_ascii=draw(st.booleans()))
    if kind == "number":
        return draw(NUMBERS)
    if kind == "word":
        return draw(st.sampled_from(["true", "false", "null"]))
    parts = draw(st.lists(spelled(depth + 1), max_size=2))
    if kind == "object":
        parts = [f"{json.dumps(draw(TEXTS))}{draw(SPACE)}:{draw(SPACE)}{part}" for part in parts]
    inside = ",".join(f"{draw(SPACE)}{part}{draw(SPACE)}" for part in parts) or draw(SPACE)
    return f"{{{inside}}}" if kind == "object" else f"[{inside}]"


def text_of(value: str) -> str | None:
    """Return the content of a text column for a value: the string, null, or the value's JSON."""
    if value == "null":
        return None
    return json.loads(value) if value.startswith('"') else value


def decoded(*documents: str | bytes, schema: pa.Schema = SCHEMA) -> Any:
    messages = [each.encode() if isinstance(each, str) else each for each in documents]
    return JsonFormat().decode(pa.array(messages, pa.binary()), schema)


CASES = st.lists(
    st.tuples(spelled(), spelled(), TEXTS.filter(lambda key: key != "~"), SPACE, SPACE),
    min_size=1,
    max_size=3,
)


@settings(max_examples=100, deadline=None)
@given(CASES, st.booleans())
def test_a_text_column_holds_the_json_of_any_value_as_it_was_written(
    cases: list[Any], maps: bool
) -> None:
    documents, rows = [], []
    for first, second, key, space, more in cases:
        members = [
            f'"text"{more}:{space}{first}{more}',
            f'"texts":[{first},{space}{second}]',
            f'"other":{second}',
            f'"inner":{{"id":{more}1,"text":{second}}}',
            f'"":{second}',
        ]
        row = {
            "text": text_of(first),
            "texts": [text_of(first), text_of(second)],
            "inner": {"text": text_of(second), "id": 1},
            "": text_of(second),
        }
        if maps:
            members.append(
                f'"map":{{{space}{json.dumps(key)}:{more}{first}{space},"~":{space}{second}}}'
            )
            row["map"] = [(key, text_of(first)), ("~", text_of(second))]
        documents.append(f"{space}{{{space}{','.join(members)}}}{more}")
        rows.append(row)
    schema = pa.schema([*TEXTS_ALONE, SCHEMA.field("map")]) if maps else TEXTS_ALONE
    found = decoded(*documents, schema=schema)
    assert found.bad == ()
    assert found.rows.to_pylist() == rows


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.lists(
            st.sampled_from(
                [
                    "{",
                    "}",
                    "[",
                    "]",
                    ":",
                    ",",
                    '"',
                    '"map"',
                    '"text"',
                    '"a"',
                    "1",
                    "null",
                    " ",
                    "\n",
                    "\\",
                    '{"map":{"a":1}}',
                    '{"text":{}}',
                ]
            ),
            max_size=7,
        ).map("".join),
        max_size=4,
    )
)
@example(['{"map":{"a":{}', "}}"])
@example(['{"text":[{}', "{}]}"])
@example(['{"text":{"a":"}', '{"}}'])
@example(['{"map":{"a":1}', '{"b":2}}'])
def test_messages_do_not_affect_each_other_and_invalid_json_stays_invalid(
    pieces: list[str],
) -> None:
    documents = [json.dumps({"text": "first"}), *("{" + each + "}" for each in pieces)]
    together = decoded(*documents)
    alone = [decoded(each) for each in documents]
    assert together.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert [each.at for each in together.bad] == [at for at, one in enumerate(alone) if one.bad]
    for document, one in zip(documents, alone, strict=True):
        if not one.bad:
            json.loads(document)


@pytest.mark.parametrize(
    "value",
    [
        '{"a"}',
        '{"a":}',
        '{"a":1,}',
        "{,}",
        "{:1}",
        "{1:2}",
        "{null:1}",
        '{"a":1:2}',
        '{"a":1]',
        '["a",1]',
        "[]",
        '[{"key":"a","value":1}]',
        '"a"',
        "1",
        '{"a":1,"b"}',
        '{"a" "b":1}',
        '{"a":1 2}',
        '{"a":[}]}',
        '{"a":{}{}}',
    ],
)
def test_only_an_object_is_read_as_a_map(value: str) -> None:
    for document in (f'{{"map":{value}}}', f'{{"deep":{{"k":[{{"map":{value}}}]}}}}'):
        found = decoded('{"text":"x"}', document, '{"text":"y"}')
        assert found.rows["text"].to_pylist() == ["x", "y"]
        assert [each.at for each in found.bad] == [1]


@pytest.mark.parametrize(
    "value",
    [
        "nul",
        "+1",
        "01",
        "1.",
        "-",
        "NaN",
        "Infinity",
        "1 2",
        "{]",
        '{"a":}',
        '{"a" 1}',
        "[1,]",
        '1"a"',
        "\\u0031",
        "'a'",
        '{"a":"\n"}',
        "{}{}",
        "[" * 2000 + "]" * 2000,
    ],
)
@pytest.mark.parametrize("schema", [SCHEMA, TEXTS_ALONE], ids=["with maps", "without"])
def test_invalid_json_in_a_text_column_is_a_bad_record(value: str, schema: pa.Schema) -> None:
    for document in (f'{{"text":{value}}}', f'{{"inner":{{"text":{value}}},"":1}}'):
        found = decoded('{"text":1}', document, schema=schema)
        assert found.rows["text"].to_pylist() == ["1"]
        assert [each.at for each in found.bad] == [1]


def test_a_number_too_large_for_a_double_is_kept_as_text() -> None:
    for schema in (SCHEMA, TEXTS_ALONE):
        found = decoded('{"text":1e999}', schema=schema)
        assert (found.bad, found.rows["text"].to_pylist()) == ((), ["1e999"])


def test_keys_may_be_escaped_and_values_may_be_null() -> None:
    found = decoded('{"te\\u0078t":12,"m\\u0061p":{"\\u0061":null},"deep":null,"texts":[null,1]}')
    [row] = found.rows.to_pylist()
    assert (row["text"], row["map"], row["deep"]) == ("12", [("a", None)], None)
    assert row["texts"] == [None, "1"]


def test_maps_are_read_and_written_at_any_depth() -> None:
    value = [("k", [{"map": [("a", 1), ("b", None)]}, {"map": []}, None]), ("l", None), ("m", [])]
    batch = pa.RecordBatch.from_pylist([{"deep": value}, {}], schema=SCHEMA)
    encoded = JsonFormat().encode(batch)
    assert JsonFormat().decode(encoded.messages, SCHEMA).rows.to_pylist() == batch.to_pylist()
    typed = pa.schema([("m", pa.map_(pa.string(), pa.decimal128(5, 2)))])
    assert decoded('{"m":{"a":1.5,"b":"2.25"}}', schema=typed).rows.num_rows == 1
    [bad] = decoded('{"m":{"a":1e-999}}', schema=typed).bad
    assert "999" not in bad.reason


def test_the_reason_for_a_bad_record_contains_no_values() -> None:
    for document in (
        '{"text":s3cret}',
        '{"map":{"a":{"s3cret"}}}',
        '{"map":{"s3cret"}}',
        '{"map":"s3cret"}',
    ):
        [bad] = decoded(document).bad
        assert bad.reason
        assert "s3cret" not in bad.reason


def test_map_keys_must_be_strings() -> None:
    JsonFormat().check_readable(SCHEMA)
    with pytest.raises(ConfigurationError, match="'m' cannot be read from JSON"):
        JsonFormat().check_readable(pa.schema([("m", pa.map_(pa.int64(), pa.string()))]))


@pytest.mark.parametrize("depth", ["plain", "maps"])
def test_nan_and_infinities_are_read_both_quoted_and_unquoted(depth: str) -> None:
    schema = pa.schema(
        [
            ("text", pa.string()),
            ("number", pa.float64()),
            ("parts", pa.list_(pa.struct([("number", pa.float32())]))),
            *([("map", pa.map_(pa.string(), pa.float64()))] if depth == "maps" else []),
        ]
    )
    documents = [
        f'{{"text":"{word}","number":{each},"parts":[{{"number": {each} }}],"map":{{"k":{each}}}}}'
        for word in ("NaN", "Infinity", "-Infinity")
        for each in (f'"{word}"', word)
    ]
    found = decoded(*documents, schema=schema)
    assert found.bad == ()
    for row, document in zip(found.rows.to_pylist(), documents, strict=True):
        word = json.loads(document)["text"]
        numbers = [row["number"], row["parts"][0]["number"], *dict(row.get("map", [])).values()]
        assert row["text"] == word
        assert {str(each) for each in numbers} == {str(float(word))}


@pytest.mark.parametrize("value", ['"x"', '"nan"', '"NaN "', '"+Infinity"', '""', "true"])
def test_other_strings_are_not_numbers(value: str) -> None:
    schema = pa.schema([("number", pa.float64())])
    found = decoded('{"number":"NaN"}', f'{{"number":{value}}}', '{"number":1}', schema=schema)
    assert [each.at for each in found.bad] == [1]
    assert str(found.rows["number"].to_pylist()) == "[nan, 1.0]"
