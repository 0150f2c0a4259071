# SPDX-License-Identifier: Apache-2.0
"""Checks that the abilities of a sink are compatible. Driver, no pyspark."""

from __future__ import annotations

from connectors_core.errors import ConfigurationError
from connectors_core.sink.abilities import SupportsRewriting
from connectors_core.sink.commit_tasks import SupportsCommitTasks
from connectors_core.sink.compaction import SupportsCompaction
from connectors_core.sink.demultiplexing import DemultiplexingSink
from connectors_core.sink.sink import Sink, TwoPhaseCommittingSink
from connectors_core.sink.topology import (
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreCommitTopologyOverEpochs,
)


def check_topologies(sink: Sink, uid: str) -> None:
    """Refuse a sink with incompatible abilities.

    Args:
        sink: Any sink.
        uid: Its uid.

    Raises:
        ConfigurationError: Its abilities require others or exclude each other.
    """
    committing = isinstance(
        sink,
        SupportsPreCommitTopology
        | SupportsPreCommitTopologyOverEpochs
        | SupportsPostCommitTopology
        | SupportsRewriting
        | SupportsCompaction
        | SupportsCommitTasks,
    )
    if committing and not isinstance(sink, TwoPhaseCommittingSink):
        raise ConfigurationError(
            f"sink {uid!r} has abilities of a committing sink but nothing to commit",
            expected="a TwoPhaseCommittingSink",
            found=type(sink).__name__,
        )
    if isinstance(sink, DemultiplexingSink) and isinstance(
        sink, SupportsPreCommitTopologyOverEpochs | SupportsCompaction
    ):
        raise ConfigurationError(
            f"sink {uid!r} and the sinks of its routes would hold the same committables",
            expected="SupportsPreCommitTopologyOverEpochs or SupportsCompaction only in the sinks "
            "of routes",
            found=type(sink).__name__,
        )
    if isinstance(sink, SupportsPreCommitTopologyOverEpochs) and isinstance(
        sink, SupportsCompaction
    ):
        raise ConfigurationError(
            f"a topology and a compaction of sink {uid!r} would hold the same committables",
            expected="SupportsPreCommitTopologyOverEpochs or SupportsCompaction",
            found=type(sink).__name__,
        )
    if isinstance(sink, SupportsCompaction) and isinstance(sink, SupportsRewriting):
        raise ConfigurationError(
            f"sink {uid!r} compacts committables that may be lost: the rows to rewrite would be "
            "unknown",
            expected="SupportsCompaction or SupportsRewriting",
            found=type(sink).__name__,
        )
    topology = isinstance(sink, SupportsPreCommitTopology | SupportsPreCommitTopologyOverEpochs)
    if topology and isinstance(sink, SupportsRewriting):
        raise ConfigurationError(
            f"sink {uid!r} has a pre-commit topology and committables that may be lost: the rows "
            "to rewrite would be unknown",
            expected="a pre-commit topology or SupportsRewriting",
            found=type(sink).__name__,
        )
