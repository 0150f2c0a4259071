# SPDX-License-Identifier: Apache-2.0
"""Tests that a catalog creates indices, and keeps the definitions of their tables."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from connector_elasticsearch.catalog import ElasticsearchCatalog
from connector_elasticsearch.testing import ElasticsearchServer
from connectors_core.catalog import (
    CatalogOperationUnsupportedError,
    FileCatalogStore,
    ObjectPath,
    TableAlreadyExistError,
)
from connectors_core.errors import ConfigurationError, InvalidOptionError
from connectors_core.table import CatalogTable, CatalogView, PhysicalColumn, TableSchema

pytestmark = pytest.mark.line("3.5")  # these tests do not use Spark


def catalog(server: ElasticsearchServer, folder: Path) -> ElasticsearchCatalog:
    made = ElasticsearchCatalog("es", {"hosts": server.url, "source.slices": "2"})
    made.definitions = FileCatalogStore(folder).tables_of("es")
    made.open()
    return made


def declared(kind: pa.DataType, **options: str) -> CatalogTable:
    columns = (PhysicalColumn("id", pa.int64()), PhysicalColumn("x", kind))
    schema = TableSchema(columns, primary_key=("id",))
    return CatalogTable(schema=schema, options={"connector": "elasticsearch", **options})


def test_a_table_is_an_index_whose_definition_another_session_finds(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    path, first = ObjectPath("default", index), catalog(server, tmp_path)
    first.create_table(path, declared(pa.string(), **{"source.limit": "5"}))
    mapping = server.request("GET", f"/{index}/_mapping")[index]["mappings"]
    assert mapping == {"properties": {"id": {"type": "long"}, "x": {"type": "keyword"}}}
    second = catalog(server, tmp_path)
    found = second.get_table(path)
    assert found == first.get_table(path)
    assert found.schema == declared(pa.string()).schema
    assert found.options == {
        "connector": "elasticsearch",
        "index": index,
        "hosts": server.url,
        "source.slices": "2",
        "source.limit": "5",
    }
    with pytest.raises(TableAlreadyExistError):
        second.create_table(path, declared(pa.string()))
    for each in (first, second):
        each.close()


def test_what_the_server_refuses_is_not_stored(
    server: ElasticsearchServer, index: str, tmp_path: Path
) -> None:
    path, es = ObjectPath("default", index.upper()), catalog(server, tmp_path)
    with pytest.raises(ConfigurationError):
        es.create_table(path, declared(pa.string()))
    assert es.definitions.get(path) is None
    with pytest.raises(ConfigurationError, match="cannot be a field"):
        es.create_table(ObjectPath("default", index), declared(pa.duration("us")))
    with pytest.raises(InvalidOptionError, match="determines an option"):
        es.completed(path, declared(pa.string(), index="other"))
    with pytest.raises(CatalogOperationUnsupportedError, match="create a view"):
        es.create_table(path, CatalogView(query="SELECT 1"))
    es.close()
