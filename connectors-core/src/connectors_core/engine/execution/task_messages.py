# SPDX-License-Identifier: Apache-2.0
"""The messages that tasks return to the driver, as rows that Spark collects."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

import pyarrow as pa

from connectors_core.serialization import JsonDataclassSerializer

MESSAGE_SCHEMA: Final = pa.schema([("payload", pa.binary())])

_VERSION: Final = 1
_M = TypeVar("_M")


class TaskMessages(Generic[_M]):
    """Encodes and decodes the messages of one kind.

    Args:
        kind: The dataclass of the messages.
    """

    def __init__(self, kind: type[_M]) -> None:
        self._serializer = JsonDataclassSerializer(kind, version=_VERSION)

    def encode(self, *messages: _M) -> pa.RecordBatch:
        """Return messages as rows of :data:`MESSAGE_SCHEMA`. Executor."""
        payloads = pa.array([self._serializer.serialize(each) for each in messages], pa.binary())
        return pa.RecordBatch.from_arrays([payloads], schema=MESSAGE_SCHEMA)

    def decode(self, payload: bytes) -> _M:
        """Return the message of a row. Driver."""
        return self._serializer.deserialize(_VERSION, payload)
