# SPDX-License-Identifier: Apache-2.0
"""Tests that decided epochs are committed, each committable once, despite any failure."""

import threading
from collections import Counter
from dataclasses import dataclass

import pytest
from decisions import a_decision
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_source import fresh_store

from connectors_core.engine.coordinator.epoch_committer import CommitRetries, EpochCommitter
from connectors_core.engine.coordinator.plan_log import decisions_since, is_done, newest_decision
from connectors_core.engine.protocol import (
    DECISIONS,
    DecidedCommittable,
    SinkDecision,
    Versioned,
    decision_path,
)
from connectors_core.errors import (
    CommitError,
    DataLossError,
    InvalidOptionError,
    LeaseError,
    RetryableError,
)
from connectors_core.serialization import JsonDataclassSerializer
from connectors_core.sink import (
    CommittableSummary,
    Committer,
    Sink,
    SupportsLeases,
    SupportsPostCommitTopology,
    TwoPhaseCommittingSink,
)

DEADLINE = 10.0
QUICK = CommitRetries(attempts=4, initial_seconds=0.0, max_seconds=0.0)


@dataclass(frozen=True)
class Part:
    name: str


class Target(TwoPhaseCommittingSink, SupportsPostCommitTopology):
    """A sink whose committer follows a script for its first calls and then commits."""

    def __init__(self, *script, parallelism=1):
        self.script = list(script)
        self.parallelism = parallelism
        self.log = []
        self.committed = Counter()
        self.posted = []

    def create_writer(self, context):
        raise NotImplementedError

    def create_committer(self, context):
        self.log.append("created")
        return TargetCommitter(self)

    def committable_serializer(self):
        return JsonDataclassSerializer(Part)

    def committer_parallelism(self):
        return self.parallelism

    def add_post_commit_topology(self, messages):
        self.posted.append(list(messages))

    def of(self, kind):
        return [each[1] for each in self.log if each[0] == kind]


class TargetCommitter(Committer):
    def __init__(self, target):
        self.target = target

    def commit(self, requests):
        tries = [(r.committable.name, r.number_of_retries) for r in requests]
        self.target.log.append(("commit", tries))
        action = self.target.script.pop(0) if self.target.script else lambda requests: None
        action(requests)
        for request in requests:
            if request.outcome.name == "COMMITTED":
                self.target.committed[request.committable.name] += 1

    def sweep(self, checkpoint_id):
        self.target.log.append(("sweep", checkpoint_id))

    def recover(self, last_decided):
        self.target.log.append(("recover", last_decided))

    def close(self):
        self.target.log.append(("close", None))


def sink_decision(*names, subtasks=1):
    serializer = JsonDataclassSerializer(Part)
    return SinkDecision(
        committables=tuple(
            DecidedCommittable(
                subtask=number % subtasks,
                committable=Versioned(
                    version=serializer.version, data=serializer.serialize(Part(name))
                ),
            )
            for number, name in enumerate(names)
        ),
        number_of_subtasks=subtasks,
    )


def decision(epoch, **sinks):
    return a_decision(epoch, sinks=sinks)


class HeldLease:
    """A lease, reduced to what a committer uses."""

    incarnation = 1
    held = True

    def check(self):
        if not self.held:
            raise LeaseError("this driver no longer holds the lease")

    confirm = check


def committer_of(store=None, retries=QUICK, lease=None, **sinks):
    return EpochCommitter(
        sinks,
        store=store or fresh_store(),
        pipeline_id="p",
        lease=lease or HeldLease(),
        retries=retries,
    )


def test_an_epoch_is_committed_then_marked_then_swept():
    target, store = Target(), fresh_store()
    committer = committer_of(store, a=target)
    committer.commit(decision(3, a=sink_decision("x", "y", subtasks=2)))
    assert target.committed == {"x": 1, "y": 1}
    assert is_done(store, 3, "a")
    assert target.of("sweep") == [3]
    first, x, second, y = target.posted[0]
    assert isinstance(first, CommittableSummary)
    assert (first.number_of_committables, first.number_of_pending_committables) == (1, 0)
    assert (first.subtask_id, x.committable.name, second.subtask_id, y.committable.name) == (
        0,
        "x",
        1,
        "y",
    )
    assert committer.committers["a"].metrics.counters["successfulCommittables"] == 2


def test_only_committables_that_ask_for_a_retry_are_retried():
    target = Target(lambda requests: requests[1].retry_later())
    committer_of(a=target).commit(decision(0, a=sink_decision("x", "y", "z")))
    assert target.of("commit") == [[("x", 0), ("y", 0), ("z", 0)], [("y", 1)]]
    assert target.committed == {"x": 1, "y": 1, "z": 1}


def test_an_updated_committable_is_retried_with_its_new_content():
    target = Target(lambda requests: requests[0].update_and_retry_later(Part("rest of x")))
    committer_of(a=target).commit(decision(0, a=sink_decision("x")))
    assert target.of("commit") == [[("x", 0)], [("rest of x", 1)]]


def test_already_committed_committables_are_counted_separately():
    target = Target(lambda requests: requests[0].signal_already_committed())
    committer = committer_of(a=target)
    committer.commit(decision(0, a=sink_decision("x", "y")))
    counters = committer.committers["a"].metrics.counters
    assert counters["alreadyCommittedCommittables"] == 1
    assert counters["successfulCommittables"] == 1


def test_a_committable_that_can_never_be_committed_fails_the_epoch_with_its_cause():
    cause, store = DataLossError("staged file is gone"), fresh_store()
    target = Target(lambda requests: requests[1].signal_failed(cause))
    committer = committer_of(store, a=target)
    with pytest.raises(CommitError, match="cannot commit Part") as caught:
        committer.commit(decision(0, a=sink_decision("x", "y")))
    assert caught.value.__cause__ is cause
    assert not is_done(store, 0, "a")
    assert target.of("sweep") == []  # the staged data may still be repaired
    counters = committer.committers["a"].metrics.counters
    assert (counters["failedCommittables"], counters["successfulCommittables"]) == (1, 1)


def test_after_a_retryable_error_all_committables_are_retried_regardless_of_signals():
    def half_said(requests):
        requests[0].signal_already_committed()
        requests[1].retry_later()
        requests[2].update_and_retry_later(Part("rest of z"))
        raise RetryableError("answer lost")

    target = Target(half_said)
    committer = committer_of(a=target)
    committer.commit(decision(0, a=sink_decision("x", "y", "z")))
    assert target.of("commit")[1:] == [[("x", 1), ("y", 1), ("rest of z", 1)]]
    assert "retriedCommittables" not in {
        name for name, n in committer.committers["a"].metrics.counters.items() if n
    }


def test_exhausted_retries_raise_an_error_that_names_the_cause():
    def busy(requests):
        raise RetryableError("busy")

    target = Target(*[busy] * 9)
    with pytest.raises(CommitError, match="could not commit 1 committables") as caught:
        committer_of(a=target).commit(decision(0, a=sink_decision("x")))
    assert "busy" in str(caught.value.__cause__)
    assert len(target.of("commit")) == QUICK.attempts


class BusyAfterwards(Target):
    """A target whose post-commit topology fails for a number of times."""

    def __init__(self, failures, error):
        super().__init__()
        self.failures, self.error = failures, error

    def add_post_commit_topology(self, messages):
        super().add_post_commit_topology(messages)
        if len(self.posted) <= self.failures:
            raise self.error


def test_a_post_commit_topology_is_retried_with_all_messages_and_without_a_commit():
    target, store = BusyAfterwards(2, RetryableError("busy")), fresh_store()
    committer_of(store, a=target).commit(decision(0, a=sink_decision("x", "y")))
    assert [len(messages) for messages in target.posted] == [3, 3, 3]
    assert target.committed == {"x": 1, "y": 1}
    assert is_done(store, 0, "a")


@pytest.mark.parametrize(
    ("error", "raised", "tries"),
    [
        (RetryableError("busy"), CommitError, QUICK.attempts),
        (PermissionError(), PermissionError, 1),
    ],
)
def test_a_post_commit_topology_that_fails_fails_the_epoch(error, raised, tries):
    target, store = BusyAfterwards(99, error), fresh_store()
    with pytest.raises(raised) as caught:
        committer_of(store, a=target).commit(decision(7, a=sink_decision("x")))
    assert len(target.posted) == tries
    assert not is_done(store, 7, "a")
    if raised is CommitError:
        assert "could not finish the step after the commits of epoch 7" in str(caught.value)
        assert caught.value.__cause__ is error


def test_an_error_that_is_not_retryable_is_not_retried():
    def fail(requests):
        raise PermissionError("no")

    target = Target(fail)
    with pytest.raises(PermissionError):
        committer_of(a=target).commit(decision(0, a=sink_decision("x")))
    assert len(target.of("commit")) == 1


def test_parallel_committers_share_the_committables():
    together = threading.Barrier(3)

    def meet(requests):
        together.wait(DEADLINE)

    target = Target(meet, meet, meet, parallelism=3)
    committer = committer_of(a=target)
    committer.commit(decision(0, a=sink_decision(*"abcdefg")))
    assert target.committed == dict.fromkeys("abcdefg", 1)
    assert sorted(len(tries) for tries in target.of("commit")) == [2, 2, 3]
    assert committer.committers["a"].metrics.counters["successfulCommittables"] == 7


def test_a_failure_of_one_parallel_committer_fails_the_epoch():
    def fail(requests):
        raise PermissionError("no")

    target, store = Target(fail, parallelism=3), fresh_store()
    with pytest.raises(PermissionError):
        committer_of(store, a=target).commit(decision(0, a=sink_decision(*"abc")))
    assert not is_done(store, 0, "a")


def test_a_stop_ends_the_wait_for_a_retry_and_commits_nothing_more():
    waiting = threading.Event()

    def busy(requests):
        waiting.set()
        raise RetryableError("busy", retry_after=3600.0)

    target, store, errors = Target(busy), fresh_store(), []
    committer = committer_of(store, CommitRetries(), a=target)

    def commit():
        try:
            committer.commit(decision(0, a=sink_decision("x")))
        except RetryableError as error:
            errors.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    assert waiting.wait(DEADLINE)
    committer.give_up_waiting()
    thread.join(DEADLINE)
    assert not thread.is_alive()
    assert "stops before sink 'a' can commit 1 committables" in str(errors[0])
    assert len(target.of("commit")) == 1
    assert not is_done(store, 0, "a")
    committer.close()
    assert target.log[-1] == ("close", None)


def test_a_driver_that_was_taken_over_does_not_retry_a_commit():
    lease = HeldLease()

    def busy(requests):
        lease.held = False
        raise RetryableError("busy")

    target = Target(busy)
    with pytest.raises(LeaseError):
        committer_of(lease=lease, a=target).commit(decision(0, a=sink_decision("x")))
    assert len(target.of("commit")) == 1


class Expiring(Target):
    """A sink during whose sweep the driver's lease expires."""

    def __init__(self, lease, at):
        super().__init__()
        self.lease = lease
        self.at = at

    def create_committer(self, context):
        return ExpiringCommitter(self)


class ExpiringCommitter(TargetCommitter, SupportsLeases):
    def lease(self, epoch, number_of_writers):
        return None

    def sweep(self, checkpoint_id):
        super().sweep(checkpoint_id)
        self.target.lease.held = checkpoint_id != self.target.at


def test_a_lease_that_expires_during_a_sweep_prevents_the_next_sweep():
    lease = HeldLease()
    first, second = Expiring(lease, at=3), Target()
    committer = committer_of(lease=lease, a=first, b=second)
    with pytest.raises(LeaseError):
        committer.commit(decision(8, a=sink_decision("x"), b=sink_decision("y")))
    assert (first.of("sweep"), second.of("sweep")) == ([0, 1, 2, 3], [])
    assert second.committed == {"y": 1}


def test_a_lease_that_expires_during_a_rollback_prevents_sweeps_of_shared_data():
    lease = HeldLease()
    first, shared, own = Expiring(lease, at=4), Expiring(lease, at=4), Target()
    committer_of(lease=lease, a=first, b=shared, c=own).roll_back(4)
    assert [each.of("sweep") for each in (first, shared, own)] == [[4], [], [4]]


def test_committables_of_a_removed_sink_are_refused_and_kept():
    store = fresh_store()
    with pytest.raises(CommitError, match="no committer"):
        committer_of(store).commit(decision(0, a=sink_decision("x")))
    assert not is_done(store, 0, "a")


def test_a_sink_without_two_phases_has_nothing_to_commit():
    class Plain(Sink):
        def create_writer(self, context):
            raise NotImplementedError

    store = fresh_store()
    committer_of(store, a=Plain()).commit(decision(0, a=SinkDecision(rows=3)))
    assert is_done(store, 0, "a")


def test_earlier_epochs_are_swept_again_at_intervals():
    target = Target()
    committer = committer_of(a=target)
    for epoch in range(17):
        committer.commit(decision(epoch, a=sink_decision(f"x{epoch}")))
        committed = {int(name[1:]) for name in target.committed}
        assert set(target.of("sweep")) <= committed
    swept = Counter(target.of("sweep"))
    assert swept[5] == 3  # its own sweep, and those of epochs 8 and 16
    committer.roll_back(17)
    assert target.of("sweep")[-1] == 17


class Killed(Exception):
    """The driver dies."""


@given(
    epochs=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    crashes=st.lists(st.integers(0, 12), max_size=4),
)
@settings(deadline=None)
def test_rolling_forward_after_any_crash_commits_each_sink_of_each_epoch(epochs, crashes):
    """Committers are idempotent, as required. A sink that is marked as done is not called again."""
    store = fresh_store()
    first, second = Target(), Target()
    decisions = [
        decision(e, a=sink_decision(*[f"{e}-{i}" for i in range(n)]), b=sink_decision(f"{e}"))
        for e, n in enumerate(epochs)
    ]
    for each in decisions:
        DECISIONS.create(store, decision_path(each.epoch), each)
    for life in [*crashes, None]:
        committer = committer_of(store, a=first, b=second)
        steps = 0

        def count(epoch, uid, life=life):
            nonlocal steps
            steps += 1
            if steps == life:
                raise Killed

        committer._progress = count
        before = {(e.epoch, uid) for e in decisions for uid in "ab" if is_done(store, e.epoch, uid)}
        begun = len(first.log), len(second.log)
        last = newest_decision(store)
        try:
            committer.roll_forward(decisions_since(store, 0), last)
        except Killed:
            continue
        finally:
            for uid, target, at in (("a", first, begun[0]), ("b", second, begun[1])):
                for kind, tries in [each for each in target.log[at:] if each != "created"]:
                    if kind == "commit":
                        names = {int(name.split("-")[0]) for name, _ in tries}
                        assert not names & {e for e, of in before if of == uid}
        assert first.log[-1] == ("recover", last)  # winners in, losers out
    assert first.committed == {f"{e}-{i}": 1 for e, n in enumerate(epochs) for i in range(n)}
    assert second.committed == {f"{e}": 1 for e in range(len(epochs))}


def test_created_committers_are_closed_if_another_one_cannot_be_created():
    class Unmade(Target):
        def create_committer(self, context):
            if context.trigger_interval == 2.5 and "created" in self.log:
                raise InvalidOptionError("the timeout is too short for the trigger interval")
            return super().create_committer(context)

    first, second = Target(), Unmade(parallelism=2)
    with pytest.raises(InvalidOptionError, match="too short"):
        EpochCommitter(
            {"a": first, "b": second},
            store=fresh_store(),
            pipeline_id="p",
            lease=HeldLease(),
            trigger_interval=2.5,
        )
    for target in (first, second):
        assert target.log == ["created", ("close", None)]


def test_all_committers_are_closed_although_some_fail(monkeypatch):
    def close(committer):
        committer.target.log.append(("close", None))
        raise OSError("connection lost")

    targets = Target(parallelism=2), Target()
    sinks = dict(zip("ab", targets, strict=True))
    committer = EpochCommitter(sinks, store=fresh_store(), pipeline_id="p", lease=HeldLease())
    monkeypatch.setattr(TargetCommitter, "close", close)
    with pytest.raises(OSError, match="connection lost"):
        committer.close()
    assert [len(target.of("close")) for target in targets] == [2, 1]


def test_epochs_are_finished_before_anything_is_fenced():
    store, target = fresh_store(), Target()
    for epoch in range(3):
        each = decision(epoch, a=sink_decision(f"x{epoch}"))
        DECISIONS.create(store, decision_path(epoch), each)
    committer = committer_of(store, a=target)
    assert committer.roll_forward(decisions_since(store, 0), 2) == {0: {}, 1: {}, 2: {}}
    kinds = [each[0] for each in target.log if each != "created" and each[0] != "sweep"]
    assert kinds == ["commit", "commit", "commit", "recover"]
    assert set(target.of("sweep")) == {0, 1, 2}
    assert target.log[-1] == ("recover", 2)
    assert committer_of(store, a=target).roll_forward(decisions_since(store, 0), 2) == {}
