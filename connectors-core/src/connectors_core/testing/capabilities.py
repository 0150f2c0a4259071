# SPDX-License-Identifier: Apache-2.0
"""The capabilities of a connector, which select the cases of the suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Capability(StrEnum):
    """An ability of a source or sink, or of its tests."""

    # --- Sources ---
    BOUNDED = "bounded"
    """The source can be read to an end."""
    UNBOUNDED = "unbounded"
    """The source can be read without an end."""
    DISCOVERY = "discovery"
    """An unbounded source finds splits that appear while it runs."""
    GROWING_SPLITS = "growing splits"
    """Rows can be added to a split that is being read."""
    POISON_READS = "poison reads"
    """A record that cannot be read can be put into the external system."""
    REPLAYABLE = "replayable"
    """A split returns the same rows when it is read again; otherwise it is at-least-once."""
    # --- Sinks ---
    EXACTLY_ONCE = "exactly-once"
    """A commit makes rows visible exactly once; otherwise the guarantee is at-least-once."""
    LEASES = "leases"
    """The committer leases to the writers of an epoch; nothing is staged while an earlier epoch
    waits for its commit."""
    REWRITING = "rewriting"
    """What was prepared can be lost after the decision, and is written again; the tests can make
    the external system lose it."""
    KEYS = "keys"
    """Entries of an `AsyncSink` have keys, and those of one key are sent one after the other."""
    WRITER_STATE = "writer state"
    """Its writers keep state from epoch to epoch: it is a `StatefulSink`."""
    TOPOLOGIES = "topologies"
    """It has a step before its writers, before its decisions or after its commits:
    `SupportsPreWriteTopology`, `SupportsPreCommitTopology`, `SupportsPostCommitTopology`."""
    # --- Lookup tables ---
    LOOKUP_BY_KEY = "lookup by key"
    """The table supports lookups by key."""
    ASYNC_LOOKUP = "asynchronous lookup"
    """It supports lookups with an asynchronous client."""
    FULL_CACHE = "full cache"
    """The table can be read as a whole."""
    # --- All ---
    OUTAGES = "outages"
    """The tests can make the external system unavailable and available again: `TestSystem.outage`,
    of a lookup table `LookupExternalContext.away`.
    """
    DATA_TYPES = "data types"
    """Columns of other types than those of the suites' rows can be carried."""
    SCHEMA_CHANGE = "schema change"
    """An additional column may appear in the data, or after a restart."""
    SECRETS = "secrets"  # pragma: allowlist secret
    """A source or sink can be given a secret, such as a password."""
    # --- Answered by the environment, not by the connector ---
    WORKERS_CAN_DIE = "workers can die"
    """Tasks run in separate processes, which can be killed."""
    ONE_PROCESS = "one process"
    """The whole pipeline runs in the process of the tests, which can detect leaks."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The capabilities of a connector, with the reason for each missing one.

    Attributes:
        can: What it can do.
        cannot: What it cannot do, each with the reason that the report shows.
        cannot_carry: Types of :data:`~connectors_core.testing.data_types.DATA_TYPES` that it has
            no place for, each with the reason; or some of their values, by type and name of
            :data:`~connectors_core.testing.data_types.HARD_VALUES` as in ``"double: NaN"``.
    """

    can: frozenset[Capability] = frozenset()
    cannot: Mapping[Capability, str] = field(default_factory=dict)
    cannot_carry: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        both = self.can & self.cannot.keys()
        if both:
            raise ValueError(f"both possible and impossible: {', '.join(sorted(both))}")
        refused = (*self.cannot.items(), *self.cannot_carry.items())
        nameless = sorted(each for each, reason in refused if not reason.strip())
        if nameless:
            raise ValueError(f"impossible without a reason: {', '.join(nameless)}")

    def __or__(self, other: Capabilities) -> Capabilities:
        """Return the union of both."""
        return Capabilities(
            can=self.can | other.can,
            cannot={**self.cannot, **other.cannot},
            cannot_carry={**self.cannot_carry, **other.cannot_carry},
        )

    def undeclared(self, asked: frozenset[Capability]) -> list[Capability]:
        """Return the requested capabilities that are not declared either way."""
        return sorted(asked - self.can - self.cannot.keys())

    def reason_against(self, needed: frozenset[Capability]) -> str | None:
        """Why a case that needs these does not apply; None if it does."""
        missing = sorted(each for each in needed if each in self.cannot)
        return "; ".join(f"{each}: {self.cannot[each]}" for each in missing) or None
