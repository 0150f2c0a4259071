# SPDX-License-Identifier: Apache-2.0
"""Tests the paths of a location, its secrets, and listings of remote storage."""

from __future__ import annotations

import pytest
from faulty_files import FaultyFiles, Storage

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
