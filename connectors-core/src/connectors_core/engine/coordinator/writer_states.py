# SPDX-License-Identifier: Apache-2.0
"""The states of a sink's writers between two epochs. Driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from connectors_core.engine.execution.writer_task import SinkTask, WriterMessage
from connectors_core.engine.protocol import Decision, WriterStates
from connectors_core.errors import ConfigurationError
from connectors_core.sink.abilities import SupportsRewriting
from connectors_core.sink.sink import Sink
from connectors_core.sink.stateful_sink import StatefulSink


def check_stateful(sink: Sink, uid: str, writers: int | None) -> None:
    """Refuse a stateful sink that cannot go on from its states.

    Args:
        sink: Any sink.
        uid: Its uid.
        writers: Number of its writers, None where it is not fixed.

    Raises:
        ConfigurationError: It has not a fixed number of writers, or abilities that do not go
            together.
    """
    if not isinstance(sink, StatefulSink):
        return
    if writers is None:
        raise ConfigurationError(
            f"the writers of sink {uid!r} keep state, and their number is not fixed",
            expected="a number of writers",
            option="parallelism",
            hint=f"use sink_to(..., uid={uid!r}, parallelism=n)",
        )
    if isinstance(sink, SupportsRewriting):
        raise ConfigurationError(
            f"the writers of sink {uid!r} keep state, and its committables may be lost: what is "
            "written again would begin with the state of behind",
            expected="StatefulSink or SupportsRewriting",
            found=type(sink).__name__,
        )


def redistributed(states: WriterStates, writers: int) -> WriterStates:
    """The states for a number of writers: as they are for as many, else dealt out in turn.

    Args:
        states: Those of each writer, in the order of the writers.
        writers: Number of writers now.
    """
    if len(states) == writers:
        return states
    all_states = [state for own in states for state in own]
    return tuple(tuple(all_states[writer::writers]) for writer in range(writers))


class SinkStates:
    """The states that the writers of the next epoch go on from.

    Args:
        sinks: The sinks of a query.
    """

    def __init__(self, sinks: Sequence[SinkTask]) -> None:
        self._stateful = {sink.uid: sink for sink in sinks if isinstance(sink.sink, StatefulSink)}
        self._others = {sink.uid for sink in sinks} - self._stateful.keys()
        self._states: dict[str, WriterStates] = {}

    def restore(self, decision: Decision) -> None:
        """Take the states of the newest decision.

        Raises:
            ConfigurationError: A sink that keeps no state has one.
        """
        for uid, sink in decision.sinks.items():
            if sink.writer_states and uid in self._others:
                raise ConfigurationError(
                    f"epoch {decision.epoch} holds the state of the writers of sink {uid!r}, which "
                    "keeps none",
                    expected="the StatefulSink that wrote it",
                    hint="start with the sink as it was, or give the new one another uid",
                )
        self.decided(decision)

    def decided(self, decision: Decision) -> None:
        """An epoch is decided: the next one goes on from its states."""
        for uid in self._stateful.keys() & decision.sinks.keys():
            self._states[uid] = decision.sinks[uid].writer_states

    def given_to(self, sinks: Iterable[SinkTask]) -> tuple[SinkTask, ...]:
        """The sinks with the states that their writers go on from."""
        given = []
        for sink in sinks:
            if sink.uid in self._stateful:
                assert sink.writers is not None  # checked when the sink was registered
                states = redistributed(self._states.get(sink.uid, ()), sink.writers)
                sink = replace(sink, states=states)
            given.append(sink)
        return tuple(given)

    @staticmethod
    def left_by(sink: SinkTask, messages: Iterable[WriterMessage]) -> WriterStates:
        """What the writers of an epoch left; of one that had no row, what it was given.

        Args:
            sink: The sink as its writers had it.
            messages: Theirs.
        """
        left: Mapping[int, WriterMessage] = {message.subtask: message for message in messages}
        states = []
        for writer, given in enumerate(sink.states):
            message = left.get(writer)
            new = None if message is None else message.states
            states.append(given if new is None else new)
        return tuple(states)
