# SPDX-License-Identifier: Apache-2.0
"""A cluster as a catalog: its indices, aliases, and data streams are tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from connector_elasticsearch.client import (
    ElasticsearchClient,
    ElasticsearchConnection,
    path_of,
)
from connector_elasticsearch.source import ElasticsearchSource
from connectors_core.catalog import (
    Catalog,
    CatalogFactory,
    CatalogTableStatistics,
    DatabaseNotExistError,
    ObjectPath,
    TableNotExistError,
)
from connectors_core.options import Option
from connectors_core.table import CatalogTable, TableSchema

__all__ = ["ElasticsearchCatalog", "ElasticsearchCatalogFactory"]

_HIDDEN: Final = "."


class ElasticsearchCatalog(Catalog):
    """The indices, aliases, and data streams of a cluster, in the database `default`.

    A table has the columns of its mapping, which the source reads at each use. The catalog creates
    and drops nothing.

    Args:
        name: The name of the catalog.
        options: The options of the connection, and others for all tables.
    """

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name)
        self._options = dict(options)
        known = ElasticsearchConnection.OPTIONS
        connection = {key: value for key, value in options.items() if key in known}
        self._connection = ElasticsearchConnection.from_options(connection)
        self._client: ElasticsearchClient | None = None

    def open(self) -> None:
        """See `Catalog`."""
        self.list_tables(self.default_database)

    def close(self) -> None:
        """See `Catalog`."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def list_databases(self) -> list[str]:
        """See `Catalog`. There is one."""
        return [self.default_database]

    def list_tables(self, database: str) -> list[str]:
        """See `Catalog`. Names that begin with a dot are the system's own."""
        if database != self.default_database:
            raise DatabaseNotExistError(
                f"there is no database {database}", expected=self.default_database
            )
        found = self._get("/_resolve/index/*", "listing the indices")
        named = [
            *(each for each in found["indices"] if "data_stream" not in each),
            *found["aliases"],
            *found["data_streams"],
        ]
        names = {str(each["name"]) for each in named}
        return sorted(name for name in names if not name.startswith(_HIDDEN))

    def table_exists(self, path: ObjectPath) -> bool:
        """See `Catalog`. Names of indices are in lower case."""
        known = path.database == self.default_database
        return known and path.name in self.list_tables(path.database)

    def get_table(self, path: ObjectPath) -> CatalogTable:
        """See `Catalog`."""
        if not self.table_exists(path):
            raise TableNotExistError(
                f"there is no index {path.name}", hint="SHOW TABLES lists those of the cluster"
            )
        options = {"connector": "elasticsearch", "index": path.name, **self._options}
        return CatalogTable(schema=TableSchema(), options=options)

    def get_table_statistics(self, path: ObjectPath) -> CatalogTableStatistics:
        """See `Catalog`. The documents and the size of the primary shards."""
        found = self._get(path_of(path.name, "_stats", "docs,store"), "counting documents")
        primaries = found["_all"]["primaries"]
        return CatalogTableStatistics(
            row_count=primaries["docs"]["count"], total_size=primaries["store"]["size_in_bytes"]
        )

    def _get(self, path: str, doing: str) -> Any:
        if self._client is None:
            self._client = ElasticsearchClient(self._connection)
        return self._client.request("GET", path, doing=doing)


class ElasticsearchCatalogFactory(CatalogFactory):
    """Catalogs of the type `elasticsearch`."""

    identifier = "elasticsearch"

    def is_secret(self, key: str) -> bool:
        """See `CatalogFactory`."""
        return ElasticsearchSource.OPTIONS.is_secret(key)

    def options(self) -> tuple[Option[Any], ...]:
        """See `CatalogFactory`."""
        return tuple(ElasticsearchConnection.OPTIONS)

    def create_catalog(self, name: str, options: Mapping[str, str]) -> ElasticsearchCatalog:
        """See `CatalogFactory`."""
        return ElasticsearchCatalog(name, options)
