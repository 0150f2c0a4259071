# SPDX-License-Identifier: Apache-2.0
"""The errors of a point in time."""

from __future__ import annotations

from connectors_core.errors import SplitChangedError

__all__ = ["PointInTimeLostError"]


class PointInTimeLostError(SplitChangedError):
    """The server no longer has the source's point in time."""

    code = "ELASTICSEARCH_POINT_IN_TIME_LOST"
