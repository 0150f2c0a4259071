# SPDX-License-Identifier: Apache-2.0
"""The sink: its settings and the creation of writers."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from connector_nats.client import check_connection
from connector_nats.options import SINCE, Connection, is_subject
from connector_nats.publisher import Message, Publisher
from connector_nats.writer import MessageColumns, MessageWriter
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.errors import ConfigurationError
from connectors_core.formats import (
    EncodingFormat,
    JsonFormat,
    as_format,
    format_of,
    format_options,
)
from connectors_core.lineage import LineageDataset, LineageVertexProvider
from connectors_core.options import Bound, Setting, not_empty, option, part
from connectors_core.sink import AsyncSink, AsyncSinkWriterConfiguration, WriterInitContext

__all__ = ["NatsSink"]

_SUBJECT: Final = Bound(
    "no wildcard", is_subject, "one subject without wildcards and not of the server itself"
)


class NatsSink(
    Connection,
    AsyncSink[Message],
    SupportsConnectionCheck,
    LineageVertexProvider,
    scope="NATS sink",
    since=SINCE,
):
    """Publishes rows as messages, at least once. The server drops messages that it recognizes.

    Immutable and picklable. The constructor does no I/O.

    Raises:
        ConfigurationError: A setting is not valid.
    """

    subject: Setting[str | None] = option(
        "subject", str, default=None, validator=_SUBJECT, doc="Subject of all messages."
    )
    subject_column: Setting[str | None] = option(
        "subject.column",
        str,
        default=None,
        validator=not_empty,
        doc="Column of each message's subject, instead of `subject`. A row with another value than "
        "one subject is a bad record.",
    )
    id_column: Setting[str | None] = option(
        "id.column",
        str,
        default=None,
        validator=not_empty,
        doc="Column of each message's ID. The server stores an ID once within the duplicate window "
        "of the stream. By default, and for null, the sink creates an ID.",
    )
    stream: Setting[str | None] = option(
        "stream",
        str,
        default=None,
        validator=not_empty,
        doc="Stream that must store the messages. By default, any.",
    )
    format: Setting[EncodingFormat, EncodingFormat | str] = part(
        None,
        *format_options(since=SINCE),
        build=lambda options: format_of(options) or JsonFormat(),
        accept=as_format,
        default=JsonFormat,
        doc="Format of the data of messages, or its name.",
    )
    configuration: Setting[AsyncSinkWriterConfiguration] = part(
        AsyncSinkWriterConfiguration,
        default=AsyncSinkWriterConfiguration,
        doc="Limits of the requests.",
    )

    def __post_init__(self) -> None:
        self.check()
        if (self.subject is None) == (self.subject_column is None):
            raise ConfigurationError(
                "messages need exactly one source for their subject",
                expected="'subject' or 'subject.column'",
                found="neither" if self.subject is None else "both",
                option="subject",
            )
        self.columns = MessageColumns(
            format=self.format,
            subject=self.subject,
            subject_column=self.subject_column,
            id_column=self.id_column,
        )

    def check_connection(self, timeout: float) -> None:
        """Check that a server responds. See `SupportsConnectionCheck`. Driver."""
        check_connection(self.connection, timeout)

    def lineage_datasets(self) -> tuple[LineageDataset, ...]:
        """Return the subject, or the server if a column has the subject. Driver, without I/O."""
        name = self.subject or self.stream or "*"
        return (LineageDataset(namespace=self.namespace, name=name),)

    def validate(self, schema: pa.Schema) -> None:
        """Reject columns that are missing or that the format cannot encode. Driver.

        Raises:
            ConfigurationError: A column does not fit.
        """
        for option_, name in (
            ("subject.column", self.subject_column),
            ("id.column", self.id_column),
        ):
            if name is not None and name not in schema.names:
                raise ConfigurationError(
                    f"the rows have no column {name!r}",
                    expected=", ".join(schema.names),
                    option=option_,
                )
        self.format.check_writable(self.columns.encoded(schema))

    def create_writer(self, context: WriterInitContext) -> MessageWriter:
        """Create the writer of one task in one epoch. Executor."""
        publisher = Publisher(self.connection, self.stream)
        return MessageWriter(self.columns, publisher, context, self.configuration)

    def __repr__(self) -> str:
        return f"NatsSink({self.subject or self.subject_column!r})"
