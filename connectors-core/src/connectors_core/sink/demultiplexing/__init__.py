# SPDX-License-Identifier: Apache-2.0
"""A sink that writes each row to the sink of its route (Flink's FLIP-515)."""

from connectors_core.sink.demultiplexing.router import ColumnRouter, SinkRouter
from connectors_core.sink.demultiplexing.sink import (
    DemultiplexingSink,
    StatefulDemultiplexingSink,
)

__all__ = [
    "ColumnRouter",
    "DemultiplexingSink",
    "SinkRouter",
    "StatefulDemultiplexingSink",
]
