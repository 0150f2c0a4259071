# SPDX-License-Identifier: Apache-2.0
"""Values that do not fit their columns."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["MisfitError"]


class MisfitError(pa.ArrowInvalid):  # type: ignore[misc]
    """A value does not fit its column. The message contains no value, unlike those of Arrow."""
