# SPDX-License-Identifier: Apache-2.0
"""The imports between the modules of a package, read from the sources without importing them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

__all__ = ["ImportGraph", "Imported", "imported", "module_of"]

_INIT: Final = "__init__"

# A module, and the name that is imported from it; None for the module as a whole.
Imported = tuple[str, str | None]


@dataclass(frozen=True)
class ImportGraph:
    """The modules below a folder of sources, and what each of them imports.

    A package that only collects names of its modules, as an API does, imports nothing itself: who
    imports one of its names depends on the module of this name, not on its siblings.

    Attributes:
        homes: The imported names of each package that only collects names.
        imports: The modules that each module depends on.
    """

    homes: Mapping[str, Mapping[str, Imported]]
    imports: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, sources: Path) -> Self:
        """Read all modules below a folder; none if it does not exist.

        Raises:
            SyntaxError: A module is not valid Python.
        """
        paths = {module_of(str(path.relative_to(sources))): path for path in sources.rglob("*.py")}
        trees = {name: ast.parse(path.read_text("utf-8")) for name, path in paths.items()}
        homes = {
            name: _collected(tree, name)
            for name, tree in trees.items()
            if paths[name].stem == _INIT and _only_collects(tree)
        }
        bare = cls(homes, dict.fromkeys(trees, frozenset()))
        imports = {
            name: bare.modules(
                _own_imports(tree, homes[name])
                if name in homes
                else imported(tree, name if paths[name].stem == _INIT else name.rpartition(".")[0])
            )
            for name, tree in trees.items()
        }
        return cls(homes, imports)

    def modules(self, names: Iterable[Imported]) -> frozenset[str]:
        """Return the modules of this graph that some imports load directly."""
        found: set[str] = set()
        for module, name in names:
            found.update(self._loaded(module, name))
        return frozenset(found)

    def reached(self, names: Iterable[Imported]) -> frozenset[str]:
        """Return the modules of this graph that some imports load, directly or not."""
        found: set[str] = set()
        left = list(self.modules(names))
        while left:
            if (module := left.pop()) not in found:
                found.add(module)
                left += self.imports[module]
        return frozenset(found)

    def _loaded(self, module: str, name: str | None) -> Iterator[str]:
        if module.endswith("."):  # the rest of the name is known when the code runs
            yield from (each for each in self.imports if each.startswith(module))
        if name is not None and f"{module}.{name}" in self.imports:
            module, name = f"{module}.{name}", None
        if module not in self.imports and name is None:  # the path of an object
            module, _, name = module.rpartition(".")
        if module not in self.imports:
            return
        yield module
        yield from (each for each in _parents(module) if each in self.imports)
        homes = self.homes.get(module, {})
        wanted = [homes[name]] if name is not None and name in homes else homes.values()
        for home in wanted:
            yield from self._loaded(*home)


def imported(tree: ast.AST, package: str = "") -> Iterator[Imported]:
    """Yield the imports of a module, including those in functions.

    A text that looks like a module, as in a table of lazy imports, counts as its import. A text
    that ends with a dot counts as the import of all modules of this package.

    Args:
        tree: The module.
        package: The package that relative imports begin at.
    """
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(names=names):
                module = _absolute(node, package)
                yield from ((module, each.name) for each in names)
            case ast.Import(names=names):
                yield from ((each.name, None) for each in names)
            case ast.Constant(value=str(text)) if "." in text and text.isascii():
                module, _, name = text.partition(":")
                yield module, name or None


def module_of(path: str) -> str:
    """Return the module of a path relative to the folder of the sources."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == _INIT else parts)


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """Return the module of an import, relative or not."""
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1]
    return ".".join([*above, *([node.module] if node.module else [])])


def _parents(module: str) -> list[str]:
    """Return the packages that Python imports before a module."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _only_collects(tree: ast.Module) -> bool:
    return not any(
        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        or (isinstance(each, ast.alias) and each.name == "*")
        for each in ast.walk(tree)
    )


def _collected(tree: ast.Module, package: str) -> dict[str, Imported]:
    return {
        each.asname or each.name: (_absolute(node, package), each.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for each in node.names
    }


def _own_imports(tree: ast.Module, homes: Mapping[str, Imported]) -> Iterator[Imported]:
    """Yield what a package imports for itself: no text of it, as in `__all__`, names it."""
    texts = {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)}
    yield from (home for name, home in homes.items() if name not in texts)
