# SPDX-License-Identifier: Apache-2.0
"""The durable store of plans, reports, and decisions: exclusive create on any file system."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, BinaryIO, Final, cast

from connectors_core.clients.native_libraries import error_of_opening
from connectors_core.clients.retries import RetryLog, RetryPolicy
from connectors_core.engine._faults import space_point
from connectors_core.errors import (
    ConfigurationError,
    MissingDependencyError,
    RetryableError,
    StateLocationError,
)
from connectors_core.secrets import mask_text, mask_url, revealed

__all__ = ["StateOutput", "StateStore"]

_Names = list[str]  # `StateStore.list` hides the builtin within the class

_TEMPORARY_PREFIX: Final = "."
_TEMPORARY_SUFFIX: Final = ".tmp"
_COPY_BUFFER_BYTES: Final = 1 << 20
# An object store may ask for a retry if another request uses the same name.
_CONFLICTS: Final = RetryPolicy(initial_backoff=0.05, max_backoff=2.0, timeout=30.0)
# The errors of the operating system for a file system without hard links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_HINT_STORAGE: Final = (
    "use a local disk, HDFS through a POSIX mount, S3, GCS, Azure, or another fsspec filesystem "
    "whose pipe_file(..., mode='create') refuses to overwrite; update the filesystem package"
)
# fsspec's memory file system checks, then writes. It lives in one process, so a lock suffices.
_memory_lock: Final = threading.Lock()


class StateStore:
    """Small immutable files below one location; driver and executors.

    The store creates a file *exclusively*: the first writer wins, no one overwrites it, and a
    partially written file is never visible. The store can be pickled for executors. It does no work
    on construction and opens its file system once per process, also after a fork. It is
    thread-safe.

    Args:
        url: Location, e.g. `/data/state`, `file:///data/state`, `s3://bucket/state`.
        storage_options: Arguments of the fsspec filesystem; values may be `Secret`.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        # Executors have another working directory, so a relative path becomes absolute here.
        self._url: str = url if "://" in url or "::" in url else os.path.abspath(url)
        self._storage_options: dict[str, Any] = dict(storage_options or {})
        self._opened: _Backend | None = None
        self._opened_by: int | None = None

    @property
    def url(self) -> str:
        """The location as given. Show it with `str(store)`, which masks passwords."""
        return self._url

    def child(self, folder: str) -> StateStore:
        """Return the store of a folder below this one."""
        return StateStore(f"{self._url.rstrip('/')}/{_checked(folder)}", self._storage_options)

    def verify(self) -> None:
        """Check that the location is writable and supports exclusive create.

        Raises:
            StateLocationError: If it cannot be used; with the reason and a hint.
            MissingDependencyError: If the package of the file system is not installed.
        """
        name = f"probe/{uuid.uuid4().hex}"
        reason = self._backend.reason_against()
        if reason is not None:
            raise StateLocationError(
                f"the state location {self} does not support exclusive create",
                expected="a file system that creates a complete file exclusively",
                found=reason,
                option="state_location",
                hint=_HINT_STORAGE,
            )
        first, second = b"first", b"second"
        try:
            created = self.create(name, first)
            again = self.create(name, second)
            found = self.read(name)
            listed = name.removeprefix("probe/") in self.list("probe")
        except ConfigurationError:
            raise
        except Exception as exc:
            raise StateLocationError(
                f"the state location {self} cannot be written and read back",
                found=f"{type(exc).__name__}: {mask_text(str(exc))}",
                option="state_location",
                hint="check that it exists, that you can write to it, and the credentials; "
                "without a state_location, it is the checkpoint_location",
            ) from exc
        finally:
            with contextlib.suppress(Exception):
                self.delete(name)
        if not created or again or found != first:
            raise StateLocationError(
                f"the state location {self} does not support exclusive create",
                expected="the first create succeeds, the second fails, and the first content stays",
                found=f"first create {created}, second create {again}, content {found!r}",
                option="state_location",
                hint=_HINT_STORAGE,
            )
        if not listed:
            raise StateLocationError(
                f"the state location {self} does not list a file that was just written",
                expected="listing that is consistent with writes",
                option="state_location",
                hint=_HINT_STORAGE,
            )

    def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        """Create a file unless it exists; durable when this returns.

        If an object store's client repeats a request after a lost response, the store may report
        the file as existing even though this call created it. A caller that gets False reads the
        file and recognizes its own by the nonce.

        Args:
            path: Relative path such as `plans/0000000001.json`.
            data: The content.
            durable: False if a power loss may lose the file; it is then not synced.

        Returns:
            True if this call created the file, False if it exists.

        Raises:
            RetryableError: The store kept rejecting the request as a conflict with another one.
        """
        with self._named(path):
            space_point()
            return self._backend.create(_checked(path), data, durable)

    def replace(self, path: str, data: bytes) -> None:
        """Create or replace a file; readers see the old or the new content.

        Do not use it for files that must be written once. Only the heartbeat of the lease uses it.
        """
        with self._named(path):
            space_point()
            self._backend.replace(_checked(path), data)

    def read(self, path: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: If it does not exist.
        """
        return self._backend.read(_checked(path))

    def read_or_none(self, path: str) -> bytes | None:
        """Return the content of a file, or None if it does not exist."""
        try:
            return self.read(path)
        except FileNotFoundError:
            return None

    def exists(self, path: str) -> bool:
        """Return whether a file exists."""
        return self._backend.exists(_checked(path))

    def list(self, prefix: str = "", *, recursive: bool = False) -> _Names:
        """Return the sorted names of the files in a folder, without unfinished ones.

        Args:
            prefix: The folder, such as `plans`. A missing folder is empty.
            recursive: Whether to include files in subfolders, as `folder/name`.
        """
        folder = _checked(prefix) if prefix else ""
        names = self._backend.list(folder, recursive)
        return sorted(name for name in names if not _is_temporary(name))

    def delete(self, path: str) -> None:
        """Remove a file if it exists."""
        self._backend.delete(_checked(path))

    def delete_tree(self, prefix: str) -> None:
        """Remove a folder and its contents if it exists."""
        self._backend.delete_tree(_checked(prefix))

    def open_output(self, path: str) -> StateOutput:
        """Open a file for incremental writing; it becomes visible only when it is closed.

        The name must be unique, such as one with a nonce, because an existing file would be
        replaced. An exception in the `with` block discards the output, and so does a missing
        `close`.
        """
        with self._named(path):
            space_point()
            return self._backend.open_output(_checked(path))

    def open_input(self, path: str) -> BinaryIO:
        """Open a file for incremental reading.

        Raises:
            FileNotFoundError: If there is none.
        """
        return self._backend.open_input(_checked(path))

    @contextlib.contextmanager
    def _named(self, path: str) -> Iterator[None]:
        """Add the file name to an error of the operating system, such as that of a full disk."""
        try:
            yield
        except OSError as error:
            if error.errno is not None and error.filename is None:
                error.filename = f"{self}/{path}"
            raise

    @property
    def _backend(self) -> _Backend:
        pid = os.getpid()
        if self._opened is None or self._opened_by != pid:
            # Do not use the parent process's client after a fork: the two would share its sockets.
            self._opened = _open_backend(self._url, self._storage_options)
            self._opened_by = pid
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None, "_opened_by": None}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StateStore):
            return NotImplemented
        return (self._url, self._storage_options) == (other._url, other._storage_options)

    def __hash__(self) -> int:
        return hash(self._url)

    def __str__(self) -> str:
        return mask_url(self._url)

    def __repr__(self) -> str:
        return f"StateStore({mask_url(self._url)!r})"


class StateOutput(io.BufferedIOBase):
    """An open file of the store; `close` publishes it, `abort` discards it."""

    def __init__(
        self, inner: Any, publish: Callable[[], None], discard: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._publish = publish
        self._discard = discard
        self._position = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._position

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        if self.closed:
            raise ValueError("write to a closed output")
        view = memoryview(data).cast("B")
        self._inner.write(view)
        self._position += len(view)
        return len(view)

    def close(self) -> None:
        """Publish the file: durable and visible under its name when this returns."""
        if not self.closed:
            try:
                self._publish()
            except BaseException:
                self.abort()
                raise
            super().close()

    def abort(self) -> None:
        """Discard the written data."""
        if not self.closed:
            try:
                self._discard()
            finally:
                super().close()

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        if exc_type is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # The base class would close, and so publish, an unfinished file.
        with contextlib.suppress(Exception):
            self.abort()


# --- Filesystems ---------------------------------------------------------------------------------


class _Backend:
    """Any fsspec file system; paths are relative and checked."""

    def __init__(self, fs: Any, root: str) -> None:
        self._fs = fs
        self._root = root.rstrip("/")
        protocols = fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)
        self._create_lock: Any = _memory_lock if "memory" in protocols else contextlib.nullcontext()

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def reason_against(self) -> str | None:
        """Return why the file system is unsuitable although a probe would pass, or None."""
        from fsspec.spec import AbstractFileSystem

        inherited = type(self._fs).pipe_file is AbstractFileSystem.pipe_file
        if inherited and "pipe_file" not in vars(self._fs):
            # The inherited method writes into the final file.
            return (
                f"{type(self._fs).__name__} writes in place: a partially written file would "
                "be visible"
            )
        return None

    def create(self, path: str, data: bytes, durable: bool) -> bool:
        log = RetryLog(f"creating {path}", after=_CONFLICTS.max_backoff)
        return _CONFLICTS.retrying(log)(self._create_once, path, data)

    def _create_once(self, path: str, data: bytes) -> bool:
        try:
            with self._create_lock:
                self._fs.pipe_file(self._full(path), data, mode="create")
        except FileExistsError:
            return False
        except Exception as exc:
            # Only the status is reliable. Not every store names the failed condition, and clients
            # then treat the response as a bad request.
            status = _http_status(exc)
            if status == HTTPStatus.PRECONDITION_FAILED:
                return False
            if status == HTTPStatus.CONFLICT:
                raise RetryableError(
                    f"creating {path} conflicts with another request for the same name",
                    found=mask_text(str(exc)),
                ) from exc
            raise
        return True

    def replace(self, path: str, data: bytes) -> None:
        self._fs.pipe_file(self._full(path), data)

    def read(self, path: str) -> bytes:
        return cast(bytes, self._fs.cat_file(self._full(path)))

    def exists(self, path: str) -> bool:
        self._fs.invalidate_cache()
        return bool(self._fs.isfile(self._full(path)))

    def list(self, folder: str, recursive: bool) -> _Names:
        base = self._full(folder)
        self._fs.invalidate_cache()  # other processes write here
        try:
            if recursive:
                found = self._fs.find(base)
            else:
                entries = self._fs.ls(base, detail=True)
                found = [entry["name"] for entry in entries if entry["type"] == "file"]
        except FileNotFoundError:
            return []
        stem = self._fs._strip_protocol(base).rstrip("/") + "/"
        return [name[len(stem) :] for name in found if name.startswith(stem)]

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm_file(self._full(path))

    def delete_tree(self, folder: str) -> None:
        self._fs.invalidate_cache()
        with contextlib.suppress(FileNotFoundError):
            self._fs.rm(self._full(folder), recursive=True)

    def open_output(self, path: str) -> StateOutput:
        from fsspec.spec import AbstractBufferedFile

        inner = self._fs.open(self._full(path), "wb")

        def discard() -> None:
            # Object stores show nothing before the file is closed; clean up in the others.
            if isinstance(inner, AbstractBufferedFile):
                inner.discard()
                inner.closed = True
            else:
                inner.close()
            self.delete(path)

        return StateOutput(inner, inner.close, discard)

    def open_input(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self._fs.open(self._full(path), "rb"))


class _LocalBackend(_Backend):
    """A local disk or POSIX mount: writes a temporary file, syncs it, and links it to its name.

    fsspec's own `mode="create"` writes into the final file, so others could see a partial file.
    """

    def reason_against(self) -> str | None:
        return None

    def create(self, path: str, data: bytes, durable: bool) -> bool:
        final = self._full(path)
        temporary = self._write_temporary(final, data, durable)
        try:
            return self._link(temporary, final, durable)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def replace(self, path: str, data: bytes) -> None:
        final = self._full(path)
        temporary = self._write_temporary(final, data)
        self._rename(temporary, final)

    def read(self, path: str) -> bytes:
        with open(self._full(path), "rb") as file:
            return file.read()

    def exists(self, path: str) -> bool:
        return os.path.isfile(self._full(path))

    def list(self, folder: str, recursive: bool) -> _Names:
        base = self._full(folder)
        if not recursive:
            try:
                with os.scandir(base) as entries:
                    return [entry.name for entry in entries if entry.is_file()]
            except (FileNotFoundError, NotADirectoryError):
                return []
        return [
            os.path.relpath(os.path.join(parent, name), base)
            for parent, _, names in os.walk(base)
            for name in names
        ]

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._full(path))

    def open_output(self, path: str) -> StateOutput:
        final = self._full(path)
        temporary = _temporary_name(final)
        _make_folders(os.path.dirname(final))
        inner = open(temporary, "xb", buffering=_COPY_BUFFER_BYTES)  # noqa: SIM115

        def publish() -> None:
            inner.flush()
            os.fsync(inner.fileno())
            inner.close()
            self._rename(temporary, final)

        def discard() -> None:
            try:
                inner.close()
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)

        return StateOutput(inner, publish, discard)

    def open_input(self, path: str) -> BinaryIO:
        return open(self._full(path), "rb")

    @staticmethod
    def _write_temporary(final: str, data: bytes, durable: bool = True) -> str:
        temporary = _temporary_name(final)
        _make_folders(os.path.dirname(final), durable)
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        return temporary

    @staticmethod
    def _link(temporary: str, final: str, durable: bool) -> bool:
        try:
            os.link(temporary, final)
        except FileExistsError:
            # NFS repeats a request after a lost response, and the second request finds the file of
            # the first. Two links on the temporary file prove that the link is ours.
            if os.stat(temporary).st_nlink != 2:
                return False
        except OSError as exc:
            if exc.errno not in _NO_LINKS:
                raise
            raise StateLocationError(
                f"the filesystem of {final} has no hard links",
                expected="hard links, to create a complete file exclusively",
                found=str(exc),
                option="state_location",
                hint=_HINT_STORAGE,
            ) from exc
        if durable:
            _sync_folder(os.path.dirname(final))
        return True

    @staticmethod
    def _rename(temporary: str, final: str) -> None:
        try:
            os.replace(temporary, final)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync_folder(os.path.dirname(final))


def _http_status(error: BaseException) -> int | None:
    """Return the HTTP status that caused an error, whichever client raised it."""
    cause: BaseException | None = error
    while cause is not None:
        response = getattr(cause, "response", None)
        if isinstance(response, Mapping):  # botocore's
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        else:
            names = ("status_code", "status", "code")
            status = next(filter(None, (getattr(cause, name, None) for name in names)), None)
        if isinstance(status, int):
            return status
        cause = cause.__cause__
    return None


def _open_backend(url: str, storage_options: Mapping[str, Any]) -> _Backend:
    import fsspec.core
    from fsspec.implementations.local import LocalFileSystem

    options = revealed(storage_options)
    try:
        fs, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as exc:
        protocol = url.split("://", 1)[0]
        raise MissingDependencyError(
            exc.name or protocol,
            install=f"pip install 'fsspec[{protocol}]'",
            feature=f"the state location {mask_url(url)}",
        ) from exc
    except OSError as exc:
        raise error_of_opening(
            exc, f"the state location {mask_url(url)}", option="state_location"
        ) from exc
    except ValueError as exc:
        raise StateLocationError(
            f"the state location {mask_url(url)} is not valid",
            found=str(exc),
            option="state_location",
            hint="use a path, or a URL of a file system that fsspec supports",
        ) from exc
    if isinstance(fs, LocalFileSystem):
        return _LocalBackend(fs, root)
    return _Backend(fs, root)


def _checked(path: str) -> str:
    """Refuse a path outside the root or with the name of a temporary file."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\\" in path or "\0" in path:
        raise ConfigurationError(
            f"{path!r} is not a path in the state location",
            expected="a relative path such as 'plans/0000000001.json', without '..'",
        )
    if _is_temporary(path):
        raise ConfigurationError(
            f"{path!r} cannot be the name of a state file",
            expected=f"a name that is not {_TEMPORARY_PREFIX}*{_TEMPORARY_SUFFIX}",
        )
    return path


def _is_temporary(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.startswith(_TEMPORARY_PREFIX) and name.endswith(_TEMPORARY_SUFFIX)


def _temporary_name(final: str) -> str:
    folder = os.path.dirname(final)
    name = f"{_TEMPORARY_PREFIX}{uuid.uuid4().hex}{_TEMPORARY_SUFFIX}"
    return os.path.join(folder, name)


def _make_folders(folder: str, durable: bool = True) -> None:
    if os.path.isdir(folder):
        return
    if not durable:
        os.makedirs(folder, exist_ok=True)
        return
    missing = list(_missing_folders(folder))
    os.makedirs(folder, exist_ok=True)
    # A new folder is durable once its parent is synced.
    for made in missing:
        _sync_folder(os.path.dirname(made))


def _missing_folders(folder: str) -> Iterator[str]:
    while folder and not os.path.isdir(folder):
        yield folder
        folder = os.path.dirname(folder)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
