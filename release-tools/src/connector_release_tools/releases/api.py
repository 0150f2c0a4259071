# SPDX-License-Identifier: Apache-2.0
"""The public API of a connector, compared between two states of its folder without importing it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import griffe

from connector_release_tools.git import Repository

__all__ = ["breaking_changes"]

_EXPERIMENTAL: Final = "experimental"


def breaking_changes(repository: Repository, package: str, old: str, new: str) -> list[str]:
    """What users of the old state cannot do with the new one.

    Public is what the package exports (`__all__`) and is not marked `@experimental`.

    Args:
        repository: The repository.
        package: The name that Python imports.
        old: The tree of the connector's folder in the previous release.
        new: The tree of its folder now.

    Returns:
        The changes, one line each.

    Raises:
        GitError: A tree is not in this clone.
    """
    with tempfile.TemporaryDirectory(prefix="release-tools-") as scratch:
        modules = []
        for tree, name in ((old, "old"), (new, "new")):
            repository.export(tree, Path(scratch, name))
            modules.append(_load(package, Path(scratch, name, "src")))
        return sorted(set(_changes(*modules)))


def _load(package: str, sources: Path) -> Any:
    module: Any = griffe.load(package, search_paths=[sources], allow_inspection=False)
    for member in module.members.values():
        if not member.is_alias and member.is_module:
            member.public = False  # what it defines is public only if the package exports it
    return module


def _changes(old: Any, new: Any) -> Iterator[str]:
    for name, member in old.members.items():
        there = new.members.get(name)
        if member.is_public and there is not None and not there.is_public:
            yield f"{member.path}: is no longer exported"
    for change in griffe.find_breaking_changes(old, new):
        if not _is_allowed(change):
            yield f"{_place(change)}: {_said(change)}"


def _is_allowed(change: griffe.Breakage) -> bool:
    """Whether what changed was never promised: a constant's value, an experimental object."""
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
    """The path of what changed, as users write it."""
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
