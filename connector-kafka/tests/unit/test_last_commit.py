# SPDX-License-Identifier: Apache-2.0
"""Tests that a slow commit of group offsets does not overwrite a later one."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from connector_kafka.client.metadata import TopicPartition
from connector_kafka.source.group_offsets import GroupOffsets
from connectors_core.metrics import MetricGroup


class SlowCluster:
    """A cluster whose first commit is slower than a second one that starts in the meantime."""

    def __init__(self) -> None:
        self.committed: list[int] = []
        self.is_under_way = threading.Event()
        self._overtaken = threading.Event()

    def commit(self, group: str, offsets: dict[Any, int], timeout: float | None = None) -> None:
        (offset,) = offsets.values()
        if self.is_under_way.is_set():
            self._overtaken.set()
        else:
            self.is_under_way.set()
            self._overtaken.wait(0.2)
        self.committed.append(offset)


def test_a_commit_in_progress_does_not_overwrite_the_last_commit() -> None:
    workers: list[threading.Thread] = []

    def call_async(call: Any, _handler: Any) -> None:
        workers.append(threading.Thread(target=call))
        workers[-1].start()

    context: Any = SimpleNamespace(call_async=call_async, metric_group=MetricGroup())
    cluster: Any = SlowCluster()
    offsets = GroupOffsets(context, cluster, "us")
    for offset in (2, 3):
        offsets.commit({TopicPartition("flights", 0): offset})
        assert cluster.is_under_way.wait(10)
    offsets.close()
    for worker in workers:
        worker.join()
    assert cluster.committed == [2, 3]
