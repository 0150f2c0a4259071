# SPDX-License-Identifier: Apache-2.0
"""A cluster as a catalog: its topics are tables."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from connector_kafka.catalog.columns import KAFKA, UPSERT_KAFKA
from connector_kafka.catalog.inference import InferredTable, infer_table, registered_table
from connector_kafka.catalog.options import KafkaCatalogOptions, TopicOptions
from connector_kafka.catalog.sample import read_sample
from connector_kafka.client.cluster import create_topic, delete_topic, topic_setting
from connector_kafka.client.config import (
    BOOTSTRAP_SERVERS,
    CONSUMER_PROPERTIES,
    WRITING_PROPERTIES,
    ClientConfig,
)
from connector_kafka.client.metadata import Cluster, Topic, is_topic_name
from connector_kafka.client.options import ClientOptions
from connector_kafka.client.retries import retrying
from connector_kafka.client.wire import Wire
from connector_kafka.errors import KafkaRetryableError
from connector_kafka.sink.receipts import RECEIPTS_TOPIC
from connector_kafka.table_factory import KafkaTableFactory
from connectors_core.catalog import (
    CatalogError,
    FunctionCatalog,
    ObjectPath,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.formats import FORMAT_OPTIONS, FormatName, HttpSchemaRegistry
from connectors_core.schema import FieldChange, schema_changes
from connectors_core.table import CatalogTable, CatalogView

__all__ = ["KafkaCatalog"]

_logger = logging.getLogger(__name__)

_SERVERS: Final = f"properties.{BOOTSTRAP_SERVERS.key}"
# The topics of other systems, such as registries, begin so.
_HIDDEN: Final = "_"
# The options that belong to one table begin with these words.
_OF_ONE_TABLE: Final = ("headers.", "key.", "partition", "schema", "timestamp.", "topic", "value.")
_OPTIONS: Final = KafkaCatalogOptions.OPTIONS.extended(
    *{
        each.key: each
        for part in KafkaTableFactory.parts
        for each in part.OPTIONS
        if each.key not in KafkaCatalogOptions.OPTIONS and not each.key.startswith(_OF_ONE_TABLE)
    }.values()
)


class KafkaCatalog(FunctionCatalog):
    """The topics of a cluster, in the database `default`.

    A table has the columns that `CREATE TABLE` has declared, or those of the registry, or else
    those that a sample of its records shows. The catalog stores the declared and inferred columns,
    so that each later use has the same ones. Case matters.

    Args:
        name: The name of the catalog.
        options: The options of the catalog (`KafkaCatalogOptions`), and others for all tables.

    Raises:
        ConfigurationError: An option is unknown or invalid.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        self._settings = KafkaCatalogOptions.from_parsed(_OPTIONS.parse(options))
        self._for_tables = {
            key: each
            for key, each in options.items()
            if key in ClientOptions.OPTIONS or key not in KafkaCatalogOptions.OPTIONS
        }
        self._for_registry = {
            key: each for key, each in options.items() if key in HttpSchemaRegistry.OPTIONS
        }
        given = {
            key: each
            for key, each in self._settings.properties.items()
            if key not in WRITING_PROPERTIES
        }
        servers = {BOOTSTRAP_SERVERS.key: self._settings.bootstrap_servers}
        self._config = ClientConfig.of({**given, **servers}, CONSUMER_PROPERTIES)
        self._wire: Wire | None = None

    def open(self) -> None:
        """See `Catalog`."""
        self.list_tables(self.default_database)

    def close(self) -> None:
        """See `Catalog`."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    # --- topics ---

    def list_databases(self) -> list[str]:
        """See `Catalog`. There is one."""
        return [self.default_database]

    def list_tables(self, database: str) -> list[str]:
        """See `Catalog`. Topics of Kafka itself, and those that begin with `_`, are left out."""
        self.refuse_other_databases(database)
        names = Cluster(self._connected()).topics()
        return sorted(
            name for name in names if not name.startswith(_HIDDEN) and name != RECEIPTS_TOPIC
        )

    def table_exists(self, path: ObjectPath) -> bool:
        """See `Catalog`."""
        return self._topic(path) is not None

    def get_table(self, path: ObjectPath) -> CatalogTable:
        """See `Catalog`. The first use of a topic without a definition reads a sample of it.

        Raises:
            TableNotExistError: There is no topic of this name.
            SchemaInferenceError: The topic has no definition, and no record has a value.
        """
        topic = self._existing(path)
        stored = self.definitions.current(path, topic.topic_id) or self._registered(topic.name)
        if stored is None:
            stored = self._inferred(topic).table
            if not self.definitions.define_once(path, stored, topic.topic_id):
                stored = self.definitions.current(path, topic.topic_id) or stored
        return self.completed(path, stored)

    def completed(self, path: ObjectPath, table: CatalogTable) -> CatalogTable:
        """See `Catalog`. Options of a format without `key.` or `value.` are those of values."""
        given = _for_table(table)
        known = self._known(path, given.options)
        return self.with_known(path, given, known, fixed=("topic", _SERVERS))

    # --- creation and deletion ---

    def create_table(
        self, path: ObjectPath, table: CatalogTable | CatalogView, *, replace: bool = False
    ) -> None:
        """See `Catalog`. It creates a topic, and stores the columns."""
        self.refuse_other_databases(path.database)
        if isinstance(table, CatalogView) or replace:
            raise self.unsupported("create a view")
        definition = self._definition(path, table)
        topic = _for_topic(table.options)
        settings = {key: str(each) for key, each in topic.settings.items()}
        if definition.options["connector"] == UPSERT_KAFKA:
            settings.setdefault("cleanup.policy", "compact")
        if self.table_exists(path):
            raise _exists(path)
        self.definitions.check(path, definition)
        wire, attempts = self._connected(), 0

        def create() -> str | None:
            nonlocal attempts
            attempts += 1
            return create_topic(
                wire,
                path.name,
                partitions=topic.partitions,
                replication=topic.replication,
                settings=settings,
            )

        # Only the process that has created the topic stores a definition.
        created = retrying(create, self._config)
        if created is None and attempts == 1:
            raise _exists(path)
        if created is not None and definition.schema.columns:
            self.definitions.define(path, definition, created)
        elif created is not None:
            self.definitions.remove(path)  # that of a former topic
        self._await(path, exists=True)
        if created is None and definition.schema.columns:
            # A failed attempt has created the topic, or another process has and defines it.
            identity = self._existing(path).topic_id
            if not self.definitions.define_once(path, definition, identity):
                raise _exists(path)

    def alter_table(self, path: ObjectPath, table: CatalogTable | CatalogView) -> None:
        """See `Catalog`. It stores other options for the topic, whose settings stay."""
        topic = self._existing(path)
        if isinstance(table, CatalogView):
            raise self.unsupported("alter a view")
        self.definitions.define(path, self._definition(path, table), topic.topic_id)

    def drop_table(self, path: ObjectPath) -> None:
        """See `Catalog`. It deletes the topic with its records, if the catalog allows it.

        Raises:
            TableNotExistError: There is no topic of this name.
            CatalogError: The catalog does not allow it.
        """
        self._existing(path)
        if not self._settings.drop_topics:
            raise CatalogError(
                f"the catalog {self.name} does not delete topics",
                option="drop-topics",
                hint="delete the topic with Kafka's own tools, or create the catalog WITH "
                "('drop-topics' = 'true')",
            )
        wire = self._connected()
        retrying(lambda: delete_topic(wire, path.name), self._config)
        self.definitions.remove(path)
        self._await(path, exists=False)

    # --- inference ---

    def infer_table(self, path: ObjectPath) -> InferredTable:
        """Infer the columns of a topic from a sample of its records. Nothing is stored. Driver.

        Raises:
            TableNotExistError: There is no topic of this name.
            SchemaInferenceError: No record has a value.
            ConnectorError: Kafka or the registry does not respond, or rejects a request.
        """
        return self._inferred(self._existing(path))

    def refresh_table(self, path: ObjectPath) -> InferredTable:
        """Infer the columns of a topic, and store them instead of the known ones. Driver.

        Raises:
            ConnectorError: As `infer_table` does.
        """
        topic = self._existing(path)
        inferred = self._inferred(topic)
        self.definitions.define(path, inferred.table, topic.topic_id)
        return inferred

    def compare_table(self, path: ObjectPath) -> tuple[FieldChange, ...]:
        """Compare the columns of a table with those that its records show now. Driver.

        Returns:
            The fields that `refresh_table` would add, remove, or change.

        Raises:
            ConnectorError: As `infer_table` does.
        """
        known, found = self.get_table(path), self.infer_table(path).table
        return schema_changes(known.schema.physical, found.schema.physical)

    def _inferred(self, topic: Topic) -> InferredTable:
        cluster = Cluster(self._connected())
        inferred = infer_table(
            read_sample(cluster, topic, self._config, self._settings.sample),
            topic.name,
            registry=self._settings.registry,
            metadata=self._settings.metadata_columns,
            upsert=self._is_upsert(topic.name),
        )
        level = logging.INFO if inferred.report.is_clear else logging.WARNING
        _logger.log(level, "the topic %r: %s", topic.name, inferred.report)
        return inferred

    def _registered(self, topic: str) -> CatalogTable | None:
        if self._settings.registry is None:
            return None
        return registered_table(
            self._settings.registry,
            topic,
            metadata=self._settings.metadata_columns,
            upsert=self._is_upsert(topic),
        )

    def _is_upsert(self, topic: str) -> bool:
        if not self._settings.upsert:
            return False
        policy = topic_setting(self._connected(), topic, "cleanup.policy")
        return "compact" in (policy or "")

    # --- options ---

    def _known(self, path: ObjectPath, given: Mapping[str, str]) -> dict[str, str]:
        """Return the options that a table has from the catalog.

        Raises:
            InvalidOptionError: An option of the table contradicts them.
        """
        connector = given.get("connector", KAFKA)
        if connector not in {KAFKA, UPSERT_KAFKA}:
            raise InvalidOptionError(
                f"the tables of the catalog {self.name} are topics",
                expected=f"{KAFKA} or {UPSERT_KAFKA}",
                found=connector,
                option="connector",
            )
        known = {"connector": connector, "topic": path.name, **self._for_tables}
        for side in ("key", "value"):
            if given.get(f"{side}.format") == FormatName.AVRO_CONFLUENT.value:
                known |= {f"{side}.{key}": each for key, each in self._for_registry.items()}
                known[f"{side}.avro-confluent.subject"] = f"{path.name}-{side}"
        return known

    def _definition(self, path: ObjectPath, table: CatalogTable) -> CatalogTable:
        """Return a table as it is stored."""
        complete = self.completed(path, table)
        found = self.without_known(complete, self._known(path, complete.options))
        if len(found.options) > 1 and not found.schema.columns:
            raise ConfigurationError(
                f"the table {path} has options without columns",
                expected="columns; without them, they are inferred from the records",
                found=", ".join(found.options),
            )
        return found

    # --- the cluster ---

    def _connected(self) -> Wire:
        if self._wire is None:
            self._wire = Wire(self._config)
        return self._wire

    def _topic(self, path: ObjectPath) -> Topic | None:
        if path.database != self.default_database or not is_topic_name(path.name):
            return None
        return Cluster(self._connected()).topics([path.name]).get(path.name)

    def _existing(self, path: ObjectPath) -> Topic:
        topic = self._topic(path)
        if topic is None:
            raise TableNotExistError(
                f"there is no topic {path.name}", hint="SHOW TABLES lists those of the cluster"
            )
        return topic

    def _await(self, path: ObjectPath, *, exists: bool) -> None:
        """Wait until the brokers know that a topic exists, or that it does not."""

        def check() -> None:
            if (self._topic(path) is not None) != exists:
                raise KafkaRetryableError(
                    f"the brokers do not yet know of the {'new' if exists else 'deleted'} topic "
                    f"{path.name!r}"
                )

        retrying(check, self._config)


def _for_topic(options: Mapping[str, str]) -> TopicOptions:
    """Return the options of a topic that `CREATE TABLE` states."""
    given = {key: each for key, each in options.items() if key in TopicOptions.OPTIONS}
    return TopicOptions.from_options(given)


def _for_table(table: CatalogTable) -> CatalogTable:
    """Return a table without the options of its topic. Each format is of a key or value."""
    options = {
        f"value.{key}" if key in FORMAT_OPTIONS else key: each
        for key, each in table.options.items()
        if key not in TopicOptions.OPTIONS
    }
    return replace(table, options=options)


def _exists(path: ObjectPath) -> TableAlreadyExistError:
    return TableAlreadyExistError(
        f"the topic {path.name} exists",
        hint="use IF NOT EXISTS; to declare its columns, create a table in the default catalog "
        f"WITH ('connector' = 'kafka', 'topic' = '{path.name}', ...)",
    )
