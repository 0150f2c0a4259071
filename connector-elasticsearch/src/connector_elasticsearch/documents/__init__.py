# SPDX-License-Identifier: Apache-2.0
"""Documents as rows: columns from mappings, and their values from the hits of a response."""

from connector_elasticsearch.documents.answers import WHOLE, check_whole
from connector_elasticsearch.documents.decoder import (
    Damaged,
    DocumentDecoder,
    DocumentMetadata,
    moments_of,
)
from connector_elasticsearch.documents.layout import Layout
from connector_elasticsearch.documents.options import ConnectedOptions, DocumentOptions
from connector_elasticsearch.documents.parser import loaded, plain
from connector_elasticsearch.documents.rows import DocumentRows
from connector_elasticsearch.documents.selection import DocumentSelection

__all__ = [
    "WHOLE",
    "ConnectedOptions",
    "Damaged",
    "DocumentDecoder",
    "DocumentMetadata",
    "DocumentOptions",
    "DocumentRows",
    "DocumentSelection",
    "Layout",
    "check_whole",
    "loaded",
    "moments_of",
    "plain",
]
