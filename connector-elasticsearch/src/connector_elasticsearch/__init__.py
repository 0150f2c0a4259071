# SPDX-License-Identifier: Apache-2.0
"""An Elasticsearch source and sink."""

import warnings
from typing import Any

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
from connectors_core.annotations import ConnectorDeprecationWarning
from connectors_core.compatibility import check_spark

__all__ = [
    "ELASTICSEARCH_SINK_OPTIONS",
    "ELASTICSEARCH_SOURCE_OPTIONS",
    "ELASTICSEARCH_TABLE_OPTIONS",
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


def __getattr__(name: str) -> Any:
    """The names of option sets before 3.0."""
    if name not in {"SINK_OPTIONS", "SOURCE_OPTIONS", "TABLE_OPTIONS"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    current = f"ELASTICSEARCH_{name}"
    warnings.warn(
        ConnectorDeprecationWarning(f"{name} is deprecated; use {current} instead"), stacklevel=2
    )
    return globals()[current]
