# SPDX-License-Identifier: Apache-2.0
"""Documents as a table that rows are looked up in: by id, by other fields, or as a whole."""

from connector_elasticsearch.lookup.table import ELASTICSEARCH_TABLE_OPTIONS, ElasticsearchTable

__all__ = ["ELASTICSEARCH_TABLE_OPTIONS", "ElasticsearchTable"]
