# SPDX-License-Identifier: Apache-2.0
"""Commits a share of an epoch's committables. Executor."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from connectors_core.engine._faults import fault_point
from connectors_core.engine.execution.closing import closed_after
from connectors_core.engine.execution.task_messages import TaskMessages
from connectors_core.engine.protocol import Versioned
from connectors_core.errors import FatalError, RetryableError, UnsupportedError
from connectors_core.metrics import MetricGroup
from connectors_core.sink.commit_tasks import SupportsCommitTasks
from connectors_core.sink.committer import CommitOutcome, CommitRequest, CommitterInitContext
from connectors_core.sink.sink import TwoPhaseCommittingSink


@dataclass(frozen=True, kw_only=True)
class StoredRequest:
    """A commit request.

    Attributes:
        committable: Its committable.
        retries: The number of previous attempts.
    """

    committable: Versioned
    retries: int = 0


@dataclass(frozen=True, kw_only=True)
class CommitTask:
    """The commit requests of one job; sent to executors.

    Attributes:
        sink: The sink.
        context: The context of its committers.
        requests: The requests.
        tasks: Maximum number of tasks; None for the default of the engine.
    """

    sink: TwoPhaseCommittingSink[Any]
    context: CommitterInitContext
    requests: tuple[StoredRequest, ...]
    tasks: int | None = None

    def number_of_tasks(self, default: int) -> int:
        """Return the number of tasks of the job, given the default of the engine."""
        return max(1, min(self.tasks or default, len(self.requests)))


@dataclass(frozen=True, kw_only=True)
class CommitResult:
    """The result of a request.

    Attributes:
        number: The request, by its number in the job.
        outcome: Its outcome.
        committable: The committable to retry.
        error: The reason, pickled with its causes.
    """

    number: int
    outcome: CommitOutcome
    committable: Versioned | None = None
    error: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class CommitMessage:
    """The results of a task, returned through Spark's ``collect``.

    Attributes:
        results: A result for each request of the task.
        counters: The committer's counters.
    """

    results: tuple[CommitResult, ...]
    counters: dict[str, int] = field(default_factory=dict)


COMMIT_MESSAGES: Final = TaskMessages(CommitMessage)


def commit_task(task: CommitTask, number: int, number_of_tasks: int) -> CommitMessage:
    """Commit the share of one task, with a committer of its own.

    Args:
        task: The job.
        number: Number of the task.
        number_of_tasks: The tasks of the job.

    Raises:
        Exception: The committer raised anything except a `RetryableError`.
    """
    sink = task.sink
    if not isinstance(sink, SupportsCommitTasks):
        raise UnsupportedError(f"tasks cannot commit for {type(sink).__name__}")
    serializer = sink.committable_serializer()
    own = range(number, len(task.requests), number_of_tasks)
    requests: list[CommitRequest[Any]] = [
        CommitRequest(
            serializer.deserialize(each.committable.version, each.committable.data), each.retries
        )
        for each in (task.requests[index] for index in own)
    ]
    context = replace(task.context, metric_group=MetricGroup())
    with closed_after(sink.create_task_committer(context)) as committer:
        try:
            committer.commit(requests)
        except RetryableError as error:  # regardless of the outcomes so far
            for request in requests:
                request.retry_later(error)
    fault_point("commit_task_done", sink=context.sink_uid, task=number)
    return CommitMessage(
        results=tuple(
            _result(sink, index, request) for index, request in zip(own, requests, strict=True)
        ),
        counters=dict(context.metric_group.counters),
    )


def settle(
    sink: TwoPhaseCommittingSink[Any],
    requests: Sequence[CommitRequest[Any]],
    messages: Sequence[CommitMessage],
) -> None:
    """Signal the results of tasks on the requests of their job. Driver.

    Raises:
        FatalError: A request has no result.
    """
    serializer = sink.committable_serializer()
    settled = 0
    for result in (each for message in messages for each in message.results):
        request = requests[result.number]
        error = None if result.error is None else _thawed(result.error)
        settled += 1
        match result.outcome:
            case CommitOutcome.ALREADY_COMMITTED:
                request.signal_already_committed()
            case CommitOutcome.RETRY:
                assert result.committable is not None
                stored = result.committable
                request.update_and_retry_later(
                    serializer.deserialize(stored.version, stored.data), error
                )
            case CommitOutcome.FAILED:
                request.signal_failed(error or FatalError("the committer gave no reason"))
            case CommitOutcome.LOST:
                request.signal_lost()
            case CommitOutcome.COMMITTED:
                pass
    if settled != len(requests):
        raise FatalError(
            "the number of results from the tasks differs from the number of commit requests",
            expected=str(len(requests)),
            found=str(settled),
        )


def _result(
    sink: TwoPhaseCommittingSink[Any], number: int, request: CommitRequest[Any]
) -> CommitResult:
    committable = None
    if request.outcome is CommitOutcome.RETRY:
        serializer = sink.committable_serializer()
        committable = Versioned(
            version=serializer.version, data=serializer.serialize(request.committable)
        )
    return CommitResult(
        number=number,
        outcome=request.outcome,
        committable=committable,
        error=None if request.error is None else _frozen(request.error),
    )


def _frozen(error: BaseException) -> bytes:
    # As the cause of a connector error, any error survives with its text and its own causes.
    carrier = FatalError("a commit failed in a task")
    carrier.__cause__ = error
    return pickle.dumps(carrier)


def _thawed(data: bytes) -> BaseException | None:
    carrier: FatalError = pickle.loads(data)  # of our own task, not from storage
    return carrier.__cause__
