# SPDX-License-Identifier: Apache-2.0
"""An option of a source or sink on which stored state or written output depends."""

from __future__ import annotations

from dataclasses import dataclass

from connectors_core.annotations import experimental

__all__ = ["RecordedOption"]


@experimental
@dataclass(frozen=True, kw_only=True)
class RecordedOption:
    """An option that a pipeline records at its first start, and compares at every later one.

    Attributes:
        name: The name for the user. To compare a value only for the same place, put the place into
            the name: "format in s3://bucket/out".
        value: The value as text, without secrets.
        hint: An imperative with the remedy, such as "keep it, or write to another path".
        until_committed: Whether the option may change once everything decided is committed.
    """

    name: str
    value: str
    hint: str
    until_committed: bool = False
