# SPDX-License-Identifier: Apache-2.0
"""Tests nested columns with any nullability, as Spark creates them, in every format."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from reading_files import rows_of, table_of

from connector_filesystem import CsvOptions, FileSource
from connector_filesystem.formats import Compression, FileFormat, JsonOptions, ParquetOptions
from connector_filesystem.sink.part_file import EncoderConfig
from connectors_core.schema import nullable_type
from connectors_core.testing import nested_array, nested_batches

_NUMBERS = itertools.count()


def written(path, batch, format):
    config = EncoderConfig(
        format,
        Compression.NONE,
        csv=CsvOptions(),
        json=JsonOptions(),
        parquet=ParquetOptions(),
        schema=batch.schema,
    )
    with path.open("wb") as file:
        encoder = config.encoder(file)
        encoder.write(batch)
        encoder.finish()


@pytest.mark.parametrize(("format", "maps"), [(FileFormat.PARQUET, True), (FileFormat.JSON, False)])
def test_the_source_reads_the_files_of_the_sink(tmp_path, format, maps):
    @settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(nested_batches(maps=maps))
    def check(batch):
        path = tmp_path / f"{next(_NUMBERS)}{format.suffix}"
        written(path, batch, format)
        rows = table_of(FileSource(path, schema=batch.schema))
        assert rows.schema.equals(batch.schema)
        assert rows.to_pylist() == batch.to_pylist()
        path.unlink()

    check()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(batch=nested_batches())
def test_parquet_of_other_writers_is_read_with_the_schema_of_the_file(tmp_path, batch):
    plain = pa.Table.from_pylist(
        batch.to_pylist(), pa.schema([pa.field(each.name, each.type) for each in batch.schema])
    )
    path = tmp_path / f"{next(_NUMBERS)}.parquet"
    pq.write_table(plain, path)  # with required fields in the file
    assert rows_of(FileSource(path)) == batch.to_pylist()
    path.unlink()


def test_files_have_optional_nested_fields_and_keep_the_nullability_of_columns(tmp_path):
    kind = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("s", pa.list_(kind))])
    columns = [pa.array([1]), nested_array([[None, {"a": 2}]], schema.field("s").type)]
    path = tmp_path / "a.parquet"
    written(path, pa.RecordBatch.from_arrays(columns, schema=schema), FileFormat.PARQUET)
    found = pq.read_schema(path)
    assert not found.field("id").nullable
    assert found.field("s").type == nullable_type(pa.list_(kind))
