# SPDX-License-Identifier: Apache-2.0
"""The only folder, besides `testing`, that imports the client library, elasticsearch-py."""

from connector_elasticsearch.client.connection import CONNECTION_OPTIONS, ElasticsearchConnection
from connector_elasticsearch.client.requests import (
    AsyncElasticsearchClient,
    ElasticsearchClient,
    decoded,
    meaningless,
    path_of,
    told,
)

__all__ = [
    "CONNECTION_OPTIONS",
    "AsyncElasticsearchClient",
    "ElasticsearchClient",
    "ElasticsearchConnection",
    "decoded",
    "meaningless",
    "path_of",
    "told",
]
