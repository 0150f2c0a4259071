# SPDX-License-Identifier: Apache-2.0
"""Tests the watermark of a folder that receives files faster than they are read."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from connector_filesystem import FileSource
from connectors_core.source import ReadLimits, WatermarkStrategy
from connectors_core.testing import DirectorySink, InProcess

DEADLINE = 60.0
START = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp())
AHEAD = 3
READ = 12


def write(folder, number):
    """Write the file of a numbered minute atomically."""
    hidden = folder / f".{number:04d}"
    hidden.write_text(f"x\n{START + 60 * number}\n")
    hidden.rename(folder / f"{number:04d}.csv")


def test_the_watermark_follows_the_files_read_even_if_some_files_always_wait(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(timedelta(minutes=1))
    pipeline = InProcess().pipeline("p", tmp_path / "checkpoint", parallelism=1)
    rows = pipeline.from_source(
        FileSource(folder, schema="x BIGINT", monitor_interval=timedelta(milliseconds=5)),
        uid="files",
        watermark_strategy=strategy.with_timestamp_assigner("x", epoch_unit="s"),
        limits=ReadLimits(splits=1),
    )
    pipeline.sink_to(rows, DirectorySink(tmp_path / "out"), uid="out")
    deadline = time.monotonic() + DEADLINE
    written = read = 0
    with pipeline:
        pipeline.start()
        while read < READ:
            assert time.monotonic() < deadline, "the files are not read"
            while written < read + AHEAD:
                write(folder, written)
                written += 1
            pipeline.await_termination(0.005)
            (source,) = pipeline.status().sources
            read = source.splits_finished
    assert written > read
    assert source.watermark is not None
    assert source.watermark >= (START + 60 * (READ - 2 * AHEAD)) * 1_000_000
