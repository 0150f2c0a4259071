# SPDX-License-Identifier: Apache-2.0
"""Creates the parts of tables from their definitions (Flink's FLIP-95)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final

from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.lookup.lookup_table_source import LookupTableSource
from connectors_core.lookup.vector_search import VectorSearchTableSource
from connectors_core.options import Option
from connectors_core.records import RecordPolicy
from connectors_core.schema import RowKind
from connectors_core.sink.sink import Sink
from connectors_core.source.source import AnySource
from connectors_core.table.abilities import TableAbility, abilities_of
from connectors_core.table.catalog_table import CONNECTOR, CatalogTable
from connectors_core.table.changelog_mode import ChangelogMode
from connectors_core.table.references import resolved
from connectors_core.table.registry import registered, registered_names
from connectors_core.table.table_schema import TableSchema
from connectors_core.table.watermark_options import WatermarkOptions, check_watermark_options

__all__ = [
    "DynamicTableContext",
    "DynamicTableFactory",
    "DynamicTableSink",
    "ScanTableSource",
    "connectors",
    "factory_named",
    "factory_of",
    "register_factory",
    "validate_table",
]

ENTRY_POINTS: Final = "connectors.tables"
"The group of entry points under which a package registers its factories."

_INSERT_ONLY: Final = ChangelogMode.insert_only()
_METADATA_OPTION: Final = "metadata.columns"
_own: Final[dict[str, type[DynamicTableFactory]]] = {}


@dataclass(frozen=True, kw_only=True)
class DynamicTableContext:
    """What a factory knows of a table.

    Attributes:
        name: The full name of the table.
        table: Its definition.
        options: Its options, without the one that names the connector, and without those of the
            watermark, which do not concern a connector.
    """

    name: str
    table: CatalogTable
    options: Mapping[str, str] = field(repr=False)

    @property
    def connector(self) -> str:
        """The identifier of its connector."""
        return self.table.options.get(CONNECTOR, "")

    @staticmethod
    def declared(name: str, table: CatalogTable) -> DynamicTableContext:
        """Return the context of a table that is not used yet, with references as values."""
        options = {
            key: value
            for key, value in table.options.items()
            if key != CONNECTOR and key not in WatermarkOptions.OPTIONS
        }
        return DynamicTableContext(name=name, table=table, options=options)

    @staticmethod
    def of(name: str, table: CatalogTable) -> DynamicTableContext:
        """Return the context of a table, with the values of references."""
        found = DynamicTableContext.declared(name, table)
        return replace(found, options=resolved(found.options))


@dataclass(frozen=True, kw_only=True)
class ScanTableSource:
    """A table that a query reads as a whole.

    Attributes:
        source: The source of its rows.
        changelog_mode: The kinds of changes that it emits.
        computed: Columns that the rows get from others of the source, as expressions of Spark.
        record_policy: How to handle records that cannot be read. None stops at the first one.
    """

    source: AnySource
    changelog_mode: ChangelogMode = _INSERT_ONLY
    computed: Mapping[str, str] = field(default_factory=dict)
    record_policy: RecordPolicy | None = None

    @property
    def abilities(self) -> frozenset[TableAbility]:
        """Its abilities. A pipeline generates the watermarks of any source for each split."""
        found = {*abilities_of(self.source), TableAbility.WATERMARK_PUSH_DOWN}
        if _METADATA_OPTION in getattr(self.source, "OPTIONS", ()):
            found.add(TableAbility.READING_METADATA)
        return frozenset(found)


@dataclass(frozen=True, kw_only=True)
class DynamicTableSink:
    """A table that a query writes.

    Attributes:
        sink: The sink of the rows.
        changelog_mode: The kinds of changes that it accepts.
        key: The primary key of the table if the sink replaces and deletes rows by it. The source
            of the same table then reads the current rows, or their changes.
        writable_metadata: The keys of metadata that an INSERT can write.
        is_exclusive: Whether only one INSERT at a time can write it.
    """

    sink: Sink
    changelog_mode: ChangelogMode = _INSERT_ONLY
    key: tuple[str, ...] = ()
    writable_metadata: frozenset[str] = frozenset()
    is_exclusive: bool = False

    @property
    def abilities(self) -> frozenset[TableAbility]:
        """Its abilities. A sink that applies changes by key also deletes and updates rows."""
        found = set(abilities_of(self.sink))
        if self.writable_metadata:
            found.add(TableAbility.WRITING_METADATA)
        if self.key and self.changelog_mode.contains(RowKind.DELETE):
            found.add(TableAbility.ROW_LEVEL_DELETE)
        if self.key and self.changelog_mode.contains(RowKind.UPDATE_AFTER):
            found.add(TableAbility.ROW_LEVEL_UPDATE)
        return frozenset(found)


class DynamicTableFactory(ABC):
    """Creates the source, the lookup, and the sink of a connector's tables. Driver, without I/O.

    A package registers its factories as entry points of the group ``connectors.tables``, whose
    names are the identifiers.

    Attributes:
        identifier: The value of the option ``connector``.
    """

    identifier: ClassVar[str]

    @abstractmethod
    def is_secret(self, key: str) -> bool:
        """Return whether an option has a secret."""

    def options(self) -> Sequence[Option[Any]]:
        """Return the options that a definition may have, such as for completion."""
        return ()

    @abstractmethod
    def validate(self, context: DynamicTableContext) -> None:
        """Check the options of a table when it is created.

        Raises:
            ConfigurationError: An option is unknown or invalid, or does not fit the columns.
        """

    def create_scan_source(self, context: DynamicTableContext) -> ScanTableSource:
        """Return the source of a table.

        Raises:
            ConfigurationError: The connector has no source, or the definition does not fit.
        """
        raise self._lacks("source", context)

    def create_lookup_source(self, context: DynamicTableContext) -> LookupTableSource:
        """Return the lookup of a table.

        Raises:
            ConfigurationError: The connector has no lookup, or the definition does not fit.
        """
        raise self._lacks("lookup", context)

    def create_vector_search_source(self, context: DynamicTableContext) -> VectorSearchTableSource:
        """Return the vector search of a table.

        Raises:
            ConfigurationError: The connector has none, or the definition does not fit.
        """
        raise self._lacks("vector search", context)

    def create_sink(self, context: DynamicTableContext) -> DynamicTableSink:
        """Return the sink of a table.

        Raises:
            ConfigurationError: The connector has no sink, or the definition does not fit.
        """
        raise self._lacks("sink", context)

    def _lacks(self, part: str, context: DynamicTableContext) -> ConfigurationError:
        return InvalidOptionError(
            f"the table {context.name} has no {part}: its connector has none",
            expected=f"a connector with a {part}",
            found=self.identifier,
            option=CONNECTOR,
        )


def register_factory(factory: type[DynamicTableFactory]) -> None:
    """Offer a connector to the tables of this process without a package, such as in a notebook.

    Args:
        factory: The class. It replaces another one with the same identifier.
    """
    _own[factory.identifier] = factory


def connectors() -> tuple[str, ...]:
    """Return the identifiers of the connectors that tables can have."""
    return tuple(sorted({*registered_names(ENTRY_POINTS), *_own}))


def factory_of(connector: str) -> DynamicTableFactory:
    """Return the factory of a connector.

    Raises:
        InvalidOptionError: No installed package has this connector.
    """
    return factory_named(
        CatalogTable(schema=TableSchema(), options={CONNECTOR: connector}), connector
    )


def factory_named(table: CatalogTable, name: str) -> DynamicTableFactory:
    """Return the factory of a table.

    Args:
        table: The definition of the table.
        name: Its name, for errors.

    Raises:
        MissingOptionError: The table names no connector.
        InvalidOptionError: No installed package has this connector.
    """
    found: DynamicTableFactory = registered(
        ENTRY_POINTS, table.options, CONNECTOR, owner=f"table {name}", own=_own
    )
    return found


def validate_table(name: str, table: CatalogTable) -> None:
    """Check the options of a table when it is created or altered.

    Args:
        name: The full name of the table.
        table: Its definition.

    Raises:
        ConfigurationError: An option is unknown or invalid, or does not fit the columns.
    """
    factory_named(table, name).validate(DynamicTableContext.declared(name, table))
    check_watermark_options(name, table)
