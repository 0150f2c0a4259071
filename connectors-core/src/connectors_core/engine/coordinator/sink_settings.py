# SPDX-License-Identifier: Apache-2.0
"""The settings of a sink in a pipeline. Driver, no pyspark."""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors_core.records import RecordPolicy
from connectors_core.sink.sink import Sink


@dataclass(frozen=True, kw_only=True)
class SinkSettings:
    """A sink and its settings in a pipeline.

    Attributes:
        uid: Its name, stable across restarts.
        sink: The sink.
        policy: Handles rows that cannot be written.
        parallelism: Number of writers, if the user fixes it.
        spark_inputs: The kinds of inputs that Spark reads itself for its rows, such as "kafka". No
            report pins their rows: Spark must return the same ones in a replay.
    """

    uid: str
    sink: Sink
    policy: RecordPolicy = field(default_factory=RecordPolicy.fail)
    parallelism: int | None = None
    spark_inputs: tuple[str, ...] = ()

    @property
    def own_parallelism(self) -> int | None:
        """Number of writers, if the user or the sink fixes it."""
        return self.parallelism if self.parallelism is not None else self.sink.writer_parallelism()
