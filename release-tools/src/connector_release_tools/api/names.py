# SPDX-License-Identifier: Apache-2.0
"""Reads public names with their kind, first sentence, and stability from the sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import griffe

from connector_release_tools.errors import ApiError

__all__ = ["PublicName", "public_names"]

_SENTENCE: Final = re.compile(r".+?(?:[.!?](?=\s|$)|(?=\n\n)|$)", re.DOTALL)
_DEPRECATED: Final = re.compile(r"Deprecated since [^;:.]*(?:\.\d[^;:.]*)*")
_ENUMS: Final = frozenset({"Enum", "Flag", "IntEnum", "IntFlag", "StrEnum"})


@dataclass(frozen=True)
class PublicName:
    """A name in the `__all__` of a public package.

    Attributes:
        package: The package.
        name: The name.
        kind: Its kind in one word.
        sentence: The first sentence of its documentation.
        stability: stable, experimental, or since when it is deprecated.
    """

    package: str
    name: str
    kind: str
    sentence: str
    stability: str


def public_names(sources: Sequence[Path], packages: Sequence[str]) -> Iterator[PublicName]:
    """Return the public names of packages, in the order of the packages, then by name.

    Args:
        sources: The folders that contain the packages.
        packages: The packages.

    Raises:
        ApiError: An `__all__` lists a name that does not exist or has no docstring.
    """
    loader = griffe.GriffeLoader(search_paths=sources, allow_inspection=False)
    for top in dict.fromkeys(each.partition(".")[0] for each in packages):
        loader.load(top)
    loader.resolve_aliases(external=False)
    for package in packages:
        module = loader.modules_collection[package]
        for name in sorted(map(str, module.exports or ()), key=str.casefold):
            yield _named(module, name)


def _named(module: griffe.Module, name: str) -> PublicName:
    try:
        member = module[name]
        target = member.final_target if isinstance(member, griffe.Alias) else member
    except (KeyError, griffe.AliasResolutionError) as error:
        raise ApiError(f"{module.path}.__all__ lists {name}, which does not exist") from error
    if target.docstring is None:
        raise ApiError(f"{target.path} is public and has no docstring")
    match = _SENTENCE.match(target.docstring.value.strip())
    sentence = " ".join(match[0].split()).rstrip(":") if match else ""
    return PublicName(module.path, name, _kind(target), sentence, _stability(target, sentence))


def _kind(target: griffe.Object) -> str:
    if isinstance(target, griffe.Class):
        bases = {base.rpartition(".")[2] for base in _bases(target)}
        if any(base.endswith(("Error", "Exception")) for base in bases):
            return "error"
        return "enumeration" if bases & _ENUMS else "class"
    if isinstance(target, griffe.Function):
        return "function"
    return "module" if isinstance(target, griffe.Module) else "constant"


def _bases(target: griffe.Class) -> Iterator[str]:
    yield from (str(getattr(base, "canonical_path", base)) for base in target.bases)
    for base in target.resolved_bases:
        if isinstance(base, griffe.Class):
            yield from _bases(base)


def _stability(target: griffe.Object, sentence: str) -> str:
    for mark in getattr(target, "decorators", ()):
        name = str(mark.callable_path).rpartition(".")[2]
        if name == "experimental":
            return name
        if name == "deprecated":
            given = {
                each.name: str(each.value).strip("'\"")
                for each in getattr(mark.value, "arguments", ())
            }
            return f"deprecated since {given['since']}"
    if match := _DEPRECATED.match(sentence):
        return match[0][:1].lower() + match[0][1:]
    return "stable"
