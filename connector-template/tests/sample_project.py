# SPDX-License-Identifier: Apache-2.0
"""Samples: connectors that were generated, and then written for a system.

A folder in `samples` has the answers of the template, and only the files that an author writes or
edits. Laid over a new project with these answers, they are the connector.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit

DECLARATION = "sample.toml"
SAMPLES = sorted((Path(__file__).parent / "samples").glob("connector-*"))


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The changes of an author to a new project.

    Attributes:
        folder: The folder of the sample.
        answers: The answers of the template.
        dependencies: The requirements that the connector adds to the generated ones.
        test_dependencies: The requirements that its tests add.
        added: Its files that the template does not generate.
        deleted: The generated files that it does not need.
    """

    folder: Path
    answers: Mapping[str, Any]
    dependencies: tuple[str, ...]
    test_dependencies: tuple[str, ...]
    added: frozenset[str]
    deleted: frozenset[str]

    @classmethod
    def in_folder(cls, folder: Path) -> Sample:
        """Read the declaration of a sample."""
        found = tomllib.loads((folder / DECLARATION).read_text(encoding="utf-8"))
        sample = cls(
            folder=folder,
            answers=found.pop("answers"),
            dependencies=tuple(found.pop("dependencies", ())),
            test_dependencies=tuple(found.pop("test-dependencies", ())),
            added=frozenset(found.pop("added", ())),
            deleted=frozenset(found.pop("deleted", ())),
        )
        assert not found, f"{DECLARATION}: unknown keys {list(found)}"
        return sample

    def files(self) -> frozenset[str]:
        """Return the paths of the sample's files in the project."""
        return frozenset(
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if path.is_file() and path.suffix != ".pyc" and path.name != DECLARATION
        )

    def misfits(self, project: Path) -> Iterator[str]:
        """Yield what does not fit a new project: the template may have changed."""
        for name in sorted(self.added | self.files()):
            file, new = project / name, name in self.added
            if not (self.folder / name).is_file():
                yield f"{name}: `added` lists it, and the sample lacks it"
            elif file.exists() and new:
                yield f"{name}: the template generates it; remove it from `added`"
            elif not file.exists() and not new:
                yield f"{name}: the template does not generate it; rename it, or add it to `added`"
            elif not new and file.read_bytes() == (self.folder / name).read_bytes():
                yield f"{name}: it is as generated; delete it from the sample"
        for name in sorted(self.deleted):
            if name in self.files():
                yield f"{name}: the sample has it; remove it from `deleted`"
            elif not (project / name).is_file():
                yield f"{name}: the template does not generate it; remove it from `deleted`"

    def lay_over(self, project: Path) -> None:
        """Turn a new project into the connector."""
        for name in self.deleted:
            (project / name).unlink()
        for name in self.files():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self.folder / name, project / name)
        path = project / "pyproject.toml"
        document: Any = tomlkit.parse(path.read_text(encoding="utf-8"))
        document["tool"]["connector"]["dependencies"].extend(self.dependencies)
        document["dependency-groups"]["test"].extend(self.test_dependencies)
        path.write_text(tomlkit.dumps(document), encoding="utf-8")
