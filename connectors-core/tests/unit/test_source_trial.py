# SPDX-License-Identifier: Apache-2.0
"""Tests what a source case does besides its checks: it waits, and closes its writers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from toy_connector import LogFolder, LogSource, LogWriter

from connectors_core.testing.environment import InProcess
from connectors_core.testing.source_trial import SourceTrial


class FailingWriter(LogWriter):
    closed = False

    def close(self):
        self.closed = True
        raise OSError(self.path.name)


@pytest.fixture
def trial(tmp_path):
    context = LogFolder(tmp_path, LogSource, None)
    return SourceTrial(InProcess(), context, tmp_path, 1, True)


def test_all_writers_of_splits_are_closed_even_if_one_fails(trial, tmp_path):
    writers = [FailingWriter(tmp_path / name) for name in "ab"]
    trial.context.create_split = iter(writers).__next__
    trial.write_split(2)
    with pytest.raises(OSError, match="a"):
        trial.close()
    assert all(writer.closed for writer in writers)


def test_a_wait_ends_with_its_pipeline(trial):
    polls = []
    pipeline = SimpleNamespace(await_termination=lambda seconds: len(polls) == 3)

    def poll():
        polls.append(None)
        return False

    with pytest.raises(AssertionError, match="the pipeline ended without: rows"):
        trial.wait(poll, "rows", pipeline)
    assert len(polls) == 4
