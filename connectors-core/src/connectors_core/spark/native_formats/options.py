# SPDX-License-Identifier: Apache-2.0
"""The options of a native format: those of the connector, and a few for Spark's side of a read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connectors_core.options import Configured, Setting, option, positive
from connectors_core.options.types import MEMORY_SIZE
from connectors_core.source.source import AnySource
from connectors_core.source.split import ReadLimits

_PARALLELISM: Final = 16


class ReadOptions(Configured, scope="native format", since="1.1.0"):
    """The options of a read that a pipeline takes as arguments."""

    parallelism: Setting[int] = option(
        "scan.parallelism",
        int,
        unit="readers",
        default=_PARALLELISM,
        validator=positive,
        doc="Maximum number of tasks in a micro-batch. A batch read has up to four times as many.",
    )
    max_rows: Setting[int | None] = option(
        "limits.rows",
        int,
        unit="rows",
        default=None,
        validator=positive,
        doc="Maximum number of rows in a micro-batch, for a source that plans its stops, such as "
        "Kafka.",
    )
    max_splits: Setting[int | None] = option(
        "limits.splits",
        int,
        unit="splits",
        default=None,
        validator=positive,
        doc="Maximum number of splits in a micro-batch, such as files.",
    )
    max_bytes: Setting[int | None, int | str | None] = option(
        "limits.bytes",
        MEMORY_SIZE,
        default=None,
        validator=positive,
        doc="Size of a micro-batch at which no further split joins it, for splits of known size, "
        "such as files.",
    )

    filter_pushdown: Setting[bool] = option(
        "scan.filter-pushdown",
        bool,
        default=False,
        doc="Whether the source of a batch read gets Spark's filters. It requires "
        "`spark.sql.python.filterPushdown.enabled=true`.",
    )

    def limits(self, source: AnySource) -> ReadLimits:
        """Return the limits of a micro-batch; without a limit here, those of the source."""
        given = ReadLimits(rows=self.max_rows, splits=self.max_splits, bytes=self.max_bytes)
        return source.default_limits() if given == ReadLimits() else given


def without(options: Mapping[str, Any], others: type[Configured], *, known: type) -> dict[str, Any]:
    """Return the options without those that only the other side of a table knows.

    A table or view has one set of options for reads and writes.

    Args:
        options: All options.
        others: The class whose options to leave out.
        known: The class whose options to keep, even if the others also have them.
    """
    keys = getattr(known, "OPTIONS", ())
    return {
        key: value for key, value in options.items() if key in keys or key not in others.OPTIONS
    }
