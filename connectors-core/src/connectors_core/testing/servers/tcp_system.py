# SPDX-License-Identifier: Apache-2.0
"""A system for tests that its clients reach through a faulty network."""

from __future__ import annotations

import re
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from connectors_core.testing.outages import Outage
from connectors_core.testing.servers.errors import ServerError
from connectors_core.testing.servers.network import FaultyNetwork
from connectors_core.testing.system import TestSystem

__all__ = ["TcpTestSystem", "direct_address"]

_ADDRESS: Final = re.compile(
    r"(?P<before>(?:[A-Za-z][\w+.-]*://)?(?:[^/@]*@)?)[^/:@]+:(?P<port>\d+)(?P<path>.*)"
)


class TcpTestSystem(TestSystem):
    """A server on loopback behind a `FaultyNetwork`. The suites can test outages of it.

    Clients reach it through the network. Tests use `direct_address` to bypass the network.

    ```python
    class RedisSystem(TcpTestSystem):
        name, variable = "redis", "REDIS_ADDRESS"

        def server(self):
            return running_redis()  # a context manager that yields "127.0.0.1:6379"
    ```
    """

    @abstractmethod
    def server(self) -> AbstractContextManager[str]:
        """Start the server on loopback, and return its address: ``host:port``, or a URL with it."""

    def embedded(self) -> AbstractContextManager[str]:
        """Start the server, and return the address of the network before it."""
        return self._behind_a_network()

    @contextmanager
    def _behind_a_network(self) -> Iterator[str]:
        with self.server() as direct, FaultyNetwork() as network:
            found = _ADDRESS.fullmatch(direct)
            if found is None:
                raise ServerError(
                    f"the address {direct!r} of {self.name} has no port",
                    hint=f"yield host:port or a URL in {type(self).__name__}.server",
                )
            network.forward_to(int(found["port"]))
            address = f"{found['before']}{network.address}{found['path']}"
            _networks[address] = network, direct
            try:
                yield address
            finally:
                del _networks[address]

    def outage(self, address: str, outage: Outage) -> AbstractContextManager[None]:
        """Make the network faulty.

        Raises:
            ServerError: This run did not start the system.
        """
        return self._network(address).outage(outage)

    def lost_response(self, address: str, nth: int) -> AbstractContextManager[threading.Event]:
        """Make the network lose a response.

        Raises:
            ServerError: This run did not start the system.
        """
        return self._network(address).lost_response(nth)

    def _network(self, address: str) -> FaultyNetwork:
        if address not in _networks:
            raise ServerError(
                f"this run did not start {self.name} at {address}, so no network is before it",
                hint=f"unset {self.variable} to test outages",
            )
        network, _ = _networks[address]
        return network


_networks: dict[str, tuple[FaultyNetwork, str]] = {}


def direct_address(address: str) -> str:
    """Return the address of a `TcpTestSystem` that bypasses its network.

    Args:
        address: The address of the system, as a test run got it. Other addresses stay as they are.
    """
    return _networks[address][1] if address in _networks else address
