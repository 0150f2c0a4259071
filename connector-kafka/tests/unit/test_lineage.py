# SPDX-License-Identifier: Apache-2.0
"""Tests the names of topics in lineage."""

from __future__ import annotations

import pytest

from connector_kafka import KafkaRecordSerializationSchema, KafkaSink, KafkaSource
from connectors_core.lineage import LineageDataset

LATE = KafkaRecordSerializationSchema(topic="late", value_format="json")


def named(*names):
    return tuple(LineageDataset(namespace="kafka://one:9092", name=name) for name in names)


@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({"topics": ["a", "b"]}, ["a", "b"]),
        ({"topic_pattern": "flights-.*"}, ["flights-.*"]),
        ({"partitions": "a:0, a:1, b:0"}, ["a", "b"]),
    ],
)
def test_a_source_names_its_topics(selection, names):
    source = KafkaSource(["one:9092", "two:9092"], **selection)
    assert source.lineage_datasets() == named(*names)


def test_a_sink_names_its_topic():
    assert KafkaSink("one:9092", serialization=LATE).lineage_datasets() == named("late")
