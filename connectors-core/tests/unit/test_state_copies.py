# SPDX-License-Identifier: Apache-2.0
"""Tests that a pipeline starts from a backup of its state as from the state itself."""

from __future__ import annotations

import zipfile
from collections import Counter
from dataclasses import replace

import pytest
from number_jobs import numbers_job
from typer.testing import CliRunner

from connectors_core.cli import app
from connectors_core.engine.recovery import backup
from connectors_core.engine.recovery.locations import Locations
from connectors_core.engine.state import Lease, LeaseOwner, StateStore
from connectors_core.errors import StateCorruptedError
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.driver import run_driver, wait_for_survivors
from connectors_core.testing.environment import InProcess
from connectors_core.testing.faults import Fault, FaultPoint

SECONDS = 30
ROWS = 2000


def command(*arguments):
    return CliRunner().invoke(app, ["state", *map(str, arguments)])


def done(*arguments):
    result = command(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def build(state, sink, *, rows=ROWS, limit=10):
    pipeline = InProcess().pipeline("p", state, parallelism=2)
    source = NumberSequenceSource(0, rows - 1, split_rows=500, batch_rows=5)
    frame = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=limit))
    pipeline.sink_to(frame, sink, uid="out")
    return pipeline


def finish(state, sink, **settings):
    with build(state, sink, limit=500, **settings) as pipeline:
        assert pipeline.run(timeout=SECONDS)


def values(sink, epoch=None):
    rows = sink.read(epoch)
    return rows["value"].to_pylist() if rows.num_columns else []


def run_until(pipeline, sink, rows):
    while len(values(sink)) < rows:
        assert not pipeline.await_termination(0.01)


def cut_of(copy):
    return backup.verify_copy(str(copy), {}).cuts[0]


@pytest.mark.parametrize("name", ["copy", "copy.zip"])
def test_a_pipeline_restored_from_a_live_backup_resumes_after_the_last_epoch_in_it(tmp_path, name):
    before, after = DirectorySink(tmp_path / "before"), DirectorySink(tmp_path / "after")
    state, copy = tmp_path / "state", tmp_path / name
    with build(state, before) as pipeline:
        pipeline.start()
        run_until(pipeline, before, 60)
        assert "which runs" in done("backup", state, copy)
        run_until(pipeline, before, len(values(before)) + 60)
    cut = cut_of(copy)
    assert not cut.whole
    done("restore", copy, tmp_path / "restored")
    finish(tmp_path / "restored", after)
    kept = [value for epoch in range(cut.epoch + 1) for value in values(before, epoch)]
    assert len(kept) >= 50
    assert Counter(kept + values(after)) == Counter(range(ROWS))


@pytest.mark.parametrize(
    "point", [FaultPoint.READER_FETCHED, FaultPoint.AFTER_DECISION, FaultPoint.BEFORE_SPARK_COMMIT]
)
def test_the_state_of_a_killed_driver_is_backed_up_and_finished_from_the_backup(tmp_path, point):
    job, sink = numbers_job(tmp_path, "state")
    log = tmp_path / "driver.log"
    fault = Fault(point, nth=3, once=tmp_path / "fired")
    assert run_driver(job, log, fault) == -9, log.read_text()
    wait_for_survivors(log)
    assert "is not running" in done("backup", tmp_path / "state", tmp_path / "copy.zip")
    done("restore", tmp_path / "copy.zip", tmp_path / "restored")
    restored = replace(job, location=str(tmp_path / "restored"))
    with restored.build(InProcess()) as pipeline:
        assert pipeline.run(timeout=SECONDS)
    assert Counter(values(sink)) == Counter(range(200))


def test_an_old_backup_loses_no_rows_although_the_pipeline_continued(tmp_path):
    sink, state = DirectorySink(tmp_path / "out"), tmp_path / "state"
    with build(state, sink) as pipeline:
        pipeline.start()
        run_until(pipeline, sink, 60)
    done("backup", state, tmp_path / "copy")
    kept = set(values(sink))
    finish(state, sink)
    for name in ("first", "second"):  # each writes under its own epochs
        done("restore", tmp_path / "copy", tmp_path / name)
        finish(tmp_path / name, sink)
    assert Counter(values(sink)) == Counter(
        {value: 1 if value in kept else 3 for value in range(ROWS)}
    )


@pytest.fixture
def ended(tmp_path):
    """Create the state of a finished pipeline, and its sink."""
    sink = DirectorySink(tmp_path / "out")
    with build(tmp_path / "state", sink, rows=100) as pipeline:
        assert pipeline.run(timeout=SECONDS)
    return tmp_path / "state"


def test_a_backup_can_be_in_any_filesystem(ended, tmp_path):
    for target in ("memory://copies/folder", "memory://copies/archive.zip"):
        done("backup", ended, target)
        restored = tmp_path / target.rpartition("/")[2]
        done("restore", target, restored)
        sink = DirectorySink(tmp_path / "again")
        finish(restored, sink, rows=100)
        assert values(sink) == []


def test_no_file_is_ever_overwritten(ended, tmp_path):
    for target in ("copy", "copy.zip"):
        done("backup", ended, tmp_path / target)
        content = backup.verify_copy(str(tmp_path / target), {})
        result = command("backup", ended, tmp_path / target)
        assert result.exit_code == 2
        assert "never overwritten" in result.output
        assert backup.verify_copy(str(tmp_path / target), {}) == content
    result = command("restore", tmp_path / "copy", ended)
    assert result.exit_code == 2
    assert "never overwritten" in result.output


def test_a_dry_run_changes_nothing(ended, tmp_path):
    assert "nothing was changed" in done("backup", ended, tmp_path / "copy", "--dry-run")
    assert not (tmp_path / "copy").exists()
    done("backup", ended, tmp_path / "copy")
    assert "nothing was changed" in done(
        "restore", tmp_path / "copy", tmp_path / "new", "--dry-run"
    )
    assert not (tmp_path / "new").exists()


def test_an_altered_or_truncated_backup_is_refused(ended, tmp_path):
    done("backup", ended, tmp_path / "altered")
    report = next((tmp_path / "altered" / "query-0" / "reports").rglob("*.json"))
    report.write_bytes(report.read_bytes().replace(b"a", b"b"))
    done("backup", ended, tmp_path / "cut")
    (tmp_path / "cut" / "backup.json").unlink()
    done("backup", ended, tmp_path / "cut.zip")
    with (tmp_path / "cut.zip").open("r+b") as archive:
        archive.truncate(1000)
    done("backup", ended, tmp_path / "gone")
    next((tmp_path / "gone" / "query-0" / "decisions").iterdir()).unlink()
    for name, says in (
        ("altered", "was changed"),
        ("cut", "not a complete copy"),
        ("cut.zip", "not a complete archive"),
        ("gone", "is missing in the copy"),
        ("nowhere.zip", "not a complete archive"),
    ):
        result = command("restore", tmp_path / name, tmp_path / f"restored-{name}")
        assert (result.exit_code, says in result.output) == (2, True), result.output
    with pytest.raises(StateCorruptedError):  # the files of the failed restore
        finish(tmp_path / "restored-altered", DirectorySink(tmp_path / "none"), rows=100)


def test_incomplete_state_cannot_be_backed_up(ended, tmp_path):
    (ended / "query-0" / "decisions" / "0000000003.json").unlink()
    result = command("backup", ended, tmp_path / "copy")
    assert result.exit_code == 2
    assert "decision 3 is missing" in result.output


def test_files_that_the_pipeline_removes_during_a_backup_are_not_needed(ended, tmp_path):
    locations = Locations(*[StateStore(str(ended))] * 2)
    plan = backup.plan_backup(locations, running=True)
    for folder in ("decisions", "done"):
        for epoch in range(3):
            path = ended / "query-0" / folder / f"{epoch:010d}"
            for file in [path.with_suffix(".json"), *path.glob("*")]:
                file.unlink(missing_ok=True)
    backup.back_up(locations, plan, str(tmp_path / "copy"), {})
    done("restore", tmp_path / "copy", tmp_path / "restored")
    finish(tmp_path / "restored", DirectorySink(tmp_path / "again"), rows=100)


def test_no_driver_starts_while_a_stopped_pipeline_is_backed_up(ended, tmp_path):
    locations = Locations(*[StateStore(str(ended))] * 2)
    with backup.held(locations) as stopped:
        assert stopped
        with pytest.raises(Exception, match="holds"):
            Lease.acquire(locations.state)


def test_a_backup_never_takes_the_lease_of_a_driver_that_sends_no_heartbeat(ended, tmp_path):
    elsewhere = LeaseOwner(host="elsewhere", pid=7, boot_id="b")
    paused = Lease.acquire(
        StateStore(str(ended)), elsewhere, renewer=lambda _beat, _seconds: lambda: None
    )
    assert "which runs" in done("backup", ended, tmp_path / "copy")
    paused.confirm()
    paused.release()


def test_checkpoint_and_state_may_be_in_two_locations(ended, tmp_path):
    (tmp_path / "spark" / "query-0").mkdir(parents=True)
    (ended / "query-0" / "spark-0").rename(tmp_path / "spark" / "query-0" / "spark-0")
    result = command("backup", ended, tmp_path / "copy")
    assert (result.exit_code, "--checkpoint" in result.output) == (2, True)
    done("backup", ended, tmp_path / "copy", "--checkpoint", tmp_path / "spark")
    done("restore", tmp_path / "copy", tmp_path / "state2", "--checkpoint", tmp_path / "spark2")
    assert not (tmp_path / "state2" / "query-0" / "spark-0").exists()
    assert (tmp_path / "spark2" / "query-0" / "spark-0" / "commits").is_dir()


def test_a_location_without_a_pipeline_is_refused(tmp_path):
    result = command("backup", tmp_path / "nothing", tmp_path / "copy")
    assert (result.exit_code, "no pipeline" in result.output) == (2, True)


def test_an_archive_is_an_ordinary_zip_file(ended, tmp_path):
    done("backup", ended, tmp_path / "copy.zip")
    with zipfile.ZipFile(tmp_path / "copy.zip") as archive:
        assert archive.testzip() is None
        assert "query-0/plans/0000000000.json" in archive.namelist()


def test_a_restored_pipeline_checks_its_state_as_strictly_as_any_other(ended, tmp_path):
    done("backup", ended, tmp_path / "copy")
    done("restore", tmp_path / "copy", tmp_path / "restored")
    finish(tmp_path / "restored", DirectorySink(tmp_path / "again"), rows=100)
    (tmp_path / "restored" / "query-0" / "decisions" / "0000000004.json").unlink()
    with pytest.raises(StateCorruptedError, match="decision 4 is missing"):
        finish(tmp_path / "restored", DirectorySink(tmp_path / "again"), rows=100)
