# SPDX-License-Identifier: Apache-2.0
"""The names of files in lineage, after OpenLineage's naming spec."""

from __future__ import annotations

import itertools

import fsspec.core

from connector_filesystem.filesystem import FileLocation
from connectors_core.lineage import LineageDataset

__all__ = ["dataset_of"]

_WILDCARDS = frozenset("*?[")
_OBJECT_STORES = {"s3": "s3", "s3a": "s3", "gs": "gs", "gcs": "gs"}


def dataset_of(location: FileLocation) -> LineageDataset:
    """Return the dataset of a file, a folder, or a pattern: the folder above the first wildcard.

    Args:
        location: The location.
    """
    url = location.url.partition("::")[0] if "::" in location.url else location.url
    protocol, rest = fsspec.core.split_protocol(url.partition("#")[0])
    if protocol in (None, "file", "local"):
        return LineageDataset(namespace="file", name=_folder("/" + rest.lstrip("/")))
    authority, _, path = rest.partition("/")
    if protocol in _OBJECT_STORES:
        namespace = f"{_OBJECT_STORES[protocol]}://{authority}"
        return LineageDataset(namespace=namespace, name=_folder(path) or "/")
    if not protocol.startswith(("abfs", "wasb")):  # there, `container@account` is no user
        authority = authority.rpartition("@")[2]
    return LineageDataset(namespace=f"{protocol}://{authority}", name=_folder("/" + path))


def _folder(path: str) -> str:
    parts = itertools.takewhile(lambda part: not _WILDCARDS & {*part}, path.split("/"))
    return "/".join(parts).rstrip("/") or ("/" if path.startswith("/") else "")
