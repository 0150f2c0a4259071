# SPDX-License-Identifier: Apache-2.0
"""Tests the lookup suite: each broken table fails the case that must detect it."""

from __future__ import annotations

import logging
import threading
import uuid
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from broken_connectors import failed_cases, table_with
from broken_names import FindsFoldedNames, FindsStrippedNames, FindsUnescapedNames
from broken_outages import is_late
from toy_disk import Disk
from toy_table import CAN, Rows, ToyFunction, ToyTable, ToyTables

from connectors_core.errors import BadRecordError, FatalError, RetryableError
from connectors_core.lineage import LineageDataset
from connectors_core.lookup import PartialCachingLookupProvider
from connectors_core.source import DataGeneratorSource
from connectors_core.testing import LookupTestSuite

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.line("4.3")  # without Spark

MOST_KEYS = 1_000
ODD_KEYS = "test_a_key_that_no_row_can_have_has_no_match"


# --- Broken functions ----------------------------------------------------------------------------


class GivesRowsTwice(ToyFunction):
    def lookup(self, keys):
        rows = super().lookup(keys)
        return pa.concat_tables([rows, rows])


class GivesOneRowOfAKey(ToyFunction):
    def lookup(self, keys):
        rows = super().lookup(keys)
        names = keys.schema.names
        seen, kept = set(), []
        for number, key in enumerate(zip(*(rows[n].to_pylist() for n in names), strict=True)):
            if key not in seen:
                kept.append(number)
            seen.add(key)
        return rows.take(pa.array(kept, pa.int64()))


class ComparesTheFirstColumn(ToyFunction):
    def lookup(self, keys):
        return super().lookup(keys.select(keys.schema.names[:1]))


class GivesAnotherColumn(ToyFunction):
    def lookup(self, keys):
        rows = super().lookup(keys)
        if "value" in self.columns:
            return rows
        return rows.append_column("value", pa.nulls(rows.num_rows, pa.string()))


class AsksForSomeKeys(ToyFunction):
    """Behaves like a service with a limit on keys."""

    def lookup(self, keys):
        return super().lookup(keys.slice(0, MOST_KEYS))


class IgnoresCapitals(ToyFunction):
    def lookup(self, keys):
        if keys.schema.names != ["text"]:
            return super().lookup(keys)
        rows = self.read().select(self.columns)
        asked = {text.lower(): text for text in keys.column("text").to_pylist()}
        texts = [asked.get(text.lower()) for text in rows["text"].to_pylist()]
        rows = rows.set_column(rows.schema.get_field_index("text"), "text", pa.array(texts))
        return rows.filter(pc.is_valid(rows["text"]))


class PutsTextsIntoAStatement(ToyFunction):
    def lookup(self, keys):
        if keys.schema.names == ["text"]:
            quoted = "".join(f"'{text}'" for text in keys.column("text").to_pylist())
            kept = [text for text in quoted.split("'") if text]
            keys = pa.record_batch([pa.array(kept, pa.string())], names=["text"])
        return super().lookup(keys)


class RefusesOddKeys(ToyFunction):
    def lookup(self, keys):
        if any(map(self.is_odd, keys.to_pylist())):
            raise FatalError("the system refuses the request")
        return super().lookup(keys)

    def is_odd(self, key):
        return key.get("text") == ""


class RefusesLongTexts(RefusesOddKeys):
    def is_odd(self, key):
        return len(key.get("text", "")) > 32_766


class TakesOddNumbersForAnOutage(RefusesOddKeys):
    def lookup(self, keys):
        try:
            return super().lookup(keys)
        except FatalError as error:
            raise RetryableError("the system is busy") from error

    def is_odd(self, key):
        return key.get("number") == 2**63 - 1


class FailsWhenItsSystemIsAway(ToyFunction):
    def read(self):
        with pa.ipc.open_file(self.path) as file:
            return file.read_all()


class FindsNothingWhenItsSystemIsAway(ToyFunction):
    def lookup(self, keys):
        try:
            return super().lookup(keys)
        except RetryableError:
            return pa.table({name: [] for name in self.columns}).cast(self.schema())

    def schema(self):
        return pa.schema([(name, _type_of(name)) for name in self.columns])


class TakesALateResponseForAMiss(ToyFunction):
    def lookup(self, keys):
        late = is_late()
        rows = super().lookup(keys)
        return rows.slice(0, 0) if late else rows


class KeepsTheMissOfALateResponse(ToyFunction):
    """Gives the rows of a second attempt, but keeps the keys of the first one as missing."""

    missing = None

    def lookup(self, keys):
        missing, key = self.missing, keys.schema.names[0]
        if is_late():
            self.missing = keys.column(key)
        rows = super().lookup(keys)
        if missing is None:
            return rows
        return rows.filter(pc.invert(pc.is_in(rows[key], value_set=missing)))


class GivesRowsOfBothAttempts(ToyFunction):
    def lookup(self, keys):
        attempts = 2 if is_late() else 1
        return pa.concat_tables([super().lookup(keys)] * attempts)


class ReadsMisfitsAsNull(ToyFunction):
    def misfit(self, values, declared):
        return pa.nulls(len(values), declared.type)


class CutsFractions(ToyFunction):
    def misfit(self, values, declared):
        if not pa.types.is_floating(values.type):
            return super().misfit(values, declared)
        return values.cast(declared.type, safe=False)


class TakesMisfitsForMisses(ToyFunction):
    def fitted(self, rows):
        try:
            return super().fitted(rows)
        except BadRecordError:
            return self.wanted.empty_table()


class RetriesMisfits(ToyFunction):
    def misfit(self, values, declared):
        raise RetryableError(f"the value of {declared.name} is no {declared.type}")


class NamesTheValueOfAMisfit(ToyFunction):
    def misfit(self, values, declared):
        raise BadRecordError(f"{values[0]} of {declared.name} is no {declared.type}")


class PassesOnTheErrorOfItsLibrary(ToyFunction):
    def misfit(self, values, declared):
        try:
            return values.cast(declared.type)
        except pa.ArrowException as error:
            raise BadRecordError(f"{declared.name} is no {declared.type}: {error}") from None


class ShowsTheErrorOfItsLibrary(ToyFunction):
    """The context of an error is a part of its traceback."""

    def misfit(self, values, declared):
        try:
            return values.cast(declared.type)
        except pa.ArrowException:
            super().misfit(values, declared)


class LeavesAThread(ToyFunction):
    def open(self, context):
        threading.Thread(target=threading.Event().wait, args=(30,), daemon=True).start()


class CannotTravel(ToyFunction):
    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.lock = threading.Lock()


class LogsItsPassword(ToyFunction):
    def lookup(self, keys):
        logging.getLogger("toy").debug("with %s", self.password.reveal())
        return super().lookup(keys)


def _type_of(name):
    return pa.string() if name in ("text", "value") else pa.int64()


# --- Broken tables -------------------------------------------------------------------------------


class CachesNothing(ToyTable):
    def get_lookup_runtime_provider(self, context):
        made = super().get_lookup_runtime_provider(context)
        if isinstance(made, PartialCachingLookupProvider):
            made.cache.get_if_present = lambda keys: (pa.array([False] * keys.num_rows), None)
        return made


class IgnoresTheBoundsOfItsCache(ToyTable):
    def get_lookup_runtime_provider(self, context):
        options = {k: v for k, v in self.options.items() if "partial-cache" not in k}
        return ToyTable.get_lookup_runtime_provider(replace(self, options=options), context)


class NeverReloads(ToyTable):
    def get_lookup_runtime_provider(self, context):
        made = super().get_lookup_runtime_provider(context)
        return replace(made, reload_trigger=None) if hasattr(made, "reload_trigger") else made


class KeepsItsRows(ToyTable):
    """A reload returns the rows from the creation of the table."""

    def source(self, schema):
        function = ToyFunction(self.path, schema.names, wanted=schema)
        rows = function.fitted(function.read())
        first = FirstRows(function, RowsInMemory(rows.select(schema.names)))
        return DataGeneratorSource(first, rows.num_rows, schema)


@dataclass(frozen=True)
class FirstRows:
    function: ToyFunction
    rows: RowsInMemory

    def __call__(self, numbers):
        self.function.read()
        return self.rows(numbers)


@dataclass(frozen=True)
class RowsInMemory:
    rows: pa.Table

    def __call__(self, numbers):
        return self.rows.take(numbers).combine_chunks().to_batches()[0]


class ReadsNothingWhenItsSystemIsAway(ToyTable):
    def source(self, schema):
        source = super().source(schema)
        generator = _Forgiving(source._generator, RowsInMemory(schema.empty_table()))
        return DataGeneratorSource(generator, source._end + 1, schema)


@dataclass(frozen=True)
class _Forgiving:
    rows: Rows
    otherwise: RowsInMemory

    def __call__(self, numbers):
        try:
            return self.rows(numbers)
        except RetryableError:
            names = self.otherwise.rows.schema
            return pa.RecordBatch.from_pylist([dict.fromkeys(names.names)] * len(numbers), names)


class ShowsItsPassword(ToyTable):
    def __repr__(self):
        return f"ToyTable({self.path!r}, {self.function(self.path, []).password.reveal()!r})"


class NamesItsFileAnew(ToyTable):
    def lineage_datasets(self):
        return (LineageDataset(namespace="file", name=f"{self.path}-{uuid.uuid4()}"),)


class TakesItsPathForANamespace(ToyTable):
    def lineage_datasets(self):
        return (LineageDataset(namespace=self.path, name="rows"),)


NAMED = "test_a_column_of_any_name_is_given"
MISFIT = "test_a_value_that_does_not_fit_its_type_fails_the_join"
LATE = "test_first_responses_that_are_late_in_every_life_find_all_rows"
BROKEN = {
    GivesRowsTwice: "test_rows_are_found_by_key",
    GivesOneRowOfAKey: "test_all_rows_of_a_key_are_given",
    ComparesTheFirstColumn: "test_what_was_not_asked_for_is_not_given",
    GivesAnotherColumn: "test_the_columns_that_are_needed_are_given_alone",
    AsksForSomeKeys: "test_many_keys_at_a_time",
    IgnoresCapitals: "test_texts_are_compared_as_they_are",
    PutsTextsIntoAStatement: "test_texts_are_compared_as_they_are",
    RefusesOddKeys: ODD_KEYS,
    RefusesLongTexts: ODD_KEYS,
    TakesOddNumbersForAnOutage: ODD_KEYS,
    FailsWhenItsSystemIsAway: "test_a_system_that_is_away_can_be_asked_again",
    FindsNothingWhenItsSystemIsAway: "test_a_system_that_is_away_can_be_asked_again",
    TakesALateResponseForAMiss: LATE,
    KeepsTheMissOfALateResponse: LATE,
    GivesRowsOfBothAttempts: LATE,
    ReadsMisfitsAsNull: MISFIT,
    CutsFractions: MISFIT,
    TakesMisfitsForMisses: MISFIT,
    RetriesMisfits: MISFIT,
    NamesTheValueOfAMisfit: MISFIT,
    PassesOnTheErrorOfItsLibrary: MISFIT,
    ShowsTheErrorOfItsLibrary: MISFIT,
    LeavesAThread: "test_no_thread_handle_or_temporary_file_is_left",
    CannotTravel: "test_what_executors_are_given_survives_pickling",
    LogsItsPassword: "test_a_secret_is_seen_nowhere",  # pragma: allowlist secret
    CachesNothing: "test_a_partial_cache_keeps_what_was_asked_for",
    IgnoresTheBoundsOfItsCache: "test_a_partial_cache_is_as_its_options_say",
    NeverReloads: "test_a_reload_is_as_the_options_say",
    KeepsItsRows: "test_a_reload_shows_what_is_new_to_new_batches",
    ReadsNothingWhenItsSystemIsAway: "test_a_reload_that_fails_says_so_and_keeps_the_rows",
    NamesItsFileAnew: "test_datasets_are_named_for_lineage",
    TakesItsPathForANamespace: "test_datasets_are_named_for_lineage",
    ShowsItsPassword: "test_a_secret_is_seen_nowhere",  # pragma: allowlist secret
}
# Only the case that must detect these runs.
BROKEN_FOR_ONE_CASE = {
    FindsFoldedNames: NAMED,
    FindsUnescapedNames: NAMED,
    FindsStrippedNames: NAMED,
}
BY_NAME = {
    broken.__name__: (broken, seen_by) for broken, seen_by in (BROKEN | BROKEN_FOR_ONE_CASE).items()
}


def broken_suite(name):
    """Create a suite for a table that is broken, or that has this broken function."""
    table = table_with(BY_NAME[name][0], ToyTable)

    class Suite(LookupTestSuite):
        system = Disk()
        capabilities = CAN

        def external_context(self, folder):
            return ToyTables(folder, table)

    return Suite


RUN = """
from test_suites_see_broken_tables import broken_suite

TestBroken = broken_suite({name!r})
"""


@pytest.mark.slow
@pytest.mark.line("4.3", only=True)
@pytest.mark.parametrize("name", sorted(each.__name__ for each in BROKEN))
def test_a_broken_table_fails_the_intended_case(name, pytester):
    assert failed_cases(pytester, RUN.format(name=name)) == {BY_NAME[name][1]}


@pytest.mark.slow
@pytest.mark.line("4.3", only=True)
@pytest.mark.parametrize("name", sorted(each.__name__ for each in BROKEN_FOR_ONE_CASE))
def test_a_broken_table_fails_its_case(name, pytester):
    seen_by = BY_NAME[name][1]
    assert failed_cases(pytester, RUN.format(name=name), only=seen_by) == {seen_by}
