# SPDX-License-Identifier: Apache-2.0
"""Generates the reference of a public API as Markdown from the sources, without imports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import griffe

from connector_release_tools.errors import DocsError
from connector_release_tools.site.settings import keywords_of, signature

__all__ = ["Reference"]

_Options = Mapping[str, str]
_Section = griffe.DocstringSectionKind
# Docstring sections with named items, and the Sphinx field of an item.
_FIELDS: Final = {
    _Section.parameters: "param",
    _Section.attributes: "ivar",
    _Section.raises: "raises",
}
_RESULTS: Final = {_Section.returns: "returns", _Section.yields: "yields"}
# Bases that do not help a user.
_NOT_SHOWN: Final = frozenset({"ABC", "Generic", "Protocol", "object"})
_ERROR: Final = re.compile(r"(Error|Exception|Warning)$")
_METHODS: Final = frozenset({"abstractmethod", "classmethod", "staticmethod"})
_MARKS: Final = ("experimental", "deprecated")
_LONGEST_VALUE: Final = 60


@dataclass
class Reference:
    """The public API of a package: the names in the `__all__` of its modules, each described once.

    Attributes:
        sources: The folder that contains the package.
        is_linked: Whether its names are in the index; only one version of a package can be.
        packages: Its public modules. A private base class is not shown, but its members are.
        first: The names that a page describes first, in this order. Classes and functions follow,
            then enumerations, constants, and errors.
    """

    sources: Path
    is_linked: bool = True
    packages: Sequence[str] = ()
    first: Sequence[str] = ()
    _described: set[str] = field(default_factory=set, init=False)
    _loader: griffe.GriffeLoader = field(init=False)

    def __post_init__(self) -> None:
        self._loader = griffe.GriffeLoader(
            search_paths=[self.sources],
            docstring_parser=griffe.Parser.google,
            docstring_options={"warnings": False},
            allow_inspection=False,
        )

    def page(self, name: str) -> str:
        """Return the page of a module, without names that an earlier page describes.

        Args:
            name: The module, such as `connectors_core.source`.

        Raises:
            DocsError: The module or a name in its `__all__` does not exist, or it has no `__all__`.
        """
        module = self._module(name)
        if not module.exports:
            raise DocsError(
                f"{name} has no __all__", hint="add `__all__`, or remove the module from the list"
            )
        # The suffix distinguishes `connector_kafka` from the package's page, `connector-kafka`.
        parts = [f"# {name} API", self._directive("py:module", name), *_text(module)]
        elsewhere = []
        targets = {name: _target(module, name) for name in sorted(map(str, module.exports))}
        for exported, target in sorted(targets.items(), key=lambda each: self._place(*each)):
            if target is None or target.path in self._described:
                elsewhere.append(f"`{exported}`")
            else:
                self._described.add(target.path)
                parts.append(self._object(target, exported))
        if elsewhere:
            parts.append(f"Also exported, and described elsewhere: {', '.join(elsewhere)}.")
        return "\n\n".join(parts) + "\n"

    def _module(self, name: str) -> griffe.Module:
        package = name.partition(".")[0]
        try:
            if package not in self._loader.modules_collection:
                self._loader.load(package)
                self._loader.resolve_aliases(external=False)
            found = self._loader.modules_collection[name]
        except (ImportError, KeyError) as error:
            raise DocsError(f"the module {name} does not exist in {self.sources}") from error
        if not isinstance(found, griffe.Module):
            raise DocsError(f"{name} in {self.sources} is not a module")
        return found

    def _place(self, name: str, target: griffe.Object | None) -> tuple[int, int]:
        """Return the anchor of a name on its page."""
        if name in self.first:
            return -1, self.first.index(name)
        return (0 if target is None else _rank(target)), 0

    def _is_public(self, base: griffe.Object) -> bool:
        """Return whether a class is public; a class of another package is."""
        if base.package.path not in {name.partition(".")[0] for name in self.packages}:
            return not base.name.startswith("_")
        modules = map(self._module, self.packages)
        return any(base.name in map(str, module.exports or ()) for module in modules)

    def _object(self, target: griffe.Object, name: str) -> str:
        if isinstance(target, griffe.Class):
            return self._class(target, name)
        if isinstance(target, griffe.Function):
            return self._directive("py:function", target.signature(name=name), *_text(target))
        if isinstance(target, griffe.Attribute):
            return self._attribute("py:data", target, name)
        raise DocsError(f"{target.path} cannot be described: it is a {target.kind.value}")

    def _class(self, target: griffe.Class, name: str) -> str:
        keywords = keywords_of(target)
        made_by = signature(name, keywords) if keywords else target.signature(name=name) or name
        private = [each for each in _bases(target) if not self._is_public(each)]
        hidden = {each.name for each in private} | _NOT_SHOWN
        shown = [str(base) for base in _public_bases(target, private)]
        bases = ", ".join(
            f"`{base}`" for base in shown if base.partition("[")[0].rpartition(".")[2] not in hidden
        )
        found = {
            name: member
            for each in (*reversed(private), target)
            for name, member in each.members.items()
        }
        members = [self._member(each) for each in found.values() if _is_shown(each)]
        parameters = "\n".join(f":param {each.name}: {each.doc}" for each in keywords)
        given = [parameters] if parameters else []
        text = [*_text(target), *given, *([f"Derives from {bases}."] if bases else [])]
        return self._directive("py:class", made_by, *text, *members, colons=4)

    def _member(self, member: griffe.Object | griffe.Alias) -> str:
        if isinstance(member, griffe.Function):
            options = dict.fromkeys(member.labels & _METHODS, "")
            return self._directive("py:method", member.signature(), *_text(member), options=options)
        if isinstance(member, griffe.Attribute):
            kind = "py:property" if "property" in member.labels else "py:attribute"
            return self._attribute(kind, member, member.name)
        return self._directive("py:class", member.name, *_text(member))

    def _attribute(self, directive: str, target: griffe.Attribute, name: str) -> str:
        value = " ".join(str(target.value or "").split())
        options = {"type": str(target.annotation)} if target.annotation else {}
        if value and len(value) <= _LONGEST_VALUE:
            options["value"] = value
        return self._directive(directive, name, *_text(target), options=options)

    def _directive(
        self, name: str, argument: str, *body: str, options: _Options | None = None, colons: int = 3
    ) -> str:
        given = {**(options or {}), **({} if self.is_linked else {"no-index": ""})}
        lines = [
            f":{key}: {json.dumps(value) if value else ''}".rstrip()  # read as YAML
            for key, value in sorted(given.items())
        ]
        fence = ":" * colons
        return "\n".join([f"{fence}{{{name}}} {argument}", *lines, "", "\n\n".join(body), fence])


def _target(module: griffe.Module, name: str) -> griffe.Object | None:
    """Return the object that a module exports as a name; None for one of another package."""
    try:
        found = module[name]
        return found.final_target if isinstance(found, griffe.Alias) else found
    except griffe.AliasResolutionError:
        return None
    except KeyError as error:
        raise DocsError(f"{module.path}.__all__ lists {name}, which does not exist") from error


def _bases(target: griffe.Class) -> list[griffe.Class]:
    """Return the bases of a class that the sources contain, nearest first."""
    try:
        return target.mro()
    except ValueError:
        return []


def _public_bases(
    target: griffe.Class, private: Sequence[griffe.Class]
) -> Iterator[str | griffe.Expr]:
    """Return the public bases of a class, including those of its private bases."""
    for each in (target, *private):
        yield from each.bases


def _rank(target: griffe.Object) -> int:
    """Return the sort key of an object on a page."""
    if isinstance(target, griffe.Class):
        if _ERROR.search(target.name):
            return 3
        bases = {str(base).rpartition(".")[2] for base in target.bases}
        return 1 if bases & {"Enum", "StrEnum", "IntEnum", "Flag"} else 0
    return 2 if isinstance(target, griffe.Attribute) else 0


def _is_shown(member: griffe.Object | griffe.Alias) -> bool:
    """Return the members with a docstring, and the values of an enumeration."""
    if member.is_alias or member.name.startswith("_"):
        return False
    is_value = member.is_attribute and member.name.isupper()
    return member.docstring is not None or is_value


def _text(target: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Return the docstring with the stability mark, if any."""
    decorators = getattr(target, "decorators", [])
    names = [str(each.value).partition("(")[0] for each in decorators]
    yield from (f"*{name.capitalize()}.*" for name in names if name in _MARKS)
    if target.docstring is not None:
        for section in target.docstring.parsed:
            yield _section(target, section)


def _section(target: griffe.Object | griffe.Alias, section: griffe.DocstringSection) -> str:
    if section.kind is _Section.text:
        return str(section.value)
    if section.kind in _FIELDS:
        role = _FIELDS[section.kind]
        return "\n".join(
            f":{role} {getattr(item, 'name', item.annotation)}: {_indented(item.description)}"
            for item in section.value
        )
    if section.kind in _RESULTS:
        said = " ".join(item.description for item in section.value)
        return f":{_RESULTS[section.kind]}: {_indented(said)}"
    if section.kind is _Section.admonition:
        return f"**{section.title}:** {section.value.description}"
    raise DocsError(
        f"the docstring of {target.path} has an unsupported section: {section.kind.value}"
    )


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n  ")
