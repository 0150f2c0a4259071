# SPDX-License-Identifier: Apache-2.0
"""A small repository with its command line."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from click.testing import Result
from typer.testing import CliRunner

from connector_release_tools.cli import app


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class GitTree:
    root: Path

    @classmethod
    def new(cls, root: Path, files: Mapping[str, str]) -> Self:
        root.mkdir(parents=True)
        git(root, "init", "--quiet", "--initial-branch=main")
        tree = cls(root)
        tree.commit(files)
        return tree

    def copy(self, root: Path) -> Self:
        shutil.copytree(self.root, root, symlinks=True)
        return replace(self, root=root)

    def commit(self, files: Mapping[str, str | None] | None = None, *, sign: bool = False) -> str:
        """Write files (None removes one) and commit everything."""
        for name, content in (files or {}).items():
            path = self.root / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
        git(self.root, "add", "--all")
        signed = ["--signoff"] if sign else []
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", "a change", *signed)
        return self.head()

    def head(self) -> str:
        return git(self.root, "rev-parse", "HEAD")

    def text(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    def replaced(self, name: str, old: str, new: str) -> dict[str, str | None]:
        """Return a change for `commit` that replaces words in a file."""
        text = self.text(name)
        assert old in text
        return {name: text.replace(old, new)}

    def invoke(self, *arguments: str, input: str | None = None) -> Result:
        """Run `release-tools ...` in the repository."""
        result = CliRunner().invoke(app, [*arguments, "--root", str(self.root)], input=input)
        assert result.exception is None or isinstance(result.exception, SystemExit), (
            result.exception
        )
        return result
