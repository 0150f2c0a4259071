# SPDX-License-Identifier: Apache-2.0
"""Reads the documents of a point in time, in slices."""

from connector_elasticsearch.source.elasticsearch_source import (
    ELASTICSEARCH_SOURCE_OPTIONS,
    ElasticsearchSource,
)
from connector_elasticsearch.source.errors import PointInTimeLostError
from connector_elasticsearch.source.split import SliceSplit

__all__ = [
    "ELASTICSEARCH_SOURCE_OPTIONS",
    "ElasticsearchSource",
    "PointInTimeLostError",
    "SliceSplit",
]
