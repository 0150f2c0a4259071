# SPDX-License-Identifier: Apache-2.0
"""Server plugins, compiled where they are used."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from connector_elasticsearch.testing.errors import ElasticsearchServerError

__all__ = ["SECURITY_INDEX", "Plugin"]


@dataclass(frozen=True)
class Plugin:
    """A plugin, as a folder of sources.

    Attributes:
        name: The name of the plugin.
        folder: The Java sources and the files that Elasticsearch needs next to its classes.
            `$version` in them is replaced by the server's version.
    """

    name: str
    folder: Path

    def install(self, home: Path, version: str, java_home: Path) -> None:
        """Compile it and add it to an unpacked distribution.

        Args:
            home: The distribution.
            version: The version of the distribution.
            java_home: A Java with a compiler.

        Raises:
            ElasticsearchServerError: It could not be compiled.
        """
        target = home / "plugins" / self.name
        target.mkdir()
        with tempfile.TemporaryDirectory() as classes:
            self._compile(home, Path(classes), java_home)
            with zipfile.ZipFile(target / f"{self.name}.jar", "w") as jar:
                for path in sorted(Path(classes).rglob("*.class")):
                    jar.write(path, path.relative_to(classes))
        for path in self.folder.iterdir():
            if path.suffix in {".json", ".properties"}:
                text = Template(path.read_text(encoding="utf-8")).substitute(version=version)
                (target / path.name).write_text(text, encoding="utf-8")

    def _compile(self, home: Path, classes: Path, java_home: Path) -> None:
        command = [str(java_home / "bin" / "javac"), "--release", "17", "-d", str(classes)]
        command += ["-cp", os.pathsep.join(map(str, (home / "lib").glob("*.jar")))]
        command += map(str, sorted(self.folder.glob("*.java")))
        if shutil.which(command[0]) is None:
            raise ElasticsearchServerError(
                f"the plugin {self.name} needs Java's compiler",
                expected=command[0],
                hint="install a JDK, or do without the plugin (and without API keys)",
            )
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        if done.returncode:
            raise ElasticsearchServerError(
                f"the plugin {self.name} could not be compiled", found=done.stderr
            )


SECURITY_INDEX: Final = Plugin("security-index", Path(__file__).parent / "security_index")
"""The parts of `analysis-common`, missing from the distribution, that the index of API keys needs.

They are a plugin of Elasticsearch's stable API.
"""
