# SPDX-License-Identifier: Apache-2.0
"""The core's suites for this connector: its test data and its capabilities."""

from __future__ import annotations

{% if cookiecutter.source %}
import itertools
{% endif %}
import uuid
{% if cookiecutter.source %}
from collections.abc import Iterator, Mapping, Sequence
{% else %}
from collections.abc import Mapping, Sequence
{% endif %}
{% if cookiecutter.lookup and cookiecutter.source %}
from contextlib import AbstractContextManager, contextmanager
{% elif cookiecutter.lookup %}
from contextlib import AbstractContextManager
{% elif cookiecutter.source %}
from contextlib import contextmanager
{% endif %}
{% if cookiecutter.source %}
from datetime import timedelta
{% endif %}
from pathlib import Path
{% if cookiecutter.__requests or cookiecutter.__topologies %}
from typing import Any
{% endif %}

import pyarrow as pa

{% if cookiecutter.catalog %}
from {{ cookiecutter.__package }}.catalog import {{ cookiecutter.__class }}Catalog
{% endif %}
{% if cookiecutter.sink %}
from {{ cookiecutter.__package }}.sink import {{ cookiecutter.__class }}Sink
{% endif %}
{% if cookiecutter.source %}
from {{ cookiecutter.__package }}.source import {{ cookiecutter.__class }}Source
{% endif %}
{% if cookiecutter.lookup %}
from {{ cookiecutter.__package }}.table import {{ cookiecutter.__class }}Table
{% endif %}
{% if cookiecutter.table %}
from {{ cookiecutter.__package }}.table_factory import {{ cookiecutter.__class }}TableFactory
{% endif %}
from {{ cookiecutter.__package }}.testing import LogSystem, Topic
{% if cookiecutter.__requests %}
from connectors_core.sink import AsyncSink, AsyncSinkWriterConfiguration
{% elif cookiecutter.__applies %}
from connectors_core.sink import ROW_KIND_COLUMN
{% endif %}
{% if cookiecutter.source %}
from connectors_core.source import Boundedness
{% endif %}
{% if cookiecutter.lookup and cookiecutter.table %}
from connectors_core.table import CatalogTable, LookupTableSource, TableSchema
{% elif cookiecutter.lookup %}
from connectors_core.table import LookupTableSource
{% elif cookiecutter.table %}
from connectors_core.table import CatalogTable, TableSchema
{% endif %}
from connectors_core.testing import (
{% if cookiecutter.__applies %}
    CHANGES,
{% endif %}
{% if cookiecutter.lookup %}
    LOOKUP_ROWS,
{% endif %}
{% if cookiecutter.source or cookiecutter.sink %}
    ROWS,
{% endif %}
{% if cookiecutter.catalog %}
    TABLE_ROWS,
{% endif %}
{% if cookiecutter.__requests %}
    AsyncSinkExternalContext,
{% endif %}
    Capabilities,
    Capability,
{% if cookiecutter.catalog %}
    CatalogExternalContext,
    CatalogTestSuite,
{% endif %}
{% if cookiecutter.__applies %}
    ChangelogExternalContext,
    ChangelogTestSuite,
{% endif %}
{% if cookiecutter.lookup %}
    LookupExternalContext,
    LookupTestSuite,
    Outage,
{% endif %}
{% if cookiecutter.__requests %}
    RequestFault,
    SinkFormatTestSuite,
    SinkTestSuite,
{% elif cookiecutter.sink %}
    SinkExternalContext,
{% if not cookiecutter.__topologies %}
    SinkFormatTestSuite,
{% endif %}
    SinkTestSuite,
{% endif %}
{% if cookiecutter.source %}
    SourceExternalContext,
    SourceFormatTestSuite,
    SourceTestSuite,
    SplitDataWriter,
{% endif %}
{% if cookiecutter.table %}
    TableExternalContext,
    TableTestSuite,
    table_schema,
{% endif %}
)
from connectors_core.testing.servers import direct_address

# The version of the suites that these tests are written for. Cases of later versions are new.
SUITES = "1.5"
# Capabilities select the cases. List what the system cannot do in `cannot={...: "the reason"}`.
{% if cookiecutter.source %}
SOURCE = Capabilities(
    can=frozenset(
        {
            Capability.BOUNDED,
            Capability.UNBOUNDED,
            Capability.DISCOVERY,
            Capability.GROWING_SPLITS,
            Capability.CUT_SPLITS,
            Capability.REFUSALS,
            Capability.INPUT_VERSION,
            Capability.POISON_READS,
            Capability.MISFITS,
            Capability.REPLAYABLE,
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
        Capability.REPLACED_SPLITS: "rows of a part never change",
        Capability.SKIPPED_SPLITS: "no option skips what cannot be read",
        # Can a row become visible after rows with greater keys? Then a position is no greatest key.
        Capability.LATE_COMMITS: "a row has its position when it is visible",
        Capability.ACKNOWLEDGED_READS: "a topic keeps its rows",
    },
)
{% endif %}
{% if cookiecutter.sink %}
SINK = Capabilities(
    can=frozenset(
        {
{% if cookiecutter.__commits %}
            Capability.EXACTLY_ONCE,
{% endif %}
{% if cookiecutter.__topologies %}
            Capability.TOPOLOGIES,
{% endif %}
            Capability.DATA_TYPES,
            Capability.SCHEMA_CHANGE,
            Capability.SECRETS,
            Capability.OUTAGES,
        }
    ),
    cannot={
{% if cookiecutter.__requests %}
        Capability.EXACTLY_ONCE: "a written request cannot be rolled back",
        Capability.COMMITTED_EPOCHS: "it has no committer",
        Capability.LEASES: "it has no committer",
        Capability.REWRITING: "it has no committer",
        Capability.KEYS: "rows have no key and can overtake each other",
        Capability.WRITER_STATE: "every request is independent",
        Capability.TOPOLOGIES: "it has no committer",
{% else %}
        Capability.COMMITTED_EPOCHS: "a transaction of the system does not name its epoch",
        Capability.LEASES: "every writer begins its own transaction",
        Capability.REWRITING: "a transaction stays open until its commit or abort",
        Capability.WRITER_STATE: "every transaction is independent",
{% if not cookiecutter.__topologies %}
        Capability.TOPOLOGIES: "every transaction is committed unchanged",
{% endif %}
{% endif %}
    },
)
{% endif %}
{% if cookiecutter.lookup %}
TABLE = Capabilities(
    can=frozenset(
        {
            Capability.LOOKUP_BY_KEY,
{% if cookiecutter.source %}
            Capability.FULL_CACHE,
{% endif %}
            Capability.OUTAGES,
            Capability.DATA_TYPES,
            Capability.SECRETS,
        }
    ),
    cannot={
        Capability.ASYNC_LOOKUP: "the client blocks",
        Capability.MISFITS: "the server finds rows in the types of the topic",
{% if not cookiecutter.source %}
        Capability.FULL_CACHE: "the connector has no source to read it",
{% endif %}
    },
)
{% endif %}


class OnLog:
    """What all suites share."""

    system = LogSystem()
    written_for = SUITES


class OnTopic:
    """A new topic of a server that requires a token."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._name = f"suite-{uuid.uuid4().hex}"
        self._token = uuid.uuid4().hex
        self._topic = Topic(direct_address(address), self._name)

    def options(self) -> dict[str, str]:
        return {"address": self._address, "topic": self._name, "token": self._token}

    def secrets(self) -> Sequence[str]:
        return [self._token]
{% if cookiecutter.source %}


class PartitionWriter(SplitDataWriter):
    """Writes to one partition."""

    def __init__(self, topic: Topic, partition: int) -> None:
        self._topic = topic
        self._partition = partition

    def write(self, rows: pa.Table) -> None:
        self._topic.append(self._partition, rows)

    def cut(self, rows: int) -> None:
        self._topic.cut(self._partition, rows)

    def write_poison(self) -> None:
        columns = {name: pa.nulls(1, pa.string()) for name in ROWS.names}
        self._topic.append(self._partition, pa.table(columns | {"seq": ["not a number"]}))


class SourceTopic(OnTopic, SourceExternalContext):
    """A topic for one case of a source."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._topic.create(ROWS)
        self._partitions = itertools.count()

    def create_split(self) -> PartitionWriter:
        partition = next(self._partitions)
        self._topic.append(partition, ROWS.empty_table())
        return PartitionWriter(self._topic, partition)

    def create_source(self, boundedness: Boundedness) -> {{ cookiecutter.__class }}Source:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        interval = timedelta(milliseconds=50) if endless else None
        return {{ cookiecutter.__class }}Source(
            self._address,
            self._name,
            token=self._token,
            discovery_interval=interval,
            batch_rows=7,  # so that a split is read in many steps
        )

    def changed_sources(self, boundedness: Boundedness) -> Mapping[str, {{ cookiecutter.__class }}Source]:
        return {"batch_rows": self.create_source(boundedness).replaced(batch_rows=3)}

    def format_options(self, boundedness: Boundedness) -> Mapping[str, str]:
        endless = boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        return self.options() | ({"source.discovery-interval": "50 ms"} if endless else {})

    @contextmanager
    def refusal(self) -> Iterator[None]:
        self._topic.deny(True)
        yield
        self._topic.deny(False)

    def create_typed_source(self, rows: pa.Table) -> {{ cookiecutter.__class }}Source:
        return self.create_misfit_source(rows.schema, [rows])

    def create_misfit_source(
        self,
        schema: pa.Schema,
        parts: Sequence[pa.Table],
    ) -> {{ cookiecutter.__class }}Source:
        name = f"{self._name}-typed"
        topic = Topic(direct_address(self._address), name)
        topic.create(schema)
        for part in parts:
            topic.append(0, part)
        return {{ cookiecutter.__class }}Source(self._address, name, token=self._token)


class OfSource(OnLog):
    """What the suites of the source and of its parts share."""

    capabilities = SOURCE

    def external_context(self, folder: Path) -> SourceTopic:
        return SourceTopic(self.address)


class SourceSuite(OfSource, SourceTestSuite):
    pass


class SourceFormatSuite(OfSource, SourceFormatTestSuite):
    format = "{{ cookiecutter.__package }}"
{% endif %}
{% if cookiecutter.sink %}


{% if cookiecutter.__requests %}
class SinkTopic(OnTopic, AsyncSinkExternalContext):
{% else %}
class SinkTopic(OnTopic, SinkExternalContext):
{% endif %}
    """A topic for one case of a sink."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._topic.create(ROWS)

{% if cookiecutter.__requests %}
    def create_async_sink(
        self, configuration: AsyncSinkWriterConfiguration
    ) -> AsyncSink[pa.RecordBatch]:
        settings: dict[str, Any] = {"token": self._token, "configuration": configuration}
        return {{ cookiecutter.__class }}Sink(self._address, self._name, **settings)

    def treat(self, fault: RequestFault | None, requests: int | None = None) -> None:
        self._topic.treat(fault, requests)

    def reject(self, seq: int) -> None:
        self._topic.reject(seq)
{% else %}
    def create_sink(self) -> {{ cookiecutter.__class }}Sink:
        return {{ cookiecutter.__class }}Sink(self._address, self._name, token=self._token)
{% endif %}

    def format_options(self) -> Mapping[str, str]:
        return self.options()

    def read_back(self, schema: pa.Schema = ROWS) -> pa.Table:
        return self._topic.rows(schema)
{% if cookiecutter.__commits %}

    def leftovers(self) -> Sequence[str]:
        return self._topic.open_transactions()
{% endif %}
{% if cookiecutter.__topologies %}

    def assert_post_committed(self, committables: Sequence[Any]) -> None:
        names = sorted(each.transaction for each in committables)
        assert self._topic.announced() == names
{% endif %}


{% if cookiecutter.__applies %}
class ChangedTopic(OnTopic, ChangelogExternalContext):
    """A topic for one case of changes."""

    key: Sequence[str] = ("id",)

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._columns = CHANGES.remove(CHANGES.get_field_index(ROW_KIND_COLUMN))
        self._topic.create(self._columns)

    def create_sink(self) -> {{ cookiecutter.__class }}Sink:
        return {{ cookiecutter.__class }}Sink(self._address, self._name, token=self._token, key=self.key)

    def read_back(self) -> pa.Table:
        return self._topic.rows(self._columns)


class ChangesSuite(OnLog, ChangelogTestSuite):
    capabilities = Capabilities(
        can=frozenset({Capability.CHANGELOG_SINK}),
        cannot={Capability.CHANGELOG_SOURCE: "a topic has rows, not their changes"},
    )

    def external_context(self, folder: Path) -> ChangedTopic:
        return ChangedTopic(self.address)


{% endif %}
class OfSink(OnLog):
    """What the suites of the sink and of its parts share."""

    capabilities = SINK

    def external_context(self, folder: Path) -> SinkTopic:
        return SinkTopic(self.address)


class SinkSuite(OfSink, SinkTestSuite):
    pass
{% if not cookiecutter.__topologies %}


class SinkFormatSuite(OfSink, SinkFormatTestSuite):
    format = "{{ cookiecutter.__package }}"
{% endif %}
{% endif %}
{% if cookiecutter.lookup %}


class TableTopic(OnTopic, LookupExternalContext):
    """A topic for one case of a table."""

    def create_table(self, options: Mapping[str, str]) -> LookupTableSource:
        return self._table(self._name, options)

    def create_typed_table(self, rows: pa.Table, options: Mapping[str, str]) -> LookupTableSource:
        self._fill(f"{self._name}-typed", rows)
        return self._table(f"{self._name}-typed", options)

    def write(self, rows: pa.Table) -> None:
        self._fill(self._name, rows.cast(LOOKUP_ROWS))

    def away(self) -> AbstractContextManager[None]:
        return LogSystem().outage(self._address, Outage.STOPPED)

    def _table(self, name: str, options: Mapping[str, str]) -> LookupTableSource:
        given = {**self.options(), "topic": name}
        return {{ cookiecutter.__class }}Table.from_options({**given, **options})

    def _fill(self, name: str, rows: pa.Table) -> None:
        topic = Topic(direct_address(self._address), name)
        topic.create(rows.schema)
        topic.append(0, rows)


class TableSuite(OnLog, LookupTestSuite):
    capabilities = TABLE

    def external_context(self, folder: Path) -> TableTopic:
        return TableTopic(self.address)
{% endif %}
{% if cookiecutter.table %}


class SqlTopic(OnTopic, TableExternalContext):
    """A topic for one case of a table in SQL."""

    def definition(self) -> CatalogTable:
        return self.definition_of(table_schema())

    def definition_of(self, schema: TableSchema) -> CatalogTable:
        self._topic.create(schema.physical)
        options = {"connector": {{ cookiecutter.__class }}TableFactory.identifier, **self.options()}
        return CatalogTable(schema=schema, options=options)

    def secret_options(self) -> Mapping[str, str]:
        return {"token": self._token}


class SqlSuite(OnLog, TableTestSuite):
    factory = {{ cookiecutter.__class }}TableFactory
    capabilities = Capabilities(
        can=frozenset(
            {
{% if cookiecutter.source %}
                Capability.SCAN,
{% endif %}
{% if cookiecutter.sink %}
                Capability.INSERT,
{% endif %}
{% if cookiecutter.lookup %}
                Capability.LOOKUP,
{% endif %}
                Capability.SECRETS,
            }
        ),
        cannot={
{% if not cookiecutter.source %}
            Capability.SCAN: "the connector has no source",
{% endif %}
{% if not cookiecutter.sink %}
            Capability.INSERT: "the connector has no sink",
{% endif %}
{% if not cookiecutter.lookup %}
            Capability.LOOKUP: "the connector has no lookup",
{% endif %}
            Capability.METADATA_COLUMNS: "a row has only its columns",
        },
    )

    def external_context(self, folder: Path) -> SqlTopic:
        return SqlTopic(self.address)
{% endif %}
{% if cookiecutter.catalog %}


class Topics(CatalogExternalContext):
    """The topics of the server, and those that a case adds."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._token = uuid.uuid4().hex
        self._added: list[Topic] = []

    def create_catalog(self, name: str) -> {{ cookiecutter.__class }}Catalog:
        options = {"address": self._address, "token": self._token}
        return {{ cookiecutter.__class }}Catalog(name, options)

    def add_table(self, name: str) -> None:
        topic = Topic(direct_address(self._address), name)
        topic.create(TABLE_ROWS)
        topic.append(0, pa.Table.from_pylist([{"id": 1}, {"id": 2}], TABLE_ROWS))
        self._added.append(topic)

    def stored(self, name: str) -> pa.Table:
        return Topic(direct_address(self._address), name).rows(TABLE_ROWS)

    def secrets(self) -> Sequence[str]:
        return [self._token]

    def close(self) -> None:
        for topic in self._added:
            topic.drop()


class CatalogSuite(OnLog, CatalogTestSuite):
    capabilities = Capabilities(
        can=frozenset({Capability.STATISTICS, Capability.PERSISTENT, Capability.SECRETS}),
        cannot={
            Capability.CREATE_DATABASES: "a server has no databases",
            Capability.CREATE_TABLES: "the catalog creates no topics",
            Capability.ALTER_TABLES: "a topic keeps its columns",
            Capability.RENAME_TABLES: "a topic keeps its name",
            Capability.DROP_TABLES: "the catalog drops no topics",
            Capability.VIEWS: "a server keeps no queries",
            Capability.PARTITIONS: "partitions of a topic hold no values of a column",
        },
    )

    def external_context(self, folder: Path) -> Topics:
        return Topics(self.address)
{% endif %}
