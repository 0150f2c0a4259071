# SPDX-License-Identifier: Apache-2.0
"""How columns are divided between keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from connectors_core.options import Configured, Setting, list_of, option

__all__ = ["FieldsOptions", "ValueFields"]


class ValueFields(StrEnum):
    """The columns that a record's value contains (Flink's `value.fields-include`)."""

    ALL = "all"
    """All except those that are another part of the record, such as its topic."""
    EXCEPT_KEY = "except-key"
    """All except other parts of the record and the columns of the key."""


class FieldsOptions(Configured, since="2.0.0"):
    """The columns of keys and values."""

    key_fields: Setting[tuple[str, ...], str | Sequence[str]] = option(
        "key.fields",
        list_of(str, separator=",;"),
        default=(),
        doc="Columns of the key, with their prefix. A sink without a value format uses the column "
        "`key`, if any, as the default.",
    )
    key_fields_prefix: Setting[str] = option(
        "key.fields-prefix",
        str,
        default="",
        doc="Prefix of the key columns' names. The format sees the names without it.",
    )
    value_fields: Setting[ValueFields, ValueFields | Literal["all", "except-key"]] = option(
        "value.fields-include",
        ValueFields,
        default=ValueFields.ALL,
        doc="Whether values also contain the columns of keys.",
    )
