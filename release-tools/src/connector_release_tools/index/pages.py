# SPDX-License-Identifier: Apache-2.0
"""The pages of a package index: HTML (PEP 503), JSON (PEP 691), and metadata (PEP 658, 714)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Final

from packaging.version import Version

from connector_release_tools.distributions import Distribution, sha256

__all__ = ["IndexFile", "project_html", "project_json", "root_html", "root_json"]

_API: Final = "1.1"


@dataclass(frozen=True)
class IndexFile:
    """The entry of a file in an index.

    Attributes:
        name: Its name.
        version: The version of the project.
        sha256: Its hash.
        size: Its size in bytes.
        requires_python: The supported versions of Python.
        metadata: The hash of the metadata file next to it; None if there is no such file.
    """

    name: str
    version: str
    sha256: str
    size: int
    requires_python: str | None
    metadata: str | None

    @classmethod
    def of(cls, distribution: Distribution) -> IndexFile:
        """Return the entry of a distribution.

        Raises:
            DistributionError: Its metadata are not as they must be.
        """
        python = distribution.metadata.requires_python
        is_wheel = distribution.kind == "wheel"
        return cls(
            name=distribution.path.name,
            version=distribution.version,
            sha256=distribution.sha256,
            size=distribution.path.stat().st_size,
            requires_python=str(python) if python is not None else None,
            metadata=sha256(distribution.metadata_file) if is_wheel else None,
        )


def root_html(projects: Iterable[str]) -> str:
    """Return the list of projects as HTML."""
    links = [f'<a href="{escape(name)}/">{escape(name)}</a><br>' for name in projects]
    return _page("Simple index", links)


def root_json(projects: Iterable[str]) -> str:
    """Return the list of projects as JSON."""
    return _json({"projects": [{"name": name} for name in projects]})


def project_html(project: str, files: Sequence[IndexFile]) -> str:
    """Return the files of a project as HTML."""
    return _page(f"Links for {project}", map(_link, files))


def project_json(project: str, files: Sequence[IndexFile]) -> str:
    """Return the files of a project as JSON."""
    versions = sorted({file.version for file in files}, key=Version)
    described = [_described(file) for file in files]
    return _json({"name": project, "versions": versions, "files": described})


def _link(file: IndexFile) -> str:
    attributes = {"href": f"{file.name}#sha256={file.sha256}"}
    if file.requires_python is not None:
        attributes["data-requires-python"] = file.requires_python
    if file.metadata is not None:  # the second is the old name in PEP 658
        for name in ("data-core-metadata", "data-dist-info-metadata"):
            attributes[name] = f"sha256={file.metadata}"
    written = " ".join(f'{name}="{escape(value)}"' for name, value in attributes.items())
    return f"<a {written}>{escape(file.name)}</a><br>"


def _described(file: IndexFile) -> dict[str, Any]:
    metadata = {"sha256": file.metadata} if file.metadata is not None else False
    described: dict[str, Any] = {
        "filename": file.name,
        "url": file.name,
        "hashes": {"sha256": file.sha256},
        "size": file.size,
        "core-metadata": metadata,  # pip 22.3 to 23.1 fail at its old name (PEP 714)
    }
    if file.requires_python is not None:
        described["requires-python"] = file.requires_python
    return described


def _page(title: str, lines: Iterable[str]) -> str:
    return "\n".join((
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="pypi:repository-version" content="1.0">',
        f"<title>{escape(title)}</title></head><body>",
        *lines,
        "</body></html>\n",
    ))  # fmt: skip


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps({"meta": {"api-version": _API}, **content}, indent=1) + "\n"
