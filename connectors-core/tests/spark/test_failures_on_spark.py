# SPDX-License-Identifier: Apache-2.0
"""Tests what a user sees when a pipeline fails on Spark, in batch and streaming."""

from __future__ import annotations

import errno
import os
import re
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pipeline_support import LogSource, counts, new_pipeline, once, travel_with_closures
from pyspark.errors import AnalysisException

from connectors_core.engine.query.status import PipelineState
from connectors_core.errors import (
    BadRecordError,
    ConfigurationError,
    ConnectorError,
    FatalError,
    ForeignError,
    RetryableError,
    UnsupportedError,
)
from connectors_core.sink import PrintSink, SupportsConnectionCheck
from connectors_core.spark import workers
from connectors_core.testing.directory_sink import DirectorySink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from connectors_core import Pipeline

travel_with_closures(__name__)

SCREEN = 50
MODES = pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])


def built(
    spark: SparkSession, root: Path, log: LogSource, *, streaming: bool, change=lambda df: df
) -> Pipeline:
    pipeline = new_pipeline(spark, root, streaming=streaming)
    df: DataFrame = pipeline.from_source(log, uid="log")
    pipeline.sink_to(change(df), DirectorySink(root / "out"), uid="out")
    return pipeline


@pytest.fixture
def log(tmp_path: Path) -> LogSource:
    """Return a log of four rows."""
    made = LogSource(tmp_path / "log")
    made.write("a", range(4))
    return made


def raised_by(pipeline: Pipeline) -> ConnectorError:
    with pipeline, pytest.raises(ConnectorError) as failure:
        pipeline.run(timeout=60)
    shown = "".join(traceback.format_exception(failure.value))
    assert len(shown.splitlines()) <= SCREEN, shown
    status = pipeline.status()
    assert status.state is PipelineState.FAILED
    assert failure.value.found is not None
    assert failure.value.found in str(status.error)
    return failure.value


@MODES
def test_a_full_disk_names_the_location(
    spark: SparkSession, tmp_path: Path, log: LogSource, streaming: bool
) -> None:
    def full(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        yield

    def change(df: DataFrame) -> DataFrame:
        return df.mapInArrow(full, df.schema)

    hint = raised_by(built(spark, tmp_path, log, streaming=streaming, change=change)).hint
    assert re.search(rf"free space under \S*{tmp_path}", str(hint))


ACTIONS: list[Callable[[DataFrame], object]] = [
    lambda df: df.collect(),
    lambda df: df.where("n > 1").show(),
    lambda df: df.toPandas(),
    lambda df: df.groupBy("n").count().first(),
    lambda df: df.cache().count(),
    lambda df: df.rdd.count(),
]


def test_an_action_on_a_stream_says_how_to_see_its_rows(
    spark: SparkSession, tmp_path: Path, log: LogSource
) -> None:
    with new_pipeline(spark, tmp_path, streaming=True) as pipeline:
        df = pipeline.from_source(log, uid="log")
        for action in ACTIONS:
            with pytest.raises(UnsupportedError, match="read no stream of a pipeline") as failure:
                action(df)
            assert failure.value.__cause__ is None  # the line of the user comes last
        assert 'pipeline.sink_to(df, PrintSink(), uid="print") and pipeline.run()' in str(
            failure.value.hint
        )
        pipeline.sink_to(df, PrintSink(), uid="print")
        pipeline.run(timeout=60)


def test_an_action_on_another_stream_keeps_the_error_of_spark(
    spark: SparkSession, tmp_path: Path, log: LogSource
) -> None:
    with new_pipeline(spark, tmp_path, streaming=True) as pipeline:
        pipeline.from_source(log, uid="log")
        with pytest.raises(AnalysisException, match="writeStream"):
            spark.readStream.format("rate").load().collect()
        with pytest.raises(AnalysisException, match="no_such_table"):
            spark.table("no_such_table")


@MODES
def test_a_bad_record_is_reported_with_its_position_and_the_next_run_continues(
    spark: SparkSession, tmp_path: Path, streaming: bool
) -> None:
    log = LogSource(tmp_path / "log")
    log.write("a", [0, 1, "bad", 3])
    error = raised_by(built(spark, tmp_path, log, streaming=streaming))
    assert isinstance(error, BadRecordError)
    assert error.code == "BAD_RECORD"
    assert isinstance(error.__cause__, BadRecordError)
    assert error.found is not None
    assert error.found.startswith("BadRecordError: [BAD_RECORD] bad record of split 'a' at 2")
    assert log.reads == 1, "a further attempt would fail in the same way"
    (tmp_path / "log" / "a.log").write_text("0 0\n1 1\n2 2\n3 3\n")
    with built(spark, tmp_path, log, streaming=streaming) as pipeline:
        assert pipeline.run(timeout=60)
    assert counts(DirectorySink(tmp_path / "out")) == once(range(4))


@MODES
def test_an_exception_in_user_code_is_reported_in_its_own_words(
    spark: SparkSession, tmp_path: Path, log: LogSource, streaming: bool
) -> None:
    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            raise LookupError("no such plane")

    change = lambda df: df.mapInArrow(broken, df.schema)  # noqa: E731
    error = raised_by(built(spark, tmp_path, log, streaming=streaming, change=change))
    assert isinstance(error, FatalError)
    assert error.found == "LookupError: no such plane"
    assert isinstance(error.__cause__, ForeignError)
    assert "broken" in error.__cause__.traceback_text


@MODES
def test_an_error_in_the_jvm_is_summarized_by_its_first_line(
    spark: SparkSession, tmp_path: Path, log: LogSource, streaming: bool
) -> None:
    from pyspark.sql import functions as F

    change = lambda df: df.select(  # noqa: E731
        F.when(F.col("n") < 2, F.col("n")).otherwise(F.raise_error("no plane")).alias("n")
    )
    error = raised_by(built(spark, tmp_path, log, streaming=streaming, change=change))
    assert error.found is not None
    assert "no plane" in error.found


def test_a_query_that_spark_refuses_is_a_configuration_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = LogSource(tmp_path / "log")
    change = lambda df: df.groupBy("n").count()  # noqa: E731
    error = raised_by(built(spark, tmp_path, log, streaming=True, change=change))
    assert isinstance(error, ConfigurationError)


# --- Workers without the packages -----------------------------------------------------------------


def test_differences_between_workers_and_the_driver_are_reported(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workers.workers_differ(spark) is None
    monkeypatch.setattr(workers, "installed_version", {"pyarrow": "1.0"}.get)
    error = workers.workers_differ(spark)
    assert isinstance(error, ConfigurationError)
    assert "(driver 1.0)" in str(error)
    assert f"export PYSPARK_PYTHON={sys.executable}" in str(error.hint)


_BARE = """
import sys, traceback
from pathlib import Path
from pyspark.sql import SparkSession
from connectors_core import Pipeline
from connectors_core.errors import ConnectorError
from connectors_core.source import NumberSequenceSource
from connectors_core.testing.directory_sink import DirectorySink

root = Path(sys.argv[1])
spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
for streaming in (False, True):
    folder = root / str(streaming)
    try:
        with Pipeline(
            spark, "p", checkpoint_location=str(folder), streaming=streaming
        ) as pipeline:
            df = pipeline.from_source(NumberSequenceSource(0, 9), uid="numbers")
            pipeline.sink_to(df, DirectorySink(folder / "out"), uid="out")
            pipeline.run(timeout=60)
    except ConnectorError:
        print(traceback.format_exc(), "----")
"""


@pytest.mark.slow
def test_a_worker_python_without_the_packages_is_reported_as_by_the_doctor(
    tmp_path: Path,
) -> None:
    """The workers use the default Python, which lacks the packages of the driver."""
    bare = Path(sys.base_prefix) / "bin" / "python3"
    if subprocess.run([bare, "-c", "import pyarrow"], capture_output=True).returncode == 0:
        pytest.skip("the Python that environments are made from has pyarrow itself")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(bare)
    environment = dict(os.environ) | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    environment.pop("PYSPARK_PYTHON", None)
    environment.pop("PYSPARK_DRIVER_PYTHON", None)
    ran = subprocess.run(
        [sys.executable, "-c", _BARE, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    batch, streaming, _ = ran.stdout.split("----")
    for shown in (batch, streaming):
        assert len(shown.strip().splitlines()) <= SCREEN
        assert "Python workers differ from the driver" in shown
        assert "pyarrow is missing" in shown
        assert f"export PYSPARK_PYTHON={sys.executable}" in shown


# --- Checks before the start ---------------------------------------------------------------------


class UnreachableSink(DirectorySink, SupportsConnectionCheck):
    def check_connection(self, timeout: float) -> None:
        raise RetryableError("the service does not answer", found="localhost:9 refused")


@MODES
def test_an_unresponsive_system_fails_the_start_and_leaves_no_files(
    spark: SparkSession, tmp_path: Path, log: LogSource, streaming: bool
) -> None:
    def pipeline(**options: object) -> Pipeline:
        made = new_pipeline(spark, tmp_path, streaming=streaming, **options)
        df = made.from_source(log, uid="log")
        made.sink_to(df, UnreachableSink(tmp_path / "out"), uid="out")
        return made

    with pipeline() as refused, pytest.raises(RetryableError, match="sink 'out'") as raised:
        refused.run(timeout=60)
    assert "localhost:9 refused" in str(raised.value)
    assert log.reads == 0
    with pipeline(connection_timeout=None) as unasked:
        assert unasked.run(timeout=60)
    assert counts(DirectorySink(tmp_path / "out")) == once(range(4))


@pytest.fixture
def silent() -> Iterator[str]:
    """Start a server that accepts connections but never responds, and yield its host and port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield "{}:{}".format(*server.getsockname())


@MODES
def test_a_state_location_that_never_responds_is_named_within_the_timeout(
    spark: SparkSession, tmp_path: Path, silent: str, streaming: bool
) -> None:
    log = LogSource(tmp_path / "log")
    pipeline = new_pipeline(
        spark,
        tmp_path,
        streaming=streaming,
        state_location="s3://bucket/state",
        storage_options={"endpoint_url": f"http://{silent}", "key": "k", "secret": "s"},
        connection_timeout=timedelta(seconds=0.3),
    )
    with pytest.raises(RetryableError, match="s3://bucket/state") as raised:
        pipeline.from_source(log, uid="log")
    assert raised.value.option == "state_location"
    assert "no response within 0.3 s" in str(raised.value)


def with_checkpoint_at(spark: SparkSession, root: Path, url: str, **options: object) -> Pipeline:
    from connectors_core import Pipeline

    state = str(root / "state")
    made = Pipeline(
        spark, "p", checkpoint_location=url, state_location=state, streaming=True, **options
    )
    made.sink_to(
        made.from_source(LogSource(root / "log"), uid="log"), DirectorySink(root / "out"), uid="out"
    )
    return made


def test_a_checkpoint_location_that_never_responds_is_named_within_the_timeout(
    spark: SparkSession, tmp_path: Path, silent: str
) -> None:
    short = timedelta(seconds=0.2)
    pipeline = with_checkpoint_at(
        spark, tmp_path, f"hdfs://{silent}/checkpoint", connection_timeout=short
    )
    with pipeline, pytest.raises(RetryableError, match=f"hdfs://{silent}") as raised:
        pipeline.start()
    assert "the checkpoint location" in str(raised.value)
    assert pipeline.status().state is PipelineState.NOT_STARTED


def test_a_checkpoint_location_with_a_scheme_unknown_to_spark_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = with_checkpoint_at(spark, tmp_path, "nosuch://bucket/checkpoint")
    with pipeline, pytest.raises(ConfigurationError, match="nosuch://bucket") as raised:
        pipeline.start()
    assert raised.value.option == "checkpoint_location"
    assert len(str(raised.value).splitlines()) < 6
