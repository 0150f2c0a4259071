# SPDX-License-Identifier: Apache-2.0
"""Runs the core's source suites against a real broker, in this process and on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka_suites import KafkaSourceSuite, OfSource

from connector_kafka import KafkaPartitionSplit
from connector_kafka.source import KafkaEnumeratorState
from connectors_core.source import Boundedness, ReadLimits
from connectors_core.testing import (
    Capability,
    SerializerTestSuite,
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
    case,
)

# State files of earlier releases, which later releases must read. Each layout has one file, which
# `pytest --connector-write-state` writes once.
STATE = Path(__file__).parents[1] / "unit" / "state"


@pytest.mark.line("3.5")
class TestKafkaSource(KafkaSourceSuite):
    """The cases of the core, and one more for sources with the named capabilities."""

    @case(Capability.UNBOUNDED, Capability.GROWING_SPLITS)
    @pytest.mark.parametrize("limits", [ReadLimits(), ReadLimits(splits=2)])
    def test_a_stream_and_available_now_runs_resume_from_each_other(
        self, trial: Any, limits: ReadLimits
    ) -> None:
        def pipeline() -> Any:
            return trial.pipeline(Boundedness.CONTINUOUS_UNBOUNDED, limits=limits)

        trial.write_split(4)
        for _ in range(2):
            with pipeline() as endless:
                endless.start()
                trial.wait_for_all(endless)
            trial.grow_splits()
            with pipeline() as ending:
                assert ending.run(available_now=True, drain=False, timeout=120)
            trial.assert_complete()
            trial.grow_splits()


class TestKafkaSourceOnSpark(KafkaSourceSuite):
    on_spark = True


@pytest.mark.line("3.5")
class TestKafkaReader(OfSource, SourceReaderTestSuite):
    pass


@pytest.mark.line("3.5")
class TestKafkaEnumerator(OfSource, SplitEnumeratorTestSuite):
    pass


@pytest.mark.line("3.5")
class TestKafkaSourceSerializers(OfSource, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        topic_id = "89748f0f39e04d1cbb10c5fa81c8a192"
        live = KafkaPartitionSplit(
            split_id="flights-3", topic="flights", partition=3, topic_id=topic_id, offset=120
        )
        part = KafkaPartitionSplit(
            split_id="flights-3@100-200",
            topic="flights",
            partition=3,
            offset=120,
            stop=150,
            last_stop=200,
            pauses=True,
        )
        state = KafkaEnumeratorState(
            known={"flights-3": topic_id, "old-0": ""},
            waiting=(live, part),
            started=True,
            paused=(live,),
        )
        return {"split": [live, part], "enumerator-state": [state]}
