# SPDX-License-Identifier: Apache-2.0
"""Splits of a hybrid source: splits of its members, with their member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from connectors_core.serialization import JsonDataclassSerializer, VersionedSerializer
from connectors_core.source.hybrid.chain import SourceChain
from connectors_core.source.hybrid.switches import Switch
from connectors_core.source.split import SourceSplit


@dataclass(frozen=True)
class HybridSplit(SourceSplit):
    """A split of a member.

    Attributes:
        member: Index of the member in the chain.
        switches: The switches before the member, from which a task creates it.
        split: The member's split.
    """

    member: int
    switches: tuple[Switch, ...]
    split: Any
    split_id: str = field(init=False)

    def __post_init__(self) -> None:
        """The id of the split; unique, even if two members have splits with the same id."""
        object.__setattr__(self, "split_id", split_id_of(self.member, self.split.split_id))

    def weight(self) -> int:
        """The weight of the member's split."""
        weight: int = self.split.weight()
        return weight

    def event_time_lower_bound(self) -> int | None:
        """The lower bound of the member's split."""
        bound: int | None = self.split.event_time_lower_bound()
        return bound

    def still_to_skip(self, rows: int, behind: Self) -> int:
        """As in the member's split."""
        left: int = self.split.still_to_skip(rows, behind.split)
        return left


def split_id_of(member: int, split_id: str) -> str:
    """Return the id of a member's split among those of all members."""
    return f"{member}:{split_id}"


def members_splits(splits: Sequence[HybridSplit]) -> list[Any]:
    """Return the splits of the members."""
    return [split.split for split in splits]


@dataclass(frozen=True, kw_only=True)
class _Stored:
    member: int
    switches: tuple[Switch, ...]
    version: int
    data: bytes


class HybridSplitSerializer(VersionedSerializer[HybridSplit]):
    """Stores a member's split with its own serializer.

    Args:
        chain: The members.
    """

    produces_json = True

    def __init__(self, chain: SourceChain) -> None:
        self._chain = chain
        self._stored = JsonDataclassSerializer(_Stored)

    @property
    def version(self) -> int:
        """The version of the envelope, which contains the member's version."""
        return self._stored.version

    def serialize(self, obj: HybridSplit) -> bytes:
        """Store envelope and split."""
        own = self._chain.source(obj.member, obj.switches).split_serializer()
        return self._stored.serialize(
            _Stored(
                member=obj.member,
                switches=obj.switches,
                version=own.version,
                data=own.serialize(obj.split),
            )
        )

    def deserialize(self, version: int, data: bytes) -> HybridSplit:
        """Return the split, from any version of either layout."""
        stored = self._stored.deserialize(version, data)
        own = self._chain.source(stored.member, stored.switches).split_serializer()
        split = own.deserialize(stored.version, stored.data)
        return HybridSplit(stored.member, stored.switches, split)
