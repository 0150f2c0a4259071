# SPDX-License-Identifier: Apache-2.0
"""Tests the schedule and the verdict of the soak."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from benchmarks.soak import disk
from benchmarks.soak.processes import Usage, tree
from benchmarks.soak.schedule import TARGETS, schedule
from benchmarks.soak.verdict import Point, judge


def test_equal_seeds_give_equal_schedules_and_different_seeds_different_ones() -> None:
    assert schedule(1, 1800) == schedule(1, 1800)
    assert schedule(1, 1800) != schedule(2, 1800)
    without = tuple(target for target in TARGETS if target != "disk")
    assert schedule(1, 1800, without) == [f for f in schedule(1, 1800) if f.target != "disk"]


@pytest.mark.parametrize("seed", range(20))
def test_faults_of_a_target_do_not_overlap_and_end_before_the_schedule(seed: int) -> None:
    faults = schedule(seed, 1800)
    assert {fault.target for fault in faults} == set(TARGETS)
    for target in TARGETS:
        own = [fault for fault in faults if fault.target == target]
        assert all(one.at + one.seconds < other.at for one, other in pairwise(own))
        assert own[-1].at + own[-1].seconds <= 1780


def test_growing_values_are_not_flat() -> None:
    grows = [Point(at, 1000 + 10 * at) for at in range(100)]
    found = judge("state files", grows, 0, 100)
    assert (found.first, found.last, found.flat) == (1095, 1895, False)
    assert judge("state files", [Point(at, 1000 - at) for at in range(100)], 0, 100).flat


def test_drivers_are_compared_at_equal_ages() -> None:
    old_at_first = [Point(at, 100 + at, age=at) for at in range(0, 360, 10)]
    young_at_last = [Point(at, 100 + at % 60, age=at % 60) for at in range(1440, 1800, 10)]
    found = judge("driver, Python (MB)", [*old_at_first, *young_at_last], 0, 1800)
    assert found.first == found.last
    assert found.flat


def test_points_before_the_start_and_after_the_end_do_not_count() -> None:
    points = [Point(at, 1 if at < 50 else 10_000) for at in range(300)]
    found = judge("state files", points, 50, 150)
    assert (found.first, found.last) == (10_000, 10_000)
    assert not judge("state files", points, 150, 150).flat


def test_points_that_cannot_be_compared_are_not_flat() -> None:
    assert not judge("state files", [], 0, 100).flat
    assert not judge("state files", [Point(1, 5, age=1), Point(99, 5, age=100)], 0, 100).flat


def test_processes_are_found_with_their_resource_usage() -> None:
    program = "import subprocess, sys; subprocess.run(['sh', '-c', 'echo here; read line'])"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        found = tree(process.pid)
        assert [each.name for each in found][1:] == ["sh"]
        assert all(each.lives for each in found)
        usage = Usage.of(process.pid)
        process.communicate(b"\n")
    assert usage is not None
    assert usage.memory > 1
    assert (usage.threads, usage.handles >= 3) == (1, True)
    assert not any(each.lives for each in found)
    assert Usage.of(process.pid) is None


def test_a_disk_is_filled_and_cleared(tmp_path: Path) -> None:
    program = (
        "import errno, os, pathlib, sys; from benchmarks.soak import disk;"
        "folder = pathlib.Path(sys.argv[1])\n"
        "if not disk.enter(folder): sys.exit(9)\n"
        "disk.fill(folder)\n"
        "try: (folder / 'x').write_bytes(b'x' * 9000)\n"
        "except OSError as error: assert error.errno == errno.ENOSPC\n"
        "else: sys.exit('not full')\n"
        "disk.clear(folder); (folder / 'x').write_bytes(b'x' * 9000)\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != disk._VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        env=environment,
        check=False,
    )
    if done.returncode == 9:
        pytest.skip("this system does not allow mounting a tmpfs")
    assert done.returncode == 0
    assert not list(tmp_path.iterdir())  # the file ends with its process
