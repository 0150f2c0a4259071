# SPDX-License-Identifier: Apache-2.0
"""The files of a proposal: `0001-some-words.md`, and `0001.votes.yaml` next to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from markdown_it import MarkdownIt
from ruamel.yaml.scalarstring import DoubleQuotedScalarString as Quoted

from connector_release_tools.errors import FlipError
from connector_release_tools.flips.model import Event, Header, Votes
from connector_release_tools.votes.model import Vote
from connector_release_tools.yaml_text import dump, load_plain, stamp, validated

__all__ = ["Document", "Flip", "Text", "VotesDocument", "votes_path"]

_NAME: Final = re.compile(r"(\d{4})-[a-z0-9]+(-[a-z0-9]+)*\.md", re.ASCII)
_FRONT: Final = re.compile(r"---\n(.*?\n)---\n(.*)", re.DOTALL)
_TITLE: Final = re.compile(r"FLIP (\d{4}): (\S.*)", re.ASCII)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True)
class Text:
    """The text of a proposal below its front matter.

    Attributes:
        titles: Its first-level headings.
        sections: Its headings of the second level, and whether each section has content.
    """

    titles: tuple[str, ...]
    sections: tuple[tuple[str, bool], ...]

    @classmethod
    def parse(cls, body: str) -> Text:
        """Parse Markdown; ignore comments."""
        titles: list[str] = []
        sections: list[str] = []
        filled: set[int] = set()
        level = ""
        for token in MarkdownIt().parse(body):
            if token.type in {"heading_open", "heading_close"}:
                level = token.tag if token.type == "heading_open" else ""
            elif level == "h1":
                titles.append(token.content)
            elif level == "h2":
                sections.append(token.content)
            elif sections and _COMMENT.sub("", token.content).strip():
                filled.add(len(sections) - 1)
        return cls(
            tuple(titles),
            tuple((name, index in filled) for index, name in enumerate(sections)),
        )


@dataclass(frozen=True)
class Document:
    """The Markdown file of a proposal; to change it, change `header`.

    Attributes:
        path: The file.
        number: Its number.
        header: The front matter, including comments.
        body: The text below the front matter.
    """

    path: Path
    number: int
    header: Any
    body: str

    @classmethod
    def read(cls, path: Path) -> Document:
        """Read the file.

        Raises:
            FlipError: The file name or the front matter is invalid.
        """
        return cls.parse(path, _text(path))

    @classmethod
    def parse(cls, path: Path, text: str) -> Document:
        """Parse the text of the file at a path.

        Raises:
            FlipError: The file name or the front matter is invalid.
        """
        if (name := _NAME.fullmatch(path.name)) is None:
            raise FlipError(
                f"{path.name} is not a valid name of a proposal, such as 0001-some-words.md"
            )
        if (parts := _FRONT.fullmatch(text)) is None:
            raise FlipError(f"{path.name} does not begin with front matter between lines of ---")
        header = load_plain(parts[1], name=path.name, error=FlipError)
        return cls(path, int(name[1]), header, parts[2])

    def text(self) -> str:
        """Return the text of the file."""
        return f"---\n{dump(self.header)}---\n{self.body}"

    def add(self, event: Event) -> None:
        """Add an event to the history, and set its status."""
        self.header["status"] = str(event.status)
        entry = {"status": str(event.status), "at": stamp(event.at), "by": event.by}
        if event.reason:
            entry["reason"] = event.reason
        self.header["history"].append(entry)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FlipError(f"{path.name} is not text in UTF-8: {error}") from error


def votes_path(document: Path) -> Path:
    """Return the path of the votes on a proposal."""
    return document.with_name(_votes_name(document.name))


def _votes_name(name: str) -> str:
    return f"{name[:4]}.votes.yaml"


@dataclass(frozen=True)
class VotesDocument:
    """The file of votes; to change it, change `data`.

    Attributes:
        path: The file.
        data: Its contents, including comments.
    """

    path: Path
    data: Any

    @classmethod
    def read(cls, path: Path) -> VotesDocument:
        """Read the file; a missing file means no votes.

        Raises:
            FlipError: The file is not YAML.
        """
        if not path.exists():
            return cls(path, {"votes": []})
        return cls(path, load_plain(_text(path), name=path.name, error=FlipError))

    def text(self) -> str:
        """Return the text of the file."""
        return dump(self.data)

    def add(self, vote: Vote) -> None:
        """Add a vote."""
        entry = {"voter": vote.voter, "vote": Quoted(vote.vote), "at": stamp(vote.at)}
        if vote.reason:
            entry["reason"] = vote.reason
        self.data["votes"].append(entry)


@dataclass(frozen=True)
class Flip:
    """A proposal and its votes.

    Attributes:
        name: The name of its file.
        number: Its number.
        header: Its front matter.
        body: The text below the front matter.
        votes: All votes ever cast, oldest first.
    """

    name: str
    number: int
    header: Header
    body: str
    votes: tuple[Vote, ...]

    @classmethod
    def of(cls, document: Document, votes: VotesDocument) -> Flip:
        """Create a proposal from its files.

        Raises:
            FlipError: A file is invalid; the message names the place.
        """
        name = document.path.name
        header = validated(Header, document.header, name=name, error=FlipError)
        cast = validated(Votes, votes.data, name=votes.path.name, error=FlipError)
        return cls(name, document.number, header, document.body, cast.votes)

    @classmethod
    def read(cls, path: Path) -> Flip:
        """Read both files.

        Raises:
            FlipError: One of them is invalid.
        """
        return cls.of(Document.read(path), VotesDocument.read(votes_path(path)))

    @property
    def votes_name(self) -> str:
        """The name of the file with its votes."""
        return _votes_name(self.name)

    @cached_property
    def text(self) -> Text:
        """The parsed text below the front matter."""
        return Text.parse(self.body)

    @property
    def title(self) -> str | None:
        """The title; None if the heading is not `# FLIP 0001: Title` with its number."""
        if len(self.text.titles) != 1:
            return None
        match = _TITLE.fullmatch(self.text.titles[0])
        return match[2] if match and int(match[1]) == self.number else None

    def __str__(self) -> str:
        return f"FLIP {self.number:04}"
