# SPDX-License-Identifier: Apache-2.0
"""Tables for lookups by key from a stream of rows (Flink's FLIP-95 and FLIP-221)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class LookupContext:
    """The columns that a join needs from a table.

    Attributes:
        keys: The key columns, in the order of the batches of keys.
        schema: Schema of the returned rows: the keys first, then the other needed columns.
    """

    keys: tuple[str, ...]
    schema: pa.Schema


class LookupRuntimeProvider:
    """The lookup of a table's rows: one of the providers of ``connectors_core.lookup``."""


class LookupTableSource(ABC):
    """A table for ``Pipeline.lookup_join``. Immutable; no I/O in the constructor."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return all columns of the table. May query the external system. Driver."""

    @abstractmethod
    def get_lookup_runtime_provider(self, context: LookupContext) -> LookupRuntimeProvider:
        """Return the provider that looks up rows for a join. Driver.

        Args:
            context: The keys and the needed columns. The provider need not fetch others.
        """
