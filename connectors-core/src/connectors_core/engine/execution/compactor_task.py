# SPDX-License-Identifier: Apache-2.0
"""Merges the committables of one compaction request. Executor."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any, Final

from connectors_core.engine._faults import fault_point
from connectors_core.engine.execution.routes import RouteSinks
from connectors_core.engine.execution.task_messages import TaskMessages
from connectors_core.engine.execution.writer_task import encode_committables
from connectors_core.engine.protocol import HeldRef, Versioned
from connectors_core.errors import UnsupportedError
from connectors_core.metrics import MetricGroup
from connectors_core.sink.compaction import CompactContext, SupportsCompaction
from connectors_core.sink.demultiplexing.routed import uid_of
from connectors_core.sink.sink import TwoPhaseCommittingSink


@dataclass(frozen=True, kw_only=True)
class RecordedRequest:
    """A request of a decision with its committables.

    Attributes:
        ref: The request.
        committables: Its committables, in order.
        route: The route whose sink merges them; None for the sink itself.
    """

    ref: HeldRef
    committables: tuple[Versioned, ...]
    route: str | None = None


@dataclass(frozen=True, kw_only=True)
class CompactTask:
    """The requests of one job; sent to executors.

    Attributes:
        pipeline_id: The pipeline.
        uid: The sink's uid.
        sink: The sink.
        requests: The requests.
        tasks: Maximum number of tasks.
    """

    pipeline_id: str
    uid: str
    sink: TwoPhaseCommittingSink[Any]
    requests: tuple[RecordedRequest, ...]
    tasks: int


@dataclass(frozen=True, kw_only=True)
class CompactMessage:
    """The result of a request, returned through Spark's ``collect``.

    Attributes:
        ref: The request.
        committables: The committables of the merged output.
        counters: The compactor's counters.
    """

    ref: HeldRef
    committables: tuple[Versioned, ...]
    counters: dict[str, int] = field(default_factory=dict)


COMPACT_MESSAGES: Final = TaskMessages(CompactMessage)


def compact_task(task: CompactTask, request: RecordedRequest, attempt: int) -> CompactMessage:
    """Run the compactor of a sink on one request.

    Args:
        task: The job.
        request: One of its requests.
        attempt: Spark's attempt number.
    """
    sink, uid = task.sink, task.uid
    if request.route is not None:
        sink, uid = RouteSinks(sink)[request.route], uid_of(uid, request.route)
    compaction = sink.create_compaction() if isinstance(sink, SupportsCompaction) else None
    if compaction is None:
        raise UnsupportedError(f"sink {uid!r} has no compactor", found=type(sink).__name__)
    serializer = sink.committable_serializer()
    context = CompactContext(
        pipeline_id=task.pipeline_id,
        sink_uid=uid,
        request_id=str(request.ref),
        attempt_number=attempt,
        nonce=secrets.token_hex(8),
        metric_group=MetricGroup(),
    )
    merged = compaction.compactor.compact(
        [serializer.deserialize(each.version, each.data) for each in request.committables], context
    )
    fault_point("compactor_staged", sink=task.uid, request=request.ref)
    return CompactMessage(
        ref=request.ref,
        committables=encode_committables(sink, merged),
        counters=dict(context.metric_group.counters),
    )
