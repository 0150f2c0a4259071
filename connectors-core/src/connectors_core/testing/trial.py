# SPDX-License-Identifier: Apache-2.0
"""What a case of a source and a case of a sink have in common."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from connectors_core.testing.capabilities import Capabilities
from connectors_core.testing.cases import SLOW_ON_SPARK, ConnectorSuite
from connectors_core.testing.driver import DriverJob, run_driver, wait_for_survivors
from connectors_core.testing.environment import InProcess, LocalSpark, TestEnvironment
from connectors_core.testing.faults import (
    Fault,
    FaultAction,
    FaultPoint,
    crash_chain,
    injected,
)
from connectors_core.testing.system import RunningSystems, TestSystem
from connectors_core.testing.traces import assert_unseen, error_texts

DEADLINE: Final = 60.0
_POLL: Final = 0.02


slow_on_spark: Final[pytest.MarkDecorator] = getattr(pytest.mark, SLOW_ON_SPARK)
"""Marks a case that only a full run has on Spark."""


def in_full_on_spark(*values: Any) -> Any:
    """A parameter of a case that only a full run has on Spark."""
    return pytest.param(*values, marks=slow_on_spark)


class SystemSuite(ConnectorSuite):
    """A suite whose cases work against an external system.

    Attributes:
        system: The one that all cases share, if there is one beside the test process.
        address: Its address, while a case runs.
    """

    system: ClassVar[TestSystem | None] = None
    address: str = ""

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


class Trial:
    """One case at work: where its pipelines run, and how they end."""

    def __init__(self, environment: TestEnvironment, root: Path, seed: int) -> None:
        self.environment = environment
        self.root = root
        self.location = root / "checkpoint"
        self._log = root / "driver.log"
        self._seed = seed
        self._seconds = DEADLINE * environment.patience
        print(f"seed of the test data: {seed}, environment: {environment.name}")

    def run_to_end(self, pipeline: Any, *, available_now: bool = False) -> None:
        """Run a pipeline to the end of its rows."""
        ended = pipeline.run(available_now=available_now, timeout=self._seconds)
        assert ended, f"it does not end within {self._seconds:.0f} s"

    def run_to_failure(self, pipeline: Any) -> BaseException:
        """Run a pipeline that must fail, and return why it did."""
        with pytest.raises(Exception, match=r"(?s).+") as failure:
            self.run_to_end(pipeline)
        assert not isinstance(failure.value, AssertionError), failure.value
        return failure.value

    def wait(self, condition: Callable[[], bool], what: str, pipeline: Any) -> None:
        """Wait for something while a pipeline runs; a failure of it is raised."""
        deadline = time.monotonic() + self._seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {self._seconds:.0f} s: {what}"
            pipeline.await_termination(_POLL)

    def run_driver(self, job: DriverJob) -> None:
        """Run a pipeline to its end in a process of its own."""
        assert run_driver(job, self._log) == 0, self._log_text()

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
            code = run_driver(job, self._log, fault)
            assert fault.fired, f"{number}: {fault.point} was not reached, {self._log_text()}"
            assert code == -signal.SIGKILL, f"{number}: {fault.point}: {code}, {self._log_text()}"
        self.run_driver(job)
        assert_complete()
        wait_for_survivors(self._log)
        assert_complete()

    def _log_text(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]
