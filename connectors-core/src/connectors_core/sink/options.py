# SPDX-License-Identifier: Apache-2.0
"""Options that sinks share."""

from __future__ import annotations

from typing import Final

from connectors_core.options import Option, positive

__all__ = ["SINK_PARALLELISM"]

SINK_PARALLELISM: Final = Option(
    "sink.parallelism",
    int,
    unit="writers",
    validator=positive,
    since="1.0.0",
    doc="Number of writers. The default is the number of partitions of the input.",
)
"""The setting of a sink that `Sink.writer_parallelism` returns."""
