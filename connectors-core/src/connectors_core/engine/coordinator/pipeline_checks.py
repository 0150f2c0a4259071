# SPDX-License-Identifier: Apache-2.0
"""Checks of every pipeline before it runs, with or without Spark. Driver, no pyspark."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral
from typing import Final

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.records import RecordPolicy
from connectors_core.source.source import AnySource, Boundedness

_LOGGER: Final = logging.getLogger(__name__)


def check_type(
    argument: str, value: object, kind: type, *, example: str, optional: bool = False
) -> None:
    """Refuse an argument of another type. The error names no value, which may be a secret.

    Args:
        argument: Its name.
        value: Its value.
        kind: The type that it must have.
        example: A valid value, as code.
        optional: Whether it may be None, which stands for the default.

    Raises:
        InvalidOptionError: The value has another type.
    """
    if not isinstance(value, kind) and not (optional and value is None):
        raise InvalidOptionError(
            f"the type of {argument!r} is wrong",
            expected=f"{kind.__name__}, such as {example}",
            found=type(value).__name__,
            option=argument,
        )


def check_choice(argument: str, value: object, choices: Collection[object]) -> None:
    """Refuse an argument that is none of its choices.

    Raises:
        InvalidOptionError: The value is another one.
    """
    if value not in choices:
        raise InvalidOptionError(
            f"the value of {argument!r} is invalid",
            expected=" or ".join(map(repr, choices)),
            found=repr(value),
            option=argument,
        )


def check_parallelism(value: object) -> None:
    """Refuse a number of readers or writers that is not positive.

    Args:
        value: The argument `parallelism`; None for the default.

    Raises:
        InvalidOptionError: It is no integer above zero.
    """
    if value is None or (isinstance(value, Integral) and int(value) > 0):
        return
    raise InvalidOptionError(
        "the parallelism is not a positive number",
        expected="an integer above zero, or None for the default",
        found=value if isinstance(value, Integral) else type(value).__name__,
        option="parallelism",
    )


def check_record_policy(policy: object) -> None:
    """Refuse a record policy of another type.

    Raises:
        InvalidOptionError: It is neither None nor a `RecordPolicy`.
    """
    example = "RecordPolicy.skip()"
    check_type("record_policy", policy, RecordPolicy, example=example, optional=True)


def check_not_started(method: str, *, started: bool) -> None:
    """Refuse a call after the pipeline was started.

    Raises:
        ConfigurationError: The pipeline was started.
    """
    if started:
        raise ConfigurationError(
            f"{method} was called after the pipeline was started",
            hint="create a new Pipeline with the same checkpoint location",
        )


def check_has_sinks(name: str, sinks: Collection[object]) -> None:
    """Refuse a pipeline without a sink.

    Raises:
        ConfigurationError: It has no sink.
    """
    if not sinks:
        raise ConfigurationError(
            f"pipeline {name!r} has no sink", hint="call sink_to before run or start"
        )


def check_sources(sink: str, sources: Iterable[str], known: Collection[str]) -> None:
    """Refuse a sink whose rows come from a source of another pipeline.

    Args:
        sink: Its uid.
        sources: Uids of the sources that feed it.
        known: Uids of the sources of the pipeline.

    Raises:
        ConfigurationError: A source of another pipeline feeds it.
    """
    unknown = sorted(set(sources) - set(known))
    if unknown:
        raise ConfigurationError(
            f"sink {sink!r} writes a DataFrame of a source that is not of this pipeline",
            expected=f"one built on {', '.join(known) or 'a source'}",
            found=f"one built on {', '.join(unknown)}",
            hint="build it on a DataFrame that from_source of this Pipeline returned",
        )


def check_ends(sources: Mapping[str, AnySource], *, available_now: bool) -> None:
    """Refuse a run that would never return.

    Args:
        sources: Streamed sources by uid.
        available_now: Whether the run ends after the data that is available at its start.

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
    """Log a warning that names the sources whose rows no sink receives.

    Args:
        name: Name of the pipeline.
        sources: Uids of its sources.
        read: Uids of the sources that it reads.
    """
    unread = sorted(set(sources) - set(read))
    if unread:
        _LOGGER.warning(
            "pipeline %r does not read %s: no sink_to takes a DataFrame built on it",
            name,
            ", ".join(unread),
        )
