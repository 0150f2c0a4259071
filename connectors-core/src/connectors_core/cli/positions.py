# SPDX-License-Identifier: Apache-2.0
"""Formats stored positions for people."""

from __future__ import annotations

import orjson

from connectors_core.engine.protocol import Versioned
from connectors_core.secrets import mask_text


def stored_text(stored: Versioned, most: int | None = None) -> str:
    """Format the state of a split or a writer, which is usually JSON.

    Args:
        stored: The state.
        most: Maximum number of characters; None for all.
    """
    try:
        text = orjson.dumps(orjson.loads(stored.data)).decode()
    except orjson.JSONDecodeError:
        return f"{len(stored.data)} bytes of version {stored.version}"
    text = mask_text(text)
    return text if most is None or len(text) <= most else text[: most - 3] + "..."


def position_text(stored: Versioned, skip: int) -> str:
    """Format a position: the state of a split, and the rows after it."""
    return stored_text(stored) + (f" and {skip:,} rows after it" if skip else "")
