# SPDX-License-Identifier: Apache-2.0
"""A second driver that takes over the pipeline of a test."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from connectors_core.engine.state import LeaseOwner, StateStore, documents
from connectors_core.errors import LeaseError
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import TestEnvironment
from connectors_core.testing.pace import Deadline

SECONDS: Final = 60.0


class HeldBy:
    """A lease of an incarnation, reduced to what fences and coordinators use."""

    def __init__(self, incarnation: int, newest: int | None = None) -> None:
        self.incarnation = incarnation
        self.newest = newest or incarnation

    def confirm(self) -> None:
        if self.newest > self.incarnation:
            raise LeaseError("another driver has taken over")


def take_lease(store: StateStore, incarnation: int) -> None:
    """Take over a pipeline, as from a driver without heartbeats."""
    owner = asdict(LeaseOwner.current("another driver"))
    claim = {"claimed_at": 0.0, "incarnation": incarnation, "nonce": "another", "owner": owner}
    assert store.create(f"lease/{incarnation:010d}.json", documents.encode("lease", claim))


def assert_ends_when_taken_over_while_it_waits(environment: TestEnvironment, root: Path) -> None:
    """Check that an idle driver ends with the error of its lease."""
    location = root / "checkpoint"
    often, never = timedelta(seconds=3), timedelta(hours=1)
    pipeline: Any = environment.pipeline(
        "waiting", location, lease_expiry=often, trigger_interval=never
    )
    with pipeline:
        source = NumberSequenceSource(0, 99)
        rows = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=10))
        pipeline.sink_to(rows, DirectorySink(root / "out"), uid="out")
        pipeline.start()
        deadline = Deadline(SECONDS)
        while pipeline.status().queries[0].epoch is None:
            assert not deadline.passed, "no first epoch"
            pipeline.await_termination(0.02)
        take_lease(StateStore(str(location)), 2)
        with pytest.raises(LeaseError, match="another driver has taken over"):
            pipeline.await_termination(SECONDS)
