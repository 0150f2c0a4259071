# SPDX-License-Identifier: Apache-2.0
"""Tests that the differences of two schemas are named, at any depth."""

from __future__ import annotations

from connectors_core.schema import FieldChange, parse_schema, schema_changes


def changes(before: str, after: str) -> list[str]:
    return [str(each) for each in schema_changes(parse_schema(before), parse_schema(after))]


def test_added_removed_and_changed_fields_are_found() -> None:
    assert changes("a INT, b STRING, c DATE", "c DATE NOT NULL, d DOUBLE, a BIGINT") == [
        "a changes from int to bigint",
        "b is removed: string",
        "d is added: double",
    ]


def test_fields_in_structs_and_lists_have_a_path() -> None:
    before = (
        "u STRUCT<n STRING, at DATE>, l ARRAY<STRUCT<x INT>>, m MAP<STRING, INT>, s STRUCT<a INT>"
    )
    after = "u STRUCT<n INT>, l ARRAY<STRUCT<x INT, y INT>>, m MAP<STRING, STRING>, s STRING"
    assert schema_changes(parse_schema(before), parse_schema(after)) == (
        FieldChange("u.n", "string", "int"),
        FieldChange("u.at", "date", None),
        FieldChange("l[].y", None, "int"),
        FieldChange("m", "map<string,int>", "map<string,string>"),
        FieldChange("s", "struct<a:int>", "string"),
    )


def test_equal_schemas_have_no_differences() -> None:
    assert changes("a STRUCT<b INT, c INT>", "a STRUCT<c INT, b INT NOT NULL>") == []
