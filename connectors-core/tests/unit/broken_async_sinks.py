# SPDX-License-Identifier: Apache-2.0
"""Broken async sinks, each with the case that must detect it. See `broken_units`."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from dataclasses import replace

from toy_service import Rows, ServiceContext, ServiceSink, ServiceWriter

from connectors_core.errors import FatalError, RetryableError
from connectors_core.testing import AsyncSinkWriterTestSuite, Capabilities, Capability
from connectors_core.testing.async_sink_unit import BOUNDS


class AllButTheLast(Rows):
    def apply(self, batch, context):
        return super().apply(batch.slice(0, max(1, batch.num_rows - 1)), context)


class LosesTheLastRow(ServiceSink):
    converter = AllButTheLast()


class TakesNoBoundOfEntries(ServiceWriter):
    def __init__(self, sink, context):
        bounds = replace(sink.configuration, max_batch_size=BOUNDS.max_batch_size + 1)
        super().__init__(replace(sink, configuration=bounds), context)


class TakesNoBoundOfRequests(ServiceWriter):
    def __init__(self, sink, context):
        requests = BOUNDS.max_in_flight_requests + 1
        bounds = replace(sink.configuration, max_in_flight_requests=requests)
        super().__init__(replace(sink, configuration=bounds), context)


class CountsNoBytes(ServiceWriter):
    def get_size_in_bytes(self, entry):
        return 1


class AllButLarge(Rows):
    def apply(self, batch, context):
        entries = super().apply(batch, context)
        return [entry for entry in entries if len(entry) <= BOUNDS.max_record_size_in_bytes]


class DropsWhatIsLarge(ServiceSink):
    converter = AllButLarge()


class DoesNotWait(ServiceWriter):
    """Treats a missing response as success."""

    async def send(self, entries):
        request = asyncio.ensure_future(super().send(entries))
        done, _ = await asyncio.wait({request}, timeout=0.05)
        return request.result() if done else ["taken"] * len(entries)


class SendsAllAgain(ServiceWriter):
    def again(self, entries, said):
        return entries if "busy" in said else []


class SendsNothingAgain(ServiceWriter):
    def again(self, entries, said):
        return []


class SendsTheOthersAgain(ServiceWriter):
    def again(self, entries, said):
        again = super().again(entries, said)
        return [entry for entry in entries if entry not in again] if again else []


class GivesUpWhenBusy(ServiceWriter):
    def busy(self, entries, error):
        raise FatalError("the service is busy") from error


class LetsItsClientSpeak(ServiceWriter):
    def cut_off(self, entries, error):
        raise error


class HopesForTheBest(ServiceWriter):
    def cut_off(self, entries, error):
        return []


class GivesUpInSilence(ServiceWriter):
    times = 0

    def busy(self, entries, error):
        self.times += 1
        return entries if self.times < 5 else []


class HasNoKeys(ServiceWriter):
    def get_key(self, entry):
        return None


class HasAKeyForEach(ServiceWriter):
    def get_key(self, entry):
        return json.loads(entry)["seq"]


class SendsTheBadAgain(ServiceWriter):
    def again(self, entries, said):
        return [entry for entry, answer in zip(entries, said, strict=True) if answer != "taken"]

    def bad(self, entry):
        pass


class DropsTheBad(ServiceWriter):
    def bad(self, entry):
        pass


class KeepsNothingOfTheBad(ServiceWriter):
    def raw(self, entry):
        return None


class TriesALoginAgain(ServiceWriter):
    def denied(self, error):
        raise RetryableError("the service does not know us") from error


class LeavesAConnection(ServiceWriter):
    client = None
    left = []  # noqa: RUF012

    async def send(self, entries):
        if self.client is None:
            self.client = socket.socketpair()
            self.left.append(self.client)
        return await super().send(entries)


class LeavesACoroutine(ServiceWriter):
    beating = None

    async def send(self, entries):
        self.beating = self.beating or asyncio.ensure_future(asyncio.sleep(30))
        return await super().send(entries)


class ClosesWhatItNeverOpened(ServiceWriter):
    client = None

    async def send(self, entries):
        self.client = self.client or asyncio.Event()
        return await super().send(entries)

    async def close_client(self):
        self.client.set()


class LeavesItsRequest(ServiceWriter):
    async def send(self, entries):
        return await asyncio.shield(super().send(entries))


class HoldsALock(ServiceSink):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        vars(self)["lock"] = threading.Lock()


class ShowsItsToken(ServiceSink):
    def __repr__(self):
        return f"ShowsItsToken({self.token.reveal()!r})"


class TellsItsToken(ServiceWriter):
    def denied(self, error):
        raise FatalError(f"the service does not know {self.sink.token.reveal()}") from error


ASYNC_SINKS = {
    LosesTheLastRow: "test_all_rows_are_taken",
    TakesNoBoundOfEntries: "test_a_request_has_no_more_entries_than_the_bound",
    CountsNoBytes: "test_a_request_has_no_more_bytes_than_the_bound",
    DropsWhatIsLarge: "test_an_entry_above_the_limit_is_a_bad_record",
    TakesNoBoundOfRequests: "test_no_more_is_held_or_on_its_way_than_the_bounds_allow",
    DoesNotWait: "test_flush_waits_for_every_answer",
    SendsAllAgain: "test_only_what_is_refused_is_sent_again",
    SendsNothingAgain: "test_only_what_is_refused_is_sent_again",
    SendsTheOthersAgain: "test_only_what_is_refused_is_sent_again",
    GivesUpWhenBusy: "test_a_request_that_is_refused_for_now_is_sent_again",
    LetsItsClientSpeak: "test_a_request_whose_answer_was_lost_is_sent_again",
    HopesForTheBest: "test_a_request_whose_answer_was_lost_is_sent_again",
    GivesUpInSilence: "test_a_system_that_stays_busy_ends_the_attempt",
    HasNoKeys: "test_entries_of_a_key_are_sent_one_after_the_other",
    HasAKeyForEach: "test_entries_of_a_key_are_sent_one_after_the_other",
    SendsTheBadAgain: "test_a_rejected_entry_goes_to_the_record_policy",
    DropsTheBad: "test_a_rejected_entry_goes_to_the_record_policy",
    KeepsNothingOfTheBad: "test_a_rejected_entry_can_be_a_dead_letter",
    TriesALoginAgain: "test_what_is_refused_for_good_ends_the_attempt_at_once",
    LeavesAConnection: "test_nothing_is_left_when_it_is_closed",
    LeavesACoroutine: "test_nothing_is_left_when_it_is_closed",
    ClosesWhatItNeverOpened: "test_nothing_is_left_when_it_is_closed_before_it_sent_anything",
    LeavesItsRequest: "test_nothing_is_left_when_it_is_closed_while_it_waits_for_an_answer",
    HoldsALock: "test_a_sink_survives_pickling",
    ShowsItsToken: "test_a_secret_is_seen_in_no_error",
    TellsItsToken: "test_a_secret_is_seen_in_no_error",
}


def async_sink_suite(broken):
    """Return the suite of a broken sink, or of a sink with a broken writer."""
    sink = broken
    if issubclass(broken, ServiceWriter):
        sink = type(f"{broken.__name__}Sink", (ServiceSink,), {"writer": broken})
        sink.__module__ = __name__
        globals()[sink.__name__] = sink

    def external_context(self, path):
        return ServiceContext(sink)

    return AsyncSinkWriterTestSuite, {
        "capabilities": Capabilities(can=frozenset({Capability.KEYS, Capability.SECRETS})),
        "seconds": 3.0,
        "external_context": external_context,
    }
