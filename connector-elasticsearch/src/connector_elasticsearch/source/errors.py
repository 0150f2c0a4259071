# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a point in time."""

from __future__ import annotations

from connectors_core.errors import SplitChangedError

__all__ = ["PointInTimeLostError"]


class PointInTimeLostError(SplitChangedError):
    """The server no longer has the point in time that a source reads."""

    code = "ELASTICSEARCH_POINT_IN_TIME_LOST"
