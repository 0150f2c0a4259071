# SPDX-License-Identifier: Apache-2.0
"""The numbers of stored documents, and unrelated files in their folders.

People and tools leave files such as `.DS_Store` or `0000000007.json~`. The pipeline ignores them.
"""

from __future__ import annotations

import re
from typing import Final

from connectors_core.engine.state import StateStore

_DOCUMENT: Final = re.compile(r"(\d{10,})\.json")
_FOLDER: Final = re.compile(r"(\d{10,})/.+")


def document_numbers(store: StateStore, folder: str) -> list[int]:
    """Return the numbers of the documents in a folder, in order."""
    found = (_DOCUMENT.fullmatch(name) for name in store.list(folder))
    return sorted(int(match[1]) for match in found if match)


def folder_numbers(store: StateStore, folder: str) -> list[int]:
    """Return the numbers of the subfolders of a folder, in order. Empty folders do not count."""
    found = (_FOLDER.fullmatch(name) for name in store.list(folder, recursive=True))
    return sorted({int(match[1]) for match in found if match})


def unrelated_files(store: StateStore, folder: str) -> list[str]:
    """Return the files that no pipeline wrote, in a folder of documents.

    Args:
        store: The state location of a query.
        folder: A folder of documents.
    """
    return [f"{folder}/{name}" for name in store.list(folder) if not _DOCUMENT.fullmatch(name)]
