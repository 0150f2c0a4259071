# SPDX-License-Identifier: Apache-2.0
"""The memory of the discovery, which determines the new files. Driver.

The state stores it in few bytes. `FileEnumeratorState` documents which fields belong to which
order.
"""

from __future__ import annotations

import hashlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from connector_filesystem.filesystem import FileStatus, plain_tag
from connector_filesystem.listing import Listing
from connector_filesystem.source.discovery import FileSelection, version_of
from connectors_core.errors import ConfigurationError, DataLossError, StateCorruptedError

__all__ = [
    "ByManifest",
    "ByName",
    "ByTime",
    "EachVersion",
    "FileOrder",
    "GoneFiles",
    "ListedFiles",
    "Memory",
]

# Bytes of a fingerprint: among a million files, two collide once in 10^17 cases.
_FINGERPRINT_BYTES: Final = 12
# Limit of the filter. With 16 bits per file, it mistakes one in a thousand other files for a listed
# one.
_BITS_PER_FILE: Final = 16
_MAX_FILTER_BITS: Final = 1 << 18
_HASHES: Final = 6


class FileOrder(StrEnum):
    """What makes a file new. It determines what the discovery remembers."""

    ANY = "any"
    """Files can have any name and any time.

    A replaced file is read again. The source remembers each file that it read, as Flink does, in 12
    bytes.
    """
    MODIFICATION_TIME = "modification-time"
    """Files can have any name. A file that appears too late is not read.

    A replaced file is read again. The source remembers the files of the last `late-file-window`
    before the newest.
    """
    NAME = "name"
    """The path of a new file sorts after all earlier ones, as with dates in names.

    The source remembers the last path.
    """
    MANIFEST = "manifest"
    """A new manifest of the sink lists the file, so that the source reads whole epochs in order.

    The source remembers the number of the last manifest.
    """


@dataclass(frozen=True, kw_only=True)
class GoneFiles:
    """Files that were read and then first missing in the same listing.

    Attributes:
        milliseconds: How long drivers have missed them, because no clock outlives a driver.
        files: Their fingerprints, concatenated.
    """

    milliseconds: int
    files: bytes


class Memory(ABC):
    """Distinguishes new files from those already taken."""

    @abstractmethod
    def sort_out(self, files: Iterable[FileStatus]) -> tuple[list[FileStatus], list[FileStatus]]:
        """Return the new files, and the late ones.

        Late files count as read only because of their position in the order.
        """

    @abstractmethod
    def take(self, files: Sequence[FileStatus], *, complete: bool) -> None:
        """Remember a listing whose files are all taken or known.

        Args:
            files: All existing files.
            complete: Whether each location contains files, so that missing files count as removed.
        """

    @abstractmethod
    def fields(self) -> Mapping[str, Any]:
        """Return the fields of the state, which are empty if no file was taken."""

    def check(self, listing: Listing) -> None:
        """Refuse a listing that cannot follow the former ones.

        Raises:
            DataLossError: It belongs to another history of the folder.
        """

    def in_order(self, files: Iterable[FileStatus]) -> list[FileStatus]:
        """Sort new files by their times, if they have any."""
        return sorted(files, key=lambda file: (file.modification_time or 0, file.path))


class ByTime(Memory):
    """See `FileOrder.MODIFICATION_TIME`.

    Args:
        window: How late a file may become visible, relative to the newest file, in microseconds.
        newest: The highest modification time of the files taken.
        recent: The versions of files within the window.
    """

    def __init__(self, window: int, newest: int | None, recent: Collection[str]) -> None:
        self._window = window
        self._newest = newest
        self._recent = frozenset(recent)

    def sort_out(self, files: Iterable[FileStatus]) -> tuple[list[FileStatus], list[FileStatus]]:
        """See `Memory`."""
        if self._newest is None:
            return list(files), []
        since = self._newest - self._window
        new: list[FileStatus] = []
        behind: list[FileStatus] = []
        for file in files:
            if _time(file) < since:
                behind.append(file)
            elif _version(file) not in self._recent:
                new.append(file)
        return new, behind

    def take(self, files: Sequence[FileStatus], *, complete: bool) -> None:
        """See `Memory`."""
        if not files:
            return
        # A clock that is ahead must not make the files of other writers look old.
        newest = min(max(map(_time, files)), time.time_ns() // 1000)
        self._newest = newest if self._newest is None else max(self._newest, newest)
        since = self._newest - self._window
        # A missing file stays known for the window, because a listing can have missed it.
        kept = (each for each in self._recent if int(each.rpartition("@")[2]) >= since)
        listed = (_version(file) for file in files if _time(file) >= since)
        self._recent = frozenset((*kept, *listed))

    def fields(self) -> Mapping[str, Any]:
        """See `Memory`."""
        if self._newest is None:
            return {}
        return {"newest": self._newest, "recent": tuple(sorted(self._recent))}


class ByName(Memory):
    """See `FileOrder.NAME`.

    Args:
        selection: Determines what paths are relative to.
        last_paths: The last relative path taken below each location.
    """

    def __init__(self, selection: FileSelection, last_paths: Mapping[str, str]) -> None:
        self._selection = selection
        self._last_paths = dict(last_paths)

    def sort_out(self, files: Iterable[FileStatus]) -> tuple[list[FileStatus], list[FileStatus]]:
        """See `Memory`."""
        new: list[FileStatus] = []
        behind: list[FileStatus] = []
        for file in files:
            root, relative = self._selection.parts_of(file.path)
            last = self._last_paths.get(root)
            (new if last is None or relative > last else behind).append(file)
        return new, behind

    def take(self, files: Sequence[FileStatus], *, complete: bool) -> None:
        """See `Memory`."""
        for file in files:
            root, relative = self._selection.parts_of(file.path)
            if relative > self._last_paths.get(root, ""):
                self._last_paths[root] = relative

    def fields(self) -> Mapping[str, Any]:
        """See `Memory`."""
        return {"last_paths": dict(self._last_paths)} if self._last_paths else {}

    def in_order(self, files: Iterable[FileStatus]) -> list[FileStatus]:
        """Sort new files by their names."""
        return sorted(files, key=lambda file: self._selection.relative(file.path))


class ByManifest(Memory):
    """See `FileOrder.MANIFEST`.

    Args:
        selection: Determines the folders of files.
        last: The number of the last manifest taken of each folder.
    """

    def __init__(self, selection: FileSelection, last: Mapping[str, int]) -> None:
        self._selection = selection
        self._last = dict(last)

    def check(self, listing: Listing) -> None:
        """See `Memory`."""
        for root, last in self._last.items():
            found = listing.manifests.get(root, 0)
            if found < last:
                raise DataLossError(
                    f"the manifests of {root!r} start over, so files could be read twice or never",
                    expected=f"manifest {last} or a later one",
                    found=f"manifest {found}" if found else "none",
                    hint="restore the folder _manifests, or read with a new pipeline",
                )

    def sort_out(self, files: Iterable[FileStatus]) -> tuple[list[FileStatus], list[FileStatus]]:
        """See `Memory`. No file is late."""
        return [each for each in files if _manifest(each) > self._last_of(each)], []

    def take(self, files: Sequence[FileStatus], *, complete: bool) -> None:
        """See `Memory`."""
        for each in files:
            root = self._selection.root_of(each.path)
            self._last[root] = max(self._last_of(each), _manifest(each))

    def fields(self) -> Mapping[str, Any]:
        """See `Memory`."""
        return {"manifests": dict(self._last)} if self._last else {}

    def in_order(self, files: Iterable[FileStatus]) -> list[FileStatus]:
        """Sort new files by their manifests, and those of a manifest by size, the largest first."""
        return sorted(files, key=lambda file: (_manifest(file), -file.size, file.path))

    def _last_of(self, file: FileStatus) -> int:
        return self._last.get(self._selection.root_of(file.path), 0)


class EachVersion(Memory):
    """See `FileOrder.ANY`.

    Args:
        forget_after: Seconds after which the source forgets a removed file.
        read: The fingerprints, concatenated.
        gone: The fingerprints of removed files, which can also be in `read`.
        clock: Monotonic seconds.

    Raises:
        StateCorruptedError: The fingerprints are not valid.
    """

    def __init__(
        self,
        forget_after: float,
        read: bytes,
        gone: Iterable[GoneFiles] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._forget_after = forget_after
        self._clock = clock
        now = clock()
        self._gone_since = {
            each: now - group.milliseconds / 1000 for group in gone for each in _prints(group.files)
        }
        self._read = {*_prints(read), *self._gone_since}

    def sort_out(self, files: Iterable[FileStatus]) -> tuple[list[FileStatus], list[FileStatus]]:
        """See `Memory`."""
        read = self._read
        return [file for file in files if _content_print(file) not in read], []

    def take(self, files: Sequence[FileStatus], *, complete: bool) -> None:
        """See `Memory`."""
        present = set(map(_content_print, files))
        if complete:  # an empty folder can mean that its disk is not mounted
            now = self._clock()
            gone = {each: self._gone_since.get(each, now) for each in self._read - present}
            forgotten = {each for each, at in gone.items() if now - at > self._forget_after}
            self._gone_since = {each: at for each, at in gone.items() if each not in forgotten}
            self._read -= forgotten
        self._read |= present

    def fields(self) -> Mapping[str, Any]:
        """See `Memory`."""
        if not self._read:
            return {}
        now = self._clock()
        groups: dict[int, list[bytes]] = {}
        for each, since in self._gone_since.items():
            groups.setdefault(round((now - since) * 1000), []).append(each)
        return {
            "read": b"".join(sorted(self._read - self._gone_since.keys())),
            "gone": tuple(
                GoneFiles(milliseconds=age, files=b"".join(sorted(groups[age])))
                for age in sorted(groups)
            ),
        }


class ListedFiles:
    """The versions of files in the last listing.

    The state stores them in a Bloom filter. The filter recognizes each of them. With up to about
    16,000 files, it rarely mistakes another version for one of them.

    Args:
        stored: The filter, which is empty before the first listing.

    Raises:
        StateCorruptedError: The filter is not valid.
    """

    def __init__(self, stored: bytes) -> None:
        bits = len(stored) * 8
        if bits & (bits - 1) or bits > _MAX_FILTER_BITS:
            raise StateCorruptedError(
                "the stored filter of listed files cannot be decoded",
                expected=f"a power of two, at most {_MAX_FILTER_BITS // 8}, as number of bytes",
                found=f"{len(stored)} bytes",
            )
        self._stored: bytes | None = stored
        self._files: Sequence[FileStatus] | None = None
        self._exact: frozenset[FileStatus] = frozenset()

    @property
    def is_saturated(self) -> bool:
        """Whether the last listing had more files than the filter can distinguish."""
        return len(self._files or ()) > _MAX_FILTER_BITS // _BITS_PER_FILE

    @property
    def missed_share(self) -> float:
        """The expected share of other files that the filter mistakes for listed ones."""
        count = len(self._files or ())
        return (1 - math.exp(-_HASHES * count / _filter_bits(count))) ** _HASHES

    def lacking(self, files: Sequence[FileStatus]) -> list[FileStatus]:
        """Return the files that, according to the filter, were not listed."""
        if self._files is not None:
            return [file for file in files if file not in self._exact]
        if not files or not self._stored:
            return []
        bits = np.unpackbits(np.frombuffer(self._stored, np.uint8))
        prints = [_fingerprint(_version(file)) for file in files]
        known: list[bool] = np.all(bits[_places(prints, len(bits))], axis=1).tolist()
        return [file for file, each in zip(files, known, strict=True) if not each]

    def replace(self, files: Sequence[FileStatus]) -> None:
        """Replace the filter with a new listing."""
        exact = frozenset(files)
        if exact != self._exact or self._files is None:
            self._stored = None
        self._files, self._exact = files, exact

    def stored(self) -> bytes:
        """Return the filter."""
        if self._stored is None:
            self._stored = self._filter()
        return self._stored

    def _filter(self) -> bytes:
        assert self._files is not None
        size = _filter_bits(len(self._files))
        bits = np.zeros(size, np.uint8)
        if self._files:
            bits[_places([_fingerprint(_version(file)) for file in self._files], size)] = 1
        return np.packbits(bits).tobytes()


def _filter_bits(files: int) -> int:
    wanted = max(files * _BITS_PER_FILE, 8)
    return min(1 << (wanted - 1).bit_length(), _MAX_FILTER_BITS)


def _places(prints: Collection[bytes], size: int) -> npt.NDArray[np.uint64]:
    """The bits of each fingerprint, from two of its numbers."""
    numbers = np.frombuffer(b"".join(prints), "<u4").reshape(-1, 3).astype(np.uint64)
    steps = np.arange(_HASHES, dtype=np.uint64)
    places = numbers[:, :1] + steps * (numbers[:, 1:2] | np.uint64(1))
    return places & np.uint64(size - 1)


def _prints(joined: bytes) -> Iterator[bytes]:
    if len(joined) % _FINGERPRINT_BYTES:
        raise StateCorruptedError(
            "the stored fingerprints of files cannot be decoded",
            expected=f"a multiple of {_FINGERPRINT_BYTES} bytes",
            found=f"{len(joined)} bytes",
        )
    for at in range(0, len(joined), _FINGERPRINT_BYTES):
        yield joined[at : at + _FINGERPRINT_BYTES]


def _fingerprint(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=_FINGERPRINT_BYTES, usedforsecurity=False).digest()


def _version(file: FileStatus) -> str:
    return f"{file.path}@{version_of(file)}"


def _content_print(file: FileStatus) -> bytes:
    """Return the identity of a version, as the reader checks it.

    Rewriting an object unchanged keeps it.
    """
    tag = file.modification_time if file.etag is None else plain_tag(file.etag)
    return _fingerprint(f"{file.path}@{file.size}:{tag}")


def _manifest(file: FileStatus) -> int:
    if file.manifest is None:
        raise ConfigurationError(
            "the source has read manifests, and cannot change to another order",
            expected=FileOrder.MANIFEST,
            option="source.order",
        )
    return file.manifest


def _time(file: FileStatus) -> int:
    if file.modification_time is None:
        raise ConfigurationError(
            f"the filesystem reports no modification time for {file.path}",
            option="order",
            hint="set source.order to name or any",
        )
    return file.modification_time
