# SPDX-License-Identifier: Apache-2.0
"""Tests the options that the connectors declare: what they share does not differ in form."""

from __future__ import annotations

import connector_elasticsearch
import connector_filesystem
import connector_kafka
import pytest


@pytest.mark.parametrize(
    ("configured", "scope"),
    [
        (connector_kafka.KafkaSource, "Kafka source"),
        (connector_kafka.KafkaSink, "Kafka sink"),
        (connector_elasticsearch.ElasticsearchSource, "Elasticsearch source"),
        (connector_elasticsearch.ElasticsearchSink, "Elasticsearch sink"),
        (connector_elasticsearch.ElasticsearchTable, "Elasticsearch table"),
        (connector_filesystem.FileSource, "file source"),
        (connector_filesystem.FileSink, "file sink"),
        (connector_filesystem.FileTable, "file table"),
    ],
    ids=str,
)
def test_errors_name_a_system_by_its_proper_name(configured, scope):
    assert configured.OPTIONS.scope == scope
