# SPDX-License-Identifier: Apache-2.0
"""Vector searches for the documents of a table."""

from connector_elasticsearch.vector_search.functions import (
    ElasticsearchAsyncVectorSearchFunction,
    ElasticsearchVectorSearchFunction,
)
from connector_elasticsearch.vector_search.options import VectorSearchOptions
from connector_elasticsearch.vector_search.searches import VectorSearches
from connector_elasticsearch.vector_search.vector_field import VectorField

__all__ = [
    "ElasticsearchAsyncVectorSearchFunction",
    "ElasticsearchVectorSearchFunction",
    "VectorField",
    "VectorSearchOptions",
    "VectorSearches",
]
