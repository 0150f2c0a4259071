# SPDX-License-Identifier: Apache-2.0
"""What every pipeline refuses before it runs, on Spark or without. Driver, no pyspark."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from connectors_core.errors import ConfigurationError
from connectors_core.records import RecordPolicy, RecordPolicyMode
from connectors_core.sink.sink import Sink
from connectors_core.source.source import AnySource, Boundedness

_LOGGER: Final = logging.getLogger(__name__)


def check_not_started(method: str, *, started: bool) -> None:
    """Refuse a call that comes too late.

    Raises:
        ConfigurationError: The pipeline was started.
    """
    if started:
        raise ConfigurationError(
            f"{method} was called after the pipeline was started",
            hint="make a new Pipeline with the same checkpoint location",
        )


def check_has_sinks(name: str, sinks: Collection[object]) -> None:
    """Refuse a pipeline that would read rows and drop them.

    Raises:
        ConfigurationError: It has no sink.
    """
    if not sinks:
        raise ConfigurationError(
            f"pipeline {name!r} has no sink", hint="call sink_to before run or start"
        )


def check_sources(sink: str, sources: Iterable[str], known: Collection[str]) -> None:
    """Refuse a sink whose rows come from elsewhere.

    Args:
        sink: Its uid.
        sources: Uids of the sources that feed it.
        known: Uids of the sources of the pipeline.

    Raises:
        ConfigurationError: No source of the pipeline feeds it, or another one does too.
    """
    found = set(sources)
    unknown = sorted(found - set(known))
    if unknown or not found:
        raise ConfigurationError(
            f"sink {sink!r} writes a DataFrame that no source of this pipeline feeds",
            expected=f"one built on {', '.join(known) or 'a source'}",
            found=f"one built on {', '.join(unknown)}" if unknown else None,
            hint="build it on what from_source of this very Pipeline returned",
        )


def check_policies(policies: Mapping[str, RecordPolicy]) -> None:
    """Refuse dead letters that nothing can write.

    Args:
        policies: Record policies by the uid of the source or sink they belong to.

    Raises:
        ConfigurationError: A policy has something else in the place of a sink.
    """
    for uid, policy in policies.items():
        if policy.mode is RecordPolicyMode.DEAD_LETTER and not isinstance(policy.sink, Sink):
            raise ConfigurationError(
                f"the dead letters of {uid!r} need a sink",
                found=type(policy.sink).__name__,
                option="record_policy",
            )


def check_ends(sources: Mapping[str, AnySource], *, available_now: bool) -> None:
    """Refuse a run that would never return.

    Args:
        sources: Streamed sources by uid.
        available_now: Whether they are read up to what is there at the start.

    Raises:
        ConfigurationError: A source has no end.
    """
    endless = [
        uid for uid, source in sources.items() if source.boundedness() is not Boundedness.BOUNDED
    ]
    if endless and not available_now:
        raise ConfigurationError(
            f"run() would never end: {', '.join(endless)} has no end",
            hint="use run(available_now=True), or start() and stop()",
        )


def warn_of_unread(name: str, sources: Iterable[str], read: Collection[str]) -> None:
    """Name the sources that a pipeline does not read, since nothing takes their rows.

    Args:
        name: The pipeline.
        sources: Uids of its sources.
        read: Those that it reads.
    """
    unread = sorted(set(sources) - set(read))
    if unread:
        _LOGGER.warning(
            "pipeline %r does not read %s: no sink_to takes a DataFrame built on it",
            name,
            ", ".join(unread),
        )
