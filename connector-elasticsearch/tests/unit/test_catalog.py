# SPDX-License-Identifier: Apache-2.0
"""Tests the definitions of indices that several processes create, or that others replace."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connector_elasticsearch.catalog import ElasticsearchCatalog
from connector_elasticsearch.errors import ElasticsearchRequestError, ElasticsearchRetryableError
from connectors_core.catalog import ObjectPath, SqliteCatalogStore, TableAlreadyExistError
from connectors_core.errors import InvalidOptionError
from connectors_core.table import CatalogTable, PhysicalColumn, TableSchema

PATH = ObjectPath("default", "orders")


class Server:
    """Indices with their UUIDs."""

    def __init__(self) -> None:
        self.indices: dict[str, str] = {}
        self.aliases: dict[str, str] = {}
        self.before_put: Callable[[], None] | None = None
        self.lost: ElasticsearchRetryableError | None = None

    def create(self, name: str) -> None:
        self.indices[name] = uuid.uuid4().hex

    def request(self, method: str, path: str, body: Any = None, *, doing: str) -> Any:
        name = path.split("/")[1]
        if method == "PUT":
            hook, self.before_put = self.before_put, None
            if hook is not None:
                hook()
            if name in self.indices:
                refused = ElasticsearchRequestError("the server rejected the request")
                refused.error_type = "resource_already_exists_exception"
                raise refused
            self.create(name)
            if self.lost is not None:
                raise self.lost
            return {"acknowledged": True}
        if name == "_resolve":
            found = [{"name": each} for each in self.indices]
            aliases = [{"name": each} for each in self.aliases]
            return {"indices": found, "aliases": aliases, "data_streams": []}
        name = self.aliases.get(name, name)
        return {name: {"settings": {"index": {"uuid": self.indices[name]}}}}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def new(server: Server, tmp_path: Path) -> Callable[[], ElasticsearchCatalog]:
    """Return a function that makes the catalog of one more process."""

    def catalog() -> ElasticsearchCatalog:
        made = ElasticsearchCatalog("es", {"hosts": "http://127.0.0.1:1"})
        made.definitions = SqliteCatalogStore(tmp_path / "catalogs.db").tables_of("es")
        made._client = server  # type: ignore[assignment]
        return made

    return catalog


def declared(*names: str, **options: str) -> CatalogTable:
    columns = tuple(PhysicalColumn(name, pa.int64()) for name in names)
    schema = TableSchema(columns, primary_key=names[:1])
    return CatalogTable(schema=schema, options={"connector": "elasticsearch", **options})


def test_a_process_that_creates_an_index_too_late_leaves_its_definition(new, server):
    first, late = new(), new()
    server.before_put = lambda: first.create_table(PATH, declared("id"))
    with pytest.raises(TableAlreadyExistError):
        late.create_table(PATH, declared("other"))
    assert new().get_table(PATH).schema == declared("id").schema


def test_an_index_whose_creation_was_not_confirmed_has_its_definition(new, server):
    server.lost = ElasticsearchRetryableError("timed out")
    new().create_table(PATH, declared("id"))
    assert new().get_table(PATH).schema == declared("id").schema


def test_an_index_that_was_not_created_has_no_definition(new, server):
    def fail() -> None:
        raise ElasticsearchRetryableError("timed out")

    server.before_put = fail
    with pytest.raises(ElasticsearchRetryableError, match="timed out"):
        new().create_table(PATH, declared("id"))
    assert new().definitions.get(PATH) is None


def test_a_definition_with_a_secret_in_clear_text_creates_no_index(new, server):
    with pytest.raises(InvalidOptionError, match="clear text"):
        new().create_table(PATH, declared("id", password="canary-1"))  # pragma: allowlist secret
    assert not server.indices


def test_a_definition_ends_with_its_index(new, server):
    catalog = new()
    catalog.create_table(PATH, declared("id"))
    assert "identity" not in catalog.get_table(PATH).options
    server.create(PATH.name)  # another program has replaced the index
    assert not catalog.get_table(PATH).schema.columns
    server.indices.clear()
    server.create("orders-1")
    server.aliases[PATH.name] = "orders-1"
    assert not catalog.get_table(PATH).schema.columns
    server.aliases.clear()
    new().create_table(PATH, declared("other"))
    assert catalog.get_table(PATH).schema == declared("other").schema
