# SPDX-License-Identifier: Apache-2.0
"""Tests rolling a pipeline back to an epoch, and giving up a lost epoch."""

from __future__ import annotations

import shutil
from collections import Counter

import pytest
from two_sinks import TwoSinks
from typer.testing import CliRunner

from connectors_core.cli import app
from connectors_core.engine.coordinator.plan_log import decisions_since
from connectors_core.engine.recovery import abandonment
from connectors_core.engine.state import Lease, StateStore
from connectors_core.errors import (
    ConfigurationError,
    ConnectorError,
    DataLossError,
    FatalError,
    LeaseError,
    StateCorruptedError,
    UnsupportedError,
)
from connectors_core.source import NumberSequenceSource, SupportsRewinding
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import InProcess
from connectors_core.testing.faults import Fault, FaultAction, FaultInjected, FaultPoint

ROWS = 100


class Setup(TwoSinks):
    """A pipeline with epochs of ten rows each."""

    source = NumberSequenceSource

    def __init__(self, root):
        self.state = root / "state"
        self.sink, self.other = DirectorySink(root / "out"), DirectorySink(root / "other")
        self.store = StateStore(str(self.state)).child("query-0")

    def pipeline(self, limit=10):
        pipeline = InProcess().pipeline("p", self.state, parallelism=1)
        source = self.source(0, ROWS - 1, split_rows=40, batch_rows=5)
        return self.connected(pipeline, source, rows=limit)

    def times_written(self, sink=None):
        rows = (sink or self.sink).read()
        return Counter(rows["value"].to_pylist()) if rows.num_columns else Counter()

    def rows_behind(self, epoch):
        """Return the values written so far after an epoch."""
        later = [e for e in decisions_since(self.store, 0) if e > epoch]
        return Counter(v for e in later for v in self.sink.read(e)["value"].to_pylist())

    def files(self):
        found = (path for path in self.state.rglob("*") if path.is_file())
        return sorted(path for path in found if path.parent.name != "lease")

    def lose_an_epoch(self):
        """Kill the driver right after a decision, and remove the staged data of one sink."""
        with pytest.raises(FaultInjected):
            self.run(Fault(FaultPoint.AFTER_DECISION, nth=4, action=FaultAction.RAISE))
        epoch = max(decisions_since(self.store, 0))
        shutil.rmtree(self.sink.path / "_staging")
        with pytest.raises(ConnectorError):
            self.run()
        return epoch


@pytest.fixture
def setup(tmp_path):
    return Setup(tmp_path)


def command(setup, name, *arguments):
    return CliRunner().invoke(app, ["state", name, str(setup.state), *map(str, arguments)])


def done(setup, name, *arguments):
    result = command(setup, name, *arguments)
    assert result.exit_code == 0, result.output
    return result.output


# --- rewind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [0, 3, 9])
def test_rows_after_the_epoch_are_read_and_written_again(setup, epoch):
    setup.run()
    again = setup.rows_behind(epoch)
    said = done(setup, "rewind", epoch, "--yes")
    assert f"{again.total()} are read again" in said
    assert f"{again.total()} were written since" in said
    setup.run()
    assert setup.times_written() == Counter(range(ROWS)) + again
    assert setup.times_written(setup.other) == Counter(range(ROWS)) + again
    setup.run()  # but only once
    assert setup.times_written() == Counter(range(ROWS)) + again


def test_a_pipeline_can_be_rewound_several_times(setup):
    setup.run()
    expected = Counter(range(ROWS))
    for epoch in (6, 4):
        expected += Counter({value: 1 for value in range(ROWS) if value >= (epoch + 1) * 10})
        done(setup, "rewind", epoch, "--yes")
        setup.run()
    assert setup.times_written() == expected
    done(setup, "rewind", 2, "--yes")
    done(setup, "rewind", 5, "--yes")  # the last rewind counts
    setup.run()
    assert setup.times_written() == expected + Counter(range(60, ROWS))


def test_a_pipeline_can_be_rewound_to_the_start(setup):
    setup.run()
    done(setup, "rewind", "--to-start", "--yes")
    setup.run()
    assert setup.times_written() == Counter(list(range(ROWS)) * 2)


def test_the_output_of_a_rewind_to_the_start_states_only_known_facts(setup):
    with pytest.raises(FaultInjected):
        setup.run(Fault(FaultPoint.AFTER_DECISION, nth=2, action=FaultAction.RAISE))
    for position, place in (([], "as its options specify"), (["--at", "numbers=90"], "at 90")):
        said = done(setup, "rewind", "--to-start", *position, "--dry-run")
        assert f"numbers starts {place}. Rows after that position are read again" in said
        assert "unread rows before it are never read" in said
        assert "The number of rows is unknown; 20 were read" in said
        assert "20 are read again" not in said
        assert 'split 0 was read up to {"end":39,"lower_bound":null,"position":20' in said
        assert ("The next start rejects" in said) == bool(position)
    setup.source = Rewindable
    done(setup, "rewind", "--to-start", "--at", "numbers=90", "--yes")
    setup.run()
    assert setup.times_written() == Counter(range(20)) + Counter(range(90, ROWS))


class Rewindable(NumberSequenceSource, SupportsRewinding):
    """Can start at any number."""

    def create_enumerator_at(self, context, position):
        if not position.isdigit():
            raise ConfigurationError(f"{position!r} is no number")
        later = NumberSequenceSource(int(position), ROWS - 1, split_rows=40, batch_rows=5)
        return later.create_enumerator(context)


class Checked(Rewindable):
    """Rejects a position that is not a number immediately."""

    def check_position(self, position):
        if not position.isdigit():
            raise ConfigurationError(f"{position!r} is no number", expected="a number")


@pytest.mark.parametrize("source", [NumberSequenceSource, Checked])
def test_the_next_start_refuses_a_position_that_the_source_does_not_accept(setup, source):
    setup.source = source
    setup.run()
    done(setup, "rewind", "--to-start", "--at", "numbers=seventy", "--yes")
    with setup.pipeline() as pipeline:
        with pytest.raises(ConfigurationError, match="seventy") as caught:
            pipeline.start()
        assert "again" in caught.value.hint
        assert "state rewind LOCATION --to-start" in caught.value.hint
        assert "without --at" in caught.value.hint
    done(setup, "rewind", "--to-start", "--yes")
    setup.run()
    assert setup.times_written() == Counter(list(range(ROWS)) * 2)


def test_a_source_can_be_rewound_to_a_position_in_its_own_terms(setup):
    setup.source = Rewindable
    setup.run()
    said = done(setup, "rewind", "--to-start", "--at", "numbers=70", "--yes")
    assert "numbers starts at 70" in said
    with pytest.raises(FaultInjected):  # the next start also finds the position
        setup.run(Fault(FaultPoint.BEFORE_PLAN, action=FaultAction.RAISE))
    setup.run()
    assert setup.times_written() == Counter(range(ROWS)) + Counter(range(70, ROWS))
    setup.run()  # the position counts once
    assert setup.times_written() == Counter(range(ROWS)) + Counter(range(70, ROWS))


def test_a_later_rewind_replaces_or_removes_the_position(setup):
    setup.source = Rewindable
    setup.run()
    for position in (["--at", "numbers=seventy"], []):
        done(setup, "rewind", "--to-start", *position, "--yes")
        with pytest.raises((ConfigurationError, FaultInjected)):
            setup.run(Fault(FaultPoint.BEFORE_PLAN, action=FaultAction.RAISE))
    setup.run()
    assert setup.times_written() == Counter(list(range(ROWS)) * 2)


def test_an_invalid_position_can_be_replaced(setup):
    setup.run()
    for wrong in (["--at", "numbers=7"], ["--to-start", "--at", "letters=7"]):
        assert command(setup, "rewind", *wrong, "--yes").exit_code == 2
    done(setup, "rewind", "--to-start", "--at", "numbers=seventy", "--yes")
    with pytest.raises(UnsupportedError, match="cannot start at 'seventy'"):
        setup.run()
    setup.source = Rewindable
    with pytest.raises(ConfigurationError, match="no number"):
        setup.run()
    done(setup, "rewind", "--to-start", "--at", "numbers=90", "--yes")
    setup.run()
    assert setup.times_written() == Counter(range(ROWS)) + Counter(range(90, ROWS))


def test_a_driver_that_is_killed_after_a_rewind_resumes_exactly(setup):
    setup.run()
    done(setup, "rewind", 4, "--yes")
    for point in (FaultPoint.AFTER_PLAN, FaultPoint.AFTER_DECISION, FaultPoint.BEFORE_SPARK_COMMIT):
        with pytest.raises(FaultInjected):
            setup.run(Fault(point, action=FaultAction.RAISE))
    setup.run()
    assert setup.times_written() == Counter(range(ROWS)) + Counter(range(50, ROWS))


def test_without_an_epoch_the_possible_epochs_are_listed(setup):
    setup.run()
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9" in done(setup, "rewind")


def test_nothing_changes_without_a_confirmation(setup):
    setup.run()
    before = setup.files()
    assert "nothing was changed" in done(setup, "rewind", 3, "--dry-run")
    result = CliRunner().invoke(app, ["state", "rewind", str(setup.state), "3"], input="n\n")
    assert result.exit_code == 1
    for wrong in (["77"], ["3", "--to-start"], ["3", "--query", "query-7"]):
        result = command(setup, "rewind", *wrong, "--yes")
        assert result.exit_code == 2, result.output
    assert setup.files() == before


def test_a_running_pipeline_and_one_with_spark_state_are_refused(setup):
    setup.run()
    with Lease.acquire(StateStore(str(setup.state))):
        result = command(setup, "rewind", 3, "--yes")
        assert (result.exit_code, "holds" in result.output) == (2, True)
    (setup.state / "query-0" / "spark-0" / "state").mkdir()
    (setup.state / "query-0" / "spark-0" / "state" / "1.delta").write_bytes(b"")
    result = command(setup, "rewind", 3, "--yes")
    assert (result.exit_code, "Spark state" in result.output) == (2, True)
    assert "state restore" in result.output


def test_a_rewind_repairs_a_missing_plan(setup):
    setup.run()
    (setup.state / "query-0" / "plans" / "0000000006.json").unlink()
    with pytest.raises(StateCorruptedError, match="plan 6 is missing") as caught:
        setup.run()
    assert "state rewind" in str(caught.value)
    assert done(setup, "rewind").strip().endswith("0, 1, 2, 3, 4, 5")
    again = setup.rows_behind(5)
    done(setup, "rewind", 5, "--yes")
    setup.run()
    assert setup.times_written() == Counter(range(ROWS)) + again


# --- give up --------------------------------------------------------------------------------------


def test_abandoned_rows_of_an_epoch_are_named_and_all_other_rows_are_written(setup):
    epoch = setup.lose_an_epoch()
    said = done(setup, "give-up", epoch, "--yes")
    assert "10 rows of out are LOST" in said
    part = said[said.index("The epoch read these rows:\n  10 of numbers, split 0\n") :].splitlines()
    assert part[2].startswith('    from {"end":39,"lower_bound":null,"position":30,')
    assert part[3] == "    to   its end"
    assert "given up" in done(setup, "show")
    setup.run()
    assert setup.times_written() == Counter(range(ROWS)) - Counter(range(30, 40))
    assert setup.times_written(setup.other) <= Counter(range(ROWS))


def test_abandoned_rows_of_an_epoch_are_read_again_on_request(setup):
    epoch = setup.lose_an_epoch()
    said = done(setup, "give-up", epoch, "--read-again", "--yes")
    assert "10 rows of out are read again" in said
    setup.run()
    assert setup.times_written() == Counter(range(ROWS))


def test_the_first_epoch_can_be_read_again(setup):
    with pytest.raises(FaultInjected):
        setup.run(Fault(FaultPoint.AFTER_DECISION, action=FaultAction.RAISE))
    done(setup, "give-up", 0, "--read-again", "--yes")
    setup.run()
    assert setup.times_written() == Counter(range(ROWS))


def test_only_an_uncommitted_epoch_can_be_given_up(setup):
    epoch = setup.lose_an_epoch()
    before = setup.files()
    for wrong in (epoch - 1, epoch + 1):
        result = command(setup, "give-up", wrong, "--yes")
        assert result.exit_code == 2
        assert f"not committed: {epoch}" in result.output
    assert "nothing was changed" in done(setup, "give-up", epoch, "--dry-run")
    assert (
        CliRunner()
        .invoke(app, ["state", "give-up", str(setup.state), str(epoch)], input="n\n")
        .exit_code
        == 1
    )
    assert setup.files() == before


@pytest.mark.parametrize("epoch", [4, 9])
def test_an_epoch_with_a_missing_decision_can_be_given_up(setup, epoch):
    setup.run()
    (setup.state / "query-0" / "decisions" / f"{epoch:010d}.json").unlink()
    with pytest.raises(StateCorruptedError, match=f"decision {epoch} is missing") as caught:
        setup.run()
    assert "state give-up" in str(caught.value)
    said = done(setup, "give-up", epoch, "--yes")
    assert "no decision" in said
    around = {
        4: ["20 of numbers, split 40", '"position":40,', '"position":60,'],
        9: ["10 of numbers, split 80", '"position":90,', "its end"],
    }
    part = said[said.index("Its rows are among these rows, which were read:") :].splitlines()
    assert all(each in line for each, line in zip(around[epoch], part[1:4], strict=True))
    setup.run()
    assert setup.times_written() == Counter(range(ROWS))


def test_abandoned_rows_of_unknown_positions_are_reported(setup):
    epoch = setup.lose_an_epoch()
    (setup.state / "query-0" / "plans" / f"{epoch:010d}.json").unlink()
    assert "positions of its rows are not recorded" in done(setup, "give-up", epoch, "--dry-run")


def test_the_newest_epoch_can_be_given_up_when_its_decision_and_done_marks_are_missing(setup):
    setup.run()
    (setup.state / "query-0" / "decisions" / "0000000009.json").unlink()
    shutil.rmtree(setup.state / "query-0" / "done" / "0000000009")
    with pytest.raises(StateCorruptedError, match="decision 9 is missing"):
        setup.run()
    assert command(setup, "backup", setup.state.parent / "copy").exit_code == 2
    assert "no decision" in done(setup, "give-up", 9, "--yes")
    setup.run()
    assert setup.times_written() == Counter(range(ROWS))


def test_an_epoch_of_a_running_pipeline_cannot_be_given_up(setup):
    epoch = setup.lose_an_epoch()
    with Lease.acquire(StateStore(str(setup.state))):
        with pytest.raises(LeaseError):
            Lease.acquire(StateStore(str(setup.state)))
        assert command(setup, "give-up", epoch, "--yes").exit_code == 2


# --- give up a split ------------------------------------------------------------------------------


class Damaged(NumberSequenceSource):
    """Cannot read the numbers from 50 to 79, which split 40 ends with."""

    def make_batch(self, numbers):
        if 50 <= numbers[0].as_py() < 80:
            raise FatalError("the numbers are damaged")
        return super().make_batch(numbers)


class Gone(NumberSequenceSource):
    """Has lost split 40."""

    def create_reader(self, context):
        reader = super().create_reader(context)
        add = reader.add_splits
        reader.add_splits = lambda splits: add([s for s in splits if s.split_id != "40"])
        return reader


def fails_in_a_split(setup):
    setup.source = Damaged
    with pytest.raises(FatalError, match="damaged"):
        setup.run()


def test_the_rest_of_a_split_is_given_up_and_named_and_all_other_rows_are_written(setup):
    fails_in_a_split(setup)
    said = done(setup, "give-up-split", "numbers", 40, "--yes")
    assert "split 40 of numbers: the rows that follow are LOST" in said
    assert '"position":50' in said
    expected = Counter(range(ROWS)) - Counter(range(50, 80))
    for _ in range(2):
        setup.run()
        assert setup.times_written() == setup.times_written(setup.other) == expected


def test_rows_that_were_read_but_not_written_are_given_up_with_their_split(setup):
    with pytest.raises(FaultInjected):
        setup.run(Fault(FaultPoint.BEFORE_DECISION, nth=6, action=FaultAction.RAISE))
    setup.source = Gone
    with pytest.raises(DataLossError, match="fewer rows") as caught:
        setup.run()
    assert "connectors state give-up-split LOCATION UID SPLIT" in caught.value.hint
    said = done(setup, "give-up-split", "numbers", 40, "--yes")
    assert "read 10 rows before this position" in said
    setup.run()
    assert setup.times_written() == Counter(range(ROWS)) - Counter(range(50, 80))


def test_a_split_that_was_given_up_is_read_again_after_a_rewind(setup):
    fails_in_a_split(setup)
    done(setup, "give-up-split", "numbers", 40, "--yes")
    setup.run()
    setup.source = NumberSequenceSource
    done(setup, "rewind", "--to-start", "--yes")
    setup.run()
    assert set(setup.times_written()) == set(range(ROWS))


def test_a_copy_of_the_state_keeps_the_splits_that_were_given_up(setup):
    fails_in_a_split(setup)
    done(setup, "give-up-split", "numbers", 40, "--yes")
    copy = setup.state.parent / "copy"
    done(setup, "backup", copy)
    shutil.rmtree(setup.state)
    result = CliRunner().invoke(app, ["state", "restore", str(copy), str(setup.state)])
    assert result.exit_code == 0, result.output
    setup.run()
    assert setup.times_written() == Counter(range(ROWS)) - Counter(range(50, 80))


def test_a_name_without_secrets_gives_up_no_split_if_several_have_it(setup, monkeypatch):
    fails_in_a_split(setup)
    before = setup.files()
    monkeypatch.setattr(abandonment, "mask_text", lambda _: "masked")
    result = command(setup, "give-up-split", "numbers", "masked", "--yes")
    assert (result.exit_code, "unfinished splits of source" in result.output) == (2, True)
    assert setup.files() == before
    done(setup, "give-up-split", "numbers", 40, "--yes")


def test_only_a_split_of_a_stopped_pipeline_can_be_given_up_and_only_after_a_confirmation(setup):
    fails_in_a_split(setup)
    before = setup.files()
    result = command(setup, "give-up-split", "numbers", 7, "--yes")
    assert (result.exit_code, "'40'" in result.output) == (2, True)
    assert command(setup, "give-up-split", "letters", 40, "--yes").exit_code == 2
    assert "nothing was changed" in done(setup, "give-up-split", "numbers", 40, "--dry-run")
    arguments = ["state", "give-up-split", str(setup.state), "numbers", "40"]
    assert CliRunner().invoke(app, arguments, input="n\n").exit_code == 1
    with Lease.acquire(StateStore(str(setup.state))):
        result = command(setup, "give-up-split", "numbers", 40, "--yes")
        assert (result.exit_code, "holds" in result.output) == (2, True)
    assert setup.files() == before
