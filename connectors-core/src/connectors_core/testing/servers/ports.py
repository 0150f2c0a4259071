# SPDX-License-Identifier: Apache-2.0
"""Ports for the servers that tests start."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
"""The address on which test servers listen."""
_FIRST: Final = 10_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FEWEST: Final = 1_000


def free_ports(number: int) -> list[int]:
    """Return unused ports that stay free while their owner is down.

    They are below the range for outgoing connections. Otherwise, an outgoing connection could take
    the port during a restart of the server, and a client could even connect to itself.

    Args:
        number: The number of distinct ports.

    Raises:
        OSError: Not enough ports are free.
    """
    end = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    found: list[int] = []
    # Not `random.sample`, because tests seed it and would then choose the same ports.
    for port in random.SystemRandom().sample(range(_FIRST, max(end, _FIRST + _FEWEST)), _FEWEST):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            found.append(port)
        if len(found) == number:
            return found
    raise OSError(f"no {number} free ports between {_FIRST} and {end}")
