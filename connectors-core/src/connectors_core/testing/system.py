# SPDX-License-Identifier: Apache-2.0
"""The external systems of a test run: a running one, a container, or the connector's own."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, ExitStack
from typing import ClassVar

from connectors_core.testing.extra import INSTALL_TESTING
from connectors_core.testing.outages import Outage


class TestSystem(ABC):
    """An external system for tests, which is started once for all of them.

    Attributes:
        name: The name in the output of a run.
        variable: The environment variable for the address of a running system.
        image: The image of a container. It is used if a Docker engine runs and has the image, which
            is never pulled.
    """

    __test__ = False
    name: ClassVar[str]
    variable: ClassVar[str]
    image: ClassVar[str | None] = None

    def container(self) -> AbstractContextManager[str]:
        """Start a container of :attr:`image` with testcontainers, and return its address."""
        raise NotImplementedError(f"{type(self).__name__} names an image and cannot start it")

    @abstractmethod
    def embedded(self) -> AbstractContextManager[str]:
        """Start the connector's embedded system, and return its address on this machine."""

    def outage(self, address: str, outage: Outage) -> AbstractContextManager[None]:
        """Make the system unavailable for its clients, but not for the tests' own access.

        A `FaultyNetwork` before the system does this for any system with TCP.

        Args:
            address: The address of the system, as a test run got it.
            outage: The kind of outage within the context.

        Raises:
            NotImplementedError: The suites lack the capability `OUTAGES`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no outages")

    def lost_response(self, address: str, nth: int) -> AbstractContextManager[threading.Event]:
        """Lose one response to a client: its connection ends, although the request took effect.

        The system handles all other requests normally, also a repeated one. A `FaultyNetwork`
        before the system does this for any system with TCP.

        Args:
            address: The address of the system, as a test run got it.
            nth: The number of the response within the context, from 1.

        Returns:
            A context with an event that is set when the response is lost.

        Raises:
            NotImplementedError: The suites lack the capability `OUTAGES`.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot lose a response")


class RunningSystems:
    """The systems that a test run has started, each at its first use."""

    def __init__(self) -> None:
        self._ends = ExitStack()
        self._addresses: dict[str, str] = {}
        self.choices: dict[str, str] = {}

    def address(self, system: TestSystem) -> str:
        """Return the address of a system, after starting the system if necessary."""
        if system.name not in self._addresses:
            address, choice = self._start(system)
            self._addresses[system.name] = address
            self.choices[system.name] = choice
            print(f"{system.name}: {choice}")
        return self._addresses[system.name]

    def close(self) -> None:
        """Stop the systems that this object started."""
        self._ends.close()

    def _start(self, system: TestSystem) -> tuple[str, str]:
        if given := os.environ.get(system.variable):
            return given, f"the one of {system.variable}"
        absent = "it names no image" if system.image is None else _container_is_absent(system.image)
        if absent is None:
            return self._ends.enter_context(system.container()), f"container of {system.image}"
        address = self._ends.enter_context(system.embedded())
        return address, f"embedded ({system.variable} is not set; no container: {absent})"


def _container_is_absent(image: str) -> str | None:
    """Return why no container of an image can be started here, or None if it can."""
    try:
        from testcontainers.core.docker_client import DockerClient
    except ImportError:
        return f"testcontainers is not installed: {INSTALL_TESTING}"
    from docker.errors import DockerException, ImageNotFound

    try:
        DockerClient().client.images.get(image)
    except ImageNotFound:
        return f"the image {image} does not exist"
    except DockerException as error:
        return f"no Docker engine responds ({type(error).__name__})"
    return None
