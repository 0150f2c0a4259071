# SPDX-License-Identifier: Apache-2.0
"""When a file is complete, and what it is called."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from connectors_core.errors import ConfigurationError
from connectors_core.options import (
    DURATION,
    MEMORY_SIZE,
    Configured,
    Setting,
    option,
    optional,
    part,
    positive,
)

__all__ = ["OpenFile", "OutputFileConfig", "RollingPolicy"]

_SINCE: Final = "2.0.0"
_NAME_PART: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,99}")
_SUFFIX: Final = re.compile(r"\.?[A-Za-z0-9_.\-]{1,50}")


@dataclass(frozen=True, kw_only=True)
class OpenFile:
    """What a rolling policy decides on.

    Attributes:
        rows: Rows written or buffered.
        size: Bytes written, with an estimate for what is still buffered.
        age: Seconds since its first row.
    """

    rows: int
    size: int
    age: float


class RollingPolicy(Configured):
    """When the file of a folder is closed and the next one begun. Executor.

    **Every file is closed at the end of its epoch, whatever the policy says** (Flink's
    `OnCheckpointRollingPolicy`): the writer is a task of Spark that ends with the epoch, the
    decision of the epoch must name complete files, and a file that went on growing would be seen
    half-written by readers. So a policy can only close files earlier. Few, larger files come from
    longer epochs (the trigger of the pipeline), not from here.

    Raises:
        ConfigurationError: A limit is not above zero.
    """

    max_rows: Setting[int | None] = option(
        "sink.rolling-policy.row-count",
        int,
        default=None,
        validator=positive,
        since=_SINCE,
        doc="Most rows of a file, exact; by default there is no limit.",
    )
    max_size: Setting[int | None, int | str | None] = option(
        "sink.rolling-policy.file-size",
        optional(MEMORY_SIZE),
        default=128 * 1024 * 1024,
        validator=positive,
        since=_SINCE,
        doc="The writer closes a file that reaches this size and opens the next one. It estimates "
        "the size of buffered rows, so a file may be slightly larger. Every epoch closes all of "
        "its files.",
    )
    max_age: Setting[timedelta | None, timedelta | str | None] = option(
        "sink.rolling-policy.rollover-interval",
        DURATION,
        default=None,
        validator=positive,
        since=_SINCE,
        doc="A file whose first row is so old is closed when the next batch comes.",
    )
    clock: Setting[Callable[[], float]] = part(
        default=lambda: time.monotonic, doc="Seconds, for tests."
    )

    def should_roll(self, file: OpenFile) -> bool:
        """Return whether this file is complete. Called after every batch, for every open file."""
        return (
            (self.max_rows is not None and file.rows >= self.max_rows)
            or (self.max_size is not None and file.size >= self.max_size)
            or (self.max_age is not None and file.age >= self.max_age.total_seconds())
        )


class OutputFileConfig(Configured):
    """What finished files are called: `<prefix>-<epoch>-<attempt>-<number><suffix>`.

    Raises:
        ConfigurationError: A part would leave the folder or hide the files.
    """

    prefix: Setting[str] = option(
        "sink.file-prefix",
        str,
        default="part",
        since=_SINCE,
        doc="How the names of files begin. A leading `_` or `.` would hide the files and is "
        "refused.",
    )
    suffix: Setting[str | None] = option(
        "sink.file-suffix",
        str,
        default=None,
        since=_SINCE,
        doc="How they end; by default that of format and compression.",
    )

    def __post_init__(self) -> None:
        if not _NAME_PART.fullmatch(self.prefix):
            raise ConfigurationError(
                "the prefix of file names cannot be used",
                expected="letters, digits, '_', '-' and '.', with a letter or digit in front",
                found=self.prefix,
                option="sink.file-prefix",
            )
        if self.suffix is not None and not _SUFFIX.fullmatch(self.suffix):
            raise ConfigurationError(
                "the suffix of file names cannot be used",
                expected="letters, digits, '_', '-' and '.'",
                found=self.suffix,
                option="sink.file-suffix",
            )
