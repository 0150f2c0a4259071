# SPDX-License-Identifier: Apache-2.0
"""Tests that a query reads only the columns, row groups, and folders that it needs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_files import chunks_of, rows_of, splits_of, table_of

from connector_filesystem import FileSource
from connector_filesystem.source.reader import read_split
from connectors_core.errors import FatalError, InvalidOptionError
from connectors_core.source import And, Comparison, IsIn, IsNull, Not, Or, StartsWith

START = datetime(2020, 1, 1, tzinfo=UTC)
ROWS = [
    {
        "n": at if at % 10 else None,
        "s": f"s{at:03}",
        "d": date(2020, 1, 1) + timedelta(days=at),
        "t": START + timedelta(hours=at),
        "money": Decimal(at) / 4,
        "nested": {"x": at, "y": {"z": f"z{at}", "w": at * 2}} if at % 7 else None,
    }
    for at in range(100)
]
SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us", tz="UTC")),
        ("money", pa.decimal128(10, 2)),
        (
            "nested",
            pa.struct(
                [
                    ("x", pa.int64()),
                    ("y", pa.struct([("z", pa.string()), ("w", pa.int64())])),
                ]
            ),
        ),
    ]
)
FLAT = pa.schema([each for each in SCHEMA if each.name != "nested"])
paths = st.sampled_from(
    [
        ("n",),
        ("s",),
        ("d",),
        ("t",),
        ("money",),
        ("nested",),
        ("nested", "x"),
        ("nested", "y", "z"),
        ("nested", "y"),
    ]
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    table = pa.Table.from_pylist(ROWS, schema=SCHEMA)
    pq.write_table(table, folder / "rows.parquet", row_group_size=10)
    lines = (json.dumps(row, default=str) for row in table.to_pylist())
    (folder / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    pyarrow.csv.write_csv(table.select(FLAT.names), folder / "rows.csv")
    return folder


def source_of(files, suffix):
    schema = FLAT if suffix == "csv" else SCHEMA
    return FileSource(files / f"rows.{suffix}", schema=schema, batch_rows=17)


def split_of(source):
    (split,) = splits_of(source)
    return split


def outermost(chosen):
    kept = [p for p in chosen if not any(p[:end] in chosen for end in range(1, len(p)))]
    return sorted(kept, key=lambda path: (SCHEMA.names.index(path[0]), path))


def only(value, chosen):
    """Return a value with nulls in place of the fields that are not chosen."""
    if () in chosen or value is None:
        return value
    return {
        name: only(inner, [path[1:] for path in chosen if path[0] == name])
        if any(path[0] == name for path in chosen)
        else None
        for name, inner in value.items()
    }


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
@given(st.sets(paths, min_size=1))
def test_a_projection_returns_the_same_rows_with_fewer_columns(files, suffix, chosen):
    fields = outermost({path for path in chosen if suffix != "csv" or path[0] in FLAT.names})
    if not fields:
        return
    source = source_of(files, suffix)
    projected = source.apply_projection(fields)
    names = list(dict.fromkeys(path[0] for path in fields))
    assert projected.schema().names == names
    assert all(projected.schema().field(name) == source.schema().field(name) for name in names)
    expected = [
        {name: only(row[name], [p[1:] for p in fields if p[0] == name]) for name in names}
        for row in rows_of(source)
    ]
    assert rows_of(projected) == expected


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv"])
def test_columns_of_the_path_alone_still_have_all_rows(files, suffix, tmp_path):
    folder = tmp_path / "k=v"
    folder.mkdir()
    (folder / f"rows.{suffix}").write_bytes((files / f"rows.{suffix}").read_bytes())
    schema = FLAT if suffix == "csv" else SCHEMA
    source = FileSource(
        tmp_path, schema=schema, partition_columns=["k"], metadata_columns=["file.name"]
    )
    projected = source.apply_projection([("k",), ("_file_name",)])
    assert rows_of(projected) == [{"k": "v", "_file_name": f"rows.{suffix}"}] * len(ROWS)


def test_a_value_that_the_query_does_not_use_is_not_decoded(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,oops\n")
    source = FileSource(tmp_path / "rows.csv", schema="a BIGINT, b BIGINT")
    assert rows_of(source.apply_projection([("a",)])) == [{"a": 1}, {"a": 3}]
    assert any(chunk.bad_records for chunk in chunks_of(source))


def test_columns_are_chosen_by_name(files):
    source = FileSource(files / "rows.parquet", columns=["d", "n"])
    assert source.schema().names == ["n", "d"]
    assert rows_of(source)[7] == {"n": 7, "d": date(2020, 1, 8)}
    assert FileSource.from_options(
        {"path": str(files / "rows.parquet"), "source.columns": "s"}
    ).schema().names == ["s"]
    with pytest.raises(InvalidOptionError, match="'m'") as refused:
        FileSource(files / "rows.parquet", columns=["m", "n"]).schema()
    assert refused.value.option == "source.columns"


def test_a_missing_column_is_noticed_even_if_the_query_does_not_use_it(files):
    declared = SCHEMA.append(pa.field("gone", pa.int64()))
    source = FileSource(files / "rows.parquet", schema=declared)
    with pytest.raises(FatalError, match="gone"):
        rows_of(source.apply_projection([("n",)]))


values = {
    "n": st.integers(-5, 105),
    "s": st.integers(-5, 105).map(lambda at: f"s{at:03}"),
    "d": st.integers(-5, 105).map(lambda at: date(2020, 1, 1) + timedelta(days=at)),
    "t": st.integers(-5, 105).map(lambda at: START + timedelta(hours=at)),
    "money": st.integers(-5, 105).map(lambda at: Decimal(at)),
}
leaves = st.sampled_from([*values]).flatmap(
    lambda name: st.one_of(
        st.builds(
            Comparison,
            st.just((name,)),
            st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
            values[name],
        ),
        st.builds(IsIn, st.just((name,)), st.lists(values[name], min_size=1).map(tuple)),
        st.builds(IsNull, st.just((name,))),
        st.builds(lambda path: Not(IsNull(path)), st.just((name,))),
    )
)
conditions = st.one_of(
    leaves,
    st.builds(And, st.lists(leaves, min_size=1, max_size=2).map(tuple)),
    st.builds(Or, st.lists(leaves, min_size=1, max_size=2).map(tuple)),
    st.builds(StartsWith, st.just(("s",)), st.sampled_from(["s", "s0", "s05", "x"])),
)


@given(st.lists(conditions, min_size=1, max_size=2), st.integers(0, 100))
def test_row_groups_that_a_condition_excludes_are_passed_over(files, filters, start):
    source, used = source_of(files, "parquet").apply_filters(filters)
    assert list(used) == filters
    split = split_of(source)
    if start:
        chunks = list(read_split(source.read_settings(), split))
        chunk = chunks[min(start % len(chunks), len(chunks) - 1)]
        split = _behind(split, chunk)
    rows, at, passed = [], split.offset * 10 + split.rows, 0
    first = at
    for chunk in read_split(source.read_settings(), split):
        if chunk.batch is not None:
            rows += chunk.batch.to_pylist()
            at += chunk.batch.num_rows
        at += chunk.passed_over
        passed += chunk.passed_over
        assert chunk.position.offset * 10 + chunk.position.rows == at
    assert at == 100
    assert len(rows) + passed == 100 - first

    def matches(row):
        batch = pa.RecordBatch.from_pylist([row], schema=SCHEMA)
        return all(each.mask(batch).to_pylist() == [True] for each in filters)

    every = rows_of(source_of(files, "parquet"))[first:]
    assert [row for row in rows if matches(row)] == [row for row in every if matches(row)]


def _behind(split, chunk):
    return replace(
        split, offset=chunk.position.offset, rows=chunk.position.rows, remaining=chunk.remaining
    )


def test_a_narrow_condition_reads_one_row_group_of_ten(files):
    source, _ = source_of(files, "parquet").apply_filters(
        [Comparison(("t",), ">=", START + timedelta(hours=95))]
    )
    assert table_of(source).num_rows == 10


def test_folders_are_known_before_a_file_is_read(tmp_path):
    folder = tmp_path / "year=2020" / "k=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    (folder / "rows.csv").write_text("a\n1\n")
    source = FileSource(
        tmp_path,
        schema="a BIGINT",
        partition_columns={"year": pa.int32(), "k": pa.string()},
        metadata_columns=["file.size"],
    )
    assert source.partition_of(split_of(source)) == {"year": 2020, "k": None, "_file_size": 4}
    condition = Comparison(("year",), "=", 2020)
    assert list(source.apply_filters([condition])[1]) == [condition]
