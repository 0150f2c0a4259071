# SPDX-License-Identifier: Apache-2.0
"""How columns are shared out between keys and values."""

from __future__ import annotations

from enum import StrEnum

from connectors_core.annotations import public

__all__ = ["ValueFields"]


@public
class ValueFields(StrEnum):
    """Which columns a record's value holds (Flink's `value.fields-include`)."""

    ALL = "all"
    """All but those that are another part of the record, such as its topic."""
    EXCEPT_KEY = "except-key"
    """All of these but the columns of the key."""
