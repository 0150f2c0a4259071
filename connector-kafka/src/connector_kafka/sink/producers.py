# SPDX-License-Identifier: Apache-2.0
"""Producers that a Python worker keeps from one task to the next: to connect anew is dear."""

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
    """A producer that nobody uses, what for it is good, and since when."""

    config: ClientConfig
    is_transactional: bool
    producer: Producer
    since: float


class ProducerPool:
    """Lends producers, each to one writer at a time; executor, any thread.

    Args:
        idle_seconds: A producer that nobody used for so long is closed, when another is asked for.
    """

    def __init__(self, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[_Idle] = []
        self._pid = os.getpid()

    def borrow(self, config: ClientConfig, *, is_transactional: bool) -> Producer:
        """A producer with these properties: one that was given back, or a new one.

        Args:
            config: Its properties.
            is_transactional: Whether it writes transactions; it then does nothing else, ever.
        """
        if self._pid != os.getpid():
            # Forked: connections are the parent's, and the lock may be held by a thread of it.
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
        """Take back a producer that has sent all and never failed; others are to be closed."""
        with self._lock:
            self._idle.append(_Idle(config, is_transactional, producer, time.monotonic()))

    def close(self) -> None:
        """Close all producers that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.producer.close()


PRODUCERS: Final = ProducerPool()
"""The producers of this process."""
