# SPDX-License-Identifier: Apache-2.0
"""Tests that a part is closed once, and that the first error is the one that is raised."""

from __future__ import annotations

import pytest
from toy_source import (
    Behaviour,
    ToyReader,
    ToySource,
    entry_of,
    fresh_store,
    planned,
    read,
    reader_task,
)

from connectors_core.engine.execution.closing import closed_after


class Part:
    def __init__(self, error=None):
        self.closed, self.error = 0, error

    def close(self):
        self.closed += 1
        if self.error is not None:
            raise self.error


def test_a_part_is_closed_after_its_use():
    with closed_after(Part()) as part:
        assert part.closed == 0
    assert part.closed == 1


def test_an_error_of_closing_is_raised_after_a_use_without_one():
    part = Part(OSError("the buffer was lost"))
    with pytest.raises(OSError, match="the buffer was lost"), closed_after(part):
        pass
    assert part.closed == 1


def test_the_error_of_the_use_is_raised_and_that_of_closing_is_logged(caplog):
    part = Part(OSError("not connected"))
    with pytest.raises(ValueError, match="no such topic"), closed_after(part):
        raise ValueError("no such topic")
    assert part.closed == 1
    assert "Part could not be closed after an error" in caplog.text
    assert "not connected" in caplog.text


def test_a_reader_that_cannot_be_closed_does_not_hide_why_it_failed(monkeypatch):
    def close(_reader):
        raise RuntimeError("not connected")

    monkeypatch.setattr(ToyReader, "close", close)
    source = ToySource({"a": [1, 2]}, behaviour=Behaviour(fail_at=("a", 1)))
    with pytest.raises(OSError, match="connection lost"):
        read(reader_task(source, fresh_store()), entry_of([planned(source.split("a"))]))
