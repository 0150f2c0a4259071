# SPDX-License-Identifier: Apache-2.0
"""The suite for lookup tables. Subclass it and supply an external context."""

from __future__ import annotations

import pickle
import traceback
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from connectors_core.engine.execution.lookup_task import close_lookups
from connectors_core.errors import ConnectorError, RetryableError
from connectors_core.lookup import (
    FullCachingLookupProvider,
    PartialCachingLookupProvider,
    PeriodicCacheReloadTrigger,
    TimedCacheReloadTrigger,
)
from connectors_core.lookup.join import LookupJoin
from connectors_core.table import LookupTableSource
from connectors_core.testing.capabilities import Capability
from connectors_core.testing.cases import case
from connectors_core.testing.data import assert_same_values
from connectors_core.testing.data_types import (
    COLUMN_NAMES,
    DATA_TYPES,
    MISFIT_COLUMN,
    MISFIT_TEXT,
    MISFITS,
    example_of,
    misfit_of,
    named_column,
)
from connectors_core.testing.join_suite import JoinTestSuite, Ways
from connectors_core.testing.lookup_trial import (
    LOOKUP_ROWS,
    LookupExternalContext,
    LookupTrial,
    SparkLookupTrial,
    table_rows,
)
from connectors_core.testing.traces import nothing_left
from connectors_core.testing.trial import slow_on_spark

BY_KEY: Final = Capability.LOOKUP_BY_KEY
FULL: Final = Capability.FULL_CACHE
HERE: Final = Capability.ONE_PROCESS
WAYS: Final[Ways] = {
    "by key": ({}, BY_KEY),
    "asynchronous": ({"lookup.async": "true"}, Capability.ASYNC_LOOKUP),
    "partial": ({"lookup.cache": "PARTIAL"}, BY_KEY),
    "full": ({"lookup.cache": "FULL"}, FULL),
}
MANY_KEYS: Final = 10_000
NUMBERED: Final = table_rows(
    number=[1, 2, 2, 3, 3, 3, -5, 2**62],
    text=["a", "b", "b2", "c", "c2", "c3", "minus", "large"],
    value=["one", "two", "two again", "three", "", None, "minus five", "much"],
    amount=[1, 2, 2, 3, None, 3, -5, 0],
)
STRANGE: Final = ("x' OR '1'='1", "*", "?", "%", "a b", " a", "A", "a", "\\", '"', "é", "{}", "\n")
every_way = pytest.mark.parametrize("way", list(WAYS))


class LookupTestSuite(JoinTestSuite):
    """Cases for a lookup table.

    Derive from this class, declare the capabilities, and supply a context.

    With ``on_spark``, pipelines on Spark join the rows. Cases that inspect caches, or the remaining
    resources of a process, apply only in this process.
    """

    judged_by = frozenset({BY_KEY, Capability.ASYNC_LOOKUP, FULL})
    ways = WAYS
    rows = LOOKUP_ROWS
    trials = (LookupTrial, SparkLookupTrial)

    @abstractmethod
    def external_context(self, folder: Path) -> LookupExternalContext:
        """Return a new external system for one case. ``folder`` belongs to the case."""

    # --- Rows -----------------------------------------------------------------------------------

    @case(since="1.2")
    @every_way
    def test_rows_are_found_by_key(self, trial: LookupTrial, way: str) -> None:
        trial.context.write(NUMBERED.slice(0, 2))
        found = trial.join(_numbers([2, 7, 1, None, 2]), ["number"])
        _assert_same(
            found,
            number=[2, 7, 1, None, 2],
            value=["two", None, "one", None, "two"],
            amount=[2, None, 1, None, 2],
        )

    @case(since="1.2", after="test_rows_are_found_by_key")
    @every_way
    def test_an_inner_join_leaves_out_what_has_no_match(self, trial: LookupTrial, way: str) -> None:
        trial.context.write(NUMBERED.slice(0, 2))
        found = trial.join(_numbers([7, 1, None]), ["number"], how="inner")
        _assert_same(found, number=[1], value=["one"], amount=[1])

    @case(since="1.2", after="test_rows_are_found_by_key")
    @every_way
    def test_all_rows_of_a_key_are_given(self, trial: LookupTrial, way: str) -> None:
        trial.context.write(NUMBERED)
        found = trial.join(_numbers([3, 2]), ["number"])
        _assert_same(
            found,
            number=[3, 3, 3, 2, 2],
            value=["three", "", None, "two", "two again"],
            amount=[3, None, 3, 2, 2],
        )

    @case(since="1.2", after="test_rows_are_found_by_key")
    @every_way
    def test_a_table_without_rows_matches_nothing(self, trial: LookupTrial, way: str) -> None:
        found = trial.join(_numbers([1, None]), ["number"])
        _assert_same(found, number=[1, None], value=[None, None], amount=[None, None])

    @case(since="1.2", after="test_rows_are_found_by_key")
    @every_way
    def test_keys_of_several_columns(self, trial: LookupTrial, way: str) -> None:
        trial.context.write(NUMBERED)
        rows = pa.table(
            {"text": ["b2", "b", "c", None, "a"], "number": [2, 2, 2, 2, None]},
            schema=pa.schema([("text", pa.string()), ("number", pa.int64())]),
        )
        found = trial.join(rows, ["text", "number"], columns=["value"])
        _assert_same(
            found,
            text=rows["text"],
            number=rows["number"],
            value=["two again", "two", None, None, None],
        )

    @case(HERE, since="1.2", after="test_keys_of_several_columns")
    @every_way
    def test_what_was_not_asked_for_is_not_given(
        self, trial: LookupTrial, way: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An unneeded column would be fetched for nothing, and could stay in a cache."""
        given: list[pa.Table] = []
        join = LookupJoin.join

        def spy(
            self: LookupJoin, rows: pa.RecordBatch, keys: pa.RecordBatch, found: pa.Table
        ) -> Any:
            given.append(found)
            return join(self, rows, keys, found)

        monkeypatch.setattr(LookupJoin, "join", spy)
        trial.context.write(NUMBERED)
        rows = pa.table({"number": [2, 3], "text": ["b2", "c"]})
        trial.join(rows, ["number", "text"], columns=["value"])
        assert sum(found.num_rows for found in given) == rows.num_rows

    @case(since="1.2", after="test_rows_are_found_by_key")
    @every_way
    @pytest.mark.parametrize("columns", [(), ("amount",), ("value",)], ids=str)
    def test_the_columns_that_are_needed_are_given_alone(
        self, trial: LookupTrial, way: str, columns: tuple[str, ...]
    ) -> None:
        trial.context.write(NUMBERED.slice(0, 2))
        wanted = {"value": ["two", "one"], "amount": [2, 1]}
        found = trial.join(_numbers([2, 1]), ["number"], columns=columns)
        _assert_same(found, number=[2, 1], **{name: wanted[name] for name in columns})

    @case(since="1.2", after="test_rows_are_found_by_key")
    @every_way
    def test_many_keys_at_a_time(self, trial: LookupTrial, way: str) -> None:
        numbers = list(range(MANY_KEYS))
        texts = [str(number) for number in numbers]
        trial.context.write(table_rows(number=numbers, text=texts, value=texts, amount=numbers))
        found = trial.join(_numbers(numbers[::-1] * 2), ["number"], columns=["value"])
        _assert_same(found, number=numbers[::-1] * 2, value=texts[::-1] * 2)

    @case(since="1.2", after="test_rows_are_found_by_key")
    @slow_on_spark
    @every_way
    def test_texts_are_compared_as_they_are(self, trial: LookupTrial, way: str) -> None:
        """Keys are neither patterns nor part of a statement, and they are case-sensitive."""
        numbers = list(range(len(STRANGE)))
        trial.context.write(table_rows(number=numbers, text=STRANGE, value=STRANGE, amount=numbers))
        for asked in (STRANGE, *((text,) for text in STRANGE)):
            rows = pa.table({"text": pa.array(asked, pa.string())})
            found = trial.join(rows, ["text"], columns=["value"], how="inner")
            _assert_same(found, text=list(asked), value=list(asked))

    @case(since="1.5", after="test_keys_of_several_columns")
    @every_way
    def test_a_key_that_no_row_can_have_has_no_match(self, trial: LookupTrial, way: str) -> None:
        """A system may refuse such a key, and then the request for all other keys."""
        trial.context.write(NUMBERED.slice(0, 2))
        numbers = [2, 2, 2, 2**63 - 1, -(2**63), 2]
        texts = ["b", "", "x" * 40_000, "b", "b", "\0"]
        rows = pa.table({"number": numbers, "text": texts})
        found = trial.join(rows, ["number", "text"], columns=["value"])
        _assert_same(found, number=numbers, text=texts, value=["two", *[None] * 5])

    @case(Capability.DATA_TYPES, since="1.2", after="test_rows_are_found_by_key")
    @slow_on_spark
    @pytest.mark.parametrize("data_type", DATA_TYPES)
    def test_values_of_every_type_are_given_as_they_are(
        self, trial: LookupTrial, data_type: str
    ) -> None:
        self._assert_found(trial, example_of(data_type))

    @case(
        Capability.DATA_TYPES,
        since="1.5",
        after="test_values_of_every_type_are_given_as_they_are",
    )
    @slow_on_spark
    @pytest.mark.parametrize("column_name", COLUMN_NAMES)
    def test_a_column_of_any_name_is_given(self, trial: LookupTrial, column_name: str) -> None:
        """A name is data: it is neither part of a statement nor changed."""
        self._assert_found(trial, named_column(column_name))

    def _assert_found(self, trial: LookupTrial, rows: pa.Table) -> None:
        key, value = rows.column_names
        for options, capability in WAYS.values():
            if capability in self.possible().can:
                table = trial.context.create_typed_table(rows, options)
                found = trial.join(rows.select([key]), [key], columns=[value], table=table)
                assert_same_values(found, rows)

    @case(
        HERE,
        Capability.MISFITS,
        since="1.5",
        after="test_values_of_every_type_are_given_as_they_are",
    )
    @pytest.mark.parametrize(("data_type", "values"), MISFITS)
    def test_a_value_that_does_not_fit_its_type_fails_the_join(
        self, trial: LookupTrial, data_type: str, values: str
    ) -> None:
        """At every depth: it is neither null, nor another value, nor a row that does not exist."""
        schema, (_, rows, _) = misfit_of(data_type, values)
        for options, capability in WAYS.values():
            if capability in self.possible().can:
                table = trial.context.create_misfit_table(schema, rows, options)
                with pytest.raises(ConnectorError, match=MISFIT_COLUMN) as failure:
                    trial.join(rows.select(["id"]), ["id"], columns=[MISFIT_COLUMN], table=table)
                assert not isinstance(failure.value, RetryableError), "a retry cannot help"
                shown = "".join(traceback.format_exception(failure.value))
                assert MISFIT_TEXT not in shown, f"the error shows the value: {shown}"

    # --- Caches ---------------------------------------------------------------------------------

    @case(BY_KEY, HERE, since="1.2", after="test_rows_are_found_by_key")
    def test_a_partial_cache_keeps_what_was_asked_for(self, trial: LookupTrial) -> None:
        """It also keeps the fact that a key has no rows."""
        provider, join = self._partial(trial, {})
        trial.context.write(NUMBERED.slice(0, 1))
        before = trial.run(_numbers([1, 2]), join, provider, "life")
        trial.context.write(NUMBERED.slice(1, 1))
        again = trial.run(_numbers([1, 2, -5]), join, provider, "life")
        _assert_same(before, number=[1, 2], value=["one", None])
        _assert_same(again, number=[1, 2, -5], value=["one", None, None])

    @case(BY_KEY, HERE, since="1.2", after="test_a_partial_cache_keeps_what_was_asked_for")
    def test_a_partial_cache_is_as_its_options_say(self, trial: LookupTrial) -> None:
        provider, join = self._partial(
            trial,
            {
                "lookup.partial-cache.cache-missing-key": "false",
                "lookup.partial-cache.max-rows": "1",
                "lookup.max-retries": "7",
            },
        )
        assert provider.requests.max_retries == 7, "the table ignores lookup.max-retries"
        trial.context.write(NUMBERED.slice(0, 2))
        trial.run(_numbers([7]), join, provider, "life")
        trial.run(_numbers([1]), join, provider, "life")
        trial.run(_numbers([2]), join, provider, "life")
        trial.context.write(
            table_rows(number=[1, 2, 7], text=["x"] * 3, value=["new"] * 3, amount=[0] * 3)
        )
        found = trial.run(_numbers([2, 1, 7]), join, provider, "life")
        _assert_same(found, number=[2, 1, 7], value=["two", "new", "new"])

    @case(FULL, HERE, since="1.2", after="test_rows_are_found_by_key")
    def test_a_reload_is_as_the_options_say(self, trial: LookupTrial) -> None:
        whole = {"lookup.cache": "FULL"}
        provider, _ = self._full(trial, whole)
        assert provider.reload_trigger is None
        interval = {"lookup.full-cache.periodic-reload.interval": "10 min"}
        provider, _ = self._full(trial, whole | interval)
        assert isinstance(provider.reload_trigger, PeriodicCacheReloadTrigger)
        time = {
            "lookup.full-cache.reload-strategy": "TIMED",
            "lookup.full-cache.timed-reload.iso-time": "03:30Z",
        }
        provider, _ = self._full(trial, whole | time)
        assert isinstance(provider.reload_trigger, TimedCacheReloadTrigger)

    @case(FULL, HERE, since="1.2", after="test_rows_are_found_by_key")
    def test_a_reload_shows_what_is_new_to_new_batches(self, trial: LookupTrial) -> None:
        """A repeated micro-batch sees the same version."""
        trial.context.write(NUMBERED.slice(0, 2))
        provider, join = self._full(trial, {"lookup.cache": "FULL"})
        cache = trial.full_cache(provider, join)
        rows = _numbers([1, 2])
        before = trial.join_pinned(rows, join, cache, "batch 0")
        trial.context.write(NUMBERED.slice(1, 2))
        cache.trigger_reload().result()
        after = trial.join_pinned(rows, join, cache, "batch 1")
        again = trial.join_pinned(rows, join, cache, "batch 0")
        _assert_same(before, number=[1, 2], value=["one", "two"])
        _assert_same(after, number=[1, 2, 2], value=[None, "two", "two again"])
        assert again.equals(before)

    @case(FULL, HERE, Capability.OUTAGES, since="1.2", after="test_rows_are_found_by_key")
    def test_a_reload_that_fails_says_so_and_keeps_the_rows(self, trial: LookupTrial) -> None:
        trial.context.write(NUMBERED.slice(0, 1))
        provider, join = self._full(trial, {"lookup.cache": "FULL"})
        cache = trial.full_cache(provider, join)
        with trial.context.away():
            failure = cache.trigger_reload().exception()
        assert failure is not None, "the source reports no error when its system is unavailable"
        found = trial.join_pinned(_numbers([1]), join, cache, "batch")
        _assert_same(found, number=[1], value=["one"])

    # --- Failures -------------------------------------------------------------------------------

    @case(HERE, Capability.OUTAGES, since="1.2", after="test_rows_are_found_by_key")
    @pytest.mark.parametrize("way", ["by key", "asynchronous", "partial"])
    def test_a_system_that_is_away_can_be_asked_again(self, trial: LookupTrial, way: str) -> None:
        """A temporary failure is retryable, and the open function works again after the outage."""
        trial.options |= {"lookup.max-retries": "1"}
        trial.context.write(NUMBERED.slice(0, 1))
        trial.join(_numbers([1]), ["number"])
        with trial.context.away(), pytest.raises(Exception, match=r"(?s).*") as refused:
            trial.join(_numbers([1]), ["number"])
        assert isinstance(refused.value, RetryableError), (
            f"{type(refused.value).__name__} is not a RetryableError: it would not be retried"
        )
        found = trial.join(_numbers([1]), ["number"], columns=["value"])
        _assert_same(found, number=[1], value=["one"])

    @case(HERE, Capability.OUTAGES, since="1.5", after="test_rows_are_found_by_key")
    def test_first_responses_that_are_late_in_every_life_find_all_rows(
        self, trial: LookupTrial
    ) -> None:
        """A late response is neither a failure nor a missing row, in any way to join."""
        if self.system is None:
            pytest.skip("the suite names no system")
        trial.context.write(NUMBERED)
        with self.late_first_responses():
            for options, capability in WAYS.values():
                if capability in self.possible().can:
                    found = trial.join(
                        _numbers([3, 2, 7, 3]),
                        ["number"],
                        columns=["amount"],
                        table=trial.context.create_table(options),
                        batch_rows=2,
                    )
                    _assert_same(
                        found,
                        number=[3, 3, 3, 2, 2, 7, 3, 3, 3],
                        amount=[3, None, 3, 2, 2, None, 3, None, 3],
                    )

    # --- The table as an object -----------------------------------------------------------------

    @case(HERE, since="1.2", after="test_rows_are_found_by_key")
    @every_way
    def test_what_executors_are_given_survives_pickling(self, trial: LookupTrial, way: str) -> None:
        table = trial.context.create_table(trial.options)
        provider: Any = trial.provider(table, _rule(table))
        shipped = provider.source if isinstance(provider, FullCachingLookupProvider) else provider
        assert type(pickle.loads(pickle.dumps(shipped))) is type(shipped)

    @case(HERE, since="1.2", after="test_rows_are_found_by_key")
    @every_way
    def test_no_thread_handle_or_temporary_file_is_left(
        self, trial: LookupTrial, way: str, tmp_path: Path
    ) -> None:
        trial.context.write(NUMBERED)
        trial.join(_numbers([1]), ["number"])  # create what each process creates only once
        close_lookups()
        with nothing_left(tmp_path / "temporary"):
            trial.join(_numbers([1, 2, 3]), ["number"])
            trial.close()

    @case(HERE, Capability.SECRETS, since="1.2", after="test_rows_are_found_by_key")
    @every_way
    def test_a_secret_is_seen_nowhere(
        self,
        trial: LookupTrial,
        way: str,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        table = trial.context.create_table(trial.options)
        objects = (table, trial.provider(table, _rule(table)))
        trial.context.write(NUMBERED)

        def use() -> None:
            trial.join(_numbers([1]), ["number"], table=table)

        self._assert_secrets_unseen(objects, use, trial, tmp_path / "state", caplog, capfd)

    # --- Providers ------------------------------------------------------------------------------

    def _partial(
        self, trial: LookupTrial, options: Mapping[str, str]
    ) -> tuple[PartialCachingLookupProvider, LookupJoin]:
        table = trial.context.create_table({"lookup.cache": "PARTIAL", **options})
        join = _rule(table)
        provider = trial.provider(table, join)
        assert isinstance(provider, PartialCachingLookupProvider), (
            "the table creates no partial cache"
        )
        return provider, join

    def _full(
        self, trial: LookupTrial, options: Mapping[str, str]
    ) -> tuple[FullCachingLookupProvider, LookupJoin]:
        table = trial.context.create_table(options)
        join = _rule(table)
        provider = trial.provider(table, join)
        assert isinstance(provider, FullCachingLookupProvider), "the table creates no full cache"
        return provider, join


def _numbers(numbers: list[int] | list[int | None]) -> pa.Table:
    return pa.table({"number": pa.array(numbers, pa.int64())})


def _rule(table: LookupTableSource) -> LookupJoin:
    return LookupJoin.of(_numbers([]).schema, table.schema(), on=["number"], columns=["value"])


def _assert_same(found: pa.Table, **columns: Any) -> None:
    """Check the rows. The matches of one row may be in any order."""
    assert found.column_names == list(columns), (
        f"the join returns the columns {', '.join(found.column_names)}"
    )
    wanted = pa.table([pa.array(each) for each in columns.values()], list(columns))
    assert _sorted(found) == _sorted(wanted)


def _sorted(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: [repr(value) for value in row.values()])
