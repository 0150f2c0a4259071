# SPDX-License-Identifier: Apache-2.0
"""Publishes messages to streams, many at a time. Executor, event loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from nats.aio.client import Client as Nats
from nats.errors import MaxPayloadError
from nats.js.errors import APIError, NoStreamResponseError

from connector_nats.client import connect, failure
from connector_nats.options import Connection, is_subject
from connectors_core.errors import ConfigurationError, ConnectorError, RetryableError

__all__ = ["Message", "Outcome", "Publisher"]

_TIMEOUT_SECONDS: Final = 30.0
_ID: Final = "Nats-Msg-Id"
_TOO_LARGE: Final = 10054
_OTHER_STREAM: Final = 10060


@dataclass(frozen=True)
class Message:
    """A message to publish.

    Attributes:
        subject: The subject.
        id: The ID by which the server recognizes a repeated message.
        body: The data.
    """

    subject: str
    id: str
    body: bytes


class Outcome(Enum):
    """What the server did with a message."""

    STORED = auto()
    """It has stored the message, now or before."""
    BUSY = auto()
    """It may store the message later, or has not answered."""
    REFUSED = auto()
    """It will never store the message."""


class Publisher:
    """A connection, which the first request opens.

    Args:
        connection: The connection settings.
        stream: The stream that must store the messages, or None for any.
    """

    def __init__(self, connection: Connection, stream: str | None) -> None:
        self._connection = connection
        self._stream = stream
        self._nats: Nats | None = None
        self._connecting = asyncio.Lock()

    async def publish(self, messages: Sequence[Message]) -> list[Outcome]:
        """Publish messages, and wait for the acknowledgement of each.

        Raises:
            ConnectorError: No message was stored. The error's class determines the reaction.
        """
        nats = await self._connected()
        results = await asyncio.gather(*(self._publish(nats, each) for each in messages))
        errors = [each for each in results if isinstance(each, ConnectorError)]
        for error in errors:
            if not isinstance(error, RetryableError):
                raise error
        if errors and len(errors) == len(messages):
            raise errors[0]
        return [Outcome.BUSY if isinstance(each, ConnectorError) else each for each in results]

    async def close(self) -> None:
        """Disconnect."""
        if self._nats is not None:
            await self._nats.close()

    async def _connected(self) -> Nats:
        async with self._connecting:
            if self._nats is None or self._nats.is_closed:
                self._nats = await connect(self._connection, _TIMEOUT_SECONDS)
            return self._nats

    async def _publish(self, nats: Nats, message: Message) -> Outcome | ConnectorError:

        if not is_subject(message.subject):
            return Outcome.REFUSED
        try:
            await nats.jetstream().publish(
                message.subject,
                message.body,
                timeout=_TIMEOUT_SECONDS,
                stream=self._stream,
                headers={_ID: message.id},
            )
        except MaxPayloadError:
            return Outcome.REFUSED
        except NoStreamResponseError as error:
            return _caused(RetryableError(f"no stream stores {message.subject!r}"), error)
        except APIError as error:
            if error.err_code == _TOO_LARGE:
                return Outcome.REFUSED
            if error.err_code == _OTHER_STREAM:
                other = ConfigurationError(
                    f"another stream stores {message.subject!r}",
                    expected=self._stream,
                    option="stream",
                )
                return _caused(other, error)
            return _caused(failure(self._connection, error), error)
        except Exception as error:
            return _caused(failure(self._connection, error), error)
        return Outcome.STORED


def _caused(error: ConnectorError, cause: Exception) -> ConnectorError:
    error.__cause__ = cause
    return error
