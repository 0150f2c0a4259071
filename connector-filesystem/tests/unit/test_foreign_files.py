# SPDX-License-Identifier: Apache-2.0
"""Tests that merged files of other writers have the rows and types of their originals."""

from __future__ import annotations

import gzip
import io
import json
import shutil
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import corpus
import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from staged_files import visible
from typer.testing import CliRunner

from connector_filesystem import (
    ConcatFileCompactor,
    CsvOptions,
    RecordWiseFileCompactor,
    folder_compaction,
    parquet_joining,
)
from connector_filesystem.cli import app
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.folder_compaction import FolderCompaction
from connector_filesystem.parquet_joining import ParquetFooter, read_footer
from connector_filesystem.thrift_structs import encode_struct
from connectors_core.errors import ConfigurationError, ConnectorError, MissingOptionError

HEADER = CsvOptions()
ROWS = CsvOptions(header=False)
NEWLINES = CsvOptions(newlines_in_values=True)


def compact(folder: Path, csv: CsvOptions | None = None) -> int:
    return FolderCompaction(FileLocation(str(folder)), 10_000_000, csv).run()


def write_extremes(path: Path) -> None:
    """Write INT96 beyond the range of nanoseconds, as Spark does, with a page index."""
    moments = [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999), None]
    table = pa.table({"at": pa.array(moments, pa.timestamp("us")), "id": [1, 2, 3]})
    pq.write_table(
        table, path, use_deprecated_int96_timestamps=True, write_page_index=True, row_group_size=2
    )


def write_required(path: Path) -> None:
    inner = pa.struct([pa.field("x", pa.int32(), nullable=False)])
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "7"}),
            pa.field("inner", pa.list_(inner)),
        ],
        metadata={"org.apache.spark.version": "3.5.9", "empty": ""},
    )
    table = pa.table([pa.array([1, 2]), pa.array([[{"x": 1}], None], pa.list_(inner))], schema)
    pq.write_table(table, path, data_page_version="2.0", use_dictionary=False)


WRITERS: dict[str, Callable[[Path], None]] = {
    **{name: write for name, (_, write) in corpus.WRITERS.items()},
    **{name: partial(corpus.write_with_duckdb, name=name) for name in corpus.DUCKDB_FILES},
    "extremes": write_extremes,
    "required": write_required,
}


def schema_of(path: Path) -> tuple[Any, ...]:
    file = pq.ParquetFile(path)
    columns = [file.schema.column(at) for at in range(len(file.schema))]
    return (
        str(file.schema).partition("\n")[2],  # without the address of the object
        [(each.physical_type, each.logical_type.to_json()) for each in columns],
        file.metadata.metadata,
        file.metadata.created_by,
    )


def chunks_of(path: Path) -> list[Any]:
    """Return the metadata of all column chunks, without their positions."""
    found = []
    metadata = pq.ParquetFile(path).metadata
    for at in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(at).column(number)
            found.append(
                (
                    column.path_in_schema,
                    column.num_values,
                    column.encodings,
                    column.compression,
                    column.total_compressed_size,
                    column.statistics and column.statistics.to_dict(),
                    column.geo_statistics and column.geo_statistics.to_dict(),
                    column.has_column_index,
                    column.has_offset_index,
                )
            )
    return found


def of_pyarrow(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path, coerce_int96_timestamp_unit="us").to_pylist()
    return rows


@pytest.mark.parametrize("name", WRITERS)
def test_a_parquet_file_merged_with_itself_is_read_as_before(tmp_path: Path, name: str) -> None:
    for copy in "ab":
        WRITERS[name](tmp_path / f"{copy}.parquet")
    original = tmp_path.parent / f"{tmp_path.name}.parquet"
    shutil.copy(tmp_path / "a.parquet", original)
    query = "select * from read_parquet('{}')"
    rows = [*of_pyarrow(original)] * 2
    of_duckdb = corpus.of_duckdb(query.format(original)) * 2
    assert compact(tmp_path) == 2
    [merged] = visible(tmp_path)
    assert schema_of(merged) == schema_of(original)
    assert repr(chunks_of(merged)) == repr(chunks_of(original) * 2)
    assert repr(of_pyarrow(merged)) == repr(rows)  # NaN is not equal to itself
    assert repr(corpus.of_duckdb(query.format(merged))) == repr(of_duckdb)


def test_the_page_index_of_a_merged_file_leads_to_its_pages(tmp_path: Path) -> None:
    for copy in range(3):
        table = pa.table({"id": pa.array(range(copy * 5000, (copy + 1) * 5000))})
        path = tmp_path / f"{copy}.parquet"
        pq.write_table(table, path, write_page_index=True, data_page_size=2000)
    assert compact(tmp_path) == 3
    [merged] = visible(tmp_path)
    found = duckdb.sql(f"select id from read_parquet('{merged}') where id in (4999, 12345)")
    assert sorted(found.fetchall()) == [(4999,), (12345,)]


def test_the_bloom_filters_of_a_merged_file_know_the_values_of_their_rows(tmp_path: Path) -> None:
    for copy in range(2):
        rows = f"select 'v' || (range % 100 * 2 + {copy}) as s from range(1000)"
        duckdb.sql(f"copy ({rows}) to '{tmp_path}/{copy}.parquet' (format parquet)")
    assert compact(tmp_path) == 2
    [merged] = visible(tmp_path)
    for value in range(10):
        probe = f"from parquet_bloom_probe('{merged}', 's', 'v{value}') order by row_group_id"
        excluded = duckdb.sql(f"select bloom_filter_excludes {probe}").fetchall()
        assert excluded == [(value % 2 == 1,), (value % 2 == 0,)]


def test_files_of_other_schemas_or_metadata_are_kept_apart(tmp_path: Path) -> None:
    for name, table in {
        "a": pa.table({"x": [1]}),
        "b": pa.table({"x": [2]}),
        "c": pa.table({"x": pa.array([3], pa.int32())}),
        "d": pa.table({"x": [4]}).replace_schema_metadata({"writer": "other"}),
    }.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert compact(tmp_path) == 2
    names = sorted(path.name for path in visible(tmp_path))
    assert names[0].startswith("a-compacted-")
    assert names[1:] == ["c.parquet", "d.parquet"]
    assert compact(tmp_path) == 0


def test_ranges_of_pandas_end_with_the_merged_rows(tmp_path: Path) -> None:
    for name, rows in {"a": 2, "b": 3}.items():
        pd.DataFrame({"x": range(rows)}).to_parquet(tmp_path / f"{name}.parquet")
    assert compact(tmp_path) == 2
    [merged] = visible(tmp_path)
    found = pd.read_parquet(merged)
    assert found["x"].tolist() == [0, 1, 0, 1, 2]
    assert found.index.equals(pd.RangeIndex(5))
    described = json.loads(pq.read_schema(merged).metadata[b"pandas"])
    assert described["index_columns"][0]["stop"] == 5


def test_the_bounds_of_one_geo_file_do_not_describe_the_merged_one(tmp_path: Path) -> None:
    for name, bound in {"a": 1.0, "b": 2.0}.items():
        geo = {"columns": {"g": {"bbox": [0, 0, bound, bound], "geometry_types": ["Point"]}}}
        table = pa.table({"g": [b""]}).replace_schema_metadata({"geo": json.dumps(geo)})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert compact(tmp_path) == 2
    [merged] = visible(tmp_path)
    geo = json.loads(pq.ParquetFile(merged).metadata.metadata[b"geo"])
    assert geo == {"columns": {"g": {"geometry_types": []}}}


ARRAY, OBJECT = b'[{"x": 1},\n{"x": 2}]\n', b'{"x": 1}\n'


def strange_type() -> bytes:
    """Return a file of Parquet whose column has a type that does not exist, as PARQUET-1481 is."""
    out = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), out)
    footer = read_footer(out, len(out.getvalue()))
    columns = footer.struct[2][1][1]
    columns[1][1] = (columns[1][1][0], 99)
    data = encode_struct(footer.struct)
    return out.getvalue()[: footer.body_end] + data + len(data).to_bytes(4, "little") + b"PAR1"


DAMAGED = b"PAR1" + bytes(40) + (9).to_bytes(4, "little") + b"PAR1"


@pytest.mark.parametrize(
    ("name", "content", "csv", "reason"),
    [
        ("json", ARRAY, None, "first line"),
        ("json", b'[{"x": 1}]', None, "line is not"),
        ("json", b'{\n"x": 1\n}\n', None, "first line"),
        ("json", OBJECT + b'{"x":', None, "last line"),
        ("json", b'{"x": 1}\r{"x": 2}\r', None, "CR"),
        ("json", '{"x": 1}\n'.encode("utf-16"), None, "UTF-8"),
        ("csv", b"x\r1\r2\r", HEADER, "CR"),
        ("csv", b"1\r2", ROWS, "CR"),
        ("csv", b"\n1\n", HEADER, "empty line"),
        ("csv", b'"a\nb"\n1\n', HEADER, "header"),
        ("csv", b'x\n"a\n', NEWLINES, "closing quote"),
        ("csv", "x\n1\n".encode("utf-16-le"), HEADER, "UTF-8"),
        ("parquet", b"PAR1" + bytes(20) + b"PARE", None, "encrypted"),
        ("parquet", DAMAGED, None, "damaged"),
        ("parquet", b"PAR1", None, "too short"),
        ("parquet", strange_type(), None, "footer is damaged"),
        (
            "csv.gz",
            gzip.compress(b"1\n" * 99, mtime=0)[:-12],
            ROWS,
            "compressed content is damaged",
        ),
    ],
)
def test_a_file_that_cannot_be_joined_is_named_and_stays(
    tmp_path: Path, name: str, content: bytes, csv: CsvOptions | None, reason: str
) -> None:
    for number in range(2):
        (tmp_path / f"{number}.{name}").write_bytes(content)
    (tmp_path / "2.jsonl").write_bytes(OBJECT)
    (tmp_path / "3.jsonl").write_bytes(OBJECT)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        compact(tmp_path, csv)
    assert f"1.{name}" in str(caught.value) or f"0.{name}" in str(caught.value)
    assert [(tmp_path / f"{at}.{name}").read_bytes() for at in range(2)] == [content] * 2
    [merged] = [path for path in visible(tmp_path) if path.suffix == ".jsonl"]
    assert merged.read_bytes() == OBJECT * 2  # the others are merged
    assert not (tmp_path / "_compaction").exists()


@pytest.mark.parametrize(
    ("csv", "contents", "merged"),
    [
        (ROWS, [b"0,0\n1,5\n", b"0,0\n2,7"], [b"0,0\n1,5\n0,0\n2,7"]),
        (HEADER, [b"x\n1\n", b"x\n2\n"], [b"x\n1\n2\n"]),
        (HEADER, [b"x\r\n1", b"x\r\n2\r\n"], [b"x\r\n1\r\n2\r\n"]),
        (HEADER, [b"x\n1\n", b"x\r\n2\r\n"], [b"x\n1\n", b"x\r\n2\r\n"]),
        (HEADER, [b"\xef\xbb\xbfx\n1\n", b"\xef\xbb\xbfx\n2\n"], [b"\xef\xbb\xbfx\n1\n2\n"]),
        (HEADER, [b"\xef\xbb\xbfx\n1\n", b"x\n2\n"], [b"\xef\xbb\xbfx\n1\n", b"x\n2\n"]),
        (NEWLINES, [b'"a\rb"\n1\n', b'"a\rb"\n"\r"\n'], [b'"a\rb"\n1\n"\r"\n']),
        (HEADER, [b"", b"x\n1\n"], [b"", b"x\n1\n"]),
    ],
)
def test_lines_keep_their_bytes(
    tmp_path: Path, csv: CsvOptions, contents: list[bytes], merged: list[bytes]
) -> None:
    for number, content in enumerate(contents):
        (tmp_path / f"{number}.csv").write_bytes(content)
    compact(tmp_path, csv)
    assert [path.read_bytes() for path in visible(tmp_path)] == merged


def test_all_members_of_compressed_files_are_merged(tmp_path: Path) -> None:
    for number in range(2):
        members = gzip.compress(b'{"x": 1}\n') + gzip.compress(b'{"x": 2}\n')
        (tmp_path / f"{number}.jsonl.gz").write_bytes(members)
    compact(tmp_path)
    [merged] = visible(tmp_path)
    assert gzip.decompress(merged.read_bytes()) == b'{"x": 1}\n{"x": 2}\n' * 2


def test_the_user_says_whether_csv_has_a_header(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.csv").write_bytes(b"0,0\n")
    with pytest.raises(MissingOptionError, match="--no-csv-header"):
        compact(tmp_path)
    done = CliRunner().invoke(app, ["compact", str(tmp_path), "--yes", "--no-csv-header"])
    assert done.exit_code == 0, done.output
    [merged] = visible(tmp_path)
    assert merged.read_bytes() == b"0,0\n0,0\n"


def decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_compaction, "ForeignFileCompactor", RecordWiseFileCompactor)


def joining_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_compaction, "ForeignFileCompactor", ConcatFileCompactor)


def without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_joining, "_KEY_VALUES", 100)


def with_one_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = property(lambda footer: repr([key for key, _ in parquet_joining._pairs(footer.struct)]))
    monkeypatch.setattr(ParquetFooter, "layout", keys)


def with_offsets_of_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_joining, "_moved", lambda struct, by, *offsets: struct)


def with_filters_of_the_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_joining, "_BLOOM_FILTER", 100)


@pytest.mark.parametrize(
    ("broken", "case"),
    [
        (
            decoding,
            partial(test_a_parquet_file_merged_with_itself_is_read_as_before, name="duckdb"),
        ),
        (
            decoding,
            partial(test_a_parquet_file_merged_with_itself_is_read_as_before, name="variant"),
        ),
        (
            decoding,
            partial(test_a_parquet_file_merged_with_itself_is_read_as_before, name="extremes"),
        ),
        (with_offsets_of_the_originals, test_the_page_index_of_a_merged_file_leads_to_its_pages),
        (
            with_filters_of_the_originals,
            test_the_bloom_filters_of_a_merged_file_know_the_values_of_their_rows,
        ),
        (without_metadata, test_ranges_of_pandas_end_with_the_merged_rows),
        (with_one_layout, test_files_of_other_schemas_or_metadata_are_kept_apart),
        *(
            (broken, partial(test_a_file_that_cannot_be_joined_is_named_and_stays, **refused))
            for broken in (decoding, joining_bytes)
            for refused in (
                {"name": "json", "content": ARRAY, "csv": None, "reason": "first line"},
                {"name": "csv", "content": b"1\r2", "csv": ROWS, "reason": "CR"},
            )
        ),
    ],
)
def test_these_tests_see_a_broken_compaction(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: Callable[[pytest.MonkeyPatch], None],
    case: Callable[[Path], None],
) -> None:
    broken(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, ConnectorError, pa.ArrowException)):
        case(tmp_path)
