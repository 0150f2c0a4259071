# SPDX-License-Identifier: Apache-2.0
"""Fresh Python environments, created by uv with the tested versions."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from uv import find_uv_bin

from connector_release_tools.programs import output
from connector_release_tools.versions import SparkLine

__all__ = ["Environment", "constraints", "wheelhouse"]

# Variables of the current process that a new environment must not inherit.
_FOREIGN: Final = (
    "COVERAGE", "PYSPARK", "PYTEST", "PYTHON", "SPARK_HOME", "TOX", "UV_CONSTRAINT",
    "UV_FIND_LINKS", "UV_PROJECT", "VIRTUAL_ENV",
)  # fmt: skip
_PIN: Final = re.compile(r"^[A-Za-z0-9._-]+(?:\[[^]]*\])?==[^ ;\\\n]+", re.MULTILINE)
_VERSIONS: Final = """
import importlib.metadata as m, json
print(json.dumps({d.metadata["Name"].lower().replace("_", "-").replace(".", "-"): d.version
                  for d in m.distributions()}))
"""


def wheelhouse() -> Path:
    """`make wheelhouse` stores pyspark wheels here, because the index has only its sources."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "connectors" / "wheelhouse"


def constraints(root: Path, spark_line: SparkLine) -> list[str]:
    """Return the tested versions for a Spark line, from the compiled requirements of a tree.

    Args:
        root: The top of the tree.
        spark_line: The Spark line.

    Returns:
        Requirements such as `pyspark==3.5.9`; empty if the tree has no such files.
    """
    short = str(spark_line).replace(".", "")
    files = [root / "requirements" / f"{kind}{short}.txt" for kind in ("spark", "pyspark")]
    texts = (file.read_text(encoding="utf-8") for file in files if file.exists())
    return [pin for text in texts for pin in _PIN.findall(text)]


@dataclass(frozen=True)
class Environment:
    """A virtual environment.

    Attributes:
        folder: Its folder.
    """

    folder: Path

    @classmethod
    def create(cls, folder: Path, *, python: str | Path = sys.executable) -> Environment:
        """Create an empty environment.

        Raises:
            ProgramError: uv fails.
        """
        output(
            (find_uv_bin(), "venv", "-q", "--clear", "--python", python, folder),
            folder=folder.parent,
            env=cls(folder).variables(),
        )
        return cls(folder)

    @property
    def python(self) -> Path:
        """The path of its Python."""
        return self.folder / "bin" / "python"

    def install(
        self,
        *requirements: str | Path,
        constraints: Sequence[str] = (),
        find_links: Sequence[Path] = (),
    ) -> None:
        """Install packages.

        Args:
            requirements: Requirements, or paths of distributions.
            constraints: Requirements that limit the versions.
            find_links: Additional folders with distributions.

        Raises:
            ProgramError: uv fails; the message contains its output.
        """
        wanted = self.folder / "constraints.txt"
        wanted.write_text("\n".join(constraints) + "\n", encoding="utf-8")
        links = [wheelhouse(), *find_links]
        options = [f"--find-links={link}" for link in links if link.is_dir()]
        output(
            (find_uv_bin(), "pip", "install", "-q", "--python", self.python, "--constraint",
             wanted, *options, *requirements),
            folder=self.folder,
            env=self.variables(),
        )  # fmt: skip

    def variables(self) -> dict[str, str]:
        """Environment variables for programs in it, so that Spark's workers use its Python."""
        kept = {name: it for name, it in os.environ.items() if not name.startswith(_FOREIGN)}
        path = os.pathsep.join([str(self.folder / "bin"), kept.get("PATH", os.defpath)])
        return {
            **kept,
            "PATH": path,
            "PYSPARK_PYTHON": str(self.python),
            "UV_PYTHON_DOWNLOADS": "never",
            "VIRTUAL_ENV": str(self.folder),
        }

    def run(self, *arguments: str | Path, folder: Path) -> str:
        """Run its Python and return the output.

        Raises:
            ProgramError: Python fails.
        """
        return output((self.python, *arguments), folder=folder, env=self.variables())

    def versions(self) -> dict[str, str]:
        """The versions of the installed packages, by normalized name."""
        found: dict[str, str] = json.loads(self.run("-c", _VERSIONS, folder=self.folder))
        return found
