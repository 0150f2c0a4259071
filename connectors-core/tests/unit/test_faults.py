# SPDX-License-Identifier: Apache-2.0
"""Tests that faults occur once, at the requested point and pass, in any process."""

from __future__ import annotations

import ast
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import connectors_core.engine._faults
from connectors_core.engine._faults import fault_point
from connectors_core.engine.state import StateStore
from connectors_core.testing.driver import is_frozen, resume
from connectors_core.testing.faults import (
    DRIVER_VARIABLE,
    ENVIRONMENT_VARIABLE,
    Fault,
    FaultAction,
    FaultInjected,
    FaultPoint,
    faults_env,
    faults_file_env,
    injected,
)
from connectors_core.testing.pace import Deadline

PROGRAM = """
from connectors_core.engine._faults import fault_point
for number in range(3):
    fault_point("after_plan", number=number)
    print(number, flush=True)
"""


def run(*faults: Fault, program: str = PROGRAM) -> tuple[int, list[str]]:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **faults_env(*faults)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return ended.returncode, ended.stdout.split()


def passed(point: str, times: int, **labels: object) -> list[int]:
    """Return the passes, counted from 1, at which a fault was raised."""
    raised = []
    for number in range(1, times + 1):
        try:
            fault_point(point, **labels)
        except FaultInjected:
            raised.append(number)
    return raised


def test_without_the_environment_variable_no_fault_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    assert passed(FaultPoint.AFTER_PLAN, 3) == []


def test_a_fault_is_raised_only_at_its_point_and_pass() -> None:
    for _ in range(2):  # the second context counts from zero
        with injected(Fault(FaultPoint.AFTER_PLAN, action=FaultAction.RAISE, nth=2)):
            assert passed(FaultPoint.BEFORE_PLAN, 3) == []
            assert passed(FaultPoint.AFTER_PLAN, 4) == [2]
    assert passed(FaultPoint.AFTER_PLAN, 3) == []


def test_only_passes_with_the_requested_labels_count() -> None:
    fault = Fault("reader_started", action=FaultAction.RAISE, nth=2, where={"subtask": 1})
    with injected(fault):
        assert passed("reader_started", 3) == []
        assert passed("reader_started", 3, subtask=0) == []
        assert passed("reader_started", 3, subtask=1, attempt=0) == [2]


def test_one_point_can_have_several_faults() -> None:
    faults = [Fault("p", action=FaultAction.RAISE, nth=nth) for nth in (1, 3)]
    with injected(*faults):
        assert passed("p", 4) == [1, 3]


def test_faults_that_share_a_marker_occur_only_once_in_total(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    faults = [Fault(point, action=FaultAction.RAISE, once=marker) for point in ("p", "q")]
    with injected(*faults):
        assert passed("p", 2) + passed("q", 2) == [1]
    assert faults[0].fired


def test_the_environment_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, "{}")
    with injected(Fault("p")):
        assert json.loads(os.environ[ENVIRONMENT_VARIABLE]) == {"p": [{"action": "kill", "nth": 1}]}
    assert os.environ[ENVIRONMENT_VARIABLE] == "{}"


def test_a_running_process_reads_its_faults_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "faults.json"
    program = (
        "from connectors_core.engine._faults import FaultInjected, fault_point\n"
        "while input():\n"
        "    try:\n"
        "        fault_point('p')\n"
        "        print('passed', flush=True)\n"
        "    except FaultInjected:\n"
        "        print('raised', flush=True)\n"
    )
    [(name, value)] = faults_file_env(file).items()
    monkeypatch.setenv(name, value)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def pass_the_point() -> str:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("go\n")
            process.stdin.flush()
            return process.stdout.readline().strip()

        found = [pass_the_point()]
        with injected(Fault("p", action=FaultAction.RAISE, once=tmp_path / "raised")):
            found += [pass_the_point(), pass_the_point()]
        found.append(pass_the_point())
        process.kill()
    assert found == ["passed", "raised", "passed", "passed"]
    assert not file.exists()


def test_the_short_form_of_a_single_fault_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, '{"short": {"action": "raise"}}')
    assert passed("short", 2) == [1]


def test_an_unknown_action_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, '{"wrong": {"action": "explode"}}')
    with pytest.raises(ValueError, match="explode"):
        fault_point("wrong")


def test_only_a_fault_with_a_marker_records_whether_it_occurred() -> None:
    with pytest.raises(ValueError, match="marker"):
        _ = Fault("p").fired


def test_a_process_is_killed_once_and_its_successor_survives(tmp_path: Path) -> None:
    fault = Fault(FaultPoint.AFTER_PLAN, nth=2, once=tmp_path / "killed")
    assert not fault.fired
    assert run(fault) == (-signal.SIGKILL, ["0"])
    assert fault.fired
    assert run(fault) == (0, ["0", "1", "2"])


def test_passes_are_counted_across_processes(tmp_path: Path) -> None:
    fault = Fault(FaultPoint.AFTER_PLAN, nth=5, once=tmp_path / "killed")
    assert run(fault) == (0, ["0", "1", "2"])
    assert run(fault) == (-signal.SIGKILL, ["0"])


def test_the_environment_reaches_forked_workers(tmp_path: Path) -> None:
    fault = Fault(FaultPoint.AFTER_PLAN, once=tmp_path / "killed")
    forking = (
        "import os\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    from connectors_core.engine._faults import fault_point\n"
        "    fault_point('after_plan')\n"
        "    os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert run(fault, program=forking) == (0, [str(-signal.SIGKILL)])


def test_a_process_hangs_until_it_is_released(tmp_path: Path) -> None:
    gate = tmp_path / "go"
    fault = Fault("after_plan", action=FaultAction.HANG, once=tmp_path / "hangs", until=gate)
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True)\n" + PROGRAM],
        env={**os.environ, **faults_env(fault)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        gate.touch()
        assert process.stdout.read().split() == ["0", "1", "2"]
    assert fault.fired


def test_a_driver_freezes_exactly_at_the_point_in_whichever_thread(tmp_path: Path) -> None:
    program = (
        "import os, threading\n"
        f"os.environ[{DRIVER_VARIABLE!r}] = str(os.getpid())\n"
        f"threading.Thread(target=lambda: exec({PROGRAM!r}, {{}})).start()\n"
    )
    freezes = [
        Fault("after_plan", action=FaultAction.FREEZE_DRIVER, where={"number": number})
        for number in range(3)
    ]
    output = tmp_path / "output"
    with (
        output.open("w") as file,
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, **faults_env(*freezes)},
            stdout=file,
            start_new_session=True,
        ) as process,
    ):
        try:
            for number in range(3):
                deadline = Deadline(30)
                while not is_frozen(process):
                    assert not deadline.passed, "it does not freeze"
                assert output.read_text().split() == [str(passed) for passed in range(number)]
                resume(process)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_storage_is_full_from_a_point_on_for_all_processes_until_space_is_freed(
    tmp_path: Path,
) -> None:
    store = StateStore(str(tmp_path / "state"))
    elsewhere = (
        "from connectors_core.engine.state import StateStore\n"
        f"StateStore({store.url!r}).create('elsewhere', b'1')\n"
    )
    fault = Fault("p", action=FaultAction.NO_SPACE, nth=2, once=tmp_path / "full")
    with injected(fault):
        fault_point("p")
        assert store.create("before", b"1")
        fault_point("p")
        for write in (store.create, store.replace):
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                write("full", b"1")
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            store.open_output("full")
        assert store.read("before") == b"1"
        store.delete("before")
        assert run(fault, program=elsewhere)[0] == 1
    assert store.list() == []
    assert store.create("after", b"1")


def test_full_storage_needs_a_marker() -> None:
    with pytest.raises(ValueError, match="marker"):
        Fault("p", action=FaultAction.NO_SPACE)


def test_a_wall_clock_is_shifted_and_other_clocks_are_not() -> None:
    program = (
        "import time\n"
        "from datetime import UTC, datetime, timedelta\n"
        "from connectors_core.testing.clocks import move_wall_clock\n"
        "clocks = time.time, time.time_ns, time.monotonic\n"
        "move_wall_clock(timedelta(hours=-1))\n"
        "now = datetime.now(UTC), datetime.fromtimestamp(time.time(), UTC)\n"
        "print(time.time() - clocks[0](), (time.time_ns() - clocks[1]()) / 1e9)\n"
        "print(*(each.timestamp() - clocks[0]() for each in now), clocks[2] is time.monotonic)\n"
    )
    code, (*moved, monotonic) = run(program=program)
    assert code == 0
    assert [round(float(each)) for each in moved] == [-3600] * 4
    assert monotonic == "True"


def test_production_code_never_imports_the_testing_package() -> None:
    root = Path(connectors_core.engine._faults.__file__).parents[1]
    for path in root.rglob("*.py"):
        if (root / "testing") in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names.append(node.module or "")
            assert not any(name.startswith("connectors_core.testing") for name in names), path
