# SPDX-License-Identifier: Apache-2.0
"""Tests what a worker keeps between tasks, and that user changes still take effect."""

from __future__ import annotations

import gc
import importlib
import socket
import sys
import weakref
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from zipimport import zipimporter

import pytest

from connectors_core.spark import warm_workers
from connectors_core.spark.warm_workers import FIRST_TASKS, SETTING, AcknowledgeAtOnce, keep_warm

ON_LINUX = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="only Linux lets a program choose"
)


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """Yield the worker's end of a connection whose kernel delays acknowledgements."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as end,
        server.accept()[0],
    ):
        if hasattr(socket, "TCP_QUICKACK"):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        yield end


@pytest.fixture
def run_task(
    connection: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Return a function that runs a task under a frame like that of a new Spark worker."""
    monkeypatch.setattr(warm_workers, "_tasks", 0)
    monkeypatch.delenv(SETTING, raising=False)
    names: dict[str, object] = {"__name__": "pyspark.worker"}
    exec("def main(infile, task): task()", names)
    main = names["main"]
    assert callable(main)

    def run(task: Callable[[], object]) -> None:
        with connection.makefile("rb") as infile:
            main(infile, task)

    before = list(gc.callbacks)
    yield run
    for callback in gc.callbacks:
        if isinstance(callback, AcknowledgeAtOnce):
            callback.connection.close()
    gc.callbacks[:] = before
    gc.unfreeze()


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("spark-core_2.13-4.3.0.jar", True),
        ("pyspark.zip", True),
        ("py4j-0.10.9.9-src.zip", True),
        ("connector.zip", False),
        ("my-pyspark.zip", False),
    ],
)
def test_only_archives_of_spark_stay_cached(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_task: Callable[[Callable[[], object]], None],
    name: str,
    kept: bool,
) -> None:
    archive = tmp_path / name

    def hold(module: str) -> None:
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr(f"{module}.py", "")

    hold("before")
    finder = zipimporter(str(archive))
    monkeypatch.setitem(sys.path_importer_cache, str(archive), finder)
    run_task(keep_warm)
    hold("later")
    importlib.invalidate_caches()
    assert (finder.find_spec("later") is None) == kept


def test_a_process_other_than_a_worker_is_not_changed() -> None:
    gc.collect()  # Python 3.12 freezes its immortal objects in a collection
    before = list(gc.callbacks), gc.get_freeze_count()
    keep_warm()
    gc.collect()
    assert (list(gc.callbacks), gc.get_freeze_count()) == before


def test_only_the_first_tasks_of_a_worker_change_anything(
    monkeypatch: pytest.MonkeyPatch, run_task: Callable[[Callable[[], object]], None]
) -> None:
    before = len(gc.callbacks)
    looked: list[object] = []
    find = warm_workers.task_connection
    monkeypatch.setattr(warm_workers, "task_connection", lambda: looked.append(0) or find())
    for _ in range(2 * FIRST_TASKS):
        run_task(keep_warm)
    assert len(gc.callbacks) - before <= 1
    assert len(looked) == FIRST_TASKS


def test_no_object_of_the_user_is_hidden_from_the_garbage_collector(
    run_task: Callable[[Callable[[], object]], None],
) -> None:
    """Each task imports a module and keeps a reference cycle until the next task frees it."""

    class Kept:
        def __init__(self) -> None:
            self.me = self

    kept: list[Kept] = []
    seen: list[weakref.ref[Kept]] = []

    def task() -> None:
        keep_warm()
        sys.modules[f"module_of_task_{len(seen)}"] = sys
        kept[:] = [Kept()]
        seen.append(weakref.ref(kept[0]))

    run_task(task)
    frozen = gc.get_freeze_count()
    for _ in range(2 * FIRST_TASKS):
        run_task(task)
        gc.collect()  # as Spark's worker does after each task
    for number in range(len(seen)):
        del sys.modules[f"module_of_task_{number}"]
    assert [each() is not None for each in seen] == [False] * (len(seen) - 1) + [True]
    assert 0 < gc.get_freeze_count() <= frozen


def test_warming_can_be_disabled(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run_task: Callable[[Callable[[], object]], None],
) -> None:
    archive = tmp_path / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("before.py", "")
    finder = zipimporter(str(archive))
    monkeypatch.setitem(sys.path_importer_cache, str(archive), finder)
    monkeypatch.setenv(SETTING, "off")
    before = list(gc.callbacks)
    run_task(keep_warm)
    assert gc.callbacks == before
    assert "invalidate_caches" not in vars(finder)


@ON_LINUX
def test_the_next_task_is_acknowledged_at_once_and_no_other_connection_is_changed(
    connection: socket.socket, run_task: Callable[[Callable[[], object]], None]
) -> None:
    def at_once(end: socket.socket) -> bool:
        return bool(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as other,
    ):
        other.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        run_task(keep_warm)
        assert not at_once(connection)
        gc.collect()
        assert at_once(connection)
        assert not at_once(other)
