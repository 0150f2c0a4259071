# SPDX-License-Identifier: Apache-2.0
"""The fields that mappings remove from the source of documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from connector_elasticsearch.documents.decoder import leaves
from connector_elasticsearch.documents.mapping import kind_of
from connectors_core.errors import ConfigurationError

__all__ = ["check_source"]


def check_source(schema: pa.Schema, mappings: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse columns that would be null because an index does not keep their fields.

    If an index keeps no source at all, the decoder refuses the first document instead, so that
    metadata can be read.

    Args:
        schema: The columns to read from the source of documents.
        mappings: The mappings by index, in the server's form.

    Raises:
        ConfigurationError: The mapping of an index removes a field from `_source`.
    """
    paths = list(leaves(list(schema)))
    for index, mapping in mappings.items():
        missing = set(_missing(paths, mapping))
        if not missing:
            continue
        left = [path for path in paths if path not in missing]
        raise ConfigurationError(
            f"the index {index!r} does not keep these fields in the source of its documents",
            expected="fields that the `_source` of the mapping keeps",
            found=", ".join(sorted(missing)),
            option="fields",
            hint=f"read only the others: {', '.join(left)}" if left else _REINDEX,
        )


_REINDEX = "write the documents to an index whose mapping keeps `_source`"


def _missing(paths: Sequence[str], mapping: Mapping[str, Any]) -> Iterator[str]:
    source = mapping.get("_source", {})
    includes, excludes = _patterns(source, "includes"), _patterns(source, "excludes")
    for path in paths:
        is_kept = not includes or any(_covers(each, path) for each in includes)
        is_cut = any(_covers(each, path) or _cuts(each, path, mapping) for each in excludes)
        if is_cut or not is_kept:
            yield path


def _patterns(source: Mapping[str, Any], name: str) -> list[str]:
    found = source.get(name, ())
    return [found] if isinstance(found, str) else list(found)


def _covers(pattern: str, path: str) -> bool:
    """Whether a pattern matches a field, or an object around it."""
    matches = re.compile(re.escape(pattern).replace(r"\*", ".*")).fullmatch
    ends = (each.start() for each in re.finditer(r"\.", path))
    return any(matches(path[:end]) for end in (*ends, len(path)))


def _cuts(pattern: str, path: str, mapping: Mapping[str, Any]) -> bool:
    """Whether a pattern matches a part of a field that is read as JSON, and not a sub-field."""
    return pattern.startswith(f"{path}.") and kind_of(mapping, pattern) is None
