# SPDX-License-Identifier: Apache-2.0
"""The columns of the rows: those that a format decodes, and the metadata of messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from connector_nats.client import MESSAGES
from connectors_core.errors import ConfigurationError
from connectors_core.formats import BadMessage, DecodingFormat

__all__ = ["Layout", "Metadata"]


class Metadata(StrEnum):
    """What the server knows of a message besides its data."""

    SUBJECT = "subject"
    """The subject."""
    SEQUENCE = "sequence"
    """The sequence in the stream."""
    TIME = "time"
    """The time at which the server stored it."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of a source.

    Attributes:
        format: The format of the data of messages.
        decoded: The columns that the format decodes.
        metadata: The columns after them.
    """

    format: DecodingFormat
    decoded: pa.Schema
    metadata: Sequence[Metadata]

    @property
    def schema(self) -> pa.Schema:
        """All columns."""
        return pa.schema([*self.decoded, *(MESSAGES.field(name) for name in self.metadata)])

    def check(self) -> None:
        """Check that the format can decode the columns, and that no two have the same name.

        Raises:
            ConfigurationError: A setting does not fit another one.
        """
        self.format.check_readable(self.decoded)
        twice = sorted(set(self.decoded.names) & set(self.metadata))
        if twice:
            raise ConfigurationError(
                "a column of the schema has the name of a metadata column",
                found=", ".join(twice),
                option="metadata.columns",
            )

    def rows(self, messages: pa.RecordBatch) -> tuple[pa.RecordBatch, Sequence[BadMessage]]:
        """Return the rows of `MESSAGES`, and the messages that cannot be decoded."""
        decoded = self.format.decode(messages.column("data"), self.decoded)
        columns = [decoded.lined_up(messages.column(name)) for name in self.metadata]
        rows = pa.RecordBatch.from_arrays([*decoded.rows.columns, *columns], schema=self.schema)
        return rows, decoded.bad
