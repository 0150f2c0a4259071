# SPDX-License-Identifier: Apache-2.0
"""What a connector can do, as far as the suites ask: capabilities select cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Capability(StrEnum):
    """One thing that a source or a sink can do, or its tests can make happen."""

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
    """A split that is read again gives the same rows; else the source is judged at-least-once."""
    # --- Sinks ---
    EXACTLY_ONCE = "exactly-once"
    """Rows become visible once, by a commit; else the sink is judged at-least-once."""
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
    """The table can be asked for the rows of some keys."""
    ASYNC_LOOKUP = "asynchronous lookup"
    """It can be asked so by a client that does not block."""
    FULL_CACHE = "full cache"
    """The table can be read as a whole."""
    # --- All ---
    OUTAGES = "outages"
    """The tests can make the external system unavailable and give it back: `TestSystem.outage`, of
    a lookup table `LookupExternalContext.away`."""
    DATA_TYPES = "data types"
    """Columns of other types than those of the suites' rows can be carried."""
    SCHEMA_CHANGE = "schema change"
    """A further column may appear in what is read, or in what is written from a restart on."""
    SECRETS = "secrets"  # pragma: allowlist secret
    """A source or sink can be given a secret, such as a password."""
    # --- Answered by the environment, not by the connector ---
    WORKERS_CAN_DIE = "workers can die"
    """Tasks run in processes of their own, which can be killed."""
    ONE_PROCESS = "one process"
    """All of a pipeline runs in the process of the tests, which so sees what it leaves behind."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a connector can do, and why it cannot do the rest.

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
        """What both say."""
        return Capabilities(
            can=self.can | other.can,
            cannot={**self.cannot, **other.cannot},
            cannot_carry={**self.cannot_carry, **other.cannot_carry},
        )

    def undeclared(self, asked: frozenset[Capability]) -> list[Capability]:
        """Those of ``asked`` that are neither possible nor impossible."""
        return sorted(asked - self.can - self.cannot.keys())

    def reason_against(self, needed: frozenset[Capability]) -> str | None:
        """Why a case that needs these does not apply; None if it does."""
        missing = sorted(each for each in needed if each in self.cannot)
        return "; ".join(f"{each}: {self.cannot[each]}" for each in missing) or None
