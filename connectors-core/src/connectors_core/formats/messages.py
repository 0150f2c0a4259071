# SPDX-License-Identifier: Apache-2.0
"""The interface of formats, which convert between messages and declared columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["BadMessage", "Decoded", "DecodingFormat", "Encoded", "EncodingFormat", "encode_good"]

_Columns = TypeVar("_Columns", pa.RecordBatch, pa.Array, pa.ChunkedArray)


@dataclass(frozen=True)
class BadMessage:
    """A message that cannot be decoded, or a row that cannot be encoded.

    Attributes:
        at: Its index in the input of the format.
        reason: Why, for people; without values of the record.
        cause: The underlying error of the library, if any. Its text may contain values: chain
            it, but never show it by itself.
    """

    at: int
    reason: str
    cause: Exception | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """The good and bad messages or rows, in order.

    Attributes:
        kept: Position of each good one in the input of the format; None if all are good and have
            one row.
        bad: The bad ones, for the caller's `RecordErrorHandler`.
    """

    kept: npt.NDArray[np.int64] | None = None
    bad: tuple[BadMessage, ...] = ()

    def lined_up(self, columns: _Columns) -> _Columns:
        """Return the metadata of the good messages, e.g. the partition and offset of each.

        Args:
            columns: As many rows as the input of the format.
        """
        return columns if self.kept is None else columns.take(pa.array(self.kept))


@dataclass(frozen=True, kw_only=True)
class Decoded(_Outcome):
    """Rows that were decoded from messages.

    Attributes:
        rows: The rows of the good messages, in order, with the columns of the wanted schema.
    """

    rows: pa.RecordBatch


@dataclass(frozen=True, kw_only=True)
class Encoded(_Outcome):
    """Messages that were encoded from rows.

    Attributes:
        messages: A column of bytes, one message for each good row, in order.
    """

    messages: pa.Array


def encode_good(
    rows: pa.RecordBatch,
    faults: Iterable[tuple[str, npt.NDArray[np.bool_]]],
    encode: Callable[[pa.RecordBatch], pa.Array],
) -> Encoded:
    """Encode the rows without faults.

    Args:
        rows: The rows.
        faults: Reasons why rows are bad, with masks of these rows. The first reason counts.
        encode: Encodes good rows.
    """
    is_bad = np.zeros(rows.num_rows, np.bool_)
    bad: list[BadMessage] = []
    for reason, found in faults:
        bad += [BadMessage(at, reason) for at in np.flatnonzero(found & ~is_bad).tolist()]
        is_bad |= found
    if not bad:
        return Encoded(messages=encode(rows))
    kept = np.flatnonzero(~is_bad)
    return Encoded(
        messages=encode(rows.take(pa.array(kept))),
        kept=kept,
        bad=tuple(sorted(bad, key=lambda each: each.at)),
    )


class DecodingFormat(ABC):
    """Decodes messages; an immutable value that is sent to executors.

    The counterpart of Flink's interface. A format has no schema: the source that uses it knows the
    columns. Not thread-safe.

    Attributes:
        one_row_per_message: Whether each good message has exactly one row, as in most formats. The
            rows of a message of another format depend on the message alone.
        is_changelog: Whether the columns include `_row_kind`, the kind of change of each row.
    """

    one_row_per_message = True
    is_changelog = False

    @abstractmethod
    def check_readable(self, schema: pa.Schema) -> None:
        """Check that the format can decode these columns; driver.

        Raises:
            ConfigurationError: It does not support a column, or it is not installed.
        """

    @abstractmethod
    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """Decode messages; executor.

        Args:
            messages: Binary or large binary column, one message each, at most 2 GiB; may have
                nulls.
            schema: Wanted columns, which `check_readable` accepts.

        Returns:
            One row for each good message, in order, and the bad ones with the reason. If the format
            has another number of rows for a message, its position in `kept` occurs as often.

        Raises:
            RetryableError: A required service is temporarily unreachable.
        """

    def projected(self, schema: pa.Schema) -> DecodingFormat | None:
        """Return a format that decodes some of these columns from the same messages; driver.

        The counterpart of Flink's ProjectableDecodingFormat. It need not notice a message whose
        other fields cannot be decoded. By default, a format decodes all columns.

        Args:
            schema: All columns, which `check_readable` accepts.

        Returns:
            A format whose `decode` accepts any of the columns; None if it needs all of them.
        """
        return None

    @property
    def readable_metadata(self) -> Mapping[str, pa.DataType]:
        """The types of the values that a message has besides its rows, by key."""
        return {}

    def reading_metadata(self, columns: Mapping[str, str]) -> DecodingFormat:
        """Return a format that also decodes metadata of messages; driver.

        The counterpart of Flink's `applyReadableMetadata`.

        Args:
            columns: Keys of `readable_metadata`, by the name of the column for each. The schema of
                `check_readable` and `decode` then also has these columns, with the type from there.
        """
        raise NotImplementedError(f"{type(self).__name__} has no metadata")


class EncodingFormat(ABC):
    """Encodes messages; an immutable value that is sent to executors.

    The counterpart of Flink's interface. Not thread-safe.

    Attributes:
        is_changelog: Whether a row can have the column `_row_kind`, its kind of change.
    """

    is_changelog = False

    @abstractmethod
    def check_writable(self, schema: pa.Schema) -> None:
        """Check that the format can encode these columns; driver.

        Raises:
            ConfigurationError: It does not support a column, or it is not installed.
        """

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """Encode each row as a message; executor.

        Args:
            rows: The rows, with columns that `check_writable` accepts.

        Returns:
            One message for each good row, in order, and the bad rows with the reason.

        Raises:
            RetryableError: A required service is temporarily unreachable.
        """
