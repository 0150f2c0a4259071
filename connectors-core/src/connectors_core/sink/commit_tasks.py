# SPDX-License-Identifier: Apache-2.0
"""Commits in Spark tasks, for epochs of many committables (the committers of Flink's FLIP-191)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic

from connectors_core.errors import ConfigurationError
from connectors_core.sink.committer import Committer, CommitterInitContext
from connectors_core.sink.messages import CommT

DEFAULT_COMMIT_TASKS_THRESHOLD: Final = 1000


@dataclass(frozen=True, kw_only=True)
class CommitTasks:
    """The size of epochs that Spark tasks commit, and the number of these tasks.

    Attributes:
        threshold: The number of committables of an epoch from which tasks commit them. The driver
            commits smaller epochs, because a Spark job costs more than a few commits.
        tasks: Maximum number of tasks; None for Spark's default parallelism.

    Raises:
        ConfigurationError: There are no tasks.
    """

    threshold: int = DEFAULT_COMMIT_TASKS_THRESHOLD
    tasks: int | None = None

    def __post_init__(self) -> None:
        if self.tasks is not None and self.tasks < 1:
            raise ConfigurationError(
                "the number of tasks that commit is out of range",
                expected="at least 1, or None for Spark's default parallelism",
                found=self.tasks,
            )


class SupportsCommitTasks(ABC, Generic[CommT]):
    """Ability of a two-phase sink: Spark tasks commit the committables of a large epoch.

    The driver decides on the epoch, and sweeps and recovers as always. Each task commits a share of
    the committables, in one call, and returns the results. Retries, losses, and failures follow the
    same rules as on the driver.

    Spark reruns a task if its executor dies, and may run copies of it. Two tasks can therefore
    commit a committable at the same time, and a killed task can still commit after the epoch is
    committed and swept. Both must be harmless, which excludes committers that lease resources to
    writers.
    """

    def commit_tasks(self) -> CommitTasks | None:
        """Return the settings of commits in tasks; None if only the driver commits. Driver."""
        return CommitTasks()

    def commit_tasks_of(self, committables: Sequence[CommT]) -> Sequence[CommitTasks | None]:
        """Return the settings for each committable of an epoch. Driver.

        The driver commits those without settings. The others count together: tasks commit those
        whose threshold they reach.

        Args:
            committables: The committables.
        """
        return [self.commit_tasks()] * len(committables)

    @abstractmethod
    def create_task_committer(self, context: CommitterInitContext) -> Committer[CommT]:
        """Create a committer for one attempt of a task. Executor.

        The core calls :meth:`~connectors_core.sink.Committer.commit` once, and then
        :meth:`~connectors_core.sink.Committer.close`.
        """
