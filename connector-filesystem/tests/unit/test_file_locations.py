# SPDX-License-Identifier: Apache-2.0
"""Tests the paths of a location, its secrets, and listings of remote storage."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import fsspec
import pytest
from faulty_files import FaultyFiles, Storage
from reading_files import rows_of

from connector_filesystem import FileSource, filesystem
from connector_filesystem.filesystem import FileLocation
from connector_filesystem.listing import Listing, list_elsewhere
from connectors_core.errors import (
    InvalidOptionError,
)


def test_paths_stay_inside_a_location():
    location = FileLocation("/data/*.csv")
    assert location.root == "/data"
    assert location.join("a", "b.csv") == "/data/a/b.csv"
    for bad in ("../a", "/etc/passwd", "a/../../b"):
        with pytest.raises(InvalidOptionError):
            location.join(bad)
    with pytest.raises(InvalidOptionError):
        location.relative("/other/a.csv")
    assert location.relative("/data/x/a.csv") == "x/a.csv"


def test_secrets_of_a_location_are_masked():
    location = FileLocation("s3://user:word@bucket/x?token=t", {"secret": "hidden", "region": "eu"})
    assert "word" not in repr(location)
    assert "hidden" not in repr(location)
    assert "=t" not in repr(location)
    assert "eu" in repr(location)


@pytest.mark.parametrize("pattern", ["", "/*.csv", "/**", "/*/*.csv"])
def test_an_unreadable_remote_folder_is_an_error_and_not_empty(tmp_path, monkeypatch, pattern):
    """`find` and `glob` of fsspec treat the failure as a folder without files."""
    (tmp_path / "sub").mkdir()
    for name in ("a.csv", "sub/b.csv"):
        (tmp_path / name).write_text("1\n")
    failing = str(tmp_path / "sub" if pattern != "/*.csv" else tmp_path)
    with Storage().embedded() as address:
        location = FileLocation(f"{address}{tmp_path}{pattern}")
        listing = Listing()
        list_elsewhere(location, lambda *_: None, listing)
        wanted = {"": 2, "/*.csv": 1, "/**": 2, "/*/*.csv": 1}
        assert len(listing.files) == wanted[pattern]

        list_folder = FaultyFiles.ls

        def ls(self, path, **settings):
            if path == failing:
                raise ConnectionResetError("the storage has gone")
            return list_folder(self, path, **settings)

        monkeypatch.setattr(FaultyFiles, "ls", ls)
        with pytest.raises(ConnectionResetError):
            list_elsewhere(location, lambda *_: None, Listing())


def test_the_listing_of_a_remote_file_is_the_file_itself(tmp_path):
    (tmp_path / "a.csv").write_text("1\n")
    with Storage().embedded() as address:
        listing = Listing()
        list_elsewhere(FileLocation(f"{address}{tmp_path}/a.csv"), lambda *_: None, listing)
        assert list(listing.files) == [str(tmp_path / "a.csv")]
        with pytest.raises(FileNotFoundError):
            list_elsewhere(FileLocation(f"{address}{tmp_path}/none"), lambda *_: None, listing)


@pytest.fixture
def opened(monkeypatch):
    """Collect the options with which filesystems are opened."""
    found = []

    def url_to_fs(url, **options):
        found.append(options)
        return fsspec.core.url_to_fs(url, **options)

    monkeypatch.setattr(filesystem, "url_to_fs", url_to_fs)
    return found


def test_a_filesystem_is_opened_once_and_not_for_each_file(tmp_path, opened):
    for number in range(20):
        (tmp_path / f"{number}.json").write_text('{"id": 1}\n')
    source = FileSource(tmp_path, schema="id INT")
    assert len(rows_of(source)) == 20
    assert len(opened) <= 2  # by listing and by reading


def test_a_filesystem_is_opened_again_when_its_secret_changes(opened, monkeypatch):
    location = FileLocation("memory://x", {"key": "${env:KEY_OF_TEST}"})
    for key in ("old", "old", "new"):
        monkeypatch.setenv("KEY_OF_TEST", key)
        assert location.fs is location.fs
    assert [each["key"] for each in opened] == ["old", "new"]


def test_each_thread_has_its_own_filesystem(opened):
    location = FileLocation("memory://x")
    with ThreadPoolExecutor(1) as other:
        assert location.fs is not None
        assert other.submit(lambda: location.fs).result() is not None
    assert len(opened) == 2
