# SPDX-License-Identifier: Apache-2.0
"""Tables whose rows are looked up by key while others stream by (Flink's FLIP-95 and FLIP-221)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class LookupContext:
    """What a join asks of a table.

    Attributes:
        keys: The columns that rows are looked up by, in the order of the batches of keys.
        schema: Of the rows that are to be given: the keys first, then what else is needed.
    """

    keys: tuple[str, ...]
    schema: pa.Schema


class LookupRuntimeProvider:
    """How the rows of a table are looked up; one of the providers of ``connectors_core.lookup``."""


class LookupTableSource(ABC):
    """A table that ``Pipeline.lookup_join`` takes. Immutable; no I/O in the constructor."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns of the table. May look at the external system. Driver."""

    @abstractmethod
    def get_lookup_runtime_provider(self, context: LookupContext) -> LookupRuntimeProvider:
        """How the join looks up rows. Driver.

        Args:
            context: The keys and the columns that are needed: nothing else need be fetched.
        """
