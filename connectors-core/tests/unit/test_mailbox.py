# SPDX-License-Identifier: Apache-2.0
"""Tests the coordinator's thread: order of actions, timers, worker calls, errors, and the end."""

import threading
import time
from datetime import timedelta

import pytest

from connectors_core.engine.coordinator.mailbox import Mailbox

DEADLINE = 10.0


@pytest.fixture
def errors():
    return []


@pytest.fixture
def mailbox(errors):
    failed = threading.Event()
    box = Mailbox("test", lambda error: (errors.append(error), failed.set()))
    box.failed = failed
    box.start()
    yield box
    box.close()


def settled(mailbox):
    """Wait until all current actions of the mailbox have run."""
    done = threading.Event()
    mailbox.execute(done.set)
    assert done.wait(DEADLINE)


def test_actions_run_one_after_another_in_order_on_one_thread(mailbox):
    seen = []
    threads = [
        threading.Thread(
            target=lambda t=t: [
                mailbox.execute(
                    lambda t=t, i=i: seen.append((t, i, threading.current_thread().name))
                )
                for i in range(50)
            ]
        )
        for t in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    settled(mailbox)
    assert {name for _, _, name in seen} == {"test"}
    for t in range(4):
        assert [i for of, i, _ in seen if of == t] == list(range(50))


def test_timers_run_when_due_and_do_not_delay_actions(mailbox):
    ran = {}

    def note(name):
        return lambda: ran.setdefault(name, time.monotonic())

    began = time.monotonic()
    mailbox.schedule(3600.0, note("never"))
    mailbox.schedule(0.02, note("later"))
    mailbox.schedule(0.0, note("now"))
    mailbox.execute(note("action"))
    deadline = began + DEADLINE
    while len(ran) < 3 and time.monotonic() < deadline:
        settled(mailbox)
    assert ran.keys() == {"action", "now", "later"}
    assert ran["later"] - began >= 0.02


def test_a_call_runs_on_another_thread_and_its_handler_on_the_mailbox_thread(mailbox):
    names, done = [], threading.Event()

    def handler(result, error):
        names.append((result, error, threading.current_thread().name))
        done.set()

    mailbox.call_async(lambda: threading.current_thread().name, handler)
    assert done.wait(DEADLINE)
    ((worker, error, here),) = names
    assert worker.startswith("test-async")
    assert (error, here) == (None, "test")


@pytest.mark.parametrize("error", [OSError("gone"), SystemExit(3)])
def test_any_exception_of_a_call_reaches_its_handler(mailbox, error):
    got, done = [], threading.Event()

    def call():
        raise error

    mailbox.call_async(call, lambda result, exc: (got.append((result, exc)), done.set()))
    assert done.wait(DEADLINE)
    assert got == [(None, error)]


def test_periodic_calls_never_overlap_and_start_again_after_the_handler(mailbox):
    running, most, done = [], [], threading.Event()

    def call():
        running.append(1)
        most.append(len(running))
        running.pop()

    mailbox.call_async(
        call,
        lambda *_: done.set() if len(most) >= 5 else None,
        initial_delay=timedelta(milliseconds=1),
        period=timedelta(0),
    )
    assert done.wait(DEADLINE)
    assert set(most) == {1}


def test_an_action_that_raises_stops_the_mailbox_and_is_reported_once(mailbox, errors):
    ran = []

    def fail():
        raise ValueError("broken")

    mailbox.execute(fail)
    assert mailbox.failed.wait(DEADLINE)
    mailbox.execute(lambda: ran.append(1))
    mailbox.close()
    assert [str(error) for error in errors] == ["broken"]
    assert ran == []


def test_a_handler_that_raises_fails_the_coordinator(mailbox, errors):
    def handler(result, error):
        raise error

    mailbox.call_async(lambda: 1 / 0, handler)
    assert mailbox.failed.wait(DEADLINE)
    assert isinstance(errors[0], ZeroDivisionError)


def test_closing_waits_for_the_running_action_and_drops_the_rest():
    box = Mailbox("test", lambda error: None)
    box.start()
    begun, go_on, ran = threading.Event(), threading.Event(), []
    box.execute(lambda: (begun.set(), go_on.wait(DEADLINE), ran.append("running")))
    box.execute(lambda: ran.append("waiting"))
    assert begun.wait(DEADLINE)
    closer = threading.Thread(target=box.close)
    closer.start()
    go_on.set()
    closer.join(DEADLINE)
    assert not closer.is_alive()
    assert ran == ["running"]


def test_an_action_may_close_the_mailbox_itself(mailbox):
    closed = threading.Event()
    mailbox.execute(lambda: (mailbox.close(), closed.set()))
    assert closed.wait(DEADLINE)
    mailbox.close()


def test_a_call_that_ends_after_the_close_is_dropped():
    box = Mailbox("test", lambda error: None)
    box.start()
    begun, go_on, ended, handled = (threading.Event() for _ in range(4))

    def call():
        begun.set()
        go_on.wait(DEADLINE)
        ended.set()

    box.call_async(call, lambda *_: handled.set(), period=timedelta(0))
    assert begun.wait(DEADLINE)
    box.close()
    go_on.set()
    assert ended.wait(DEADLINE)
    assert not handled.is_set()


def test_calls_submitted_before_the_start_run_after_it():
    box = Mailbox("test", lambda error: None)
    done = threading.Event()
    box.call_async(lambda: None, lambda *_: done.set())
    box.start()
    assert done.wait(DEADLINE)
    box.close()


def test_a_mailbox_that_was_never_started_can_be_closed():
    Mailbox("test", lambda error: None).close()
