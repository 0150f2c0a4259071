# SPDX-License-Identifier: Apache-2.0
"""Tests that a path without files is an error, unless it may be missing."""

from __future__ import annotations

import pickle
from datetime import timedelta

import fsspec
import pytest
from file_discovery import Context, started, take_all
from reading_files import rows_of, splits_of

from connector_filesystem import FileSource
from connectors_core.errors import ConfigurationError


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    return str(tmp_path) if request.param == "local" else f"memory://{tmp_path}"


def write(folder, *names, content=b"x\n1\n"):
    for name in names:
        fs, path = fsspec.core.url_to_fs(f"{folder}/{name}")
        fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.pipe_file(path, content)


def source(*paths, **settings):
    return FileSource(list(paths), format="csv", schema="x INT", **settings)


def listed(source):
    context = Context()
    enumerator = started(source, context)
    return take_all(enumerator, context), context.ended


@pytest.mark.parametrize("path", ["*.json", "[ab]/*.csv", "none/*/*.csv", "**/z.csv", "none"])
def test_a_path_without_a_match_is_an_error_of_a_bounded_source(folder, path):
    write(folder, "a.csv", "x/b.csv")
    for paths in ([f"{folder}/{path}"], [f"{folder}/*.csv", f"{folder}/{path}"]):
        with pytest.raises(ConfigurationError, match=r"matches no file|no file or folder") as error:
            listed(source(*paths))
        assert error.value.option == "path"
        assert "source.allow-missing-paths" in error.value.hint
    assert listed(source(f"{folder}/{path}", allow_missing_paths=True)) == ([], [0])


def test_a_monitored_pattern_waits_for_its_first_file(folder):
    write(folder, "b.csv")
    context = Context()
    enumerator = started(source(f"{folder}/a*.csv", monitor_interval=timedelta(seconds=1)), context)
    enumerator.handle_split_request(0)
    assert context.names == []
    write(folder, "a1.csv")
    context.run_calls()
    assert context.names == ["a1.csv"]


@pytest.mark.parametrize("content", [b"", b"x\n"])
def test_a_pattern_that_matches_files_without_rows_reads_no_rows(folder, content):
    write(folder, "a.csv", content=content)
    assert rows_of(source(f"{folder}/*.csv")) == []


def test_a_pattern_that_matches_an_empty_folder_reads_no_rows(tmp_path):
    (tmp_path / "day=1").mkdir()
    assert listed(source(f"{tmp_path}/day=*")) == ([], [0])


@pytest.mark.parametrize("name", ["[x]", "a*b", "what?", "[[x]]"])
def test_an_existing_folder_is_read_although_its_name_is_a_pattern(folder, name):
    write(folder, f"{name}/k=1/a.csv", "x/k=1/other.csv", "aXb/k=1/other.csv")
    existing = source(f"{folder}/{name}", partition_columns=["k"])
    existing = pickle.loads(pickle.dumps(existing))
    assert [split.path.rpartition("/")[2] for split in splits_of(existing)] == ["a.csv"]
    assert rows_of(existing) == [{"x": 1, "k": "1"}]
    assert rows_of(source(f"{folder}/{name}/k=1/a.csv")) == [{"x": 1}]


def test_an_escaped_bracket_is_a_part_of_a_name(folder):
    write(folder, "[x]/a.csv", "x/b.csv")
    assert listed(source(f"{folder}/[[]x]/*.csv"))[0] == ["a.csv"]
