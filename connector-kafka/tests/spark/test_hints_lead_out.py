# SPDX-License-Identifier: Apache-2.0
"""Follows the hint of each kind of error literally, and ends with a running pipeline.

The pipelines run in this process against a real broker. An error that only another broker sends
is raised once by a stand-in, and then whoever the hint names is taken to have done their part.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numbered_records import NumberedRecords
from typer.testing import CliRunner

import connector_kafka
from connector_kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from connector_kafka.client.errors import error_of_code
from connector_kafka.client.metadata import Cluster
from connector_kafka.records import batches
from connector_kafka.records.batches import BatchHeader
from connector_kafka.records.errors import MalformedError
from connector_kafka.testing import KafkaBroker
from connectors_core.cli import app
from connectors_core.errors import ConnectorError
from connectors_core.formats import JsonFormat
from connectors_core.records import RecordPolicy
from connectors_core.source import DataGeneratorSource
from connectors_core.testing import HintCases, LocalPipeline

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark
Steps = Generator[Callable[[], object], ConnectorError, None]
HINTS = HintCases(connector_kafka, reasons={})
ROWS = 10


class Life:
    """The lives of a pipeline that reads a topic."""

    def __init__(self, broker: KafkaBroker, topic: str, root: Path) -> None:
        self.broker, self.topic, self.root = broker, topic, root
        self.records = NumberedRecords(broker, topic, root)
        self.records.write(ROWS)
        self.expected = list(range(ROWS))

    def run(self, **options: Any) -> None:
        source = KafkaSource(self.broker.bootstrap_servers, topics=self.topic, **options)
        with self.records.pipeline(source) as pipeline:
            assert pipeline.run(available_now=True, drain=False, timeout=60)

    def run_once_refused(self, code: int) -> None:
        """Run while the broker answers with an error code."""

        def refused(*_: Any, **__: Any) -> Any:
            raise error_of_code(code, "reading the topics")

        with pytest.MonkeyPatch.context() as broker:
            broker.setattr(Cluster, "topics", refused)
            self.run()


def refused(code: int, hint: str) -> Callable[[Life], Steps]:
    """Return the case of an error code, whose cause someone mends outside of the pipeline."""

    def case(life: Life) -> Steps:
        error = yield lambda: life.run_once_refused(code)
        assert hint in str(error.hint)
        yield life.run

    return case


# --- Cases ----------------------------------------------------------------------------------------

HINTS.case("KafkaRetryableError")(refused(5, "restart"))  # LEADER_NOT_AVAILABLE
HINTS.case("KafkaFatalError")(refused(90, "fix the cause and restart"))  # PRODUCER_FENCED
HINTS.case("KafkaAuthenticationError")(refused(58, "this cluster must know the user"))
HINTS.case("KafkaAuthorizationError")(refused(29, "ask an administrator to grant"))


@HINTS.case("KafkaRequestError")
def other_protocol(life: Life) -> Steps:
    error = yield lambda: life.run(properties={"security.protocol": "SSL"})
    assert "set the protocol of the listener at this port" in str(error.hint)
    name = str(error.option).removeprefix("properties.")
    (spoken,) = re.findall(r"(\w+), which the broker uses", str(error.expected))
    yield lambda: life.run(properties={name: spoken})


@HINTS.case("CorruptRecordsError")
def damaged(life: Life) -> Steps:
    life.run()
    life.records.write(1)
    life.records.write(ROWS)
    life.expected = [n for n in range(2 * ROWS + 1) if n != ROWS]

    def check_crc(_: object, header: BatchHeader) -> None:
        if header.base_offset == ROWS:
            raise MalformedError("its checksum is wrong")

    with pytest.MonkeyPatch.context() as disk:
        disk.setattr(batches, "check_crc", check_crc)
        error = yield life.run
        (command,) = re.findall("`connectors (.*?)`", str(error.hint))
        location = str(life.root / "checkpoint")
        words = shlex.split(command.replace("LOCATION", location).replace("UID", "topic"))
        done = CliRunner().invoke(app, [*words, "--yes"])
        assert done.exit_code == 0, done.output
        yield life.run


@HINTS.case("KAFKA_RECORD")
def no_json(life: Life) -> Steps:
    life.expected = []
    source = DataGeneratorSource(
        lambda at: pa.record_batch([pc.add(at, 1 << 60).view(pa.timestamp("us", "UTC"))], ["at"]),
        1,
        pa.schema([("at", pa.timestamp("us", "UTC"))]),
    )
    schema = KafkaRecordSerializationSchema(topic=life.topic, value_format=JsonFormat())

    def run(policy: RecordPolicy | None = None) -> None:
        sink = KafkaSink(life.broker.bootstrap_servers, serialization=schema)
        with LocalPipeline("p", checkpoint_location=str(life.root / "other")) as pipeline:
            rows = pipeline.from_source(source, uid="times")
            pipeline.sink_to(rows, sink, uid="out", record_policy=policy)
            assert pipeline.run(timeout=60)

    error = yield run
    assert "record policy skip" in str(error.hint)
    yield lambda: run(RecordPolicy.skip())


# --- Tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HINTS.kinds)
def test_the_hint_of_an_error_leads_to_a_running_pipeline(
    broker: KafkaBroker, topic: str, tmp_path: Path, kind: str
) -> None:
    life = Life(broker, topic, tmp_path)
    HINTS.follow(kind, life)
    assert life.records.read() == life.expected


def test_every_kind_of_error_has_a_case_or_a_reason() -> None:
    assert HINTS.differences() == []
