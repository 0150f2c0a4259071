# SPDX-License-Identifier: Apache-2.0
"""Documents as a lookup table: by ID, by other fields, or as a whole."""

from connector_elasticsearch.lookup.table import ELASTICSEARCH_TABLE_OPTIONS, ElasticsearchTable

__all__ = ["ELASTICSEARCH_TABLE_OPTIONS", "ElasticsearchTable"]
