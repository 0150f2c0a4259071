# SPDX-License-Identifier: Apache-2.0
"""What a worker keeps between two tasks; what a user adds is looked at again for every task."""

from __future__ import annotations

import gc
import importlib
import socket
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from zipimport import zipimporter

import pytest

from connectors_core.runtime.warm_workers import BetweenTasks, keep_warm

ON_LINUX = pytest.mark.skipif(
    not hasattr(socket, "TCP_QUICKACK"), reason="only Linux lets a program choose"
)


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """The worker's end of a connection whose kernel delays acknowledgements."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as end,
        server.accept()[0],
    ):
        if hasattr(socket, "TCP_QUICKACK"):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        yield end


@pytest.fixture
def run_task(connection: socket.socket) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Runs something below a frame like that of a task in Spark's worker."""
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
        if isinstance(callback, BetweenTasks):
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
def test_only_archives_of_spark_stay_as_they_were(
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


def test_a_process_that_is_no_worker_is_left_as_it_is() -> None:
    before = list(gc.callbacks), gc.get_freeze_count()
    keep_warm()
    gc.collect()
    assert (list(gc.callbacks), gc.get_freeze_count()) == before


def test_a_worker_has_one_callback_however_many_tasks_it_runs(
    run_task: Callable[[Callable[[], object]], None],
) -> None:
    for _ in range(3):
        run_task(keep_warm)
    assert sum(isinstance(each, BetweenTasks) for each in gc.callbacks) == 1


def test_what_lives_between_tasks_is_collected_no_more_and_garbage_still_is(
    run_task: Callable[[Callable[[], object]], None],
) -> None:
    run_task(keep_warm)
    gc.collect()
    assert gc.get_freeze_count() > 0
    frozen = gc.get_freeze_count()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() > 0
    assert gc.get_freeze_count() <= frozen  # no module was imported since


def test_a_collection_on_another_thread_of_a_task_is_not_behind_it(
    run_task: Callable[[Callable[[], object]], None],
) -> None:
    def collect_elsewhere() -> None:
        keep_warm()
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
        assert gc.get_freeze_count() == 0

    run_task(collect_elsewhere)


@ON_LINUX
def test_the_next_task_is_acknowledged_at_once(
    connection: socket.socket, run_task: Callable[[Callable[[], object]], None]
) -> None:
    def at_once() -> bool:
        return bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))

    run_task(lambda: (keep_warm(), gc.collect()))
    assert not at_once()  # an answer is still to come, and would undo it
    gc.collect()
    assert at_once()
