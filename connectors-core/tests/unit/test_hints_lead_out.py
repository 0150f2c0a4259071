# SPDX-License-Identifier: Apache-2.0
"""Follows the hint of each class of errors literally, and ends with a running pipeline.

A scenario is a generator. It yields a call that fails with its class, receives the error, follows
the hint, and yields a call that succeeds. A class without a scenario must say why in `ELSEWHERE`.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
import shutil
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_rewriting import Picky
from typer.testing import CliRunner

import connectors_core
from connectors_core import errors as e
from connectors_core.cli import app
from connectors_core.errors import ConnectorError
from connectors_core.options import Configured, Setting, option
from connectors_core.records import RecordPolicy
from connectors_core.source import DataGeneratorSource, NumberSequenceSource, ReadLimits
from connectors_core.testing.directory_sink import DirectorySink
from connectors_core.testing.environment import InProcess
from connectors_core.testing.faults import Fault, FaultAction, FaultInjected, FaultPoint, injected

ROWS = 60
SECONDS = 30
Steps = Generator[Callable[[], object], ConnectorError, None]
Scenario = Callable[["Life"], Steps]
SCENARIOS: dict[type[ConnectorError], Scenario] = {}

ELSEWHERE = {
    "ConnectorError": "a base",
    "ForeignError": "only a cause",
    "OptionError": "a base",
    "StateVersionError": "needs another release; see test_stored_state",
    "UnsupportedError": "raised before a pipeline exists",
    "MissingDependencyError": "raised before a pipeline exists; see test_compatibility",
    "SparkMismatchError": "raised before a pipeline exists; see test_compatibility",
    "SplitChangedError": "only connectors raise it",
    "UnexpectedError": "a bug of a connector: it leads to a report",
    "FetchError": "follows another error, which has the hint",
    "CatalogError": "no pipeline raises it, nor its subclasses",
    "SqlError": "raised before a pipeline exists",
}


def leads_out(kind: type[ConnectorError]) -> Callable[[Scenario], Scenario]:
    def add(scenario: Scenario) -> Scenario:
        SCENARIOS[kind] = scenario
        return scenario

    return add


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
        **settings: Any,
    ) -> Any:
        state = settings.pop("state", self.state)
        pipeline = InProcess().pipeline("p", state, parallelism=1, **settings)
        source = source or NumberSequenceSource(0, ROWS - 1, split_rows=20, batch_rows=5)
        rows = pipeline.from_source(source, uid=uid, limits=ReadLimits(rows=10))
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


@leads_out(e.ConfigurationError)
def endless(life: Life) -> Steps:
    source = DataGeneratorSource(
        lambda indices: pa.record_batch([indices], ["value"]), None, pa.schema([("value", "int64")])
    )
    error = yield lambda: life.pipeline(source=source).run()
    assert "start()" in str(error.hint)
    life.expected = Counter()

    def start() -> None:
        with life.pipeline(source=source) as pipeline:
            pipeline.start()

    yield start


class Numbers(Configured):
    """The options of a source."""

    rows: Setting[int] = option("rows", int, doc="Number of rows.")


@leads_out(e.UnknownOptionError)
def misspelled(life: Life) -> Steps:
    given = {"rosw": str(ROWS)}
    error = yield lambda: Numbers.from_options(given)
    (key,) = re.findall("did you mean '(.*)'", str(error.hint))
    made = Numbers.from_options({key: given[str(error.option)]})
    yield lambda: life.run(source=NumberSequenceSource(0, made.rows - 1))


@leads_out(e.MissingOptionError)
def missing(life: Life) -> Steps:
    error = yield lambda: Numbers.from_options({})
    (key,) = re.findall("set '(.*)'", str(error.hint))
    made = Numbers.from_options({key: str(ROWS)})
    yield lambda: life.run(source=NumberSequenceSource(0, made.rows - 1))


@leads_out(e.InvalidOptionError)
def invalid(life: Life) -> Steps:
    error = yield lambda: life.run(connection_timeout="soon")
    (value,) = re.findall(r"such as '?(\d+ \w+)", str(error.expected))
    yield lambda: life.run(**{str(error.option): value})


@leads_out(e.StateLocationError)
def unusable(life: Life) -> Steps:
    life.state.parent.mkdir(exist_ok=True)
    life.state.write_text("a file")
    error = yield life.run
    assert error.option == "state_location"
    life.state.unlink()
    yield life.run


@leads_out(e.IdentityError)
def renamed(life: Life) -> Steps:
    life.crash(FaultPoint.AFTER_DECISION)
    error = yield lambda: life.run(uid="letters")
    assert "uid" in str(error.hint)
    yield life.run


@leads_out(e.LeaseError)
def twice(life: Life) -> Steps:
    first = life.pipeline()
    first.start()
    error = yield life.run
    assert "stop the other Pipeline object" in str(error.hint)
    first.stop()
    yield life.run


@leads_out(e.RetryableError)
def away(life: Life) -> Steps:
    failing = Failing(e.RetryableError("the system is away"))
    error = yield lambda: life.run(source=failing)
    assert "restart" in str(error.hint)
    yield life.run


@leads_out(e.FatalError)
def broken(life: Life) -> Steps:
    error = yield lambda: life.run(source=Failing(OSError(5, "broken")))
    assert "fix the cause and restart" in str(error.hint)
    yield life.run


@leads_out(e.StateCorruptedError)
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


@leads_out(e.DataLossError)
def lost_rows(life: Life) -> Steps:
    source = Shrunk(0, ROWS - 1, split_rows=20, batch_rows=5)
    life.crash(FaultPoint.BEFORE_DECISION)
    error = yield lambda: life.run(source=source)
    (give_up,) = re.findall("`(.*?)`", str(error.hint))
    life.command(give_up.replace("UID SPLIT", "numbers 20"), "--yes")
    life.expected -= Counter(range(20, 40))
    yield lambda: life.run(source=source)


@leads_out(e.CommitError)
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


@leads_out(e.BadRecordError)
def bad_record(life: Life) -> Steps:
    without_sevens(life)
    error = yield life.run
    assert "record policy skip" in str(error.hint)
    yield lambda: life.run(policy=RecordPolicy.skip())


@leads_out(e.BadRecordLimitError)
def too_many(life: Life) -> Steps:
    without_sevens(life)
    error = yield lambda: life.run(policy=RecordPolicy.skip(max_records=1))
    assert "raise" in str(error.hint)
    yield lambda: life.run(policy=RecordPolicy.skip(max_records=ROWS))


class Failing(NumberSequenceSource):
    """Fails when it is read."""

    def __init__(self, error: Exception) -> None:
        super().__init__(0, ROWS - 1, split_rows=20, batch_rows=5)
        self.error = error

    def create_reader(self, context: Any) -> Any:
        raise self.error


# --- Tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: kind.__name__)
def test_the_hint_of_an_error_leads_to_a_running_pipeline(
    tmp_path: Path, kind: type[ConnectorError]
) -> None:
    life = Life(tmp_path)
    steps = SCENARIOS[kind](life)
    fail = next(steps)
    with pytest.raises(kind) as failure:
        fail()
    assert type(failure.value) is kind
    succeed = steps.send(failure.value)
    succeed()
    rows = life.sink.read()
    found = rows["value"].to_pylist() if rows.num_columns else []
    assert Counter(found) == life.expected


def test_every_class_of_errors_has_a_scenario_or_a_reason() -> None:
    known = {kind.__name__ for kind in SCENARIOS} | ELSEWHERE.keys()
    assert [kind.__name__ for kind in _of_the_core() if not _names(kind) & known] == []


def test_every_reason_is_needed() -> None:
    names = {kind.__name__ for kind in _of_the_core()}
    assert ELSEWHERE.keys() - names == set()
    assert ELSEWHERE.keys() & {kind.__name__ for kind in SCENARIOS} == set()


def _names(kind: type[ConnectorError]) -> set[str]:
    """Return the name of a class, and of `CatalogError` for its subclasses."""
    of_catalogs = kind.__module__ == "connectors_core.catalog.errors"
    return {kind.__name__, *(["CatalogError"] if of_catalogs else [])}


def _of_the_core() -> list[type[ConnectorError]]:
    packages = pkgutil.walk_packages(
        connectors_core.__path__, "connectors_core.", onerror=lambda _: None
    )  # a Spark line lacks some
    for module in packages:
        if module.name.endswith((".errors", ".element_queue")) and ".testing" not in module.name:
            importlib.import_module(module.name)
    tree = e._tree(ConnectorError)
    return [each for each in tree if re.match(r"connectors_core\.(?!testing)", each.__module__)]
