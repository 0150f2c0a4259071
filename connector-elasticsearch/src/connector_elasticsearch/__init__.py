# SPDX-License-Identifier: Apache-2.0
"""Elasticsearch as a source and a sink."""

from connector_elasticsearch.client import ElasticsearchConnection
from connector_elasticsearch.documents import MetadataColumn
from connector_elasticsearch.errors import (
    ElasticsearchAuthenticationError,
    ElasticsearchAuthorizationError,
    ElasticsearchFatalError,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
    ElasticsearchTooLargeError,
    ElasticsearchVersionError,
)
from connector_elasticsearch.lookup import TABLE_OPTIONS, ElasticsearchTable
from connector_elasticsearch.sink import (
    SINK_OPTIONS,
    ElasticsearchSink,
    Refresh,
    VersionType,
    WriteOperation,
)
from connector_elasticsearch.source import (
    SOURCE_OPTIONS,
    ElasticsearchSource,
    PointInTimeLostError,
    SliceSplit,
)
from connectors_core.compatibility import check_spark

__all__ = [
    "SINK_OPTIONS",
    "SOURCE_OPTIONS",
    "TABLE_OPTIONS",
    "ElasticsearchAuthenticationError",
    "ElasticsearchAuthorizationError",
    "ElasticsearchConnection",
    "ElasticsearchFatalError",
    "ElasticsearchRequestError",
    "ElasticsearchRetryableError",
    "ElasticsearchSink",
    "ElasticsearchSource",
    "ElasticsearchTable",
    "ElasticsearchTooLargeError",
    "ElasticsearchVersionError",
    "MetadataColumn",
    "PointInTimeLostError",
    "Refresh",
    "SliceSplit",
    "VersionType",
    "WriteOperation",
]

check_spark("connector-elasticsearch")
