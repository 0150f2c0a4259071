# SPDX-License-Identifier: Apache-2.0
"""Commits the committables of a large epoch in tasks. Driver, no pyspark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from connectors_core.engine.execution.commit_task import (
    CommitMessage,
    CommitTask,
    StoredRequest,
    settle,
)
from connectors_core.engine.protocol import Versioned
from connectors_core.metrics import CommitterMetric, MetricGroup
from connectors_core.sink.commit_tasks import SupportsCommitTasks
from connectors_core.sink.committer import CommitRequest, Committer, CommitterInitContext
from connectors_core.sink.sink import TwoPhaseCommittingSink

RunTasks = Callable[[CommitTask], Sequence[CommitMessage]]
"""Runs the tasks of a commit and returns their results."""


class CommitterInTasks(Committer[Any]):
    """Commits requests in the tasks of a job. Driver.

    Args:
        sink: A sink with the ability `SupportsCommitTasks`.
        context: The context of its committers.
        run: Runs the tasks of a commit and returns their results.
    """

    def __init__(
        self,
        sink: TwoPhaseCommittingSink[Any],
        context: CommitterInitContext,
        run: RunTasks,
    ) -> None:
        assert isinstance(sink, SupportsCommitTasks)
        self._settings = sink.commit_tasks_of
        self._sink = sink
        self._serializer = sink.committable_serializer()
        self._metrics = context.metric_group
        self._context = replace(context, metric_group=MetricGroup())
        self._run = run

    def takes(self, committables: Sequence[Any]) -> list[bool]:
        """Return for each committable of an epoch whether tasks commit it."""
        settings = self._settings(committables)
        number = sum(each is not None for each in settings)
        return [each is not None and number >= each.threshold for each in settings]

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Commit the requests and signal their results."""
        version = self._serializer.version
        stored = tuple(
            StoredRequest(
                committable=Versioned(
                    version=version, data=self._serializer.serialize(each.committable)
                ),
                retries=each.number_of_retries,
            )
            for each in requests
        )
        tasks = [each.tasks for each in self._settings([r.committable for r in requests]) if each]
        messages = self._run(
            CommitTask(
                sink=self._sink,
                context=self._context,
                requests=stored,
                tasks=None if None in tasks else max(filter(None, tasks), default=None),
            )
        )
        settle(self._sink, requests, messages)
        self._metrics.inc(CommitterMetric.COMMIT_TASKS, len(messages))
        for message in messages:
            for name, number in message.counters.items():
                self._metrics.inc(name, number)
