# SPDX-License-Identifier: Apache-2.0
"""A sink and how a pipeline writes to it. Driver, no pyspark."""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors_core.records import RecordPolicy
from connectors_core.sink.sink import Sink


@dataclass(frozen=True, kw_only=True)
class SinkSettings:
    """A sink and how a pipeline writes to it.

    Attributes:
        uid: Its name, for all restarts.
        sink: The sink.
        policy: What to do with rows that cannot be written.
        parallelism: Number of writers, where the user fixes it.
    """

    uid: str
    sink: Sink
    policy: RecordPolicy = field(default_factory=RecordPolicy.fail)
    parallelism: int | None = None

    @property
    def own_parallelism(self) -> int | None:
        """Number of writers, where the user or the sink fixes it."""
        return self.parallelism if self.parallelism is not None else self.sink.writer_parallelism()
