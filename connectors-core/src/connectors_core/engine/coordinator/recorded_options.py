# SPDX-License-Identifier: Apache-2.0
"""The options of sources and sinks on which stored state and written output depend. Driver.

The identity of a pipeline records them. A later start with another value is refused, because it
would read rows twice or never, or mix different output in one place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from connectors_core.engine.coordinator.identity import PipelineIdentity
from connectors_core.engine.coordinator.plan_log import is_done, newest_decision, read_decision
from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.execution.writer_task import SinkTask
from connectors_core.engine.state import StateStore
from connectors_core.errors import IdentityError
from connectors_core.options import RecordedOption

PipelineOptions = Mapping[str, Sequence[RecordedOption]]
"""The recorded options of sources and sinks, by uid."""


def recorded_options(
    sources: Iterable[SourceSettings], sinks: Iterable[SinkTask]
) -> PipelineOptions:
    """Return the options to record.

    Args:
        sources: The sources whose state the pipeline stores.
        sinks: The sinks and the schemas of their rows.
    """
    options = {each.uid: each.source.recorded_options() for each in sources}
    return options | {each.uid: each.sink.recorded_options(each.schema) for each in sinks}


def with_options(
    identity: PipelineIdentity, options: PipelineOptions, root: StateStore
) -> PipelineIdentity:
    """Return an identity with the current options.

    Args:
        identity: The recorded identity. Early releases recorded no options.
        options: The current options.
        root: The state location of the pipeline.

    Raises:
        IdentityError: An option has another value than before.
    """
    changed = {
        (uid, option): before[option.name]
        for uid, own in options.items()
        for before in [identity.options.get(uid, {})]
        for option in own
        if before.get(option.name, option.value) != option.value
    }
    unfinished = _unfinished(identity, root) if changed else frozenset()
    for (uid, option), before in changed.items():
        if not option.until_committed:
            raise _refusal(identity, uid, option, before)
        if uid in unfinished:
            hint = f"start once with the former {option.name}, which commits the decided rows"
            raise _refusal(identity, uid, dataclasses.replace(option, hint=hint), before)
    current = {uid: {each.name: each.value for each in own} for uid, own in options.items()}
    return dataclasses.replace(identity, options={**identity.options, **current})


def _refusal(
    identity: PipelineIdentity, uid: str, option: RecordedOption, before: str
) -> IdentityError:
    return IdentityError(
        f"{option.name} of {uid!r} in pipeline {identity.name!r} has changed",
        expected=before,
        found=option.value,
        option=option.name,
        ways_out=[option.hint],
    )


def _unfinished(identity: PipelineIdentity, root: StateStore) -> frozenset[str]:
    """Return the uids of sinks that have not committed the newest epoch."""
    unfinished: set[str] = set()
    for query in identity.queries:
        store = root.child(query.folder)
        newest = newest_decision(store)
        decided = read_decision(store, newest).sinks if newest >= 0 else ()
        unfinished.update(uid for uid in decided if not is_done(store, newest, uid))
    return frozenset(unfinished)
