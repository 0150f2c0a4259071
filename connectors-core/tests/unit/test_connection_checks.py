# SPDX-License-Identifier: Apache-2.0
"""Tests that systems are checked before a pipeline starts, and unresponsive ones are named."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.engine.coordinator.connection_checks import (
    check_connections,
    check_state_location,
)
from connectors_core.engine.state import StateStore
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    FatalError,
    RetryableError,
    StateLocationError,
)
from connectors_core.source import HybridSource, NumberSequenceSource


class Part(SupportsConnectionCheck):
    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.timeout: float | None = None

    def check_connection(self, timeout: float) -> None:
        self.timeout = timeout
        if self.error is not None:
            raise self.error

    def __repr__(self) -> str:
        return "Part('localhost:9')"


def test_every_part_that_supports_a_check_is_checked() -> None:
    first, second = Part(), Part()
    check_connections({"source 'a'": first, "sink 'b'": second, "sink 'c'": object()}, 3.0)
    assert (first.timeout, second.timeout) == (3.0, 3.0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RetryableError("no answer", found="connection refused"), RetryableError),
        (ConfigurationError("no such user", option="username"), ConfigurationError),
        (FatalError("something else answers"), FatalError),
        (OSError(111, "refused"), FatalError),
    ],
)
def test_an_error_names_the_part_its_address_and_the_cause(
    error: Exception, kind: type[ConnectorError]
) -> None:
    with pytest.raises(kind) as raised:
        check_connections({"source 'a'": Part(), "sink 'b'": Part(error)}, 1.0)
    assert raised.value.code == "CONNECTION"
    assert "sink 'b'" in str(raised.value)
    assert "localhost:9" in str(raised.value)
    assert raised.value.__cause__ is error
    assert "SET 'execution.connection-timeout' = '0 s'" in str(raised.value.hint)
    if isinstance(error, ConnectorError):
        assert raised.value.option == error.option
    else:
        assert "refused" in str(raised.value.found)


def test_a_check_that_does_not_return_is_abandoned_at_the_timeout() -> None:
    ended = threading.Event()

    class Hangs(Part):
        def check_connection(self, timeout: float) -> None:
            ended.wait(30)

    began = time.monotonic()
    try:
        with pytest.raises(RetryableError, match=r"source 'a'") as raised:
            check_connections({"source 'a'": Hangs(), "source 'b'": Hangs()}, 0.1)
    finally:
        ended.set()
    assert "no response within 0.1 s" in str(raised.value)
    assert time.monotonic() - began < 10


def test_parts_are_checked_concurrently() -> None:
    together = threading.Barrier(3)

    class Meets(Part):
        def check_connection(self, timeout: float) -> None:
            together.wait(timeout)

    check_connections({str(number): Meets() for number in range(3)}, 20.0)


def test_a_hybrid_source_checks_its_members() -> None:
    class Numbers(NumberSequenceSource, SupportsConnectionCheck):
        def check_connection(self, timeout: float) -> None:
            asked.append(timeout)

    asked: list[float] = []
    chain = HybridSource.builder(Numbers(0, 9)).add_source(NumberSequenceSource(10, 19))
    check_connections({"source 'a'": chain.add_source(Numbers(20, 29)).build()}, 4.0)
    assert asked == [2.0, 2.0]


@pytest.mark.parametrize("timeout", [None, 20.0])
def test_an_unusable_state_location_raises_its_own_error(
    tmp_path: Path, timeout: float | None
) -> None:
    check_state_location(StateStore(str(tmp_path / "state")), timeout)
    (tmp_path / "file").touch()
    unusable = StateStore(str(tmp_path / "file"))
    with pytest.raises(StateLocationError, match="cannot be written and read back") as raised:
        check_state_location(unusable, timeout)
    assert str(unusable) in str(raised.value)


def test_a_state_location_that_does_not_respond_is_abandoned_at_the_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()
    store = StateStore(str(tmp_path))
    monkeypatch.setattr(store, "verify", lambda: ended.wait(30))
    try:
        with pytest.raises(RetryableError, match=str(tmp_path)) as raised:
            check_state_location(store, 0.1)
    finally:
        ended.set()
    assert (raised.value.code, raised.value.option) == ("CONNECTION", "state_location")
    assert "no response within 0.1 s" in str(raised.value)
