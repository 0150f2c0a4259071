# SPDX-License-Identifier: Apache-2.0
"""The policy for bad records, the same for every source and sink.

`fail` stops the pipeline, `skip` counts, and `dead-letter` sends the record to a sink. The attempt
that finds a bad record spools it. Only the spools in the winning report or summary are delivered,
so dead letters have the same guarantee as the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Protocol, TypedDict

import pyarrow as pa

from connectors_core.errors import (
    BadRecordError,
    BadRecordLimitError,
    ConfigurationError,
    ConnectorError,
    ForeignError,
)

__all__ = [
    "DEAD_LETTER_SCHEMA",
    "BadRecord",
    "DeadLetterWriter",
    "RecordErrorHandler",
    "RecordPolicy",
    "RecordPolicyMode",
    "RecordSummary",
]

DEAD_LETTER_SCHEMA: Final[pa.Schema] = pa.schema(
    [
        pa.field("error_code", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("source_uid", pa.string(), nullable=False),
        pa.field("split_id", pa.string()),
        pa.field("position", pa.string()),
        pa.field("raw", pa.binary()),
        pa.field("occurred_at", pa.timestamp("us", tz="UTC"), nullable=False),
    ]
)
"""The columns that the sink of dead letters receives."""

_SHOWN_BYTES: Final = 1000
_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?\d[\d.]{2,}(?:[eE][-+]?\d+)?")


class RecordPolicyMode(StrEnum):
    """What happens to a record that cannot be read or written."""

    FAIL = "fail"
    """The pipeline stops with a `BadRecordError`."""
    SKIP = "skip"
    "The record is counted and dropped."
    DEAD_LETTER = "dead-letter"
    "The record is counted, dropped, and sent to a sink."


@dataclass(frozen=True, kw_only=True)
class RecordPolicy:
    """How to handle bad records; created by `fail()`, `skip()`, or `dead_letter()`.

    Attributes:
        mode: What happens to a bad record.
        max_records: Maximum number of bad records before the pipeline stops; None for no limit.
        sink: Sink for dead letters (rows of `DEAD_LETTER_SCHEMA`), else None.
        show_records: Whether errors show the record and the client's message. By default errors
            contain no values, because records may be personal and errors end up in logs.
    """

    mode: RecordPolicyMode = RecordPolicyMode.FAIL
    max_records: int | None = None
    sink: object | None = None
    show_records: bool = False

    def __post_init__(self) -> None:
        if self.max_records is not None and self.max_records < 0:
            raise ConfigurationError(
                "the limit of bad records must not be negative",
                expected="a number from 0, or None for no limit",
                found=self.max_records,
                option="max_records",
            )

    @classmethod
    def fail(cls, *, show_records: bool = False) -> RecordPolicy:
        """Stop at the first bad record; the default.

        Args:
            show_records: Whether the error shows the record, which may contain personal
                data.
        """
        return cls(mode=RecordPolicyMode.FAIL, show_records=show_records)

    @classmethod
    def skip(cls, *, max_records: int | None = None, show_records: bool = False) -> RecordPolicy:
        """Count bad records and drop them.

        Args:
            max_records: Maximum number before the pipeline stops; None for no limit.
            show_records: Whether the error about the limit shows the last record.
        """
        return cls(mode=RecordPolicyMode.SKIP, max_records=max_records, show_records=show_records)

    @classmethod
    def dead_letter(cls, sink: object, *, max_records: int | None = None) -> RecordPolicy:
        """Count bad records and send them to a sink with the same guarantee as the epoch.

        Args:
            sink: A sink for rows of `DEAD_LETTER_SCHEMA`.
            max_records: Maximum number before the pipeline stops; None for no limit.
        """
        if sink is None:
            raise ConfigurationError(
                "the record policy dead-letter needs a sink", expected="a sink", found=None
            )
        return cls(mode=RecordPolicyMode.DEAD_LETTER, max_records=max_records, sink=sink)

    def for_executors(self) -> RecordPolicy:
        """Return the policy without its sink, which executors do not need."""
        return replace(self, sink=None)

    def check_total(self, total: int) -> None:
        """Check the total of all reports against the limit; driver.

        Args:
            total: Number of bad records of the pipeline so far.

        Raises:
            BadRecordLimitError: The total exceeds the limit.
        """
        if self.max_records is not None and total > self.max_records:
            raise BadRecordLimitError(
                "there are more bad records than allowed",
                expected=f"at most {self.max_records}",
                found=f"{total}",
                option="max_records",
                hint="check the reasons first; then raise the limit or correct the data",
            )


@dataclass(frozen=True, kw_only=True)
class BadRecord:
    """One record that cannot be read or written.

    Attributes:
        reason: Why; for people.
        source_uid: Uid of the source or sink that found it.
        code: Stable identifier of the kind of damage; for programs.
        split_id: The split that contains it, if known.
        position: Its position in the split, as text.
        raw: The original record, if available; never shown.
        when: When it was found, with a time zone.
    """

    reason: str
    source_uid: str
    code: str = BadRecordError.code
    split_id: str | None = None
    position: str | None = None
    raw: bytes | None = field(default=None, repr=False)
    when: datetime = field(default_factory=lambda: datetime.now(UTC))

    @classmethod
    def from_error(cls, error: BadRecordError, *, source_uid: str) -> BadRecord:
        """Return the record that an error of a connector describes."""
        return cls(
            reason=error.reason,
            source_uid=source_uid,
            code=error.code,
            split_id=error.split_id,
            position=error.position,
            raw=error.raw,
        )

    def to_error(self) -> BadRecordError:
        """Return the error that stops the pipeline."""
        return BadRecordError(
            self.reason,
            split_id=self.split_id,
            position=self.position,
            raw=self.raw,
            code=self.code,
        )


class RecordSummary(TypedDict):
    """The bad records of one attempt; a plain dict for reports."""

    skipped: int
    dead_letters: int
    spool: str | None


class DeadLetterWriter(Protocol):
    """Stores the dead letters of one attempt until its report names them."""

    @property
    def name(self) -> str:
        """The location of the records, for the report."""
        ...

    def append(self, record: BadRecord) -> None:
        """Add a record."""
        ...

    def close(self) -> None:
        """Publish the records; they are durable when this returns."""
        ...

    def abort(self) -> None:
        """Discard the records."""
        ...


class RecordErrorHandler:
    """Applies a record policy within one attempt of a reader or writer; executor.

    This is a context manager: it closes the spool on normal exit and discards it on an exception.
    The attempt's report contains the summary. Not thread safe.

    Args:
        policy: The policy. This class checks its limit within the attempt;
            `RecordPolicy.check_total` checks it over all reports on the driver.
        open_spool: Opens the spool for the first dead letter. Required only for the mode
            dead-letter.
    """

    def __init__(
        self,
        policy: RecordPolicy,
        open_spool: Callable[[], DeadLetterWriter] | None = None,
    ) -> None:
        if policy.mode is RecordPolicyMode.DEAD_LETTER and open_spool is None:
            raise ConfigurationError("the record policy dead-letter needs a spool location")
        self._policy = policy
        self._open_spool = open_spool
        self._spool: DeadLetterWriter | None = None
        self._skipped = 0
        self._dead_letters = 0

    def handle(self, record: BadRecord, *, cause: BaseException | None = None) -> None:
        """Handle a bad record. If this returns, drop the record.

        Args:
            record: The record.
            cause: The underlying error of the client library.

        Raises:
            BadRecordError: The policy is `fail`.
            BadRecordLimitError: This attempt alone exceeds the limit.
        """
        if self._policy.mode is RecordPolicyMode.FAIL:
            raise self._error_of(record) from self._cause_of(cause)
        if self._policy.mode is RecordPolicyMode.SKIP:
            self._skipped += 1
        else:
            if self._spool is None:
                assert self._open_spool is not None  # checked in the constructor
                self._spool = self._open_spool()
            self._spool.append(record)
            self._dead_letters += 1
        try:
            self._policy.check_total(self._skipped + self._dead_letters)
        except BadRecordLimitError as exc:
            # The last record usually represents the problem of all of them.
            raise exc from (self._cause_of(cause) or self._error_of(record))

    def drop(self, record: BadRecord) -> None:
        """Count data that an option of the source skips; the policy fail keeps no copy of it.

        Args:
            record: The skipped data, such as the rest of a file that cannot be read.
        """
        if self._policy.mode is RecordPolicyMode.FAIL:
            self._skipped += 1
        else:
            self.handle(record)

    def _error_of(self, record: BadRecord) -> BadRecordError:
        if not self._policy.show_records:
            return replace(record, reason=_without_numbers(record.reason, record.raw)).to_error()
        error = record.to_error()
        if record.raw is not None:
            error.found = repr(record.raw[:_SHOWN_BYTES])
            if len(record.raw) > _SHOWN_BYTES:
                error.found += f" and {len(record.raw) - _SHOWN_BYTES} more bytes"
        return error

    def _cause_of(self, cause: BaseException | None) -> BaseException | None:
        # Clients quote the value that they cannot read; errors of the core never do.
        if cause is None or self._policy.show_records or isinstance(cause, ConnectorError):
            return cause
        name = f"{type(cause).__module__}.{type(cause).__qualname__}"
        return ForeignError(
            f"the message of {name} may contain values of the record and is not shown",
            type_name=name,
            hint="to see it, use RecordPolicy.fail(show_records=True)",
        )

    def close(self) -> None:
        """Publish the spool, if any; must precede the report that names it."""
        if self._spool is not None:
            self._spool.close()

    def abort(self) -> None:
        """Discard the spool, if any."""
        if self._spool is not None:
            self._spool.abort()

    def summary(self) -> RecordSummary:
        """Return the counts of this attempt and the name of its spool, if any."""
        return RecordSummary(
            skipped=self._skipped,
            dead_letters=self._dead_letters,
            spool=self._spool.name if self._spool is not None else None,
        )

    def __enter__(self) -> RecordErrorHandler:
        return self

    def __exit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        if exc_type is None:
            self.close()
        else:
            self.abort()


def _without_numbers(reason: str, raw: bytes | None) -> str:
    """Remove the record's numbers from a reason, because some clients quote them."""
    if raw is None:
        return reason
    text = raw.decode("utf-8", "replace")
    return _NUMBER.sub(lambda found: "a number" if found[0] in text else found[0], reason)
