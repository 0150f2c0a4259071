# SPDX-License-Identifier: Apache-2.0
"""How much a service was last seen to take, for the life of a process. Executor.

A writer lives for one epoch, and the process it runs in for many. Without this each epoch would ask
a service that throttles for all that the bounds allow, and learn the same again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

__all__ = ["remember", "seen"]

# More sinks than a process ever serves; the one that was written longest ago goes.
_MOST: Final = 256

_lock = threading.Lock()
_seen: OrderedDict[tuple[str, str], int] = OrderedDict()


def seen(pipeline_id: str, sink_uid: str) -> int | None:
    """Messages that might be on their way when the last writer ended; None before the first."""
    with _lock:
        return _seen.get((pipeline_id, sink_uid))


def remember(pipeline_id: str, sink_uid: str, messages: int) -> None:
    """Note with how many messages the next writer of the sink begins."""
    with _lock:
        _seen[pipeline_id, sink_uid] = messages
        _seen.move_to_end((pipeline_id, sink_uid))
        if len(_seen) > _MOST:
            _seen.popitem(last=False)
