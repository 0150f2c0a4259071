# SPDX-License-Identifier: Apache-2.0
"""What a format is: between a column of messages and declared columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["BadMessage", "Decoded", "DecodingFormat", "Encoded", "EncodingFormat"]

_Columns = TypeVar("_Columns", pa.RecordBatch, pa.Array, pa.ChunkedArray)


@dataclass(frozen=True)
class BadMessage:
    """A message that cannot be decoded, or a row that cannot be encoded.

    Attributes:
        at: Its index in the input of the format.
        reason: Why, for people; without values of the record.
        cause: The underlying error of the library, if any. Its text may contain values: chain
            it,
            but never show it by itself.
    """

    at: int
    reason: str
    cause: Exception | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class _Outcome:
    """What is good, in its order, and what is not.

    Attributes:
        kept: Position of each good one in what was given to the format; None where all are good.
        bad: The others, in order, for the `RecordErrorHandler` of the caller.
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
    """Rows out of messages.

    Attributes:
        rows: The rows of the good messages, in order, with the columns of the wanted schema.
    """

    rows: pa.RecordBatch


@dataclass(frozen=True, kw_only=True)
class Encoded(_Outcome):
    """Messages out of rows.

    Attributes:
        messages: A column of bytes, one message for each good row, in order.
    """

    messages: pa.Array


class DecodingFormat(ABC):
    """Reads messages; a value that is shipped to executors. The counterpart of Flink's interface.

    A format holds no schema: the source that uses it knows the columns. Not for several threads.
    """

    @abstractmethod
    def check_readable(self, schema: pa.Schema) -> None:
        """Check that messages can be read into these columns; driver.

        Raises:
            ConfigurationError: One of them cannot, or the format is not installed.
        """

    @abstractmethod
    def decode(self, messages: pa.Array | pa.ChunkedArray, schema: pa.Schema) -> Decoded:
        """Read messages; executor.

        Args:
            messages: Column of bytes, large or not, one message each; nulls are allowed. At most
                2 GiB.
            schema: Wanted columns; `check_readable` has nothing against them.

        Returns:
            One row for each good message, in order, and the bad ones with the reason.

        Raises:
            RetryableError: What is needed to read them cannot be reached now.
        """


class EncodingFormat(ABC):
    """Writes messages; a value that is shipped to executors. The counterpart of Flink's interface.

    Not for several threads.
    """

    @abstractmethod
    def check_writable(self, schema: pa.Schema) -> None:
        """Check that these columns can be written; driver.

        Raises:
            ConfigurationError: One of them cannot, or the format is not installed.
        """

    @abstractmethod
    def encode(self, rows: pa.RecordBatch) -> Encoded:
        """Write each row as a message; executor.

        Args:
            rows: All columns go into the messages; `check_writable` has nothing against them.

        Returns:
            One message for each good row, in order, and the bad rows with the reason.

        Raises:
            RetryableError: What is needed to write them cannot be reached now.
        """
