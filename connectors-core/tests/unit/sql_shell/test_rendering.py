# SPDX-License-Identifier: Apache-2.0
"""Tests results and errors as text."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors_core.cli.sql.rendering import csv_line, error_lines, table_lines
from connectors_core.errors import ConfigurationError
from connectors_core.table import SqlError
from connectors_core.table.sql import parse_script


def test_a_table_aligns_numbers_to_the_right_and_wide_characters_by_their_width() -> None:
    rows = [("1", "日本"), ("100", "x"), (None, "line\nbreak\x1b[31m")]
    assert list(table_lines(["id", "name"], rows, {0})) == [
        "  id | name",
        "-----+--------------------",
        "   1 | 日本",
        " 100 | x",
        "NULL | line\\nbreak\\x1b[31m",
    ]


def test_a_result_without_rows_has_a_heading() -> None:
    assert list(table_lines(["a"], [])) == ["a", "-"]


@given(st.lists(st.text(alphabet='a,"\n\r ', max_size=4), min_size=2, max_size=4))
def test_csv_can_be_read_back(values: list[str]) -> None:
    (found,) = csv.reader(io.StringIO(f"{csv_line(values)}\n", newline=""), strict=True)
    assert found == values


def lines_of(text: str, name: str | None = None) -> list[str]:
    with pytest.raises(SqlError) as caught:
        parse_script(text)
    return list(error_lines(caught.value, text, name=name))


def test_an_error_in_one_line_has_a_caret_below_its_place() -> None:
    first, *_, line, caret = lines_of("USE a b")
    assert first == "[SQL] the statement has a part that is not known"
    assert (line, caret) == ("USE a b", "      ^")


def test_an_error_in_a_file_names_the_file_the_line_and_the_column() -> None:
    text = "SELECT 1;\n\nSELECT a\n  FROM t WHERE (a\n"
    first, *_, line, caret = lines_of(text, "x.sql")
    place = f"x.sql:4:{caret.index('^') - len('4 | ') + 1}: "
    assert first.startswith(f"{place}[SQL] the query is wrong")
    assert line == "4 |   FROM t WHERE (a"


def test_an_error_without_a_place_names_the_start_of_its_statement() -> None:
    error = ConfigurationError("no such table", hint="create it")
    lines = list(error_lines(error, "SELECT 1;\n  DROP TABLE t", name="x.sql", start=12))
    assert lines == ["x.sql:2:3: [CONFIGURATION] no such table", "  hint: create it"]


def test_the_line_of_an_error_has_no_secret() -> None:
    canary = "canary-77"  # pragma: allowlist secret
    text = f"CREATE TABLE t WITH ('password' = '{canary}', 'a' 'b')"
    *_, line, caret = lines_of(text)
    assert canary not in "".join(lines_of(text))
    assert line[caret.index("^") :].startswith("'b'")


def test_an_open_quote_shows_no_line() -> None:
    canary = "canary-77"  # pragma: allowlist secret
    assert canary not in "".join(lines_of(f"CREATE TABLE t WITH ('password' = '{canary}"))


def test_an_error_of_another_kind_has_no_password_of_a_url() -> None:
    (line,) = error_lines(
        ValueError("http://me:hunter2@host"),  # pragma: allowlist secret
        "x",
        name=None,
    )
    assert line == "ValueError: http://******@host"
