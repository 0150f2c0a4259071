# SPDX-License-Identifier: Apache-2.0
"""A package index as a folder of files, which any web server can serve.

simple/index.html, index.json            the projects
simple/<project>/index.html, index.json  its files, with their hashes
simple/<project>/<file>                  a wheel or a source distribution
simple/<project>/<file>.metadata         the metadata that an installer reads first
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from connector_release_tools.distributions import Distribution
from connector_release_tools.errors import IndexFolderError
from connector_release_tools.index import pages
from connector_release_tools.index.pages import IndexFile

__all__ = ["DirectoryIndex"]

_HTML: Final = "index.html"
_JSON: Final = "index.json"
_METADATA: Final = ".metadata"
_SUFFIXES: Final = (".whl", ".tar.gz")


@dataclass(frozen=True)
class DirectoryIndex:
    """A package index.

    Attributes:
        folder: Its folder; created with the first file.
    """

    folder: Path

    @property
    def simple(self) -> Path:
        """The folder that installers read."""
        return self.folder / "simple"

    def projects(self) -> list[str]:
        """Return the names of the projects."""
        if not self.simple.is_dir():
            return []
        return sorted(
            each.name
            for each in self.simple.iterdir()
            if each.is_dir() and not each.is_symlink() and not each.name.startswith(".")
        )

    def files(self, project: str) -> list[Distribution]:
        """Return the distributions of a project."""
        folder = self.simple / canonicalize_name(project)
        if not folder.is_dir():
            return []
        listed = sorted(folder.iterdir())
        return [Distribution.of(each) for each in listed if each.name.endswith(_SUFFIXES)]

    def find(self, name: str) -> Distribution | None:
        """Return the distribution with this file name; None if the index has none."""
        found = (file for project in self.projects() for file in self.files(project))
        return next((file for file in found if file.path.name == name), None)

    def check(self, file: Distribution) -> bool:
        """Return whether a distribution is in the index.

        Raises:
            IndexFolderError: A different file has its name.
        """
        there = self.find(file.path.name)
        if there is not None and there.sha256 != file.sha256:
            raise IndexFolderError(
                f"{self.folder} has {file.path.name} with sha256 {there.sha256}, "
                f"but the new file has {file.sha256}",
                hint="release the next version; a released file is never replaced",
            )
        return there is not None

    def add(self, file: Distribution, *, replace: bool = False) -> bool:
        """Add a copy of a distribution.

        Args:
            file: The distribution.
            replace: Whether to replace a file of the same name with other contents. Never use it
                for an index that people install from: they would get other bytes under the same
                name.

        Returns:
            Whether the index has changed; False if it already contains the file.

        Raises:
            DistributionError: Its metadata is invalid.
            IndexFolderError: The index has a file of the same name with other contents.
        """
        described = IndexFile.of(file)
        if replace and (there := self.find(file.path.name)) and there.sha256 != file.sha256:
            self.remove(file.path.name)
        if self.check(file):
            self._write_pages(file.project)  # a previous call may have ended before this step
            return False
        folder = self.simple / file.project
        folder.mkdir(parents=True, exist_ok=True)
        if described.metadata is not None:  # first, as a page must not name a missing file
            _write(folder / f"{described.name}{_METADATA}", file.metadata_file, replace=True)
        _write(folder / described.name, file.path.read_bytes(), replace=False)
        self._write_pages(file.project)
        return True

    def remove(self, name: str) -> bool:
        """Remove a distribution.

        Returns:
            Whether the index has changed; False if it does not contain the file.
        """
        if (file := self.find(name)) is None:
            return False
        folder = file.path.parent
        file.path.unlink()
        (folder / f"{name}{_METADATA}").unlink(missing_ok=True)
        if self.files(file.project):
            self._write_pages(file.project)
        else:
            for page in (_HTML, _JSON):
                (folder / page).unlink(missing_ok=True)
            folder.rmdir()
            self._write_root()
        return True

    def _write_pages(self, project: str) -> None:
        files = [IndexFile.of(file) for file in self.files(project)]
        folder = self.simple / project
        _write(folder / _HTML, pages.project_html(project, files).encode(), replace=True)
        _write(folder / _JSON, pages.project_json(project, files).encode(), replace=True)
        self._write_root()

    def _write_root(self) -> None:
        projects = self.projects()
        _write(self.simple / _HTML, pages.root_html(projects).encode(), replace=True)
        _write(self.simple / _JSON, pages.root_json(projects).encode(), replace=True)


def _write(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a file atomically; without `replace`, only if it does not exist."""
    with tempfile.TemporaryDirectory(prefix=".adding-", dir=path.parent.parent) as scratch:
        written = Path(scratch) / path.name
        written.write_bytes(content)
        if replace:
            written.replace(path)
        else:
            os.link(written, path)
