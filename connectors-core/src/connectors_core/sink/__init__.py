# SPDX-License-Identifier: Apache-2.0
"""The Sink API after Flink's Sink V2: writers, committables, committers, topologies."""

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.schema.row_kinds import ROW_KIND_COLUMN, is_deletion, is_unknown_row_kind
from connectors_core.sink.abilities import (
    SupportsCommittedEpoch,
    SupportsLeases,
    SupportsOverwrite,
    SupportsPartitioning,
    SupportsRewriting,
)
from connectors_core.sink.async_sink import (
    AsyncSink,
    AsyncSinkWriter,
    AsyncSinkWriterConfiguration,
    ElementConverter,
)
from connectors_core.sink.changelog import is_replaced, is_update_before
from connectors_core.sink.commit_tasks import CommitTasks, SupportsCommitTasks
from connectors_core.sink.committer import (
    CommitOutcome,
    CommitRequest,
    Committer,
    CommitterInitContext,
)
from connectors_core.sink.compaction import (
    CompactContext,
    CompactCoordinator,
    Compaction,
    Compactor,
    CompactRequest,
    SupportsCompaction,
)
from connectors_core.sink.demultiplexing import (
    ColumnRouter,
    DemultiplexingSink,
    SinkRouter,
    StatefulDemultiplexingSink,
)
from connectors_core.sink.discarding_sink import DiscardingSink
from connectors_core.sink.entry_columns import EntryColumns
from connectors_core.sink.held import HeldCommittable, SupportsHeldCommittables
from connectors_core.sink.messages import (
    CommittableMessage,
    CommittableSummary,
    CommittableWithLineage,
    committables_of,
    messages_in_order,
    messages_of,
)
from connectors_core.sink.options import SINK_COMMIT_TASKS_THRESHOLD, SINK_PARALLELISM
from connectors_core.sink.print_sink import PrintSink
from connectors_core.sink.rate_limits import (
    AIMDScalingStrategy,
    CongestionControlRateLimitingStrategy,
    FixedRateLimitingStrategy,
    RateLimiting,
    RateLimitingStrategy,
    RequestInfo,
    ResultInfo,
    ScalingStrategy,
)
from connectors_core.sink.sink import (
    CommittingSinkWriter,
    DeliveryGuarantee,
    Sink,
    SinkWriter,
    TwoPhaseCommittingSink,
    WriterInitContext,
)
from connectors_core.sink.stateful_sink import StatefulSink, StatefulSinkWriter
from connectors_core.sink.topology import (
    CombinedCommittables,
    SupportsPostCommitTopology,
    SupportsPreCommitTopology,
    SupportsPreCommitTopologyOverEpochs,
    SupportsPreWriteTopology,
)

__all__ = [
    "ROW_KIND_COLUMN",
    "SINK_COMMIT_TASKS_THRESHOLD",
    "SINK_PARALLELISM",
    "AIMDScalingStrategy",
    "AsyncSink",
    "AsyncSinkWriter",
    "AsyncSinkWriterConfiguration",
    "ColumnRouter",
    "CombinedCommittables",
    "CommitOutcome",
    "CommitRequest",
    "CommitTasks",
    "CommittableMessage",
    "CommittableSummary",
    "CommittableWithLineage",
    "Committer",
    "CommitterInitContext",
    "CommittingSinkWriter",
    "CompactContext",
    "CompactCoordinator",
    "CompactRequest",
    "Compaction",
    "Compactor",
    "CongestionControlRateLimitingStrategy",
    "DeliveryGuarantee",
    "DemultiplexingSink",
    "DiscardingSink",
    "ElementConverter",
    "EntryColumns",
    "FixedRateLimitingStrategy",
    "HeldCommittable",
    "PrintSink",
    "RateLimiting",
    "RateLimitingStrategy",
    "RequestInfo",
    "ResultInfo",
    "ScalingStrategy",
    "Sink",
    "SinkRouter",
    "SinkWriter",
    "StatefulDemultiplexingSink",
    "StatefulSink",
    "StatefulSinkWriter",
    "SupportsCommitTasks",
    "SupportsCommittedEpoch",
    "SupportsCompaction",
    "SupportsConnectionCheck",
    "SupportsHeldCommittables",
    "SupportsLeases",
    "SupportsOverwrite",
    "SupportsPartitioning",
    "SupportsPostCommitTopology",
    "SupportsPreCommitTopology",
    "SupportsPreCommitTopologyOverEpochs",
    "SupportsPreWriteTopology",
    "SupportsRewriting",
    "TwoPhaseCommittingSink",
    "WriterInitContext",
    "committables_of",
    "is_deletion",
    "is_replaced",
    "is_unknown_row_kind",
    "is_update_before",
    "messages_in_order",
    "messages_of",
]
