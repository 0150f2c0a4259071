# SPDX-License-Identifier: Apache-2.0
"""A store that copies in the background, as Azure does, and whose copies can fail late."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

PROTOCOL = "pending"


class Shown(enum.Enum):
    """How the target of a copy looks until the copy is complete."""

    EMPTY = "empty"
    PART = "part"
    FULL_SIZE = "full size"
    MISSING = "missing"


@dataclass
class _Copy:
    source: str
    looks: int | None  # None: it fails after its start


class PendingCopies(MemoryFileSystem):  # type: ignore[misc]
    """Files in memory. A copy is complete when its target has been looked at several times.

    A copy loses its data if its source is removed before that, which `lost` records.
    """

    protocol = PROTOCOL
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    copies: ClassVar[dict[str, _Copy]] = {}
    lost: ClassVar[list[str]] = []
    shown: ClassVar[Shown] = Shown.EMPTY
    looks: ClassVar[int] = 3
    failures: ClassVar[int] = 0
    answers_lost: ClassVar[int] = 0

    @classmethod
    def reset(cls, shown: Shown, *, looks: int = 3, failures: int = 0) -> None:
        """Forget all files. The next copies fail as often as `failures`, after their start."""
        cls.store.clear()
        cls.pseudo_dirs[:] = [""]
        cls.copies.clear()
        cls.lost.clear()
        cls.shown, cls.looks, cls.failures, cls.answers_lost = shown, looks, failures, 0

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str):
            path = path.removeprefix(f"{PROTOCOL}://")
        return super()._strip_protocol(path)

    def unstrip_protocol(self, name: str) -> str:
        return f"{PROTOCOL}://{self._strip_protocol(name).lstrip('/')}"

    def cp_file(self, path1: str, path2: str, **settings: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        data = self.store[source].getvalue()
        seen = {
            Shown.EMPTY: b"",
            Shown.PART: data[: len(data) // 2],
            Shown.FULL_SIZE: bytes(len(data)),
        }.get(self.shown)
        self.store.pop(target, None)
        if seen is not None:
            self.store[target] = MemoryFile(self, target, seen)
        fails = PendingCopies.failures > 0
        PendingCopies.failures -= fails
        self.copies[target] = _Copy(source, None if fails else self.looks)
        if PendingCopies.answers_lost:
            PendingCopies.answers_lost -= 1
            raise ConnectionResetError("the storage has gone")

    def mv(self, path1: str, path2: str, **settings: Any) -> None:
        self.cp_file(path1, path2)  # and no wait, as in fsspec
        self.rm_file(path1)

    def info(self, path: str, **settings: Any) -> Any:
        self._look(path)
        return super().info(path, **settings)

    def cat_file(self, path: str, **settings: Any) -> Any:
        self._look(path)
        return super().cat_file(path, **settings)

    def _rm(self, path: str) -> None:
        path = self._strip_protocol(path)
        self.copies.pop(path, None)
        for target, copy in list(self.copies.items()):
            if copy.source == path:
                self.lost.append(target)
                del self.copies[target]
        super()._rm(path)

    def _look(self, path: str) -> None:
        target = self._strip_protocol(path)
        copy = self.copies.get(target)
        if copy is None or copy.looks is None:
            return
        copy.looks -= 1
        if copy.looks <= 0:
            data = self.store[copy.source].getvalue()
            self.store[target] = MemoryFile(self, target, data)
            del self.copies[target]


fsspec.register_implementation(PROTOCOL, PendingCopies, clobber=True)
