# SPDX-License-Identifier: Apache-2.0
"""Tests a folder as a catalog, on a local disk and on a file system of fsspec."""

from __future__ import annotations

import uuid

import fsspec
import pytest

from connector_filesystem.catalog import FileCatalog, FileCatalogFactory
from connector_filesystem.table_factory import FileTableFactory
from connectors_core.catalog import (
    CatalogError,
    CatalogFunction,
    CatalogTableStatistics,
    DatabaseAlreadyExistError,
    DatabaseNotEmptyError,
    DatabaseNotExistError,
    ObjectPath,
    PartitionNotExistError,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.errors import ConnectorError, InvalidOptionError, MissingOptionError
from connectors_core.table import CatalogTable, DynamicTableContext
from connectors_core.testing import table_schema

TRIPS = ObjectPath("shop", "trips")


@pytest.fixture(params=["file", "memory"])
def root(request, tmp_path):
    return str(tmp_path) if request.param == "file" else f"memory://{uuid.uuid4().hex}"


def put(root, *paths, data=b"x"):
    for path in paths:
        with fsspec.open(f"{root}/{path}", "wb", auto_mkdir=True) as file:
            file.write(data)


@pytest.fixture
def catalog(root):
    put(
        root,
        "shop/trips/day=2024-01-01/kind=a%2Fb/1.csv.gz",
        "shop/trips/day=2024-01-02/kind=__HIVE_DEFAULT_PARTITION__/2.csv.gz",
        "shop/trips/_staging/3.parquet",
        "shop/sums/1.parquet",
        "shop/notes/readme.txt",
        "shop/.hidden/1.csv",
        "default/t/1.jsonl",
    )
    found = FileCatalogFactory().create_catalog("files", {"path": root, "batch-size": "7"})
    found.open()
    return found


def test_folders_with_files_of_a_known_format_are_tables(catalog, root):
    assert catalog.list_databases() == ["default", "shop"]
    assert catalog.list_tables("shop") == ["sums", "trips"]
    assert not catalog.table_exists(ObjectPath("shop", "notes"))
    table = catalog.get_table(TRIPS)
    assert table.partition_keys == ("day", "kind")
    assert table.options["path"].endswith("/shop/trips")
    rest = {key: value for key, value in table.options.items() if key != "path"}
    assert rest == {"connector": "filesystem", "format": "csv", "batch-size": "7"}
    for missing in (ObjectPath("shop", "notes"), ObjectPath("none", "trips")):
        with pytest.raises(TableNotExistError):
            catalog.get_table(missing)
    with pytest.raises(DatabaseNotExistError):
        catalog.list_tables("none")


def test_a_partition_with_files_is_dropped_only_if_the_catalog_drops_files(catalog, root):
    first = {"day": "2024-01-01", "kind": "a/b"}
    before = catalog.get_table_statistics(TRIPS), catalog.list_partitions(TRIPS)
    with pytest.raises(CatalogError, match="does not delete the files") as refused:
        catalog.drop_partition(TRIPS, first)
    assert refused.value.option == "drop-files"
    assert (catalog.get_table_statistics(TRIPS), catalog.list_partitions(TRIPS)) == before
    new(root, **{"drop-files": "true"}).drop_partition(TRIPS, first)
    assert first not in catalog.list_partitions(TRIPS)


def test_partitions_are_discovered_added_and_removed(catalog, root):
    first = {"day": "2024-01-01", "kind": "a/b"}
    assert catalog.list_partitions(TRIPS) == [first, {"day": "2024-01-02", "kind": ""}]
    added = {"kind": "c=d", "day": "2024-01-03"}
    catalog.create_partition(TRIPS, added)
    assert added in catalog.list_partitions(TRIPS)
    catalog.drop_partition(TRIPS, added)
    assert added not in catalog.list_partitions(TRIPS)
    assert first in catalog.list_partitions(TRIPS)
    for owner in (catalog, new(root, **{"drop-files": "true"})):
        with pytest.raises(PartitionNotExistError, match=r"kind=c%3Dd"):
            owner.drop_partition(TRIPS, added)
    with pytest.raises(InvalidOptionError, match="does not fit"):
        catalog.create_partition(TRIPS, {"day": "2024-01-03"})
    assert catalog.list_partitions(ObjectPath("shop", "sums")) == [{}]


def test_databases_are_folders(catalog):
    catalog.create_database("new")
    catalog.create_database("new", if_not_exists=True)
    with pytest.raises(DatabaseAlreadyExistError):
        catalog.create_database("new")
    with pytest.raises(DatabaseNotEmptyError) as refused:
        catalog.drop_database("shop", cascade=True)
    assert refused.value.option == "drop-files"
    catalog.drop_database("new")
    catalog.drop_database("new", if_exists=True)
    with pytest.raises(DatabaseNotExistError):
        catalog.drop_database("new")


def test_a_database_with_functions_is_dropped_only_by_cascade(catalog):
    catalog.create_database("new")
    catalog.create_function(ObjectPath("new", "F"), CatalogFunction(identifier="a.b"))
    with pytest.raises(DatabaseNotEmptyError, match="functions"):
        catalog.drop_database("new")
    assert catalog.list_functions("new") == ["f"]
    catalog.drop_database("new", cascade=True)
    assert not catalog.function_exists(ObjectPath("new", "f"))
    with pytest.raises(DatabaseNotExistError):
        catalog.list_functions("new")


def new(root, **options):
    found = FileCatalogFactory().create_catalog("files", {"path": root, **options})
    found.open()
    return found


def test_a_definition_makes_a_table_of_a_folder_without_files(catalog, root):
    made = ObjectPath("shop", "made")
    given = CatalogTable(
        schema=table_schema(), partition_keys=("text",), options={"format": "csv"}, comment="c"
    )
    catalog.create_table(made, given)
    assert "made" in catalog.list_tables("shop")
    found = catalog.get_table(made)
    assert (found.schema, found.partition_keys, found.comment) == (given.schema, ("text",), "c")
    assert found.options["path"].endswith("/shop/made")
    source = FileTableFactory().create_scan_source(DynamicTableContext.of("made", found)).source
    assert set(source.schema().names) == set(table_schema().physical.names)
    assert catalog.list_partitions(made) == []
    put(root, "shop/made/text=a/1.csv")
    assert catalog.list_partitions(made) == [{"text": "a"}]
    with pytest.raises(TableAlreadyExistError):
        catalog.create_table(TRIPS, given)
    # Without the definition, the files show the table.
    assert new(root).get_table(made).options["format"] == "csv"
    assert not new(root).get_table(made).schema.columns


def test_files_are_dropped_only_if_the_catalog_allows_it(catalog, root):
    with pytest.raises(CatalogError, match="does not delete the files") as refused:
        catalog.drop_table(TRIPS)
    assert "'drop-files' = 'true'" in refused.value.hint
    allowing = new(root, **{"drop-files": "true"})
    assert "drop-files" not in allowing.get_table(TRIPS).options
    allowing.drop_table(TRIPS)
    assert catalog.list_tables("shop") == ["sums"]
    allowing.create_table(TRIPS, CatalogTable(schema=table_schema()))
    allowing.create_database("whole")
    put(root, "whole/t/1.csv", "whole/u/2.csv")
    allowing.drop_database("whole", cascade=True)
    with pytest.raises(DatabaseNotEmptyError, match="files of no table"):
        allowing.drop_database("shop", cascade=True)
    assert new(root).list_databases() == ["default", "shop"]
    assert new(root).list_tables("shop") == []


def test_a_table_whose_rows_were_all_deleted_can_be_dropped(catalog, root):
    """Its partitions are empty folders, and the sink of its key has left records."""
    catalog.create_database("past")
    path = ObjectPath("past", "t")
    catalog.create_table(path, CatalogTable(schema=table_schema()))
    put(root, "past/t/_contents/month=1/0000000002.json")
    fs, folder = fsspec.url_to_fs(f"{root}/past")
    fs.makedirs(f"{folder}/t/month=1")
    catalog.drop_table(path)
    catalog.drop_database("past")
    assert not fs.exists(folder)


def test_an_object_store_keeps_empty_databases_and_tables(monkeypatch):
    root = f"memory://{uuid.uuid4().hex}"
    put(root, "shop/t/1.csv")
    catalog = new(root)
    fs = catalog._location.fs
    monkeypatch.setattr(fs, "makedirs", lambda *_, **__: None)
    for name in ("further", "shop"):
        catalog.create_database(name, if_not_exists=True)
    catalog.create_table(ObjectPath("further", "made"), CatalogTable(schema=table_schema()))
    assert sorted(fs.find(catalog._location.path)) == [
        f"{catalog._location.path}/{each}"
        for each in ("further/.keep", "further/made/.keep", "shop/t/1.csv")
    ]
    assert new(root).list_databases() == ["default", "further", "shop"]
    catalog.drop_database("further", cascade=True)
    assert new(root).list_databases() == ["default", "shop"]


def test_a_pattern_is_no_name_of_a_table(catalog):
    with pytest.raises(InvalidOptionError, match="pattern"):
        catalog.create_table(ObjectPath("shop", "t*"), CatalogTable(schema=table_schema()))


def test_a_table_that_cannot_have_its_folder_is_not_defined(catalog, root):
    if root.startswith("memory"):
        pytest.skip("any file can have others below it there")
    put(root, "shop/blocked")
    with pytest.raises(ConnectorError, match="creating shop/blocked"):
        catalog.create_table(ObjectPath("shop", "blocked"), CatalogTable(schema=table_schema()))
    assert not catalog.table_exists(ObjectPath("shop", "blocked"))


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "../../etc"])
def test_a_name_never_leaves_the_folder(catalog, name):
    for act in (
        lambda: catalog.table_exists(ObjectPath("shop", name)),
        lambda: catalog.table_exists(ObjectPath(name, "trips")),
        lambda: catalog.create_database(name),
    ):
        with pytest.raises(InvalidOptionError, match="not the name of a folder"):
            act()


def test_the_size_is_that_of_all_files(catalog):
    assert catalog.get_table_statistics(TRIPS) == CatalogTableStatistics(total_size=2)


def test_a_catalog_needs_a_folder(root):
    with pytest.raises(MissingOptionError):
        FileCatalog("files", {})
    assert FileCatalogFactory().is_secret("storage-options.key")
    assert FileCatalog("files", {"path": f"{root}/none"}).list_databases() == ["default"]


def test_definitions_have_no_options_that_columns_determine():
    """The path and its storage are also options of a catalog."""
    of_tables = {each.key for each in FileTableFactory().options()}
    assert {
        "path",
        "format",
        "source.monitor-interval",
        "sink.rolling-policy.row-count",
    } < of_tables
    assert not {"schema", "metadata.columns", "partition.columns"} & of_tables
    assert {each.key for each in FileCatalogFactory().options()} == {
        "path",
        "storage-options.*",
        "drop-files",
    }
