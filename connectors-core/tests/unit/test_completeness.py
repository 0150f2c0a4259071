# SPDX-License-Identifier: Apache-2.0
"""Tests that incomplete state is rejected at the start, before any write."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace

import pytest

from connectors_core.engine.coordinator.plan_log import mark_decided
from connectors_core.engine.protocol import PLANS
from connectors_core.engine.state import StateStore
from connectors_core.errors import StateCorruptedError
from connectors_core.source import NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import InProcess

SECONDS = 30
ROWS = 60


class Setup:
    """A finished pipeline with six plans and epochs of ten rows each."""

    def __init__(self, root):
        self.root = root
        self.state = root / "state" / "query-0"
        self.sink = DirectorySink(root / "out")

    def run(self, rows=ROWS):
        pipeline = InProcess().pipeline("p", self.root / "state", parallelism=1)
        source = NumberSequenceSource(0, rows - 1, split_rows=ROWS, batch_rows=5)
        frame = pipeline.from_source(source, uid="numbers", limits=ReadLimits(rows=10))
        pipeline.sink_to(frame, self.sink, uid="out")
        with pipeline:
            assert pipeline.run(timeout=SECONDS)

    def files(self):
        """Return all files except those of the lease, which every start takes."""
        found = (path for path in (self.root / "state").rglob("*") if path.is_file())
        return sorted(path for path in found if path.parent.name != "lease")

    def numbered(self, folder):
        return sorted((self.state / folder).iterdir())

    def values(self):
        return sorted(self.sink.read()["value"].to_pylist())


@pytest.fixture
def setup(tmp_path):
    setup = Setup(tmp_path)
    setup.run()
    return setup


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def assert_refused(setup, *says):
    before = setup.files(), sorted(setup.sink.path.rglob("*"))
    with pytest.raises(StateCorruptedError) as caught:
        setup.run()
    for word in ("not complete", "backup", *says):
        assert word in str(caught.value)
    assert (setup.files(), sorted(setup.sink.path.rglob("*"))) == before


def test_complete_state_is_accepted(setup):
    setup.run()
    assert setup.values() == list(range(ROWS))


@pytest.mark.parametrize("position", [1, 3, -1])
def test_a_missing_decision_is_detected(setup, position):
    gone = setup.numbered("decisions")[position]
    remove(gone)
    assert_refused(setup, f"decision {int(gone.stem)} is missing")


def test_the_loss_of_all_decisions_is_detected(setup):
    remove(setup.state / "decisions")
    assert_refused(setup, "decision 0 is missing", "no decision")


def test_decisions_from_an_older_backup_than_the_plans_are_detected(setup):
    setup.run()  # the plans now record the newest decision at their start
    for folder in ("decisions", "done"):
        for gone in setup.numbered(folder)[4:]:
            remove(gone)
    assert_refused(setup, "decision 5 is missing", "decision 3 as the newest")


def rewrite_plans(setup, decided):
    """Change the newest decision that each plan records."""
    store = StateStore(str(setup.state))
    for path in setup.numbered("plans"):
        plan = PLANS.read(store, f"plans/{path.name}")
        remove(path)
        assert PLANS.create(store, f"plans/{path.name}", replace(plan, decided=decided(plan)))


def remove_the_newest_decisions(setup, count):
    for folder in ("decisions", "done"):
        for gone in setup.numbered(folder)[-count:]:
            remove(gone)


@pytest.mark.parametrize("count", [1, 2])
def test_missing_newest_decisions_are_detected_even_without_their_done_marks(setup, count):
    # A late plan records a newer decision. Here no plan records any of the removed decisions.
    rewrite_plans(setup, lambda plan: min(plan.decided, 5 - count))
    remove_the_newest_decisions(setup, count)
    assert_refused(setup, f"decision {6 - count} is missing", "which Spark has finished")


def test_plans_of_early_releases_do_not_require_a_decision(setup):
    rewrite_plans(setup, lambda plan: None)
    remove_the_newest_decisions(setup, 1)
    setup.run()
    assert setup.values() == list(range(ROWS))


def test_a_missing_decision_that_a_batch_run_marked_is_detected(setup):
    store = StateStore(str(setup.state))
    for epoch in (3, 5):
        mark_decided(store, epoch)
    assert [path.name for path in setup.numbered("decided")] == ["0000000005"]
    setup.run()
    rewrite_plans(setup, lambda plan: None)
    for folder in ("decisions", "done"):
        for gone in setup.numbered(folder)[4:]:
            remove(gone)
    assert_refused(setup, "decision 5 is missing", "the mark of a batch run")


def test_missing_decisions_with_their_done_marks_leave_a_detectable_gap(setup):
    for folder in ("decisions", "done"):
        for gone in setup.numbered(folder)[2:4]:
            remove(gone)
    assert_refused(setup, "decisions 2 to 3 are missing")


@pytest.mark.parametrize("position", [2, -1])
def test_a_missing_plan_is_detected(setup, position):
    gone = setup.numbered("plans")[position]
    remove(gone)
    assert_refused(setup, f"plan {int(gone.stem)} is missing")


def test_missing_plans_and_reports_at_the_end_are_detected(setup):
    decided = len(setup.numbered("decisions")) - 1
    for folder in ("plans", "reports"):
        for gone in setup.numbered(folder)[decided:]:
            remove(gone)
    assert_refused(setup, f"plan {decided} is missing", f"epoch {decided} holds")


def test_a_missing_report_of_a_decided_plan_is_detected(setup):
    decided = len(setup.numbered("decisions"))
    for gone in setup.numbered("plans")[decided:]:
        remove(gone)
    for gone in setup.numbered("reports")[decided - 1 :]:
        remove(gone)
    assert_refused(setup, f"a report of plan {decided - 1} is missing")


def test_a_batch_log_that_is_older_than_the_decisions_is_refused(setup):
    for folder in ("offsets", "commits"):
        files = (setup.state / "spark-0" / folder).iterdir()
        for gone in sorted(files, key=lambda path: int(path.name))[-3:]:
            remove(gone)
    assert_refused(setup, "checkpoint is older")


def test_plans_that_are_older_than_the_batch_log_are_refused(setup):
    for folder in ("plans", "reports", "decisions", "done"):
        for gone in setup.numbered(folder)[-2:]:
            remove(gone)
    assert_refused(setup, "plan 5 is missing", "log reads")


def test_a_missing_identity_is_detected(setup):
    remove(setup.root / "state" / "pipeline")
    assert_refused(setup, "which pipeline")


def test_the_state_of_another_pipeline_is_refused(setup, tmp_path):
    other = Setup(tmp_path / "other")
    other.run()
    remove(setup.root / "state" / "pipeline")
    shutil.copytree(other.root / "state" / "pipeline", setup.root / "state" / "pipeline")
    assert_refused(setup, "belongs to another pipeline")


def test_the_state_after_an_interrupted_purge_is_complete(setup):
    for path in setup.numbered("decisions")[:2]:
        remove(path)
    setup.run()
    assert setup.values() == list(range(ROWS))


def test_unrelated_files_in_the_state_are_ignored_and_named(setup, caplog):
    for folder in ("plans", "decisions", "reports", "done", "lease"):
        (setup.state.parent if folder == "lease" else setup.state).joinpath(folder).joinpath(
            ".DS_Store"
        ).write_bytes(b"\0\0\0\1Bud1")
    (setup.state / "decisions" / "0000000003.json~").write_bytes(b"")
    (setup.state / "plans" / "notes.txt").write_bytes(b"")
    (setup.state.parent / "pipeline" / ".DS_Store").write_bytes(b"")
    with caplog.at_level(logging.WARNING, "connectors_core"):
        setup.run()
    assert setup.values() == list(range(ROWS))
    for name in ("plans/.DS_Store", "plans/notes.txt", "decisions/0000000003.json~"):
        assert name in caplog.text
