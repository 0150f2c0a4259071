# SPDX-License-Identifier: Apache-2.0
"""An Elasticsearch source and sink."""

from connector_elasticsearch.client import ElasticsearchConnection
from connector_elasticsearch.documents import DocumentMetadata
from connector_elasticsearch.errors import (
    ElasticsearchAuthenticationError,
    ElasticsearchAuthorizationError,
    ElasticsearchFatalError,
    ElasticsearchRequestError,
    ElasticsearchRetryableError,
    ElasticsearchTooLargeError,
    ElasticsearchVersionError,
)
from connector_elasticsearch.lookup import ELASTICSEARCH_TABLE_OPTIONS, ElasticsearchTable
from connector_elasticsearch.sink import (
    ELASTICSEARCH_SINK_OPTIONS,
    ElasticsearchSink,
    Refresh,
    VersionType,
    WriteOperation,
)
from connector_elasticsearch.source import (
    ELASTICSEARCH_SOURCE_OPTIONS,
    ElasticsearchSource,
    PointInTimeLostError,
    SliceSplit,
)
from connectors_core.annotations import removed_names
from connectors_core.compatibility import check_spark

__all__ = [
    "ELASTICSEARCH_SINK_OPTIONS",
    "ELASTICSEARCH_SOURCE_OPTIONS",
    "ELASTICSEARCH_TABLE_OPTIONS",
    "DocumentMetadata",
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
    "PointInTimeLostError",
    "Refresh",
    "SliceSplit",
    "VersionType",
    "WriteOperation",
]

__getattr__ = removed_names(
    __name__,
    {
        "MetadataColumn": "DocumentMetadata",
        "SINK_OPTIONS": "ELASTICSEARCH_SINK_OPTIONS",
        "SOURCE_OPTIONS": "ELASTICSEARCH_SOURCE_OPTIONS",
        "TABLE_OPTIONS": "ELASTICSEARCH_TABLE_OPTIONS",
    },
)

check_spark("connector-elasticsearch")
