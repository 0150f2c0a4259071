# SPDX-License-Identifier: Apache-2.0
"""Enumerates all splits of a source for a batch run. Driver."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import heapq
import threading
import weakref
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from connectors_core.engine.coordinator.mailbox import Mailbox
from connectors_core.engine.coordinator.source_coordinator import SourceCoordinator
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.protocol import (
    Entry,
    PlannedSplit,
    Report,
    SourcePlan,
    SourceSnapshot,
    SplitRecord,
    Versioned,
    run_path,
)
from connectors_core.errors import UnsupportedError
from connectors_core.secrets import mask_text
from connectors_core.source.alignment import CoordinatorStore
from connectors_core.source.events import EventDocument
from connectors_core.source.source import DynamicParallelismInference, ParallelismInferenceContext
from connectors_core.source.split import SourceSplit


class Enumeration:
    """The enumerator of a bounded source in a batch run, after it has assigned all splits.

    The enumerator stays open to handle events of its readers, until `close` or garbage collection
    closes it.

    Attributes:
        splits: All splits, in the order of assignment.
        source_splits: The same splits as the source knows them.
        events: The events that the enumerator has sent to its readers, by reader.
        metrics: The metrics of the enumerator.

    Args:
        settings: The source.
        resumed: The stored splits and state of the interrupted run; None for a new run.

    Raises:
        ConnectorError: Discovery failed.
        UnsupportedError: The enumerator finds further splits when it resumes.
    """

    def __init__(self, settings: SourceSettings, resumed: SourceSnapshot | None = None) -> None:
        self._uid = settings.uid
        self._readers = settings.parallelism
        self._coordinator = coordinator = _run_to_its_end(settings, resumed)
        self.splits = coordinator.positions()
        self.source_splits = coordinator.splits()
        self.events = dict(coordinator.events)
        self.metrics = coordinator.metrics
        self._close = weakref.finalize(self, coordinator.close)
        if resumed is not None:
            self._refuse_further(self.splits[len(resumed.splits) :], "when its run is resumed")

    def snapshot(self) -> Versioned:
        """Return the state of the enumerator, with which a later driver can resume the run.

        Raises:
            UnsupportedError: The enumerator cannot resume a batch run.
        """
        return self._coordinator.batch_snapshot()

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
        self._refuse_further(further, "after its readers have read")

    def _refuse_further(self, further: Sequence[SplitRecord], when: str) -> None:
        if further:
            raise UnsupportedError(
                f"the enumerator of source {self._uid!r} assigns splits only {when}",
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


def _run_to_its_end(settings: SourceSettings, resumed: SourceSnapshot | None) -> SourceCoordinator:
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
    history = () if resumed is None else ((SourcePlan(entries=(), snapshot=resumed), ()),)
    mailbox.execute(lambda: coordinator.start(history))
    mailbox.execute(advance)
    done.wait()
    mailbox.close()
    if errors:
        coordinator.close()
        raise errors[0]
    return coordinator


def resumed_splits(
    settings: SourceSettings, entries: Sequence[Entry], enumerator: Versioned
) -> SourceSnapshot:
    """Return the snapshot of a source in an interrupted run.

    Args:
        settings: The source.
        entries: The entries of the source.
        enumerator: The state of its enumerator.
    """
    readers = range(settings.parallelism)
    return SourceSnapshot(
        enumerator=enumerator,
        splits=tuple(
            SplitRecord(split=split, subtask=entry.subtask % len(readers))
            for entry in entries
            for split in entry.splits
        ),
        no_more_splits=tuple(readers),
    )


def digest_of(settings: SourceSettings, splits: Sequence[SourceSplit]) -> str | None:
    """Return a digest of the input of a batch run; None if the source has no version of it."""
    version = settings.source.input_version(splits)
    return None if version is None else hashlib.sha256(version.encode()).hexdigest()


def number_of_tasks(settings: SourceSettings, splits: Sequence[SourceSplit]) -> int:
    """Return the number of tasks of a batch run.

    The source infers it (`DynamicParallelismInference`), or there is one for each split. It stays
    within the limits of `BatchTasks`.

    Args:
        settings: The source.
        splits: Its splits.
    """
    tasks = settings.batch_tasks.upper_bound(settings.parallelism)
    source = settings.source
    if isinstance(source, DynamicParallelismInference):
        context = ParallelismInferenceContext(
            splits=splits,
            parallelism=settings.parallelism,
            upper_bound=tasks,
            bytes_per_task=settings.batch_tasks.bytes_per_task,
        )
        tasks = max(1, min(source.infer_parallelism(context), tasks))
    return min(len(splits), tasks) or 1


def batch_entries(
    settings: SourceSettings,
    splits: Sequence[SplitRecord],
    number: int | None = None,
    *,
    pipeline_id: str,
    run_id: str,
    source_splits: Sequence[SourceSplit] | None = None,
    events: Mapping[int, Sequence[EventDocument]] = MappingProxyType({}),
) -> list[Entry]:
    """Distribute splits to entries: large splits alone, small ones together.

    A batch run may have more entries than readers: several tasks then act as one reader, and each
    of them receives the events of that reader.

    Args:
        settings: The source.
        splits: Its splits.
        number: The number of entries; None for one for each task.
        pipeline_id: The pipeline.
        run_id: The run, whose folder holds its reports.
        source_splits: The same splits as the source knows them, if they are at hand.
        events: Events for readers, by reader.
    """
    found = _splits_of(settings, splits) if source_splits is None else source_splits
    weights = [max(1, split.weight()) for split in found]
    number = number or number_of_tasks(settings, found)
    bins: list[tuple[int, int]] = [(0, entry) for entry in range(number)]
    queues: list[list[PlannedSplit]] = [[] for _ in range(number)]
    for index in sorted(range(len(splits)), key=lambda i: -weights[i]):
        load, entry = heapq.heappop(bins)
        queues[entry].append(splits[index].split)
        heapq.heappush(bins, (load + weights[index], entry))
    return [
        Entry(
            pipeline_id=pipeline_id,
            query=run_path(run_id),
            plan=0,
            nonce=run_id,
            source=settings.uid,
            subtask=subtask,
            parallelism=number,
            splits=tuple(queue),
            events=tuple(events.get(subtask % settings.parallelism, ())),
        )
        for subtask, queue in enumerate(queues)
    ]


def _splits_of(settings: SourceSettings, records: Sequence[SplitRecord]) -> list[SourceSplit]:
    serializer = settings.source.split_serializer()
    states = [record.split.state for record in records]
    return [serializer.deserialize(state.version, state.data) for state in states]
