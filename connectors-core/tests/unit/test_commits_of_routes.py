# SPDX-License-Identifier: Apache-2.0
"""Tests of commits in tasks, and of steps after the commits, for the sinks of routes."""

from __future__ import annotations

import pytest
from test_committing import QUICK, HeldLease, Target, decision, sink_decision
from test_committing_in_tasks import InTask, run_tasks
from toy_source import fresh_store

from connectors_core.engine.coordinator.epoch_committer import EpochCommitter
from connectors_core.engine.execution.routes import RouteSinks
from connectors_core.engine.protocol import SinkDecision
from connectors_core.errors import CommitError, DataLossError, RetryableError, UnsupportedError
from connectors_core.sink import (
    ColumnRouter,
    CommitTasks,
    DemultiplexingSink,
    SupportsCommitTasks,
    committables_of,
)


class TaskRoute(Target, SupportsCommitTasks):
    """A target of a route. Its step after the commits fails with these errors first."""

    def __init__(self, tasks=None, errors=(), actions=None):
        super().__init__()
        self.settings, self.errors, self.actions = tasks, list(errors), dict(actions or {})
        self.shares = []

    def commit_tasks(self):
        return self.settings

    def create_task_committer(self, context):
        self.log.append(("in a task", context.sink_uid))
        return InTask(self, context)

    def add_post_commit_topology(self, messages):
        if self.errors:
            raise self.errors.pop(0)
        self.posted.append([each.name for each in committables_of(messages)])


def commit(counts, **sinks):
    """Commit an epoch with a number of committables for each route."""
    sink = DemultiplexingSink(ColumnRouter("at", sinks.get))
    known = RouteSinks(sink)
    own = {
        route: sink_decision(*(f"{route}-{number}" for number in range(count))).committables
        for route, count in counts.items()
    }
    routed = tuple(known.put_on(route, each) for route, all_ in own.items() for each in all_)
    committer = EpochCommitter(
        {"out": sink},
        store=fresh_store(),
        pipeline_id="p",
        lease=HeldLease(),
        retries=QUICK,
        run_tasks=run_tasks,
    )
    committer.commit(decision(0, out=SinkDecision(committables=routed, number_of_subtasks=1)))
    for route, count in counts.items():
        names = [f"{route}-{number}" for number in range(count)]
        assert sinks[route].committed == dict.fromkeys(names, 1)
    return committer.committers["out"].metrics.counters


def test_tasks_commit_what_routes_have_together_and_the_driver_commits_the_rest():
    many = {name: TaskRoute(CommitTasks(threshold=6, tasks=3)) for name in "abc"}
    plain, driver_only, later = Target(), TaskRoute(), TaskRoute(CommitTasks(threshold=9))
    counters = commit(
        {"a": 2, "b": 2, "c": 2, "plain": 5, "driver": 5, "later": 2},
        **many,
        plain=plain,
        driver=driver_only,
        later=later,
    )
    for sink in many.values():
        assert sink.shares
        assert sink.of("commit") == []
        assert sink.of("sweep") == [0]
    for sink in (plain, driver_only, later):
        assert len(sink.of("commit")) == 1
    assert driver_only.shares == later.shares == []
    assert counters["commitTasks"] == 3
    assert counters["moved"] == 6
    assert counters["successfulCommittables"] == 18


def test_the_committer_of_a_task_has_the_uid_of_its_route():
    a, b = TaskRoute(CommitTasks(threshold=1)), TaskRoute(CommitTasks(threshold=1))
    commit({"a": 3, "b": 3}, a=a, b=b)
    (own,), (other,) = set(a.of("in a task")), set(b.of("in a task"))
    assert own != other
    assert own.startswith("out.")


def test_only_the_route_that_asks_for_it_is_retried_in_tasks():
    def busy(request):
        raise RetryableError("busy")

    a = TaskRoute(CommitTasks(threshold=1, tasks=1), actions={"a-0": busy})
    b = TaskRoute(CommitTasks(threshold=1, tasks=1))
    commit({"a": 2, "b": 2}, a=a, b=b)
    assert a.shares == [["a-0", "a-1"]] * 2
    assert b.shares == [["b-0", "b-1"]]


def test_a_failure_in_a_task_keeps_its_cause():
    lost = TaskRoute(
        CommitTasks(threshold=1), actions={"a-1": lambda r: r.signal_failed(DataLossError("gone"))}
    )
    with pytest.raises(CommitError, match="cannot commit Routed") as caught:
        commit({"a": 2}, a=lost)
    assert isinstance(caught.value.__cause__, DataLossError)


def test_the_step_after_the_commits_of_a_route_gets_its_committables():
    a, b = TaskRoute(), TaskRoute()
    commit({"a": 2, "b": 1}, a=a, b=b)
    assert (a.posted, b.posted) == ([["a-0", "a-1"]], [["b-0"]])


def test_only_the_step_that_is_not_finished_is_repeated():
    a, b = TaskRoute(errors=[RetryableError("later")]), TaskRoute()
    commit({"a": 1, "b": 1}, a=a, b=b)
    assert (a.posted, b.posted) == ([["a-0"]], [["b-0"]])


def test_a_step_that_is_never_finished_fails_and_names_its_route():
    late = TaskRoute(errors=[RetryableError("later")] * QUICK.attempts)
    with pytest.raises(CommitError, match="after the commits of epoch 0 for route 'a'"):
        commit({"a": 1}, a=late)


def test_a_sink_without_routes_is_refused():
    with pytest.raises(UnsupportedError, match="Target has no routes"):
        RouteSinks(Target())
