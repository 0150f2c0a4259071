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
from connector_elasticsearch.documents.mapping import properties_of
from connector_elasticsearch.errors import ElasticsearchRequestError, ElasticsearchRetryableError
from connector_elasticsearch.index_options import IndexOptions
from connector_elasticsearch.source import ElasticsearchSource
from connectors_core.catalog import (
    CatalogFactory,
    CatalogTableStatistics,
    FunctionCatalog,
    ObjectPath,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.options import Option
from connectors_core.table import CatalogTable, CatalogView, TableSchema

__all__ = ["ElasticsearchCatalog", "ElasticsearchCatalogFactory"]

_HIDDEN: Final = "."
_NO_INDEX: Final = "several indices"
_ALREADY_EXISTS: Final = "resource_already_exists_exception"


class ElasticsearchCatalog(FunctionCatalog):
    """The indices, aliases, and data streams of a cluster, in the database `default`.

    A table that the catalog has created has the columns and the primary key of its definition,
    which the catalog keeps. Any other has the columns of its mapping, which the source reads at
    each use.

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
        self.refuse_other_databases(database)
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
        declared = self.definitions.get(path)
        if declared is not None:  # only then, a further request is worth it
            declared = self.definitions.current(path, self._identity(path))
        return self.completed(path, declared or CatalogTable(schema=TableSchema()))

    def completed(self, path: ObjectPath, table: CatalogTable) -> CatalogTable:
        """See `Catalog`. The index has its own options itself."""
        known = self._known(path)
        table = IndexOptions.removed_from(table)
        return self.with_known(path, table, known, fixed=("connector", "index", "hosts"))

    def create_table(
        self, path: ObjectPath, table: CatalogTable | CatalogView, *, replace: bool = False
    ) -> None:
        """See `Catalog`. It creates an index, whose fields have the types of the columns."""
        self.refuse_other_databases(path.database)
        if isinstance(table, CatalogView) or replace:
            raise self.unsupported("create a view")
        if self.table_exists(path):
            raise _exists(path)
        vectors = IndexOptions.of(table).vector_fields or {}
        mapping = {"properties": properties_of(table.schema.physical, vectors)}
        definition = self.without_known(IndexOptions.removed_from(table), self._known(path))
        self.definitions.check(path, definition)
        # Only the process that has created the index stores a definition.
        try:
            self._request(
                "PUT", path_of(path.name), {"mappings": mapping}, doing="creating an index"
            )
        except ElasticsearchRequestError as error:
            if error.error_type == _ALREADY_EXISTS:
                raise _exists(path) from error
            raise
        except ElasticsearchRetryableError as error:
            # The server may have created the index, or another process has, whose definition stays.
            if not self.table_exists(path):
                raise
            if not self.definitions.define_once(path, definition, self._identity(path)):
                raise _exists(path) from error
        else:
            self.definitions.replace(path, definition)  # even if the next request fails
            self.definitions.define(path, definition, self._identity(path))

    def get_table_statistics(self, path: ObjectPath) -> CatalogTableStatistics:
        """See `Catalog`. The documents and the size of the primary shards."""
        found = self._get(path_of(path.name, "_stats", "docs,store"), "counting documents")
        primaries = found["_all"]["primaries"]
        return CatalogTableStatistics(
            row_count=primaries["docs"]["count"], total_size=primaries["store"]["size_in_bytes"]
        )

    def _identity(self, path: ObjectPath) -> str:
        """Return the UUID of an index, or a word for an alias or a data stream."""
        found = self._get(path_of(path.name, "_settings"), "reading the settings of an index")
        own = found.get(path.name)
        return _NO_INDEX if own is None else str(own["settings"]["index"]["uuid"])

    def _known(self, path: ObjectPath) -> dict[str, str]:
        return {"connector": "elasticsearch", "index": path.name, **self._options}

    def _get(self, path: str, doing: str) -> Any:
        return self._request("GET", path, doing=doing)

    def _request(self, method: str, path: str, body: Any = None, *, doing: str) -> Any:
        if self._client is None:
            self._client = ElasticsearchClient(self._connection)
        return self._client.request(method, path, body, doing=doing)


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


def _exists(path: ObjectPath) -> TableAlreadyExistError:
    return TableAlreadyExistError(f"the index {path.name} exists", hint="use IF NOT EXISTS")
