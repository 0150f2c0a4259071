# SPDX-License-Identifier: Apache-2.0
"""Options that sources share."""

from __future__ import annotations

from typing import Final

from connectors_core.options import Option, positive

__all__ = ["SOURCE_BATCH_ROWS"]

SOURCE_BATCH_ROWS: Final = Option(
    "source.batch-rows",
    int,
    unit="rows",
    default=65_536,
    validator=positive,
    since="1.0.0",
    doc="Maximum number of rows in a batch.",
)
"""The setting of a source that limits the size of its batches."""
