# SPDX-License-Identifier: Apache-2.0
"""The jars of Kafka, and of what is tested beside it: the lists in ``pinned``."""

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
        ConfigurationError: There is no such list.
    """
    lists = sorted(path.stem for path in _PINNED.glob("*.txt"))
    if name not in lists:
        raise ConfigurationError("no jars are pinned under this name", expected=lists, found=name)
    return PinnedArtifacts.read(_PINNED / f"{name}.txt", folder_variable=FOLDER_VARIABLE)


def class_path(name: str) -> str:
    """What Java needs to run the jars of a list, which are fetched first where they are missing.

    Args:
        name: The list.

    Returns:
        The files of the jars, separated as Java wants it.

    Raises:
        ConfigurationError: The folder for offline use lacks a jar, or holds another one.
        MissingDependencyError: PySpark is not installed.
        ServerError: They could not be fetched, or are not those that are pinned.
    """
    return os.pathsep.join(map(str, pinned_jars(name).paths()))
