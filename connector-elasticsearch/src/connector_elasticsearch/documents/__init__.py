# SPDX-License-Identifier: Apache-2.0
"""Documents as rows: columns from mappings, columns from the hits of an answer."""

from connector_elasticsearch.documents.decoding import (
    Damaged,
    DocumentDecoder,
    MetadataColumn,
    loaded,
)
from connector_elasticsearch.documents.layout import Layout, layout_of
from connector_elasticsearch.documents.mapping import pruned

__all__ = [
    "Damaged",
    "DocumentDecoder",
    "Layout",
    "MetadataColumn",
    "layout_of",
    "loaded",
    "pruned",
]
