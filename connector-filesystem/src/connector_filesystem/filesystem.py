# SPDX-License-Identifier: Apache-2.0
"""Locations on fsspec filesystems, shared by the source and the sink."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, cast

import fsspec
import pyarrow as pa
from fsspec.core import url_to_fs

from connectors_core.clients import error_of_opening
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    InvalidOptionError,
    MissingDependencyError,
    RetryableError,
)
from connectors_core.options import JSON_MAP, option
from connectors_core.secrets import mask_url, masked, revealed

__all__ = [
    "STORAGE_OPTIONS",
    "FileLocation",
    "FileStatus",
    "mapped_errors",
    "plain_tag",
    "status_of",
    "whole_content",
]

_MAGIC: Final = frozenset("*?[")
_TIME_KEYS: Final = ("mtime", "LastModified", "last_modified", "updated", "modified", "created")
_PACKAGES: Final[Mapping[str, str]] = {
    "abfs": "adlfs",
    "abfss": "adlfs",
    "gcs": "gcsfs",
    "gs": "gcsfs",
    "s3": "s3fs",
    "sftp": "paramiko",
}
STORAGE_OPTIONS: Final[Any] = option(
    "storage-options.*",
    JSON_MAP,
    default=None,
    secret=True,
    since="2.0.0",
    doc="Options that fsspec passes to the filesystem, such as keys and endpoints. A value can be "
    "a `Secret`.",
)
"""The setting that the source and the sink share."""

_TAG_KEYS: Final = ("ETag", "etag", "md5Hash", "content_md5", "generation", "checksum")


@dataclass(frozen=True)
class FileStatus:
    """The status of a file, from a listing or from a single request.

    Attributes:
        path: Path on its filesystem, without the protocol.
        size: Bytes.
        modification_time: Microseconds since the epoch, or None if the filesystem does not report
            it.
        etag: The version's tag, or None if the filesystem does not report it.
        manifest: The number of the first manifest that lists it, if its folder has manifests.
    """

    path: str
    size: int
    modification_time: int | None = None
    etag: str | None = None
    manifest: int | None = None

    def is_same_version(self, other: FileStatus) -> bool:
        """Return whether both describe the same version of a file: its size, and its tag or time.

        Every content has its own tag. Times are compared only if a tag is missing: an object store
        can list fractions of a second that its responses about a single object omit.
        """
        if (self.path, self.size) != (other.path, other.size):
            return False
        if self.etag is not None and other.etag is not None:
            return plain_tag(self.etag) == plain_tag(other.etag)
        return self.modification_time == other.modification_time


@dataclass(frozen=True, repr=False)
class FileLocation:
    """A file, folder, or pattern on any fsspec filesystem. Driver and executor.

    It can be pickled. Each process opens the filesystem at its first use. The driver makes a plain
    local path absolute.

    Args:
        url: For example `s3://bucket/folder`, `memory://folder`, or `/data/*.csv`.
        storage_options: Passed to the filesystem. Only this step reveals values that are a
            `Secret`.

    Raises:
        InvalidOptionError: If the URL is empty.
    """

    url: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not self.url:
            raise InvalidOptionError("the path is empty", expected="a path or a URL", option="path")
        if "://" not in self.url and "::" not in self.url:
            object.__setattr__(self, "url", fsspec.core.strip_protocol("file://" + self.url))
        object.__setattr__(self, "storage_options", dict(self.storage_options))

    @property
    def fs(self) -> Any:
        """The filesystem, an `fsspec.AbstractFileSystem`, which each thread opens at most once."""
        return self._opened[0]

    @cached_property
    def path(self) -> str:
        """The path on the filesystem, without the protocol. It can be a pattern."""
        return self._opened[1]

    @cached_property
    def root(self) -> str:
        """The folder that all paths are relative to: `path` up to its first pattern character."""
        path = self.path
        if not self.is_pattern:
            return path
        parts = path.split("/")
        plain = parts[: next(at for at, part in enumerate(parts) if _MAGIC & set(part))]
        return "/".join(plain) or ("/" if path.startswith("/") else "")

    @cached_property
    def is_pattern(self) -> bool:
        """Whether the path contains `*`, `?`, or `[`, and is no file or folder of that name."""
        if not _MAGIC & set(self.path):
            return False
        with mapped_errors("reading", self.url):
            return not self.fs.exists(self.path)

    @cached_property
    def is_local(self) -> bool:
        """Whether clients can open the files by path, as files on this machine."""
        protocol = self.fs.protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def join(self, *parts: str) -> str:
        """Return a path below the root.

        Args:
            *parts: Relative paths.

        Raises:
            InvalidOptionError: If the path lies outside the root.
        """
        for part in parts:
            if part.startswith("/") or ".." in part.split("/"):
                raise InvalidOptionError(
                    f"the path {part!r} leads out of {mask_url(self.url)}",
                    expected="a relative path without '..'",
                    found=part,
                    option="path",
                )
        root = self.root
        below = posixpath.join(*parts) if parts else ""
        return f"{root.rstrip('/')}/{below}" if root and below else root or below

    def relative(self, path: str) -> str:
        """Return a path relative to the root. For the root itself, return its name.

        Raises:
            InvalidOptionError: If the path lies outside the root.
        """
        root = self.root.rstrip("/")
        if path == root:
            return posixpath.basename(path)
        if (root and not path.startswith(root + "/")) or ".." in path.split("/"):
            raise InvalidOptionError(
                f"the path {path!r} is outside {mask_url(self.url)}",
                expected=f"a path below {root!r}",
                found=path,
                option="path",
            )
        return path[len(root) :].lstrip("/")

    def url_of(self, path: str) -> str:
        """Return the URL of a path on the filesystem, with its secrets masked."""
        return mask_url(str(self.fs.unstrip_protocol(path)))

    def status(self, path: str) -> FileStatus:
        """Return the status of one file, without the listing cache.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        if self.is_local:
            found = os.stat(path)
            return FileStatus(path, found.st_size, _microseconds(found.st_mtime))
        fs = self.fs
        fs.invalidate_cache(path)
        fs.invalidate_cache(posixpath.dirname(path))
        return status_of(fs.info(path))

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes, without the listing cache; None if it is missing."""
        try:
            return self.status(path).size
        except FileNotFoundError:
            return None

    def names(self, relative: str) -> list[str]:
        """Return the names in a folder, in order, without the listing cache; none if it is missing.

        Args:
            relative: The folder, relative to the root.
        """
        self.fs.invalidate_cache()
        try:
            listed = self.fs.ls(self.join(relative), detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        names = (posixpath.basename(str(each).rstrip("/")) for each in listed)
        return sorted(name for name in names if name)

    def check_reachable(self, *, writable: bool = False) -> None:
        """Check that the filesystem responds. A missing path counts as a response.

        Args:
            writable: Require a local folder that this user can write to or can create.

        Raises:
            ConnectorError: The filesystem does not respond, or the path cannot be used. The error
                names the path and the cause.
        """
        doing = "writing to" if writable else "reading"
        with mapped_errors(doing, self.url):
            with contextlib.suppress(FileNotFoundError):
                self.fs.info(self.root)
            if self.is_local:
                self._check_allowed(os.W_OK if writable else os.R_OK)

    def _check_allowed(self, how: int) -> None:
        path = self.root
        while not os.path.exists(path) and path != os.path.dirname(path):
            path = os.path.dirname(path)
        if not os.access(path, how):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    def __repr__(self) -> str:
        return f"FileLocation({mask_url(self.url)!r}, {masked(self.storage_options)!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"url": self.url, "storage_options": self.storage_options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    @property
    def _opened(self) -> tuple[Any, str]:
        """The filesystem of this process and thread, and the path, for the current secrets."""
        options = revealed(self.storage_options)
        owner = os.getpid(), threading.get_ident()
        kept: dict[tuple[int, int], tuple[Any, Any]] = self.__dict__.setdefault("_kept", {})
        known, opened = kept.get(owner, (None, None))
        if opened is None or known != options:
            opened = self._open(options)
            kept[owner] = options, opened
        return cast("tuple[Any, str]", opened)

    def _open(self, options: Mapping[str, Any]) -> tuple[Any, str]:
        protocol = self.url.partition("://")[0]
        try:
            fs, path = url_to_fs(self.url, **options)
        except ImportError as exc:
            raise MissingDependencyError(
                _PACKAGES.get(protocol, protocol),
                install=f"pip install {_PACKAGES.get(protocol, protocol)}",
                feature=f"the filesystem of {mask_url(self.url)}",
            ) from exc
        except OSError as exc:
            raise error_of_opening(exc, mask_url(self.url), option="path") from exc
        except ValueError as exc:
            raise InvalidOptionError(
                f"the path {mask_url(self.url)} cannot be opened",
                expected="a path, or a URL whose protocol fsspec knows",
                found=str(exc),
                option="path",
            ) from exc
        return fs, str(path)


def status_of(info: Mapping[str, Any]) -> FileStatus:
    """Convert an entry of a detailed listing or of `info`, whose keys vary by filesystem."""
    moment = next((info[key] for key in _TIME_KEYS if info.get(key) is not None), None)
    tag = next((info[key] for key in _TAG_KEYS if info.get(key) is not None), None)
    return FileStatus(
        path=str(info["name"]),
        size=int(info.get("size") or 0),
        modification_time=_microseconds(moment),
        etag=None if tag is None else str(tag),
    )


@contextlib.contextmanager
def mapped_errors(doing: str, url: str) -> Iterator[None]:
    """Convert the filesystem's exceptions to connector errors, and keep the cause.

    `FileNotFoundError` passes through, because its meaning depends on the caller.

    Args:
        doing: The operation, e.g. `listing`.
        url: The URL of the path.
    """
    shown = mask_url(url)
    try:
        yield
    except (ConnectorError, FileNotFoundError):
        raise
    except PermissionError as exc:
        raise ConfigurationError(
            f"{doing} {shown} is not allowed",
            found=str(exc),
            option="storage-options",
            hint="check the credentials and the permissions of the path",
        ) from exc
    except (OSError, TimeoutError) as exc:
        raise RetryableError(f"{doing} {shown} failed", found=str(exc)) from exc


@contextlib.contextmanager
def whole_content(url: str, *, hint: str) -> Iterator[None]:
    """Convert errors of content that cannot be decoded or decrypted, which are permanent.

    Args:
        url: The URL of the file.
        hint: An instruction that fixes the problem.

    Raises:
        FatalError: The file is truncated, damaged, or encrypted.
    """
    try:
        yield
    except ConnectorError:
        raise
    except (OSError, EOFError, pa.ArrowException) as exc:
        if is_of_system(exc):
            raise
        raise FatalError(
            f"the file {mask_url(url)} is truncated, damaged, or encrypted",
            expected="a complete file that is not encrypted",
            found=type(exc).__name__,
            hint=hint,
            code="FILE_DAMAGED",
        ) from exc


def is_of_system(error: BaseException) -> bool:
    """Return whether an error comes from the system or the network, and may pass.

    Such an error has an errno or its own type. Arrow raises a plain `OSError` for content that it
    cannot decode or decrypt.
    """
    return isinstance(error, OSError) and (error.errno is not None or type(error) is not OSError)


def plain_tag(tag: str) -> str:
    """Return a tag without the quotes of HTTP, which only some listings contain."""
    return tag.removeprefix("W/").strip('"')


def _microseconds(moment: Any) -> int | None:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return None
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        delta: timedelta = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if isinstance(moment, (int, float)):
        return round(moment * 1_000_000)
    return None
