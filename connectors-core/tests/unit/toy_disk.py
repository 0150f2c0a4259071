# SPDX-License-Identifier: Apache-2.0
"""The disk of the toys, which can be unavailable. A correct toy checks it before each access.

After an access that changes the disk, it checks that the disk has responded.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager

from connectors_core.errors import RetryableError
from connectors_core.testing import Outage, TestSystem
from connectors_core.testing.outages import LATE_SECONDS

ERRORS = {
    Outage.STOPPED: ConnectionRefusedError("the disk is not there"),
    Outage.DISCONNECTED: ConnectionResetError("the disk has gone"),
    Outage.REFUSING: PermissionError("the disk is busy"),
}


class Disk(TestSystem):
    """There is one disk per process."""

    name = "disk"
    variable = "TOY_DISK"
    now = None
    left = 0
    connected = threading.local()

    @contextmanager
    def embedded(self):
        yield "disk"

    @contextmanager
    def outage(self, address, outage):
        Disk.now, Disk.connected = outage, threading.local()
        try:
            yield
        finally:
            Disk.now = None

    @contextmanager
    def lost_response(self, address, nth):
        Disk.left, Disk.lost = nth, threading.Event()
        try:
            yield Disk.lost
        finally:
            Disk.left = 0


def access():
    """Begin an access to the disk, as a client library does.

    Raises:
        OSError: The disk is not available.
    """
    now = Disk.now
    if now is Outage.SLOW:
        threading.Event().wait(0.02)
    elif now is Outage.LATE:
        if not hasattr(Disk.connected, "yes"):
            Disk.connected.yes = True
            threading.Event().wait(LATE_SECONDS)
    elif now is not None:
        if now is Outage.DISCONNECTED:
            Disk.now = None
        raise type(ERRORS[now])(*ERRORS[now].args)


def connect():
    """Open a new connection in this thread, whose first response can be late."""
    Disk.connected.__dict__.clear()


def available():
    """Begin an access to the disk, as a connector does.

    Raises:
        RetryableError: The disk is not available.
    """
    try:
        access()
    except OSError as error:
        raise RetryableError("the disk does not answer", found=error) from error


def response():
    """End an access to the disk, which took effect, as a client library does.

    Raises:
        OSError: The response is lost.
    """
    Disk.left -= 1
    if Disk.left == 0:
        Disk.lost.set()
        raise ConnectionResetError("the disk has gone")


def responded():
    """End an access to the disk, which took effect, as a connector does.

    Raises:
        RetryableError: The response is lost.
    """
    try:
        response()
    except OSError as error:
        raise RetryableError("the disk does not answer", found=error) from error
