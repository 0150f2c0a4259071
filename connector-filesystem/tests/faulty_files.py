# SPDX-License-Identifier: Apache-2.0
"""Files that the connector treats as remote, on storage that can be unavailable."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import fsspec
from fsspec.implementations.local import LocalFileSystem

from connectors_core.testing import Outage, TestSystem

PROTOCOL = "faulty"
_LATE = 0.01
_FIRST_LATE = 2.0


class Storage(TestSystem):
    """The storage of this process. Its address is the prefix of its paths."""

    name = "files"
    variable = "CONNECTORS_FILES_ADDRESS"
    now: ClassVar[Outage | None] = None
    lost: ClassVar[threading.Event] = threading.Event()
    left: ClassVar[int] = 0
    reached: ClassVar[threading.local] = threading.local()

    def embedded(self) -> AbstractContextManager[str]:
        return self._registered()

    @contextmanager
    def _registered(self) -> Iterator[str]:
        yield f"{PROTOCOL}://"

    def outage(self, address: str, outage: Outage) -> AbstractContextManager[None]:
        return self._unavailable(outage)

    @contextmanager
    def _unavailable(self, outage: Outage) -> Iterator[None]:
        Storage.now, Storage.reached = outage, threading.local()
        try:
            yield
        finally:
            Storage.now = None

    @contextmanager
    def lost_response(self, address: str, nth: int) -> Iterator[threading.Event]:
        Storage.left, Storage.lost = nth, threading.Event()
        try:
            yield Storage.lost
        finally:
            Storage.left = 0


def reach_storage() -> None:
    """Check at the start of every access that the storage is available.

    Raises:
        OSError: The storage is not available.
    """
    now = Storage.now
    if now is Outage.SLOW:
        threading.Event().wait(_LATE)
    elif now is Outage.LATE:
        if not hasattr(Storage.reached, "yes"):  # each reader has a thread of its own
            Storage.reached.yes = True
            threading.Event().wait(_FIRST_LATE)
    elif now is Outage.STOPPED:
        raise ConnectionRefusedError("the storage is not there")
    elif now is Outage.DISCONNECTED:
        Storage.now = None
        raise ConnectionResetError("the storage has gone")
    elif now is Outage.REFUSING:
        raise OSError(errno.EBUSY, "slow down")


def get_response() -> None:
    """Check at the end of every access, which took effect, that the storage responds.

    Raises:
        OSError: The response is lost.
    """
    Storage.left -= 1
    if Storage.left == 0:
        Storage.lost.set()
        raise ConnectionResetError("the storage has gone")


class FaultyFiles(LocalFileSystem):  # type: ignore[misc]
    """Local files that the connector treats as remote."""

    protocol = PROTOCOL
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, str):
            path = path.removeprefix(f"{PROTOCOL}://")
        return super()._strip_protocol(path)

    def unstrip_protocol(self, name: str) -> str:
        return f"{PROTOCOL}://{self._strip_protocol(name)}"

    def _open(self, *arguments: Any, **settings: Any) -> Any:
        reach_storage()
        file = super()._open(*arguments, **settings)
        try:
            get_response()
        except OSError:
            file.close()
            raise
        return _FaultyFile(file)


def _reaching(name: str) -> Any:
    def reaching(self: FaultyFiles, *arguments: Any, **settings: Any) -> Any:
        reach_storage()
        result = getattr(LocalFileSystem, name)(self, *arguments, **settings)
        get_response()
        return result

    return reaching


_CALLS = ("ls", "info", "exists", "mkdir", "makedirs", "mv", "cp_file", "rm", "rm_file", "rmdir")
for _name in _CALLS:
    setattr(FaultyFiles, _name, _reaching(_name))


class _FaultyFile:
    """A file whose every read and write reaches the storage."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read(self, *size: int) -> bytes:
        reach_storage()
        data: bytes = self._file.read(*size)
        get_response()
        return data

    def write(self, data: Any) -> int:
        reach_storage()
        written: int = self._file.write(data)
        get_response()
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _FaultyFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._file)


# Runs in every process that imports this module, including separate drivers.
fsspec.register_implementation(PROTOCOL, FaultyFiles, clobber=True)
