# SPDX-License-Identifier: Apache-2.0
"""How a class of Kafka is run: quick to start, small, with nothing but what it has to say."""

from __future__ import annotations

import hashlib
import os
import shutil
from functools import cached_property
from pathlib import Path
from typing import Final

from connector_kafka.testing.jars import class_path
from connectors_core.testing.servers import cache_folder, find_java

# Short lives: quick compilation counts, not the best code.
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

    Half the time of a start is the loading of classes. A run that is told to leaves them in an
    archive (Java's AppCDS, JEP 350) for those to come; a Java that the archive does not fit ignores
    it.

    Args:
        version: Of Kafka, one that is pinned.
    """

    def __init__(self, version: str) -> None:
        self._version = version

    def command(
        self, main: str, *arguments: str, heap: str = "256m", archive: Path | None = None
    ) -> list[str]:
        """What starts a class; fetches the jars where they are missing.

        Args:
            main: The class.
            *arguments: What it is given.
            heap: The most memory for objects, as Java spells it.
            archive: File that the classes it loaded are to be left in when it ends in good order,
                where `keep` has none yet.
        """
        options = [*_OPTIONS, f"-Xmx{heap}"]
        if self._kept.exists():
            options.append(f"-XX:SharedArchiveFile={self._kept}")
        elif archive is not None:
            options.append(f"-XX:ArchiveClassesAtExit={archive}")
        return [find_java(), *options, "-cp", self._classes, main, *arguments]

    def keep(self, archive: Path) -> None:
        """Keep an archive of `command` in the user's cache, if it was made."""
        if archive.exists():
            self._kept.parent.mkdir(parents=True, exist_ok=True)
            # The cache may be on another disk, and others may do the same at the same time.
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
