# SPDX-License-Identifier: Apache-2.0
"""Producers that a Python worker keeps from one task to the next, because connecting is slow."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import Final

from connector_kafka.client.config import ClientConfig
from connector_kafka.client.producer import Producer

__all__ = ["PRODUCERS", "ProducerPool"]

_IDLE_SECONDS: Final = 300.0


@dataclass(frozen=True)
class _Idle:
    """An idle producer, its purpose, and the start of its idle time."""

    config: ClientConfig
    is_transactional: bool
    producer: Producer
    since: float


class ProducerPool:
    """Lends each producer to one writer at a time. Executor, any thread.

    Args:
        idle_seconds: The idle time after which a producer is closed at the next request.
    """

    def __init__(self, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._pid = os.getpid()

    def borrow(self, config: ClientConfig, *, is_transactional: bool) -> Producer:
        """Return a producer with these properties, either a returned or a new one.

        Args:
            config: Its properties.
            is_transactional: Whether it writes transactions. It then writes nothing outside of
                transactions.
        """
        if self._pid != os.getpid():
            # After a fork, connections belong to the parent, and a thread of the parent can hold
            # the lock.
            self._lock, self._idle, self._pid = threading.Lock(), [], os.getpid()
        oldest = time.monotonic() - self._idle_seconds
        wanted = (config, is_transactional)
        found: Producer | None = None
        expired: list[Producer] = []
        with self._lock:
            kept: list[_Idle] = []
            for each in self._idle:
                if each.since < oldest:
                    expired.append(each.producer)
                elif found is None and (each.config, each.is_transactional) == wanted:
                    found = each.producer
                else:
                    kept.append(each)
            self._idle = kept
        for producer in expired:
            producer.close()
        return Producer(config) if found is None else found

    def give_back(
        self, config: ClientConfig, producer: Producer, *, is_transactional: bool
    ) -> None:
        """Return a producer that has sent everything and never failed. Close all others."""
        with self._lock:
            self._idle.append(_Idle(config, is_transactional, producer, time.monotonic()))

    def close(self) -> None:
        """Close all idle producers."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.producer.close()


PRODUCERS: Final = ProducerPool()
"""The producers of this process."""
