# SPDX-License-Identifier: Apache-2.0
"""Tests files with two columns of one name, and gzip files with zeros at their end."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading_files import rows_of

from connector_filesystem import FileSource, SchemaChangedError
from connectors_core.errors import FatalError, InvalidOptionError


def test_columns_of_csv_with_one_name_have_their_number_as_in_spark(tmp_path):
    (tmp_path / "a.csv").write_text("id,c,c\n1,2,3\n")
    assert rows_of(FileSource(tmp_path)) == [{"id": 1, "c1": 2, "c2": 3}]
    assert rows_of(FileSource(tmp_path, schema="c2 INT", on_schema_change="ignore-new")) == [
        {"c2": 3}
    ]


def test_a_number_that_is_a_name_already_is_added_again(tmp_path):
    (tmp_path / "a.csv").write_text("c1,c,c\n1,2,3\n")
    (row,) = rows_of(FileSource(tmp_path))
    assert list(row.values()) == [1, 2, 3]


def test_a_declared_name_that_occurs_twice_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("id,c,c\n1,2,3\n")
    source = FileSource(
        tmp_path, schema="id INT, c INT", on_schema_change=["null-missing", "ignore-new"]
    )
    with pytest.raises(SchemaChangedError, match="twice"):
        rows_of(source)


def test_the_other_columns_of_parquet_are_read_as_the_hint_says(tmp_path):
    table = pa.Table.from_arrays([pa.array([1])] * 3, names=["id", "c", "c"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(InvalidOptionError, match="ignore-new"):
        FileSource(tmp_path).schema()
    source = FileSource(tmp_path, schema="id BIGINT", on_schema_change="ignore-new")
    assert rows_of(source) == [{"id": 1}]


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("rows", [1, 100_000])
def test_zeros_after_a_member_of_gzip_are_padding(tmp_path, members, rows):
    lines = "".join(f"{row}\n" for row in range(rows)).encode()
    member = gzip.compress(lines) + b"\0" * 512
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id\n") + member * members)
    found = [row["id"] for row in rows_of(FileSource(tmp_path, schema="id BIGINT"))]
    assert found == [*range(rows)] * members


def test_other_bytes_after_a_member_are_damage(tmp_path):
    content = gzip.compress(b"id\n1\n") + b"\0" * 512 + b"garbage"
    (tmp_path / "a.csv.gz").write_bytes(content)
    with pytest.raises(FatalError, match="damaged"):
        rows_of(FileSource(tmp_path, schema="id BIGINT"))
