# SPDX-License-Identifier: Apache-2.0
"""Files of stored state in a repository, which releases wrote and later releases must read.

Each file is ``<kind>-v<version>.bin`` with one object, serialized with that layout. A run with
:data:`WRITE_COMMAND` writes a file once, and it never changes.
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
    """An object as a release stored it.

    Attributes:
        path: The file.
        kind: The kind: ``split``, ``enumerator-state``, ``committable``, or ``writer-state``.
        version: The layout.
    """

    path: Path
    kind: str
    version: int


def stored_files(folder: Path) -> Iterator[StoredFile]:
    """Return all files of a folder, in order.

    Raises:
        AssertionError: A file name is not valid.
    """
    for path in sorted(folder.glob("*.bin")):
        match = _NAME.fullmatch(path.name)
        assert match is not None, f"{path} is not named <kind>-v<version>.bin"
        yield StoredFile(path, match["kind"], int(match["version"]))


def file_of(folder: Path, kind: str, version: int) -> Path:
    """Return the path for an object of this kind and layout."""
    return folder / f"{kind}-v{version}.bin"
