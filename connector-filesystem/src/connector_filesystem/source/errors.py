# SPDX-License-Identifier: Apache-2.0
"""The errors of whole files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable

import pyarrow as pa

from connector_filesystem.filesystem import FileLocation, FileStatus, is_of_system
from connector_filesystem.source.parquet import UnsupportedFileError
from connector_filesystem.source.split import FileSplit
from connectors_core.errors import DataLossError, FatalError, RetryableError, SplitChangedError

__all__ = ["SchemaChangedError", "check_unchanged", "file_error"]


class SchemaChangedError(FatalError):
    """The columns of a file differ from the declared columns or from those of the first file.

    Attributes:
        path: The file.
        missing: Declared columns that the file does not have.
        new: Columns that are not declared.
        changed: Columns whose type cannot become the declared type.
    """

    code = "SCHEMA_CHANGED"

    def __init__(
        self,
        path: str,
        *,
        missing: Iterable[str] = (),
        new: Iterable[str] = (),
        changed: Iterable[str] = (),
        position: str | None = None,
    ) -> None:
        self.path = path
        self.missing = tuple(missing)
        self.new = tuple(new)
        self.changed = tuple(changed)
        said = [
            f"{label} {', '.join(names)}"
            for label, names in (
                ("missing", self.missing),
                ("new", self.new),
                ("other type", self.changed),
            )
            if names
        ]
        ways = []
        if self.missing:
            ways.append("null-missing reads missing columns as null")
        if self.new:
            ways.append("ignore-new ignores new columns")
        ways.append(
            "or set source.on-unreadable to skip, and write the file under another name with the "
            "columns of the schema"
        )
        at = f" at {position}" if position else ""
        super().__init__(
            f"the columns of {path}{at} do not match the schema: {'; '.join(said)}",
            option="on-schema-change",
            hint="; ".join(ways),
        )


def check_unchanged(location: FileLocation, split: FileSplit, position: Callable[[], str]) -> None:
    """Compare a file with its status at discovery.

    Args:
        location: A location on the file's filesystem.
        split: A split of the file.
        position: Returns the position read so far, for the message.

    Raises:
        DataLossError: The file no longer exists.
        SplitChangedError: The file has another version.
    """
    try:
        found = location.status(split.path)
    except FileNotFoundError as exc:
        raise DataLossError(
            f"the file {location.url_of(split.path)} is gone, read up to {position()}",
            expected=_version(split.status),
            found="no file",
            hint="restore it, or set source.on-unreadable to skip; remove or move files only after "
            "they have been read completely",
        ) from exc
    if not found.is_same_version(split.status):
        raise SplitChangedError(
            f"the file {location.url_of(split.path)} has changed since it was discovered, read up "
            f"to {position()}",
            expected=_version(split.status),
            found=_version(found),
            hint="restore the former version, or set source.on-unreadable to skip; write new files "
            "under a hidden name, rename them when they are complete, and never append in place",
        )


def file_error(
    location: FileLocation, split: FileSplit, position: str, cause: BaseException
) -> Exception:
    """Return the error to raise when reading fails, in particular if the file was replaced."""
    try:
        check_unchanged(location, split, lambda: position)
    except (DataLossError, SplitChangedError) as changed:
        changed.__cause__ = cause
        return changed
    except Exception as unknown:  # the status request failed too
        cause.add_note(f"and its status cannot be read: {unknown}")
    url = location.url_of(split.path)
    if is_of_system(cause):
        error: Exception = RetryableError(
            f"the file {url} could not be read from {position} onward", found=str(cause)
        )
    elif isinstance(cause, pa.ArrowNotImplementedError):
        error = FatalError(
            f"the file {url} contains a type or an encoding that cannot be read",
            expected="types and encodings that Arrow reads",
            found=str(cause) if isinstance(cause, UnsupportedFileError) else None,
            hint="set source.on-unreadable to skip, and write the file under another name with "
            "other types",
            code="FILE_UNSUPPORTED",
        )
    else:
        error = FatalError(
            f"the file {url} is truncated, damaged, or encrypted, read up to {position}",
            expected="a complete file that is not encrypted",
            found=_damage(cause),
            hint="set source.on-unreadable to skip, and write the complete file under another name",
            code="FILE_DAMAGED",
        )
    error.__cause__ = cause
    return error


def _damage(cause: BaseException) -> str:
    """Describe the damage in no words of a library, which could contain values of the file."""
    if isinstance(cause, EOFError):
        return "an end within compressed data"
    if isinstance(cause, csv.Error):
        return "a first line that is no header"
    return "bytes that do not follow its format"


def _version(status: FileStatus) -> str:
    tag = f", etag {status.etag}" if status.etag else ""
    return f"{status.size} bytes, modified at {status.modification_time} us{tag}"
