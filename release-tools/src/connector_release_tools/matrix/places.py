# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the places in files that repeat values of the matrix."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import tomlkit
from tomlkit.exceptions import ParseError

__all__ = ["Below", "Between", "Literal", "Pins", "Place", "TomlKey", "Word"]


class Place(Protocol):
    """The place of a value in a text. An unreadable text raises `ValueError` with the reason."""

    def read(self, text: str) -> object:
        """Return the value; None if the text does not contain the place."""
        ...

    def write(self, text: str, value: Any) -> str:
        """Return the text with another value."""
        ...

    def __str__(self) -> str:
        """Return a description of the place."""
        ...


@dataclass(frozen=True)
class TomlKey:
    """A key of a TOML file.

    Attributes:
        keys: The path of the key.
    """

    keys: tuple[str, ...]

    def read(self, text: str) -> object:
        """Return the value of the key."""
        value: Any = self._parsed(text).unwrap()
        for key in self.keys:
            if not isinstance(value, Mapping) or key not in value:
                return None
            value = value[key]
        return value

    def write(self, text: str, value: Any) -> str:
        """Return the text with another value; comments are kept."""
        document = self._parsed(text)
        table: Any = document
        for key in self.keys[:-1]:
            table = table[key]
        table[self.keys[-1]] = value
        return tomlkit.dumps(document)

    def _parsed(self, text: str) -> tomlkit.TOMLDocument:
        try:
            return tomlkit.parse(text)
        except ParseError as error:
            raise ValueError(f"it is not valid TOML: {error}") from error

    def __str__(self) -> str:
        return f"[{'.'.join(self.keys[:-1])}] {self.keys[-1]}"


@dataclass(frozen=True)
class Literal:
    """A mapping or list that a Python module assigns to a variable.

    Attributes:
        name: The name of the variable.
    """

    name: str

    def read(self, text: str) -> object:
        """Return the assigned value."""
        found = self._node(text)
        return None if found is None else ast.literal_eval(found)

    def write(self, text: str, value: Any) -> str:
        """Return the text with another mapping, one entry per line."""
        node = self._node(text)
        if node is None or node.end_lineno is None:
            raise ValueError(f"no assignment to {self.name}")
        entries = [f"    {json.dumps(key)}: {json.dumps(each)}," for key, each in value.items()]
        lines = text.splitlines(keepends=True)
        before = lines[node.lineno - 1][: node.col_offset]
        after = lines[node.end_lineno - 1][node.end_col_offset :]
        written = "\n".join([f"{before}{{", *entries, "}"]) + after
        return "".join([*lines[: node.lineno - 1], written, *lines[node.end_lineno :]])

    def _node(self, text: str) -> ast.expr | None:
        try:
            module = ast.parse(text)
        except SyntaxError as error:
            raise ValueError(f"it is not valid Python: {error}") from error
        for node in module.body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            if any(isinstance(each, ast.Name) and each.id == self.name for each in targets):
                return node.value  # type: ignore[attr-defined, no-any-return]
        return None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Word:
    """The rest of a line after a prefix.

    Attributes:
        begin: The start of the line, such as `LINES := `.
    """

    begin: str

    def read(self, text: str) -> object:
        """Return the text after the prefix."""
        match = self._pattern.search(text)
        return None if match is None else match[1]

    def write(self, text: str, value: Any) -> str:
        """Return the text with different contents after the prefix."""
        return self._pattern.sub(lambda _: f"{self.begin}{value}", text, count=1)

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"^{re.escape(self.begin)}(.*)$", re.MULTILINE)

    def __str__(self) -> str:
        return self.begin.rstrip(" :=")


@dataclass(frozen=True)
class Between:
    """The text between the markers `<!-- NAME ... -->` and `<!-- end -->` of a document.

    Attributes:
        name: The first word of the marker.
    """

    name: str

    def read(self, text: str) -> object:
        """Return the text between the markers."""
        match = self._pattern.search(text)
        return None if match is None else match[2].strip("\n")

    def write(self, text: str, value: Any) -> str:
        """Return the document with other text between the markers."""
        return self._pattern.sub(lambda match: f"{match[1]}\n{value}\n\n{match[3]}", text, count=1)

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(
            rf"(<!-- {re.escape(self.name)}\b[^\n]*-->\n)(.*?)(<!-- end -->)", re.DOTALL
        )

    def __str__(self) -> str:
        return f"the table between `<!-- {self.name} -->` and `<!-- end -->`"


@dataclass(frozen=True)
class Below:
    """The indented lines below a line of a section.

    Attributes:
        section: The section, such as `[pkgenv]`.
        begin: The line, such as `set_env =`.
    """

    section: str
    begin: str

    def read(self, text: str) -> object:
        """Return the lines, without their indentation."""
        match = self._pattern.search(text)
        return None if match is None else [line.strip() for line in match[2].splitlines()]

    def write(self, text: str, value: Any) -> str:
        """Return the text with other lines."""
        lines = "".join(f"    {line}\n" for line in value)
        return self._pattern.sub(lambda match: f"{match[1]}{lines}", text, count=1)

    @property
    def _pattern(self) -> re.Pattern[str]:
        section, begin = re.escape(self.section), re.escape(self.begin)
        return re.compile(
            rf"(^{section}\n(?:[^\[\n][^\n]*\n)*?{begin}\n)((?:    [^\n]*\n)*)", re.MULTILINE
        )

    def __str__(self) -> str:
        return f"{self.section} {self.begin.rstrip(' =')}"


@dataclass(frozen=True)
class Pins:
    """The pins of a version of a package in commands, for any Spark line.

    Attributes:
        package: The package.
        version: The version.
    """

    package: str
    version: str

    def read(self, text: str) -> object:
        """Return the version if the text pins it."""
        return self.version if self._pattern.search(text) else None

    def write(self, text: str, value: Any) -> str:
        """Return the text with pins of another version."""
        return self._pattern.sub(lambda found: f"{found[1]}{value}", text)

    @property
    def _pattern(self) -> re.Pattern[str]:
        package, version = re.escape(self.package), re.escape(self.version)
        return re.compile(rf"(?<![\w-])({package}(?:\[\w+\])?==){version}(?=\.\d)")

    def __str__(self) -> str:
        return f"{self.package}=={self.version}"
