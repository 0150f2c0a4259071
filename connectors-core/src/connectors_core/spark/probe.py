# SPDX-License-Identifier: Apache-2.0
"""Checks the executors before the first batch of an application."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from connectors_core.engine.state import StateStore
from connectors_core.errors import ConfigurationError, StateLocationError
from connectors_core.spark.failures import short_cause
from connectors_core.spark.workers import workers_differ

PACKAGES = ("connectors-core", "pyarrow")

# The state locations that the executors of an application have proved to share with its driver.
_proved: set[tuple[str, str]] = set()


def versions() -> dict[str, str]:
    """Return the versions that the driver and executors must share."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def probe_executors(spark: SparkSession, store: StateStore) -> None:
    """Check the versions and the state location in every executor slot.

    An application whose executors passed is not checked again. On a local master, executors are
    threads of the driver's JVM and share its files, so one state location stands for all.

    Args:
        spark: The session.
        store: The state location. The driver must see the files that executors write there.

    Raises:
        StateLocationError: Executors write to a location that the driver does not see.
        ConfigurationError: Driver and executors have different versions.
    """
    context = spark.sparkContext
    local = re.fullmatch(r"local(\[.*\])?", context.master or "") is not None
    key = (context.applicationId, "" if local else str(store))
    if key in _proved:
        return
    slots = context.defaultParallelism
    folder = f"probe/{uuid.uuid4().hex}"
    probes = spark.range(0, slots, 1, slots).mapInArrow(
        _Probe(store, folder), "name string, versions binary"
    )
    try:
        rows = probes.collect()
    except Exception as error:
        differ = workers_differ(spark)
        if differ is None:
            raise
        raise differ from short_cause(error)
    written = set(store.list(folder))
    store.delete_tree(folder)
    mine = versions()
    for row in rows:
        if row.name not in written:
            raise StateLocationError(
                "the driver does not see the files of executors in the state location",
                expected=f"{store} on shared storage",
                found="a folder that is local to each machine",
                option="state_location",
                hint="set state_location to a URL that the driver and executors share",
            )
        theirs = orjson.loads(bytes(row.versions))
        if theirs != mine:
            raise ConfigurationError(
                "the driver and executors have different packages",
                expected=mine,
                found=theirs,
                hint="use one environment for both (spark.pyspark.python, spark.archives); run "
                "`connectors doctor` to compare them",
            )
    _proved.add(key)


@dataclass(frozen=True)
class _Probe:
    store: StateStore
    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            name = uuid.uuid4().hex
            self.store.create(f"{self.folder}/{name}", b"")
            yield pa.RecordBatch.from_arrays(
                [pa.array([name]), pa.array([orjson.dumps(versions())], pa.binary())],
                names=["name", "versions"],
            )
