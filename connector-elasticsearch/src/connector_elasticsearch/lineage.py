# SPDX-License-Identifier: Apache-2.0
"""The names of indices in lineage. OpenLineage's naming spec has none, so its scheme applies."""

from __future__ import annotations

from urllib.parse import urlsplit

from connector_elasticsearch.client.connection import ElasticsearchConnection
from connectors_core.lineage import LineageDataset

__all__ = ["dataset_of"]


def dataset_of(connection: ElasticsearchConnection, index: str) -> LineageDataset:
    """Return the dataset of an index, an alias, or a pattern. The first host names the cluster.

    Args:
        connection: The connection.
        index: The index.
    """
    if connection.hosts:
        parts = urlsplit(connection.hosts[0])
        authority = parts.netloc.rpartition("@")[2]
    else:
        authority = str(connection.cloud_id).partition(":")[0]  # the rest is encoded
    return LineageDataset(namespace=f"elasticsearch://{authority}", name=index)
