# SPDX-License-Identifier: Apache-2.0
"""A copy of a pipeline's state: a folder or zip archive with a manifest, over fsspec."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, Final, cast

from connectors_core.engine.protocol import DocumentCodec
from connectors_core.engine.recovery.selection import QueryCut
from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError, StateCorruptedError
from connectors_core.secrets import mask_url, revealed

MANIFEST: Final = "backup.json"
ARCHIVE_SUFFIX: Final = ".zip"
_PIECE: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CopiedFile:
    """A file of a copy.

    Attributes:
        path: Relative path.
        size: Size in bytes.
        sha256: Checksum.
    """

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The contents of a copy. It is written last, so a copy without it is incomplete.

    Attributes:
        pipeline_id: The pipeline.
        name: The user's name for it.
        taken_at: Time of the backup, in seconds since 1970.
        running: Whether a driver was running during the backup.
        incarnation: The newest driver of the pipeline.
        cuts: The end of the copy for each query.
        files: Its files.
    """

    pipeline_id: str
    name: str
    taken_at: float
    running: bool
    incarnation: int
    cuts: tuple[QueryCut, ...]
    files: tuple[CopiedFile, ...]


MANIFESTS: Final = DocumentCodec("backup", Manifest)


class CopyWriter(ABC):
    """Writes the files of a copy, each once."""

    @abstractmethod
    def open(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Open a new file for writing."""

    @abstractmethod
    def close(self) -> None:
        """Make the copy durable."""


class CopyReader(ABC):
    """Reads the files of a copy."""

    @abstractmethod
    def open(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        """Open a file for reading.

        Raises:
            FileNotFoundError: It does not exist.
        """

    def read(self, path: str) -> bytes:
        """Return the content of a small file."""
        with self.open(path) as file:
            return file.read()

    def close(self) -> None:
        """Close the copy."""


def new_copy(url: str, storage_options: Mapping[str, Any]) -> CopyWriter:
    """Create an empty copy.

    Args:
        url: Path or URL of a folder, or of an archive whose name ends with `.zip`.
        storage_options: Arguments of the fsspec file system.

    Raises:
        ConfigurationError: The copy already exists.
    """
    if url.endswith(ARCHIVE_SUFFIX):
        return _ZipWriter(url, storage_options)
    store = StateStore(url, storage_options)
    refuse_existing(store)
    return _FolderWriter(store)


def open_copy(url: str, storage_options: Mapping[str, Any]) -> CopyReader:
    """Open a copy for reading; close it after use."""
    if url.endswith(ARCHIVE_SUFFIX):
        return _ZipReader(url, storage_options)
    return _FolderReader(StateStore(url, storage_options))


def read_manifest(copy: CopyReader, url: str) -> Manifest:
    """Read the manifest of a copy.

    Raises:
        ConfigurationError: There is no complete copy.
    """
    try:
        return MANIFESTS.decode(copy.read(MANIFEST), MANIFEST)
    except (FileNotFoundError, KeyError) as error:
        raise ConfigurationError(
            f"{mask_url(url)} is not a complete copy",
            expected=f"{MANIFEST}, which is written last",
            found="no such file",
            hint="check the path; an interrupted backup cannot be restored",
        ) from error


def refuse_existing(store: StateStore) -> None:
    """Refuse a folder that is not empty.

    Raises:
        ConfigurationError: It holds files.
    """
    names = store.list("", recursive=True)
    if names:
        raise ConfigurationError(
            f"{store} is not empty; existing files are never overwritten",
            expected="an empty or missing folder",
            found=f"{len(names)} files, the first {names[0]}",
            hint="choose another location",
        )


def copy_file(source: IO[bytes], target: IO[bytes], path: str) -> CopiedFile:
    """Copy the bytes of a file.

    Args:
        source: The file to read.
        target: The file to write.
        path: Its path in the copy.
    """
    checksum, size = hashlib.sha256(), 0
    while piece := source.read(_PIECE):
        checksum.update(piece)
        size += len(piece)
        target.write(piece)
    return CopiedFile(path=path, size=size, sha256=checksum.hexdigest())


def copy_checked(copy: CopyReader, file: CopiedFile, target: IO[bytes]) -> None:
    """Extract a file from a copy and verify it.

    Args:
        copy: The copy.
        file: The file, as in the manifest.
        target: The file to write.

    Raises:
        StateCorruptedError: It is missing or was altered.
    """
    try:
        with copy.open(file.path) as source:
            found = copy_file(source, target, file.path)
    except (FileNotFoundError, KeyError, zipfile.BadZipFile) as error:
        raise StateCorruptedError(
            f"the file {file.path} is missing in the copy",
            found=str(error),
            hint="use another copy",
        ) from error
    if found != file:
        raise StateCorruptedError(
            f"{file.path} was changed in the copy",
            expected=f"{file.size} bytes with checksum {file.sha256}",
            found=f"{found.size} bytes with checksum {found.sha256}",
            hint="use another copy",
        )


class _FolderWriter(CopyWriter):
    def __init__(self, store: StateStore) -> None:
        self._store = store

    def open(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        return cast("contextlib.AbstractContextManager[IO[bytes]]", self._store.open_output(path))

    def close(self) -> None:
        pass


class _FolderReader(CopyReader):
    def __init__(self, store: StateStore) -> None:
        self._store = store

    def open(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        return self._store.open_input(path)


class _ZipWriter(CopyWriter):
    def __init__(self, url: str, storage_options: Mapping[str, Any]) -> None:
        import fsspec.core

        fs, path = fsspec.core.url_to_fs(url, **revealed(storage_options))
        if fs.exists(path):
            raise ConfigurationError(
                f"{mask_url(url)} already exists; existing files are never overwritten",
                hint="choose another location",
            )
        parent = fs._parent(path)
        fs.makedirs(parent, exist_ok=True)
        self._file: Any = fs.open(path, "wb")
        self._zip = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED)

    def open(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        return self._zip.open(path, "w", force_zip64=True)

    def close(self) -> None:
        self._zip.close()
        self._file.close()


class _ZipReader(CopyReader):
    def __init__(self, url: str, storage_options: Mapping[str, Any]) -> None:
        import fsspec.core

        fs, path = fsspec.core.url_to_fs(url, **revealed(storage_options))
        with ExitStack() as opened:
            try:
                self._file: BinaryIO = opened.enter_context(fs.open(path, "rb"))
                self._zip = zipfile.ZipFile(self._file)
            except (FileNotFoundError, zipfile.BadZipFile) as error:
                raise _no_archive(url, error) from error
            opened.pop_all()

    def open(self, path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
        return self._zip.open(path)

    def close(self) -> None:
        self._zip.close()
        self._file.close()


def _no_archive(url: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"{mask_url(url)} is not a complete archive",
        expected="an archive created by `connectors state backup`",
        found=str(error) or type(error).__name__,
    )


@contextlib.contextmanager
def extracted(copy: CopyReader, files: Sequence[CopiedFile]) -> Iterator[StateStore]:
    """Extract files of a copy into a temporary folder and verify them.

    Raises:
        StateCorruptedError: A file was altered.
    """
    import tempfile

    folder = tempfile.mkdtemp(prefix="connectors-copy-")
    try:
        store = StateStore(folder)
        for file in files:
            with store.open_output(file.path) as target:
                copy_checked(copy, file, cast("IO[bytes]", target))
        yield store
    finally:
        shutil.rmtree(folder, ignore_errors=True)
