# SPDX-License-Identifier: Apache-2.0
"""The shared tools of source and sink cases."""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol, TypeVar

import pytest

from connectors_core.clients.connection_check import SupportsConnectionCheck
from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.engine.query.status import PipelineState
from connectors_core.engine.state import StateStore
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
    DECIDED_FREEZES,
    Fault,
    FaultAction,
    FaultPoint,
    crash_chain,
    injected,
)
from connectors_core.testing.outages import OUTAGES, Outage, passing
from connectors_core.testing.pace import Deadline, stretched
from connectors_core.testing.system import RunningSystems, TestSystem
from connectors_core.testing.traces import assert_unseen, error_texts

DEADLINE: Final = 60.0
_DRIVER_SECONDS: Final = 120
_POLL: Final = 0.02
_CHECK_SECONDS: Final = 3.0
# A driver that takes over waits for the minimum time. The frozen driver has the usual expiry, so
# its lease still looks valid when it resumes. Only fences prevent damage.
_IMPATIENT: Final = timedelta(seconds=0.3)


WRONG_CLOCKS: Final = [-1, pytest.param(1, marks=pytest.mark.slow)]
"""Parameters of a case: the hours by which the wall clock of a driver is ahead."""


slow_on_spark: Final[pytest.MarkDecorator] = getattr(pytest.mark, SLOW_ON_SPARK)
"""Marks a case that only a full run executes on Spark."""


def in_full_on_spark(*values: Any) -> Any:
    """A parameter of a case that only a full run executes on Spark."""
    return pytest.param(*values, marks=slow_on_spark)


def outages(on_spark: Outage | None = None) -> list[Any]:
    """Parameters of a case: all outages. On Spark, a fast run executes only one of them."""
    return [each if each is on_spark else in_full_on_spark(each) for each in OUTAGES]


def time_for(drivers: int) -> pytest.MarkDecorator:
    """The time limit of a case that starts drivers one after another, even on a busy machine.

    Args:
        drivers: The number of drivers.
    """
    return pytest.mark.timeout(_DRIVER_SECONDS * drivers)


class _Closeable(Protocol):
    def close(self) -> None: ...


_Context = TypeVar("_Context", bound=_Closeable)


@contextlib.contextmanager
def open_contexts(
    external_context: Callable[[Path], _Context], root: Path
) -> Iterator[Callable[[str], _Context]]:
    """Offer the external systems of a case, and close them after it.

    Args:
        external_context: Returns a new system in a folder.
        root: The folder of the case.

    Yields:
        A function that returns a new system in a folder of this name.
    """
    with contextlib.ExitStack() as stack:

        def context(name: str) -> _Context:
            folder = root / name
            folder.mkdir()
            return stack.enter_context(contextlib.closing(external_context(folder)))

        yield context


class SystemSuite(ConnectorSuite):
    """A suite whose cases use an external system.

    Attributes:
        system: The system that all cases share, if it runs outside the test process.
        address: Its address while a case runs.
    """

    system: ClassVar[TestSystem | None] = None
    address: str = ""

    def system_class(self) -> type[TestSystem] | None:
        """Return the class of the system, whose module separate drivers import."""
        return None if self.system is None else type(self.system)

    def outage(self, outage: Outage) -> AbstractContextManager[threading.Event]:
        """Start an outage of the system that ends by itself. See `passing`."""
        return passing(self.system_with_outages().outage(self.address, outage))

    def late_first_responses(self) -> AbstractContextManager[None]:
        """Make the first response on each connection late. See `Outage.LATE`."""
        return self.system_with_outages().outage(self.address, Outage.LATE)

    def lost_response(self, nth: int) -> AbstractContextManager[threading.Event]:
        """Lose one response of the system. See `TestSystem.lost_response`."""
        return self.system_with_outages().lost_response(self.address, nth)

    def system_with_outages(self) -> TestSystem:
        """Return the system of the suite."""
        if self.system is None:
            raise NotImplementedError(f"{type(self).__name__} has no system with outages")
        return self.system

    def assert_named_in_time(self, part: object) -> None:
        """Check that a source or sink detects an unavailable system before the start of a pipeline.

        Raises:
            AssertionError: The error does not say that the system is unavailable, does not name it,
                or is too late.
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
        assert took < seconds + grace, (
            f"the check took {took:.1f} s, more than the timeout of {seconds:.1f} s"
        )
        if port := re.search(r":\d+$", self.address):
            assert port.group() in f"{part!r} {failure.value}", "the address is not named"

    @pytest.fixture(autouse=True)
    def _running_system(self, connector_systems: RunningSystems) -> None:
        if self.system is not None:
            self.address = connector_systems.address(self.system)


class PipelineSuite(SystemSuite):
    """A suite whose cases run pipelines.

    Attributes:
        seed: The seed of the test data, which a failure prints.
    """

    seed: int = 20_240_101

    @classmethod
    def possible(cls) -> Capabilities:
        """Return the capabilities of the connector in the environment."""
        environment = LocalSpark if cls.on_spark else InProcess
        return cls.capabilities | environment.capabilities

    @pytest.fixture
    def environment(self, request: pytest.FixtureRequest) -> TestEnvironment:
        """Return the environment of the pipelines."""
        if not self.on_spark:
            return InProcess()
        environment: TestEnvironment = request.getfixturevalue("spark_environment")
        return environment


def _run(job: Callable[[], None], _system: type[TestSystem] | None) -> None:
    job()


class Trial:
    """A case in progress: the environment of its pipelines, and how they end.

    Attributes:
        system: The class of the external system, whose module separate drivers import.
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

    @property
    def _store(self) -> StateStore:
        """The state of the first query of a pipeline."""
        return StateStore(str(self.location)).child("query-0")

    def epochs(self) -> list[int]:
        """Return the decided epochs."""
        return sorted(decisions_since(self._store, 0))

    def run_to_end(self, pipeline: Any, *, available_now: bool = False) -> None:
        """Run a pipeline to the end of its rows."""
        deadline = Deadline(self._seconds)
        ended = pipeline.run(available_now=available_now, timeout=self._seconds)
        assert ended or self._ends(pipeline, deadline), (
            f"the pipeline does not end within {deadline}"
        )

    def _ends(self, pipeline: Any, deadline: Deadline) -> bool:
        while left := deadline.left:
            if pipeline.await_termination(left):
                return True
        return False

    def go_through(
        self, pipeline: Any, outage: AbstractContextManager[threading.Event] | None
    ) -> Exception | None:
        """Run a bounded pipeline through an outage.

        A pipeline that is not running starts during it.

        Args:
            pipeline: The pipeline, which ends or fails.
            outage: The outage, or None if the pipeline itself causes it.

        Returns:
            The pipeline's error during or after the outage, or None if it ended normally.
        """
        try:
            with outage or contextlib.nullcontext():
                if pipeline.status().state is PipelineState.NOT_STARTED:
                    pipeline.start()
                deadline = Deadline(self._seconds)
                assert self._ends(pipeline, deadline), (
                    f"the pipeline does not end within {deadline}"
                )
        except AssertionError:
            raise
        except Exception as error:
            return error
        return None

    def run_to_failure(self, pipeline: Any, *, available_now: bool = False) -> BaseException:
        """Run a pipeline that must fail, and return its error."""
        with pytest.raises(Exception, match=r"(?s).+") as failure:
            self.run_to_end(pipeline, available_now=available_now)
        assert not isinstance(failure.value, AssertionError), failure.value
        return failure.value

    def wait(self, condition: Callable[[], bool], what: str, pipeline: Any) -> None:
        """Wait for a condition while a pipeline runs, and raise its error if it fails."""
        deadline = Deadline(self._seconds)
        ended = False
        while not condition():
            assert not ended, f"the pipeline ended without: {what}"
            assert not deadline.passed, f"not within {deadline}: {what}"
            ended = pipeline.await_termination(_POLL)

    def run_driver(self, job: Callable[[], None]) -> None:
        """Run a job to its end in a separate process."""
        assert run_driver(self._elsewhere(job), self._log) == 0, self._log_text()

    def look_for(
        self,
        secrets: Sequence[str],
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
        carrier: object,
        job: Callable[[], DriverJob],
    ) -> None:
        """Search for secrets in the output and files of a pipeline that fails and resumes.

        Args:
            secrets: The secrets.
            caplog: The captured logs.
            capfd: The captured output.
            carrier: The source or sink with the secrets.
            job: Creates the pipeline.
        """
        # At DEBUG level, this logger shows all data sent to the JVM, including the pickled secret.
        caplog.set_level(logging.INFO, logger="py4j")
        caplog.set_level(logging.DEBUG)  # last, because each call sets the level of the handler
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
        """Return a fault that kills one worker, the first one that passes a point."""
        marker = self.root / "killed"
        return Fault(point, action=self.environment.worker_death, once=marker)

    def kill_at_each(
        self,
        job: Callable[[], None],
        points: Sequence[str],
        assert_complete: Callable[[], None],
        *,
        fenced: bool = True,
    ) -> None:
        """Kill drivers at one point after another, and check for late duplicates at the end.

        Args:
            job: The job of all drivers.
            points: The points at which a driver dies.
            assert_complete: Checks the rows of all drivers.
            fenced: Whether a driver fences off the tasks of the driver before it. Otherwise, it
                starts after their end.
        """
        for number, fault in enumerate(crash_chain(self.root, points)):
            code = run_driver(self._elsewhere(job), self._log, fault)
            assert fault.fired, f"{number}: {fault.point} was not reached, {self._log_text()}"
            assert code == -signal.SIGKILL, f"{number}: {fault.point}: {code}, {self._log_text()}"
            if not fenced:
                wait_for_survivors(self._log)
        self.run_driver(job)
        assert_complete()
        wait_for_survivors(self._log)
        assert_complete()

    def run_out_of_space(self, job: DriverJob, point: str) -> None:
        """Fill the state storage at a point, at which this driver and the next one fail."""
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
        """Run a pipeline that fails at its third pass of a point."""
        fault = Fault(point, action=FaultAction.RAISE, nth=3, once=self.root / "failed")
        with injected(fault), job.build(self.environment) as pipeline:
            self.run_to_failure(pipeline)
        assert fault.fired

    def lose_state(self, job: DriverJob, *lost: tuple[str, int]) -> None:
        """Start without one state file after another, and restore each before the next start.

        Args:
            job: The pipeline.
            *lost: The folder of a file, and the file's index in the order of that folder.
        """
        for folder, place in lost:
            file = sorted((self.location / "query-0" / folder).glob("[0-9]*.json"))[place]
            aside = file.rename(self.root / file.name)
            with pytest.raises(StateCorruptedError), job.build(self.environment) as pipeline:
                self.run_to_end(pipeline)
            aside.rename(file)

    def kill_with_wrong_clock(self, job: DriverJob, hours: int) -> None:
        """Kill a driver whose wall clock is ahead, after its decision and before its commit."""
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
        """Freeze a driver at a point, let another one take over, and resume the first one.

        Args:
            job: The pipeline of both drivers.
            point: The point at which the first driver freezes.
            during: The point of its successor at which it resumes, or None for the successor's end.
            assert_rows: Checks the rows of both drivers, and of a third one after them.
            *more: Further faults of the first driver.
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
        """Run both drivers of `take_over_from_frozen` to their ends.

        Returns:
            The error of the successor if the former driver wrote to Spark's log, which has no
            fence. None if the successor ended normally.
        """
        frozen = Fault(point, action=FaultAction.FREEZE_DRIVER, once=self.root / "frozen")
        held = Fault(
            during or "", action=FaultAction.HANG, once=self.root / "held", until=self.root / "go"
        )
        with running_driver(self._elsewhere(job), self._log, *more, frozen) as former:
            deadline = Deadline(self._seconds)
            while not (frozen.fired and is_frozen(former)):
                assert former.is_alive(), f"{point} was not reached, {self._log_text()}"
                assert not deadline.passed, f"{point} not reached within {deadline}"
                time.sleep(_POLL)
            with (
                injected(*([held] if during else [])),
                ThreadPoolExecutor(1) as pool,
                job.build(self.environment, lease_expiry=_IMPATIENT) as successor,
            ):
                ended = pool.submit(self.run_to_end, successor)  # it may be held during its start
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
                    if point not in DECIDED_FREEZES or "wrote to Spark's log" not in str(error):
                        raise
                    return error
        return None

    def _wait_for_end(self, driver: BaseProcess) -> None:
        seconds = stretched(self._seconds)
        driver.join(seconds)
        if driver.is_alive():
            abort(driver)
            pytest.fail(f"the driver does not end within {seconds:.1f} s, {self._log_text()}")

    def _elsewhere(self, job: Callable[[], None]) -> Callable[[], None]:
        """Return the job for a separate driver, which imports the module of the system."""
        return functools.partial(_run, job, self.system)

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
