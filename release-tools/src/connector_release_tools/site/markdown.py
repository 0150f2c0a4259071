# SPDX-License-Identifier: Apache-2.0
"""Finds the links, link targets, and code blocks of a Markdown document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin
from mdit_py_plugins.front_matter import front_matter_plugin

__all__ = ["Block", "Document", "Link", "parse"]


@dataclass(frozen=True)
class Link:
    """A link or an image.

    Attributes:
        line: The first line of its paragraph.
        target: The target as written.
    """

    line: int
    target: str

    @property
    def is_internal(self) -> bool:
        """Whether it leads to a file of the repository or a heading."""
        parts = urlsplit(self.target)
        return not parts.scheme and not parts.netloc

    @property
    def path(self) -> str:
        """The target file, relative to the document; empty for the document itself."""
        return unquote(urlsplit(self.target).path)

    @property
    def anchor(self) -> str:
        """The target heading; empty for the top."""
        return unquote(urlsplit(self.target).fragment)


@dataclass(frozen=True)
class Block:
    """A fenced code block.

    Attributes:
        line: The line of its opening fence.
        language: The language of the fence; empty if none.
        code: Its contents.
    """

    line: int
    language: str
    code: str


@dataclass(frozen=True)
class Document:
    """The relevant parts of a document.

    Attributes:
        links: Its links and images.
        blocks: Its fenced blocks.
        anchors: The possible fragments of a link, as a forge derives them from the headings.
        html: The lines of raw HTML, other than comments.
    """

    links: tuple[Link, ...]
    blocks: tuple[Block, ...]
    anchors: frozenset[str]
    html: frozenset[int]


def parse(text: str) -> Document:
    """Parse a document as CommonMark with tables, as forges do."""
    markdown = MarkdownIt("commonmark").enable("table")
    markdown.use(front_matter_plugin).use(anchors_plugin, max_level=6)
    tokens = list(_flat(markdown.parse(text)))
    return Document(
        links=tuple(
            Link(line, str(target))
            for line, token in tokens
            if (target := token.attrGet("src" if token.type == "image" else "href"))
        ),
        blocks=tuple(
            Block(line, (token.info.split() or [""])[0], token.content)
            for line, token in tokens
            if token.type == "fence"
        ),
        anchors=frozenset(
            str(token.attrGet("id")) for _, token in tokens if token.type == "heading_open"
        ),
        html=frozenset(
            line
            for line, token in tokens
            if token.type.startswith("html_") and not token.content.strip().startswith("<!--")
        ),
    )


def _flat(tokens: list[Token], line: int = 1) -> Iterator[tuple[int, Token]]:
    for token in tokens:
        line = token.map[0] + 1 if token.map else line
        yield line, token
        yield from _flat(token.children or [], line)
