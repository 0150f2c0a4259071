# SPDX-License-Identifier: Apache-2.0
"""Lets the files of the days arrive, one after another."""

from __future__ import annotations

import threading
import time

from examples.flights.data import Places


class Feed(threading.Thread):
    """Moves the files to where the pipeline looks, in the order of their days.

    A file appears at once and complete, because it is renamed and not copied.

    Args:
        places: Where.
        seconds: Time from the first to the last file.
    """

    def __init__(self, places: Places, seconds: float) -> None:
        super().__init__(name="feed", daemon=True)
        self._places = places
        self._files = sorted(places.cut.iterdir())
        self._seconds = seconds
        self.arrived = 0

    def run(self) -> None:
        """Move all files, then say that these were all."""
        start = time.monotonic()
        for number, file in enumerate(self._files):
            due = start + self._seconds * number / len(self._files)
            time.sleep(max(0.0, due - time.monotonic()))
            file.rename(self._places.flights / file.name)
            self.arrived += 1
        self._places.all_arrived.touch()
