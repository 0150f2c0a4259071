# SPDX-License-Identifier: Apache-2.0
"""Elasticsearch as a sink: bulk requests, at least once (Flink's Elasticsearch8AsyncSink)."""

from connector_elasticsearch.sink.elasticsearch_sink import ElasticsearchSink
from connector_elasticsearch.sink.operations import VersionType, WriteOperation
from connector_elasticsearch.sink.options import SINK_OPTIONS
from connector_elasticsearch.sink.writer import Refresh

__all__ = [
    "SINK_OPTIONS",
    "ElasticsearchSink",
    "Refresh",
    "VersionType",
    "WriteOperation",
]
