# SPDX-License-Identifier: Apache-2.0
"""The Source API after Flink's FLIP-27, on Arrow batches."""

from typing import TYPE_CHECKING

from connectors_core.annotations import former_names
from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.source.assigner import SplitAssigner
from connectors_core.source.base import (
    PositionedBatch,
    RecordEmitter,
    RecordsBySplits,
    SingleThreadMultiplexFetcherManager,
    SingleThreadSequentialFetcherManager,
    SourceReaderBase,
    SplitFetcherManager,
    SplitReader,
    SplitsAddition,
    ThreadPerSplitFetcherManager,
)
from connectors_core.source.data_generator import DataGeneratorSource
from connectors_core.source.enumerator import (
    PlannedRead,
    SplitEnumerator,
    SplitEnumeratorContext,
    SupportsAvailableNow,
    SupportsBatchSnapshot,
    SupportsCommittedPositions,
    SupportsIntermediateNoMoreSplits,
    SupportsPlannedStops,
    SupportsUnassignedSplits,
)
from connectors_core.source.evaluator import RecordEvaluator
from connectors_core.source.events import SourceEvent
from connectors_core.source.hybrid import (
    HybridSource,
    HybridSourceBuilder,
    SourceSwitchContext,
    SupportsSwitchInfo,
)
from connectors_core.source.members import MemberEnumeratorContext, MemberReaderContext
from connectors_core.source.options import SOURCE_BATCH_ROWS
from connectors_core.source.predicates import (
    And,
    Comparison,
    FieldPath,
    IsIn,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    ValueRange,
)
from connectors_core.source.pushdown import (
    SupportsFilterPushDown,
    SupportsLimitPushDown,
    SupportsPartitionPushDown,
    SupportsProjectionPushDown,
)
from connectors_core.source.rate_limiter import RateLimiter, RateLimiterStrategy
from connectors_core.source.reader import (
    InputStatus,
    ReaderOutput,
    SourceOutput,
    SourceReader,
    SourceReaderContext,
)
from connectors_core.source.sequence import NumberSequenceSource
from connectors_core.source.skipping import skip_unreadable
from connectors_core.source.source import (
    BatchTasks,
    Boundedness,
    DynamicParallelismInference,
    ParallelismInferenceContext,
    Source,
    SupportsForetoldEvents,
    SupportsRewinding,
    SupportsStatisticReport,
)
from connectors_core.source.split import (
    ReadLimits,
    SourceSplit,
    SplitState,
    SplitTraits,
)
from connectors_core.source.watermarks import (
    TimestampAssigner,
    WatermarkAlignment,
    WatermarkGenerator,
    WatermarkStrategy,
)

if TYPE_CHECKING:
    from connectors_core.source.split import PlanLimits
else:
    __getattr__ = former_names(__name__, {"PlanLimits": "connectors_core.source.ReadLimits"})

__all__ = [
    "SOURCE_BATCH_ROWS",
    "And",
    "BatchTasks",
    "Boundedness",
    "Comparison",
    "DataGeneratorSource",
    "DynamicParallelismInference",
    "FieldPath",
    "HybridSource",
    "HybridSourceBuilder",
    "InputStatus",
    "IsIn",
    "IsNull",
    "MemberEnumeratorContext",
    "MemberReaderContext",
    "Not",
    "NumberSequenceSource",
    "Or",
    "ParallelismInferenceContext",
    "PlanLimits",
    "PlannedRead",
    "PositionedBatch",
    "Predicate",
    "RateLimiter",
    "RateLimiterStrategy",
    "ReadLimits",
    "ReaderOutput",
    "RecordEmitter",
    "RecordEvaluator",
    "RecordsBySplits",
    "SingleThreadMultiplexFetcherManager",
    "SingleThreadSequentialFetcherManager",
    "Source",
    "SourceEvent",
    "SourceOutput",
    "SourceReader",
    "SourceReaderBase",
    "SourceReaderContext",
    "SourceSplit",
    "SourceSwitchContext",
    "SplitAssigner",
    "SplitEnumerator",
    "SplitEnumeratorContext",
    "SplitFetcherManager",
    "SplitReader",
    "SplitState",
    "SplitTraits",
    "SplitsAddition",
    "StartsWith",
    "SupportsAvailableNow",
    "SupportsBatchSnapshot",
    "SupportsCommittedPositions",
    "SupportsConnectionCheck",
    "SupportsFilterPushDown",
    "SupportsForetoldEvents",
    "SupportsIntermediateNoMoreSplits",
    "SupportsLimitPushDown",
    "SupportsPartitionPushDown",
    "SupportsPlannedStops",
    "SupportsProjectionPushDown",
    "SupportsRewinding",
    "SupportsStatisticReport",
    "SupportsSwitchInfo",
    "SupportsUnassignedSplits",
    "ThreadPerSplitFetcherManager",
    "TimestampAssigner",
    "ValueRange",
    "WatermarkAlignment",
    "WatermarkGenerator",
    "WatermarkStrategy",
    "skip_unreadable",
]
