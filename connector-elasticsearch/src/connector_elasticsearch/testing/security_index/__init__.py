# SPDX-License-Identifier: Apache-2.0
"""What Elasticsearch's index of API keys needs of a module that the distribution lacks.

The index is made with three parts of `analysis-common`. They are a plugin of Elasticsearch's
stable API here, compiled where it is used.
"""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from connector_elasticsearch.testing.errors import ElasticsearchServerError

_SOURCES = Path(__file__).parent


def install(home: Path, version: str, java_home: Path) -> None:
    """Compile the plugin and put it into an unpacked distribution.

    Args:
        home: The distribution.
        version: Its version.
        java_home: A Java with its compiler.

    Raises:
        ElasticsearchServerError: It could not be compiled.
    """
    plugin = home / "plugins" / "security-index"
    classes = plugin / "classes"
    classes.mkdir(parents=True)
    command = [str(java_home / "bin" / "javac"), "--release", "17", "-d", str(classes)]
    command += ["-cp", os.pathsep.join(map(str, (home / "lib").glob("*.jar")))]
    command += map(str, sorted(_SOURCES.glob("*.java")))
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    except FileNotFoundError as error:
        raise ElasticsearchServerError(
            "a server with API keys needs Java's compiler",
            expected=command[0],
            hint="install a JDK, or do without API keys",
        ) from error
    except subprocess.CalledProcessError as error:
        raise ElasticsearchServerError(
            "the plugin for API keys could not be compiled", found=error.stderr
        ) from error
    with zipfile.ZipFile(plugin / "security-index.jar", "w") as jar:
        for path in sorted(classes.rglob("*.class")):
            jar.write(path, path.relative_to(classes))
            path.unlink()
    for folder in sorted([classes, *classes.rglob("*")], reverse=True):
        folder.rmdir()
    components = (_SOURCES / "named_components.json").read_text(encoding="utf-8")
    (plugin / "named_components.json").write_text(components, encoding="utf-8")
    descriptor = {
        "name": "security-index",
        "description": "What the index of API keys needs",
        "version": "1",
        "java.version": "17",
        "elasticsearch.version": version,
    }
    lines = "".join(f"{name}={value}\n" for name, value in descriptor.items())
    (plugin / "stable-plugin-descriptor.properties").write_text(lines, encoding="utf-8")
