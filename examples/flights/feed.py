# SPDX-License-Identifier: Apache-2.0
"""Sends the flights of the second half to the topic, one after another."""

from __future__ import annotations

import threading
import time
from datetime import datetime

import orjson
from confluent_kafka import Producer

from examples.flights.data import FLIGHTS_TOPIC, Places


class Feed(threading.Thread):
    """Sends the flights in the order of their hours, with the hour as the timestamp.

    It uses another project's client, which is idempotent and waits while the broker is down.

    Args:
        places: The paths of the flights.
        bootstrap_servers: The broker.
        seconds: The time from the first to the last flight.
    """

    def __init__(self, places: Places, bootstrap_servers: str, seconds: float) -> None:
        super().__init__(name="feed", daemon=True)
        self._places = places
        self._flights = places.live.read_bytes().splitlines()
        self._seconds = seconds
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "max.in.flight": 1,  # otherwise a new partition may drop its first records
                "compression.type": "lz4",
                "linger.ms": 50,
                "log_level": 2,  # the demo kills the broker
            }
        )
        self.sent = 0

    def send_overlap(self) -> None:
        """Send flights that are also in the files. A topic rarely starts where files end."""
        for flight in self._places.overlap.read_bytes().splitlines():
            self._send(flight)
        self._producer.flush()

    def run(self) -> None:
        """Send all flights, and then mark the end."""
        start = time.monotonic()
        pace = self._seconds / max(1, len(self._flights))
        for number, flight in enumerate(self._flights):
            if (ahead := start + pace * number - time.monotonic()) > 0.05:
                time.sleep(ahead)
                self._producer.poll(0)
            self._send(flight)
            self.sent += 1
        self._producer.flush()
        self._places.all_sent.touch()

    def _send(self, flight: bytes) -> None:
        fields = orjson.loads(flight)
        hour = datetime.fromisoformat(fields["time_hour"])
        while True:
            try:
                self._producer.produce(
                    FLIGHTS_TOPIC,
                    key=fields["carrier"],
                    value=flight,
                    timestamp=int(hour.timestamp() * 1000),
                )
                return
            except BufferError:  # full, because the broker is down
                self._producer.poll(0.1)
