# SPDX-License-Identifier: Apache-2.0
"""Pipelines without Spark that write the same rows to two sinks."""

from __future__ import annotations

from typing import Any

from connectors_core.source import ReadLimits, Source
from connectors_core.testing.faults import Fault, injected

SECONDS = 30


class TwoSinks:
    """A pipeline into two sinks. A subclass creates the sinks and the pipeline."""

    sink: Any
    other: Any

    def pipeline(self) -> Any:
        raise NotImplementedError

    def connected(self, pipeline: Any, source: Source, *, rows: int) -> Any:
        """Connect a source to both sinks, with a limit per epoch, and return the pipeline."""
        numbers = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=rows))
        pipeline.sink_to(numbers, self.sink, uid="out")
        pipeline.sink_to(numbers, self.other, uid="other")
        return pipeline

    def run(self, *faults: Fault) -> Any:
        """Run the pipeline to its end, and return its status."""
        with injected(*faults), self.pipeline() as pipeline:
            assert pipeline.run(timeout=SECONDS)
        return pipeline.status()
