# SPDX-License-Identifier: Apache-2.0
"""Tests that a restart with another option on which stored state depends is refused."""

from __future__ import annotations

import pytest

from connectors_core import NumberSequenceSource
from connectors_core.errors import IdentityError
from connectors_core.options import RecordedOption
from connectors_core.source import Boundedness
from connectors_core.testing import LocalPipeline
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.faults import Fault, FaultAction, FaultPoint, injected


class OptionSource(NumberSequenceSource):
    order, bounded = "name", True

    def boundedness(self):
        return Boundedness.BOUNDED if self.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def recorded_options(self):
        hint = "set order='name'"
        return (
            *super().recorded_options(),
            RecordedOption(name="order", value=self.order, hint=hint),
        )


class OptionSink(DirectorySink):
    format = "json"

    def recorded_options(self, schema):
        return (
            RecordedOption(name="path", value=str(self.path), hint="", until_committed=True),
            RecordedOption(
                name=f"format in {self.path}", value=self.format, hint="set format='json'"
            ),
            *(
                RecordedOption(name=f"type of {each.name}", value=str(each.type), hint="cast it")
                for each in schema
            ),
        )


def run(folder, *, out="out", order="name", file_format="json", bounded=True):
    source, sink = OptionSource(0, 2), OptionSink(folder / out)
    source.order, source.bounded, sink.format = order, bounded, file_format
    with LocalPipeline("p", checkpoint_location=folder / "checkpoint", parallelism=1) as pipeline:
        pipeline.sink_to(pipeline.from_source(source, uid="s"), sink, uid="k")
        return pipeline.run(timeout=60, available_now=not bounded)


def test_the_same_options_are_accepted(tmp_path):
    assert run(tmp_path)
    assert run(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message", "hint"),
    [
        ({"order": "time"}, "order of 's'", "set order='name'"),
        ({"file_format": "csv"}, "format in .* of 'k'", "set format='json'"),
        ({"bounded": False}, "boundedness of 's'", "keep the source bounded"),
    ],
)
def test_a_changed_option_is_refused_with_the_way_out(tmp_path, changed, message, hint):
    run(tmp_path)
    with pytest.raises(IdentityError, match=message) as refused:
        run(tmp_path, **changed)
    assert hint in str(refused.value)
    assert run(tmp_path)


def test_another_place_may_have_other_options(tmp_path):
    run(tmp_path)
    assert run(tmp_path, out="other", file_format="csv")


def test_a_place_may_not_change_before_everything_decided_is_committed(tmp_path):
    fault = Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE)
    with injected(fault), pytest.raises(Exception, match="fault injected"):
        run(tmp_path)
    with pytest.raises(IdentityError, match="path of 'k'") as refused:
        run(tmp_path, out="other")
    assert "start once with the former path" in str(refused.value)
    assert run(tmp_path)
    assert run(tmp_path, out="other")


class EarlySource(OptionSource):
    def recorded_options(self):
        return ()


def test_a_pipeline_of_an_early_release_records_its_options_at_the_next_start(tmp_path):
    with LocalPipeline("p", checkpoint_location=tmp_path / "checkpoint", parallelism=1) as pipeline:
        sink = OptionSink(tmp_path / "out")
        pipeline.sink_to(pipeline.from_source(EarlySource(0, 2), uid="s"), sink, uid="k")
        pipeline.run(timeout=60)
    assert run(tmp_path, order="time")
    with pytest.raises(IdentityError):
        run(tmp_path)
