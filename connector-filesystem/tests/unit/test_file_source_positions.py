# SPDX-License-Identifier: Apache-2.0
"""Tests that each record is read exactly once and in order, wherever a file is split."""

from __future__ import annotations

import csv
import io
import itertools
import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from connector_filesystem import CsvOptions, FileSource
from connector_filesystem.source.reader import read_split
from connector_filesystem.source.text import _last_record_end, lines_of

SCHEMA = pa.schema([("a", pa.string()), ("b", pa.string())])

texts = st.text(st.sampled_from(["a", "b", " ", "é", "✓", "𝄞", ",", "'", "1", ";"]), max_size=6)
quoted_texts = st.text(st.sampled_from(["a", "é", ",", '"', "\n", "x"]), max_size=6)
breaks = st.sampled_from(["\n", "\r\n"])
# How a text ends, and how it is divided.
LAYOUTS = {
    "last_break": st.booleans(),
    "split_size": st.integers(3, 60),
    "block_size": st.integers(1, 40),
}


def read(path, *, split_size, block_size, batch_rows=3, **options):
    source = FileSource(
        path,
        schema=SCHEMA,
        split_size=split_size,
        block_size=block_size,
        batch_rows=batch_rows,
        **options,
    )
    how = source.read_settings()
    rows = []
    for file in source._selection.files(may_be_missing=False):
        splits = source._selection.splits_of(file)
        assert splits[0].start == 0
        assert splits[-1].end == file.size
        assert all(x.end == y.start for x, y in itertools.pairwise(splits))
        for split in splits:
            for chunk in read_split(how, split):
                assert not chunk.bad_records, chunk.bad_records
                rows += [tuple(row.values()) for row in chunk.batch.to_pylist()]
    return rows


def read_text(name, content, **options):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content.encode())
        return read(path, **options)


def csv_line(row, quote=False):
    out = io.StringIO()
    csv.writer(
        out, lineterminator="", quoting=csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL
    ).writerow(row)
    return out.getvalue()


@settings(max_examples=80, deadline=None)
@given(
    rows=st.lists(st.tuples(texts.filter(bool), texts.filter(bool)), max_size=12),
    ends=st.lists(breaks, min_size=1, max_size=3),
    blank=st.sets(st.integers(0, 12)),
    header=st.booleans(),
    **LAYOUTS,
)
def test_csv(rows, ends, blank, header, last_break, split_size, block_size):
    lines = [csv_line(("a", "b"))] if header else []
    lines += [csv_line(row) for row in rows]
    content = ""
    for at, line in enumerate(lines):
        if at in blank:
            content += ends[at % len(ends)]
        content += line
        if at < len(lines) - 1 or last_break:
            content += ends[at % len(ends)]
    options = CsvOptions(header=header)
    found = read_text("a.csv", content, split_size=split_size, block_size=block_size, csv=options)
    assert found == rows


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(quoted_texts, quoted_texts), max_size=12),
    **LAYOUTS,
)
def test_csv_with_line_breaks_in_values(rows, last_break, split_size, block_size):
    content = "\n".join(csv_line(row, quote=True) for row in [("a", "b"), *rows])
    content += "\n" if last_break else ""
    options = CsvOptions(newlines_in_values=True)
    found = read_text("a.csv", content, split_size=split_size, block_size=block_size, csv=options)
    assert found == rows


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.none() | st.text(max_size=6), st.none() | texts), max_size=12),
    end=breaks,
    blank=st.sets(st.integers(0, 12)),
    ascii=st.booleans(),
    **LAYOUTS,
)
def test_json_lines(rows, end, blank, ascii, last_break, split_size, block_size):
    rows = [
        tuple(None if value is None else value.replace("\x00", "") for value in row) for row in rows
    ]
    content = ""
    for at, (a, b) in enumerate(rows):
        content += end if at in blank else ""
        content += json.dumps({"b": b, "a": a}, ensure_ascii=ascii)
        content += end if at < len(rows) - 1 or last_break else ""
    assert read_text("a.jsonl", content, split_size=split_size, block_size=block_size) == rows


@settings(max_examples=30, deadline=None)
@given(
    rows=st.lists(st.tuples(texts, texts), max_size=40),
    group=st.integers(1, 15),
    split_size=st.integers(20, 3000),
    batch_rows=st.integers(1, 50),
)
def test_parquet(rows, group, split_size, batch_rows):
    data = pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]}, schema=SCHEMA)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        pq.write_table(data, path, row_group_size=group)
        found = read(path, split_size=split_size, block_size=1, batch_rows=batch_rows)
        assert found == rows


@given(data=st.text(st.sampled_from('a"\n,'), max_size=40).map(str.encode))
def test_records_are_split_only_outside_quotes(data):
    assert b"".join(lines_of(data, b'"')) == data
    cut = _last_record_end(data, b'"')
    assert data.count(b'"', 0, cut) % 2 == 0
    assert cut == 0 or data[cut - 1 : cut] == b"\n"
    closed = [
        at + 1
        for at in range(len(data))
        if data[at : at + 1] == b"\n" and data.count(b'"', 0, at) % 2 == 0
    ]
    assert cut == max(closed, default=0)
