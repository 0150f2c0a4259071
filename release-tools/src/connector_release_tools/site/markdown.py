# SPDX-License-Identifier: Apache-2.0
"""What a Markdown document links to, what it can be linked by, and the code in it."""

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
        line: Where the paragraph with it begins.
        target: Where it leads, as it is written.
    """

    line: int
    target: str

    @property
    def is_internal(self) -> bool:
        """Whether it leads to a file beside the document, or a heading of it."""
        parts = urlsplit(self.target)
        return not parts.scheme and not parts.netloc

    @property
    def path(self) -> str:
        """The file it leads to, seen from the document; empty for the document itself."""
        return unquote(urlsplit(self.target).path)

    @property
    def anchor(self) -> str:
        """The heading it leads to; empty for the top."""
        return unquote(urlsplit(self.target).fragment)


@dataclass(frozen=True)
class Block:
    """A fenced block of code.

    Attributes:
        line: The line of its opening fence.
        language: The language in its fence; empty if none.
        code: Its contents.
    """

    line: int
    language: str
    code: str


@dataclass(frozen=True)
class Document:
    """What is of interest in a document.

    Attributes:
        links: Its links and images.
        blocks: Its fenced blocks.
        anchors: What a link may name behind `#`, as a forge makes it of the headings.
        html: The lines of raw HTML, other than comments.
    """

    links: tuple[Link, ...]
    blocks: tuple[Block, ...]
    anchors: frozenset[str]
    html: frozenset[int]


def parse(text: str) -> Document:
    """Read a document in the Markdown of forges (CommonMark with tables)."""
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
