# SPDX-License-Identifier: Apache-2.0
"""The states of a sink's writers between epochs. Driver."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from connectors_core.engine.execution.writer_task import SinkTask, WriterMessage
from connectors_core.engine.protocol import Decision, SinkDecision, WriterStates
from connectors_core.errors import ConfigurationError
from connectors_core.sink.abilities import SupportsRewriting
from connectors_core.sink.sink import Sink
from connectors_core.sink.stateful_sink import StatefulSink


def check_stateful(sink: Sink, uid: str, writers: int | None) -> None:
    """Refuse a stateful sink that could not restore its states.

    Args:
        sink: Any sink.
        uid: Its uid.
        writers: Number of its writers, None if it is not fixed.

    Raises:
        ConfigurationError: Its number of writers is not fixed, or its abilities are incompatible.
    """
    if not isinstance(sink, StatefulSink):
        return
    if writers is None:
        raise ConfigurationError(
            f"the writers of sink {uid!r} keep state, but their number is not fixed",
            expected="a number of writers",
            option="parallelism",
            hint=f"use sink_to(..., uid={uid!r}, parallelism=n)",
        )
    if isinstance(sink, SupportsRewriting):
        raise ConfigurationError(
            f"the writers of sink {uid!r} keep state, and its committables may be lost: a rewrite "
            "would start from a later state",
            expected="StatefulSink or SupportsRewriting",
            found=type(sink).__name__,
        )


def redistributed(states: WriterStates, writers: int) -> WriterStates:
    """Return the states for a number of writers, distributed in turn if the number changed.

    Args:
        states: The states of each writer, in the order of the writers.
        writers: The new number of writers.
    """
    if len(states) == writers:
        return states
    all_states = [state for own in states for state in own]
    return tuple(tuple(all_states[writer::writers]) for writer in range(writers))


class SinkStates:
    """The states that the writers of the next epoch restore.

    Args:
        sinks: The sinks of a query.
    """

    def __init__(self, sinks: Sequence[SinkTask]) -> None:
        self._stateful = {sink.uid: sink for sink in sinks if isinstance(sink.sink, StatefulSink)}
        self._others = {sink.uid for sink in sinks} - self._stateful.keys()
        self._states: dict[str, WriterStates] = {}

    def restore(self, decision: Decision) -> None:
        """Take over the states of the newest decision.

        Raises:
            ConfigurationError: It holds states of a sink that keeps no state.
        """
        for uid, sink in decision.sinks.items():
            if sink.writer_states and uid in self._others:
                raise ConfigurationError(
                    f"epoch {decision.epoch} holds the state of the writers of sink {uid!r}, which "
                    "keeps none",
                    expected="the StatefulSink that wrote it",
                    hint="start with the original sink, or give the new sink another uid",
                )
        self.decided(decision)

    def decided(self, decision: Decision) -> None:
        """Take over the states of a decided epoch for the next one."""
        for uid in self._stateful.keys() & decision.sinks.keys():
            self._states[uid] = decision.sinks[uid].writer_states

    def carried(self) -> dict[str, SinkDecision]:
        """Return the part of a decision without rows, which keeps the states."""
        return {
            uid: SinkDecision(writer_states=states)
            for uid, states in self._states.items()
            if states
        }

    def given_to(self, sinks: Iterable[SinkTask]) -> tuple[SinkTask, ...]:
        """Return the sinks with the states that their writers restore."""
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
        """Return the states after an epoch; a writer without rows keeps its previous states.

        Args:
            sink: The sink with the states that its writers restored.
            messages: The messages of its writers.
        """
        left: Mapping[int, WriterMessage] = {message.subtask: message for message in messages}
        states = []
        for writer, given in enumerate(sink.states):
            message = left.get(writer)
            new = None if message is None else message.states
            states.append(given if new is None else new)
        return tuple(states)
