# SPDX-License-Identifier: Apache-2.0
"""Enumerates all splits of a source for a batch run. Driver."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import threading
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from connectors_core.engine.coordinator.mailbox import Mailbox
from connectors_core.engine.coordinator.source_coordinator import SourceCoordinator
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.protocol import Entry, Report, SplitRecord, run_path
from connectors_core.errors import UnsupportedError
from connectors_core.secrets import mask_text
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.source.events import EventDocument
from connectors_core.source.source import DynamicParallelismInference, ParallelismInferenceContext
from connectors_core.source.split import SourceSplit

TASKS_PER_READER = 4


class Enumeration:
    """The enumerator of a bounded source in a batch run, after it has assigned all splits.

    The enumerator stays open to handle events of its readers, until `close` or garbage collection
    closes it.

    Attributes:
        splits: All splits, in the order of assignment.
        events: The events that the enumerator has sent to its readers, by reader.
        metrics: The metrics of the enumerator.

    Args:
        settings: The source.

    Raises:
        ConnectorError: Discovery failed.
    """

    def __init__(self, settings: SourceSettings) -> None:
        self._uid = settings.uid
        self._readers = settings.parallelism
        self._coordinator = coordinator = _run_to_its_end(settings)
        self.splits = coordinator.positions()
        self.events = dict(coordinator.events)
        self.metrics = coordinator.metrics
        self._close = weakref.finalize(self, coordinator.close)

    def hear(self, report: Report) -> None:
        """Deliver the events of a report to the enumerator, under a reader that it knows.

        Raises:
            UnsupportedError: The enumerator assigns further splits in response.
        """
        if not report.events:
            return
        reader = report.subtask % self._readers  # a batch run may have more tasks than readers
        self._coordinator.deliver_events(dataclasses.replace(report, subtask=reader))
        further = self._coordinator.positions()[len(self.splits) :]
        if further:
            raise UnsupportedError(
                f"the enumerator of source {self._uid!r} assigns splits only after its readers "
                "have read",
                expected="all splits before anything is read, as this is a batch run",
                found=", ".join(mask_text(each.split.split_id) for each in further),
                hint="use Pipeline(..., streaming=True)",
            )

    def close(self) -> None:
        """Close the enumerator."""
        self._close()


def enumerate_splits(settings: SourceSettings) -> list[SplitRecord]:
    """Return all splits of a bounded source, in the order of assignment.

    Raises:
        ConnectorError: Discovery failed.
    """
    with contextlib.closing(Enumeration(settings)) as enumeration:
        return enumeration.splits


def _run_to_its_end(settings: SourceSettings) -> SourceCoordinator:
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
    if errors:
        coordinator.close()
        raise errors[0]
    return coordinator


def batch_entries(
    settings: SourceSettings,
    splits: Sequence[SplitRecord],
    *,
    pipeline_id: str,
    run_id: str,
    events: Mapping[int, Sequence[EventDocument]] = MappingProxyType({}),
) -> list[Entry]:
    """Distribute splits to the entries of tasks: large splits alone, small ones together.

    The number of tasks is inferred by the source (`DynamicParallelismInference`), or one for each
    split, up to four for each reader.

    A batch run may have more tasks than readers: several tasks then act as one reader, and each of
    them receives the events of that reader.

    Args:
        settings: The source.
        splits: Its splits.
        events: Events for readers, by reader.
        pipeline_id: The pipeline.
        run_id: The run, whose folder holds its reports.
    """
    serializer = settings.source.split_serializer()
    found = [serializer.deserialize(s.split.state.version, s.split.state.data) for s in splits]
    weights = [max(1, split.weight()) for split in found]
    tasks = _number_of_tasks(settings, found)
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
            events=tuple(events.get(task % settings.parallelism, ())),
        )
        for task, queue in enumerate(queues)
    ]


def _number_of_tasks(settings: SourceSettings, splits: Sequence[SourceSplit]) -> int:
    tasks = settings.parallelism * TASKS_PER_READER
    source = settings.source
    if isinstance(source, DynamicParallelismInference):
        context = ParallelismInferenceContext(
            splits=splits, parallelism=settings.parallelism, upper_bound=tasks
        )
        tasks = max(1, min(source.infer_parallelism(context), tasks))
    return min(len(splits), tasks) or 1
