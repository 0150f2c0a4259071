# SPDX-License-Identifier: Apache-2.0
"""The Sink API after Flink's Sink V1, and the adapter that runs its sinks. Removed in 2.0.0."""

from connectors_core.sink.v1.adapter import SinkV1Adapter
from connectors_core.sink.v1.interfaces import (
    Committer,
    GlobalCommitter,
    InitContext,
    Sink,
    Writer,
    WriterContext,
)

__all__ = [
    "Committer",
    "GlobalCommitter",
    "InitContext",
    "Sink",
    "SinkV1Adapter",
    "Writer",
    "WriterContext",
]
