# SPDX-License-Identifier: Apache-2.0
"""The capabilities of a connector, which select the cases of the suites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Capability(StrEnum):
    """A capability of a source or sink, or of its tests."""

    # --- Sources ---
    BOUNDED = "bounded"
    """The source can be read to its end."""
    UNBOUNDED = "unbounded"
    """The source can be read without an end."""
    DISCOVERY = "discovery"
    """An unbounded source discovers splits that appear while it runs."""
    GROWING_SPLITS = "growing splits"
    """Rows can be added to a split while it is read."""
    CUT_SPLITS = "cut splits"
    """The tests can make a split lose its last rows, also those that were read.

    A log does this after the election of a leader that lacks them.
    """
    SKIPPED_SPLITS = "skipped splits"
    """An option of the source skips splits that it cannot read, and the tests can spoil a split."""
    REPLACED_SPLITS = "replaced splits"
    """The tests can replace the rows of a split, as a job does that writes a file each day."""
    LATE_COMMITS = "late commits"
    """Rows can become visible after rows that come later in the split's own order.

    The rows of a transaction do that if it takes its keys early and commits late.
    """
    ACKNOWLEDGED_READS = "acknowledged reads"
    """The system keeps rows until the source acknowledges them, as a replication slot does.

    The tests can count these rows.
    """
    REFUSALS = "refusals"
    """The tests can make the system refuse all reads permanently, as after a revoked right."""
    INPUT_VERSION = "input version"
    """`Source.input_version` tells whether the input of a batch run is new."""
    POISON_READS = "poison reads"
    """The tests can put an unreadable record into the external system."""
    REPLAYABLE = "replayable"
    """A second read of a split returns the same rows.

    Without it, the guarantee is at-least-once.
    """
    # --- Sinks ---
    EXACTLY_ONCE = "exactly-once"
    """A commit makes rows visible exactly once. Without it, the guarantee is at-least-once."""
    LEASES = "leases"
    """The committer leases resources to the writers of an epoch.

    Nothing is staged while an earlier epoch waits for its commit.
    """
    REWRITING = "rewriting"
    """Prepared data can be lost after the decision and is then rewritten.

    The tests can make the external system lose it.
    """
    COMMITTED_EPOCHS = "committed epochs"
    """The target tells the newest epoch that was committed to it (`SupportsCommittedEpoch`)."""
    KEYS = "keys"
    """The entries of an `AsyncSink` have keys. Entries with the same key are sent in order."""
    WRITER_STATE = "writer state"
    """The sink is a `StatefulSink`, whose writers keep state between epochs."""
    TOPOLOGIES = "topologies"
    """The sink has a step around its writers or its commits.

    It is a `SupportsPreWriteTopology`, `SupportsPreCommitTopology`,
    `SupportsPreCommitTopologyOverEpochs`, or `SupportsPostCommitTopology`.
    """
    # --- Lookup tables ---
    LOOKUP_BY_KEY = "lookup by key"
    """The table supports lookups by key."""
    ASYNC_LOOKUP = "asynchronous lookup"
    """The table supports lookups with an asynchronous client."""
    FULL_CACHE = "full cache"
    """The table can be cached as a whole."""
    VECTOR_SEARCH = "vector search"
    """The table finds the most similar rows to a vector."""
    ASYNC_VECTOR_SEARCH = "asynchronous vector search"
    """The table supports vector searches with an asynchronous client."""
    # --- Tables ---
    SCAN = "scan"
    """Queries can read the connector's tables."""
    INSERT = "insert"
    """INSERTs can write the connector's tables."""
    LOOKUP = "lookup"
    """The connector's tables can be looked up in a join."""
    METADATA_COLUMNS = "metadata columns"
    """The connector's tables have metadata that a column can read."""
    # --- Changelogs ---
    CHANGELOG_SOURCE = "changelog source"
    """The source emits changes of rows."""
    CHANGELOG_SINK = "changelog sink"
    """The sink applies changes of rows by key."""
    # --- Catalogs ---
    CREATE_DATABASES = "create databases"
    """The catalog creates and drops databases."""
    CREATE_TABLES = "create tables"
    """The catalog creates tables."""
    ALTER_TABLES = "alter tables"
    """The catalog replaces definitions of tables."""
    RENAME_TABLES = "rename tables"
    """The catalog renames tables."""
    DROP_TABLES = "drop tables"
    """The catalog drops tables."""
    VIEWS = "views"
    """The catalog keeps views."""
    PARTITIONS = "partitions"
    """The catalog lists, creates, and drops partitions."""
    STATISTICS = "statistics"
    """The catalog states the size of a table."""
    PERSISTENT = "persistent"
    """Another instance of the catalog finds the same databases and tables."""
    # --- All ---
    OUTAGES = "outages"
    """The tests can make the external system unavailable for a while.

    They use `TestSystem.outage`, for a committer also `TestSystem.lost_response`, and for a lookup
    table also `LookupExternalContext.away`.
    """
    DATA_TYPES = "data types"
    """The connector supports columns of other types than those of the suites' rows."""
    MISFITS = "misfits"
    """The external system accepts values of other types than the source or table declares."""
    SCHEMA_CHANGE = "schema change"
    """A new column can appear in the data, or after a restart."""
    SECRETS = "secrets"  # pragma: allowlist secret
    """The source or sink accepts a secret, such as a password."""
    # --- Capabilities of the environment, not of the connector ---
    WORKERS_CAN_DIE = "workers can die"
    """Tasks run in separate processes, which the tests can kill."""
    ONE_PROCESS = "one process"
    """The whole pipeline runs in the process of the tests, which can detect leaks."""
    STATEMENTS = "statements"
    """Statements run, which needs a Spark session."""


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The capabilities of a connector, with the reason for each missing one.

    Attributes:
        can: The capabilities that the connector has.
        cannot: The missing capabilities, each with the reason that the report shows.
        cannot_carry: Types of :data:`~connectors_core.testing.data_types.DATA_TYPES` that the
            connector does not support, each with the reason. A type and a name of
            :data:`~connectors_core.testing.data_types.HARD_VALUES` or
            :data:`~connectors_core.testing.data_types.MISFITS`, as in ``"double: NaN"``,
            excludes only these values. ``"column name: spaces"`` excludes this kind of
            :data:`~connectors_core.testing.data_types.COLUMN_NAMES`.
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
        """Return why a case with these needs does not apply, or None if it does."""
        missing = sorted(each for each in needed if each in self.cannot)
        return "; ".join(f"{each}: {self.cannot[each]}" for each in missing) or None
