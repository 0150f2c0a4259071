# SPDX-License-Identifier: Apache-2.0
"""Tests which entries a batch run reads: its own, or those of a run that it continues."""

from __future__ import annotations

from dataclasses import replace

import pytest
from toy_source import Discovering, ToySource, fresh_store, reader_task

from connectors_core.engine.coordinator.source_settings import SourceSettings
from connectors_core.engine.protocol import RUNS, RunRecord, run_record_path
from connectors_core.source import SupportsBatchSnapshot
from connectors_core.spark.batch import BatchSource, batch_source

SPLITS = list("abcde")


class Resuming(Discovering, SupportsBatchSnapshot):
    pass


@pytest.fixture
def settings():
    source = ToySource({split: [10] for split in SPLITS}, enumerator=Resuming)
    return SourceSettings(uid="s", source=source, parallelism=1)


def planned(settings, unfinished=None, *, keeps=True) -> BatchSource:
    reader = replace(reader_task(settings.source, fresh_store(keep=True)), keeps=keeps)
    return batch_source(None, settings, reader, "p", "later", unfinished)


def record_of(*sources, run_id="run"):
    return RunRecord(
        pipeline_id="p",
        run_id=run_id,
        entries=tuple(replace(e, nonce=run_id) for each in sources for e in each.entries),
        tasks={each.settings.uid: each.tasks for each in sources},
        enumerators={each.settings.uid: each.state for each in sources if each.state is not None},
    )


def splits_of(source):
    return sorted(split.split_id for entry in source.entries for split in entry.splits)


def test_a_run_that_can_be_resumed_has_an_entry_for_each_split_in_few_tasks(settings):
    source = planned(settings)
    assert (len(source.entries), source.tasks) == (5, 4)
    assert source.state is not None
    assert source.tasks_text() == "4 for 5 splits"


def test_another_run_has_an_entry_for_each_task_and_needs_no_snapshot(settings):
    source = planned(settings, keeps=False)
    assert (len(source.entries), source.tasks, source.state) == (4, 4, None)


def test_a_run_continues_with_the_entries_and_tasks_of_its_record(settings):
    record = record_of(planned(settings))
    settings.source.rows["later"] = [1]
    source = planned(replace(settings, parallelism=7), record)
    assert splits_of(source) == SPLITS
    assert {entry.nonce for entry in source.entries} == {"run"}
    assert source.tasks == 4
    assert source.state is not None


def test_a_source_that_the_interrupted_run_did_not_read_is_read_from_its_start(settings):
    record = record_of(planned(replace(settings, uid="other")))
    source = planned(settings, record)
    assert splits_of(source) == SPLITS
    assert {entry.nonce for entry in source.entries} == {"later"}


def test_a_stored_record_comes_back(settings):
    store, record = fresh_store(), record_of(planned(settings))
    assert RUNS.create(store, run_record_path("run"), record)
    assert RUNS.read(store, run_record_path("run")) == record
