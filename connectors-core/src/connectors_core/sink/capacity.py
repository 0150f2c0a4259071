# SPDX-License-Identifier: Apache-2.0
"""The last known capacity of a service, kept for the life of a process. Executor.

A writer lives for one epoch, and its process for many. Without this, each epoch would send as much
as the limits allow to a service that throttles, and discover its capacity again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

__all__ = ["remember", "seen"]

# More sinks than a process ever serves; the least recently written one is removed.
_MOST: Final = 256

_lock = threading.Lock()
_seen: OrderedDict[tuple[str, str], int] = OrderedDict()


def seen(pipeline_id: str, sink_uid: str) -> int | None:
    """Messages allowed in flight when the last writer ended; None before the first."""
    with _lock:
        return _seen.get((pipeline_id, sink_uid))


def remember(pipeline_id: str, sink_uid: str, messages: int) -> None:
    """Record the number of messages with which the next writer of the sink starts."""
    with _lock:
        _seen[pipeline_id, sink_uid] = messages
        _seen.move_to_end((pipeline_id, sink_uid))
        if len(_seen) > _MOST:
            _seen.popitem(last=False)
