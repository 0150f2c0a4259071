# SPDX-License-Identifier: Apache-2.0
"""The disk of the toys, which can be unavailable. A correct toy checks it before each access."""

from __future__ import annotations

import threading
from contextlib import contextmanager

from connectors_core.errors import RetryableError
from connectors_core.testing import Outage, TestSystem

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

    @contextmanager
    def embedded(self):
        yield "disk"

    @contextmanager
    def outage(self, address, outage):
        Disk.now = outage
        try:
            yield
        finally:
            Disk.now = None


def access():
    """Begin an access to the disk, as a client library does.

    Raises:
        OSError: The disk is not available.
    """
    now = Disk.now
    if now is Outage.SLOW:
        threading.Event().wait(0.02)
    elif now is not None:
        if now is Outage.DISCONNECTED:
            Disk.now = None
        raise type(ERRORS[now])(*ERRORS[now].args)


def available():
    """Begin an access to the disk, as a connector does.

    Raises:
        RetryableError: The disk is not available.
    """
    try:
        access()
    except OSError as error:
        raise RetryableError("the disk does not answer", found=error) from error
