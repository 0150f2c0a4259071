# SPDX-License-Identifier: Apache-2.0
"""How columns are shared out between keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from connectors_core.options import Configured, Setting, list_of, option

__all__ = ["FieldsOptions", "ValueFields"]


class ValueFields(StrEnum):
    """Which columns a record's value holds (Flink's `value.fields-include`)."""

    ALL = "all"
    """All but those that are another part of the record, such as its topic."""
    EXCEPT_KEY = "except-key"
    """All of these but the columns of the key."""


class FieldsOptions(Configured):
    """Which columns keys and values hold."""

    key_fields: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "key.fields",
        list_of(str, separator=",;"),
        default=(),
        doc="Columns that keys hold, with their prefix. A sink without a format of values takes "
        "the column `key`, if any, where none is given.",
        since="2.0.0",
    )
    key_fields_prefix: Setting[str] = option(
        "key.fields-prefix",
        str,
        default="",
        doc="How the names of the columns of keys begin; the format sees them without it.",
        since="2.0.0",
    )
    value_fields: Setting[ValueFields, ValueFields | Literal["all", "except-key"]] = option(
        "value.fields-include",
        ValueFields,
        default=ValueFields.ALL,
        doc="Whether values hold the columns of keys, too.",
        since="2.0.0",
    )
