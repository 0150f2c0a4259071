# SPDX-License-Identifier: Apache-2.0
"""Tests how mappings become columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from connector_elasticsearch.documents.mapping import (
    MOMENT,
    fields_of,
    kind_of,
    properties_of,
    pruned,
    with_own_format,
)
from connectors_core.errors import ConfigurationError

pytestmark = pytest.mark.cell


def mapping(**properties: Any) -> dict[str, Any]:
    return {
        "properties": {
            name: {"type": each} if isinstance(each, str) else each
            for name, each in properties.items()
        }
    }


FLIGHTS = mapping(
    carrier={"type": "keyword", "fields": {"text": {"type": "text"}}},
    number="integer",
    seats="unsigned_long",
    departure="date",
    day={"type": "date", "format": "dd.MM.yyyy"},
    where="geo_point",
    aircraft=mapping(maker="text", built={"type": "date", "format": "yyyy"}),
    stops={"type": "nested", **mapping(airport="keyword", at={"type": "date", "format": "HH"})},
    other_name={"type": "alias", "path": "carrier"},
    empty={"type": "object"},
)


def test_fields_become_columns_and_objects_become_structs() -> None:
    assert fields_of({"flights": FLIGHTS}) == pa.schema(
        [
            ("carrier", pa.string()),
            ("number", pa.int32()),
            ("seats", pa.decimal128(20, 0)),
            ("departure", MOMENT),
            ("day", MOMENT),
            ("where", pa.string()),
            ("aircraft", pa.struct([("maker", pa.string()), ("built", MOMENT)])),
            ("stops", pa.list_(pa.struct([("airport", pa.string()), ("at", MOMENT)]))),
        ]
    )


def test_the_column_metadata_names_a_field_type_without_an_arrow_counterpart() -> None:
    found = fields_of({"flights": FLIGHTS})
    assert found.field("where").metadata == {b"elasticsearch.type": b"geo_point"}
    assert found.field("carrier").metadata is None


def test_fields_named_as_arrays_become_lists() -> None:
    found = fields_of({"flights": FLIGHTS}, ["carrier", "aircraft.maker", "stops.airport"])
    assert found.field("carrier").type == pa.list_(pa.string())
    assert found.field("aircraft").type.field("maker").type == pa.list_(pa.string())
    assert found.field("stops").type.value_type.field("airport").type == pa.list_(pa.string())
    with pytest.raises(ConfigurationError, match=r"aircraft\.seats") as error:
        fields_of({"flights": FLIGHTS}, ["aircraft.seats"])
    assert error.value.option == "array-fields"


def test_several_indices_have_the_columns_of_all_of_them() -> None:
    found = fields_of(
        {"a": mapping(one="long", both="text"), "b": mapping(both="keyword", two="ip")}
    )
    assert found == pa.schema([("one", pa.int64()), ("both", pa.string()), ("two", pa.string())])


def test_the_error_of_conflicting_field_types_names_the_indices() -> None:
    inner = {"a": mapping(o=mapping(x="long")), "b": mapping(o=mapping(x="double"))}
    with pytest.raises(ConfigurationError, match=r"'o\.x'(.|\n)*long, as in a(.|\n)*double in b"):
        fields_of(inner)


def test_an_index_without_fields_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no fields to derive columns from"):
        fields_of({"a": {}})
    with pytest.raises(ConfigurationError, match="no index"):
        fields_of({})


def test_timestamps_that_only_the_server_can_parse_are_found() -> None:
    assert with_own_format({"flights": FLIGHTS}) == {"day", "aircraft.built", "stops.at"}


@pytest.mark.parametrize(
    ("written", "is_own"),
    [
        (None, False),
        ("strict_date_optional_time||epoch_millis", False),
        ("strict_date_optional_time_nanos||epoch_millis", False),
        ("strict_date_optional_time", False),
        ("strict_date||strict_date_time", False),
        ("epoch_millis", True),  # this format does not read four digits as a year
        ("strict_date||epoch_millis", True),
        ("epoch_millis||strict_date_optional_time", True),
        ("date_optional_time", True),  # this format reads five digits as a year
        ("epoch_second", True),
        ("dd.MM.yyyy", True),
    ],
)
def test_a_date_format_is_custom_if_the_server_reads_numbers_differently(
    written: str | None, is_own: bool
) -> None:
    field = {"type": "date"} | ({} if written is None else {"format": written})
    found = with_own_format({"flights": {"properties": {"at": field}}})
    assert found == ({"at"} if is_own else set())
    both = {"format": "strict_date_optional_time||epoch_second", "type": "date"}
    assert with_own_format({"a": mapping(moment=both)}) == {"moment"}


def test_columns_and_nested_fields_are_selected() -> None:
    whole = fields_of({"flights": FLIGHTS})
    found = pruned(whole, ["stops.airport", "aircraft.maker", "number"])
    assert found == pa.schema(
        [
            ("number", pa.int32()),
            ("aircraft", pa.struct([("maker", pa.string())])),
            ("stops", pa.list_(pa.struct([("airport", pa.string())]))),
        ]
    )
    with pytest.raises(ConfigurationError, match=r"aircraft\.seats") as error:
        pruned(whole, ["number", "aircraft.seats"])
    assert error.value.option == "fields"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("number", "integer"),
        ("aircraft.maker", "text"),
        ("carrier.text", "text"),
        ("aircraft", "object"),
        ("aircraft.seats", None),
        ("number.x", None),
    ],
)
def test_the_type_of_a_field_is_looked_up_by_its_path(path: str, kind: str | None) -> None:
    assert kind_of(FLIGHTS, path) == kind


def test_columns_become_fields_that_become_the_same_columns() -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("small", pa.int8()),
            ("ok", pa.bool_()),
            ("data", pa.binary()),
            ("at", MOMENT),
            ("aircraft", pa.struct([("maker", pa.string()), ("seats", pa.int16())])),
            ("stops", pa.list_(pa.struct([("gate", pa.int32()), ("cost", pa.float64())]))),
            ("tags", pa.list_(pa.string())),
        ]
    )
    found = {"properties": properties_of(schema)}
    assert found["properties"]["stops"] == {
        "type": "nested",
        "properties": {"gate": {"type": "integer"}, "cost": {"type": "double"}},
    }
    assert fields_of({"made": found}, array_fields=["tags"]).remove_metadata() == schema


def test_columns_without_an_exact_type_have_a_wider_one() -> None:
    schema = pa.schema(
        [
            ("day", pa.date32()),
            ("local", pa.timestamp("us")),
            ("price", pa.decimal128(20, 2)),
            ("any", pa.map_(pa.string(), pa.int64())),
        ]
    )
    kinds = {name: each["type"] for name, each in properties_of(schema).items()}
    assert kinds == {"day": "date", "local": "date", "price": "double", "any": "object"}
    with pytest.raises(ConfigurationError, match="the column 'span' cannot be a field"):
        properties_of([pa.field("span", pa.duration("us"))])


def test_a_path_keeps_a_nested_field_and_a_column_with_a_dot_in_its_name() -> None:
    whole = pa.schema(
        [("a", pa.struct([("b", pa.int64()), ("c", pa.int64())])), ("a.b", pa.int64())]
    )
    found = pa.schema([("a", pa.struct([("b", pa.int64())])), ("a.b", pa.int64())])
    assert pruned(whole, ["a.b"]) == found
