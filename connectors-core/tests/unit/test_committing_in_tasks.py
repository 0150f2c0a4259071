# SPDX-License-Identifier: Apache-2.0
"""Tests that tasks commit large epochs by the same rules as the driver."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_committing import QUICK, Part, Target, committer_of, decision, sink_decision
from toy_source import fresh_store

from connectors_core.engine.coordinator.epoch_committer import EpochCommitter
from connectors_core.engine.coordinator.plan_log import is_done
from connectors_core.engine.coordinator.topologies import check_topologies
from connectors_core.engine.execution.commit_task import (
    COMMIT_MESSAGES,
    commit_task,
)
from connectors_core.errors import (
    CommitError,
    ConfigurationError,
    DataLossError,
    ForeignError,
    RetryableError,
    UnsupportedError,
)
from connectors_core.sink import (
    CommitTasks,
    Committer,
    Sink,
    SupportsCommitTasks,
    SupportsLeases,
    SupportsRewriting,
)

THRESHOLD = 5
NAMES = [f"part-{number}" for number in range(12)]


class TaskTarget(Target, SupportsCommitTasks, SupportsRewriting):
    """A target whose tasks record what they commit; an action runs for each named part."""

    def __init__(self, actions=None, tasks=3):
        super().__init__()
        self.actions = dict(actions or {})
        self.tasks = tasks
        self.shares = []

    def commit_tasks(self):
        return CommitTasks(threshold=THRESHOLD, tasks=self.tasks)

    def create_task_committer(self, context):
        return InTask(self, context)


class InTask(Committer):
    def __init__(self, target, context):
        self.target, self.context = target, context

    def commit(self, requests):
        self.target.shares.append([each.committable.name for each in requests])
        for request in requests:
            action = self.target.actions.pop(request.committable.name, None)
            if action is not None:
                action(request)
            if request.outcome.name == "COMMITTED":
                self.target.committed[request.committable.name] += 1
                self.context.metric_group.inc("moved")

    def close(self):
        self.target.log.append(("closed in a task", None))


def run_tasks(task):
    """Run the tasks of a commit one after another; their results travel as bytes."""
    count = task.number_of_tasks(2)
    rows = COMMIT_MESSAGES.encode(*(commit_task(task, number, count) for number in range(count)))
    return [COMMIT_MESSAGES.decode(payload) for payload in rows["payload"].to_pylist()]


def committer_in_tasks(store=None, **sinks):
    return EpochCommitter(
        sinks,
        store=store or fresh_store(),
        pipeline_id="p",
        lease=committer_of()._lease,
        retries=QUICK,
        run_tasks=run_tasks,
    )


def counters(committer):
    return committer.committers["a"].metrics.counters


def test_tasks_share_a_large_epoch_and_the_driver_sweeps_it():
    target, store = TaskTarget(), fresh_store()
    committer = committer_in_tasks(store, a=target)
    committer.commit(decision(0, a=sink_decision(*NAMES)))
    assert target.committed == dict.fromkeys(NAMES, 1)
    assert sorted(len(share) for share in target.shares) == [4, 4, 4]
    assert len(target.of("closed in a task")) == 3
    assert target.of("commit") == []
    assert target.of("sweep") == [0]
    assert is_done(store, 0, "a")
    assert counters(committer)["successfulCommittables"] == 12
    assert (counters(committer)["commitTasks"], counters(committer)["moved"]) == (3, 12)


def test_the_driver_commits_a_small_epoch():
    target = TaskTarget()
    committer_in_tasks(a=target).commit(decision(0, a=sink_decision(*NAMES[: THRESHOLD - 1])))
    assert (target.shares, len(target.of("commit"))) == ([], 1)


def test_the_driver_commits_everything_where_nothing_runs_tasks():
    target = TaskTarget()
    committer_of(a=target).commit(decision(0, a=sink_decision(*NAMES)))
    assert (target.shares, len(target.of("commit"))) == ([], 1)


def test_only_what_asks_for_it_is_retried_with_its_new_content():
    rest = Part("rest")
    target = TaskTarget({NAMES[3]: lambda request: request.update_and_retry_later(rest)})
    committer_in_tasks(a=target).commit(decision(0, a=sink_decision(*NAMES)))
    assert target.shares[3:] == [["rest"]]
    assert sum(target.committed.values()) == len(NAMES)


def test_a_retryable_error_retries_the_whole_share_and_no_other():
    def busy(request):
        raise RetryableError("busy")

    target = TaskTarget({NAMES[3]: busy})  # the second of the first share
    committer_in_tasks(a=target).commit(decision(0, a=sink_decision(*NAMES)))
    assert sorted(name for share in target.shares[3:] for name in share) == sorted(NAMES[::3])
    assert target.committed == dict.fromkeys(NAMES, 1) | {NAMES[0]: 2}


def test_exhausted_retries_keep_the_reason():
    class AlwaysBusy(TaskTarget):
        def create_task_committer(self, context):
            return Busy()

    class Busy(Committer):
        def commit(self, requests):
            raise RetryableError("busy") from TimeoutError("no answer")

    with pytest.raises(CommitError, match="could not commit 12 committables") as caught:
        committer_in_tasks(a=AlwaysBusy()).commit(decision(0, a=sink_decision(*NAMES)))
    reason = caught.value.__cause__.__cause__
    assert isinstance(reason, RetryableError)
    assert isinstance(reason.__cause__, TimeoutError)


class OfTheExecutor(Exception):
    def __init__(self, one, two):
        super().__init__(one)


@pytest.mark.parametrize(
    ("error", "arrives_as"),
    [
        (DataLossError("staged file is gone"), DataLossError),
        (PermissionError("no"), PermissionError),
        (OfTheExecutor("a", "b"), ForeignError),
    ],
)
def test_a_failure_keeps_its_class_and_its_cause(error, arrives_as):
    error.__cause__ = OSError("the disk")
    target, store = TaskTarget({NAMES[7]: lambda r: r.signal_failed(error)}), fresh_store()
    committer = committer_in_tasks(store, a=target)
    with pytest.raises(CommitError, match="cannot commit Part") as caught:
        committer.commit(decision(0, a=sink_decision(*NAMES)))
    assert type(caught.value.__cause__) is arrives_as
    assert isinstance(caught.value.__cause__.__cause__, OSError)
    assert not is_done(store, 0, "a")
    assert counters(committer)["successfulCommittables"] == 11


def test_losses_and_repeated_commits_are_counted_as_on_the_driver():
    target = TaskTarget(
        {
            NAMES[0]: lambda request: request.signal_already_committed(),
            NAMES[1]: lambda request: request.signal_lost(),
        }
    )
    committer = committer_in_tasks(a=target)
    lost = committer.commit(decision(0, a=sink_decision(*NAMES, subtasks=12)))
    assert lost == {"a": frozenset({1})}
    assert counters(committer)["alreadyCommittedCommittables"] == 1


@given(st.integers(THRESHOLD, 50), st.integers(1, 60))
def test_every_committable_is_in_one_share(committables, tasks):
    names = [f"{number}" for number in range(committables)]
    target = TaskTarget(tasks=tasks)
    committer_in_tasks(a=target).commit(decision(0, a=sink_decision(*names)))
    assert target.committed == dict.fromkeys(names, 1)
    assert len(target.shares) == min(tasks, committables)


def test_a_committer_with_leases_does_not_commit_in_tasks():
    class Leasing(TaskTarget):
        def create_committer(self, context):
            return LeasingCommitter()

    class LeasingCommitter(Committer, SupportsLeases):
        def commit(self, requests):
            raise NotImplementedError

        def lease(self, checkpoint_id, number_of_writers):
            raise NotImplementedError

    with pytest.raises(UnsupportedError, match="a late task"):
        committer_in_tasks(a=Leasing())


def test_a_sink_with_nothing_to_commit_has_no_tasks_for_it():
    class Plain(Sink, SupportsCommitTasks):
        def create_writer(self, context):
            raise NotImplementedError

        def create_task_committer(self, context):
            raise NotImplementedError

    with pytest.raises(ConfigurationError, match="nothing to commit"):
        check_topologies(Plain(), "a")


def test_epochs_cannot_be_committed_in_no_tasks():
    with pytest.raises(ConfigurationError, match="the number of tasks that commit is out of range"):
        CommitTasks(tasks=0)
