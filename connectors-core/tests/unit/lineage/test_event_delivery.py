# SPDX-License-Identifier: Apache-2.0
"""Tests that events reach listeners in order, and that no listener delays or fails a pipeline."""

from __future__ import annotations

import logging
import threading
import time
import uuid

import pytest

from connectors_core.lineage import JobExecutionStatusEvent, JobStatus, JobStatusChangedListener
from connectors_core.lineage.delivery import MOST_WAITING, EventDelivery


def event(name="p"):
    return JobExecutionStatusEvent(
        job_id=str(uuid.uuid4()),
        job_name=name,
        old_status=JobStatus.CREATED,
        new_status=JobStatus.RUNNING,
    )


class Recording:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


class Failing(Recording):
    def on_event(self, event):
        super().on_event(event)
        raise ValueError("no backend")


class Hanging(Recording):
    def __init__(self):
        super().__init__()
        self.entered, self.released = threading.Event(), threading.Event()

    def on_event(self, event):
        self.entered.set()
        self.released.wait(60)
        super().on_event(event)


def test_all_listeners_receive_all_events_in_order_although_one_fails(caplog):
    failing, recording = Failing(), Recording()
    assert isinstance(recording, JobStatusChangedListener)
    delivery = EventDelivery([failing, recording])
    events = [event() for _ in range(20)]
    for each in events:
        delivery.send(each)
    delivery.close()
    assert recording.events == failing.events == events
    assert "Failing failed on an event of pipeline 'p'" in caplog.text
    assert "no backend" in caplog.text


def test_a_listener_that_hangs_delays_neither_the_pipeline_nor_other_listeners(caplog):
    hanging, recording = Hanging(), Recording()
    delivery = EventDelivery([hanging, recording])
    delivery.send(event("first"))
    assert hanging.entered.wait(30)
    events = [event() for _ in range(MOST_WAITING + 3)]
    with caplog.at_level(logging.WARNING):
        for each in events:
            delivery.send(each)
        began = time.monotonic()
        delivery.close(timeout=0.2)
    assert time.monotonic() - began < 30
    assert caplog.text.count("Hanging is too slow") == 3
    assert "Hanging does not accept events" in caplog.text
    hanging.released.set()
    delivery._mailboxes[0]._thread.join(30)
    assert hanging.events[1:] == events[3:]  # the oldest ones were dropped


def test_a_listener_that_hangs_is_waited_for_once():
    hanging = Hanging()
    first, later = EventDelivery([hanging]), EventDelivery([hanging])
    first.send(event())
    assert hanging.entered.wait(30)
    first.close(timeout=0.01)
    later.send(event())
    began = time.monotonic()
    later.close(timeout=60)
    first.close(timeout=60)
    assert time.monotonic() - began < 30
    hanging.released.set()
    for delivery in (first, later):
        delivery._mailboxes[0]._thread.join(30)
    again = EventDelivery([hanging])
    again.send(event())
    again.close(timeout=60)  # it answers again, so its events are awaited
    assert len(hanging.events) == 3


@pytest.mark.parametrize("sent", [0, 1])
def test_no_event_is_accepted_after_the_end(sent):
    recording = Recording()
    delivery = EventDelivery([recording])
    for _ in range(sent):
        delivery.send(event())
    delivery.close()
    delivery.send(event())
    assert len(recording.events) == sent
