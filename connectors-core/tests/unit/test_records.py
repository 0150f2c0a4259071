# SPDX-License-Identifier: Apache-2.0
"""Tests the policy for bad records: stop, count, or keep them for a sink."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from connectors_core.engine.execution.dead_letter_spools import (
    DeadLetterSpool,
    read_spool,
    spool_factory,
)
from connectors_core.engine.state import StateStore
from connectors_core.errors import (
    BadRecordError,
    BadRecordLimitError,
    ConfigurationError,
    FatalError,
    ForeignError,
    StateCorruptedError,
)
from connectors_core.records import (
    DEAD_LETTER_SCHEMA,
    BadRecord,
    RecordErrorHandler,
    RecordPolicy,
    RecordPolicyMode,
)

WHEN = datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


def bad(number: int = 0) -> BadRecord:
    return BadRecord(
        reason="no closing quote",
        source_uid="flights",
        code="CSV_QUOTE",
        split_id="file-1",
        position=f"line {number}",
        raw=b'a,"%d' % number,
        when=WHEN,
    )


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateStore:
    return StateStore(str(tmp_path) if request.param == "local" else f"memory://{tmp_path}")


def test_fail_stops_at_the_first_bad_record_with_all_details() -> None:
    cause = ValueError("client library")
    with pytest.raises(BadRecordError) as caught:
        RecordErrorHandler(RecordPolicy.fail()).handle(bad(3), cause=cause)
    error = caught.value
    assert (error.code, error.split_id, error.position) == ("CSV_QUOTE", "file-1", "line 3")
    assert error.raw == b'a,"3'
    assert isinstance(error.__cause__, ForeignError)
    assert "ValueError" in str(error.__cause__)
    assert "client library" not in str(error.__cause__), "it may quote the record"
    assert BadRecord.from_error(error, source_uid="flights").reason == "no closing quote"


def told(policy: RecordPolicy, record: BadRecord, cause: Exception | None = None) -> str:
    """Return all text in a traceback of the error and its causes."""
    with pytest.raises((BadRecordError, BadRecordLimitError)) as caught:
        RecordErrorHandler(policy).handle(record, cause=cause)
    return "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("policy", [RecordPolicy.fail(), RecordPolicy.skip(max_records=0)])
def test_errors_contain_no_values_of_the_record_by_default(policy: RecordPolicy) -> None:
    record = replace(
        bad(), reason="decimal128(5, 2): 12345678.9 requires precision 9", raw=b"12345678.9,ann"
    )
    shown = told(policy, record, pa.ArrowInvalid("invalid value 'ann' in row 12345678.9"))
    assert "ann" not in shown
    assert "12345678.9" not in shown
    assert "decimal128(5, 2)" in told(policy, record) or policy.mode is RecordPolicyMode.SKIP
    assert "pyarrow.lib.ArrowInvalid" in shown


@pytest.mark.parametrize(
    "policy",
    [
        RecordPolicy.fail(show_records=True),
        RecordPolicy.skip(max_records=0, show_records=True),
    ],
)
def test_errors_show_the_record_on_request(policy: RecordPolicy) -> None:
    record = replace(bad(), raw=b"1,ann" + b"x" * 5000)
    assert "b'1,annxx" in told(policy, record)
    assert "and 4005 more bytes" in told(policy, record)
    assert "invalid value 'ann'" in told(policy, record, pa.ArrowInvalid("invalid value 'ann'"))


def test_fail_is_the_default_policy() -> None:
    assert RecordPolicy() == RecordPolicy.fail()


def test_skip_counts_bad_records() -> None:
    with RecordErrorHandler(RecordPolicy.skip()) as handler:
        for number in range(5):
            handler.handle(bad(number))
    assert handler.summary() == {"skipped": 5, "dead_letters": 0, "spool": None}


def test_the_limit_allows_exactly_that_many_bad_records_and_then_raises_a_fatal_error() -> None:
    handler = RecordErrorHandler(RecordPolicy.skip(max_records=2))
    handler.handle(bad(1))
    handler.handle(bad(2))
    with pytest.raises(BadRecordLimitError) as caught:
        handler.handle(bad(3))
    assert isinstance(caught.value, FatalError)
    assert isinstance(caught.value.__cause__, BadRecordError)
    assert "line 3" in str(caught.value.__cause__)


def test_the_driver_checks_the_sum_over_all_reports() -> None:
    policy = RecordPolicy.skip(max_records=10)
    policy.check_total(10)
    with pytest.raises(BadRecordLimitError):
        policy.check_total(11)
    RecordPolicy.skip().check_total(10**9)


def test_dead_letters_are_spooled_in_full_and_in_order(store: StateStore) -> None:
    policy = RecordPolicy.dead_letter(object())
    with RecordErrorHandler(policy, spool_factory(store, "7", "flights", "0")) as handler:
        for number in range(2500):
            handler.handle(bad(number))
    summary = handler.summary()
    assert summary["dead_letters"] == 2500
    assert summary["spool"] is not None
    assert summary["spool"].startswith("spool/7/flights/0/")
    batches = list(read_spool(store, summary["spool"]))
    assert [batch.num_rows for batch in batches] == [1000, 1000, 500]
    table = pa.Table.from_batches(batches)
    assert table.schema == DEAD_LETTER_SCHEMA
    assert table.column("position").to_pylist() == [f"line {number}" for number in range(2500)]
    assert table.slice(7, 1).to_pylist() == [
        {
            "error_code": "CSV_QUOTE",
            "reason": "no closing quote",
            "source_uid": "flights",
            "split_id": "file-1",
            "position": "line 7",
            "raw": b'a,"7',
            "occurred_at": WHEN,
        }
    ]


def test_without_dead_letters_no_spool_is_written(store: StateStore) -> None:
    with RecordErrorHandler(RecordPolicy.dead_letter(object()), spool_factory(store)) as handler:
        pass
    assert handler.summary() == {"skipped": 0, "dead_letters": 0, "spool": None}
    assert store.list("spool", recursive=True) == []


def test_a_failed_attempt_leaves_no_spool(store: StateStore) -> None:
    policy = RecordPolicy.dead_letter(object(), max_records=1)

    def attempt() -> None:
        with RecordErrorHandler(policy, spool_factory(store, "1")) as handler:
            handler.handle(bad(1))
            handler.handle(bad(2))

    with pytest.raises(BadRecordLimitError):
        attempt()
    assert store.list("spool", recursive=True) == []


def test_attempts_never_share_a_spool(store: StateStore) -> None:
    open_spool = spool_factory(store, "../../etc", "a/b")
    spools = [open_spool(), open_spool()]
    for spool in spools:
        spool.append(bad())
        spool.close()
        spool.close()
    assert len({spool.name for spool in spools}) == 2
    assert all(".." not in spool.name for spool in spools)
    assert [spool.rows for spool in spools] == [1, 1]


def test_large_records_are_flushed_early(store: StateStore) -> None:
    spool = DeadLetterSpool(store, "spool/x", batch_bytes=100)
    for number in range(4):
        spool.append(BadRecord(reason="long", source_uid="s", raw=b"x" * 60, position=str(number)))
    spool.close()
    assert [batch.num_rows for batch in read_spool(store, "spool/x")] == [2, 2]


def test_a_truncated_spool_is_refused(tmp_path: Path) -> None:
    store = StateStore(str(tmp_path))
    spool = DeadLetterSpool(store, "spool/x")
    spool.append(bad())
    spool.close()
    data = store.read("spool/x")
    store.create("spool/cut", data[: len(data) // 2])
    with pytest.raises(StateCorruptedError, match="spool/cut"):
        list(read_spool(store, "spool/cut"))


def test_the_policy_is_sent_to_executors_without_its_sink() -> None:
    policy = RecordPolicy.dead_letter(lambda: None, max_records=3)
    copy = pickle.loads(pickle.dumps(policy.for_executors()))
    assert (copy.mode, copy.max_records, copy.sink) == (RecordPolicyMode.DEAD_LETTER, 3, None)


def test_an_invalid_policy_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        RecordPolicy.skip(max_records=-1)
    with pytest.raises(ConfigurationError):
        RecordPolicy.dead_letter(None)
    with pytest.raises(ConfigurationError):
        RecordErrorHandler(RecordPolicy.dead_letter(object()))


def test_a_bad_record_does_not_show_its_content() -> None:
    assert "raw" not in repr(bad(7))
