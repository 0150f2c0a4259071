# SPDX-License-Identifier: Apache-2.0
"""Runs the core's source suites against a real server, in this process and on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from source_suites import ElasticsearchSourceSuite, OfSource

from connector_elasticsearch.source.enumerator import SliceEnumeratorState
from connector_elasticsearch.source.split import SliceSplit
from connectors_core.testing import (
    SerializerTestSuite,
    SourceReaderTestSuite,
    SplitEnumeratorTestSuite,
)

# State files of earlier releases, which later releases must read. Each layout has one file, which
# `pytest --connector-write-state` writes once.
STATE = Path(__file__).parents[1] / "unit" / "state"


@pytest.mark.line("3.5")
class TestElasticsearchSource(ElasticsearchSourceSuite):
    pass


class TestElasticsearchSourceOnSpark(ElasticsearchSourceSuite):
    on_spark = True


@pytest.mark.line("3.5")
class TestElasticsearchReader(OfSource, SourceReaderTestSuite):
    pass


@pytest.mark.line("3.5")
class TestElasticsearchEnumerator(OfSource, SplitEnumeratorTestSuite):
    pass


@pytest.mark.line("3.5")
class TestElasticsearchSourceSerializers(OfSource, SerializerTestSuite):
    state_folder = STATE

    def examples(self) -> Mapping[str, list[object]]:
        split = SliceSplit(
            split_id="1/4",
            point_in_time="46ToAwMDaWR5BXV1aWQy",
            slice=1,
            slices=4,
            documents=250,
            after=(1_700_000_000_000, 4294967298),
            read=120,
            limit=1000,
        )
        new = SliceSplit(split_id="0/1", point_in_time="46ToAwMD", slice=0, slices=1, documents=0)
        state = SliceEnumeratorState(
            point_in_time="46ToAwMD", waiting=(new,), unread=("0/1", "1/4")
        )
        return {"split": [split, new], "enumerator-state": [state, SliceEnumeratorState()]}
