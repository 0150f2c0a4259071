# SPDX-License-Identifier: Apache-2.0
"""External systems of a test run: one that runs already, a container, or the connector's own."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, ExitStack
from typing import ClassVar

from connectors_core.testing.extra import INSTALL_TESTING
from connectors_core.testing.outages import Outage


class TestSystem(ABC):
    """An external system that tests work against, started once for all of them.

    Attributes:
        name: What it is called in the output of a run.
        variable: Environment variable that may hold the address of a running one.
        image: Image of a container, used where a Docker engine runs and has it; nothing is pulled.
    """

    __test__ = False
    name: ClassVar[str]
    variable: ClassVar[str]
    image: ClassVar[str | None] = None

    def container(self) -> AbstractContextManager[str]:
        """Start a container of :attr:`image` by testcontainers; gives the address of the system."""
        raise NotImplementedError(f"{type(self).__name__} names an image and cannot start it")

    @abstractmethod
    def embedded(self) -> AbstractContextManager[str]:
        """Start the one that the connector brings; gives its address, which is on this machine."""

    def outage(self, address: str, outage: Outage) -> AbstractContextManager[None]:
        """Make the system unavailable for its clients, not for who fills it and reads it back.

        A `FaultyNetwork` in front of it does so for whatever is reached by TCP.

        Args:
            address: Of the system, as a test run got it.
            outage: How it is unavailable within the context.

        Raises:
            NotImplementedError: Its suites lack the capability `OUTAGES`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no outages")


class RunningSystems:
    """The systems that a test run has started, each at its first use."""

    def __init__(self) -> None:
        self._ends = ExitStack()
        self._addresses: dict[str, str] = {}
        self.choices: dict[str, str] = {}

    def address(self, system: TestSystem) -> str:
        """The address of a system, which is started if it does not run yet."""
        if system.name not in self._addresses:
            address, choice = self._start(system)
            self._addresses[system.name] = address
            self.choices[system.name] = choice
            print(f"{system.name}: {choice}")
        return self._addresses[system.name]

    def close(self) -> None:
        """End those that were started here."""
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
    """Why no container of an image can be started here; None if one can."""
    try:
        from testcontainers.core.docker_client import DockerClient
    except ImportError:
        return f"testcontainers is not installed: {INSTALL_TESTING}"
    from docker.errors import DockerException, ImageNotFound

    try:
        DockerClient().client.images.get(image)
    except ImageNotFound:
        return f"the image {image} is not there"
    except DockerException as error:
        return f"no Docker engine answers ({type(error).__name__})"
    return None
