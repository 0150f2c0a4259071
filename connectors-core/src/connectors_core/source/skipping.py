# SPDX-License-Identifier: Apache-2.0
"""Skips splits that cannot be read. Executor only."""

from __future__ import annotations

import logging
from typing import Final

from connectors_core.annotations import experimental
from connectors_core.errors import ConnectorError
from connectors_core.metrics import SourceMetric
from connectors_core.records import BadRecord
from connectors_core.secrets import mask_text
from connectors_core.source.reader import SourceReaderContext

_LOGGER: Final = logging.getLogger(__name__)


@experimental
def skip_unreadable(context: SourceReaderContext, split_id: str, error: ConnectorError) -> None:
    """Report that a reader skips the rest of a split: a metric, a line in the log, a dead letter.

    An option of the source decides whether to skip. Call this on the task's thread, and only for an
    error that every later read would meet too.

    Args:
        context: The runtime.
        split_id: The split.
        error: Why the split cannot be read.
    """
    reason = f"the rest of the split is skipped: {str(error).partition(chr(10))[0]}"
    _LOGGER.warning("split %s: %s", mask_text(split_id), reason)
    context.metric_group.inc(SourceMetric.UNREADABLE_SPLITS)
    record = BadRecord(
        code=error.code, reason=reason, source_uid="", split_id=split_id, position=""
    )
    context.record_errors.drop(record)
