# SPDX-License-Identifier: Apache-2.0
"""The jars of Kafka and of other tested software, listed in ``pinned``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from connectors_core.errors import ConfigurationError
from connectors_core.testing.servers import PinnedArtifacts

FOLDER_VARIABLE: Final = "CONNECTORS_KAFKA_JARS"
_PINNED: Final = Path(__file__).parent / "pinned"


def pinned_jars(name: str) -> PinnedArtifacts:
    """The jars of a list, for example ``kafka-4.3.1``.

    Raises:
        ConfigurationError: The list does not exist.
    """
    lists = sorted(path.stem for path in _PINNED.glob("*.txt"))
    if name not in lists:
        raise ConfigurationError("no jars are pinned under this name", expected=lists, found=name)
    return PinnedArtifacts.read(_PINNED / f"{name}.txt", folder_variable=FOLDER_VARIABLE)


def class_path(name: str) -> str:
    """Return the class path for the jars of a list. Missing jars are downloaded.

    Args:
        name: The list.

    Returns:
        The files of the jars, in Java's class path format.

    Raises:
        ConfigurationError: The folder for offline use lacks a jar, or contains another one.
        MissingDependencyError: PySpark is not installed.
        ServerError: The download failed, or a digest differs from the pinned one.
    """
    return os.pathsep.join(map(str, pinned_jars(name).paths()))
