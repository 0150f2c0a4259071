# SPDX-License-Identifier: Apache-2.0
"""Files of stored state in a repository: what releases wrote, and later ones must read.

Each is ``<kind>-v<version>.bin``: one object as its serialiser wrote it in that layout. A file is
written once, by a run with :data:`WRITE_COMMAND`, and never changed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WRITE_OPTION: Final = "--connector-write-state"
WRITE_COMMAND: Final = f"pytest {WRITE_OPTION}"
_NAME: Final = re.compile(r"(?P<kind>[a-z][a-z\-]*)-v(?P<version>[0-9]+)\.bin")


@dataclass(frozen=True)
class StoredFile:
    """One object as a release stored it.

    Attributes:
        path: The file.
        kind: What it is: ``split``, ``enumerator-state`` or ``committable``.
        version: The layout.
    """

    path: Path
    kind: str
    version: int


def stored_files(folder: Path) -> Iterator[StoredFile]:
    """All files of a folder, in order.

    Raises:
        AssertionError: A file is not named as it should be.
    """
    for path in sorted(folder.glob("*.bin")):
        match = _NAME.fullmatch(path.name)
        assert match is not None, f"{path} is not named <kind>-v<version>.bin"
        yield StoredFile(path, match["kind"], int(match["version"]))


def file_of(folder: Path, kind: str, version: int) -> Path:
    """Where the object of a kind and layout belongs."""
    return folder / f"{kind}-v{version}.bin"
