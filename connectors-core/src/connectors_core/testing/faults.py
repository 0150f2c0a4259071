# SPDX-License-Identifier: Apache-2.0
"""Crash tests, which kill, fail, or stop a pipeline at a named point, in the driver or in a worker.

The environment carries the faults, so a Spark driver, its Python workers, and a restarted driver
all see them:

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
    """The points that the runtime passes, in the order of an epoch."""

    BEFORE_FENCE = "before_fence"
    """A driver has its lease but has not fenced off earlier drivers."""
    AFTER_FENCE = "after_fence"
    """A driver has fenced off earlier drivers but has not read where to resume."""
    BEFORE_RECOVERY = "before_recovery"
    """Decided epochs are finished. A committer's recovery comes next."""
    BEFORE_PLAN = "before_plan"
    """All reports of the last plan are durable, but the next plan is not."""
    AFTER_PLAN = "after_plan"
    """The plan is durable, but the carrier does not have it."""
    AFTER_FEED = "after_feed"
    """The carrier has the plan, but Spark has not logged the batch."""
    READER_STARTED = "reader_started"
    """A reader has its entry but has read nothing."""
    READER_FETCHED = "reader_fetched"
    """A reader has read a batch of its entry."""
    BEFORE_REPORT = "before_report"
    """A reader knows where its entry ends, but its report is not durable."""
    AFTER_REPORT = "after_report"
    """The report is durable."""
    WRITER_WROTE = "writer_wrote"
    """A writer has received a batch."""
    BEFORE_PREPARE = "before_prepare"
    """A writer has received all rows but has prepared no commit."""
    AFTER_PREPARE = "after_prepare"
    """A writer's committables are ready, but the driver does not have them."""
    BEFORE_DECISION = "before_decision"
    """The driver has all committables, but the epoch is undecided."""
    AFTER_DECISION = "after_decision"
    """The epoch is decided, but nothing is committed."""
    BEFORE_COMMIT = "before_commit"
    """A sink's commit comes next."""
    AFTER_COMMIT = "after_commit"
    """A sink's commit and its post-commit topology are done but not marked."""
    AFTER_DONE = "after_done"
    """A sink is marked as done, but the next one has not started."""
    BEFORE_SWEEP = "before_sweep"
    """An epoch is committed, but its other staged data still exists."""
    BEFORE_ROLL_BACK = "before_roll_back"
    """An epoch failed before its decision, and its staged data still exists."""
    BEFORE_REWRITE = "before_rewrite"
    """A sink has lost its committables, and their rows are not rewritten yet."""
    BEFORE_REWRITE_RECORD = "before_rewrite_record"
    """The rows are rewritten, but the rewrite document is not durable."""
    AFTER_REWRITE_RECORD = "after_rewrite_record"
    """The rewrite document is durable, but the new committables are not committed."""
    BEFORE_COMPACTION = "before_compaction"
    """Requests for a compaction are decided, but its job has not started."""
    COMPACTOR_STAGED = "compactor_staged"
    """A compactor has staged its output, but the driver does not have its committables."""
    AFTER_COMPACTION = "after_compaction"
    """The driver has the results of a compaction, but no decision has them."""
    BEFORE_SPARK_COMMIT = "before_spark_commit"
    """The epoch is complete in the state location, but Spark has not committed the batch."""


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
"""The points at which a crash could harm a source."""
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
"""The points at which a crash could harm a sink."""


REWRITING_POINTS: Final = (
    FaultPoint.BEFORE_REWRITE,
    FaultPoint.BEFORE_REWRITE_RECORD,
    FaultPoint.AFTER_REWRITE_RECORD,
)
"""The points at which a crash could harm the rewrite of lost rows."""


COMPACTING_POINTS: Final = (
    FaultPoint.BEFORE_COMPACTION,
    FaultPoint.COMPACTOR_STAGED,
    FaultPoint.AFTER_COMPACTION,
    FaultPoint.BEFORE_DECISION,
    FaultPoint.AFTER_DECISION,
    FaultPoint.BEFORE_COMMIT,
    FaultPoint.AFTER_COMMIT,
    FaultPoint.AFTER_DONE,
    FaultPoint.BEFORE_SWEEP,
)
"""The points at which a crash could harm a compaction."""


SUCCESSORS: Final[Mapping[str, FaultPoint | None]] = {
    "reads": FaultPoint.READER_FETCHED,
    "writes": FaultPoint.AFTER_PREPARE,
    "decides": FaultPoint.BEFORE_DECISION,
    "commits": FaultPoint.BEFORE_COMMIT,
    "has ended": None,
}
"""The steps of a driver that takes over, at which a test can hold it."""
PLAN_FREEZES: Final = (
    FaultPoint.BEFORE_PLAN,
    FaultPoint.AFTER_PLAN,
    FaultPoint.AFTER_FEED,
)
"""Those of `READING_FREEZES` at which the driver plans."""
READER_FREEZES: Final = (
    FaultPoint.READER_STARTED,
    FaultPoint.READER_FETCHED,
    FaultPoint.BEFORE_REPORT,
    FaultPoint.AFTER_REPORT,
)
"""Those of `READING_FREEZES` at which readers read."""
READING_FREEZES: Final = (*PLAN_FREEZES, *READER_FREEZES)
"""The points at which a frozen driver could, after it resumes, harm the reads of its successor."""
UNDECIDED_FREEZES: Final = (
    FaultPoint.WRITER_WROTE,
    FaultPoint.BEFORE_PREPARE,
    FaultPoint.AFTER_PREPARE,
    FaultPoint.BEFORE_DECISION,
)
"""Those of `WRITING_FREEZES` after which a driver still has to decide."""
DECIDED_FREEZES: Final = (
    FaultPoint.AFTER_DECISION,
    FaultPoint.BEFORE_COMMIT,
    FaultPoint.AFTER_COMMIT,
    FaultPoint.AFTER_DONE,
    FaultPoint.BEFORE_SWEEP,
    FaultPoint.BEFORE_SPARK_COMMIT,
)
"""Those of `WRITING_FREEZES` after which a driver passes no fence until Spark commits its batch."""
WRITING_FREEZES: Final = (*UNDECIDED_FREEZES, *DECIDED_FREEZES)
"""The points at which a frozen driver could, after it resumes, harm the writes of its successor."""


class FaultAction(StrEnum):
    """The action of a fault at its point."""

    KILL = "kill"
    """The process kills itself with SIGKILL, so no handler and no `finally` runs."""
    KILL_DRIVER = "kill-driver"
    """The process that passes the point kills the driver with SIGKILL.

    Spark's JVM and running tasks survive for a moment. The driver first sets its process ID in
    `DRIVER_VARIABLE`.
    """
    KILL_EXECUTOR = "kill-executor"
    """SIGKILL ends the executor whose Python worker passes the point.

    This needs a cluster, because the executor of a local session is the driver's own JVM.
    """
    RAISE = "raise"
    """The process raises `FaultInjected`."""
    FREEZE_DRIVER = "freeze-driver"
    """SIGSTOP freezes the driver and its process group, including Spark's JVM.

    Any process that passes the point sends the signal. The driver resumes with SIGCONT and does not
    know that time passed. The driver first sets its process ID in `DRIVER_VARIABLE` and leads its
    own process group.
    """
    HANG = "hang"
    """The thread waits until the file `until` exists, or forever."""
    NO_SPACE = "no-space"
    """The state location is full.

    From now on, each write there gets ENOSPC in all processes, until the fault is removed. This
    fault needs a marker.
    """


@dataclass(frozen=True)
class Fault:
    """One fault at one point.

    Args:
        point: The point, from `FaultPoint` or one of the connector's own.
        action: The action at the point.
        nth: The pass of the point that triggers the fault, counted from 1. With a marker, all
            processes count together. Otherwise, each process counts separately.
        once: The marker file. The fault creates it and therefore happens only once across all
            processes and restarts. If two faults share a marker, only one of them happens.
        where: The labels that a pass needs to count, such as `{"subtask": 1}`.
        until: For `HANG`, the file that ends the wait when it appears.
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
        """Whether the fault has occurred. It needs a marker."""
        if self.once is None:
            raise ValueError("only a fault with a marker (once=...) knows whether it has happened")
        return os.path.exists(self.once)

    def to_json(self) -> dict[str, Any]:
        """Return the fault in the format of the environment variable."""
        shown: dict[str, Any] = {"action": self.action.value, "nth": self.nth}
        if self.once is not None:
            shown["once"] = os.fspath(self.once)
        if self.where:
            shown["where"] = {key: str(value) for key, value in self.where.items()}
        if self.until is not None:
            shown["until"] = os.fspath(self.until)
        return shown


def crash_chain(folder: Path, points: Sequence[str]) -> list[Fault]:
    """Return a kill of the driver at each point. Each run of a driver triggers one kill."""
    return [
        Fault(point, action=FaultAction.KILL_DRIVER, once=folder / f"fault-{number:02d}-{point}")
        for number, point in enumerate(points)
    ]


def faults_env(*faults: Fault) -> dict[str, str]:
    """Return the environment variable that injects faults into a subprocess.

    Args:
        *faults: The faults. Several faults can share a point.
    """
    return {ENVIRONMENT_VARIABLE: _to_json(faults)}


def faults_file_env(path: Path) -> dict[str, str]:
    """Return the environment variable that makes processes read their faults from a file.

    Use it for a Spark session and its workers, which start before a test injects faults.

    Args:
        path: The file, which :func:`injected` writes. None means no fault.
    """
    return {ENVIRONMENT_VARIABLE: f"{FILE_PREFIX}{path}"}


@contextlib.contextmanager
def injected(*faults: Fault) -> Iterator[None]:
    """Inject faults within the context.

    They occur in this process and in its subprocesses. If this process reads its faults from a file
    (:func:`faults_file_env`), they occur in all processes that read the file.
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
    """Write a complete file atomically, and remove it at the end of the context."""
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
