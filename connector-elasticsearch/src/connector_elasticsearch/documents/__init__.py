# SPDX-License-Identifier: Apache-2.0
"""Documents as rows: columns from mappings, columns from the hits of an answer."""

from connector_elasticsearch.documents.decoding import (
    Damaged,
    DocumentDecoder,
    MetadataColumn,
    loaded,
)
from connector_elasticsearch.documents.layout import Layout
from connector_elasticsearch.documents.selection import DocumentSelection

__all__ = [
    "Damaged",
    "DocumentDecoder",
    "DocumentSelection",
    "Layout",
    "MetadataColumn",
    "loaded",
]
