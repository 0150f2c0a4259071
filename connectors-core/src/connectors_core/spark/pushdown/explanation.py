# SPDX-License-Identifier: Apache-2.0
"""Describes what a pipeline pushed down to its sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from connectors_core.engine.execution.pushed_reader import PushedReader
from connectors_core.engine.execution.reader_task import HEARTBEAT_COLUMN
from connectors_core.source.predicates import field_text


def explanation(
    sinks: Sequence[str],
    sources: Mapping[str, PushedReader] = MappingProxyType({}),
    *,
    tasks: Mapping[str, str] = MappingProxyType({}),
    reason: str = "",
    direct: bool = False,
) -> Iterator[str]:
    """Yield the lines for one query.

    Args:
        sinks: The uids of its sinks.
        sources: Its sources by uid.
        tasks: The tasks of its sources in a batch run, by uid.
        reason: Why nothing was pushed down; empty if it was.
        direct: Whether Spark does not process its rows.
    """
    yield f"query of {', '.join(sinks)}"
    if direct:
        yield "  rows go straight from the source to the sinks"
    if reason:
        yield f"  all columns and rows: {reason}"
    for uid, pushed in sources.items():
        yield f"  source {uid}"
        yield from (f"    {line}" for line in _of_source(pushed))
    for uid, text in tasks.items():
        yield f"  tasks of {uid}: {text}"


def _of_source(pushed: PushedReader) -> Iterator[str]:
    if pushed.reason:
        yield f"all columns and rows: {pushed.reason}"
        return
    reader = pushed.reader
    if reader.columns is None:
        yield "columns: all"
    else:
        names = [name for name in reader.columns if name != HEARTBEAT_COLUMN]
        yield f"columns: {', '.join(names)}"
    if pushed.read is not None:
        yield f"the source reads: {', '.join(map(field_text, pushed.read))}"
    for each in reader.filters:
        where = "the source skips rows" if each in pushed.used else "the pipeline drops rows"
        yield f"condition: {each} ({where})"
    if reader.row_limit is not None:
        yield f"limit: {reader.row_limit} rows of each split"
