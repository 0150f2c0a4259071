# SPDX-License-Identifier: Apache-2.0
"""Crash tests: kill, fail, or stop a pipeline at a named point, in the driver or in a worker.

The environment carries the faults, so that a Spark driver, its Python workers and a restarted
driver all see them:

    fault = Fault(FaultPoint.AFTER_DECISION, once=tmp_path / "killed")
    subprocess.run(command, env={**os.environ, **faults_env(fault)})
    assert fault.fired
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from connectors_core.engine._faults import (
    DRIVER_VARIABLE,
    ENVIRONMENT_VARIABLE,
    FILE_PREFIX,
    FaultInjected,
    fault_point,
    reset_counts,
)

__all__ = [
    "DRIVER_VARIABLE",
    "ENVIRONMENT_VARIABLE",
    "Fault",
    "FaultAction",
    "FaultInjected",
    "FaultPoint",
    "fault_point",
    "faults_env",
    "faults_file_env",
    "injected",
]


class FaultPoint(StrEnum):
    """The points the runtime passes, in the order of an epoch."""

    BEFORE_FENCE = "before_fence"
    """A driver has its lease but has not fenced off former drivers yet."""
    AFTER_FENCE = "after_fence"
    """A driver has fenced off former drivers but has not read where to continue."""
    BEFORE_RECOVERY = "before_recovery"
    """Decided epochs are finished; a committer's recovery comes next."""
    BEFORE_PLAN = "before_plan"
    """All reports of the last plan are durable, the next plan is not."""
    AFTER_PLAN = "after_plan"
    """The plan is durable, the carrier does not have it."""
    AFTER_FEED = "after_feed"
    """The carrier has the plan, Spark has not logged the batch."""
    READER_STARTED = "reader_started"
    """A reader has its entry and has read nothing."""
    READER_FETCHED = "reader_fetched"
    """A reader has read a batch of its entry."""
    BEFORE_REPORT = "before_report"
    """A reader knows where its entry ends; its report is not durable."""
    AFTER_REPORT = "after_report"
    """The report is durable."""
    WRITER_WROTE = "writer_wrote"
    """A writer has taken a batch."""
    BEFORE_PREPARE = "before_prepare"
    """A writer has taken everything and has prepared no commit."""
    AFTER_PREPARE = "after_prepare"
    """A writer's committables are ready, the driver does not have them."""
    BEFORE_DECISION = "before_decision"
    """The driver has all committables; the epoch is undecided."""
    AFTER_DECISION = "after_decision"
    """The epoch is decided, nothing is committed."""
    BEFORE_COMMIT = "before_commit"
    """A sink's commit comes next."""
    AFTER_COMMIT = "after_commit"
    """A sink's commit and its post-commit topology are done and not marked."""
    AFTER_DONE = "after_done"
    """A sink is marked as done, the next one has not begun."""
    BEFORE_SWEEP = "before_sweep"
    """An epoch is committed; its other staged data still exists."""
    BEFORE_ROLL_BACK = "before_roll_back"
    """An epoch failed before its decision; its staged data still exists."""
    BEFORE_REWRITE = "before_rewrite"
    """A sink has lost its committables; their rows are not rewritten yet."""
    BEFORE_REWRITE_RECORD = "before_rewrite_record"
    """The rows are rewritten; the rewrite document is not durable."""
    AFTER_REWRITE_RECORD = "after_rewrite_record"
    """The rewrite document is durable; the new committables are not committed."""
    BEFORE_SPARK_COMMIT = "before_spark_commit"
    """The epoch is over for us, Spark has not committed the batch."""


READING_POINTS: Final = (
    FaultPoint.BEFORE_PLAN,
    FaultPoint.AFTER_PLAN,
    FaultPoint.AFTER_FEED,
    FaultPoint.READER_FETCHED,
    FaultPoint.BEFORE_REPORT,
    FaultPoint.AFTER_REPORT,
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.BEFORE_SPARK_COMMIT,
)
"""Where a crash could harm a source."""
WRITING_POINTS: Final = (
    FaultPoint.WRITER_WROTE,
    FaultPoint.BEFORE_PREPARE,
    FaultPoint.AFTER_PREPARE,
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.AFTER_COMMIT,
    FaultPoint.AFTER_DONE,
    FaultPoint.BEFORE_SPARK_COMMIT,
)
"""Where a crash could harm a sink."""


REWRITING_POINTS: Final = (
    FaultPoint.BEFORE_REWRITE,
    FaultPoint.BEFORE_REWRITE_RECORD,
    FaultPoint.AFTER_REWRITE_RECORD,
)
"""Where a crash could harm rows that are written again because they were lost."""


SUCCESSORS: Final[Mapping[str, FaultPoint | None]] = {
    "reads": FaultPoint.READER_FETCHED,
    "writes": FaultPoint.AFTER_PREPARE,
    "decides": FaultPoint.BEFORE_DECISION,
    "commits": FaultPoint.BEFORE_COMMIT,
    "has ended": None,
}
"""What a driver that took over does, and where it can be held while it does."""
READING_FREEZES: Final = (
    FaultPoint.BEFORE_PLAN,
    FaultPoint.AFTER_PLAN,
    FaultPoint.AFTER_FEED,
    FaultPoint.READER_STARTED,
    FaultPoint.READER_FETCHED,
    FaultPoint.BEFORE_REPORT,
    FaultPoint.AFTER_REPORT,
)
"""Where a driver that freezes could harm, when it resumes, what its successor reads."""
WRITING_FREEZES: Final = (
    FaultPoint.WRITER_WROTE,
    FaultPoint.BEFORE_PREPARE,
    FaultPoint.AFTER_PREPARE,
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.BEFORE_COMMIT,
    FaultPoint.AFTER_COMMIT,
    FaultPoint.AFTER_DONE,
    FaultPoint.BEFORE_SWEEP,
    FaultPoint.BEFORE_SPARK_COMMIT,
)
"""Where a driver that freezes could harm, when it resumes, what its successor writes."""


class FaultAction(StrEnum):
    """The action of a fault at its point."""

    KILL = "kill"
    """The process kills itself by SIGKILL: no handler, no `finally` runs."""
    KILL_DRIVER = "kill-driver"
    """The driver is killed by SIGKILL, from whatever process passes the point; Spark's JVM and the
    tasks that run live on for a moment. The driver names itself in `DRIVER_VARIABLE` first."""
    KILL_EXECUTOR = "kill-executor"
    """The executor whose Python worker passes the point is killed by SIGKILL. On a cluster: in a
    local session the executor is the driver's own JVM."""
    RAISE = "raise"
    """`FaultInjected` is raised."""
    FREEZE_DRIVER = "freeze-driver"
    """The driver is stopped by SIGSTOP with its process group (on Spark its JVM), from whatever
    process passes the point. It resumes with SIGCONT and does not know that time passed. The driver
    names itself in `DRIVER_VARIABLE` first, and leads a group of its own."""
    HANG = "hang"
    """The thread waits until the file `until` exists, or forever."""
    NO_SPACE = "no-space"
    """The state location is full: from here on whatever would write there gets ENOSPC, in all
    processes, until the fault is no longer asked for. Such a fault has a marker."""


@dataclass(frozen=True)
class Fault:
    """One fault at one point.

    Args:
        point: The point, one of `FaultPoint` or a connector's own.
        action: What happens there.
        nth: At which pass of the point, counted from 1. With a marker all processes count
            together, else each for itself.
        once: File that marks that it has happened, so that it happens once across all processes
            and restarts. Two faults may share a marker: then only one of them happens.
        where: Labels that a pass must carry to count, e.g. `{"subtask": 1}`.
        until: For `HANG`: the file whose appearance ends the wait.
    """

    point: str
    action: FaultAction = field(default=FaultAction.KILL, kw_only=True)
    nth: int = field(default=1, kw_only=True)
    once: str | os.PathLike[str] | None = field(default=None, kw_only=True)
    where: Mapping[str, object] = field(default_factory=dict, kw_only=True)
    until: str | os.PathLike[str] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.action is FaultAction.NO_SPACE and self.once is None:
            raise ValueError("storage is full for all processes: that needs a marker (once=...)")

    @property
    def fired(self) -> bool:
        """Whether the fault has occurred; only for a fault with a marker."""
        if self.once is None:
            raise ValueError("only a fault with a marker (once=...) knows whether it has happened")
        return os.path.exists(self.once)

    def to_json(self) -> dict[str, Any]:
        """Return the form in which the environment carries it."""
        shown: dict[str, Any] = {"action": self.action.value, "nth": self.nth}
        if self.once is not None:
            shown["once"] = os.fspath(self.once)
        if self.where:
            shown["where"] = {key: str(value) for key, value in self.where.items()}
        if self.until is not None:
            shown["until"] = os.fspath(self.until)
        return shown


def crash_chain(folder: Path, points: Sequence[str]) -> list[Fault]:
    """A kill of the driver at each point, each once, one for every run of a driver."""
    return [
        Fault(point, action=FaultAction.KILL_DRIVER, once=folder / f"fault-{number:02d}-{point}")
        for number, point in enumerate(points)
    ]


def faults_env(*faults: Fault) -> dict[str, str]:
    """Return the environment variable that asks for faults, for a subprocess.

    Args:
        *faults: The faults; several may stand at one point.
    """
    return {ENVIRONMENT_VARIABLE: _to_json(faults)}


def faults_file_env(path: Path) -> dict[str, str]:
    """Return the environment variable by which processes take their faults from a file.

    For a Spark session and its workers, which were started before a test asks for faults.

    Args:
        path: The file; :func:`injected` writes it. None there is no fault.
    """
    return {ENVIRONMENT_VARIABLE: f"{FILE_PREFIX}{path}"}


@contextlib.contextmanager
def injected(*faults: Fault) -> Iterator[None]:
    """Inject faults for the context.

    They strike in this process and in those that it starts. Where this process takes its faults
    from a file (:func:`faults_file_env`), they strike in all that take them from there.
    """
    before = os.environ.get(ENVIRONMENT_VARIABLE)
    reset_counts()
    if before is not None and before.startswith(FILE_PREFIX):
        with _written(Path(before.removeprefix(FILE_PREFIX)), _to_json(faults)):
            yield
        return
    os.environ.update(faults_env(*faults))
    try:
        yield
    finally:
        if before is None:
            del os.environ[ENVIRONMENT_VARIABLE]
        else:
            os.environ[ENVIRONMENT_VARIABLE] = before


@contextlib.contextmanager
def _written(path: Path, text: str) -> Iterator[None]:
    """A file that is there, complete, while the context lasts."""
    complete = path.with_suffix(".new")
    complete.write_text(text, encoding="utf-8")
    complete.replace(path)
    try:
        yield
    finally:
        path.unlink()


def _to_json(faults: Sequence[Fault]) -> str:
    points: dict[str, list[dict[str, Any]]] = {}
    for fault in faults:
        points.setdefault(str(fault.point), []).append(fault.to_json())
    return json.dumps(points)
