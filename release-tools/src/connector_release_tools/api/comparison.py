# SPDX-License-Identifier: Apache-2.0
"""Compares the public API of a package between two states of its folder, without importing it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import griffe

from connector_release_tools.api.promise import Promise
from connector_release_tools.git import Repository
from connector_release_tools.matrix.project import PYPROJECT

__all__ = ["Break", "breaking_changes", "not_allowed"]

_EXPERIMENTAL: Final = "experimental"


@dataclass(frozen=True, order=True)
class Break:
    """A change that breaks users of the old state.

    Attributes:
        path: The public name.
        what: The kind of change.
    """

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def breaking_changes(repository: Repository, old: str, new: str) -> list[Break]:
    """Return the changes that break users of the old state.

    A name is public if it is in the `__all__` of a package that the old state lists. Names marked
    `@experimental` are excluded.

    Args:
        repository: The repository.
        old: The tree of the package's folder in the previous release.
        new: The tree of its folder now.

    Raises:
        GitError: A tree is not in this clone.
        ConnectorFolderError: The old tree is not a package.
    """
    promise = Promise.parse(repository.text(f"{old}:{PYPROJECT}"), f"{PYPROJECT} of {old[:10]}")
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        states = []
        for tree, name in ((old, "old"), (new, "new")):
            repository.export(tree, Path(scratch, name))
            states.append(_load(promise.packages, Path(scratch, name, "src")))
        before, now = states
    found: set[Break] = set()
    for package in promise.packages:
        if package not in now:
            found.add(Break(package, "public package was removed"))
        elif package in before:
            found.update(_changes(before[package], now[package]))
    return sorted(found)


def not_allowed(found: list[Break], allowed: Mapping[str, str]) -> tuple[list[Break], list[str]]:
    """Return the breaks without a reason, and the reasons without a break.

    Args:
        found: The breaks.
        allowed: A reason for each name; it also covers the name's members.
    """
    used: set[str] = set()
    left = []
    for each in found:
        names = [
            name
            for name in allowed
            if each.path == name or each.path.startswith((f"{name}.", f"{name}("))
        ]
        used.update(names)
        if not names:
            left.append(each)
    return left, [name for name in allowed if name not in used]


def _load(packages: tuple[str, ...], sources: Path) -> dict[str, Any]:
    """Load the existing packages of the list, by name."""
    loader = griffe.GriffeLoader(search_paths=[sources], allow_inspection=False)
    top: Any = loader.load(packages[0].partition(".")[0])
    for module in _modules(top):
        module.public = False  # its definitions are public only if a listed package exports them
    found = {}
    for package in packages:
        try:
            found[package] = loader.modules_collection[package]
        except KeyError:
            continue
    return found


def _modules(module: Any) -> Iterator[Any]:
    for member in module.members.values():
        if not member.is_alias and member.is_module:
            yield member
            yield from _modules(member)


def _changes(old: Any, new: Any) -> Iterator[Break]:
    for name, member in old.members.items():
        there = new.members.get(name)
        if member.is_public and there is not None and not there.is_public:
            yield Break(member.path, "is no longer exported")
    for change in griffe.find_breaking_changes(old, new):
        if not _is_allowed(change):
            yield Break(_place(change), _said(change))


def _is_allowed(change: griffe.Breakage) -> bool:
    """Return whether the change is allowed: a constant's value or an experimental object."""
    changed: Any = change.obj
    if change.kind is griffe.BreakageKind.ATTRIBUTE_CHANGED_VALUE and changed.parent.is_module:
        return True
    while changed is not None:
        marks = (mark.callable_path for mark in getattr(changed, "decorators", ()))
        if any(mark.rpartition(".")[2] == _EXPERIMENTAL for mark in marks):
            return True
        changed = changed.parent
    return False


def _place(change: griffe.Breakage) -> str:
    """Return the public path of a change."""
    parameter = change.old_value if change.old_value is not None else change.new_value
    return f"{change.obj.path}({parameter.name})" if _is_parameter(parameter) else change.obj.path


def _said(change: griffe.Breakage) -> str:
    said = change.kind.value[:1].lower() + change.kind.value[1:]
    values = (change.old_value, change.new_value)
    if None in values or any(_is_parameter(value) for value in values):
        return said
    return f"{said}: {values[0]} -> {values[1]}"


def _is_parameter(value: object) -> bool:
    return isinstance(value, griffe.Parameter)
