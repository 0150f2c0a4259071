# SPDX-License-Identifier: Apache-2.0
"""Tests that files which the log of a table must list are not read as plain files."""

from __future__ import annotations

import os
from datetime import timedelta

import fsspec
import pytest
from file_discovery import Context, started, take_all
from reading_files import rows_of
from staged_files import committer_of

from connector_filesystem import FileSink, FileSource, KeyedFileSink, table_logs
from connector_filesystem.source import discovery
from connector_filesystem.table_logs import logs_above
from connectors_core.errors import ConfigurationError

LOGS = {
    "_delta_log/00000000000000000000.json": "delta",
    "_spark_metadata/0": "Spark's file sink",
    ".hoodie/hoodie.properties": "hudi",
    "metadata/v1.metadata.json": "iceberg",
}


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    """A folder on a disk, and one whose listing shows files alone, as in an object store."""
    if request.param == "local":
        return str(tmp_path)
    return f"memory://{tmp_path}"


def write(folder, *names):
    for name in names:
        fs, path = fsspec.core.url_to_fs(f"{folder}/{name}")
        fs.makedirs(os.path.dirname(path), exist_ok=True)
        fs.pipe_file(path, b"x\n1\n")


def source(*paths, **settings):
    return FileSource(list(paths), format="csv", schema="x INT", **settings)


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize(
    "path", ["", "/day=1", "/day=1/a.csv", "/day=1/h=2", "/*/*.csv", "/day=*/*.csv", "/*.csv"]
)
def test_the_files_of_a_table_are_refused(folder, log, path):
    write(folder, f"t/{log}", "t/day=1/a.csv", "t/day=1/h=2/b.csv", "t/c.csv")
    with pytest.raises(ConfigurationError, match="belong to a table") as refused:
        rows_of(source(f"{folder}/t{path}"))
    assert refused.value.option == "source.ignore-table-log"
    assert LOGS[log] in refused.value.hint
    every = source(f"{folder}/t{path}", ignore_table_log=True, path_regex=r".*\.csv")
    assert rows_of(every)


@pytest.mark.parametrize("log", LOGS)
def test_a_table_below_the_path_and_one_of_several_paths_are_refused(folder, log):
    write(folder, f"all/t/{log}", "all/t/a.csv", "plain/b.csv")
    for paths in ([f"{folder}/all"], [f"{folder}/plain", f"{folder}/all/t"]):
        with pytest.raises(ConfigurationError, match="belong to a table"):
            rows_of(source(*paths))


def test_the_data_folder_of_a_table_is_refused(folder):
    write(folder, "t/metadata/v1.metadata.json", "t/data/day=1/a.csv")
    with pytest.raises(ConfigurationError, match="belong to a table"):
        rows_of(source(f"{folder}/t/data/day=1"))


@pytest.mark.parametrize("path", ["2026", "2026/11", "2026/11/29", "2026/11/29/a.csv"])
@pytest.mark.parametrize("log", ["_delta_log/0.json", ".hoodie/hoodie.properties"])
def test_a_folder_of_any_name_in_a_table_is_refused(folder, log, path):
    write(folder, f"t/{log}", "t/2026/11/29/a.csv")
    with pytest.raises(ConfigurationError, match="belong to a table"):
        rows_of(source(f"{folder}/t/{path}"))


@pytest.mark.parametrize("log", ["_spark_metadata/0", "metadata/v1.metadata.json"])
def test_a_folder_that_such_a_table_never_has_is_read(folder, log):
    write(folder, f"t/{log}", "t/2026/a.csv")
    assert len(rows_of(source(f"{folder}/t/2026"))) == 1


@pytest.mark.parametrize("log", LOGS)
def test_a_link_to_a_partition_of_a_table_is_refused(tmp_path, log):
    write(tmp_path, f"t/{log}", "t/data/day=1/a.csv")
    (tmp_path / "link").symlink_to(tmp_path / "t/data/day=1")
    with pytest.raises(ConfigurationError, match="belong to a table"):
        rows_of(source(str(tmp_path / "link")))


def test_few_folders_around_the_path_are_looked_at(folder):
    write(folder, "a/b/c/d/e/x=1/f.csv")
    location = source(f"{folder}/a/b/c/d/e/x=1")._selection.locations[0]
    looked = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_logs, "log_in", lambda _, folder, names: looked.append(folder))
        logs_above(location)
    assert [each.rpartition("/")[2] for each in looked] == ["e", "d", "c", "b"]


def test_files_beside_a_table_are_read(folder):
    write(folder, "t/_delta_log/0.json", "t/a.csv", "b.csv", "u/metadata/c.csv")
    assert len(rows_of(source(f"{folder}/b.csv"))) == 1
    assert len(rows_of(source(f"{folder}/u"))) == 1
    write(folder, "t/_change_data/d.csv")
    assert len(rows_of(source(f"{folder}/t/_change_data"))) == 1
    (log,) = [FileSource(f"{folder}/t/_delta_log", format="csv", schema="x INT")]
    assert len(rows_of(log)) == 1  # asking for the log itself


@pytest.mark.parametrize("own", ["_manifests/1.json", "_contents/a.json", "_SUCCESS"])
def test_the_folder_of_a_sink_is_read(folder, own):
    write(folder, f"t/{own}", "t/day=1/a.csv")
    for path in ("t", "t/day=1", "t/*/*.csv"):
        assert len(rows_of(source(f"{folder}/{path}"))) == 1


def test_a_folder_that_becomes_a_table_stops_the_source(tmp_path):
    write(tmp_path, "a.csv")
    context = Context()
    monitored = source(str(tmp_path), monitor_interval=timedelta(seconds=1))
    enumerator = started(monitored, context)
    assert take_all(enumerator, context) == ["a.csv"]
    write(tmp_path, "_delta_log/0.json", "b.csv")
    with pytest.raises(ConfigurationError, match="belong to a table"):
        context.run_calls()


def test_tables_around_the_path_are_looked_for_once(tmp_path, monkeypatch):
    write(tmp_path, "t/day=1/a.csv")
    monitored = source(str(tmp_path / "t/day=1"))
    asked = []
    monkeypatch.setattr(
        discovery, "logs_above", lambda location: asked.append(location) or logs_above(location)
    )
    for _ in range(3):
        monitored._selection.listing(may_be_missing=False)
    assert len(asked) == 1


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("path", ["t", "t/day=1", "t/day=1/h=2"])
def test_no_sink_writes_to_a_table(folder, log, path):
    write(folder, f"t/{log}", "t/day=1/a.csv")
    plain = FileSink(f"{folder}/{path}")
    empty = KeyedFileSink(FileSink(f"{folder}/{path}"), ("x",))
    for sink in (plain, plain.apply_overwrite({}), empty):
        with pytest.raises(ConfigurationError, match=r"belongs to a table|no key identifies"):
            committer_of(sink)


def test_a_sink_writes_beside_tables_and_to_its_own_folder(folder):
    write(folder, "t/_delta_log/0.json", "u/metadata/c.csv", "u/_manifests/1.json", "u/a.csv")
    for path in ("v", "u", "u/2026/11"):
        committer_of(FileSink(f"{folder}/{path}"))
