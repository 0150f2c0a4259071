# SPDX-License-Identifier: Apache-2.0
"""Warns of queries that return other rows when they run again. Driver.

Reports pin the input of an epoch, but not the values that a query makes up. A sink that may receive
the rows of an epoch twice would then receive other rows under the same epoch.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN
from connectors_core.sink.abilities import SupportsRewriting
from connectors_core.sink.sink import TwoPhaseCommittingSink
from connectors_core.spark.carriers.base import source_below
from connectors_core.spark.internals.plans import analyzed_plan
from connectors_core.spark.writing_job import RegisteredSink, WritingJob

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOGGER: Final = logging.getLogger(__name__)
# Deterministic within a query, and pinned by Spark's offset log only in a stream.
_CURRENT_TIME: Final = re.compile(r"\b(?:current_timestamp|now|current_date|localtimestamp)\(")


def warn_of_other_rows(job: WritingJob) -> None:
    """Log a warning for each sink that may receive other rows under the same epoch."""
    for sink in job.sinks:
        if _may_receive_rows_again(sink) and (found := sorted(set(_other_values(sink.df)))):
            _LOGGER.warning(
                "sink %r may receive other rows under the same epoch after a failure, because its "
                "query is not deterministic: %s. Compute these values from the columns of a row, "
                "or before the pipeline",
                sink.uid,
                ", ".join(found),
            )


def _may_receive_rows_again(sink: RegisteredSink) -> bool:
    two_phase = isinstance(sink.sink, TwoPhaseCommittingSink)
    return not two_phase or isinstance(sink.sink, SupportsRewriting) or sink.function is not None


def _other_values(df: DataFrame) -> Iterator[str]:
    """Return the expressions of a query whose values are other ones in every run."""
    nodes = [analyzed_plan(df)]
    while nodes:
        node = nodes.pop()
        if source_below(node) is not None:
            continue
        nodes += [*node.children, *node.subqueries]
        for expression in node.expressions:
            text = expression.text
            if HEARTBEAT_COLUMN in text:
                continue  # the filter of the watermark
            yield from expression.nondeterministic
            if not df.isStreaming and _CURRENT_TIME.search(text.lower()):
                yield "current time"
