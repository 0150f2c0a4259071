# SPDX-License-Identifier: Apache-2.0
"""Drivers in processes of their own that write numbers, for tests that kill them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing import DriverJob
from connectors_core.testing.directory_sink import DirectorySink


def numbers_job(
    root: Path, state: str, *, split_rows: int = 50, rows: int = 20, **settings: Any
) -> tuple[DriverJob, DirectorySink]:
    """Return a job that writes the numbers below 200, this many rows per epoch, and its sink."""
    sink = DirectorySink(root / "out")
    job = DriverJob(
        location=str(root / state),
        source=NumberSequenceSource(0, 199, split_rows=split_rows, batch_rows=10),
        sinks={"out": sink},
        settings={"limits": ReadLimits(rows=rows)},
        **settings,
    )
    return job, sink
