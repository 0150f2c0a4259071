# SPDX-License-Identifier: Apache-2.0
"""When to complete a file, and how to name it."""

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
    """The input of a rolling policy.

    Attributes:
        rows: The rows written or buffered.
        size: The bytes written, plus an estimate for the buffered rows.
        age: Seconds since the first row.
    """

    rows: int
    size: int
    age: float


class RollingPolicy(Configured, since=_SINCE):
    """Decides when to close the file of a folder and start the next one. Executor.

    **Every file is closed at the end of its epoch, whatever the policy decides** (Flink's
    `OnCheckpointRollingPolicy`). The writer is a Spark task that ends with the epoch, and the
    decision of the epoch must name complete files. Readers would see a file that kept growing
    half-written. So a policy can only close files earlier. To get fewer, larger files, merge those
    of several epochs (`FileSink.enable_compact`), or make epochs longer.

    Raises:
        ConfigurationError: A limit is zero or negative.
    """

    max_rows: Setting[int | None] = option(
        "sink.rolling-policy.row-count",
        int,
        unit="rows",
        default=None,
        validator=positive,
        doc="Maximum number of rows in a file, exact. By default, there is no limit.",
    )
    max_size: Setting[int | None, int | str | None] = option(
        "sink.rolling-policy.file-size",
        optional(MEMORY_SIZE),
        default=128 * 1024 * 1024,
        validator=positive,
        doc="The writer closes a file that reaches this size and opens the next one. It estimates "
        "the size of buffered rows, so a file may be slightly larger. Every file is also closed "
        "at the end of its epoch.",
    )
    max_age: Setting[timedelta | None, timedelta | str | None] = option(
        "sink.rolling-policy.rollover-interval",
        DURATION,
        default=None,
        validator=positive,
        doc="Maximum age of a file since its first row. The writer checks it after each batch.",
    )
    clock: Setting[Callable[[], float]] = part(
        default=lambda: time.monotonic, doc="Clock in seconds, for tests."
    )

    def should_roll(self, file: OpenFile) -> bool:
        """Return whether this file is complete.

        The writer calls it after every batch, for every open file.
        """
        return (
            (self.max_rows is not None and file.rows >= self.max_rows)
            or (self.max_size is not None and file.size >= self.max_size)
            or (self.max_age is not None and file.age >= self.max_age.total_seconds())
        )


class OutputFileConfig(Configured, since=_SINCE):
    """The names of finished files: `<prefix>-<epoch>-<attempt>-<number><suffix>`.

    Raises:
        ConfigurationError: A part leaves the folder or hides the files.
    """

    prefix: Setting[str] = option(
        "sink.file-prefix",
        str,
        default="part",
        doc="Start of the file names. A leading `_` or `.` would hide the files and is refused.",
    )
    suffix: Setting[str | None] = option(
        "sink.file-suffix",
        str,
        default=None,
        doc="End of the file names. The default is the suffix of the format and compression.",
    )

    def __post_init__(self) -> None:
        if not _NAME_PART.fullmatch(self.prefix):
            raise ConfigurationError(
                "the prefix of file names is not valid",
                expected="letters, digits, '_', '-', and '.', starting with a letter or digit",
                found=self.prefix,
                option="sink.file-prefix",
            )
        if self.suffix is not None and not _SUFFIX.fullmatch(self.suffix):
            raise ConfigurationError(
                "the suffix of file names is not valid",
                expected="letters, digits, '_', '-', and '.'",
                found=self.suffix,
                option="sink.file-suffix",
            )
