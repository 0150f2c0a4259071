# SPDX-License-Identifier: Apache-2.0
"""Documents as rows: columns from mappings, columns from the hits of an answer."""

from connector_elasticsearch.documents.decoding import (
    Damaged,
    DocumentDecoder,
    MetadataColumn,
    leaves,
    loaded,
    parsed,
)
from connector_elasticsearch.documents.mapping import fields_of, kind_of, pruned, with_own_format

__all__ = [
    "Damaged",
    "DocumentDecoder",
    "MetadataColumn",
    "fields_of",
    "kind_of",
    "leaves",
    "loaded",
    "parsed",
    "pruned",
    "with_own_format",
]
