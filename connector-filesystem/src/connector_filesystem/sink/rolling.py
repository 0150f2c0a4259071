# SPDX-License-Identifier: Apache-2.0
"""When a file is complete, and what it is called."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from connectors_core.errors import ConfigurationError
from connectors_core.spelling import spelled_in_python

__all__ = ["OpenFile", "OutputFileConfig", "RollingPolicy"]

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


@spelled_in_python(
    {
        "sink.rolling-policy.row-count": "max_rows",
        "sink.rolling-policy.file-size": "max_size",
        "sink.rolling-policy.rollover-interval": "max_age",
    },
    made_of_options=(),
)
@dataclass(frozen=True, kw_only=True)
class RollingPolicy:
    """When the file of a folder is closed and the next one begun. Executor.

    **Every file is closed at the end of its epoch, whatever the policy says** (Flink's
    `OnCheckpointRollingPolicy`): the writer is a task of Spark that ends with the epoch, the
    decision of the epoch must name complete files, and a file that went on growing would be seen
    half-written by readers. So a policy can only close files earlier. Few, larger files come from
    longer epochs (the trigger of the pipeline), not from here.

    Attributes:
        max_rows: Rows per file, exact; None is no limit.
        max_size: Bytes per file; what is buffered is estimated, so a file may be somewhat larger.
        max_age: Time since the file's first row, looked at whenever a batch comes.
        clock: Seconds, for tests.

    Raises:
        ConfigurationError: A limit is not above zero.
    """

    max_rows: int | None = None
    max_size: int | None = 128 * 1024 * 1024
    max_age: timedelta | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False, compare=False)

    def __post_init__(self) -> None:
        limits = (
            ("sink.rolling-policy.row-count", self.max_rows, 0),
            ("sink.rolling-policy.file-size", self.max_size, 0),
            ("sink.rolling-policy.rollover-interval", self.max_age, timedelta(0)),
        )
        for option, limit, zero in limits:
            if limit is not None and not limit > zero:  # type: ignore[operator]
                raise ConfigurationError(
                    "a limit of the rolling policy cannot be used",
                    expected="a value above zero, or None",
                    found=limit,
                    option=option,
                )

    def should_roll(self, file: OpenFile) -> bool:
        """Return whether this file is complete. Called after every batch, for every open file."""
        return (
            (self.max_rows is not None and file.rows >= self.max_rows)
            or (self.max_size is not None and file.size >= self.max_size)
            or (self.max_age is not None and file.age >= self.max_age.total_seconds())
        )


@spelled_in_python(made_of_options=())
@dataclass(frozen=True, kw_only=True)
class OutputFileConfig:
    """What finished files are called: `<prefix>-<epoch>-<attempt>-<number><suffix>`.

    Attributes:
        prefix: How names begin. A leading `_` or `.` would hide the files and is refused.
        suffix: How names end; by default that of format and compression.

    Raises:
        ConfigurationError: A part would leave the folder or hide the files.
    """

    prefix: str = "part"
    suffix: str | None = None

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
