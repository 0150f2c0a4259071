# SPDX-License-Identifier: Apache-2.0
"""Copies documents and the files that they link to into the sources of the site."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connector_release_tools.errors import DocsError
from connector_release_tools.site.markdown import parse

__all__ = ["Contents", "Entry", "Tree"]

_HEADING: Final = re.compile(r"^# .+$", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """An entry of a table of contents.

    Attributes:
        page: The page, from the top of the site and without its suffix.
        title: The title of the entry; if empty, the heading of the page.
    """

    page: str
    title: str = ""

    def __str__(self) -> str:
        return f"{self.title} </{self.page}>" if self.title else f"/{self.page}"


@dataclass(frozen=True)
class Contents:
    """A table of contents of a page.

    Attributes:
        entries: The pages, in their order.
        caption: The caption; none if empty.
    """

    entries: tuple[Entry, ...]
    caption: str = ""

    def __str__(self) -> str:
        options = [":hidden:", *([f":caption: {self.caption}"] if self.caption else [])]
        return "\n".join(["```{toctree}", *options, "", *map(str, self.entries), "```"])


@dataclass(frozen=True)
class Tree:
    """A file tree whose documents keep their paths in the site.

    Attributes:
        root: The top of the tree.
        site: The folder of the sources of the site.
        place: The path of the tree in the site; empty for the top.
        label: The suffix of its page titles, so that search results of versions differ.
    """

    root: Path
    site: Path
    place: str = ""
    label: str = ""

    def matching(self, *patterns: str) -> list[str]:
        """Return the documents with these names or patterns, without a suffix."""
        found = [path for each in patterns for path in sorted(self.root.glob(f"{each}.md"))]
        return [path.relative_to(self.root).with_suffix("").as_posix() for path in found]

    def text(self, name: str) -> str:
        """Return the text of a document.

        Raises:
            DocsError: The document does not exist.
        """
        path = self.root / f"{name}.md"
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise DocsError(f"the document {path} does not exist") from error

    def add(
        self,
        name: str,
        *contents: Contents,
        title: str = "",
        edit: Callable[[str], str] = str,
    ) -> Entry:
        """Add a document and the files that it links to.

        Args:
            name: The path of the document in the tree, without its suffix.
            contents: Its tables of contents.
            title: Its title in tables of contents.
            edit: Returns the text for the site.

        Raises:
            DocsError: The document does not exist.
        """
        path = self.root / f"{name}.md"
        text = self.text(name)
        for link in parse(text).links:
            target = (path.parent / link.path).resolve()
            is_inside = target.is_relative_to(self.root.resolve())
            if link.is_internal and is_inside and target.is_file() and target.suffix != ".md":
                copy = self._file(target.relative_to(self.root.resolve()).as_posix())
                shutil.copyfile(target, copy)
        return self.write(name, edit(text), *contents, title=title)

    def write(self, name: str, text: str, *contents: Contents, title: str = "") -> Entry:
        """Write a generated page; see `add`."""
        if self.label:
            text = _HEADING.sub(self._labeled, text, count=1)
        lists = [str(each) for each in contents if each.entries]
        self._file(f"{name}.md").write_text("\n\n".join([text, *lists]), encoding="utf-8")
        return Entry(f"{self.place}/{name}" if self.place else name, title)

    def _labeled(self, heading: re.Match[str]) -> str:
        return f"{heading[0]} ({self.label})"

    def _file(self, name: str) -> Path:
        path = self.site / self.place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
