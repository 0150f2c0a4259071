# SPDX-License-Identifier: Apache-2.0
"""Checks that code imports only public names of packages with an API promise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from connector_release_tools.api.projects import PublicProject
from connector_release_tools.site.checks import Finding
from connector_release_tools.site.markdown import parse

__all__ = ["breaches"]

# In the files of a template, which are not valid Python.
_STATEMENT: Final = re.compile(r"\{%.*?%\}")
_IMPORT: Final = re.compile(
    r"^[ \t]*((?:from [\w.]+ import (?:\([^)]*\)|[^(\n]+))|import [\w.]+)", re.MULTILINE
)


@dataclass(frozen=True)
class _Surface:
    """The public names by package, and the packages with an API promise."""

    names: Mapping[str, frozenset[str]]
    promising: frozenset[str]

    def breach(self, module: str, name: str | None) -> str | None:
        """Return why an import is not of a public name; None if it is."""
        if module.partition(".")[0] not in self.promising:
            return None
        if name is None:
            return None if module in self.names else f"{module} is not public"
        if name in self.names.get(module, ()) or f"{module}.{name}" in self.names:
            return None
        top = module.partition(".")[0]
        others = [
            each
            for each, names in self.names.items()
            if name in names and each.partition(".")[0] == top
        ]
        if others:
            return f"{module}.{name} is not public; import it from {min(others, key=len)}"
        return f"{module}.{name} is not public"


def breaches(
    root: Path,
    files: Sequence[str],
    projects: Sequence[PublicProject],
    *,
    inside: Mapping[str, str],
) -> list[Finding]:
    """Return the imports of private names in files, without importing anything.

    A project may import all of its own names.

    Args:
        root: The top of the tree.
        files: Paths relative to the root; Python files and code blocks of documents are read.
        projects: The projects with an API promise.
        inside: Patterns of files that may import private names, with the reasons.

    Returns:
        The findings, including patterns that no file needs.
    """
    public = {
        package: frozenset(names)
        for project in projects
        for package, names in project.exports().items()
    }
    needed: set[str] = set()
    found = []
    for path in files:
        own = {each.package for each in projects if path.startswith(f"{each.name}/")}
        if path.endswith(".md"):
            own = set()  # readers of a document are users
        surface = _Surface(public, frozenset(each.package for each in projects) - own)
        there = list(_breaches(root, path, surface))
        allowed = [pattern for pattern in inside if fnmatch(path, pattern)] if there else []
        needed.update(allowed)
        found += [] if allowed else there
    unused = [
        Finding("pyproject.toml", 1, f"no file that matches {pattern} imports a private name")
        for pattern in inside
        if pattern not in needed
    ]
    return sorted([*found, *unused])


def _breaches(root: Path, path: str, surface: _Surface) -> Iterator[Finding]:
    for line, code in _code(root, path):
        if not any(package in code for package in surface.promising):
            continue
        try:
            tree = ast.parse(code)
        except SyntaxError as error:
            yield Finding(path, line + (error.lineno or 1), f"not valid Python: {error.msg}")
            continue
        for at, module, name in _imports(tree):
            if (what := surface.breach(module, name)) is not None:
                yield Finding(path, line + at, what)


def _code(root: Path, path: str) -> Iterator[tuple[int, str]]:
    """Yield the Python code in a file, each block with the number of the line before it."""
    name = _STATEMENT.sub("", path)  # of the generated file
    if not name.endswith((".py", ".md")):
        return
    text = (root / path).read_text(encoding="utf-8")
    if "{{cookiecutter" in path:
        text = _STATEMENT.sub("", text)
        for match in _IMPORT.finditer(text):
            yield text.count("\n", 0, match.start(1)), match[1]
    elif name.endswith(".py"):
        yield 0, text
    else:
        for block in parse(text).blocks:
            if block.language == "python":
                yield block.line, block.code


def _imports(tree: ast.AST) -> Iterator[tuple[int, str, str | None]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.lineno, node.module, each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, each.name, None) for each in node.names)
