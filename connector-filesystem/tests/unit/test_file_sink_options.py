# SPDX-License-Identifier: Apache-2.0
"""Tests the options of the file sink."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from connector_filesystem import (
    BucketAssigner,
    Compression,
    CsvOptions,
    FileCommittable,
    FileFormat,
    FileSink,
    OutputFileConfig,
    ParquetOptions,
    RollingPolicy,
)
from connectors_core.errors import (
    ConfigurationError,
)


class TestConfiguration:
    def test_options_create_the_same_sink(self, tmp_path: Path) -> None:
        made = FileSink.from_options(
            {
                "path": str(tmp_path),
                "format": "csv",
                "compression": "gzip",
                "partition.columns": "month, origin",
                "partition.keep-columns": "true",
                "sink.rolling-policy.file-size": "1mb",
                "sink.rolling-policy.row-count": "10",
                "sink.rolling-policy.rollover-interval": "5 min",
                "sink.file-prefix": "f",
                "sink.max-open-buckets": "7",
                "sink.buffer-size": "2mb",
                "sink.parallelism": "3",
                "sink.commit-tasks.threshold": "50",
                "csv.field-delimiter": ";",
                "csv.header": "false",
                "storage-options.auto_mkdir": "true",
            }
        )
        assert made == FileSink(
            str(tmp_path),
            format=FileFormat.CSV,
            compression=Compression.GZIP,
            bucket_assigner=BucketAssigner.columns("month", "origin", keep_columns=True),
            rolling_policy=RollingPolicy(
                max_size=1 << 20, max_rows=10, max_age=timedelta(minutes=5)
            ),
            output_file=OutputFileConfig(prefix="f"),
            csv=CsvOptions(delimiter=";", header=False),
            storage_options={"auto_mkdir": "true"},
            max_open_buckets=7,
            buffer_size=2 << 20,
            parallelism=3,
            commit_tasks_threshold=50,
        )
        assert made.writer_parallelism() == 3
        assert made.commit_tasks().threshold == 50
        assert FileSink.from_options({"path": str(tmp_path)}) == FileSink(str(tmp_path))

    @pytest.mark.parametrize(
        ("make", "option"),
        [
            (lambda: FileSink(""), "path"),
            (lambda: FileSink("/data/*"), "path"),
            (lambda: FileSink("/data", format="orc"), "format"),  # type: ignore[arg-type]
            (lambda: FileSink("/data", compression=Compression.GZIP), "compression"),
            (lambda: FileSink("/data", max_open_buckets=0), "sink.max-open-buckets"),
            (lambda: FileSink("/data", buffer_size=0), "sink.buffer-size"),
            (lambda: OutputFileConfig(prefix="_x"), "sink.file-prefix"),
            (lambda: OutputFileConfig(prefix="../x"), "sink.file-prefix"),
            (lambda: OutputFileConfig(suffix="/x"), "sink.file-suffix"),
            (
                lambda: FileSink("/data", output_file=OutputFileConfig(suffix=".csv")),
                "sink.file-suffix",
            ),
            (lambda: RollingPolicy(max_rows=0), "sink.rolling-policy.row-count"),
            (
                lambda: FileSink(
                    "/data", format=FileFormat.CSV, csv=CsvOptions(null_values=(",",))
                ),
                "csv.null-literal",
            ),
            (
                lambda: FileSink("/data", parquet=ParquetOptions(compression="lzo")),
                "parquet.compression",
            ),
            (
                lambda: FileSink.from_options({"path": "/d", "partition.date-column": "ts"}),
                "partition.date-pattern",
            ),
            (
                lambda: FileSink.from_options(
                    {
                        "path": "/d",
                        "partition.columns": "a",
                        "partition.date-column": "ts",
                        "partition.date-pattern": "%Y",
                    }
                ),
                "partition.columns",
            ),
            (lambda: FileSink.from_options({"path": "/d", "partitionBy": "a"}), "partitionBy"),
        ],
    )
    def test_conflicting_settings_are_rejected(
        self, make: Callable[[], object], option: str
    ) -> None:
        with pytest.raises(ConfigurationError) as caught:
            make()
        assert caught.value.option == option

    @pytest.mark.parametrize(
        ("file_format", "kind"),
        [
            (FileFormat.CSV, pa.list_(pa.int64())),
            (FileFormat.JSON, pa.duration("s")),
            (FileFormat.PARQUET, pa.month_day_nano_interval()),
        ],
    )
    def test_types_that_the_format_lacks_are_rejected(
        self, file_format: FileFormat, kind: pa.DataType
    ) -> None:
        sink = FileSink("/data", format=file_format)
        with pytest.raises(ConfigurationError, match="'wrong'") as caught:
            sink.validate(pa.schema([("right", pa.int64()), ("wrong", kind)]))
        assert caught.value.option == "format"

    def test_duplicate_column_names_are_rejected(self) -> None:
        with pytest.raises(ConfigurationError, match="same name"):
            FileSink("/data").validate(pa.schema([("a", pa.int64()), ("a", pa.int64())]))

    def test_secrets_are_not_shown(self) -> None:
        sink = FileSink("s3://me:hunter2@bucket/x", storage_options={"secret": "hunter2"})
        assert "hunter2" not in repr(sink)

    def test_stored_committables_of_layout_1_are_read(self, tmp_path: Path) -> None:
        serializer = FileSink(str(tmp_path)).committable_serializer()
        assert serializer.version == 1
        assert serializer.deserialize(
            1, b'{"final_path":"a/f.csv","rows":2,"size":3,"staged_path":"_staging/x/0"}'
        ) == FileCommittable(staged_path="_staging/x/0", final_path="a/f.csv", rows=2, size=3)
