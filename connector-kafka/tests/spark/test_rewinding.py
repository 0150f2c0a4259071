# SPDX-License-Identifier: Apache-2.0
"""Tests rewinding a pipeline to offsets or to a point in time on a real broker."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from numbered_records import NumberedRecords
from typer.testing import CliRunner

from connector_kafka import (
    KafkaSource,
)
from connector_kafka.testing import KafkaBroker
from connectors_core.cli import app


@pytest.mark.line("3.5")  # this test does not use Spark
def test_a_pipeline_can_be_rewound_to_offsets_and_to_a_point_in_time(
    broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    records = NumberedRecords(broker, topic, tmp_path)
    source = KafkaSource(
        broker.bootstrap_servers,
        topics=topic,
        poll_interval=timedelta(milliseconds=20),
    )

    def run() -> Counter[int]:
        with records.pipeline(source) as pipeline:
            assert pipeline.run(available_now=True, drain=False)
        return Counter(records.read())

    def rewind(position: str) -> None:
        location = str(tmp_path / "checkpoint")
        command = ["state", "rewind", location, "--to-start", "--at", f"topic={position}", "--yes"]
        result = CliRunner().invoke(app, command)
        assert result.exit_code == 0, result.output
        assert f"topic starts at {position}. " in result.output

    records.write(60)
    between = time.time_ns() // 1_000_000 + 1
    while time.time_ns() // 1_000_000 < between:
        pass
    records.write(40)
    expected = Counter(range(100))
    assert run() == expected
    rewind(f"{topic}:0=90")
    expected += Counter(range(90, 100))
    assert run() == expected
    rewind(f"timestamp:{between}")
    expected += Counter(range(60, 100))
    assert run() == expected
    rewind("latest-offset")
    assert run() == expected
