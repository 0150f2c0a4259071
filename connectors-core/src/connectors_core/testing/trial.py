# SPDX-License-Identifier: Apache-2.0
"""The shared tools of source and sink cases."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.engine.query.status import PipelineState
from connectors_core.errors import ConnectorError, RetryableError, StateCorruptedError
from connectors_core.testing.capabilities import Capabilities
from connectors_core.testing.cases import SLOW_ON_SPARK, ConnectorSuite
from connectors_core.testing.driver import (
    DriverJob,
    abort,
    is_frozen,
    resume,
    run_driver,
    running_driver,
    wait_for_survivors,
)
from connectors_core.testing.environment import InProcess, LocalSpark, TestEnvironment
from connectors_core.testing.faults import (
    SUCCESSORS,
    WRITING_FREEZES,
    Fault,
    FaultAction,
    FaultPoint,
    crash_chain,
    injected,
)
from connectors_core.testing.outages import Outage, passing
from connectors_core.testing.pace import Deadline, stretched
from connectors_core.testing.system import RunningSystems, TestSystem
from connectors_core.testing.traces import assert_unseen, error_texts

DEADLINE: Final = 60.0
_POLL: Final = 0.02
_CHECK_SECONDS: Final = 3.0
# A driver that takes over waits no longer than it must. The frozen one has the usual expiry, so its
# lease looks good to it when it resumes: only fences keep it from harm.
_IMPATIENT: Final = timedelta(seconds=0.3)
# A driver that resumes at one of these points passes no fence before Spark commits its batch.
_UNFENCED: Final = WRITING_FREEZES[WRITING_FREEZES.index(FaultPoint.AFTER_DECISION) :]


WRONG_CLOCKS: Final = [-1, pytest.param(1, marks=pytest.mark.slow)]
"""Parameters of a case: by how many hours the wall clock of a driver is ahead."""


slow_on_spark: Final[pytest.MarkDecorator] = getattr(pytest.mark, SLOW_ON_SPARK)
"""Marks a case that only a full run has on Spark."""


def in_full_on_spark(*values: Any) -> Any:
    """A parameter of a case that only a full run has on Spark."""
    return pytest.param(*values, marks=slow_on_spark)


def outages(on_spark: Outage | None = None) -> list[Any]:
    """Parameters of a case: all outages, of which only one is not left to a full run on Spark."""
    return [each if each is on_spark else in_full_on_spark(each) for each in Outage]


def meetings(points: Iterable[FaultPoint], always: Collection[tuple[FaultPoint, str]]) -> list[Any]:
    """Parameters of a case of two drivers: where one froze, and what the other does meanwhile.

    Args:
        points: Where it may have frozen.
        always: The pairs that every run has; the others are slow.
    """
    return [
        pytest.param(point, what, marks=() if (point, what) in always else pytest.mark.slow)
        for point, what in itertools.product(points, SUCCESSORS)
    ]


class SystemSuite(ConnectorSuite):
    """A suite whose cases work against an external system.

    Attributes:
        system: The one that all cases share, if there is one beside the test process.
        address: Its address, while a case runs.
    """

    system: ClassVar[TestSystem | None] = None
    address: str = ""

    def outage(self, outage: Outage) -> AbstractContextManager[threading.Event]:
        """An outage of the system that begins here and passes by itself; see `passing`."""
        if self.system is None:
            raise NotImplementedError(f"{type(self).__name__} names no system that has outages")
        return passing(self.system.outage(self.address, outage))

    def assert_named_in_time(self, part: object) -> None:
        """A source or sink sees whether its system is there, as a pipeline asks before it starts.

        Raises:
            AssertionError: It does not say that the system is gone, not which, or too late.
        """
        if not isinstance(part, SupportsConnectionCheck):
            pytest.skip(f"{type(part).__name__} has no check_connection")
        if self.system is None:
            pytest.skip("the suite names no system")
        seconds, grace = stretched(_CHECK_SECONDS), stretched(1.0)
        part.check_connection(seconds)
        began = time.monotonic()
        with (
            self.system.outage(self.address, Outage.STOPPED),
            pytest.raises(ConnectorError) as failure,
        ):
            part.check_connection(seconds)
        took = time.monotonic() - began
        assert took < seconds + grace, f"it took {took:.1f} s of {seconds:.1f} s"
        if port := re.search(r":\d+$", self.address):
            assert port.group() in f"{part!r} {failure.value}", "the address is not named"

    @pytest.fixture(autouse=True)
    def _running_system(self, connector_systems: RunningSystems) -> None:
        if self.system is not None:
            self.address = connector_systems.address(self.system)


class PipelineSuite(SystemSuite):
    """A suite whose cases run pipelines.

    Attributes:
        seed: Of the test data; printed with a failure.
    """

    seed: int = 20_240_101

    @classmethod
    def possible(cls) -> Capabilities:
        """What the connector and the environment can do."""
        environment = LocalSpark if cls.on_spark else InProcess
        return cls.capabilities | environment.capabilities

    @pytest.fixture
    def environment(self, request: pytest.FixtureRequest) -> TestEnvironment:
        """Where the pipelines run."""
        if not self.on_spark:
            return InProcess()
        environment: TestEnvironment = request.getfixturevalue("spark_environment")
        return environment


def _run(job: DriverJob, _system: type[TestSystem] | None) -> None:
    job()


class Trial:
    """One case at work: where its pipelines run, and how they end.

    Attributes:
        system: The kind of the external system, whose module drivers of their own import.
    """

    def __init__(self, environment: TestEnvironment, root: Path, seed: int) -> None:
        self.environment = environment
        self.root = root
        self.location = root / "checkpoint"
        self._log = root / "driver.log"
        self._seed = seed
        self._seconds = DEADLINE * environment.patience
        self.system: type[TestSystem] | None = None
        print(f"seed of the test data: {seed}, environment: {environment.name}")

    def run_to_end(self, pipeline: Any, *, available_now: bool = False) -> None:
        """Run a pipeline to the end of its rows."""
        deadline = Deadline(self._seconds)
        ended = pipeline.run(available_now=available_now, timeout=self._seconds)
        assert ended or self._ends(pipeline, deadline), f"it does not end within {deadline}"

    def _ends(self, pipeline: Any, deadline: Deadline) -> bool:
        while left := deadline.left:
            if pipeline.await_termination(left):
                return True
        return False

    def go_through(
        self, pipeline: Any, outage: AbstractContextManager[threading.Event] | None
    ) -> Exception | None:
        """Let an outage pass over a bounded pipeline, which is started in it if it does not run.

        Args:
            pipeline: It comes to its end, or fails.
            outage: None where the pipeline itself brings it.

        Returns:
            What the pipeline failed with, in the outage or behind it; None if it came to its end.
        """
        try:
            with outage or contextlib.nullcontext():
                if pipeline.status().state is PipelineState.NOT_STARTED:
                    pipeline.start()
                deadline = Deadline(self._seconds)
                assert self._ends(pipeline, deadline), f"it does not end within {deadline}"
        except AssertionError:
            raise
        except Exception as error:
            return error
        return None

    def run_to_failure(self, pipeline: Any) -> BaseException:
        """Run a pipeline that must fail, and return why it did."""
        with pytest.raises(Exception, match=r"(?s).+") as failure:
            self.run_to_end(pipeline)
        assert not isinstance(failure.value, AssertionError), failure.value
        return failure.value

    def wait(self, condition: Callable[[], bool], what: str, pipeline: Any) -> None:
        """Wait for something while a pipeline runs; a failure of it is raised."""
        deadline = Deadline(self._seconds)
        while not condition():
            assert not deadline.passed, f"not within {deadline}: {what}"
            pipeline.await_termination(_POLL)

    def run_driver(self, job: DriverJob) -> None:
        """Run a pipeline to its end in a process of its own."""
        assert run_driver(self._elsewhere(job), self._log) == 0, self._log_text()

    def look_for(
        self,
        secrets: Sequence[str],
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
        carrier: object,
        job: Callable[[], DriverJob],
    ) -> None:
        """Look for secrets in all that a pipeline that fails, and goes on, shows and writes.

        Args:
            secrets: The secrets.
            caplog: Takes the logs.
            capfd: Takes the output.
            carrier: The source or sink that was given the secrets.
            job: Makes the pipeline.
        """
        assert secrets, "the context names no secret"
        # What this one says at DEBUG is all that goes to the JVM, the pickled secret among it.
        caplog.set_level(logging.INFO, logger="py4j")
        caplog.set_level(logging.DEBUG)  # at last: each call sets the level of what is kept
        seen = [repr(carrier), str(carrier)]
        fault = Fault(
            FaultPoint.AFTER_DECISION, action=FaultAction.RAISE, once=self.root / "failed"
        )
        with injected(fault), job().build(self.environment) as pipeline:
            seen += error_texts(self.run_to_failure(pipeline))
            seen.append(repr(pipeline.status()))
        with job().build(self.environment) as pipeline:
            self.run_to_end(pipeline)
            seen.append(repr(pipeline.status()))
        assert_unseen(secrets, [*seen, caplog.text, *capfd.readouterr()], self.location)

    def death_of_a_worker(self, point: str) -> Fault:
        """The kill of one worker, the first that passes a point."""
        marker = self.root / "killed"
        return Fault(point, action=self.environment.worker_death, once=marker)

    def kill_at_each(
        self, job: DriverJob, points: Sequence[str], assert_complete: Callable[[], None]
    ) -> None:
        """Kill a driver at point after point, let the last one end, look for late duplicates."""
        for number, fault in enumerate(crash_chain(self.root, points)):
            code = run_driver(self._elsewhere(job), self._log, fault)
            assert fault.fired, f"{number}: {fault.point} was not reached, {self._log_text()}"
            assert code == -signal.SIGKILL, f"{number}: {fault.point}: {code}, {self._log_text()}"
        self.run_driver(job)
        assert_complete()
        wait_for_survivors(self._log)
        assert_complete()

    def run_out_of_space(self, job: DriverJob, point: str) -> None:
        """Fill the storage of the state at a point: this driver and the next one fail."""
        fault = Fault(point, action=FaultAction.NO_SPACE, nth=2, once=self.root / "full")
        with injected(fault):
            for _ in range(2):
                with (
                    pytest.raises(ConnectorError) as failure,
                    job.build(self.environment) as pipeline,
                ):
                    self.run_to_end(pipeline)
                told = "".join(error_texts(failure.value))
                assert os.strerror(errno.ENOSPC) in told, f"the cause is lost: {failure.value}"
        assert fault.fired

    def fail_at(self, job: DriverJob, point: str) -> None:
        """Run a pipeline that fails when it passes a point for the third time."""
        fault = Fault(point, action=FaultAction.RAISE, nth=3, once=self.root / "failed")
        with injected(fault), job.build(self.environment) as pipeline:
            self.run_to_failure(pipeline)
        assert fault.fired

    def lose_state(self, job: DriverJob, *lost: tuple[str, int]) -> None:
        """Start without one file of the state after another; each is back for the next.

        Args:
            job: The pipeline.
            *lost: Folder of the file, and its place in the order of that folder.
        """
        for folder, place in lost:
            file = sorted((self.location / "query-0" / folder).glob("[0-9]*.json"))[place]
            aside = file.rename(self.root / file.name)
            with pytest.raises(StateCorruptedError), job.build(self.environment) as pipeline:
                self.run_to_end(pipeline)
            aside.rename(file)

    def kill_with_wrong_clock(self, job: DriverJob, hours: int) -> None:
        """Kill a driver whose wall clock is ahead when it has decided and not committed."""
        fault = Fault(
            FaultPoint.AFTER_DECISION,
            action=FaultAction.KILL_DRIVER,
            nth=2,
            once=self.root / "killed",
        )
        wrong = replace(job, clock_ahead=timedelta(hours=hours))
        code = run_driver(self._elsewhere(wrong), self._log, fault)
        assert fault.fired, self._log_text()
        assert code == -signal.SIGKILL, f"{code}, {self._log_text()}"

    def take_over_from_frozen(
        self,
        job: DriverJob,
        point: str,
        during: str | None,
        assert_rows: Callable[[], None],
        *more: Fault,
    ) -> None:
        """Freeze a driver at a point, let another take over, resume the first one.

        Args:
            job: The pipeline of both.
            point: Where the first one freezes.
            during: Where its successor is when it resumes; None: at its end.
            assert_rows: Looks at what both have written, and a third one after them.
            *more: What else happens to the first one.
        """
        if self.meet_frozen(job, point, during, *more) is not None:
            with job.build(self.environment) as again:
                self.run_to_end(again)
        assert_rows()
        with job.build(self.environment) as third:
            self.run_to_end(third)
        wait_for_survivors(self._log)
        assert_rows()

    def meet_frozen(
        self, job: DriverJob, point: str, during: str | None, *more: Fault
    ) -> RetryableError | None:
        """As `take_over_from_frozen`, to the end of both drivers.

        Returns:
            What the successor failed with because the former one wrote to Spark's log, which has no
            fence; None if it came to its end.
        """
        frozen = Fault(point, action=FaultAction.FREEZE_DRIVER, once=self.root / "frozen")
        held = Fault(
            during or "", action=FaultAction.HANG, once=self.root / "held", until=self.root / "go"
        )
        with running_driver(self._elsewhere(job), self._log, *more, frozen) as former:
            deadline = Deadline(self._seconds)
            while not (frozen.fired and is_frozen(former)):
                assert former.poll() is None, f"{point} was not reached, {self._log_text()}"
                assert not deadline.passed, f"{point} not reached within {deadline}"
                time.sleep(_POLL)
            with (
                injected(*([held] if during else [])),
                ThreadPoolExecutor(1) as pool,
                job.build(self.environment, lease_expiry=_IMPATIENT) as successor,
            ):
                ended = pool.submit(self.run_to_end, successor)  # it may be held while it starts
                while not ended.done() and not (during and held.fired):
                    time.sleep(_POLL)
                try:
                    resume(former)
                    self._wait_for_end(former)
                finally:
                    (self.root / "go").touch()
                try:
                    ended.result()
                except RetryableError as error:
                    if point not in _UNFENCED or "wrote to Spark's log" not in str(error):
                        raise
                    return error
        return None

    def _wait_for_end(self, driver: subprocess.Popen[bytes]) -> None:
        seconds = stretched(self._seconds)
        try:
            driver.wait(seconds)
        except subprocess.TimeoutExpired:
            abort(driver)
            pytest.fail(f"the driver does not end within {seconds:.1f} s, {self._log_text()}")

    def _elsewhere(self, job: DriverJob) -> Callable[[], None]:
        """The job as a driver of its own gets it: with the module of the system, imported there."""
        return functools.partial(_run, job, self.system)

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
