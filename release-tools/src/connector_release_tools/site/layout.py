# SPDX-License-Identifier: Apache-2.0
"""Documents take their places in the sources of the site, with what they link to and contain."""

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
    """What a list of contents names.

    Attributes:
        page: The page, from the top of the site and without its suffix.
        title: How it is called there; as its own heading if empty.
    """

    page: str
    title: str = ""

    def __str__(self) -> str:
        return f"{self.title} </{self.page}>" if self.title else f"/{self.page}"


@dataclass(frozen=True)
class Contents:
    """A list of contents, which a page has beside its text.

    Attributes:
        entries: The pages, in their order.
        caption: What stands above the list; nothing if empty.
    """

    entries: tuple[Entry, ...]
    caption: str = ""

    def __str__(self) -> str:
        options = [":hidden:", *([f":caption: {self.caption}"] if self.caption else [])]
        return "\n".join(["```{toctree}", *options, "", *map(str, self.entries), "```"])


@dataclass(frozen=True)
class Tree:
    """A tree of files whose documents get into the site, every one where it is in the tree.

    Attributes:
        root: The top of the tree.
        site: The folder of the sources of the site.
        place: Where in it the top of the tree is; empty for its top.
        label: What the titles of its pages end with, so that a search can tell versions apart.
    """

    root: Path
    site: Path
    place: str = ""
    label: str = ""

    def matching(self, *patterns: str) -> list[str]:
        """The documents of these names, or that match these patterns, without a suffix."""
        found = [path for each in patterns for path in sorted(self.root.glob(f"{each}.md"))]
        return [path.relative_to(self.root).with_suffix("").as_posix() for path in found]

    def text(self, name: str) -> str:
        """The text of a document.

        Raises:
            DocsError: There is no such document.
        """
        path = self.root / f"{name}.md"
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise DocsError(f"there is no document {path}") from error

    def add(
        self,
        name: str,
        *contents: Contents,
        title: str = "",
        edit: Callable[[str], str] = str,
    ) -> Entry:
        """Bring a document into the site, and the files that it links to.

        Args:
            name: The document, seen from the top of the tree, without its suffix.
            contents: What is below it.
            title: How it is called in lists of contents.
            edit: Returns its text as the site shows it.

        Raises:
            DocsError: There is no such document.
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
        """Write a page that no file holds; as `add`."""
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
