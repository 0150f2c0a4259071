# SPDX-License-Identifier: Apache-2.0
"""Batch mode: run an enumerator to its end, its splits become the tasks. Driver."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence
from typing import Any

from connectors_core.coordinator.mailbox import Mailbox
from connectors_core.coordinator.source_coordinator import SourceCoordinator, SourceSettings
from connectors_core.protocol import Entry, SplitRecord, run_path
from connectors_core.source.alignment import CoordinatorStore

TASKS_PER_READER = 4


def enumerate_splits(settings: SourceSettings) -> list[SplitRecord]:
    """All splits of a bounded source, in the order they were assigned.

    Raises:
        ConnectorError: Discovery failed.
    """
    done = threading.Event()
    errors: list[BaseException] = []

    def failed(error: BaseException) -> None:
        errors.append(error)
        done.set()

    mailbox = Mailbox(f"enumerator-{settings.uid}", failed)

    def advance() -> None:
        if not done.is_set() and coordinator.take_all_splits():
            done.set()

    coordinator = SourceCoordinator(
        settings,
        mailbox=mailbox,
        store=CoordinatorStore(),
        on_change=lambda: mailbox.execute(advance),
    )
    mailbox.start()
    mailbox.execute(coordinator.start)
    mailbox.execute(advance)
    done.wait()
    mailbox.close()
    coordinator.close()
    if errors:
        raise errors[0]
    return coordinator.positions()


def batch_entries(
    settings: SourceSettings, splits: Sequence[SplitRecord], *, pipeline_id: str, run_id: str
) -> list[Entry]:
    """One entry per task: large splits alone, small ones together.

    Args:
        settings: The source.
        splits: Its splits.
        pipeline_id: The pipeline.
        run_id: The run; its reports lie below it.
    """
    serializer = settings.source.split_serializer()
    weights = [
        max(1, serializer.deserialize(s.split.state.version, s.split.state.data).weight())
        for s in splits
    ]
    tasks = min(len(splits), settings.parallelism * TASKS_PER_READER) or 1
    bins: list[tuple[int, int]] = [(0, task) for task in range(tasks)]
    queues: list[list[Any]] = [[] for _ in range(tasks)]
    for index in sorted(range(len(splits)), key=lambda i: -weights[i]):
        load, task = heapq.heappop(bins)
        queues[task].append(splits[index].split)
        heapq.heappush(bins, (load + weights[index], task))
    return [
        Entry(
            pipeline_id=pipeline_id,
            query=run_path(run_id),
            plan=0,
            nonce=run_id,
            source=settings.uid,
            subtask=task,
            parallelism=tasks,
            splits=tuple(queue),
        )
        for task, queue in enumerate(queues)
    ]
