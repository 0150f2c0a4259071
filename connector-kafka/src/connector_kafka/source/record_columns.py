# SPDX-License-Identifier: Apache-2.0
"""The columns of the sources of topics, and the way in which they read splits."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Self

import pyarrow as pa

from connector_kafka.source.layout import RecordLayout
from connectors_core.source import (
    FieldPath,
    Predicate,
    SplitTraits,
    SupportsFilterPushDown,
    SupportsProjectionPushDown,
)

__all__ = ["RecordColumns"]


class RecordColumns(SupportsFilterPushDown, SupportsProjectionPushDown):
    """A source whose rows are records of topics. Its constructor sets `_layout`."""

    _layout: RecordLayout

    def schema(self) -> pa.Schema:
        """The columns of keys, then of values, then of metadata."""
        return self._layout.schema

    def split_traits(self) -> SplitTraits:
        """Splits end at the plan's offsets, can be replayed, and are read concurrently."""
        return SplitTraits(end=True, ordered=False, replayable=True)

    def apply_projection(self, fields: Sequence[FieldPath]) -> Self:
        """Decode keys, values, headers, and the fields of a format only if they are used."""
        return self._with(self._layout.projected([path[0] for path in fields]))

    def apply_filters(self, filters: Sequence[Predicate]) -> tuple[Self, Sequence[Predicate]]:
        """Decode no records before and after those with the wanted metadata.

        The reader still fetches them where their number keeps positions exact.
        """
        layout = self._layout.filtered(filters)
        return self._with(layout), layout.conditions

    def _with(self, layout: RecordLayout) -> Self:
        made = copy.copy(self)
        made._layout = layout
        return made
