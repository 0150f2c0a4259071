# SPDX-License-Identifier: Apache-2.0
"""Checks that every link of the documents has a target, and that every code block parses."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from connector_release_tools.site.code import LANGUAGES, problem
from connector_release_tools.site.markdown import Document, Link, parse
from connector_release_tools.template.connector import PREFIX
from connector_release_tools.template.renderer import TEMPLATE

__all__ = ["Checked", "Finding", "check", "documents"]


@dataclass(frozen=True, order=True)
class Finding:
    """A problem in a document."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


@dataclass(frozen=True)
class Checked:
    """The checked documents and the findings.

    Attributes:
        documents: The number of documents.
        links: The number of links within the repository.
        blocks: The number of code blocks, by their language.
        findings: The problems.
    """

    documents: int
    links: int
    blocks: Mapping[str, int]
    findings: tuple[Finding, ...]

    @property
    def unchecked(self) -> int:
        """The number of code blocks in languages without a check."""
        return sum(count for name, count in self.blocks.items() if name not in LANGUAGES)


def documents(files: Collection[str]) -> list[str]:
    """Return the documents among the files of a repository.

    Templates of documents and changelog fragments are not documents.
    """
    made_of = f"{TEMPLATE}/{PREFIX}{{{{"
    return [
        path
        for path in sorted(files)
        if path.endswith(".md") and not path.startswith(made_of) and "/changelog.d/" not in path
    ]


def check(root: Path, files: Collection[str]) -> Checked:
    """Check the documents among the files of a tree.

    Args:
        root: The top of the tree.
        files: Its committable files, relative to the root. A link to another file fails in a clone.
    """
    names = documents(files)
    read = {name: parse((root / name).read_text(encoding="utf-8")) for name in names}
    links = [(name, link) for name in names for link in read[name].links if link.is_internal]
    blocks = [(name, block) for name in names for block in read[name].blocks]
    findings = [
        *(
            Finding(name, link.line, f"the link {link.target} {wrong}")
            for name, link in links
            if (wrong := _wrong(link, name, files, read))
        ),
        *(Finding(name, block.line, wrong) for name, block in blocks if (wrong := problem(block))),
        *(
            Finding(name, line, "raw HTML is not allowed; write Markdown")
            for name in names
            for line in read[name].html
        ),
    ]
    counts = Counter(block.language for _, block in blocks)
    return Checked(len(names), len(links), counts, tuple(sorted(findings)))


def _wrong(
    link: Link, name: str, files: Collection[str], read: Mapping[str, Document]
) -> str | None:
    """Return why a link of a document is broken; None if it works."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(name), link.path))
    target = target if link.path else name
    top = _tree(name)
    if not target.startswith(top):
        return f"leads out of {top or 'the tree'}, which could be a separate repository"
    if target not in files:
        is_folder = any(each.startswith(f"{target}/") for each in files)
        return "leads to a folder; link to a file in it" if is_folder else "leads nowhere"
    if link.anchor and target not in read:
        return f"has a fragment, but {target} is not a document"
    if link.anchor and link.anchor not in read[target].anchors:
        return f"has a fragment that is not a heading of {target}"
    return None


def _tree(name: str) -> str:
    """Return the folder that links of a document must not leave, such as a connector's folder."""
    top = PurePosixPath(name).parts[0]
    return f"{top}/" if top.startswith(PREFIX) and top != TEMPLATE else ""
