# SPDX-License-Identifier: Apache-2.0
"""Tests catalogs in memory, their names, their listeners, and the stores of their definitions."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from connectors_core.catalog import (
    Catalog,
    CatalogAlreadyExistError,
    CatalogDescriptor,
    CatalogError,
    CatalogFunction,
    CatalogModificationListener,
    CatalogNotExistError,
    CatalogOperationUnsupportedError,
    CatalogStore,
    DatabaseAlreadyExistError,
    DatabaseNotEmptyError,
    DatabaseNotExistError,
    FileCatalogStore,
    FunctionAlreadyExistError,
    FunctionNotExistError,
    GenericInMemoryCatalog,
    ObjectPath,
    SqliteCatalogStore,
    TableAlreadyExistError,
    TableNotExistError,
)
from connectors_core.catalog.catalog_manager import CatalogManager
from connectors_core.errors import InvalidOptionError, StateVersionError, UnsupportedError
from connectors_core.table import CatalogTable, CatalogView, PhysicalColumn, TableSchema

TABLE = CatalogTable(schema=TableSchema(), options={"connector": "x", "password": "canary-1"})
INITIALS = CatalogFunction(identifier="shop.names.initials")
VIEW = CatalogView(query="SELECT 1")


class Told(CatalogModificationListener):
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(f"{event.phase} {event.modification} {event.database}.{event.name}")


class Failing(CatalogModificationListener):
    def on_event(self, event):
        raise RuntimeError("the backend is away")


def test_names_are_found_in_any_case_and_relative_to_the_current_database():
    manager = CatalogManager()
    manager.create_database(("Shop",))
    manager.put(("shop", "Orders"), TABLE)
    assert manager.find(("orders",)) is None
    manager.use(("SHOP",))
    for name in (("ORDERS",), ("Shop", "orders"), ("default_catalog", "shop", "orders")):
        assert manager.get(name) is TABLE
        assert str(manager.full_name(name)) == "shop.orders"
    assert manager.find(("other", "shop", "orders")) is None
    assert manager.names() == ["orders"]


def test_each_wrong_change_has_its_error():
    manager = CatalogManager()
    manager.put(("t",), TABLE)
    assert not manager.put(("t",), VIEW, if_not_exists=True)
    for error, act in (
        (TableAlreadyExistError, lambda: manager.put(("T",), TABLE)),
        (TableNotExistError, lambda: manager.get(("u",))),
        (TableNotExistError, lambda: manager.drop(("t",), view=True)),
        (DatabaseAlreadyExistError, lambda: manager.create_database(("default",))),
        (DatabaseNotExistError, lambda: manager.put(("a", "t"), TABLE)),
        (DatabaseNotExistError, lambda: manager.use(("a",))),
        (CatalogNotExistError, lambda: manager.get(("a", "b", "c"))),
        (CatalogError, lambda: manager.drop_database(("default",))),
        (CatalogError, lambda: manager.drop_catalog("default_catalog")),
        (CatalogError, lambda: manager.get(("a", "b", "c", "d"))),
    ):
        with pytest.raises(error):
            act()
    manager.create_database(("d",))
    manager.put(("d", "t"), VIEW)
    with pytest.raises(DatabaseNotEmptyError):
        manager.drop_database(("d",))
    with pytest.raises(CatalogError, match="cannot move"):
        manager.rename(("d", "t"), ("default", "u"))
    manager.rename(("d", "t"), ("u",))
    manager.use(("d",))
    manager.drop_database(("d",), cascade=True)
    assert (manager.current_database, manager.databases()) == ("default", ["default"])


def test_listeners_learn_of_changes_before_and_after_and_cannot_stop_them(caplog):
    told = Told()
    manager = CatalogManager(listeners=[Failing(), told])
    manager.put(("t",), TABLE)
    manager.rename(("t",), ("u",))
    with pytest.raises(TableNotExistError):
        manager.alter(("t",), TABLE)
    manager.drop(("u",), view=False)
    manager.drop(("u",), view=False, if_exists=True)
    assert told.events == [
        "before create table default.t",
        "after create table default.t",
        "before alter table default.t",
        "after alter table default.t",
        "before alter table default.t",
        "failed alter table default.t",
        "before drop table default.u",
        "after drop table default.u",
    ]
    assert "the backend is away" in caplog.text
    assert "canary-1" not in caplog.text + repr(TABLE)


def test_what_a_system_lacks_raises_one_typed_error():
    class Empty(Catalog):
        def list_databases(self):
            return ["default"]

        def list_tables(self, database):
            return []

        def get_table(self, path):
            raise TableNotExistError(f"there is no table {path}")

        def table_exists(self, path):
            return False

    catalog, path = Empty("empty"), ObjectPath("default", "t")
    for act in (
        lambda: catalog.create_database("d"),
        lambda: catalog.drop_database("d"),
        lambda: catalog.create_table(path, TABLE),
        lambda: catalog.create_table(path, VIEW),
        lambda: catalog.alter_table(path, TABLE),
        lambda: catalog.rename_table(path, "u"),
        lambda: catalog.drop_table(path),
        lambda: catalog.list_partitions(path),
        lambda: catalog.create_partition(path, {}),
        lambda: catalog.drop_partition(path, {}),
        lambda: catalog.list_functions("default"),
        lambda: catalog.function_exists(path),
        lambda: catalog.get_function(path),
        lambda: catalog.create_function(path, INITIALS),
        lambda: catalog.alter_function(path, INITIALS),
        lambda: catalog.drop_function(path),
        lambda: catalog.get_table_statistics(path),
    ):
        with pytest.raises(CatalogOperationUnsupportedError, match="the catalog empty cannot") as e:
            act()
        assert isinstance(e.value, UnsupportedError)
        assert isinstance(e.value, CatalogError)


# --- Functions ---


def test_a_catalog_keeps_functions_without_their_case():
    catalog, path = GenericInMemoryCatalog("m"), ObjectPath("Default", "F")
    catalog.create_function(path, INITIALS)
    with pytest.raises(FunctionAlreadyExistError):
        catalog.create_function(ObjectPath("default", "f"), INITIALS)
    changed = CatalogFunction(identifier="shop.names.first")
    catalog.alter_function(ObjectPath("default", "f"), changed)
    assert catalog.get_function(path) == changed
    assert catalog.list_functions("default") == ["f"]
    catalog.drop_function(path)
    assert not catalog.function_exists(path)
    for act in (catalog.get_function, catalog.drop_function):
        with pytest.raises(FunctionNotExistError, match=r"Default\.F"):
            act(path)
    with pytest.raises(FunctionNotExistError):
        catalog.alter_function(path, INITIALS)
    for act in (
        lambda: catalog.list_functions("d"),
        lambda: catalog.create_function(ObjectPath("d", "f"), INITIALS),
    ):
        with pytest.raises(DatabaseNotExistError):
            act()


def test_a_database_with_functions_is_dropped_only_by_cascade():
    catalog, path = GenericInMemoryCatalog("m"), ObjectPath("d", "f")
    catalog.create_database("d")
    catalog.create_function(path, INITIALS)
    with pytest.raises(DatabaseNotEmptyError):
        catalog.drop_database("d")
    catalog.drop_database("D", cascade=True)
    assert not catalog.function_exists(path)


@pytest.mark.parametrize("identifier", ["f", "", "a.", "a b.c", "a:b", "os.system('x')", "a..b"])
def test_a_function_of_a_catalog_is_a_dotted_name(identifier):
    with pytest.raises(InvalidOptionError, match="no name of Python"):
        CatalogFunction(identifier=identifier)


def test_names_of_functions_are_found_in_the_current_database():
    manager = CatalogManager()
    manager.create_function(("f",), INITIALS)
    manager.create_function(("f",), CatalogFunction(identifier="a.b"), if_not_exists=True)
    for name in (("F",), ("default", "f"), ("default_catalog", "default", "f")):
        assert manager.find_function(name) == INITIALS
    for name in (("g",), ("d", "f"), ("c", "d", "f"), ("c", "c", "d", "f")):
        assert manager.find_function(name) is None
    with pytest.raises(FunctionAlreadyExistError):
        manager.create_function(("f",), INITIALS)
    manager.create_database(("d",))
    manager.use(("d",))
    assert manager.find_function(("f",)) is None
    assert (manager.functions(), manager.functions(("default",))) == ([], ["f"])
    for act in (
        manager.drop_function,
        lambda name, **k: manager.alter_function(name, INITIALS, **k),
    ):
        act(("f",), if_exists=True)
        with pytest.raises(FunctionNotExistError):
            act(("f",))


# --- Stores ---


@pytest.fixture(params=["file", "sqlite"])
def new_store(request, tmp_path):
    def new() -> CatalogStore:
        if request.param == "file":
            return FileCatalogStore(tmp_path / "catalogs")
        return SqliteCatalogStore(tmp_path / "catalogs.db")

    return new


def test_definitions_survive_in_any_name(new_store):
    first = CatalogDescriptor("a/b ü.json", {"type": "x", "k": "${env:K}"}, "shared")
    new_store().store_catalog(first)
    new_store().store_catalog(CatalogDescriptor("b"))
    assert new_store().get_catalog("a/b ü.json") == first
    assert new_store().list_catalogs() == ["a/b ü.json", "b"]
    with pytest.raises(CatalogAlreadyExistError):
        new_store().store_catalog(CatalogDescriptor("b", {"type": "other"}))
    assert new_store().get_catalog("b") == CatalogDescriptor("b")
    new_store().remove_catalog("b")
    with pytest.raises(CatalogNotExistError):
        new_store().remove_catalog("b")
    assert new_store().get_catalog("b") is None


def declared(**options: str) -> CatalogTable:
    column = PhysicalColumn("i`d", pa.list_(pa.int64()), comment="it's")
    options = {"connector": "elasticsearch", "index": "a", **options}
    return CatalogTable(schema=TableSchema((column,)), options=options)


def test_definitions_of_tables_last_as_long_as_their_catalog(new_store):
    path, other = ObjectPath("a,b", "../c"), ObjectPath("a", "b,../c")
    for name in ("..", "x"):
        new_store().store_catalog(CatalogDescriptor(name))
        tables = new_store().tables_of(name)
        assert tables.get(path) is None
        assert tables.add(path, declared())
        assert not tables.add(path, declared(index="late"))
    again = new_store().tables_of("..")
    assert (again.get(path), again.get(other)) == (declared(), None)
    again.replace(path, declared(password="${env:P}"))
    assert new_store().tables_of("..").get(path) == declared(password="${env:P}")
    for act in (again.add, again.replace):
        with pytest.raises(InvalidOptionError, match="clear text") as refused:
            act(other, declared(password="canary-2"))  # pragma: allowlist secret
        assert "canary-2" not in str(refused.value)
    assert again.add(other, declared())
    assert {*again.paths()} == {other, path}
    new_store().remove_catalog("..")
    assert (again.get(path), again.paths()) == (None, [])
    kept = new_store().tables_of("x")
    assert kept.get(path) == declared()
    kept.remove(path)
    kept.remove(path)
    assert kept.get(path) is None
    assert new_store().list_catalogs() == ["x"]


def test_functions_last_as_long_as_their_catalog(new_store):
    path, other = ObjectPath("a,b", "../c"), ObjectPath("default", "f" * 300)
    for name in ("..", "x"):
        new_store().store_catalog(CatalogDescriptor(name))
        assert new_store().functions_of(name).add(path, INITIALS)
        assert new_store().functions_of(name).add(other, INITIALS)
    again = new_store().functions_of("..")
    late = CatalogFunction(identifier="late.one")
    assert not again.add(path, late)
    assert again.get(path) == INITIALS
    again.replace(path, late)
    assert new_store().functions_of("..").get(path) == late
    assert {*again.paths()} == {path, other}
    assert new_store().tables_of("..").paths() == []
    new_store().remove_catalog("..")
    assert (again.get(path), again.paths()) == (None, [])
    kept = new_store().functions_of("x")
    kept.remove(path)
    kept.remove(path)
    assert kept.paths() == [other]


def test_of_two_creators_of_a_function_one_succeeds(new_store):
    path, start = ObjectPath("default", "f"), threading.Barrier(2)

    def create(name: str) -> bool:
        function = CatalogFunction(identifier=f"shop.{name}")
        start.wait(10)
        return new_store().functions_of("x").add(path, function)

    with ThreadPoolExecutor(2) as both:
        won = dict(zip("ab", both.map(create, "ab"), strict=True))
    assert sorted(won.values()) == [False, True]
    (winner,) = (name for name, is_first in won.items() if is_first)
    assert new_store().functions_of("x").get(path) == CatalogFunction(identifier=f"shop.{winner}")


def test_functions_of_a_stored_catalog_survive_its_environment(new_store, tmp_path):
    manager = CatalogManager(new_store())
    options = {"type": "filesystem", "path": str(tmp_path / "lake")}
    manager.create_catalog(CatalogDescriptor("lake", options))
    manager.create_catalog(CatalogDescriptor("mem", {"type": "generic_in_memory"}))
    for name in ("lake", "mem"):
        manager.create_function((name, "default", "F"), INITIALS)
    again = CatalogManager(new_store())
    assert again.find_function(("lake", "default", "f")) == INITIALS
    assert again.find_function(("mem", "default", "f")) is None


@pytest.mark.parametrize("name", ["c" * 300, "订单" * 40, "c" * 180, "c" * 181])
def test_catalogs_have_names_of_any_length(new_store, name):
    names = [f"{name}{end}" for end in ("", "1", "2")]
    path = ObjectPath("default", "t")
    for each in names:
        new_store().store_catalog(CatalogDescriptor(each, {"type": each}))
        assert new_store().tables_of(each).add(path, declared(index=each))
    new_store().store_catalog(CatalogDescriptor("short"))
    assert new_store().list_catalogs() == sorted([*names, "short"])
    assert [new_store().get_catalog(each).options["type"] for each in names] == names
    with pytest.raises(CatalogAlreadyExistError):
        new_store().store_catalog(CatalogDescriptor(name))
    new_store().remove_catalog(name)
    assert new_store().list_catalogs() == sorted([*names[1:], "short"])
    assert new_store().tables_of(name).get(path) is None
    assert new_store().tables_of(names[1]).get(path) == declared(index=names[1])


@pytest.mark.parametrize("name", ["t" * 249, "订单" * 15, "t" * 175])
def test_definitions_have_names_of_any_length(new_store, name):
    tables = new_store().tables_of("x")
    paths = [ObjectPath("default", f"{name}{end}") for end in ("", "1", "2")]
    for number, path in enumerate(paths):
        assert tables.add(path, declared(index=str(number)))
        tables.replace(path, declared(index=str(number)))
    assert [tables.get(path).options["index"] for path in paths] == ["0", "1", "2"]
    assert sorted(tables.paths(), key=str) == paths
    tables.remove(paths[0])
    assert tables.get(paths[0]) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://elastic:canary-3@h:9200",  # pragma: allowlist secret
        "https://h:9200?token=canary-3",
    ],
)
def test_a_login_in_a_url_is_not_stored(new_store, url):
    tables, path = new_store().tables_of("x"), ObjectPath("default", "t")
    for act in (tables.add, tables.replace, tables.check):
        with pytest.raises(InvalidOptionError, match="clear text") as refused:
            act(path, declared(hosts=url))
        assert "hosts" in str(refused.value)
        assert "canary-3" not in str(refused.value)
    manager = CatalogManager(new_store())
    with pytest.raises(InvalidOptionError, match="clear text"):
        manager.create_catalog(CatalogDescriptor("es", {"type": "elasticsearch", "hosts": url}))
    assert (tables.get(path), new_store().list_catalogs()) == (None, [])
    for stored in ("https://h:9200", "${env:HOSTS}"):
        tables.replace(path, declared(hosts=stored))


def test_a_catalog_of_a_store_keeps_its_definitions_there(new_store):
    path = ObjectPath("default", "t")
    manager = CatalogManager(new_store())
    manager.create_catalog(CatalogDescriptor("mem", {"type": "generic_in_memory"}))
    assert manager.catalog("mem").definitions.add(path, declared())
    assert CatalogManager(new_store()).catalog("mem").definitions.get(path) == declared()
    manager.register("own", GenericInMemoryCatalog("own"))
    assert manager.catalog("own").definitions.add(path, declared())
    assert manager.catalog("own").definitions.get(path) == declared()
    assert CatalogManager(new_store()).catalogs() == ["default_catalog", "mem"]


def test_what_exists_is_known_without_its_definition():
    class Slow(GenericInMemoryCatalog):
        def get_table(self, path):
            raise AssertionError("it reads the data")

        def drop_table(self, path):
            del self._tables(path.database)[path.name]

    manager = CatalogManager()
    manager.register("slow", Slow("slow"))
    manager.use_catalog("slow")
    manager.put(("t",), TABLE)
    manager.put(("v",), VIEW)
    assert (manager.exists(("T",)), manager.exists(("u",))) == (True, False)
    assert not manager.exists(("a", "b", "c", "d"))
    assert not manager.exists(("none", "default", "t"))
    assert not manager.put(("t",), TABLE, if_not_exists=True)
    assert (manager.names(), manager.views()) == (["t", "v"], ["v"])
    with pytest.raises(TableNotExistError, match="use DROP VIEW"):
        manager.drop(("v",), view=False)
    manager.drop(("t",), view=False)
    manager.drop(("v",), view=True)
    assert manager.names() == []


WRITER = """
import sys
from connectors_core.catalog import *
kind, path, own = sys.argv[1:]
store = (FileCatalogStore if kind == "file" else SqliteCatalogStore)(path)
won = 0
for number in range(40):
    try:
        store.store_catalog(CatalogDescriptor(f"c{number:02}", {"writer": own}))
        won += 1
    except CatalogAlreadyExistError:
        pass
print(won)
"""


@pytest.mark.parametrize("kind", ["file", "sqlite"])
def test_of_two_concurrent_writers_one_wins_each_name(kind, tmp_path):
    path = str(tmp_path / "store")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, kind, path, own],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for own in ("a", "b")
    ]
    won = {}
    for own, each in zip("ab", writers, strict=True):
        out, _ = each.communicate(timeout=60)
        assert each.returncode == 0
        won[own] = int(out)
    store = FileCatalogStore(path) if kind == "file" else SqliteCatalogStore(path)
    found = [store.get_catalog(name).options["writer"] for name in store.list_catalogs()]
    assert len(found) == 40
    assert {own: found.count(own) for own in "ab"} == won


def test_a_layout_of_a_newer_release_is_refused(tmp_path):
    store, path = SqliteCatalogStore(tmp_path / "catalogs.db"), ObjectPath("default", "t")
    store.store_catalog(CatalogDescriptor("a"))
    store.tables_of("a").add(path, declared())
    store.functions_of("a").add(path, INITIALS)
    with store._database() as database:
        for table in ("connectors_catalogs", "connectors_tables", "connectors_functions"):
            database.execute(f"UPDATE {table} SET document = '{{\"layout\": 2}}'")
    with pytest.raises(StateVersionError):
        store.get_catalog("a")
    with pytest.raises(StateVersionError):
        store.tables_of("a").get(path)
    with pytest.raises(StateVersionError):
        store.functions_of("a").get(path)


def test_a_stored_catalog_is_opened_at_its_first_use(tmp_path: Path):
    store = FileCatalogStore(tmp_path)
    CatalogManager(store).create_catalog(CatalogDescriptor("mem", {"type": "generic_in_memory"}))
    manager = CatalogManager(store)
    assert manager.catalogs() == ["default_catalog", "mem"]
    manager.use_catalog("mem")
    manager.put(("t",), TABLE)
    assert str(manager.full_name(("t",))) == "mem.default.t"
    with pytest.raises(CatalogError, match="in use"):
        manager.drop_catalog("mem")
    manager.use_catalog("default_catalog")
    manager.drop_catalog("mem")
    manager.drop_catalog("mem", if_exists=True)
    assert CatalogManager(store).catalogs() == ["default_catalog"]
    manager.register("own", GenericInMemoryCatalog("own"))
    with pytest.raises(CatalogAlreadyExistError):
        manager.register("own", GenericInMemoryCatalog("own"))
    with pytest.raises(InvalidOptionError, match="unknown type"):
        manager.create_catalog(CatalogDescriptor("x", {"type": "generic"}))


class Closing(GenericInMemoryCatalog):
    """A catalog that counts its calls of close, each of which may fail."""

    fails = False

    def __init__(self, name):
        super().__init__(name)
        self.closed = 0

    def close(self):
        self.closed += 1
        if self.fails:
            raise RuntimeError("the system is away")


class Beaten(FileCatalogStore):
    """A store to which another process adds each catalog first."""

    def list_catalogs(self):
        return []

    def store_catalog(self, descriptor):
        raise CatalogAlreadyExistError(f"the catalog {descriptor.name} exists")


def test_a_catalog_that_another_process_has_created_meanwhile_is_closed(tmp_path, monkeypatch):
    manager, made = CatalogManager(Beaten(tmp_path)), []

    def opened(descriptor):
        made.append(Closing(descriptor.name))
        return made[-1]

    monkeypatch.setattr(manager, "_opened", opened)
    descriptor = CatalogDescriptor("mem", {"type": "generic_in_memory"})
    manager.create_catalog(descriptor, if_not_exists=True)
    with pytest.raises(CatalogAlreadyExistError):
        manager.create_catalog(descriptor)
    assert [each.closed for each in made] == [1, 1]


def test_all_catalogs_are_closed_even_if_one_fails():
    manager = CatalogManager()
    catalogs = [Closing(name) for name in "abc"]
    for each in catalogs:
        manager.register(each.name, each)
    catalogs[1].fails = True
    with pytest.raises(RuntimeError, match="away"):
        manager.close()
    assert [each.closed for each in catalogs] == [1, 1, 1]


def test_a_catalog_whose_removal_fails_stays_open(tmp_path, monkeypatch):
    store = FileCatalogStore(tmp_path)
    manager = CatalogManager(store)
    manager.create_catalog(CatalogDescriptor("mem", {"type": "generic_in_memory"}))
    opened, path = manager.catalog("mem"), ObjectPath("default", "t")
    assert store.tables_of("mem").add(path, declared())

    def away(_name):
        raise OSError("the file system is away")

    with monkeypatch.context() as broken:
        broken.setattr(store._files, "delete", away)
        with pytest.raises(OSError, match="away"):
            manager.drop_catalog("mem")
    assert manager.catalog("mem") is opened
    assert store.tables_of("mem").get(path) is None  # no later catalog of this name gets it
