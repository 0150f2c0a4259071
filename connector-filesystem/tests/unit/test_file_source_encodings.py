# SPDX-License-Identifier: Apache-2.0
"""Tests line ends and text encodings, which are read correctly or rejected by name."""

from __future__ import annotations

import gzip

import polars
import pytest
from reading_files import Context, poll_all, rows_of

from connector_filesystem import CsvOptions, FileSource
from connectors_core.errors import FatalError
from connectors_core.records import RecordPolicy

SCHEMA = "id BIGINT, name STRING"
ROWS = [{"id": number, "name": f"name {number}"} for number in range(300)]
CSV = "id,name\n" + "".join(f"{row['id']},{row['name']}\n" for row in ROWS)
JSON = "".join(polars.DataFrame([row]).write_ndjson() for row in ROWS)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.csv.gz"])
@pytest.mark.parametrize("schema", [None, SCHEMA], ids=["inferred", "declared"])
def test_line_ends_of_every_system_are_read(tmp_path, name, end, schema):
    content = (CSV if ".csv" in name else JSON).replace("\n", end).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    source = FileSource(tmp_path, schema=schema, split_size=777, block_size=100, batch_rows=50)
    assert rows_of(source) == ROWS
    (tmp_path / name).write_bytes(gzip.compress(content[:-1]) if "gz" in name else content[:-1])
    rows, rest = poll_all(FileSource(tmp_path, schema=schema, block_size=64), Context())
    assert (rows, rest) == (ROWS, [])


def test_a_bad_line_that_ends_in_cr_affects_no_other_line(tmp_path):
    lines = CSV.replace("\n7,", "\nseven,").replace("\n", "\r")
    (tmp_path / "a.csv").write_bytes(lines.encode())
    context = Context(RecordPolicy.skip())
    rows, _ = poll_all(FileSource(tmp_path, schema=SCHEMA), context)
    assert rows == ROWS[:7] + ROWS[8:]


def test_lf_also_ends_lines_after_lines_that_end_in_cr(tmp_path):
    head = CSV.replace("\n", "\r") * 20
    (tmp_path / "a.csv").write_bytes(
        (head + "1,late\n2,later\r\n3,last").replace("id,name\r", "").encode()
    )
    source = FileSource(tmp_path, schema=SCHEMA, csv=CsvOptions(header=False), block_size=1000)
    assert len(head) > 64 << 10
    assert rows_of(source) == ROWS * 20 + [
        {"id": 1, "name": "late"},
        {"id": 2, "name": "later"},
        {"id": 3, "name": "last"},
    ]


def test_cr_line_ends_are_rejected_if_values_can_contain_line_breaks(tmp_path):
    (tmp_path / "a.csv").write_bytes(b'id,name\r1,"a\rb"\r')
    source = FileSource(tmp_path, schema=SCHEMA, csv=CsvOptions(newlines_in_values=True))
    with pytest.raises(FatalError, match="end in CR") as caught:
        rows_of(source)
    assert caught.value.option == "csv.newlines-in-values"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.csv.gz"])
def test_an_error_names_an_unsupported_encoding(tmp_path, name, encoding):
    content = (CSV if ".csv" in name else JSON).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    for source in (FileSource(tmp_path), FileSource(tmp_path, schema=SCHEMA)):
        with pytest.raises(FatalError, match=f"found: {encoding[:6].upper()}") as caught:
            rows_of(source)
        assert caught.value.code == "FILE_ENCODING"
        assert "iconv" in str(caught.value)


def test_a_zero_byte_in_a_value_does_not_indicate_another_encoding(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"id,name\n1,a\0b\n")
    assert rows_of(FileSource(tmp_path, schema=SCHEMA)) == [{"id": 1, "name": "a\0b"}]
