# SPDX-License-Identifier: Apache-2.0
"""The limits of sinks that send requests. The keys are Flink's, where it has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from connectors_core.errors import InvalidOptionError
from connectors_core.options import (
    DURATION,
    MEMORY_SIZE,
    Configured,
    Setting,
    at_least,
    option,
    positive,
)
from connectors_core.sink.rate_limits import RateLimiting

__all__ = ["AsyncSinkWriterConfiguration"]


class AsyncSinkWriterConfiguration(Configured, scope="asynchronous sink", since="1.0.0"):
    """The limits of an `AsyncSinkWriter`."""

    max_batch_size: Setting[int] = option(
        "sink.batch.max-size",
        int,
        unit="entries",
        default=500,
        validator=positive,
        doc="Maximum number of entries in a request.",
    )
    max_in_flight_requests: Setting[int] = option(
        "sink.requests.max-inflight",
        int,
        unit="requests",
        default=4,
        validator=positive,
        doc="Maximum number of concurrent requests of a task.",
    )
    max_buffered_requests: Setting[int] = option(
        "sink.requests.max-buffered",
        int,
        unit="entries",
        default=10_000,
        validator=positive,
        doc="Maximum number of entries in a task: waiting, in flight, or to be retried.",
    )
    max_batch_size_in_bytes: Setting[int, int | str] = option(
        "sink.flush-buffer.size",
        MEMORY_SIZE,
        default=5 << 20,
        validator=positive,
        doc="Maximum size of a request.",
    )
    max_record_size_in_bytes: Setting[int, int | str] = option(
        "sink.record.max-size",
        MEMORY_SIZE,
        default=1 << 20,
        validator=positive,
        doc="Maximum size of an entry. A larger one is a bad record.",
    )
    max_time_in_buffer: Setting[timedelta, timedelta | str] = option(
        "sink.flush-buffer.timeout",
        DURATION,
        default=timedelta(seconds=5),
        validator=at_least(timedelta(0)),
        doc="How long an entry waits for its request to fill.",
    )
    request_timeout: Setting[timedelta, timedelta | str] = option(
        "sink.requests.timeout",
        DURATION,
        default=timedelta(minutes=1),
        validator=positive,
        doc="Timeout of a request, which is then retried.",
    )
    retry_timeout: Setting[timedelta, timedelta | str] = option(
        "sink.retries.timeout",
        DURATION,
        default=timedelta(minutes=2),
        validator=at_least(timedelta(0)),
        doc="How long to retry an entry before the task fails.",
    )
    initial_backoff: Setting[timedelta, timedelta | str] = option(
        "sink.retries.initial-backoff",
        DURATION,
        default=timedelta(milliseconds=100),
        validator=positive,
        doc="Maximum pause before the first retry. It doubles each time that the service accepts "
        "no part of the request.",
    )
    max_backoff: Setting[timedelta, timedelta | str] = option(
        "sink.retries.max-backoff",
        DURATION,
        default=timedelta(seconds=10),
        validator=positive,
        doc="Maximum pause before a retry, unless the service asks for more.",
    )
    rate_limiting: Setting[RateLimiting, RateLimiting | Literal["congestion-control", "fixed"]] = (
        option(
            "sink.rate-limiting",
            RateLimiting,
            default=RateLimiting.CONGESTION_CONTROL,
            doc="Request rate while the service rejects entries: reduced until it accepts them "
            "(`congestion-control`), or unchanged (`fixed`).",
        )
    )

    def __post_init__(self) -> None:
        kind = type(self)
        for limit, least in (
            (kind.max_buffered_requests, kind.max_batch_size),
            (kind.max_batch_size_in_bytes, kind.max_record_size_in_bytes),
            (kind.max_backoff, kind.initial_backoff),
        ):
            found, smallest = getattr(self, limit.attribute), getattr(self, least.attribute)
            if found < smallest:
                [key], [least_key] = limit.keywords, least.keywords
                other = self.name_of_option(least_key)
                raise InvalidOptionError(
                    f"{key!r} is less than {other!r}",
                    expected=f"at least {smallest}",
                    found=found,
                    option=key,
                    hint=f"increase {key!r} or decrease {other!r}",
                )


# Enables `dataclasses.replace`, which connectors 2.x use; `replaced` does the same.
dataclass(init=False, repr=False, eq=False)(AsyncSinkWriterConfiguration)
