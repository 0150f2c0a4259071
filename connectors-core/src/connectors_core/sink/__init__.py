# SPDX-License-Identifier: Apache-2.0
"""The Sink API after Flink's Sink V2: writers, committables, committers, topologies."""

from connectors_core.sink.abilities import SupportsLeases, SupportsRewriting
from connectors_core.sink.committer import (
    CommitOutcome,
    CommitRequest,
    Committer,
    CommitterInitContext,
)
from connectors_core.sink.messages import (
    CommittableMessage,
    CommittableSummary,
    CommittableWithLineage,
    messages_in_order,
)
from connectors_core.sink.sink import (
    CommittingSinkWriter,
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    TwoPhaseCommittingSink,
    WriterInitContext,
)
from connectors_core.sink.topology import (
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreWriteTopology,
)

__all__ = [
    "CommitOutcome",
    "CommitRequest",
    "CommittableMessage",
    "CommittableSummary",
    "CommittableWithLineage",
    "Committer",
    "CommitterInitContext",
    "CommittingSinkWriter",
    "DeliveryGuarantee",
    "Sink",
    "SinkWriter",
    "SupportsLeases",
    "SupportsPostCommitTopology",
    "SupportsPreCommitTopology",
    "SupportsPreWriteTopology",
    "SupportsRewriting",
    "TwoPhaseCommittingSink",
    "WriterInitContext",
    "messages_in_order",
]
