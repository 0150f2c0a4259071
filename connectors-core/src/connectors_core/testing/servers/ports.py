# SPDX-License-Identifier: Apache-2.0
"""Ports for what tests start."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
"""The address that servers for tests listen on."""
_FIRST: Final = 10_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FEWEST: Final = 1_000


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens on, and that stay free while their owner is away.

    They are below those that the system gives to outgoing connections: one of these could take it
    while a server restarts, and a client that tries to reach the server could connect to itself.

    Args:
        number: How many; they differ.

    Raises:
        OSError: There are not so many.
    """
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    found: list[int] = []
    for port in random.sample(range(_FIRST, max(end, _FIRST + _FEWEST)), _FEWEST):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            found.append(port)
        if len(found) == number:
            return found
    raise OSError(f"no {number} free ports between {_FIRST} and {end}")
