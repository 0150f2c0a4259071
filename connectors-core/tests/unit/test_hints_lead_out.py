# SPDX-License-Identifier: Apache-2.0
"""Follows the hint of each kind of error literally, and ends with a running pipeline."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from test_rewriting import Picky
from typer.testing import CliRunner

import connectors_core
from connectors_core import errors as e
from connectors_core.catalog import errors as catalog_errors
from connectors_core.cli import app
from connectors_core.clients import SupportsConnectionCheck
from connectors_core.engine.state import documents
from connectors_core.errors import ConnectorError
from connectors_core.options import Configured, Setting, option
from connectors_core.records import RecordPolicy
from connectors_core.sink import DemultiplexingSink, SinkRouter
from connectors_core.source import (
    DataGeneratorSource,
    NumberSequenceSource,
    ReadLimits,
    WatermarkStrategy,
)
from connectors_core.testing import HintCases
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import InProcess
from connectors_core.testing.faults import Fault, FaultAction, FaultInjected, FaultPoint, injected

ROWS = 60
SECONDS = 30
Steps = Generator[Callable[[], object], ConnectorError, None]
HINTS = HintCases(
    connectors_core,
    reasons={
        "ConnectorError": "a base",
        "ForeignError": "only a cause",
        "OptionError": "a base",
        "MissingDependencyError": "raised before a pipeline exists; see test_compatibility",
        "SparkMismatchError": "raised before a pipeline exists; see test_compatibility",
        "PYTHON_MISMATCH": "raised before a pipeline exists; see test_compatibility",
        "NATIVE_LIBRARY": "needs Hadoop; see the connector for files",
        "SplitChangedError": "only connectors raise it",
        "UnexpectedError": "a bug of a connector: it leads to a report",
        "FetchError": "follows another error, which has the hint",
        **dict.fromkeys(catalog_errors.__all__, "no pipeline raises it"),
        "SqlError": "raised before a pipeline exists",
    },
)


class Life:
    """The lives of one pipeline, which shall write each number once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "state"
        self.sink: DirectorySink = DirectorySink(root / "out")
        self.expected = Counter(range(ROWS))

    def pipeline(
        self,
        *,
        source: Any = None,
        uid: str = "numbers",
        policy: RecordPolicy | None = None,
        reading: RecordPolicy | None = None,
        strategy: WatermarkStrategy | None = None,
        **settings: Any,
    ) -> Any:
        state = settings.pop("state", self.state)
        pipeline = InProcess().pipeline("p", state, parallelism=1, **settings)
        source = source or NumberSequenceSource(0, ROWS - 1, split_rows=20, batch_rows=5)
        rows = pipeline.from_source(
            source,
            uid=uid,
            watermark_strategy=strategy,
            limits=ReadLimits(rows=10),
            record_policy=reading,
        )
        pipeline.sink_to(rows, self.sink, uid="out", record_policy=policy)
        return pipeline

    def run(self, *faults: Fault, **settings: Any) -> None:
        with injected(*faults), self.pipeline(**settings) as pipeline:
            assert pipeline.run(timeout=SECONDS)

    def crash(self, point: FaultPoint, nth: int = 3) -> None:
        with pytest.raises(FaultInjected):
            self.run(Fault(point, nth=nth, action=FaultAction.RAISE))

    def command(self, text: str, *arguments: str) -> str:
        """Run a command as a hint spells it, and return its output."""
        words = text.replace("LOCATION", str(self.state)).split()
        done = CliRunner().invoke(app, [*words[1:], *arguments])
        assert done.exit_code == 0, done.output
        return done.output


# --- Scenarios ------------------------------------------------------------------------------------


@HINTS.case("ConfigurationError")
def endless(life: Life) -> Steps:
    life.expected = Counter()
    error = yield lambda: life.pipeline(source=ENDLESS).run()
    assert "start()" in str(error.hint)
    yield partial(start, life)


ENDLESS = DataGeneratorSource(
    lambda indices: pa.record_batch([indices], ["value"]), None, pa.schema([("value", "int64")])
)


def start(life: Life) -> None:
    with life.pipeline(source=ENDLESS) as pipeline:
        pipeline.start()


class Numbers(Configured):
    """The options of a source."""

    rows: Setting[int] = option("rows", int, doc="Number of rows.")


@HINTS.case("UnknownOptionError")
def misspelled(life: Life) -> Steps:
    given = {"rosw": str(ROWS)}
    error = yield lambda: Numbers.from_options(given)
    (key,) = re.findall("did you mean '(.*)'", str(error.hint))
    made = Numbers.from_options({key: given[str(error.option)]})
    yield lambda: life.run(source=NumberSequenceSource(0, made.rows - 1))


@HINTS.case("MissingOptionError")
def missing(life: Life) -> Steps:
    error = yield lambda: Numbers.from_options({})
    (key,) = re.findall("set '(.*)'", str(error.hint))
    made = Numbers.from_options({key: str(ROWS)})
    yield lambda: life.run(source=NumberSequenceSource(0, made.rows - 1))


@HINTS.case("InvalidOptionError")
def invalid(life: Life) -> Steps:
    error = yield lambda: life.run(connection_timeout="soon")
    (value,) = re.findall(r"such as '?(\d+ \w+)", str(error.expected))
    yield lambda: life.run(**{str(error.option): value})


@HINTS.case("StateLocationError")
def unusable(life: Life) -> Steps:
    life.state.parent.mkdir(exist_ok=True)
    life.state.write_text("a file")
    error = yield life.run
    assert error.option == "state_location"
    life.state.unlink()
    yield life.run


@HINTS.case("IdentityError")
def renamed(life: Life) -> Steps:
    life.crash(FaultPoint.AFTER_DECISION)
    error = yield lambda: life.run(uid="letters")
    assert "uid" in str(error.hint)
    yield life.run


@HINTS.case("LeaseError")
def twice(life: Life) -> Steps:
    first = life.pipeline()
    first.start()
    error = yield life.run
    assert "stop the other Pipeline object" in str(error.hint)
    first.stop()
    yield life.run


@HINTS.case("RetryableError")
def away(life: Life) -> Steps:
    failing = Failing(e.RetryableError("the system is away"))
    error = yield lambda: life.run(source=failing)
    assert "restart" in str(error.hint)
    yield life.run


@HINTS.case("FatalError")
def broken(life: Life) -> Steps:
    error = yield lambda: life.run(source=Failing(OSError(5, "broken")))
    assert "fix the cause and restart" in str(error.hint)
    yield life.run


@HINTS.case("StateCorruptedError")
def lost_decision(life: Life) -> Steps:
    life.crash(FaultPoint.AFTER_DONE)
    life.command(f"connectors state backup LOCATION {life.root / 'copy'}")
    max(life.state.glob("query-0/decisions/*.json")).unlink()
    error = yield life.run
    (command,) = re.findall("backup .`(connectors state restore)`", str(error.hint))
    shutil.rmtree(life.state)
    life.command(f"{command} {life.root / 'copy'} LOCATION")
    yield life.run


class Shrunk(NumberSequenceSource):
    """Has lost split 20."""

    def create_reader(self, context: Any) -> Any:
        reader = super().create_reader(context)
        add = reader.add_splits
        kept = lambda splits: add([each for each in splits if each.split_id != "20"])  # noqa: E731
        reader.add_splits = kept  # type: ignore[method-assign]
        return reader


@HINTS.case("DataLossError")
def lost_rows(life: Life) -> Steps:
    source = Shrunk(0, ROWS - 1, split_rows=20, batch_rows=5)
    life.crash(FaultPoint.BEFORE_DECISION)
    error = yield lambda: life.run(source=source)
    (give_up,) = re.findall("`(.*?)`", str(error.hint))
    life.command(give_up.replace("UID SPLIT", "numbers 20"), "--yes")
    life.expected -= Counter(range(20, 40))
    yield lambda: life.run(source=source)


@HINTS.case("CommitError")
def lost_output(life: Life) -> Steps:
    life.crash(FaultPoint.AFTER_DECISION)
    shutil.rmtree(life.sink.path / "_staging")
    error = yield life.run
    give_up, option, show = re.findall("`(.*?)`", str(error.hint))
    (query,) = json.loads(life.command(show, "--json"))["queries"]
    (epoch,) = query["held"]
    life.command(give_up.replace("EPOCH", str(epoch)), option, "--yes")
    yield life.run


def without_sevens(life: Life) -> None:
    life.sink = Picky(life.sink.path)
    life.expected = Counter(value for value in range(ROWS) if value % 7)


@HINTS.case("BadRecordError")
def bad_record(life: Life) -> Steps:
    without_sevens(life)
    error = yield life.run
    assert "record policy skip" in str(error.hint)
    yield lambda: life.run(policy=RecordPolicy.skip())


@HINTS.case("BadRecordLimitError")
def too_many(life: Life) -> Steps:
    without_sevens(life)
    error = yield lambda: life.run(policy=RecordPolicy.skip(max_records=1))
    assert "raise" in str(error.hint)
    yield lambda: life.run(policy=RecordPolicy.skip(max_records=ROWS))


@HINTS.case("StateVersionError")
def newer_release(life: Life) -> Steps:
    with pytest.MonkeyPatch.context() as newer:
        newer.setattr(documents, "FORMAT", documents.FORMAT + 1)
        life.crash(FaultPoint.AFTER_DECISION)
    error = yield life.run
    assert "run the release that wrote the state" in str(error.hint)
    with pytest.MonkeyPatch.context() as newer:
        newer.setattr(documents, "FORMAT", documents.FORMAT + 1)
        yield life.run


@HINTS.case("UnsupportedError")
def end_of_the_endless(life: Life) -> Steps:
    life.expected = Counter()
    error = yield lambda: life.pipeline(source=ENDLESS).run(available_now=True)
    assert "use Pipeline.start()" in str(error.hint)
    yield partial(start, life)


@HINTS.case("CONNECTION")
def unreachable(life: Life) -> Steps:
    class Checked(NumberSequenceSource, SupportsConnectionCheck):
        def check_connection(self, timeout: float) -> None:
            raise OSError(111, "Connection refused")

    error = yield lambda: life.run(source=Checked(0, ROWS - 1), connection_timeout="5 s")
    (name, value) = re.findall(r"Pipeline\(..., (\w+)=(None)\)", str(error.hint))[0]
    yield lambda: life.run(source=Checked(0, ROWS - 1), **{name: {"None": None}[value]})


@HINTS.case("EVENT_TIME_OUT_OF_RANGE")
def far_future(life: Life) -> Steps:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda rows: pc.if_else(pc.equal(rows["value"], 7), 1 << 60, pc.add(rows["value"], 1)),
        column_name="event_time",
        epoch_unit="us",
    )
    life.expected = Counter(value for value in range(ROWS) if value != 7)
    error = yield lambda: life.run(strategy=strategy)
    assert "record policy skip" in str(error.hint)
    yield lambda: life.run(strategy=strategy, reading=RecordPolicy.skip())


@HINTS.case("NO_ROUTE")
def unrouted(life: Life) -> Steps:
    kept = life.sink
    life.expected = Counter(range(0, ROWS, 2))
    life.sink = DemultiplexingSink(OnlyEven(kept.path))
    error = yield life.run
    assert "record policy skip" in str(error.hint)
    yield lambda: life.run(policy=RecordPolicy.skip())
    life.sink = kept


class OnlyEven(SinkRouter):
    """Has no route for odd numbers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def routes(self, batch: pa.RecordBatch) -> pa.Array:
        odd = pc.equal(pc.bit_wise_and(batch["value"], 1), 1)
        return pc.if_else(odd, None, "even")

    def create_sink(self, route: str) -> DirectorySink:
        return DirectorySink(self.path)


class Failing(NumberSequenceSource):
    """Fails when it is read."""

    def __init__(self, error: Exception) -> None:
        super().__init__(0, ROWS - 1, split_rows=20, batch_rows=5)
        self.error = error

    def create_reader(self, context: Any) -> Any:
        raise self.error


# --- Tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HINTS.kinds)
def test_the_hint_of_an_error_leads_to_a_running_pipeline(tmp_path: Path, kind: str) -> None:
    life = Life(tmp_path)
    error = HINTS.follow(kind, life)
    if not hasattr(e, kind):
        assert error.code == kind
    rows = life.sink.read()
    found = rows["value"].to_pylist() if rows.num_columns else []
    assert Counter(found) == life.expected


def test_every_kind_of_error_has_a_case_or_a_reason() -> None:
    assert HINTS.differences() == []


def test_a_new_kind_of_error_needs_a_case() -> None:
    none = HintCases(connectors_core, reasons={"AbsentError": "none", "FatalError": "a base"})
    none.case("FatalError")(broken)
    found = none.differences()
    assert "SqlError has neither a case nor a reason" in found
    assert "NO_ROUTE has neither a case nor a reason" in found
    assert found[-2:] == ["FatalError has a case and a reason", "no AbsentError exists"]
