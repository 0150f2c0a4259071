# SPDX-License-Identifier: Apache-2.0
"""The Elasticsearch sink: bulk requests, at least once (Flink's Elasticsearch8AsyncSink)."""

from connector_elasticsearch.sink.elasticsearch_sink import (
    ELASTICSEARCH_SINK_OPTIONS,
    ElasticsearchSink,
)
from connector_elasticsearch.sink.operations import VersionType, WriteOperation
from connector_elasticsearch.sink.writer import Refresh

__all__ = [
    "ELASTICSEARCH_SINK_OPTIONS",
    "ElasticsearchSink",
    "Refresh",
    "VersionType",
    "WriteOperation",
]
