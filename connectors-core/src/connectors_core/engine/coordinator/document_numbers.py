# SPDX-License-Identifier: Apache-2.0
"""The numbers under which documents are stored, and files among them that are not the pipeline's.

People and their tools leave files behind (`.DS_Store`, `0000000007.json~`). They are passed over.
"""

from __future__ import annotations

import re
from typing import Final

from connectors_core.engine.state import StateStore

_DOCUMENT: Final = re.compile(r"(\d{10,})\.json")
_FOLDER: Final = re.compile(r"(\d{10,})/.+")


def document_numbers(store: StateStore, folder: str) -> list[int]:
    """The numbers of the documents in a folder, in order."""
    found = (_DOCUMENT.fullmatch(name) for name in store.list(folder))
    return sorted(int(match[1]) for match in found if match)


def folder_numbers(store: StateStore, folder: str) -> list[int]:
    """The numbers of the folders in a folder, in order. Empty folders do not count."""
    found = (_FOLDER.fullmatch(name) for name in store.list(folder, recursive=True))
    return sorted({int(match[1]) for match in found if match})


def unrelated_files(store: StateStore, folder: str) -> list[str]:
    """Files in a folder of documents that no pipeline wrote.

    Args:
        store: The state location of a query.
        folder: A folder whose files are documents.
    """
    return [f"{folder}/{name}" for name in store.list(folder) if not _DOCUMENT.fullmatch(name)]
