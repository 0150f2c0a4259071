# SPDX-License-Identifier: Apache-2.0
"""The kinds of changes that a table emits or accepts (Flink's FLIP-95)."""

from __future__ import annotations

from dataclasses import dataclass

from connectors_core.schema import RowKind

__all__ = ["ChangelogMode"]


@dataclass(frozen=True)
class ChangelogMode:
    """The kinds of changes of a table's rows.

    Attributes:
        kinds: The kinds, at least one.
    """

    kinds: frozenset[RowKind]

    @staticmethod
    def insert_only() -> ChangelogMode:
        """Rows are only added."""
        return ChangelogMode(frozenset([RowKind.INSERT]))

    @staticmethod
    def upsert() -> ChangelogMode:
        """Rows replace older ones with the same key, or delete them."""
        return ChangelogMode(frozenset(RowKind) - {RowKind.UPDATE_BEFORE})

    @staticmethod
    def all() -> ChangelogMode:
        """Updates have both versions of a row."""
        return ChangelogMode(frozenset(RowKind))

    def contains(self, kind: RowKind) -> bool:
        """Return whether this kind occurs."""
        return kind in self.kinds

    def contains_only(self, kind: RowKind) -> bool:
        """Return whether no other kind occurs."""
        return self.kinds == {kind}

    def __str__(self) -> str:
        return ", ".join(kind.value for kind in RowKind if kind in self.kinds)
