# SPDX-License-Identifier: Apache-2.0
"""Runs a class of Kafka with a fast start, a small heap, and only relevant output."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import Final

from connector_kafka.testing.jars import class_path
from connectors_core.testing.servers import cache_folder, find_java

# For short runs, fast compilation matters more than optimized code.
_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)


class KafkaJava:
    """Runs classes of one version of Kafka.

    Loading classes takes half of the startup time. A run can leave its classes in an archive for
    later runs (Java's AppCDS, JEP 350). A Java that does not match the archive ignores it.

    Args:
        version: A pinned version of Kafka.
    """

    def __init__(self, version: str) -> None:
        self._version = version

    def command(
        self, main: str, *arguments: str, heap: str = "256m", archive: Path | None = None
    ) -> list[str]:
        """Return the command that starts a class. Missing jars are downloaded.

        Args:
            main: The name of the class.
            *arguments: The arguments of the class.
            heap: The maximum heap size, in Java's notation.
            archive: The file for the loaded classes if the class ends normally and `keep` has no
                archive yet.
        """
        options = [*_OPTIONS, f"-Xmx{heap}"]
        if self._kept.exists():
            options.append(f"-XX:SharedArchiveFile={self._kept}")
        elif archive is not None:
            options.append(f"-XX:ArchiveClassesAtExit={archive}")
        return [find_java(), *options, "-cp", self._classes, main, *arguments]

    def keep(self, archive: Path) -> None:
        """Keep the archive of `command` in the user's cache, if it was created."""
        if archive.exists():
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            # The cache can be on another disk, and other processes can do the same concurrently.
            copy = self._kept.with_name(f"{self._kept.name}.{os.getpid()}")
            shutil.move(archive, copy)
            copy.replace(self._kept)

    @cached_property
    def _classes(self) -> str:
        return class_path(f"kafka-{self._version}")

    @cached_property
    def _kept(self) -> Path:
        java = Path(find_java()).resolve()
        fits = f"{java} {java.stat().st_mtime_ns} {self._classes}"
        digest = hashlib.sha256(fits.encode()).hexdigest()[:16]
        return cache_folder() / "classes" / f"kafka-{self._version}-{digest}.jsa"
